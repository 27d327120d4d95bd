"""The timeline in a real browser: smooth over 50,000 events, searched, reached by links and by keys alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuledger.selection import Selection
from gpuledger.units import time_text
from gpuledger.verbs.report import build_report
from support.pages.html_pages import page_of, reported
from support.pages.page_browser import Browser, Page, kept_open, opened
from support.traces import trace_notation as notation

EVENTS = 50_000
FRAME_MS = 16.7
Unpacked = Callable[[str], Path]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page of one stretch with as many events as any holds: half of them calls, half kernels."""
    name = "{'needle' if n in (777, 20_001) else 'gemm'}"
    ran = f"s0: 5000-{{5100 + 53 * (n % 83)}} {name}"
    trace = notation.trace(f"{EVENTS // 2} times every 10000: 0-4000 launch -> {ran}")
    path = tmp_path_factory.mktemp("large") / "large.html"
    path.write_text(page_of(build_report(trace, "large", Selection(kernel_pattern="none|needle"))))
    return path.as_uri()


@pytest.fixture(scope="module")
def decode_page(tmp_path_factory: pytest.TempPathFactory, unpacked: Unpacked) -> str:
    path = tmp_path_factory.mktemp("decode") / "decode.html"
    path.write_text(page_of(reported(unpacked("decode.sqlite"))))
    return path.as_uri()


@pytest.fixture(scope="module")
def sparse(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page of 4,000 kernels that fill a tenth of the time, 1 us in 10; one thread only polls, another only reads."""
    trace = notation.trace(
        "4000 times every 10000: s0: 0-1000 gemm",
        "40 times every 1000000: t7: 0-999000 poll",
        "t8: 0-40000000 read",
    )
    path = tmp_path_factory.mktemp("sparse") / "sparse.html"
    path.write_text(page_of(build_report(trace, "sparse", Selection())))
    return path.as_uri()


def rest(page: Page) -> None:
    """Wait until nothing glides or scrolls any more, however slow the machine is."""
    page.evaluate("""async () => {
      const now = () => `${scrollY} ${document.querySelector('.tl-frame canvas').dataset.ticks} ${location.hash}`;
      let before = '';
      while (before !== now()) {
        before = now();
        await new Promise((done) => setTimeout(done, 400));
        for (let frame = 0; frame < 3; frame += 1) await new Promise(requestAnimationFrame);
      }
    }""")


def tall_of(page: Page) -> float:
    """How tall all rows of the timeline are."""
    return float(page.locator(".tl-tall").bounding_box()["height"])


def test_ink_is_time_however_far_out_the_view_is(sparse: str, browser: Browser) -> None:
    """In each of ten parts of the stream's lane, a tenth of the pixels is drawn; and all of a kernel up close."""
    ink = """([top, tall]) => {
      const canvas = document.querySelector('.tl-frame canvas'), scale = devicePixelRatio || 1;
      const copy = document.createElement('canvas');
      [copy.width, copy.height] = [canvas.width, canvas.height];
      const context = copy.getContext('2d', { willReadFrequently: true });
      context.drawImage(canvas, 0, 0);
      const { data, width } = context.getImageData(0, top * scale, canvas.width, tall * scale);
      const tone = getComputedStyle(document.documentElement).getPropertyValue('--compute-gemm').trim();
      const full = 255 - parseInt(tone.slice(1, 3), 16), parts = new Array(10).fill(0);
      for (let at = 0; at < data.length; at += 4) {
        parts[Math.floor(((at / 4) % width) / width * 10)] += (255 - data[at]) / full;
      }
      return parts.map((part) => part / (data.length / 40));
    }"""
    with kept_open(browser, sparse, width=1400) as page:
        page.emulate_media(color_scheme="light")
        frame = page.locator(".tl-frame")
        lane = [22 + 16 + 17 + 6 + 16, 24]  # below the axis, the idle row and the stream's own head
        shares = page.evaluate(ink, lane)
        assert all(0.08 < share < 0.12 for share in shares[1:-1]), shares
        low = tall_of(page)
        frame.press("t")
        assert tall_of(page) == low + 2 * (16 + 17 + 6)  # both threads' heads and lanes, with the room below
        frame.press("t")
        page.locator("#timeline-box input[type=search]").fill("gemm")
        page.locator("#timeline-box input[type=search]").press("Enter")
        frame.press("Enter")
        page.wait_for_function("() => document.querySelector('.tl-frame canvas').dataset.ticks.includes('9.50 us')")
        page.wait_for_timeout(200)
        assert max(page.evaluate(ink, lane)) > 0.95
        ticks = page.locator(".tl-frame canvas").get_attribute("data-ticks").split(" | ")
        assert len(set(ticks)) == len(ticks) > 4


def test_the_step_with_the_fix_stands_above_the_recorded_one(decode_page: str, browser: Browser) -> None:
    with kept_open(browser, decode_page) as page:
        page.locator(".top-findings a").first.hover()
        switch, note = page.get_by_label("with HOST-LOAD fixed"), page.locator(".tl-note")
        before, tall = note.text_content(), tall_of(page)
        switch.check()
        assert re.fullmatch(
            r"Replayed with HOST-LOAD fixed, not recorded: [\d.]+ ms becomes [\d.]+ ms\.", note.text_content()
        )
        assert tall_of(page) > tall
        switch.uncheck()
        assert (note.text_content(), tall_of(page)) == (before, tall)


def test_the_hover_card_is_beside_what_it_is_about(decode_page: str, browser: Browser) -> None:
    with kept_open(browser, decode_page) as page:
        frame, card = page.locator(".tl-frame"), page.locator(".tl-card")
        frame.scroll_into_view_if_needed()
        box = frame.bounding_box()
        for top in range(40, int(box["height"]) - 8, 23):
            page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + top)
            page.wait_for_timeout(30)
            if card.is_visible():
                shown = card.bounding_box()
                assert not shown["y"] <= box["y"] + top <= shown["y"] + shown["height"]
        page.mouse.move(box["x"] + 5, box["y"] - 60)
        assert card.is_hidden()


def frames(page: Page, keys: str) -> list[tuple[int, float]]:
    """How many boxes each frame drew, and in which time, while keys zoom and move."""
    seen: list[tuple[int, float]] = page.evaluate(
        """async (keys) => {
          const frame = document.querySelector('.tl-frame'), canvas = frame.querySelector('canvas'), seen = [];
          frame.focus();
          for (const key of keys) {
            frame.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
            for (let turn = 0; turn < 3; turn += 1) {
              await new Promise(requestAnimationFrame);
              seen.push([Number(canvas.dataset.drawn), Number(canvas.dataset.ms)]);
            }
          }
          return seen;
        }""",
        list(keys),
    )
    return seen


def test_zooming_and_moving_over_50_000_events_is_smooth(large: str, browser: Browser) -> None:
    with kept_open(browser, large, width=1400) as page:
        assert page.evaluate("JSON.parse(document.getElementById('timeline-json').textContent).stretches.length") >= 1
        measured = frames(page, "wwwwddwwddssaasssswwwwwwwwddddssssssssss")
        width = page.locator(".tl-frame canvas").evaluate("canvas => canvas.clientWidth")
        lanes = 3  # idle, the stream, the thread
        assert max(drawn for drawn, _ in measured) <= lanes * (width + 2)
        assert len({drawn for drawn, _ in measured}) > 10
        times = sorted(ms for _, ms in measured)
        assert times[len(times) // 2] < FRAME_MS / 2  # of our script, which leaves the browser the other half


def test_search_finds_a_kernel_and_goes_from_hit_to_hit(large: str, browser: Browser) -> None:
    with kept_open(browser, large) as page:
        page.locator(".tl-frame").press("/")
        page.keyboard.type("needle")
        assert page.locator(".tl-search output").text_content().startswith("1 of ")
        assert "needle" in page.locator(".tl-panel").text_content()
        assert "Launched by cudaLaunchKernel" in " ".join(page.locator(".tl-panel").inner_text().split())
        page.keyboard.press("Enter")
        assert page.locator(".tl-search output").text_content().startswith("2 of ")
        page.keyboard.type("s and thread")
        assert page.locator(".tl-search output").text_content() == "nothing found"


def test_a_click_on_each_finding_shows_its_place(decode_page: str, browser: Browser) -> None:
    with kept_open(browser, decode_page) as page:
        links = page.locator("a[data-stretch]").all()
        assert len(links) > 6
        for link in links:
            link.evaluate("link => link.click()")
            frame = page.locator(".tl-frame")
            assert frame.get_attribute("data-shown") == link.get_attribute("data-what")
            assert page.locator("#timeline-box select").input_value() == link.get_attribute("data-stretch")
            assert frame.evaluate("frame => frame === document.activeElement")
        page.locator(".top-findings a").first.click()
        assert page.locator(".tl-panel b").text_content() == "GPU idle"
        assert "module load" in page.locator(".tl-panel").text_content()


def test_keys_alone_reach_every_control_and_every_event(decode_page: str, browser: Browser) -> None:
    with opened(browser, decode_page) as page:
        page.locator("#timeline-box select").focus()
        reached = []
        for _ in range(9):
            reached.append(page.evaluate("(({dataset, type}) => dataset.act || type)(document.activeElement)"))
            page.keyboard.press("Tab")
        assert reached == ["select-one", "search", "previous", "next", "checkbox", "out", "in", "all", "button"]
        assert page.evaluate("document.activeElement.className") == "tl-frame"
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        panel, told = page.locator(".tl-panel"), []
        for key in ("ArrowRight", "ArrowRight", "l", "ArrowUp", "ArrowDown", "Enter"):
            page.keyboard.press(key)
            told.append(panel.inner_text())
        assert all(told)
        assert told[0] != told[1]
        assert "Launched by" in told[1]
        assert "Launches" in told[2]
        page.keyboard.press("Escape")
        assert panel.inner_text() == ""


def test_the_wheel_zooms_once_the_timeline_has_the_focus(decode_page: str, browser: Browser) -> None:
    with kept_open(browser, decode_page) as page:
        rest(page)
        box = page.locator(".tl-frame").bounding_box()
        page.mouse.move(box["x"] + 300, box["y"] + 46)
        drawn = "document.querySelector('.tl-frame canvas').dataset.drawn"
        page.mouse.click(box["x"] + box["width"] * 0.93, box["y"] + 46)
        before = page.evaluate(drawn)
        page.mouse.wheel(0, -600)
        page.wait_for_function(f"{drawn} !== '{before}'")
        assert page.locator(".tl-card").is_visible()


def test_the_address_says_what_is_shown_and_back_goes_back(decode_page: str, browser: Browser) -> None:
    shown = """() => ['select', 'canvas']
      .map((tag) => document.querySelector(`#timeline-box ${tag}`)).map((one) => one.value || one.dataset.ticks)"""
    with opened(browser, decode_page) as page:
        first = page.evaluate(shown)
        page.locator(".top-findings a").nth(1).click()
        rest(page)
        address, there = page.evaluate("() => location.href"), page.evaluate(shown)
        assert re.search(r"#at=\d+,\d+,\d+&finding=LAUNCH-BOUND$", address)
        assert there != first
        page.go_back()
        rest(page)
        assert page.evaluate(shown) == first
        page.locator("nav a", has_text="Kernels").click()
        assert page.locator("#kernel-table").is_visible()
    with opened(browser, address) as page:
        rest(page)
        assert page.evaluate(shown) == there
        assert page.locator(".tl-panel b").text_content()
    with opened(browser, f"{decode_page}#at=999,nothing,1e999&finding=<b>") as page:
        assert page.evaluate(shown) == first


def test_the_flame_graph_is_of_all_gpu_time_zooms_and_searches(
    decode_page: str, unpacked: Unpacked, browser: Browser
) -> None:
    with kept_open(browser, decode_page) as page:
        page.locator("#ranges summary").first.click()
        frame, said = page.locator(".fl-frame"), page.locator(".fl-said")
        boxes = frame.locator("button")
        assert page.locator("#range-chart").is_hidden()
        every = boxes.count()
        work = reported(unpacked("decode.sqlite")).main_device.work
        whole = time_text(int((work.end_ns - work.start_ns).sum()))
        assert said.text_content() == f"all: {whole}, 100.0 % of total"
        outermost = [box for box in boxes.all() if box.evaluate("box => box.style.top") == "20px"]
        assert sum(float(box.evaluate("box => parseFloat(box.style.width)")) for box in outermost) > 99.5
        frame.get_by_role("treeitem", name="attention").first.click()
        assert 1 < boxes.count() < every
        assert said.text_content().startswith("attention")
        page.keyboard.press("ArrowDown")
        assert not said.text_content().startswith("attention")
        page.keyboard.press("Escape")
        page.locator(".fl-whole").click()
        assert boxes.count() == every
        page.locator("#flame-box").get_by_label("Search").fill("nvjet")
        assert "found" in page.locator("#flame-box output").text_content()
        assert 0 < frame.locator("button:not(.faint)").count() < every
        page.locator(".fl-side").select_option("host")
        assert said.text_content().startswith("all: ")

"""Pages in a real browser: they ask for nothing, say nothing to the console, and all that can be done works."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gpuledger.cli.main import verb_named
from gpuledger.units import share_text, signed_time, time_text
from support.command import ROOT
from support.pages.html_pages import HOSTILE, named_export
from support.pages.page_browser import Browser, Page, kept_open, opened
from support.profiles.ncu_answers import asked_once
from support.thorough import IS_THOROUGH, some

PAGES = ("decode", "moe", "layer", "diff", "align", "ranks", "zh", "hostile")
SHOWN = PAGES if IS_THOROUGH else [name for name in PAGES if name not in ("layer", "zh")]
Unpacked = Callable[[str], Path]


@dataclass(frozen=True)
class Shelf:
    """Where the pages are."""

    folder: Path

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.html"

    def url(self, name: str) -> str:
        return self.path(name).as_uri()


def write(verb: Any, *arguments: object) -> None:
    ran = CliRunner().invoke(verb, [str(each) for each in arguments], catch_exceptions=False)
    assert ran.exit_code == 0, ran.stderr


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory, unpacked: Unpacked, layer_report: Path) -> Shelf:
    made = Shelf(tmp_path_factory.mktemp("pages"))
    decode, moe = unpacked("decode.sqlite"), unpacked("moe_loop.sqlite")
    write(verb_named("report"), decode, "-o", made.path("decode"))
    write(verb_named("report"), decode, "--lang=zh", "-o", made.path("zh"))
    write(verb_named("report"), moe, "-o", made.path("moe"))
    with asked_once():
        write(verb_named("report"), decode, f"--ncu={layer_report}", "-o", made.path("layer"))
    write(verb_named("diff"), moe, unpacked("moe_batched_gemm.sqlite"), "-o", made.path("diff"))
    write(verb_named("align"), unpacked("attn.sqlite"), decode, "-o", made.path("align"))
    spec = spec_from_file_location("gen_ranks", ROOT / "benchmarks" / "gen_ranks.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["gen_ranks"] = module
    spec.loader.exec_module(module)
    module.write_job(made.folder / "ranks", ranks=8, events=6 * 24 * 8 * 6, steps=6, late=5, packed=True)
    write(verb_named("fleet"), made.folder / "ranks", "--workers=0", "-o", made.path("ranks"))
    long = "<i>" * 22_000
    hostile = named_export(made.folder / "a<b>{{7*7}}'.sqlite", (*HOSTILE, long), ranges=(*HOSTILE, long))
    write(verb_named("report"), hostile, "-o", made.path("hostile"))
    return made


@pytest.mark.parametrize("name", SHOWN)
def test_a_page_is_quiet_and_fits_both_widths_in_light_and_dark(name: str, shelf: Shelf, browser: Browser) -> None:
    between = ((820, "light"),) if name in ("decode", "diff") else ()
    with kept_open(browser, shelf.url(name)) as page:
        for width, scheme in ((1280, "light"), (390, "dark"), *between):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.locator("h1").count() == 1
            assert page.locator("svg.picture, table").count() > 0
            paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert paper == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(18, 22, 27)")


def test_the_button_turns_light_into_dark_and_back(shelf: Shelf, browser: Browser) -> None:
    with opened(browser, shelf.url("decode")) as page:
        colours = (
            "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('.f-ink')).fill]"
        )
        light = page.evaluate(colours)
        page.locator("#theme").press("Enter")
        dark = page.evaluate(colours)
        assert dark == ["rgb(18, 22, 27)", "rgb(231, 234, 238)"]
        page.locator("#theme").click()
        assert page.evaluate(colours) == light


def column(page: Page, at: int) -> list[float]:
    found: list[float] = page.evaluate(
        "at => [...document.querySelector('#kernel-table').tBodies[0].rows].filter(row => !row.hidden)"
        ".map(row => Number(row.cells[at].dataset.value))",
        at,
    )
    return found


@contextmanager
def unfolded(browser: Browser, url: str) -> Iterator[Page]:
    """A page with all of its sections open."""
    with kept_open(browser, url) as page:
        page.evaluate("() => document.querySelectorAll('.fold').forEach((fold) => { fold.open = true; })")
        yield page


def test_kernels_are_sorted_by_headings_with_mouse_and_keys(shelf: Shelf, browser: Browser) -> None:
    with unfolded(browser, shelf.url("decode")) as page:
        before = column(page, 4)
        heading = page.locator("#kernel-table thead th").nth(4)
        heading.locator("button").click()
        assert heading.get_attribute("aria-sort") == "descending"
        assert column(page, 4) == sorted(before, reverse=True)
        heading.locator("button").press("Enter")
        assert heading.get_attribute("aria-sort") == "ascending"
        assert column(page, 4) == sorted(before)
        name = page.locator("#kernel-table thead th").nth(0)
        name.locator("button").press("Space")
        assert (heading.get_attribute("aria-sort"), name.get_attribute("aria-sort")) == (None, "ascending")
        names = page.locator("#kernel-table tbody tr th").all_text_contents()
        assert names == page.evaluate("names => [...names].sort((a, b) => a.trim().localeCompare(b.trim()))", names)


def test_kernels_are_filtered_by_words(shelf: Shelf, browser: Browser) -> None:
    with unfolded(browser, shelf.url("decode")) as page:
        every, at_first = page.locator("#kernel-table tbody tr").count(), len(column(page, 3))
        page.locator("#kernels").get_by_label("Filter").fill("gemm NVJET")
        assert 0 < len(column(page, 3)) < every
        shown = page.locator("#kernel-table tbody tr:visible").all_text_contents()
        assert all("nvjet" in row and "gemm" in row for row in shown)
        assert page.locator("#kernels .tools output").text_content() == f"{len(shown)} / {every}"
        page.locator("#kernels").get_by_label("Filter").fill("")
        assert len(column(page, 3)) == at_first < every
        page.locator("#kernels .unfold").press("Enter")
        assert len(column(page, 3)) == every
        page.locator("#kernels").get_by_label("Family").select_option("gemm")
        families = page.locator("#kernel-table tbody tr:visible").evaluate_all(
            "rows => rows.map(row => row.dataset.family)"
        )
        assert set(families) == {"gemm"}


def test_a_table_is_copied_as_csv_with_exact_numbers_and_whole_names(shelf: Shelf, browser: Browser) -> None:
    with unfolded(browser, shelf.url("decode")) as page:
        page.evaluate(
            "Object.defineProperty(navigator, 'clipboard', {value: {writeText: text => { window.said = text; }}})"
        )
        page.locator("#kernels").get_by_label("Filter").fill("gemm")
        page.locator("#kernels .csv").click()
        head, first, *_ = page.evaluate("window.said").split("\n")
        assert head == "Name,Family,Share,Time,Instances,Avg,Med,Max"
        assert first.startswith(("nvjet_", '"'))
        assert float(first.rsplit(",", 5)[1]) == column(page, 3)[0]
        page.locator("#kernels").get_by_label("Filter").fill("")


def test_a_step_is_chosen_with_mouse_and_keys_and_shows_its_ledger(shelf: Shelf, browser: Browser) -> None:
    with unfolded(browser, shelf.url("moe")) as page:
        steps = json.loads(page.locator("#steps-json").text_content())
        assert page.locator("#step-ledger").count() == 0
        box = page.locator("#step-cursor svg.picture").bounding_box()
        chosen = 37
        place = {"x": box["width"] * (chosen + 0.5) / len(steps["steps"]), "y": 100}
        page.locator("#step-cursor svg.picture").click(position=place)
        is_ledger_of(page, steps, chosen)
        assert page.evaluate("document.activeElement.id") == "step-cursor"
        page.keyboard.press("ArrowRight")
        is_ledger_of(page, steps, chosen + 1)
        page.keyboard.press("Home")
        is_ledger_of(page, steps, 0)
        page.keyboard.press("ArrowLeft")
        is_ledger_of(page, steps, 0)
        page.reload()
        page.locator("#steps summary").first.click()
        page.locator("#step-cursor").press("Enter")
        is_ledger_of(page, steps, 0)


def is_ledger_of(page: Page, steps: dict[str, Any], at: int) -> None:
    """The panel shows this step: its lines are those of the page's data, in our own digits."""
    step = steps["steps"][at]
    table = page.locator("#step-ledger")
    assert table.get_attribute("data-step") == str(step["step"])
    whole = sum(step["ns"])
    cells = [
        row.split("\t") for row in table.locator("tbody tr").evaluate_all("rows => rows.map(row => row.innerText)")
    ]
    every = zip(steps["lines"], step["ns"], steps["median_lines_ns"], strict=True)
    shown = [(line[2], ns, ns - usual) for line, ns, usual in every if ns or usual]
    assert cells == [[words, time_text(ns), share_text(ns / whole), signed_time(more)] for words, ns, more in shown]
    assert table.locator("tfoot td").first.text_content() == time_text(whole)
    said = page.locator("#step-cursor").get_attribute("aria-valuetext")
    assert said == table.locator("caption").text_content()
    assert said.startswith(f"Step {step['step']}: {time_text(whole)}")


def test_the_critical_path_is_a_bar_with_what_buys_nothing_under_it(shelf: Shelf, browser: Browser) -> None:
    for name in ("moe", "zh"):
        with kept_open(browser, shelf.url(name), width=1400) as page:
            page.locator("nav a[href='#critical']").click()
            for width in (1400, 390):
                page.set_viewport_size({"width": width, "height": 900})
                bar, table = page.locator("#critical-chart svg.picture"), page.locator("#critical-beside")
                assert width > bar.bounding_box()["width"] > 0.6 * width
                assert table.is_visible()
                assert page.evaluate("document.documentElement.scrollWidth") <= width
            slack = table.locator("tbody tr td:nth-of-type(3)").first.text_content()
            told = page.locator("#critical p").nth(-1).text_content().replace("\xa0", " ")
            assert slack.strip() in told


@pytest.mark.parametrize("name", some(SHOWN, 2))
def test_without_scripts_tables_and_pictures_are_there(name: str, shelf: Shelf, browser: Browser) -> None:
    with opened(browser, shelf.url(name), scripts=False) as page:
        assert page.locator("table >> nth=0").is_visible()
        assert page.locator("button:visible, input:visible").count() == 0
        if name not in ("align",):
            assert page.locator("svg.picture >> nth=0").is_visible()
        if name == "moe":
            assert page.locator("#median-step").is_visible()
            assert page.locator("#outliers tbody tr").count() == 8


def test_the_numbers_in_the_browser_are_those_of_the_document(shelf: Shelf, browser: Browser) -> None:
    with kept_open(browser, shelf.url("moe")) as page:
        document = page.evaluate("JSON.parse(document.getElementById('document').textContent)")
        ledger = page.evaluate(
            "[...document.querySelector('#ledger').tBodies[0].rows].map(row => Number(row.cells[3].dataset.value))"
        )
        lines = document["devices"][0]["ledger"]  # idle time by where the host was; the page has what set it off
        assert not Counter(line["ns"] for line in lines if not line["line"].startswith("idle.")) - Counter(ledger)
        assert sum(ledger) == sum(line["ns"] for line in lines)
        savings = page.evaluate(
            "[...document.querySelectorAll('.card')].map(card => Number(card.dataset.savingNsPerStep))"
        )
        assert savings == [found["saving_ns_per_step"] for found in document["findings"]]
        assert page.locator(".tiles b").nth(1).text_content() == time_text(document["steps"]["median_ns"])
    with kept_open(browser, shelf.url("diff")) as page:
        document = page.evaluate("JSON.parse(document.getElementById('document').textContent)")
        assert sum(part["ns"] for part in document["parts"]) == document["step_delta_ns"]
        shown = page.locator("#waterfall svg.picture").get_attribute("aria-label")
        assert f"{time_text(document['before']['median_ns'])} before" in shown


def test_hostile_names_are_shown_and_do_nothing(shelf: Shelf, browser: Browser) -> None:
    with kept_open(browser, shelf.url("hostile")) as page:
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        page.locator("#kernel-table summary").first.hover()
        page.wait_for_timeout(50)
        assert page.locator("img, iframe, object").count() == 0
        assert page.locator("script").count() == 6
        text = page.locator("main").text_content()
        for name in HOSTILE[:2]:
            assert name in text
        assert page.locator("h1").text_content() == "a<b>{{7*7}}'.sqlite"
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert shelf.path("hostile").stat().st_size < 600_000


def test_keys_reach_the_content_and_see_where_they_are(shelf: Shelf, browser: Browser) -> None:
    with opened(browser, shelf.url("decode")) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "theme"
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.locator("nav a").last.press("Enter")
        assert page.evaluate("document.getElementById('health').getBoundingClientRect().top") < 900


def test_a_page_prints_without_its_controls(shelf: Shelf, browser: Browser) -> None:
    with kept_open(browser, shelf.url("decode")) as page:
        page.emulate_media(media="print")
        assert page.locator("nav").is_hidden()
        assert page.locator("button:visible:not(thead button)").count() == 0
        assert page.locator("#books thead button:visible").count() == page.locator("#books thead th").count() > 3
        assert page.locator(".explain:visible, .seen:visible").count() == 0, "nothing can be clicked on paper"
        assert page.locator("#kernels summary h2").is_visible()
        page.emulate_media(media="print", color_scheme="dark")
        ink = page.evaluate("() => getComputedStyle(document.body).color.match(/[0-9]+/g).map(Number)")
        assert max(ink) < 80, "on paper ink is dark, whatever the screen shows"
        assert page.pdf(format="A4")[:5] == b"%PDF-"

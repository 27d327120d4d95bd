"""A memory snapshot on a page, in Chinese, and beside a timeline on one clock."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gpuledger.present.safe_text import display_width
from support.command import gpuledger
from support.pages.chinese_text import CJK
from support.pages.page_browser import Browser, opened
from support.pages.schemas import schema_of
from support.profiles.memory_snapshots import MIB, Program, unpacked_snapshots, written


@pytest.mark.parametrize("name", ["leak", "oom_fragmented", "churn", "late"])
def test_what_is_said_of_a_snapshot_in_chinese_fits(name: str, tmp_path: Path) -> None:
    [path] = unpacked_snapshots(tmp_path, [f"{name}.pickle"])
    shown = gpuledger("memory", path, "--lang=zh", COLUMNS="80").stdout
    assert CJK.search(shown)
    assert max(map(display_width, shown.splitlines())) <= 80


def test_a_page_has_the_curve_and_the_tables(tmp_path: Path) -> None:
    [path] = unpacked_snapshots(tmp_path, ["leak.pickle"])
    page = tmp_path / "page.html"
    assert gpuledger("report", path, "-o", page).exit_code == 0
    text = page.read_text()
    assert "Memory over time, GPU 0" in text
    assert "Memory event by event, GPU 0" in text
    assert "remember (memory.py:66)" in text
    assert "MEM-LEAK" in text
    assert text.count('id="part-') >= 6


def test_the_headline_of_a_leak_is_the_leak(tmp_path: Path) -> None:
    [path] = unpacked_snapshots(tmp_path, ["leak.pickle"])
    assert re.match(
        r"GPU 0: memory grows by .* per step: .* by remember \(memory.py:66\).* is never freed\.",
        " ".join(gpuledger("memory", path).stdout.split()),
    )


def test_a_click_on_a_band_shows_the_stack_that_holds_it(tmp_path: Path, browser: Browser) -> None:
    [path] = unpacked_snapshots(tmp_path, ["leak.pickle"])
    page_path = tmp_path / "page.html"
    assert gpuledger("report", path, "-o", page_path).exit_code == 0
    with opened(browser, page_path.as_uri()) as page:
        figure = page.locator("#memory-events-gpu0")
        bands, said = figure.get_by_role("button"), figure.locator("pre.band")
        assert bands.count() > 1
        assert said.is_hidden()
        leak = bands.filter(has_text="remember (memory.py:66)")
        leak.focus()
        page.keyboard.press("Enter")
        lines = said.inner_text().splitlines()
        assert " at most, " in lines[0]
        assert lines[1].strip() == "remember (memory.py:66)"
        assert len(lines) > 2
        box = figure.locator("svg.picture").bounding_box()
        page.mouse.click(box["x"] + box["width"] * 0.9, box["y"] + 30 + box["height"] * 0.3)
        assert said.inner_text().splitlines() != lines


def test_a_deep_package_leaves_room_for_the_line(tmp_path: Path) -> None:
    """Programs get all of its path."""
    program, package = Program(), "/site-packages/titan/models/llama/model"
    program.alloc(
        8 * MIB, f"gate ({package}/model.py:340)", f"forward ({package}/model.py:410)", f"main ({package}/a.py:1)"
    )
    path = written(tmp_path, program.snapshot())
    shown = gpuledger("memory", path).stdout
    assert "gate (…/model/model.py:340)" in shown
    whole = json.loads(gpuledger("memory", path, "--format=json").stdout)
    assert whole["peak_by_stack"][0]["stack"][-1] == "gate (titan/models/llama/model/model.py:340)"


def test_beside_a_timeline_it_is_on_its_clock(tmp_path: Path) -> None:
    """The peak is where torch.profiler noted it too: 26.6 ms after the GPU's first work."""
    trace, snapshot = unpacked_snapshots(tmp_path, ["profiled.json.gz", "profiled.memory.pickle"])
    shown = gpuledger("report", trace, f"--memory={snapshot}", "--no-cache").stdout
    assert "GPU 0: the peak is at 0.026838128 s of this timeline." in shown
    assert shown.index("What to do") < shown.index("Who holds the memory") < shown.index("Where the time went")
    document = json.loads(gpuledger("report", trace, f"--memory={snapshot}", "--no-cache", "--format=json").stdout)
    schema_of("report").validate(document)
    assert document["memory"]["findings"][0]["code"] == "MEM-PEAK"
    page = tmp_path / "page.html"
    assert gpuledger("report", trace, f"--memory={snapshot}", "--no-cache", "-o", page).exit_code == 0
    assert 'id="memory-snapshot"' in page.read_text()
    assert 'id="snapshot-gpu0"' in page.read_text()


def test_without_a_wall_clock_that_is_said(tmp_path: Path) -> None:
    program = Program()
    program.alloc(3 * MIB, "f (a.py:1)")
    trace = tmp_path / "trace.json"
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 30.5, "dur": 4.25}
    kernel["args"] = {"device": 0, "context": 1, "stream": 7, "correlation": 5}
    trace.write_text(json.dumps({"traceEvents": [kernel]}))
    shown = gpuledger("report", trace, f"--memory={written(tmp_path, program.snapshot())}", "--no-cache").stdout
    assert "so the two are not on one time" in shown


def test_a_snapshot_without_history_says_how_to_get_one(tmp_path: Path) -> None:
    program = Program()
    program.alloc(3 * MIB, "f (a.py:1)")
    ran = gpuledger("memory", written(tmp_path, program.snapshot(since=99)))
    assert ran.stdout.startswith("GPU 0: 3.15 MB allocated of 3.15 MB reserved when the snapshot was taken; no history")
    nothing = gpuledger("memory", written(tmp_path, Program().snapshot()))
    assert nothing.exit_code == 0
    assert "the allocator held nothing" in nothing.stdout

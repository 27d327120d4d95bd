"""A stretch of a run as a picture: bars are where the trace says, idle time is that of the books, any name is drawn."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger import build_report
from gpuledger.messages import translated
from gpuledger.present.charts.over_time import LaneBar, LaneRow, lane_chart
from gpuledger.present.charts.svg import Boxes, Picture, Words, svg_alone
from gpuledger.present.palette import TONES
from gpuledger.present.views.timeline import timeline_picture
from gpuledger.trace.spans import Span
from support.command import CAPTURES
from support.pages.chinese_text import CJK
from support.profiles.opened import report_of
from support.traces.trace_notation import trace


def boxes(picture: Picture, *, hatched: bool) -> list[tuple[float, float, float, float]]:
    marks = [mark for mark in picture.marks if isinstance(mark, Boxes) and mark.hatched is hatched]
    return sorted(box for mark in marks for box in mark.boxes)


def words(picture: Picture) -> list[str]:
    return [mark.text for mark in picture.marks if isinstance(mark, Words)]


def test_work_and_idle_time_lie_where_they_were() -> None:
    run = build_report(trace("s0: 0-400 gemm", "s1: 200-500 softmax", "s0: 750-1000 gemm"))
    picture = timeline_picture(run, run.main_device, Span(0, 1000), str)
    assert [(left, width) for left, _, width, _ in boxes(picture, hatched=False)] == [
        *((0.0, 0.4), (0.2, 0.3), (0.75, 0.25))
    ]
    assert [(left, width) for left, _, width, _ in boxes(picture, hatched=True)] == [(0.5, 0.25)]
    assert {"GPU 0 idle, by trigger", "Stream 0", "Stream 1", "+0 ns", "+200 ns"} <= set(words(picture))
    assert {tone for tone, _ in picture.legend} >= {"compute-gemm", "compute-softmax"}
    part = timeline_picture(run, run.main_device, Span(400, 800), str)
    assert [(left, width) for left, _, width, _ in boxes(part, hatched=True)] == [(0.25, 0.625)]


@pytest.mark.parametrize("name", ["moe_batched_gemm", "zoo_graph"])
def test_a_step_shows_the_idle_time_of_the_books(name: str) -> None:
    run = report_of(Path(CAPTURES / f"{name}.sqlite.xz"))
    device = run.main_device
    assert device.steps is not None
    step = Span(int(device.steps.start_ns[3]), int(device.steps.end_ns[3]))
    picture = timeline_picture(run, device, step, str)
    drawn = sum(width for _, _, width, _ in boxes(picture, hatched=True))
    books = device.ledger
    tile = books.tiles_ns.tolist().index(step.start_ns)
    idle = sum(int(ns) for line, ns in zip(books.lines, books.books[tile], strict=True) if line.is_idle)
    assert drawn == pytest.approx(idle / (step.end_ns - step.start_ns), abs=0.02)  # no bar is too narrow to be seen
    chinese = timeline_picture(run, device, step, lambda text: translated(text, "zh"))
    assert any(map(CJK.search, words(chinese)))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(0, 5), st.text(max_size=60)), max_size=12))
def test_any_bars_and_any_names_give_a_picture(bars: list[tuple[float, float, int, str]]) -> None:
    row = LaneRow("\x00<&", [LaneBar(min(a, b), abs(b - a), lane, "copy", name) for a, b, lane, name in bars])
    picture = lane_chart("\u202e", "]]>", [row, LaneRow("", [])], [(0.0, "+0 ns"), (1.0, "+1 ns")])
    ElementTree.fromstring(svg_alone(picture))  # noqa: S314 - our own
    for left, top, width, height in boxes(picture, hatched=False):
        assert -1e-9 <= left <= left + width <= 1 + 1e-9
        assert 0 <= top <= top + height <= picture.height
    assert {tone for tone, _ in picture.legend} <= TONES.keys()

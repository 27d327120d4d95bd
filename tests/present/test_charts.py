"""Pictures: what is drawn has the size of what it stands for, is well-formed whatever it is given, and can be seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuledger.analyse.idle.launch_costs import launch_costs
from gpuledger.analyse.memory.figures import memory_totals, memory_use
from gpuledger.analyse.timeline.over_time import MOST_STREAMS, bin_edges, stream_use
from gpuledger.catalog.kernel_families import FAMILIES
from gpuledger.ledger.books import Line
from gpuledger.ledger.causes import CAUSES
from gpuledger.present import palette
from gpuledger.present.charts.amounts import (
    Bar,
    Change,
    ChartColumn,
    Node,
    Part,
    columns,
    icicle,
    stacked_bars,
    ticks,
    waterfall,
)
from gpuledger.present.charts.over_time import STRIP, Band, HeatRow, StripLine, heat_map, memory_area, step_strip
from gpuledger.present.charts.roofline import Ceiling, Spot, roofline
from gpuledger.present.charts.svg import WIDE, Boxes, Dot, Picture, Trail, Words, svg, svg_alone, text_width
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.spans import Span, total, union
from support.pages.html_pages import reported
from support.traces.trace_notation import trace

Unpacked = Callable[[str], Path]
SHARES = st.lists(st.integers(1, 10**12), min_size=1, max_size=20)
HARD = st.text(max_size=40)


def boxes(picture: Picture, tone: str | None = None) -> Iterator[tuple[float, float, float, float]]:
    for mark in picture.marks:
        if isinstance(mark, Boxes) and (tone is None or mark.tone == tone):
            yield from mark.boxes


def tones(picture: Picture) -> set[str]:
    drawn = {mark.tone for mark in picture.marks if mark.tone}
    return drawn | {tone for tone, _ in picture.legend}


def well_formed(picture: Picture) -> None:
    """An XML parser reads it back, alone and in a page; every tone exists; nothing lies outside."""
    for text in (svg(picture), svg_alone(picture)):
        ElementTree.fromstring(text)  # noqa: S314 - our own
    assert tones(picture) <= set(palette.TONES)
    for left, top, width, height in boxes(picture):
        assert -1e-9 <= left <= left + width <= 1 + 1e-9
        assert -0.01 <= top <= top + height <= picture.height + 0.01


# Examples and laws


@given(SHARES, HARD)
def test_the_parts_of_a_bar_fill_it(amounts: list[int], name: str) -> None:
    whole = sum(amounts)
    parts = tuple(Part("comm", amount / whole, name, "1 ms", "x") for amount in amounts)
    picture = stacked_bars(name, name, [Bar(name, parts)])
    well_formed(picture)
    drawn = list(boxes(picture))
    assert [left for left, *_ in drawn] == pytest.approx([sum(amounts[:at]) / whole for at in range(len(amounts))])
    for (_, _, width, _), amount in zip(drawn, amounts, strict=True):
        assert 0.8 * amount / whole - 1e-12 <= width <= amount / whole


def test_a_name_is_drawn_where_it_fits_and_shorter_where_it_does_not() -> None:
    wide = stacked_bars("", "", [Bar("", (Part("comm", 1.0, "idle: dispatch", "100 %", "3 ms", "dispatch"),))])
    assert "idle: dispatch 100 % (3 ms)" in svg(wide)
    narrow = Part("comm", 0.16, "idle: dispatch", "16 %", "3 ms", "dispatch")
    shown = svg(stacked_bars("", "", [Bar("", (narrow, Part("copy", 0.84, "copies", "84 %")))]))
    assert ">dispatch 16 %<" in shown
    assert "idle: dispatch 16 %<" not in shown.replace("<title>idle: dispatch: 16 % (3 ms)</title>", "")


@given(st.lists(st.tuples(st.integers(1, 10**9), st.integers(0, 10**9)), min_size=1, max_size=60), st.booleans())
def test_a_column_of_the_strip_is_as_tall_as_its_step_is_long(steps: list[tuple[int, int]], odd: bool) -> None:
    usual = sorted(sum(step) for step in steps)[len(steps) // 2]
    lines = [
        StripLine("compute-gemm", "a", tuple(a for a, _ in steps)),
        StripLine("idle-os", "b", tuple(b for _, b in steps)),
    ]
    picture = step_strip("t", "d", lines, [odd] * len(steps), usual, ("a", "b"))
    well_formed(picture)
    most = min(max(sum(step) for step in steps), 3 * usual)
    heights = np.zeros(len(steps))
    for tone in ("compute-gemm", "idle-os"):
        for left, _, _, height in boxes(picture, tone):
            heights[round(left * len(steps))] += height
    expected = [min(sum(step), most) / most * STRIP for step in steps]
    assert heights.tolist() == pytest.approx(expected, abs=0.03)
    assert sum(isinstance(mark, Dot) for mark in picture.marks) == (len(steps) if odd else 0)


@given(st.lists(st.lists(st.integers(0, 100), min_size=3, max_size=3), min_size=1, max_size=8), HARD)
def test_the_cells_of_a_map_tile_their_row(rows: list[list[int]], name: str) -> None:
    picture = heat_map("t", "d", [HeatRow(name, np.array(row), "said") for row in rows], 100, ("a", "b"), "of it")
    well_formed(picture)
    by_row: dict[float, list[tuple[float, float]]] = {}
    for left, top, width, _ in boxes(picture):
        by_row.setdefault(top, []).append((left, width))
    assert len(by_row) == len(rows)
    for cells in by_row.values():
        cells.sort()
        assert all(left + width == pytest.approx(after) for (left, width), (after, _) in pairwise(cells))
        assert cells[-1][0] + cells[-1][1] == pytest.approx(1)


def test_the_heat_of_a_cell_grows_with_its_share() -> None:
    levels = [palette.heat_level(share / 1000) for share in range(1001)]
    assert levels == sorted(levels)
    assert (levels[0], levels[1], levels[-1]) == (0, 1, len(palette.HEAT) - 1)
    assert palette.heat_level(1.5) == len(palette.HEAT) - 1


@given(st.lists(st.integers(-(10**9), 10**9), max_size=12), st.integers(0, 10**9))
def test_a_waterfall_ends_where_its_parts_lead(parts: list[int], before: int) -> None:
    after = before + sum(parts)
    changes = [Change(f"part {at}", ns, f"{ns} ns", "comm") for at, ns in enumerate(parts)]
    picture = waterfall("t", "d", ("before", before, "a"), changes, ("after", after, "b"))
    drawn = [mark.boxes[0] for mark in picture.marks if isinstance(mark, Boxes)]
    assert len(drawn) == len(parts) + 2
    levels = [before]
    for ns in parts:
        levels.append(levels[-1] + ns)
    low, high = min(0, *levels), max(0, *levels)
    span = (high - low) or 1
    for (left, _, width, _), start, end in zip(drawn[1:-1], levels, levels[1:], strict=False):
        assert left == pytest.approx((min(start, end) - low) / span)
        assert width == pytest.approx(max(abs(end - start) / span, 0.002))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 100)), min_size=1, max_size=8), HARD)
def test_columns_are_as_tall_as_their_shares(given_: list[tuple[int, int]], name: str) -> None:
    made = [ChartColumn(name, (a / 3, b / 100), ("a", "b")) for a, b in given_]
    picture = columns("t", "d", (("comm", "one"), ("copy", "two")), made, tall=100)
    well_formed(picture)
    most = max(max(a / 3, b / 100) for a, b in given_) or 1
    heights = [height for _, _, _, height in boxes(picture, "comm")]
    assert heights == pytest.approx([max(a / 3 / most * 100, 1) for a, _ in given_ if a])


def test_children_lie_under_their_parents() -> None:
    nodes = [Node(0, 0.0, 0.6, "a", "6"), Node(1, 0.0, 0.4, "b", "4"), Node(0, 0.6, 0.4, "", "4", outside=True)]
    picture = icicle("t", "d", [*nodes, Node(1, 0.4, 0.0001, "thin", "0")])
    well_formed(picture)
    (a, b, rest) = boxes(picture)
    assert (a[0], b[0], rest[0]) == (0.0, 0.0, 0.6)
    assert b[1] >= a[1] + a[3]
    assert "thin" not in svg(picture)


def test_dots_lie_under_their_roofs() -> None:
    roofs = [Ceiling("fp16 1 POP/s", 1e15, slanted=False), Ceiling("DRAM 5 TB/s", 5e12, slanted=True)]
    spots = [Spot("low", 0.1, 1e10, 0.2, "comm", "hint"), Spot("high", 500.0, 9e14, 0.8, "comm", "hint", hollow=True)]
    picture = roofline("t", "d", "x", spots, roofs)
    well_formed(picture)
    high, low = [mark for mark in picture.marks if isinstance(mark, Dot)]
    flat, slanted = [mark for mark in picture.marks if isinstance(mark, Trail)]
    assert high.y > flat.points[0][1]
    assert (high.x > low.x, high.y < low.y, high.radius > low.radius) == (True, True, True)
    assert slanted.points[1][1] == pytest.approx(flat.points[0][1])
    assert slanted.points[1][0] - slanted.points[0][0] > 0


RATES = st.floats(1e8, 1e15)


@example(dots=[(497.0, 1e8, 0.0), (528.0, 1e8, 1.0)], lower=5e14, higher=5e14)
@given(st.lists(st.tuples(st.floats(0.01, 900), RATES, st.floats(0, 1)), min_size=1, max_size=9), RATES, RATES)
def test_no_name_in_a_roofline_touches_another_or_covers_a_dot(
    dots: list[tuple[float, float, float]], lower: float, higher: float
) -> None:
    spots = [
        Spot(f"kernel_{number}_of_some_length", across, up, weight, "comm", "hint")
        for number, (across, up, weight) in enumerate(dots)
    ]
    roofs = [
        Ceiling("fp32 60 TOP/s", lower, slanted=False),
        Ceiling("tensor bf16 973 TOP/s", higher, slanted=False),
        Ceiling("DRAM 5 TB/s", 5e12, slanted=True),
    ]
    picture = roofline("t", "d", "x", spots, roofs)
    for width in (WIDE, 2 * WIDE):
        rooms = [_room(mark, width) for mark in picture.marks if isinstance(mark, Words)]
        circles = [mark for mark in picture.marks if isinstance(mark, Dot)]
        named = [room for room in rooms if room[4] == "ink"]
        for room in named:
            assert room[0] >= 0
            assert room[1] <= width
            assert not any(_overlap(room, other) for other in rooms if other is not room)
            assert not any(room[0] < dot.x * width < room[1] and room[2] < dot.y < room[3] for dot in circles)


Room = tuple[float, float, float, float, str]


def _room(words: Words, width: int) -> Room:
    wide, at = text_width(words.text), words.x * width + words.aside
    left = {"start": at, "middle": at - wide / 2, "end": at - wide}[words.anchor]
    return left, left + wide, words.y - 9, words.y + 2, words.tone


def _overlap(one: Room, other: Room) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


@given(st.integers(0, 10**15), st.integers(2, 6))
def test_ticks_are_round_and_few(most: int, count: int) -> None:
    found = ticks(most, 1, count)
    assert found[0] == 0
    assert len(found) <= count + 1
    assert all(0 <= value <= most for value in found)
    steps = {round(b - a) for a, b in pairwise(found)}
    assert len(steps) <= 1
    assert not steps or re.fullmatch("[125]0*", str(steps.pop()))


@given(HARD, HARD)
def test_any_text_is_only_text(name: str, hint: str) -> None:
    marks = (Words(0, 10, name), Boxes("comm", ((0, 0, 1, 1),), hint), Dot(0.5, 5, 2, "bad", hint=hint))
    picture = Picture(20, name, hint, marks, (("comm", name),))
    well_formed(picture)
    plain = Picture(
        20, "", "", (Words(0, 10, "a"), Boxes("comm", ((0, 0, 1, 1),), "b"), Dot(0.5, 5, 2, "bad", hint="c"))
    )
    root = ElementTree.fromstring(svg(picture))  # noqa: S314 - our own
    shown = [each.tag for each in root.iter() if each.tag != "title"]
    assert shown == [each.tag for each in ElementTree.fromstring(svg(plain)).iter() if each.tag != "title"]  # noqa: S314


def test_memory_is_drawn_to_its_peak() -> None:
    picture = memory_area("t", "d", [Band(np.array([0, 10, 5]))], ("0", "1 s"))
    well_formed(picture)
    (area,) = [mark for mark in picture.marks if isinstance(mark, Trail)]
    heights = [y for _, y in area.points]
    assert (max(heights), heights[2]) == (area.floor, min(heights))


# Colours


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_measured_as_it_is_defined() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("paper", ["paper", "panel"])
def test_text_can_be_read_on_both_papers(paper: str) -> None:
    for tone in palette.INK.values():
        assert contrast(tone.light, palette.PAPER[paper].light) >= 4.5
        assert contrast(tone.dark, palette.PAPER[paper].dark) >= 4.5
    for at in (1, 2):  # the icicle writes on these
        assert contrast(palette.INK["ink"].light, palette.HEAT[at].light) >= 4.5
        assert contrast(palette.INK["ink"].dark, palette.HEAT[at].dark) >= 4.5


def test_every_line_of_the_books_can_be_seen_and_told_from_every_other() -> None:
    causes = {cause: palette.TONES[f"idle-{cause}"] for cause in CAUSES}
    for books in (palette.FAMILIES, palette.EXPOSED, causes):
        for name, tone in books.items():
            assert contrast(tone.light, palette.PAPER["paper"].light) >= 3, name
            assert contrast(tone.dark, palette.PAPER["paper"].dark) >= 3, name
    drawn = [*palette.FAMILIES.values(), *palette.EXPOSED.values(), *causes.values()]
    assert len({tone.light for tone in drawn}) == len({tone.dark for tone in drawn}) == len(drawn)
    known = {name for name, _ in FAMILIES} - {"communication"}
    assert known <= set(palette.FAMILIES)
    assert palette.line_tone(Line("compute.my-own")) == "compute-other"
    for line in ("comm", "copy", "compute.gemm", *(f"idle.{cause}" for cause in CAUSES)):
        assert palette.line_tone(Line(line)) in palette.TONES


# Over time


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 500), st.integers(1, 50)), min_size=1, max_size=40),
    st.integers(1, 60),
)
def test_bins_hold_what_the_window_holds(given_: list[tuple[int, int, int]], bins: int) -> None:
    from gpuledger.ledger.activity import activities

    found = activities(trace(*(f"s{stream}: {start}-{start + length} k" for stream, start, length in given_)))
    window = Span(int(found.start_ns.min()), int(found.end_ns.max()))
    use = stream_use(found, window, bins)
    assert len(use.edges_ns) == min(bins, window.end_ns - window.start_ns) + 1
    for stream in use.streams:
        mine = found.stream == stream.stream
        assert int(stream.busy_ns.sum()) == total(union(found.start_ns[mine], found.end_ns[mine]))
        assert (stream.busy_ns <= np.diff(use.edges_ns)).all()
    assert [each.stream for each in use.streams] == sorted({stream for stream, _, _ in given_})


def test_of_many_streams_the_busiest_are_shown() -> None:
    from gpuledger.ledger.activity import activities

    found = activities(trace(*(f"s{at}: 0-{at + 1} k" for at in range(40))))
    use = stream_use(found, Span(0, 40))
    assert ([each.stream for each in use.streams], use.left_out) == (list(range(16, 40)), 40 - MOST_STREAMS)


@given(st.integers(-(10**12), 10**12), st.integers(1, 10**12), st.integers(1, 300))
def test_bins_are_of_equal_length(start: int, length: int, bins: int) -> None:
    edges = bin_edges(Span(start, start + length), bins)
    assert (edges[0], edges[-1]) == (start, start + length)
    assert set(np.diff(edges).tolist()) <= {length // (len(edges) - 1), length // (len(edges) - 1) + 1}


def test_memory_and_queue_agree_with_the_tables(decode: Path) -> None:
    report = reported(decode)
    device = report.main_device
    found = memory_use(report.trace, device.gpu, report.window)
    assert not isinstance(found, NotMeasured)
    totals = memory_totals(report.trace, device.gpu)
    assert not isinstance(totals, NotMeasured)
    assert int(found.most_bytes.max()) == totals.peak_bytes
    delays = launch_costs(report.trace, device).by_delay
    here = device.work.on(device.gpu)
    assert sum(count for _, count in delays) == int(device.begins_steady(device.work.start_ns[here]).sum())


def test_without_memory_events_memory_is_not_measured() -> None:
    assert memory_use(trace("s0: 0-10"), 0, Span(0, 10)) == NotMeasured("no allocs")

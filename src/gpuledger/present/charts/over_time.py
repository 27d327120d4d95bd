"""Charts over time: steps one after another, streams or ranks as rows of a map, memory in use, lanes of a timeline."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Final

import numpy as np
from msgspec import Struct

from gpuledger.messages import Message, joined, say
from gpuledger.present.charts.amounts import axis, ticks
from gpuledger.present.charts.svg import (
    NARROW,
    SIZE,
    WIDE,
    Box,
    Boxes,
    Dot,
    GridLine,
    Mark,
    Picture,
    Trail,
    Words,
    is_hatched,
    text_width,
)
from gpuledger.present.document import Chart, Shades
from gpuledger.present.palette import HEAT, TONES, heat_level
from gpuledger.present.safe_text import cut_in_the_middle
from gpuledger.trace.spans import Ints
from gpuledger.units import bytes_text, time_text

STRIP: Final = 170
"""How tall the columns of the step strip are, in pixels."""

_HEAD: Final = 22
"""Above the columns: marks of unusual steps."""

_TALL: Final = 3.0
"""Columns are cut at so many times the usual length, so that one long step does not flatten the others."""

_ROW: Final = 16


class StripLine(Struct, frozen=True):
    """A line of the books in every step shown."""

    tone: str
    name: str
    ns: tuple[int, ...]


def step_strip(
    title: str,
    description: str,
    lines: Sequence[StripLine],
    unusual: Sequence[bool],
    usual_ns: int,
    numbers: tuple[str, str],
) -> Picture:
    """A column per step, its lines from the floor up, a dot over those that are unusual.

    Idle lines must come last: they are hatched as one.
    """
    totals = np.array([line.ns for line in lines], np.int64).sum(axis=0)
    count = len(totals)
    most = float(min(int(totals.max()), _TALL * usual_ns if usual_ns else int(totals.max())) or 1)
    wide = 1 / count
    gap = wide * 0.12 if count <= 200 else 0.0
    marks = axis(ticks(most, 1), most, _HEAD, STRIP, time_text)
    floor = np.zeros(count)
    hatched_from = np.full(count, -1.0)
    for line in lines:
        ns = np.array(line.ns, np.float64)
        if is_hatched(line.tone):
            hatched_from = np.where(hatched_from < 0, floor, hatched_from)
        bottom, top = np.minimum(floor, most), np.minimum(floor + ns, most)
        floor = floor + ns
        marks.append(Boxes(line.tone, _stacks(bottom, top, most, wide, gap)))
    if (hatched_from >= 0).any():
        bottom, top = np.minimum(np.maximum(hatched_from, 0), most), np.minimum(floor, most)
        marks.append(Boxes("", _stacks(bottom, top, most, wide, gap), hatched=True))
    for step, (total, odd) in enumerate(zip(totals.tolist(), unusual, strict=True)):
        if odd:
            cut = total > most
            marks.append(Dot((step + 0.5) * wide, 8, 4, "bad", hollow=not cut))
    marks.append(Words(0, _HEAD + STRIP + SIZE + 4, numbers[0]))
    if numbers[1]:
        marks.append(Words(1, _HEAD + STRIP + SIZE + 4, numbers[1], anchor="end"))
    return Picture(
        _HEAD + STRIP + SIZE + 10, title, description, tuple(marks), tuple((line.tone, line.name) for line in lines)
    )


def _stacks(bottom: np.ndarray, top: np.ndarray, most: float, wide: float, gap: float) -> tuple[Box, ...]:
    scale = STRIP / most
    return tuple(
        (step * wide, _HEAD + STRIP - high * scale, wide - gap, (high - low) * scale)
        for step, (low, high) in enumerate(zip(bottom.tolist(), top.tolist(), strict=True))
        if (high - low) * scale >= 0.01
    )


class HeatRow(Struct, frozen=True, eq=False):
    """One row of a map."""

    name: str
    values: Ints
    said: str
    """What the row amounts to, in words."""


def heat_map(
    title: str,
    description: str,
    rows: Sequence[HeatRow],
    full: Sequence[int] | int,
    ends: tuple[str, str],
    of: str = "",
) -> Picture:
    """A row of cells each, the darker the more; `full` is what counts as all, for a cell or for all of them.

    `of` says in the legend what its shares are shares of.

    Short names stand to the left of their rows, long ones above them.
    """
    longest = max((text_width(row.name) for row in rows), default=0.0)
    beside = longest + 10 <= 0.2 * NARROW
    left = (longest + 10) / NARROW if beside else 0.0
    marks: list[Mark] = []
    top = 0
    for row in rows:
        if beside:
            marks.append(Words(0, top + SIZE + 1, row.name, "ink"))
        else:
            marks.append(Words(0, top + SIZE, row.name, "ink"))
            marks.append(Words(1, top + SIZE, row.said, anchor="end", room=0.3))
            top += _ROW + 2
        levels = _levels(row.values, full)
        marks += _cells(levels, left, top)
        top += _ROW + (2 if beside else 8)
    marks.append(Words(left, top + SIZE, ends[0]))
    marks.append(Words(1, top + SIZE, ends[1], anchor="end"))
    return Picture(top + SIZE + 6, title, description, tuple(marks), _heat_legend(of))


_MOST_MAP_ROWS: Final = 64
_MOST_MAP_COLUMNS: Final = 240
"""Ranks and steps of a map: of more, neighbours share a cell, where the latest shows."""


def shade_map(block: Shades) -> tuple[Message, Chart]:
    """Times by rank and step as a map, and what its cells say."""
    largest = max(int(block.ns.max()), 1)
    columns = np.array_split(np.arange(len(block.steps)), min(len(block.steps), _MOST_MAP_COLUMNS))
    rows = []
    for members in np.array_split(np.arange(len(block.ranks)), min(len(block.ranks), _MOST_MAP_ROWS)):
        latest = np.array([int(block.ns[np.ix_(members, column)].max()) for column in columns], np.int64)
        first, last = block.ranks[int(members[0])], block.ranks[int(members[-1])]
        name = first if len(members) == 1 else f"{first} - {last}"
        rows.append(HeatRow(name, latest, time_text(int(latest.max()))))
    worst = sorted(rows, key=lambda row: -int(row.values.max()))[:4]
    described = joined(say("; "), [say("{rank}: up to {time}", rank=row.name, time=row.said) for row in worst])
    ends = (say("step {step}", step=block.steps[0]), say("step {step}", step=block.steps[-1]))
    scale = say("of {time}", time=time_text(largest))
    said = say(
        "One row per rank, one column per step: {what}; full color is {most}.",
        what=block.what,
        most=time_text(largest),
    )
    return said, Chart(partial(heat_map, block.title, described, rows, largest, ends, scale), name="rank-map")


def _levels(values: Ints, full: Sequence[int] | int) -> list[int]:
    most = [full] * len(values) if isinstance(full, int) else list(full)
    return [heat_level(value / whole if whole else 0.0) for value, whole in zip(values.tolist(), most, strict=True)]


def _cells(levels: Sequence[int], left: float, top: int) -> list[Mark]:
    """Neighbours of one level are one box."""
    wide = (1 - left) / len(levels)
    boxes: dict[int, list[Box]] = {}
    start = 0
    for level, equal in groupby(levels):
        count = len(list(equal))
        boxes.setdefault(level, []).append((left + start * wide, top, count * wide, _ROW))
        start += count
    return [Boxes(f"heat-{level}", tuple(some)) for level, some in sorted(boxes.items())]


def _heat_legend(of: str) -> tuple[tuple[str, str], ...]:
    """The tones of a map with what they stand for: nothing, then even parts of the whole."""
    steps = len(HEAT) - 1
    bounds = [f"{100 * (level - 1) // steps}-{100 * level // steps} %" for level in range(1, len(HEAT))]
    bounds[-1] += f" {of}" if of else ""
    return tuple((f"heat-{level}", text) for level, text in enumerate(("0", *bounds)))


_BANDS: Final = (
    *("compute-attention", "compute-moe", "bound-memory", "compute-gemm", "compute-norm", "comm"),
    *("compute-elementwise", "compute-sort", "compute-other"),
)
_LINE: Final = "copy"
"""Tones of memory in use, by who holds it, and of memory reserved."""


class Band(Struct, frozen=True, eq=False):
    """A part of an area, from what lies under it up."""

    values: Ints
    name: str = ""
    hint: str = ""


def memory_area(
    title: str,
    description: str,
    bands: Sequence[Band],
    ends: tuple[str, str],
    line_bytes: Ints | None = None,
    line_name: str = "",
) -> Picture:
    """The memory in use, as an area of bands; what was reserved for it as a line, where it is known."""
    tall, head = 130 if len(bands) < 2 else 220, 16
    tops = np.cumsum([band.values for band in bands], axis=0)
    peak = float(max(int(tops.max()), 1 if line_bytes is None else int(line_bytes.max()), 1))
    marks = axis(ticks(peak, 1), peak, head, tall, bytes_text)
    areas = list(zip(_BANDS, bands, tops, strict=False))
    for tone, band, top in reversed(areas):  # what lies lower is drawn over it
        marks.append(Trail(tone, _level(top, peak, head, tall), floor=head + tall, hint=band.hint))
    if line_bytes is not None:
        marks.append(Trail(_LINE, _level(line_bytes, peak, head, tall)))
    marks.append(GridLine(0, head + tall, 1, head + tall))
    marks.append(Words(0, head + tall + SIZE + 4, ends[0]))
    marks.append(Words(1, head + tall + SIZE + 4, ends[1], anchor="end"))
    legend = [(tone, band.name) for tone, band, _ in areas if band.name]
    legend += [(_LINE, line_name)] if line_name else []
    return Picture(head + tall + SIZE + 10, title, description, tuple(marks), tuple(legend))


def _level(values: Ints, peak: float, head: int, tall: int) -> tuple[tuple[float, float], ...]:
    """Steps from bin to bin; neighbours of one level are one."""
    wide, position = 1 / len(values), 0
    points = []
    for value, equal in groupby(values.tolist()):
        height, end = head + tall - max(value, 0) / peak * tall, position + len(list(equal))
        points += [(position * wide, height), (end * wide, height)]
        position = end
    return tuple(points)


_LANE: Final = 16
_BETWEEN: Final = 8
_AXIS_HEIGHT: Final = 20
"""Above the first row: the axis."""

_LEAST: Final = 0.0006
"""No bar is narrower, or nobody would see it."""

_FEWEST_LETTERS: Final = 6
"""A name that is cut to less says nothing."""


class LaneBar(Struct, frozen=True):
    """One bar: where it begins and how long it is, as shares of the picture's width."""

    left: float
    width: float
    lane: int
    tone: str
    name: str


class LaneRow(Struct, frozen=True):
    """What belongs together, under a name: a thread, a stream."""

    name: str
    bars: Sequence[LaneBar]
    hatched: bool = False
    """As idle time is, wherever it is shown."""


def lane_chart(
    title: str,
    description: str,
    rows: Sequence[LaneRow],
    instants: Sequence[tuple[float, str]],
    legend: tuple[tuple[str, str], ...] = (),
) -> Picture:
    """Rows from the top down, each as tall as it has lanes; `instants` are places on the axis and their words."""
    marks: list[Mark] = []
    top = float(_AXIS_HEIGHT)
    for row in rows:
        marks.append(Words(0, top + SIZE, row.name, "ink", bold=True))
        top += SIZE + 5
        marks += _bars(row, top)
        top += (1 + max((bar.lane for bar in row.bars), default=0)) * _LANE + _BETWEEN
    for left, text in instants:
        marks.append(GridLine(left, _AXIS_HEIGHT - 4, left, top))
        marks.append(Words(left, SIZE, text, anchor="start" if left < 0.1 else "middle" if left < 0.9 else "end"))
    return Picture(round(top), title, description, tuple(marks), legend)


def _bars(row: LaneRow, top: float) -> list[Mark]:
    """Bars of one tone are one shape; a bar that has room carries its name."""
    boxes: dict[str, list[Box]] = {}
    names: list[Mark] = []
    for bar in row.bars:
        down = top + bar.lane * _LANE
        width = max(bar.width, _LEAST)
        boxes.setdefault(bar.tone, []).append((min(bar.left, 1 - width), down, width, _LANE - 1))
        room = bar.width * WIDE - 6
        name = cut_in_the_middle(bar.name, int(room / text_width("n")))
        if len(name) >= min(_FEWEST_LETTERS, len(bar.name)) and name:
            names.append(Words(bar.left, down + SIZE - 1, name, _ink(bar.tone), aside=3))
    return [*(Boxes(tone, tuple(some), hatched=row.hatched) for tone, some in boxes.items()), *names]


def _ink(tone: str) -> str:
    """What can be read on a tone."""
    red, green, blue = (int(TONES[tone].light[digit : digit + 2], 16) for digit in (1, 3, 5))
    return "ink" if 2 * red + 5 * green + blue > 8 * 150 else "paper"

"""Charts of amounts: numbers in, a `Picture` out. Bars of lines that sum to a whole, columns, a tree, a waterfall.

Texts are given as they are to be shown, in whatever language. Nothing is computed here but places on paper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final

from msgspec import Struct

from gpuledger.messages import Message, joined
from gpuledger.present.charts.svg import (
    NARROW,
    SIZE,
    WIDE,
    Box,
    Boxes,
    GridLine,
    Mark,
    Picture,
    Words,
    is_hatched,
    text_width,
)

_BAR: Final = 34
_LINE: Final = 18
"""A line of text, in pixels."""

_APART: Final = 0.0012
"""The gap between neighbours, as a share of the width."""


class Part(Struct, frozen=True):
    """One part of a whole. `more` is another way to give the amount, shown where there is room for both."""

    tone: str
    share: float
    name: str
    value: str
    """With its unit."""
    more: str = ""
    brief: str = ""
    """A short name."""

    @property
    def hint(self) -> str:
        return joined("", (self.name, ": ", self.value, *((" (", self.more, ")") if self.more else ())))

    @property
    def texts(self) -> tuple[str, ...]:
        """What may stand under it, the longest first."""
        both = f"{self.name} {self.value}"
        longest = (f"{both} ({self.more})",) if self.more else ()
        return (*longest, both, *((f"{self.brief} {self.value}", self.brief) if self.brief else ()))


class Bar(Struct, frozen=True):
    """Parts that sum to one, and what the bar is called; empty where there is only one."""

    name: str
    parts: tuple[Part, ...]


def stacked_bars(title: str, description: str, bars: Sequence[Bar]) -> Picture:
    """A bar over the whole width for each, its parts in order, with names under those that have room for one."""
    marks: list[Mark] = []
    top = 0
    for bar in bars:
        if bar.name:
            marks.append(Words(0, top + SIZE, bar.name, "ink", bold=True))
            top += _LINE + 2
        left = 0.0
        for part in bar.parts:
            marks.append(Boxes(part.tone, (_apart(left, top, part.share, _BAR),), part.hint, is_hatched(part.tone)))
            marks += _part_name(part, left, top + _BAR + SIZE + 4)
            left += part.share
        top += _BAR + _LINE + 14
    return Picture(max(top - 6, 1), title, description, tuple(marks))


def _part_name(part: Part, left: float, line: float) -> list[Mark]:
    """The longest text that fits under a part on a wide page, and on a narrow one."""
    room = part.share - 0.008
    wide, narrow = (
        next((text for text in part.texts if text_width(text) <= room * across), "") for across in (WIDE, NARROW)
    )
    if wide == narrow:
        return [Words(left, line, wide)] if wide else []
    small = [Words(left, line, narrow, only="narrow")] if narrow else []
    return [Words(left, line, wide, only="wide"), *small]


def _apart(left: float, top: float, width: float, height: float) -> Box:
    """A box that leaves a little of the paper before its right neighbour, but never more than a fifth of itself."""
    return left, top, width - min(_APART, width / 5), height


class ChartColumn(Struct, frozen=True):
    """One column of each series: shares of the series' largest, and texts to stand above them."""

    name: str
    shares: tuple[float, ...]
    texts: tuple[str, ...]


def columns_said(given: Sequence[ChartColumn]) -> Message:
    """Columns in words."""
    return joined("; ", (joined(": ", (column.name, " / ".join(column.texts))) for column in given))


def columns(
    title: str, description: str, series: Sequence[tuple[str, str]], given: Sequence[ChartColumn], tall: int = 150
) -> Picture:
    """Groups of columns in the order given; each series is a tone with its name, the only one may have none."""
    floor = tall + _LINE
    marks: list[Mark] = [GridLine(0, floor, 1, floor)]
    most = max((share for column in given for share in column.shares), default=0.0) or 1.0
    room = 1 / max(len(given), 1)
    wide = room * 0.8 / len(series)
    fits = all(text_width(column.name) <= room * NARROW for column in given)
    for position, column in enumerate(given):
        for number, ((tone, _), share, text) in enumerate(zip(series, column.shares, column.texts, strict=True)):
            left = position * room + room * 0.1 + number * wide
            height = max(share / most * tall, 1.0 if share else 0.0)
            if share:
                box = _apart(left, floor - height, wide, height)
                marks.append(Boxes(tone, (box,), f"{column.name}: {text}", is_hatched(tone)))
            marks.append(Words(left + wide / 2, floor - height - 4, text, "ink", "middle", wide))
        marks += _column_name(column.name, position, room, floor + _LINE, fits=fits)
    legend = tuple(entry for entry in series if entry[1])
    return Picture(tall + (2 if fits else 3) * _LINE + 6, title, description, tuple(marks), legend)


def _column_name(name: str, position: int, room: float, line: int, *, fits: bool) -> list[Mark]:
    """Under its column; where not all fit a narrow page, every second one is a line lower there."""
    middle = (position + 0.5) * room
    if fits:
        return [Words(middle, line, name, anchor="middle", room=room)]
    anchor, x = ("start", 0.0) if position == 0 else ("middle", middle)
    lower = Words(x, line + position % 2 * _LINE, name, anchor=anchor, only="narrow")
    return [Words(middle, line, name, anchor="middle", room=room, only="wide"), lower]


class Node(Struct, frozen=True):
    """A range in a tree: its depth, where it begins and how wide it is as shares of the whole."""

    depth: int
    left: float
    width: float
    name: str
    value: str
    outside: bool = False
    """Whether this stands for what lies in no range."""


THINNEST: Final = 0.0008
"""A share of the width that can still be seen."""

_SHADES: Final = ("heat-2", "heat-1")
_NODE: Final = 38


def icicle(title: str, description: str, nodes: Sequence[Node], deepest: int = 10) -> Picture:
    """Children under their parents, each as wide as its share; those too thin to see are left out."""
    drawn = [node for node in nodes if node.width >= THINNEST and node.depth < deepest]
    marks: list[Mark] = []
    for node in drawn:
        tone = "panel" if node.outside else _SHADES[node.depth % len(_SHADES)]
        top = node.depth * (_NODE + 2)
        marks.append(Boxes(tone, (_apart(node.left, top, node.width, _NODE),), f"{node.name}: {node.value}"))
        room = node.width - 0.012
        marks.append(Words(node.left + 0.006, top + SIZE + 3, node.name, "ink", room=room))
        marks.append(Words(node.left + 0.006, top + 2 * SIZE + 7, node.value, "ink", room=room))
    levels = max((node.depth for node in drawn), default=0) + 1
    return Picture(levels * (_NODE + 2), title, description, tuple(marks))


class Change(Struct, frozen=True):
    """A part of a difference."""

    name: str
    amount: float
    text: str
    tone: str


def waterfall(
    title: str,
    description: str,
    before: tuple[str, float, str],
    changes: Sequence[Change],
    after: tuple[str, float, str],
) -> Picture:
    """From one amount to another: each part begins where the one above it ends."""
    levels = [*accumulate((change.amount for change in changes), initial=before[1])]
    low, high = min(0.0, *levels, after[1]), max(*levels, after[1], 0.0)
    span, height = (high - low) or 1.0, _LINE + 18

    def place(amount: float) -> float:
        return (amount - low) / span

    rows = [
        (before[0], 0.0, before[1], before[2], "muted"),
        *(
            (change.name, start, start + change.amount, change.text, change.tone)
            for change, start in zip(changes, levels, strict=False)
        ),
        (after[0], 0.0, after[1], after[2], "muted"),
    ]
    marks: list[Mark] = [GridLine(place(0.0), 0, place(0.0), height * len(rows))]
    for number, (name, start, end, text, tone) in enumerate(rows):
        left, right = sorted((place(start), place(end)))
        is_end, top = number in (0, len(rows) - 1), number * height
        marks.append(Words(0, top + SIZE + 1, name, "ink", bold=is_end))
        marks.append(Words(1, top + SIZE + 1, text, "ink", "end", bold=is_end))
        box = (left, top + _LINE, max(right - left, 0.002), 11)
        marks.append(Boxes(tone, (box,), f"{name}: {text}", is_hatched(tone)))
    return Picture(height * len(rows) + 2, title, description, tuple(marks))


def ticks(most: float, unit: float, count: int = 4) -> list[float]:
    """Round numbers from 0 up to `most`, about `count` of them, in steps of 1, 2 or 5 times a power of ten units."""
    if most <= 0:
        return [0.0]
    step = unit
    while most / step > count:
        for factor in (2.0, 2.5, 2.0):
            step *= factor
            if most / step <= count:
                break
    return [number * step for number in range(int(most / step) + 1)]


def axis(values: Sequence[float], most: float, top: float, tall: float, text: Callable[[int], str]) -> list[Mark]:
    """Lines across with their values above them, from the floor up."""
    marks: list[Mark] = []
    for value in values:
        height = top + tall - value / most * tall
        marks.append(GridLine(0, height, 1, height))
        if value:
            marks.append(Words(0, height - 3, text(round(value)), "ink", halo=True))
    return marks

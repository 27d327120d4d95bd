"""A timeline as a picture: rows of lanes with bars in them, under an axis of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpuledger.present.charts.svg import SIZE, WIDE, Box, Boxes, GridLine, Mark, Picture, Words, text_width
from gpuledger.present.palette import TONES
from gpuledger.present.safe_text import cut_in_the_middle

_LANE: Final = 16
_BETWEEN: Final = 8
_HEAD: Final = 20
"""Above the first row: the axis."""

_LEAST: Final = 0.0006
"""No bar is narrower, or nobody would see it."""

_FEWEST_LETTERS: Final = 6
"""A name that is cut to less says nothing."""


@dataclass(frozen=True, slots=True)
class LaneBar:
    """One bar: where it begins and how long it is, as shares of the picture's width."""

    left: float
    width: float
    lane: int
    tone: str
    name: str


@dataclass(frozen=True, slots=True)
class LaneRow:
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
    top = float(_HEAD)
    for row in rows:
        marks.append(Words(0, top + SIZE, row.name, "ink", bold=True))
        top += SIZE + 5
        marks += _bars(row, top)
        top += (1 + max((bar.lane for bar in row.bars), default=0)) * _LANE + _BETWEEN
    for at, text in instants:
        marks.append(GridLine(at, _HEAD - 4, at, top))
        marks.append(Words(at, SIZE, text, anchor="start" if at < 0.1 else "middle" if at < 0.9 else "end"))
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
    red, green, blue = (int(TONES[tone].light[at : at + 2], 16) for at in (1, 3, 5))
    return "ink" if 2 * red + 5 * green + blue > 8 * 150 else "paper"

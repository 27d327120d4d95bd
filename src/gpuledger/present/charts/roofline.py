"""The roofline as a chart: kernels as dots under the roofs of the device that they ran on, both axes in decades.

Names neither touch one another nor cover a dot: each stands where there is room, or nowhere. Text keeps its size while
places across stretch with the page, so the narrowest page decides: on a wider one all that lies side by side is further
apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from gpuledger.present.charts.svg import SIZE, WIDE, Dot, GridLine, Mark, Picture, Trail, Words, text_width

_BESIDE: Final = (4, -9, 17)
"""How far below a dot's middle the baseline of its name may be, in the order of liking."""

_APART: Final = 2
"""Pixels between a name and whatever else there is."""


class _LabelBox(Struct, frozen=True):
    """A rectangle on the narrowest page, in pixels."""

    left: float
    right: float
    top: float
    bottom: float

    @classmethod
    def of(cls, words: Words) -> _LabelBox:
        """What a text takes."""
        wide, place = text_width(words.text), words.x * WIDE + words.aside
        left = place - {"start": 0.0, "middle": wide / 2, "end": wide}[words.anchor]
        return cls(left, left + wide, words.y - SIZE + 2, words.y + 3)

    def meets(self, other: _LabelBox) -> bool:
        return (
            self.left < other.right + _APART
            and other.left < self.right + _APART
            and self.top < other.bottom + 1
            and other.top < self.bottom + 1
        )


def _room_of_wide_pages(name: str) -> float:
    """As much as it needs there: on a narrow one, names would lie on one another."""
    return text_width(name) / WIDE * 1.01


class LabelledPaper:
    """Marks that are there already, dots, and the names that are put beside them."""

    def __init__(self, marks: Sequence[Mark], dots: Sequence[Dot]) -> None:
        self.marks = list(marks)
        self._dots: Final = {
            dot: _LabelBox(
                dot.x * WIDE - dot.radius, dot.x * WIDE + dot.radius, dot.y - dot.radius / 2, dot.y + dot.radius / 2
            )
            for dot in dots
        }
        self._taken = [_LabelBox.of(mark) for mark in marks if isinstance(mark, Words)]
        self._lines: list[Trail] = []

    def line(self, trail: Trail) -> None:
        """A line that names had better not lie on."""
        self.marks.append(trail)
        self._lines.append(trail)

    def name_line(self, name: str, places: Sequence[tuple[float, float]]) -> None:
        """The name of a line, which ends at the first of these places that is free; if none is, the line has a hint."""
        inside = _room_of_wide_pages(name)
        rooms = [0.6 if x == 1 else inside for x, _ in places]  # at the edge nothing is in its way
        self._put(
            [Words(x, y, name, "ink", "end", room, halo=True) for (x, y), room in zip(places, rooms, strict=True)]
        )

    def name(self, dot: Dot, name: str) -> None:
        """The name of a dot, beside it; none where there is no room, as the dot has a hint."""
        away, room = dot.radius + 5, _room_of_wide_pages(name)
        right = [Words(dot.x, dot.y + below, name, "ink", "start", room, halo=True, aside=away) for below in _BESIDE]
        left = [Words(dot.x, dot.y + below, name, "ink", "end", room, halo=True, aside=-away) for below in _BESIDE]
        places = [words for words in (*right, *left) if not self._passes_a_dot(dot, words)]
        self._put([words for words in places if not self._crosses(words)] or places)

    def _passes_a_dot(self, dot: Dot, words: Words) -> bool:
        """Whether another dot is between one and the end of its name: on a wider page the name would cover it."""
        room, middle = _LabelBox.of(words), dot.x * WIDE
        left, right = min(room.left, middle), max(room.right, middle)
        return any(left < other.x * WIDE < right and room.top < other.y < room.bottom for other in self._dots)

    def _put(self, places: Sequence[Words]) -> None:
        free = next((words for words in places if self._is_free(_LabelBox.of(words))), None)
        if free is not None:
            self.marks.append(free)
            self._taken.append(_LabelBox.of(free))

    def _is_free(self, room: _LabelBox) -> bool:
        if room.left < 0 or room.right > WIDE:
            return False
        return not any(room.meets(other) for other in (*self._taken, *self._dots.values()))

    def _crosses(self, words: Words) -> bool:
        """Whether a text lies on a line."""
        room = _LabelBox.of(words)
        for line in self._lines:
            (x0, y0), (x1, y1) = line.points[0], line.points[-1]
            slope = (y1 - y0) / max((x1 - x0) * WIDE, 1e-9)
            left, right = max(room.left, x0 * WIDE), min(room.right, x1 * WIDE)
            ends = [y0 + slope * (x - x0 * WIDE) for x in (left, right)]
            if left < right and min(ends) < room.bottom and max(ends) > room.top:
                return True
        return False


_TALL: Final = 340
_HEAD: Final = 18
_NAMED: Final = 8
"""So many dots have their name beside them, the largest first."""

_RATES: Final = (
    (1e15, "PFLOP/s"),
    (1e12, "TFLOP/s"),
    (1e9, "GFLOP/s"),
    (1e6, "MFLOP/s"),
    (1e3, "kFLOP/s"),
    (1.0, "FLOP/s"),
)


class Spot(Struct, frozen=True):
    """One kernel."""

    name: str
    operations_per_byte: float
    operations_per_s: float
    weight: float
    """Its share of the time; the area of the dot."""
    tone: str
    hint: str
    hollow: bool = False


class Ceiling(Struct, frozen=True):
    """A roof: operations per second, or bytes per second where it is slanted."""

    name: str
    per_s: float
    slanted: bool


def rate_text(per_s: float) -> str:
    """Operations per second for people."""
    factor, unit = next((rate for rate in _RATES if per_s >= rate[0]), _RATES[-1])
    return f"{per_s / factor:.3g} {unit}"


class _Plane(Struct, frozen=True):
    """From operations per byte and per second to places on paper; bounds are powers of ten."""

    x_low: int
    x_high: int
    y_low: int
    y_high: int

    def across(self, value: float) -> float:
        return (math.log10(value) - self.x_low) / (self.x_high - self.x_low)

    def down(self, value: float) -> float:
        return _HEAD + _TALL * (1 - (math.log10(value) - self.y_low) / (self.y_high - self.y_low))


def roofline(
    title: str,
    description: str,
    axis_title: str,
    spots: Sequence[Spot],
    roofs: Sequence[Ceiling],
    legend: tuple[tuple[str, str], ...] = (),
) -> Picture:
    """Dots under the roofs. At least one dot and one flat roof must be given."""
    flat = [roof.per_s for roof in roofs if not roof.slanted]
    slopes = [roof.per_s for roof in roofs if roof.slanted]
    ridge = [high / slope for high in flat for slope in slopes]
    plane = _Plane(
        *_decades([*(spot.operations_per_byte for spot in spots), *ridge]),
        *_decades([*(spot.operations_per_s for spot in spots), *flat]),
    )
    marks = _grid(plane)
    marks.append(Words(1, _HEAD + _TALL + 2 * SIZE + 12, axis_title, anchor="end"))
    largest_first = sorted(spots, key=lambda spot: (-spot.weight, spot.name))
    dots = [_dot(spot, plane) for spot in largest_first]
    paper = LabelledPaper(marks, dots)
    for roof in sorted(roofs, key=lambda roof: -roof.per_s):
        _draw_roof(roof, max(flat), plane, paper)
    named: set[str] = set()
    for dot, spot in zip(dots, largest_first, strict=True):
        if spot.name not in named and len(named) < _NAMED:
            paper.name(dot, spot.name)
            named.add(spot.name)
    return Picture(_HEAD + _TALL + 2 * SIZE + 18, title, description, (*paper.marks, *dots), legend)


def _dot(spot: Spot, plane: _Plane) -> Dot:
    radius = 4 + 14 * math.sqrt(max(spot.weight, 0.0))
    x, y = plane.across(spot.operations_per_byte), plane.down(spot.operations_per_s)
    return Dot(x, y, radius, spot.tone, spot.hollow, spot.hint)


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 1e-9)
    return low, max(high, low + 1)


def _grid(plane: _Plane) -> list[Mark]:
    marks: list[Mark] = []
    for power in range(plane.x_low, plane.x_high + 1):
        x = plane.across(10.0**power)
        anchor = "start" if power == plane.x_low else "end" if power == plane.x_high else "middle"
        marks.append(GridLine(x, _HEAD, x, _HEAD + _TALL))
        marks.append(Words(x, _HEAD + _TALL + SIZE + 4, f"{10.0**power:g}", anchor=anchor))
    for power in range(plane.y_low, plane.y_high + 1):
        y = plane.down(10.0**power)
        marks.append(GridLine(0, y, 1, y))
        marks.append(Words(0, y - 3, rate_text(10.0**power)))
    return marks


def _draw_roof(roof: Ceiling, highest: float, plane: _Plane, paper: LabelledPaper) -> None:
    """A roof over the plane; a slanted one ends under the highest flat one."""
    if not roof.slanted:
        height = plane.down(roof.per_s)
        paper.line(Trail("muted", ((0.0, height), (1.0, height)), hint=roof.name))
        heights = (height - 5, height + SIZE + 2)
        paper.name_line(roof.name, [(across, down) for across in (1.0, 0.75, 0.5) for down in heights])
        return
    begin = max(10.0**plane.x_low, 10.0**plane.y_low / roof.per_s)
    end = min(10.0**plane.x_high, highest / roof.per_s)
    if begin >= end:
        return
    first, last = ((plane.across(intensity), plane.down(intensity * roof.per_s)) for intensity in (begin, end))
    paper.line(Trail("muted", (first, last), dashed=True, hint=roof.name))
    places = [math.exp((1 - part) * math.log(begin) + part * math.log(end)) for part in (0.5, 0.65, 0.35, 0.8)]
    paper.name_line(roof.name, [(plane.across(x) - 0.012, plane.down(x * roof.per_s) - 6) for x in places])

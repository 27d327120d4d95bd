"""The roofline as a chart: kernels as dots under the roofs of the device that they ran on, both axes in decades."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpuledger.present.charts.labels import LabelledPaper
from gpuledger.present.charts.svg import SIZE, Dot, GridLine, Mark, Picture, Trail, Words

_TALL: Final = 340
_HEAD: Final = 18
_NAMED: Final = 8
"""So many dots have their name beside them, the largest first."""

_RATES: Final = ((1e15, "POP/s"), (1e12, "TOP/s"), (1e9, "GOP/s"), (1e6, "MOP/s"), (1e3, "kOP/s"), (1.0, "OP/s"))


@dataclass(frozen=True, slots=True)
class Spot:
    """One kernel."""

    name: str
    operations_per_byte: float
    operations_per_s: float
    weight: float
    """Its share of the time; the area of the dot."""
    tone: str
    hint: str
    hollow: bool = False


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A roof: operations per second, or bytes per second where it is slanted."""

    name: str
    per_s: float
    slanted: bool


def rate_text(per_s: float) -> str:
    """Operations per second for people."""
    factor, unit = next((each for each in _RATES if per_s >= each[0]), _RATES[-1])
    return f"{per_s / factor:.3g} {unit}"


@dataclass(frozen=True, slots=True)
class _Plane:
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
    largest_first = sorted(spots, key=lambda each: (-each.weight, each.name))
    dots = [_dot(spot, plane) for spot in largest_first]
    paper = LabelledPaper(marks, dots)
    for roof in sorted(roofs, key=lambda each: -each.per_s):
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
    first, last = ((plane.across(each), plane.down(each * roof.per_s)) for each in (begin, end))
    paper.line(Trail("muted", (first, last), dashed=True, hint=roof.name))
    places = [math.exp((1 - part) * math.log(begin) + part * math.log(end)) for part in (0.5, 0.65, 0.35, 0.8)]
    paper.name_line(roof.name, [(plane.across(at) - 0.012, plane.down(at * roof.per_s) - 6) for at in places])

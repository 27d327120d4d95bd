"""The roofline as a chart: kernels as dots under the roofs of the device that they ran on, both axes in decades."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpuledger.present.charts.svg import SIZE, WIDE, Dot, Mark, Picture, Rule, Trail, Words, text_width

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
    taken: list[tuple[float, float, float]] = []
    for roof in roofs:
        marks += _roof(roof, max(flat), plane)
        if not roof.slanted:
            taken.append((1 - text_width(roof.name) / WIDE, 1, plane.down(roof.per_s) - 5))
    named: set[str] = set()
    for spot in sorted(spots, key=lambda each: (-each.weight, each.name)):
        x, y = plane.across(spot.operations_per_byte), plane.down(spot.operations_per_s)
        radius = 4 + 14 * math.sqrt(max(spot.weight, 0.0))
        marks.append(Dot(x, y, radius, spot.tone, spot.hollow, spot.hint))
        if spot.name not in named and len(named) < _NAMED:
            marks += _label(spot.name, x, y, radius, taken)
            named.add(spot.name)
    return Picture(_HEAD + _TALL + 2 * SIZE + 18, title, description, tuple(marks), legend)


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 1e-9)
    return low, max(high, low + 1)


def _grid(plane: _Plane) -> list[Mark]:
    marks: list[Mark] = []
    for power in range(plane.x_low, plane.x_high + 1):
        x = plane.across(10.0**power)
        anchor = "start" if power == plane.x_low else "end" if power == plane.x_high else "middle"
        marks.append(Rule(x, _HEAD, x, _HEAD + _TALL))
        marks.append(Words(x, _HEAD + _TALL + SIZE + 4, f"{10.0**power:g}", anchor=anchor))
    for power in range(plane.y_low, plane.y_high + 1):
        y = plane.down(10.0**power)
        marks.append(Rule(0, y, 1, y))
        marks.append(Words(0, y - 3, rate_text(10.0**power)))
    return marks


def _roof(roof: Ceiling, highest: float, plane: _Plane) -> list[Mark]:
    """A roof over the plane; a slanted one ends under the highest flat one."""
    if not roof.slanted:
        height = plane.down(roof.per_s)
        name = Words(1, height - 5, roof.name, "ink", "end", room=0.6)
        return [Trail("muted", ((0.0, height), (1.0, height)), hint=roof.name), name]
    begin = max(10.0**plane.x_low, 10.0**plane.y_low / roof.per_s)
    end = min(10.0**plane.x_high, highest / roof.per_s)
    if begin >= end:
        return []
    first, last = ((plane.across(each), plane.down(each * roof.per_s)) for each in (begin, end))
    middle = math.sqrt(begin * end)
    x, y = plane.across(middle) - 0.012, plane.down(middle * roof.per_s) - 6
    return [Trail("muted", (first, last), dashed=True, hint=roof.name), Words(x, y, roof.name, "ink", "end", room=0.5)]


def _label(name: str, x: float, y: float, radius: float, taken: list[tuple[float, float, float]]) -> list[Mark]:
    """A name to the right of its dot, or to the left where the edge is near; none where another name is."""
    wide = text_width(name) / WIDE
    to_left = x + radius / WIDE + wide + 0.01 > 1
    begin = x - radius / WIDE - wide - 0.006 if to_left else x + radius / WIDE + 0.006
    for shift in (4, -9, 17, -22, 30):
        line = y + shift
        if all(abs(line - other) >= SIZE + 1 or begin + wide < left or begin > right for left, right, other in taken):
            taken.append((begin, begin + wide, line))
            where, anchor = (begin + wide, "end") if to_left else (begin, "start")
            return [Words(where, line, name, "ink", anchor, wide * 1.01, halo=True)]
    return []

"""Names in a picture that neither touch one another nor cover a dot: each where there is room, or nowhere.

Text keeps its size while places across stretch with the page. So the narrowest page decides: on a wider one all that
lies side by side is further apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpuledger.present.charts.svg import SIZE, WIDE, Dot, Mark, Trail, Words, text_width

_BESIDE: Final = (4, -9, 17)
"""How far below a dot's middle the baseline of its name may be, in the order of liking."""

_APART: Final = 2
"""Pixels between a name and whatever else there is."""


@dataclass(frozen=True, slots=True)
class _LabelBox:
    """A rectangle on the narrowest page, in pixels."""

    left: float
    right: float
    top: float
    bottom: float

    @classmethod
    def of(cls, words: Words) -> _LabelBox:
        """What a text takes."""
        wide, at = text_width(words.text), words.x * WIDE + words.aside
        left = at - {"start": 0.0, "middle": wide / 2, "end": wide}[words.anchor]
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
        places = [*right, *left]
        self._put([words for words in places if not self._crosses(words)] or places)

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
            ends = [y0 + slope * (at - x0 * WIDE) for at in (left, right)]
            if left < right and min(ends) < room.bottom and max(ends) > room.top:
                return True
        return False

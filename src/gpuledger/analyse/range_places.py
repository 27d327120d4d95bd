"""Which range holds lost time: ranges and stretches of their threads in, the paths of names that hold the most out.

An instant belongs to the innermost range that is open then on the thread that lost it. Ranges are put together by
their path of names, over all threads. From the outside in, the path goes on while one range holds half of what the one
around it holds, and enough of the whole: so it ends where the time is, or where it parts. What lies in no range is a
place too: outside every range, between two of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from gpuledger.analyse.lost_time import ThreadTime, longest, whole_ns
from gpuledger.analyse.program_ranges import NamedNest
from gpuledger.trace.keys import Positions, RowsByKey, group
from gpuledger.trace.spans import Ints, Span, Spans, covered, difference, intersection, total, union
from gpuledger.trace.tables import Rows

GOES_ON: Final = 0.5
"""A range that holds this share of what the one around it holds is the place, rather than the one around it."""

LEAST_OF_ALL: Final = 0.2
"""A path goes on only while it holds this share of the whole."""

_OUTSIDE: Final = -1
"""The path of what lies in no range."""

_Sides = tuple[str | None, str | None]


@dataclass(frozen=True, slots=True)
class RangePlace:
    """The ranges of one path, and what they hold."""

    path: tuple[str, ...]
    """Outermost first; empty for what lies outside every range."""
    time_ns: int
    """Of the time asked about, with the ranges inside."""
    between: _Sides
    """The ranges next to most of the time, where that lies in none further inside; None: it begins or ends there."""
    span: Span
    """The longest stretch of it."""
    thread: int
    """The thread with most of it."""


def range_places(ranges: NamedNest, lost: Sequence[ThreadTime]) -> tuple[RangePlace, ...]:
    """Where most of the lost time lies; where it parts inside that, also the largest part. None without any range."""
    if not np.isin(ranges.thread, [part.thread for part in lost]).any():
        return ()
    overlap = np.zeros(len(ranges), np.int64)
    by_thread = RowsByKey.of(ranges.thread)
    for part in lost:
        mine = by_thread.rows(part.thread)
        overlap[mine] = covered(part.spans, ranges.rows["start_ns"][mine], ranges.rows["end_ns"][mine])
    paths = _Paths(ranges, overlap, whole_ns(lost))
    path = paths.heaviest()
    places = [paths.place(path, lost)]
    if path != _OUTSIDE and (part_of_it := paths.largest_part(path)) is not None:
        places.append(paths.place(part_of_it, lost))
    return tuple(place for place in places if place is not None)


def outside_ranges(ranges: NamedNest, part: ThreadTime) -> ThreadTime:
    """The stretches of a thread in which none of these ranges was open on it."""
    mine = ranges.rows.where(ranges.thread == part.thread)
    return replace(part, spans=difference(part.spans, union(mine["start_ns"], mine["end_ns"])))


def held_by_ranges(ranges: NamedNest, inside: Positions, weight_ns: Ints) -> tuple[tuple[str, ...], int]:
    """The path that holds most of what lies, with its weight, in these rows, -1 for none; and what it holds."""
    own = np.zeros(len(ranges), np.int64)
    np.add.at(own, inside[inside >= 0], weight_ns[inside >= 0])
    paths = _Paths(ranges, ranges.nest.summed_up(own), int(weight_ns.sum()))
    path = paths.heaviest()
    return paths.names(path), paths.held(path)


class _Paths:
    """Ranges put together by path of names, and the time that each path holds with what is inside."""

    def __init__(self, ranges: NamedNest, inclusive_ns: Ints, whole: int) -> None:
        self._ranges, self._whole_ns = ranges, whole
        self._of_row: Final = np.full(len(ranges) + 1, _OUTSIDE, np.intp)  # the last is for row -1
        self._above: list[int] = []
        self._name: list[int] = []
        for level in ranges.nest.levels():
            here = level[inclusive_ns[level] > 0]  # what encloses one that holds time holds it too
            if not len(here):
                break
            around = self._of_row[ranges.nest.parent[here]]
            first, path_number = group(around, ranges.name_of[here])
            self._of_row[here] = len(self._name) + path_number
            self._above += around[first].tolist()
            self._name += ranges.name_of[here][first].tolist()
        self._inner: Final[dict[int, list[int]]] = {}
        for path, above in enumerate(self._above):
            self._inner.setdefault(above, []).append(path)
        holds = self._of_row[:-1] >= 0
        self._held: Final = np.zeros(len(self._name), np.int64)
        np.add.at(self._held, self._of_row[:-1][holds], inclusive_ns[holds])

    def held(self, path: int) -> int:
        """What a path holds with what is inside; outside of every range, what no range holds."""
        if path != _OUTSIDE:
            return min(int(self._held[path]), self._whole_ns)
        return max(self._whole_ns - sum(int(self._held[child]) for child in self._inner.get(_OUTSIDE, ())), 0)

    def names(self, path: int) -> tuple[str, ...]:
        """Outermost first."""
        names: list[str] = []
        while path != _OUTSIDE:
            names.append(self._ranges.names[self._name[path]])
            path = self._above[path]
        return tuple(reversed(names))

    def heaviest(self) -> int:
        """The path to tell. Where no outermost range has half, the largest counts if it has more than the outside."""
        child = self._largest_inside(_OUTSIDE)
        enough = max(LEAST_OF_ALL * self._whole_ns, min(GOES_ON * self._whole_ns, self.held(_OUTSIDE)))
        return _OUTSIDE if child is None or self.held(child) < enough else self._innermost(child)

    def largest_part(self, path: int) -> int | None:
        """Where the time parts inside a path: the largest part of it, if it is more than what lies in none."""
        child = self._largest_inside(path)
        own = self.held(path) - sum(self.held(inner) for inner in self._inner.get(path, ()))
        if child is None or self.held(child) < max(LEAST_OF_ALL * self._whole_ns, own):
            return None
        return self._innermost(child)

    def _innermost(self, path: int) -> int:
        """From here on inwards while one range has half."""
        child = self._largest_inside(path)
        while child is not None and self.held(child) >= max(GOES_ON * self.held(path), LEAST_OF_ALL * self._whole_ns):
            path, child = child, self._largest_inside(child)
        return path

    def _largest_inside(self, path: int) -> int | None:
        inside = self._inner.get(path)
        return None if inside is None else max(inside, key=lambda child: (int(self._held[child]), -child))

    def place(self, path: int, lost: Sequence[ThreadTime]) -> RangePlace | None:
        """A path as a place, looked at on the thread with most of it."""
        of_path = self._rows(path)
        by_thread = RowsByKey.of(self._ranges.thread[of_path])

        def inside(part: ThreadTime) -> Spans:
            """The lost time of one thread that the path holds."""
            mine = of_path[by_thread.rows(part.thread)]
            ranges = union(self._ranges.rows["start_ns"][mine], self._ranges.rows["end_ns"][mine])
            return (difference if path == _OUTSIDE else intersection)(part.spans, ranges)

        part, held = max(((part, inside(part)) for part in lost), key=lambda pair: total(pair[1]))
        if not len(held):
            return None
        return RangePlace(
            self.names(path), self.held(path), self._between(path, part, held), longest(held), part.thread
        )

    def _rows(self, path: int) -> Positions:
        """The ranges of a path; outside of every range, all of them."""
        return np.arange(len(self._ranges)) if path == _OUTSIDE else np.flatnonzero(self._of_row[:-1] == path)

    def _between(self, path: int, part: ThreadTime, held: Spans) -> _Sides:
        """The ranges directly inside a path, on one thread, next to most of the time that lies in none of them."""
        rows, parent, mine = self._ranges.rows, self._ranges.nest.parent, self._ranges.thread == part.thread
        around = np.flatnonzero(mine & (self._of_row[:-1] == path)) if path != _OUTSIDE else np.array([-1])
        inner = np.flatnonzero(mine & np.isin(parent, around))
        inner = inner[np.argsort(rows["start_ns"][inner], kind="stable")]
        start, end = rows["start_ns"][inner], rows["end_ns"][inner]
        own = difference(held, union(start, end))
        if not len(inner) or 2 * total(own) < total(held):
            return None, None
        by_end = np.argsort(end, kind="stable")
        before = np.append(inner[by_end], -1)[np.searchsorted(end[by_end], own.start_ns, side="right") - 1]
        after = np.append(inner, -1)[np.searchsorted(start, own.end_ns, side="left")]
        if path != _OUTSIDE:
            instance = _around(rows, around, own)
            before, after = (np.where(parent[side] == instance, side, -1) for side in (before, after))
        names = np.append(self._ranges.name_of, -1)
        first, pair = group(names[before], names[after])
        sums = np.bincount(pair, weights=own.end_ns - own.start_ns)
        most = int(sums.argmax())
        if sums[most] < GOES_ON * total(own):
            return None, None
        return self._name_at(int(names[before[first[most]]])), self._name_at(int(names[after[first[most]]]))

    def _name_at(self, position: int) -> str | None:
        return self._ranges.names[position] if position >= 0 else None


def _around(rows: Rows, ranges: Positions, own: Spans) -> Positions:
    """The range, of several that follow each other, that each stretch lies in."""
    order = ranges[np.argsort(rows["start_ns"][ranges], kind="stable")]
    return order[np.maximum(np.searchsorted(rows["start_ns"][order], own.start_ns, side="right") - 1, 0)]

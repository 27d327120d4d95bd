"""Interval arithmetic, the only place that does any. Half-open integer spans [start, end) in, the same out.

A `Spans` is a set of instants in normal form: sorted, disjoint, not touching, none empty. Every operation on
sets takes and gives normal forms and is vectorised. Two further questions are about records rather than
instants: which record encloses which (`parents`), and which lie inside which (`pairs_inside`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike, NDArray

from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, search
from gpuledger.trace.sweep import NOT_NESTED, expand

Ints = NDArray[np.int64]


class Span(NamedTuple):
    """One stretch of time: [start_ns, end_ns)."""

    start_ns: int
    end_ns: int


class Spans(Struct, frozen=True, eq=False):
    """A set of instants as sorted, disjoint, non-touching, non-empty spans. Make one with `union`."""

    start_ns: Ints
    end_ns: Ints

    def __len__(self) -> int:
        return len(self.start_ns)

    def __iter__(self) -> Iterator[Span]:
        return map(Span, self.start_ns.tolist(), self.end_ns.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spans) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]


def union(start_ns: ArrayLike, end_ns: ArrayLike) -> Spans:
    """The instants that at least one span covers. Empty and backward spans cover none."""
    start, end = np.asarray(start_ns, np.int64), np.asarray(end_ns, np.int64)
    return Spans(*sweep.union(start, end))


def union_of(start_ns: Ints, end_ns: Ints, label: NDArray[np.int8], wanted: int) -> Spans:
    """The instants that at least one span with this label covers."""
    return Spans(*sweep.union_of(start_ns, end_ns, label, wanted))


def either(a: Spans, b: Spans) -> Spans:
    """The instants that lie in one of them, or in both."""
    return Spans(*sweep.either((a.start_ns, a.end_ns), (b.start_ns, b.end_ns)))


def total(spans: Spans) -> int:
    """How many nanoseconds the spans cover."""
    return int((spans.end_ns - spans.start_ns).sum())


def clip(spans: Spans, window: Span) -> Spans:
    """The part of `spans` that lies in `window`."""
    if not len(spans) or (window.start_ns <= spans.start_ns[0] and spans.end_ns[-1] <= window.end_ns):
        return spans
    first = np.searchsorted(spans.end_ns, window.start_ns, "right")
    last = np.searchsorted(spans.start_ns, window.end_ns)
    near = Spans(spans.start_ns[first:last], spans.end_ns[first:last])
    return intersection(near, one_span(window))


def complement(spans: Spans, window: Span) -> Spans:
    """The part of `window` that `spans` leaves free."""
    return difference(one_span(window), spans)


def one_span(window: Span) -> Spans:
    """One stretch as a set; the empty set where it is empty or backward."""
    return union([window.start_ns], [window.end_ns])


def holds(spans: Spans, instants: Ints) -> NDArray[np.bool_]:
    """Which of the instants lie in the spans."""
    if len(spans) == 1:
        inside: NDArray[np.bool_] = (instants >= spans.start_ns[0]) & (instants < spans.end_ns[0])
        return inside
    place = sweep.search(spans.start_ns, instants, "right")
    return instants < np.append(np.iinfo(np.int64).min, spans.end_ns)[place]


def cut_to(start_ns: Ints, end_ns: Ints, spans: Spans) -> tuple[Ints, Ints, Positions]:
    """The parts of records that lie in the spans, by their start: starts, ends, and whose each one is.

    Of parts that start together, that of the earlier record comes first.
    """
    first, last = sweep.search(spans.end_ns, start_ns, "right"), sweep.search(spans.start_ns, end_ns, "left")
    whose, span = expand(first, last)
    del first, last
    start, end = start_ns[whose], end_ns[whose]
    np.maximum(start, spans.start_ns[span], out=start)
    np.minimum(end, spans.end_ns[span], out=end)
    if (start[1:] >= start[:-1]).all():  # as of records that do not overlap
        return start, end, whose
    order = np.argsort(start, kind="stable")
    return start[order], end[order], whose[order]


def intersection(a: Spans, b: Spans) -> Spans:
    """The instants that lie in both."""
    return Spans(*sweep.intersection((a.start_ns, a.end_ns), (b.start_ns, b.end_ns)))


def difference(a: Spans, b: Spans) -> Spans:
    """The instants of `a` that are not in `b`."""
    return Spans(*sweep.difference((a.start_ns, a.end_ns), (b.start_ns, b.end_ns)))


def covered(spans: Spans, start_ns: Ints, end_ns: Ints) -> Ints:
    """For each window [start, end) how many nanoseconds of it the spans cover."""
    return sweep.covered((spans.start_ns, spans.end_ns), start_ns, end_ns)


def furthest(end_ns: Ints) -> Ints:
    """For each record the latest end up to and including it."""
    return np.maximum.accumulate(end_ns)


def shares_in_order(start_ns: Ints, end_ns: Ints) -> tuple[Ints, Ints]:
    """The part of each record that belongs to it alone, when an instant belongs to the first record that covers it.

    Records come in order of their start. The parts are disjoint and together cover what the records cover; a record
    that owns nothing has an empty part.
    """
    return sweep.shares(start_ns, end_ns)


def cut_at(start_ns: Ints, end_ns: Ints, cuts: Ints) -> tuple[Ints, Ints, Positions]:
    """Each span cut at the sorted instants that lie inside it: starts and ends of the pieces, and whose each one is."""
    whose, later, at = cuts_inside(start_ns, end_ns, cuts)
    begin, end = start_ns[whose], end_ns[whose]
    begin[later] = end[later - 1] = at
    return begin, end, whose


def cuts_inside(start_ns: Ints, end_ns: Ints, cuts: Ints) -> tuple[Positions, Positions, Ints]:
    """For each piece of spans that are cut whose it is; which pieces begin with a cut, and these."""
    first = sweep.search(cuts, start_ns, "right").astype(np.int32)
    last = sweep.search(cuts, end_ns, "left").astype(np.int32)
    inside = np.maximum(last - first, 0)
    if not inside.any():
        return np.arange(len(start_ns)), np.empty(0, np.intp), cuts[:0]
    crossed = np.flatnonzero(inside)  # mostly few
    _, cut = expand(first[crossed].astype(np.intp), last[crossed].astype(np.intp))
    whose = np.repeat(np.arange(len(start_ns)), inside + 1)
    later = np.flatnonzero(whose[1:] == whose[:-1]) + 1  # every piece but a span's first begins with a cut
    return whose, later, cuts[cut]


def pairs_inside(
    outer_start: Ints, outer_end: Ints, outer_group: Ints, inner_start: Ints, inner_end: Ints, inner_group: Ints
) -> tuple[Positions, Positions]:
    """All pairs (outer, inner) of records of one group where inner lies wholly within outer, bounds included."""
    by_start = np.lexsort((inner_start, inner_group))
    group, start = inner_group[by_start], inner_start[by_start]
    first = search(group, start, outer_group, outer_start, side="left")
    last = search(group, start, outer_group, outer_end, side="right")
    outer, position = expand(first, last)
    inner = by_start[position]
    whole = inner_end[inner] <= outer_end[outer]
    return outer[whole], inner[whole]


def shortest_around(
    outer_start: Ints, outer_end: Ints, outer_group: Ints, inner_start: Ints, inner_end: Ints, inner_group: Ints
) -> Positions:
    """For each inner record the shortest outer one of its group that it lies wholly within; -1 for none.

    Of equally short ones it is the last. One record after another, so it is for where `pairs_inside` would be too many.
    """
    count = len(outer_start)
    start, end = np.concatenate((outer_start, inner_start)), np.concatenate((outer_end, inner_end))
    group = np.concatenate((outer_group, inner_group))
    order = np.lexsort((np.arange(len(start)), start, group))  # what begins at once with an outer one may lie in it
    around = np.full(len(inner_start), -1, np.intp)
    for members in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        outer = members[members < count]
        if not len(outer):
            continue
        latest_first = -np.sort(-outer_end[outer])
        last = np.where(members < count, end[members], np.maximum(start, end)[members])
        places = np.searchsorted(-latest_first, -last, side="right").tolist()  # of those that end no earlier
        shortest = _Minima(len(outer))
        for record, place, length in zip(members.tolist(), places, (end - start)[members].tolist(), strict=True):
            if record < count:
                shortest.enter(place, (length, -record, (0, 0)))
            elif (least := shortest.up_to(place)) is not None:
                around[record - count] = -least[1]
    return around


def parents(start_ns: Ints, end_ns: Ints, group: Ints) -> Positions:
    """For each record the shortest other one of its group that encloses it, bounds included; -1 where none does.

    Of several equally short ones it is the first record. Records with the same bounds nest in their order, the first
    outermost, and the innermost of them holds what they enclose. So the result is a forest.
    """
    order = in_nesting_order(start_ns, end_ns, group)
    ordered = group[order]
    parent = nested_parents(start_ns, end_ns, group, order)
    messy = parent[order] == NOT_NESTED
    for number in sweep.distinct(ordered[messy]).tolist():
        members = order[np.searchsorted(ordered, number, side="left") : np.searchsorted(ordered, number, side="right")]
        parent[members] = _parents_one_by_one(members, start_ns[members].tolist(), end_ns[members].tolist())
    return parent


def nested_parents(start_ns: Ints, end_ns: Ints, group: Ints, order: Positions) -> Positions:
    """`parents` of records in that nesting order, but NOT_NESTED in groups where some overlap without nesting or are
    empty.
    """
    by_order = (start_ns[order], end_ns[order], group[order])
    swept = sweep.parents(*by_order)
    nested = _parents_if_nested(*by_order) if swept is None else swept
    parent = np.empty(len(order), np.intp)
    parent[order] = np.where(nested >= 0, order[np.maximum(nested, 0)], nested)
    return parent


def in_nesting_order(start_ns: Ints, end_ns: Ints, group: Ints) -> Positions:
    """The order of records by group, start, then the longer first, then as they come."""
    ascends = start_ns[1:] > start_ns[:-1]
    groups = sweep.distinct(group)
    if len(groups) < 2**15 and (ascends | ((start_ns[1:] == start_ns[:-1]) & (end_ns[1:] <= end_ns[:-1]))).all():
        return np.argsort(sweep.search(groups, group).astype(np.int16), kind="stable")  # small numbers sort quickly
    return np.lexsort((-end_ns, start_ns, group))


def depths(parent: NDArray[np.signedinteger]) -> Ints:
    """How many ancestors each record of a forest has."""
    ancestor = np.append(parent, -1)  # -1 is its own ancestor, at the end
    depth = (ancestor >= 0).astype(np.int64)
    while (ancestor >= 0).any():  # each round doubles how far up `ancestor` points
        depth = depth + depth[ancestor]
        ancestor = ancestor[ancestor]
    return depth[:-1]


def _parents_if_nested(start: Ints, end: Ints, group: Ints) -> Positions:
    """Parents of records sorted by (group, start, -end), as positions, where all records of a group nest.

    NOT_NESTED throughout a group in which some overlap without nesting, or are empty: those may touch two others.
    """
    position = np.arange(len(start))
    by_end = np.lexsort((end, group))
    closed_before = search(group[by_end], end[by_end], group, start, side="right")
    depth = position - closed_before
    # the parent is the last record before this one that is one level up
    by_depth = np.lexsort((position, depth))
    above = search(depth[by_depth], by_depth, depth - 1, position, side="left") - 1
    parent = np.where(depth > 0, by_depth[above], -1)
    child = parent >= 0
    up = parent[child]
    bad = (start >= end) | (depth < 0)
    bad[child] |= (depth[up] != depth[child] - 1) | (group[up] != group[child]) | (end[child] > end[up])
    if bad.any():
        parent[np.isin(group, group[bad])] = NOT_NESTED
    return parent


def _parents_one_by_one(members: Positions, starts: list[int], ends: list[int]) -> list[int]:
    """Parents of one group's records, given sorted by (start, -end), whatever their bounds.

    Records are entered in that order, so that those already there begin no later. Of them, the shortest that ends no
    earlier is looked up in a tree of minima over the ends.
    """
    families: dict[tuple[int, int], list[int]] = {}
    for record, start, end in zip(members.tolist(), starts, ends, strict=True):
        families.setdefault((start, end), []).append(record)
    ranks = {end: rank for rank, end in enumerate(sorted(set(ends), reverse=True), 1)}
    shortest = _Minima(len(ranks))
    parent: dict[int, int] = {}
    for (start, end), twins in families.items():
        outer = shortest.up_to(ranks[end])
        above = -1 if outer is None else families[outer[2]][-1]
        for record in sorted(twins):
            parent[record] = above
            above = record
        twins.sort()
        shortest.enter(ranks[end], (end - start, twins[0], (start, end)))
    return [parent[record] for record in members.tolist()]


_Entry = tuple[int, int, tuple[int, int]]


class _Minima:
    """The least entry among the first so many places, in a Fenwick tree."""

    def __init__(self, places: int) -> None:
        self._least: list[_Entry | None] = [None] * (places + 1)

    def enter(self, place: int, entry: _Entry) -> None:
        while place < len(self._least):
            held = self._least[place]
            self._least[place] = entry if held is None else min(held, entry)
            place += place & -place

    def up_to(self, place: int) -> _Entry | None:
        least = None
        while place > 0:
            held = self._least[place]
            if held is not None and (least is None or held < least):
                least = held
            place -= place & -place
        return least

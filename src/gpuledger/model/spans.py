"""Interval arithmetic, the only place that does any. Half-open integer spans [start, end) in, the same out.

A `Spans` is a set of instants in normal form: sorted, disjoint, not touching, none empty. Every operation on
sets takes and gives normal forms and is vectorised. Two further questions are about records rather than
instants: which record encloses which (`parents`), and which lie inside which (`pairs_inside`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpuledger.model.keys import Positions, expand, search

Ints = NDArray[np.int64]


class Span(NamedTuple):
    """One stretch of time: [start_ns, end_ns)."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
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
    real = end > start
    start, end = start[real], end[real]
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    if not len(start):
        return Spans(start, end)
    reach = np.maximum.accumulate(end)
    opens = np.concatenate(([True], start[1:] > reach[:-1]))
    closes = np.concatenate((opens[1:], [True]))
    return Spans(start[opens], reach[closes])


def total(spans: Spans) -> int:
    """How many nanoseconds the spans cover."""
    return int((spans.end_ns - spans.start_ns).sum())


def clip(spans: Spans, window: Span) -> Spans:
    """The part of `spans` that lies in `window`."""
    return union(np.maximum(spans.start_ns, window.start_ns), np.minimum(spans.end_ns, window.end_ns))


def complement(spans: Spans, window: Span) -> Spans:
    """The part of `window` that `spans` leaves free."""
    inner = clip(spans, window)
    return union(np.append(window.start_ns, inner.end_ns), np.append(inner.start_ns, window.end_ns))


def intersection(a: Spans, b: Spans) -> Spans:
    """The instants that lie in both."""
    first = np.searchsorted(b.end_ns, a.start_ns, side="right")
    last = np.searchsorted(b.start_ns, a.end_ns, side="left")
    outer, inner = expand(first, last)
    return union(np.maximum(a.start_ns[outer], b.start_ns[inner]), np.minimum(a.end_ns[outer], b.end_ns[inner]))


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


def parents(start_ns: Ints, end_ns: Ints, group: Ints) -> Positions:
    """For each record the shortest other one of its group that encloses it, bounds included; -1 where none does.

    Records with the same bounds nest in their order: the first encloses the second. So the result is a forest.
    """
    order = np.lexsort((np.arange(len(start_ns)), -end_ns, start_ns, group))
    parent = np.full(len(order), -1, np.intp)
    nested = _parents_if_nested(start_ns[order], end_ns[order], group[order])
    messy = group[order][nested == _NOT_NESTED]
    tidy = nested >= 0
    parent[order[tidy]] = order[nested[tidy]]
    for each in np.unique(messy):
        members = order[group[order] == each]
        parent[members] = _parents_by_sweep(members, start_ns, end_ns)
    return parent


def depths(parent: NDArray[np.signedinteger]) -> Ints:
    """How many ancestors each record of a forest has."""
    depth = np.zeros(len(parent), np.int64)
    ancestor = parent.copy()
    while len(rising := np.flatnonzero(ancestor >= 0)):
        depth[rising] += 1
        ancestor[rising] = parent[ancestor[rising]]
    return depth


_NOT_NESTED = -2


def _parents_if_nested(start: Ints, end: Ints, group: Ints) -> Positions:
    """Parents of records sorted by (group, start, -end), as positions; _NOT_NESTED throughout a group in which some
    records overlap without nesting, or are empty (an empty record may touch two others: the sweep decides)."""
    count = len(start)
    position = np.arange(count)
    by_end = np.lexsort((end, group))
    closed = search(group[by_end], end[by_end], group, start, side="right")
    depth = position - closed
    parent = np.full(count, -1, np.intp)
    for level in range(1, int(depth.max(initial=0)) + 1):
        above = position[depth == level - 1]
        here = position[depth == level]
        if not len(above):
            parent[here] = here  # nothing one level up: not nested; caught below, as a record cannot enclose itself
            continue
        parent[here] = above[np.searchsorted(above, here) - 1]
    child = parent >= 0
    up = parent[child]
    bad = np.zeros(count, bool)
    bad[child] = (group[up] != group[child]) | (end[child] > end[up]) | (up >= position[child])
    bad |= (start == end) | (depth < 0)
    parent[np.isin(group, np.unique(group[bad]))] = _NOT_NESTED
    return parent


def _parents_by_sweep(members: Positions, start_ns: Ints, end_ns: Ints) -> Positions:
    """Parents of one group's records, given sorted by (start, -end), by keeping the list of those still open."""
    parent = np.full(len(members), -1, np.intp)
    open_records: list[tuple[int, int, int]] = []  # (end, start, record)
    for position, record in enumerate(members.tolist()):
        start, end = int(start_ns[record]), int(end_ns[record])
        open_records = [each for each in open_records if each[0] >= start]
        enclosing = [each for each in open_records if each[0] >= end]
        if enclosing:
            # the shortest; among equals with the same bounds the last one (the innermost), else the first record
            shortest = min(each[0] - each[1] for each in enclosing)
            tied = [each for each in enclosing if each[0] - each[1] == shortest]
            same = [each for each in tied if (each[1], each[0]) == (start, end)]
            parent[position] = max(each[2] for each in same) if same else _first_or_innermost(tied)
        open_records.append((end, start, record))
    return parent


def _first_or_innermost(tied: list[tuple[int, int, int]]) -> int:
    """Of equally short enclosing records: the first one's innermost twin, so that twins form a chain."""
    end, start, _ = min(tied, key=lambda each: each[2])
    return max(each[2] for each in tied if (each[0], each[1]) == (end, start))

"""NVTX ranges and torch annotations on the host: their names, their threads, and which calls lie in them.

Work belongs to a range through its launch call, which must lie wholly within the range on the same thread. It belongs
to every range around the call, not just the innermost.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.trace.keys import Positions, by_row, group, is_among, search
from gpuledger.trace.model import Trace, thread_number
from gpuledger.trace.spans import Ints, in_nesting_order, nested_parents, pairs_inside, shortest_around
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.sweep import NOT_NESTED
from gpuledger.trace.tables import NOT_RECORDED, Rows, Table

_MOST_PAIRS: Final = 4_000_000  # pairs of ranges and calls held at a time
_PAIRS_PER_ROW: Final = 50
"""Ranges that lie in one another deeper than this take longer by pairs than one after another."""
_MOST_CALLS: Final = 200_000  # calls looked for at a time: what is kept of each meanwhile adds up
_MOST_CLIMBED: Final = 64  # likewise, where a call is looked for from the range that began last before it outwards


_STYLES = {"push_pop": "PushPop", "start_end": "StartEnd"}


class RangeName(Struct, frozen=True):
    """What a range is called in NVIDIA's tables, and how it was made."""

    text: str
    style: str


def spans_of_time(trace: Trace) -> Rows:
    """The ranges that are ranges: push/pop and start/end, without marks."""
    ranges = trace[Table.RANGES]
    return ranges.where(is_among(ranges.codes("kind"), [ranges.strings.code(kind) for kind in _STYLES]))


def distinct_range_names(ranges: Rows) -> tuple[list[RangeName], Positions]:
    """The distinct names, and for each range the position of its own. What has no text goes with what has an empty
    one."""
    empty = ranges.strings.code("")
    name, domain = (
        np.where(codes == NO_TEXT, empty, codes) for codes in (ranges.codes("name"), ranges.codes("domain"))
    )
    first, number = group(name, domain, ranges.codes("kind"))
    parts = zip(*(ranges.strings.decode(codes[first]) for codes in (domain, name, ranges.codes("kind"))), strict=True)
    return [RangeName(f"{prefix or ''}:{text or ''}", _STYLES[kind or ""]) for prefix, text, kind in parts], number


def ends_known(ranges: Rows) -> bool:
    """Whether any end was recorded; with none, an open range has no last time to be closed at."""
    return not ranges["open"].all()


def thread(rows: Rows) -> Ints:
    """One number per thread."""
    return by_row(thread_number, rows["pid"], rows.stored("tid"))


def innermost(
    ranges: Rows, calls: Rows, *, nesting: Nesting | None = None, at: NDArray[np.signedinteger] | None = None
) -> Positions:
    """For each call, or those `at` some positions, the shortest range on its thread that it lies in; -1 for none.
    Bounds included. `nesting` is that of the ranges, if it is known."""
    calls, nesting = calls.only("pid", "tid"), nesting or Nesting.of(ranges)
    held = np.empty(len(calls) if at is None else len(at), np.intp)
    for first in range(0, len(held), _MOST_CALLS):
        part = slice(first, first + _MOST_CALLS)
        some = calls.between(part) if at is None else calls.at(at[part])
        if nesting is None:
            held[part] = _innermost_of_any(ranges, some)
            continue
        held[part] = nesting.innermost(some)
        # a call of no length may touch two ranges, neither of which holds the other
        brief = np.flatnonzero(some["end_ns"] <= some["start_ns"])
        held[first + brief] = _innermost_of_any(ranges, some.at(brief))
    return held


class Nesting(Struct, frozen=True, eq=False):
    """Ranges of which no two of a thread overlap without nesting, and all have a length."""

    ranges: Rows
    above: Positions  # for each range the one that directly holds it; -1 for none
    order: Positions  # by thread, start, then the longer first

    @classmethod
    def of(cls, ranges: Rows) -> Nesting | None:
        """None where ranges are not like that."""
        bounds = ranges["start_ns"], ranges["end_ns"], thread(ranges)
        order = in_nesting_order(*bounds)
        above = nested_parents(*bounds, order)
        return None if (above == NOT_NESTED).any() else cls(ranges, above, order)

    def innermost(self, calls: Rows) -> Positions:
        """The range that began last before each call, which has a length, or the first around it that holds it."""
        ranges, above, order = self.ranges, self.above, self.order
        owner, caller, ends = thread(ranges), thread(calls), calls["end_ns"]
        last = search(owner[order], ranges["start_ns"][order], caller, calls["start_ns"], side="right") - 1
        held = np.append(order, -1)[last]
        held[(last >= 0) & (np.append(owner, -1)[held] != caller)] = -1
        late = np.flatnonzero(held >= 0)
        for _ in range(_MOST_CLIMBED):
            late = late[ranges["end_ns"][held[late]] < ends[late]]
            held[late] = above[held[late]]
            late = late[held[late] >= 0]
        late = late[ranges["end_ns"][held[late]] < ends[late]]
        if len(late):
            bounds = ranges["start_ns"], ranges["end_ns"], owner
            held[late] = shortest_around(*bounds, calls["start_ns"][late], ends[late], caller[late])
        return held


def _innermost_of_any(ranges: Rows, calls: Rows) -> Positions:
    """The same whatever the ranges' bounds: all pairs are looked at."""
    shortest = np.full(len(calls), -1, np.intp)
    if not len(calls):
        return shortest
    start, end, owner, caller = ranges["start_ns"], ranges["end_ns"], thread(ranges), thread(calls)
    by_start, by_end = np.lexsort((start, owner)), np.lexsort((end, owner))
    begun = search(owner[by_start], start[by_start], caller, calls["start_ns"], side="right")
    ended = search(owner[by_end], end[by_end], caller, calls["start_ns"], side="left")
    around = np.cumsum(np.maximum(begun - ended, 0))
    if around.max(initial=0) > _MOST_PAIRS + _PAIRS_PER_ROW * (len(ranges) + len(calls)):
        return shortest_around(start, end, owner, calls["start_ns"], calls["end_ns"], caller)
    part = around // _MOST_PAIRS
    for chunk in np.split(np.arange(len(calls)), np.flatnonzero(np.diff(part)) + 1):
        chunk_calls = calls.at(chunk)
        outer, inner = pairs_inside(start, end, owner, chunk_calls["start_ns"], chunk_calls["end_ns"], caller[chunk])
        longest_first = np.argsort(-ranges.duration_ns[outer], kind="stable")
        shortest[chunk[inner[longest_first]]] = outer[longest_first]  # the shortest, written last, stands
    return shortest


def holding_calls(trace: Trace) -> Rows:
    """The ranges that calls can lie in: those not recorded as ended by another thread. Here NVIDIA closes an open range
    at the last time of any range, marks left out; where no range has an end, it holds none."""
    ranges = spans_of_time(trace)
    if not ends_known(ranges):
        return ranges.where(~ranges["open"])
    last = max(int(ranges["start_ns"].max()), int(ranges["end_ns"][~ranges["open"]].max()))
    closed = ranges.replaced("end_ns", np.where(ranges["open"], last, ranges["end_ns"]))
    return closed.where(closed["end_tid"] == NOT_RECORDED)


def calls_in_ranges(ranges: Rows, calls: Rows) -> tuple[Positions, Positions]:
    """All pairs (range, call) where the call lies wholly within the range on its thread, bounds included."""
    return pairs_inside(
        ranges["start_ns"], ranges["end_ns"], thread(ranges), calls["start_ns"], calls["end_ns"], thread(calls)
    )


def ranges_around(trace: Trace, calls: Rows, wanted: Positions) -> list[tuple[str, ...]]:
    """For each of the calls at these positions the names of the ranges that it lies in, outermost first. None for call
    -1."""
    ranges, asked = trace[Table.RANGES], np.flatnonzero(wanted >= 0)
    if not len(asked):
        return [()] * len(wanted)
    chosen = calls.at(wanted[asked])
    may_hold = ranges.codes("kind") != trace.strings.code("python")  # those are in the call's stack
    may_hold &= (ranges["start_ns"] <= chosen["start_ns"].max()) & (ranges["end_ns"] >= chosen["end_ns"].min())
    ranges = ranges.where(may_hold)
    outer, inner = calls_in_ranges(ranges, chosen)
    outermost_first = np.lexsort((ranges["start_ns"][outer], inner))
    around: list[list[str]] = [[] for _ in wanted]
    names = ranges.at(outer[outermost_first]).texts("name")
    for call, name in zip(asked[inner[outermost_first]].tolist(), names, strict=True):
        around[call].append(name or "?")
    return [tuple(nest) for nest in around]

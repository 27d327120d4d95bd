"""The innermost range of a call: found along the nest where ranges nest, and among all pairs where they do not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuledger.ledger.ranges import innermost
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import Rows, Table
from support.trace_notation import table

Bounds = list[tuple[int, int, int]]


def rows(which: Table, bounds: Bounds) -> Rows:
    starts, ends, threads = ([bound[place] for bound in bounds] for place in range(3))
    return table(which, Strings(()), len(bounds), start_ns=starts, end_ns=ends, tid=threads)


def slowly(ranges: Bounds, call: tuple[int, int, int]) -> int:
    """The shortest of those around it; of equal ones the last."""
    around = [
        (end - start, -place)
        for place, (start, end, thread) in enumerate(ranges)
        if thread == call[2] and start <= call[0] and call[1] <= end
    ]
    return -min(around)[1] if around else -1


def bounds(shortest: int, most: int) -> st.SearchStrategy[Bounds]:
    one = st.tuples(st.integers(0, 20), st.integers(shortest, 12), st.integers(0, 1))
    return st.lists(one, max_size=most).map(
        lambda drawn: [(start, start + length, tid) for start, length, tid in drawn]
    )


@given(bounds(0, 8), bounds(0, 8))
def test_any_ranges(ranges: Bounds, calls: Bounds) -> None:
    found = innermost(rows(Table.RANGES, ranges), rows(Table.CALLS, calls)).tolist()
    assert found == [slowly(ranges, call) for call in calls]


@given(st.data())
def test_ranges_that_nest(data: st.DataObject) -> None:
    """Each is drawn inside one that is there already, beside its children."""
    ranges: Bounds = [(0, 40, 0), (0, 40, 1)]
    free = [[0, 40, 0], [0, 40, 1]]
    for _ in range(data.draw(st.integers(0, 8))):
        room = data.draw(st.sampled_from(free))
        start = data.draw(st.integers(room[0], room[1]))
        end = data.draw(st.integers(start, room[1]))
        if end > start:
            ranges.append((start, end, room[2]))
            free.append([start, end, room[2]])
            room[0] = end
    calls = data.draw(bounds(0, 8))
    found = innermost(rows(Table.RANGES, ranges), rows(Table.CALLS, calls)).tolist()
    assert found == [slowly(ranges, call) for call in calls]

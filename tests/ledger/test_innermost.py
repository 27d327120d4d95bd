"""The innermost range of a call: found along the nest where ranges nest, and among all pairs where they do not."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpuledger import Trace
from gpuledger.ledger.books import Line
from gpuledger.ledger.causes import ByCause, Cause
from gpuledger.ledger.host import host_and_activities
from gpuledger.ledger.lost_work import LostWork, lost_work
from gpuledger.ledger.ranges import innermost
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import Rows, Table
from support.traces.book_checks import analysed, check_balance
from support.traces.trace_notation import table, trace

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


# Time by cause equals a plain matrix of rows and causes, whatever is booked


CAUSES = (Cause.SYNC, Cause.LOAD, Cause.GRAPH, Cause.TAIL)
bookings = st.lists(
    st.tuples(st.sampled_from(CAUSES), st.dictionaries(st.integers(0, 7), st.integers(0, 50))), max_size=9
)


@given(bookings, st.lists(st.integers(0, 7), unique=True))
def test_it_equals_a_matrix(made: list[tuple[Cause, dict[int, int]]], some: list[int]) -> None:
    found, plain = ByCause(8, CAUSES), np.zeros((8, len(CAUSES)), np.int64)
    for cause, amounts in made:
        rows, values = np.array([*amounts], np.intp), np.array([*amounts.values()], np.int64)
        found.add(cause, rows, values)
        plain[rows, CAUSES.index(cause)] += values
    for at, cause in enumerate(CAUSES):
        np.testing.assert_array_equal(found.of(cause), plain[:, at])
    np.testing.assert_array_equal(found.total(), plain.sum(axis=1))
    np.testing.assert_array_equal(found.total(Cause.SYNC, Cause.TAIL), plain[:, 0] + plain[:, 3])
    np.testing.assert_array_equal(found.largest(), plain.argmax(axis=1))
    rows = np.array(some, np.intp)
    assert found.sums(rows) == {
        cause: int(plain[rows, at].sum()) for at, cause in enumerate(CAUSES) if plain[rows, at].any()
    }
    assert sum(found.sums().values()) == plain.sum()
    assert found.used == [cause for at, cause in enumerate(CAUSES) if plain[:, at].any()]


def test_what_has_no_time_takes_no_room() -> None:
    found = ByCause(10**9, CAUSES)
    found.add(Cause.SYNC, np.arange(3), np.zeros(3, np.int64))
    assert found.used == []
    assert len(found) == len(found.of(Cause.SYNC)) == 10**9


# Which calls lost their work, whatever was taken out; tests/ledger/cases/lost_work.md has every other reason


LAUNCHES = ("cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "cudaGraphLaunch_v10000")


def lost(made: Trace) -> LostWork:
    return lost_work(made, *host_and_activities(made))


@given(st.sets(st.integers(1, 18)))
def test_whatever_is_taken_out_between_the_first_and_the_last_is_lost(gone: set[int]) -> None:
    """And what looks idle for it, and nothing else, is booked to `lost`. A launch every 100 ns, of kernels of 60."""
    made = trace("20 times every 100: 0-10 launch{'' if n in gone else ' -> s7: 20-80'}", gone=gone)
    assert lost(made).calls.tolist() == sorted(gone)
    [device] = analysed(made)
    check_balance(device)
    runs = len([at for at in gone if at - 1 not in gone])
    assert device.ledger.total().get(Line("idle.lost"), 0) == 100 * len(gone) + 40 * runs


NUMBER = st.integers(-2, 12)
CALL = st.tuples(*[NUMBER] * 2, st.sampled_from([*LAUNCHES, "cudaStreamBeginCapture_v10000", "x"]), *[NUMBER] * 4)
WORK = st.tuples(*[NUMBER] * 2, *[NUMBER] * 3, st.sampled_from([-1, 0, 5, 1 << 33, (1 << 33) + 1]))


@given(st.lists(CALL, max_size=12), st.lists(WORK, max_size=8), st.lists(WORK, max_size=8))
def test_nonsense_loses_only_calls_that_no_work_points_to(
    calls: list[tuple[int, int, str, int, int, int, int]], kernels: list[tuple[int, ...]], copies: list[tuple[int, ...]]
) -> None:
    work = "{}-{} {} pid={} correlation={} stream={} graph_node={}"
    made = trace(
        "tables calls kernels copies",
        *("{}-{} {} pid={} correlation={} tid={} result={}".format(*call) for call in calls),
        *("s0: " + work.format(*row[:2], "k", *row[2:]) for row in kernels),
        *("s0: " + work.format(*row[:2], "Memset", *row[2:]) for row in copies),
    )
    missing = lost(made)
    pointed = {(pid, correlation) for _, _, pid, correlation, *_ in (*kernels, *copies)}
    lost_calls = [calls[at] for at in missing.calls.tolist()]
    assert all((pid, correlation) not in pointed for _, _, _, pid, correlation, *_ in lost_calls)
    assert all(name in LAUNCHES for _, _, name, *_ in lost_calls)
    assert 0 <= missing.share < 1
    for device in analysed(made):
        check_balance(device)

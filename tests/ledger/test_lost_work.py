"""Which calls lost their work: every other reason for a call without work, one by one, and where the time goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger import Trace
from gpuledger.ledger.books import Line
from gpuledger.ledger.causes import TRIGGERS, Cause
from gpuledger.ledger.host import host_and_activities
from gpuledger.ledger.lost_work import LostWork, lost_work
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import Table
from support.book_checks import analysed, check_balance
from support.trace_notation import of_tables, table

LAUNCH, COPY, GRAPH = "cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "cudaGraphLaunch_v10000"


class Call(NamedTuple):
    name: str
    start: int
    end: int
    correlation: int
    tid: int = 1
    result: int = 0
    pid: int = 0


class Work(NamedTuple):
    start: int
    end: int
    correlation: int
    stream: int = 7
    node: int = -1
    pid: int = 0


def traced(calls: list[Call], kernels: list[Work], copies: list[Work] | None = None) -> Trace:
    strings = Strings(dict.fromkeys(("k", "Memset", "runtime", *(call.name for call in calls))))
    calls_table = table(
        Table.CALLS,
        strings,
        len(calls),
        start_ns=[call.start for call in calls],
        end_ns=[call.end for call in calls],
        correlation=[call.correlation for call in calls],
        tid=[call.tid for call in calls],
        pid=[call.pid for call in calls],
        result=[call.result for call in calls],
        name=[call.name for call in calls],
        layer=["runtime"] * len(calls),
    )
    tables = {Table.CALLS: calls_table}
    for which, rows in ((Table.KERNELS, kernels), (Table.COPIES, copies or [])):
        tables[which] = table(
            which,
            strings,
            len(rows),
            start_ns=[row.start for row in rows],
            end_ns=[row.end for row in rows],
            correlation=[row.correlation for row in rows],
            stream=[row.stream for row in rows],
            graph_node=[row.node for row in rows],
            pid=[row.pid for row in rows],
            **({"name": ["k"] * len(rows)} if which is Table.KERNELS else {"kind": ["Memset"] * len(rows)}),
        )
    return of_tables(strings, tables)


def lost(trace: Trace) -> LostWork:
    return lost_work(trace, *host_and_activities(trace))


STEP = 100
IDLE_LOST = Line("idle.lost")


def launches(count: int) -> list[Call]:
    """A launch every 100 ns, of 10 ns."""
    return [Call(LAUNCH, STEP * at, STEP * at + 10, 1 + at) for at in range(count)]


def kernels(*numbers: int, stream: int = 7) -> list[Work]:
    """The kernel of each of these launches, which runs for 60 ns."""
    return [Work(STEP * at + 20, STEP * at + 80, 1 + at, stream) for at in numbers]


def test_a_launch_without_a_kernel_is_lost_and_the_gap_around_it_is_booked_to_that() -> None:
    trace = traced(launches(5), kernels(0, 1, 3, 4))
    missing = lost(trace)
    assert missing.calls.tolist() == [2]
    assert {str(operation): counts for operation, counts in missing.counts.items()} == {"kernel": (1, 5)}
    assert missing.share == pytest.approx(1 / 5)
    [device] = analysed(trace)
    check_balance(device)
    assert device.ledger.total()[IDLE_LOST] == 140
    assert [str(TRIGGERS[trigger]) for trigger in device.ledger.gaps.trigger].count("lost") == 1
    assert device.device_floor_ns >= 4 * 60 + 140
    assert device.causes_of(Cause.LOST) == {Cause.LOST: 140}


def capture(begin: int, end: int, tid: int = 1) -> list[Call]:
    return [
        Call("cudaStreamBeginCapture_v10000", begin, begin + 1, 90, tid),
        Call("cudaStreamEndCapture_v10000", end, end + 1, 91, tid),
    ]


FIVE = launches(5)
ALL_BUT_THIRD = kernels(0, 1, 3, 4)


def copies_read_back(
    steps: int = 20, until: int = 85, kernels: Sequence[int] | None = None, recorded: Sequence[int] | None = None
) -> Trace:
    """A kernel and a copy in each step, which waits for the kernel; few copies have a record."""
    calls = [Call(COPY, STEP * at + 60, STEP * at + until, 50 + at) for at in range(steps)]
    kept = [steps - 1] if recorded is None else recorded
    done = [Work(STEP * at + 90, STEP * at + 95, 50 + at) for at in kept]
    ran = [Work(STEP * at + 20, STEP * at + 80, 1 + at) for at in (range(steps) if kernels is None else kernels)]
    return traced([*launches(steps), *calls], ran, done)


EXCUSED = {
    "it failed": traced([*FIVE[:2], FIVE[2]._replace(result=701), *FIVE[3:]], ALL_BUT_THIRD),
    "it was captured": traced([*FIVE, *capture(150, 250)], ALL_BUT_THIRD),
    "it was captured from another thread": traced([*FIVE, *capture(150, 250, tid=2)], ALL_BUT_THIRD),
    "the capture began before the recording": traced([*FIVE, capture(0, 250)[1]], ALL_BUT_THIRD),
    "the call inside it has the work": traced(
        [*FIVE, Call("cuLaunchKernel", 202, 208, 9)], [*ALL_BUT_THIRD, Work(220, 280, 9)]
    ),
    "the call around it has the work": traced(
        [*FIVE[:2], Call("cuLaunchKernel", 202, 208, 9), FIVE[2], *FIVE[3:]], kernels(0, 1, 2, 3, 4)
    ),
    "its kernel took no time": traced(FIVE, [*ALL_BUT_THIRD, Work(220, 220, 3)]),
    "another call has its id": traced([*FIVE, Call(LAUNCH, 450, 455, 5)], kernels(0, 1, 2, 3, 4)),
    "it has no id": traced([*FIVE[:2], FIVE[2]._replace(correlation=-1), *FIVE[3:]], ALL_BUT_THIRD),
    "no call of its name has work": traced(
        [*FIVE, Call("cudaLaunchKernelExC_v11060", 250, 255, 9)], kernels(0, 1, 2, 3, 4)
    ),
    "no call of its thread has work": traced([*FIVE, Call(LAUNCH, 250, 255, 9, tid=2)], kernels(0, 1, 2, 3, 4)),
    "no work of its process was recorded": traced([*FIVE, Call(LAUNCH, 250, 255, 9, pid=3)], kernels(0, 1, 2, 3, 4)),
    "it came before the recording of work": traced(FIVE, kernels(1, 2, 3, 4)),
    "the recording had ended": traced(FIVE, kernels(0, 1, 2)),
    "its stream was busy when the recording ended": traced(
        FIVE, [Work(20, 400, 1), Work(120, 180, 2, 8), Work(320, 380, 4, 8), Work(420, 480, 5, 8)]
    ),
    "it copied nothing": traced(
        [*FIVE, Call(COPY, 110, 130, 11), Call(COPY, 210, 214, 12), Call(COPY, 310, 330, 13)],
        kernels(0, 1, 2, 3, 4),
        [Work(130, 150, 11, 8), Work(330, 350, 13, 8)],
    ),
    "it is one of several copies that are all shorter than others": traced(
        [*FIVE, *(Call(COPY, 110 + 50 * at, 130 + 50 * at - 5 * (at % 2), 11 + at) for at in range(16))],
        kernels(0, 1, 2, 3, 4),
        [Work(130 + 50 * at, 150 + 50 * at, 11 + at, 8) for at in range(0, 16, 2)],
    ),
    "the driver makes such copies itself": copies_read_back(),
    "it gives access to memory": traced(
        [*FIVE, Call("cuMemSetAccess", 110, 130, 11), Call("cudaLaunchHostFunc_v10000", 210, 230, 12)],
        kernels(0, 1, 2, 3, 4),
    ),
}


@pytest.mark.parametrize("reason", EXCUSED)
def test_a_call_without_work_is_not_lost_if(reason: str) -> None:
    assert len(lost(EXCUSED[reason])) == 0


def test_a_copy_without_a_record_is_lost_if_it_took_as_long_as_others() -> None:
    calls = [*FIVE, Call(COPY, 110, 130, 11), Call(COPY, 210, 225, 12), Call(COPY, 310, 330, 13)]
    missing = lost(traced(calls, kernels(0, 1, 2, 3, 4), [Work(130, 150, 11, 8), Work(330, 350, 13, 8)]))
    assert missing.calls.tolist() == [6]


@pytest.mark.parametrize(
    "trace",
    [
        copies_read_back(until=75),  # before the kernel has ended: nobody has waited for the copy
        copies_read_back(kernels=[*range(7), *range(8, 20)]),
        copies_read_back(recorded=range(10, 20)),  # half of them
        copies_read_back(steps=4),  # chance may do that
    ],
)
def test_copies_that_are_read_back_are_lost_where_the_driver_cannot_have_made_them(trace: Trace) -> None:
    assert len(lost(trace)) > 0


def test_launches_after_a_capture_are_lost_again() -> None:
    trace = traced([*FIVE, *capture(110, 150)], ALL_BUT_THIRD)
    assert lost(trace).calls.tolist() == [2]


def test_a_host_that_is_far_ahead_loses_what_it_launched_before_the_first_kernel_began() -> None:
    """All five are launched before the first runs: on one stream the third ran after the second all the same."""
    calls = [Call(LAUNCH, 10 * at, 10 * at + 5, 1 + at) for at in range(5)]
    assert lost(traced(calls, kernels(1, 3, 4))).calls.tolist() == [2]


@given(st.sets(st.integers(1, 18)))
def test_whatever_is_taken_out_between_the_first_and_the_last_is_lost(gone: set[int]) -> None:
    """And what looks idle for it, and nothing else, is booked to `lost`."""
    trace = traced(launches(20), kernels(*(set(range(20)) - gone)))
    assert lost(trace).calls.tolist() == sorted(gone)
    [device] = analysed(trace)
    check_balance(device)
    runs = len([at for at in gone if at - 1 not in gone])
    assert device.ledger.total().get(IDLE_LOST, 0) == STEP * len(gone) + (STEP - 60) * runs


def graph(launches_of: list[list[int]], graph_id: int = 2) -> Trace:
    """Graph launches, each with these nodes, and a kernel before and after them all."""
    calls = [Call(LAUNCH, 0, 10, 1)]
    work = [Work(20, 80, 1)]
    for at, nodes in enumerate(launches_of, 1):
        calls.append(Call(GRAPH, 1000 * at, 1000 * at + 10, 1 + at))
        work += [
            Work(1000 * at + 100 * place, 1000 * at + 100 * place + 90, 1 + at, node=(graph_id << 32) + node)
            for place, node in enumerate(nodes, 1)
        ]
    after = 1000 * (len(launches_of) + 1)
    return traced([*calls, Call(LAUNCH, after, after + 10, 99)], [*work, Work(after + 20, after + 80, 99)])


def test_a_launch_with_fewer_nodes_than_its_equals_lost_them() -> None:
    trace = graph([[0, 1, 2], [0, 2], [0, 1, 2], [1, 2]])
    missing = lost(trace)
    assert (missing.nodes.calls.tolist(), missing.nodes.missing, missing.nodes.expected) == ([2, 4], 2, 12)
    assert missing.share == pytest.approx(2 / 14)
    [device] = analysed(trace)
    check_balance(device)
    assert device.ledger.total()[IDLE_LOST] > 0
    assert "idle.graph" in device.ledger.total()  # between nodes of launches that are whole


@pytest.mark.parametrize(
    "trace",
    [
        graph([[0, 1, 2]] * 4),
        graph([[0, 1, 1, 2], [0, 1, 2], [0, 1, 2]]),  # a loop
        graph([[0, 1, 2]] * 4 + [[0, 2]] * 4),  # a condition
        graph([[0, 1, 2], [0, 1], [0, 1, 2]], graph_id=0),  # numbered within the launch: which graph is not known
    ],
    ids=["whole", "loop", "condition", "no graph id"],
)
def test_nodes_are_not_lost(trace: Trace) -> None:
    assert len(lost(trace)) == 0


def test_a_graph_that_the_end_of_the_recording_cut_lost_nothing() -> None:
    whole = graph([[0, 1, 2], [0, 1, 2], [0, 1]])
    kernels_table = whole[Table.KERNELS]
    cut = kernels_table.where(kernels_table["correlation"] != 99)
    assert len(lost(of_tables(whole.strings, {**whole.tables, Table.KERNELS: cut}))) == 0


NUMBERS = st.integers(-2, 12)
CALLS = st.builds(
    Call, st.sampled_from([LAUNCH, COPY, GRAPH, "cudaStreamBeginCapture_v10000", "x"]), *[NUMBERS] * 4, NUMBERS, NUMBERS
)
WORK = st.builds(Work, *[NUMBERS] * 4, st.sampled_from([-1, 0, 5, 1 << 33, (1 << 33) + 1]), NUMBERS)


@given(st.lists(CALLS, max_size=12), st.lists(WORK, max_size=8), st.lists(WORK, max_size=8))
def test_nonsense_loses_only_calls_that_no_work_points_to(
    calls: list[Call], kernel_rows: list[Work], copies: list[Work]
) -> None:
    trace = traced(calls, kernel_rows, copies)
    missing = lost(trace)
    pointed = {(row.pid, row.correlation) for row in (*kernel_rows, *copies)}
    assert all((calls[at].pid, calls[at].correlation) not in pointed for at in missing.calls.tolist())
    assert all(calls[at].name in (LAUNCH, COPY, GRAPH) for at in missing.calls.tolist())
    assert 0 <= missing.share < 1
    for device in analysed(trace):
        check_balance(device)

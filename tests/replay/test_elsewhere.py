"""What operations wait for besides their call and their stream."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpuledger.replay.edits import with_durations
from gpuledger.replay.graph import Bound
from gpuledger.replay.passes import replay_times
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import Table
from support.random_graphs import graph_of
from support.trace_notation import called

SIDE_BY_SIDE = (
    "0-10 cudaLaunchKernel -> s7: 12-500 long",
    "20-30 cudaEventRecord",
    "40-50 cudaStreamWaitEvent",
    "60-70 cudaLaunchKernel -> s9: 502-600 short",
)


def test_an_event_lets_another_stream_go_on() -> None:
    graph = graph_of(called(*SIDE_BY_SIDE))
    assert graph.operations.other.tolist() == [-1, 0]
    times = replay_times(with_durations(graph, np.array([0]), np.array([100_000])))
    assert times.end.tolist() == [112_000, 212_000]
    assert times.bound[1] == Bound.BY_OPERATION


def test_an_event_that_held_nobody_up_still_holds() -> None:
    graph = graph_of(called(*SIDE_BY_SIDE[:3], "600-610 cudaLaunchKernel -> s9: 612-700 short"))
    assert graph.operations.other.tolist() == [-1, 0]
    times = replay_times(with_durations(graph, np.array([0]), np.array([900_000])))
    assert times.start[1] > 900_000


def test_a_short_kernel_waits_for_another_stream_without_an_event() -> None:
    """As those of a blocking stream do, for the legacy default stream."""
    graph = graph_of(
        called(
            "0-10 cudaLaunchKernel -> s9: 12-13 tiny",
            "20-30 cudaLaunchKernel -> s7: 32-500 long",
            "40-50 cudaLaunchKernel -> s9: 502-503 tiny",
            "60-70 cudaLaunchKernel -> s9: 504-505 tiny",
        ),
        residuals=False,
    )
    assert graph.operations.other.tolist() == [-1, -1, 1, -1]
    assert replay_times(with_durations(graph, np.array([1]), np.array([100_000]))).end[-1] < 140_000
    assert replay_times(graph).end[-1] == pytest.approx(505_000, rel=0.02)


STALLED = {
    "a host function": called(
        "0-10 cudaLaunchKernel -> s7: 12-20",
        "20-30 cudaLaunchHostFunc",
        "40-50 cudaLaunchKernel -> s7: 900-910",
    ),
    "an event that was not recorded": called(
        "0-10 cudaLaunchKernel -> s7: 12-20",
        "20-30 hipStreamWaitEvent",
        "40-50 cudaLaunchKernel -> s7: 900-910",
    ),
    "what was launched before the recording": called("0-10 cudaLaunchKernel -> s7: 900-910"),
}


@pytest.mark.parametrize("stalled", STALLED.values(), ids=STALLED)
def test_a_delay_behind_what_nobody_recorded_is_an_input(stalled: Trace) -> None:
    graph = graph_of(stalled, residuals=False)
    assert replay_times(graph).start[-1] == 900_000


def test_a_delay_without_any_reason_is_not() -> None:
    late = called("0-10 cudaLaunchKernel -> s7: 12-20", "40-50 cudaLaunchKernel -> s7: 900-910")
    assert replay_times(graph_of(late, residuals=False)).start[-1] < 100_000


def test_events_among_hostile_calls() -> None:
    nothing_launched = called("0-10 cudaStreamWaitEvent", "20-30 cudaEventRecord", "40-50 cudaStreamWaitEvent")
    other_thread = called(
        "t1: 0-10 cudaEventRecord",
        "20-30 cudaLaunchKernel -> s7: 31-40",
        "t2: 50-60 cudaStreamWaitEvent",
        "70-80 cudaLaunchKernel -> s9: 81-90",
    )
    for hostile in (nothing_launched, other_thread):
        assert (graph_of(hostile).operations.other == -1).all()


def test_a_replay_needs_no_call_that_is_known_to_launch() -> None:
    """As in an export without correlation ids."""
    trace = called(*SIDE_BY_SIDE)
    calls = trace.tables[Table.CALLS]
    loose = replace(
        trace, tables={**trace.tables, Table.CALLS: calls.replaced("correlation", -np.ones(len(calls), np.int64))}
    )
    assert replay_times(graph_of(loose)).end.tolist() == [500_000, 600_000]

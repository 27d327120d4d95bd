"""The replay's definitions at their bounds: the last value that counts as one thing, and the first that does not.

Numbers stand here as documents tell them, never as the constants of the source. Times are in microseconds where nothing
else is said.
"""

from __future__ import annotations

import numpy as np
import pytest

from gpuledger.ledger.device import analyse_devices
from gpuledger.ledger.host import host_and_activities
from gpuledger.replay import program_order
from gpuledger.replay.build import dependency_graph
from gpuledger.replay.edits import run_aside, scale_operations, with_free_launches, without_events, without_latency
from gpuledger.replay.graph import DependencyGraph
from gpuledger.replay.scenario import scenario
from gpuledger.selection import Selection
from gpuledger.trace.model import Trace
from support.traces.trace_notation import called, trace

US = 1_000
LAUNCH = "cudaLaunchKernel"
FIRST = f"0-2 {LAUNCH} -> s7: 4-10"


def graph_of(recorded: Trace) -> DependencyGraph:
    return dependency_graph(recorded, *host_and_activities(recorded))


# what calls wait for


def test_1022_operations_fit_into_a_queue() -> None:
    _, work = host_and_activities(trace(*(f"s7: {2 * at}-{2 * at + 1}" for at in range(1_025))))
    assert program_order.stream_order(work).oldest[[0, 1_021, 1_022, 1_023, 1_024]].tolist() == [-1, -1, 0, 1, 2]


@pytest.mark.parametrize(("took", "waits_for"), [(6, []), (7, [0])])
def test_a_launch_of_more_than_three_usual_ones_waited_for_room(
    took: int, waits_for: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Launches take 2 us, and the first kernel ends 5 us after the third launch begins."""
    monkeypatch.setattr(program_order, "QUEUE", 2)
    queued = f"0-2 {LAUNCH} -> s7: 4-50", f"3-5 {LAUNCH} -> s7: 51-100"
    graph = graph_of(called(*queued, f"45-{45 + took} {LAUNCH} -> s7: 101-110"))
    assert graph.wait.tolist() == waits_for
    assert graph.calls.duration_ns[2] == (2 if waits_for else took) * US


def prefetching(loaders: int, steps: int = 20) -> Trace:
    """A step of 1000 us computes for 890; then loaders wake, which wait for the next step after that."""
    lines = []
    for at in range(0, 1_000 * steps, 1_000):
        lines += [
            f"{at}-{at + 5} {LAUNCH} -> s1: {at + 10}-{at + 900} gemm",
            f"{at + 10}-{at + 905} cudaStreamSynchronize",
        ]
        for loader in range(1, loaders + 1):
            begin = at + 920 + 3 * loader
            lines += [
                f"t{loader}: {begin}-{begin + 2} {LAUNCH} -> s{loader + 1}: {begin + 10}-{begin + 20} decode",
                f"t{loader}: {begin + 3}-{begin + 999} pthread_cond_wait",
            ]
    return called(*lines)


@pytest.mark.parametrize("loaders", [1, 2, 3])
def test_threads_that_wait_for_a_step_come_sooner_where_it_is_shorter(loaders: int) -> None:
    """They were replayed as if their waiting were work, which nothing makes shorter."""
    recorded = prefetching(loaders)
    [device] = analyse_devices(recorded, "test", Selection())
    scene = scenario(recorded, device)
    gemms = np.flatnonzero(scene.part.work.name == recorded.strings.code("gemm"))
    saved = scene.saved_ns(lambda graph: scale_operations(graph, gemms, 0.1))
    assert saved == pytest.approx(device.step_count * 801 * US, rel=0.06)


# what changes do


@pytest.mark.parametrize(("less", "left"), [(1, 1), (2, 0), (5, 0)])
def test_without_latency_a_kernel_starts_when_its_call_returns(less: int, left: int) -> None:
    """Its latency is 2 us."""
    changed = without_latency(graph_of(called(FIRST)), np.array([0]), np.array([less * US]))
    assert changed.operations.call_ns.tolist() == [left * US]


def test_from_kernel_to_kernel_a_graph_takes_half_a_microsecond() -> None:
    graph = graph_of(called(FIRST, f"3-5 {LAUNCH} -> s7: 12-20"))
    assert graph.operations.stream_ns[1] == 2 * US
    changed = with_free_launches(graph, np.arange(2), np.zeros(2, np.int64))
    assert changed.operations.stream_ns[1] == 500
    assert changed.calls.duration_ns.tolist() == [0, 0]


def test_an_event_that_is_not_recorded_takes_no_time_in_its_stretch() -> None:
    """12 us of 20 us of code, and of none before the first call; of 6 us of code all, and the rest of the call."""
    graph = graph_of(called(FIRST, "22-322 cudaMalloc", f"328-338 {LAUNCH} -> s7: 340-350"))
    changed = without_events(graph, np.array([1, 4, 3]), 3_000)(graph)
    assert changed.calls.code_ns.tolist() == [0, 8 * US, 0]
    assert changed.calls.duration_ns.tolist() == [0, 300 * US, 7 * US]


def test_what_waited_for_the_end_of_work_that_moves_aside_waits_for_its_beginning() -> None:
    """The second stream waits by an event for 488 us of work, and starts 2 us after it."""
    graph = graph_of(
        called(
            f"0-10 {LAUNCH} -> s7: 12-500 long",
            "20-30 cudaEventRecord",
            "40-50 cudaStreamWaitEvent",
            f"60-70 {LAUNCH} -> s9: 502-600 short",
        )
    )
    assert (graph.operations.other.tolist(), graph.operations.other_ns.tolist()) == ([-1, 0], [0, 2 * US])
    assert run_aside(graph, np.array([0])).operations.other_ns.tolist() == [0, (2 - 488) * US]


# the critical path

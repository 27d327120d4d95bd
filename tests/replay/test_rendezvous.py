"""Collectives on several GPUs: each ends its transfer after the last has begun."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger import open_trace
from gpuledger.ledger.host import host_and_activities
from gpuledger.replay.build import dependency_graph
from gpuledger.replay.cross_stream_waits import with_rendezvous
from gpuledger.replay.edits import with_durations
from gpuledger.replay.graph import Bound, DependencyGraph
from gpuledger.replay.passes import replay_times
from gpuledger.trace.model import Trace
from support.random_export import write
from support.thorough import tries
from support.trace_notation import called

TWO_STREAMS = called(
    "0-10 cudaLaunchKernel -> s7: 12-50 compute",
    "0-10 cudaLaunchKernel -> s7: 51-100 reduce",
    "t1: 0-10 cudaLaunchKernel -> s9: 12-80 compute",
    "t1: 0-10 cudaLaunchKernel -> s9: 81-101 reduce",
)
"""Kernels in order of their start: compute on 7 and on 9, then reduce on 7 and on 9."""


def met(trace: Trace, meetings: list[int]) -> DependencyGraph:
    return with_rendezvous(dependency_graph(trace, *host_and_activities(trace)), np.array(meetings))


def test_who_waits_ends_sooner_if_the_last_comes_sooner() -> None:
    graph = met(TWO_STREAMS, [-1, -1, 5, 5])
    assert graph.groups == 1
    assert graph.operations.duration_ns.tolist() == [38_000, 68_000, 19_000, 20_000]
    times = replay_times(with_durations(graph, np.array([1]), np.array([48_000])))
    assert times.end.tolist() == [50_000, 60_000, 80_000, 81_000]
    assert times.bound[2] == Bound.BY_RENDEZVOUS


def test_a_faster_one_that_waits_buys_nothing() -> None:
    graph = met(TWO_STREAMS, [-1, -1, 5, 5])
    times = replay_times(with_durations(graph, np.array([0]), np.array([1_000])))
    assert times.end[2:].tolist() == [100_000, 101_000]


@pytest.mark.parametrize("meetings", [[0, 1, 2, 3], [7, -1, 7, -1], [3, -1, -1, 3]])
def test_what_cannot_have_met_keeps_its_durations(meetings: list[int]) -> None:
    graph = met(TWO_STREAMS, meetings)
    assert graph.groups == 0
    assert np.array_equal(graph.operations.duration_ns, graph.recorded.end - graph.recorded.start)


@settings(max_examples=tries(12))
@given(st.integers(0, 100_000), st.integers(1, 8))
def test_whatever_met_the_replay_is_exact(tmp_path_factory: pytest.TempPathFactory, number: int, numbers: int) -> None:
    path: Path = tmp_path_factory.getbasetemp() / "random.sqlite"
    write(path, number)
    trace = open_trace(path)
    host, work = host_and_activities(trace)
    meetings = np.random.default_rng(number).integers(-1, numbers, len(work))
    graph = with_rendezvous(dependency_graph(trace, host, work), meetings)
    times = replay_times(graph)
    assert np.array_equal(times.start, work.start_ns)
    assert np.array_equal(times.end, work.end_ns)
    assert np.array_equal(times.call_end, graph.recorded.call_end)

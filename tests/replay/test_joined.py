"""Graphs of several ranks as one: each on its own clock, replayed together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger import open_trace
from gpuledger.ledger.host import host_and_activities
from gpuledger.replay.build import dependency_graph
from gpuledger.replay.edits import with_durations
from gpuledger.replay.graph import DependencyGraph, join_graphs
from gpuledger.replay.passes import replay_times
from gpuledger.replay.waits import with_rendezvous
from gpuledger.trace.model import Trace
from support.profiles.random_export import write
from support.thorough import tries
from support.traces.trace_notation import called
from support.traces.trace_notation import trace as kernels_alone

EARLY = called("0-10 cudaLaunchKernel -> s7: 12-50 compute", "10-20 cudaLaunchKernel -> s7: 51-100 reduce")
LATE = called(
    "1000-1010 cudaLaunchKernel -> s7: 1012-1080 compute", "1010-1020 cudaLaunchKernel -> s7: 1081-1101 reduce"
)
"""The same on a clock that is 1 ms ahead, with 30 us more to compute."""


def graph_of(trace: Trace) -> DependencyGraph:
    return dependency_graph(trace, *host_and_activities(trace))


def test_a_rank_that_waits_ends_sooner_if_the_other_comes_sooner() -> None:
    both = join_graphs([graph_of(EARLY), graph_of(LATE)], [0, 1_000_000])
    assert both.of_operation.tolist() == [0, 0, 1, 1]
    assert (both.first_call, both.first_operation) == ((0, 2), (0, 2))
    graph = with_rendezvous(both.graph, np.array([-1, 0, -1, 0]))
    assert graph.groups == 1
    assert replay_times(graph).end.tolist() == [50_000, 100_000, 80_000, 101_000]
    faster = replay_times(with_durations(graph, np.array([2]), np.array([48_000])))
    assert faster.end.tolist() == [50_000, 80_000, 60_000, 81_000]


@settings(max_examples=tries(5))
@given(st.lists(st.integers(0, 100_000), min_size=2, max_size=4), st.integers(-(10**9), 10**18), st.integers(1, 8))
def test_whoever_meets_the_replay_is_exact(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int], ahead_ns: int, meetings: int
) -> None:
    path: Path = tmp_path_factory.getbasetemp() / "random.sqlite"
    graphs = []
    for number in numbers:
        write(path, number)
        graphs.append(graph_of(open_trace(path)))
    both = join_graphs(graphs, [0, *([ahead_ns] * (len(graphs) - 1))])
    meets = np.random.default_rng(numbers[0]).integers(-1, meetings, len(both.graph.operations))
    graph = with_rendezvous(both.graph, meets)
    times = replay_times(graph)
    for side in ("start", "end", "call_begin", "call_end"):
        assert np.array_equal(getattr(times, side), getattr(graph.recorded, side))


def test_one_alone_is_itself_and_an_empty_one_adds_nothing() -> None:
    graph = graph_of(EARLY)
    empty = graph_of(kernels_alone())
    for given_graphs in ([graph], [graph, empty], [empty, graph]):
        both = join_graphs(given_graphs, [0] * len(given_graphs))
        assert np.array_equal(replay_times(both.graph).end, graph.recorded.end)


@settings(max_examples=tries(12))
@given(st.integers(0, 100_000), st.integers(1, 8))
def test_whatever_met_in_one_trace_the_replay_is_exact(
    tmp_path_factory: pytest.TempPathFactory, number: int, meetings: int
) -> None:
    path: Path = tmp_path_factory.getbasetemp() / "random.sqlite"
    write(path, number)
    trace = open_trace(path)
    meets = np.random.default_rng(number).integers(-1, meetings, len(host_and_activities(trace)[1]))
    graph = with_rendezvous(graph_of(trace), meets)
    times = replay_times(graph)
    for side in ("start", "end", "call_end"):
        assert np.array_equal(getattr(times, side), getattr(graph.recorded, side))

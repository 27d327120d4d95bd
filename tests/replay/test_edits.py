"""Laws of changes: less to do never ends later, and no change changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger.replay.edits import (
    Edit,
    with_call_durations,
    with_durations,
    with_free_launches,
    without_calls,
    without_code,
    without_events,
    without_lags,
    without_operations,
    without_waits,
)
from gpuledger.replay.graph import DependencyGraph
from gpuledger.replay.passes import replay_times
from gpuledger.trace.keys import Positions
from support.thorough import tries
from support.traces.random_graphs import graph_of_export

Choice = Callable[[int], Positions]
"""Some of so many."""

LESS: dict[str, Callable[[DependencyGraph, Choice], Edit]] = {
    "waits": lambda graph, some: lambda edited: without_waits(edited, some(len(graph.calls))),
    "calls": lambda graph, some: lambda edited: without_calls(edited, some(len(graph.calls))),
    "operations": lambda graph, some: lambda edited: without_operations(edited, some(len(graph.operations))),
    "code": lambda graph, some: _less_code(some(len(graph.calls))),
    "lags": lambda graph, some: _less_lag(some(len(graph.operations))),
    "launching": lambda graph, some: _launches(some(len(graph.calls))),
    "shorter operations": lambda graph, some: _halved_operations(some(len(graph.operations))),
    "shorter calls": lambda graph, some: _halved_calls(some(len(graph.calls))),
}


def _less_code(calls: Positions) -> Edit:
    return lambda graph: without_code(graph, calls, np.full(len(calls), 7))


def _less_lag(operations: Positions) -> Edit:
    return lambda graph: without_lags(graph, operations, np.full(len(operations), 3))


def _launches(calls: Positions) -> Edit:
    return lambda graph: with_free_launches(graph, calls, np.full(len(calls), 5))


def _halved_operations(rows: Positions) -> Edit:
    return lambda graph: with_durations(graph, rows, graph.operations.duration_ns[rows] // 2)


def _halved_calls(rows: Positions) -> Edit:
    return lambda graph: with_call_durations(graph, rows, graph.calls.duration_ns[rows] // 2)


@settings(max_examples=tries(8))
@given(st.integers(0, 100_000), st.lists(st.sampled_from(sorted(LESS)), min_size=1, max_size=3))
def test_less_to_do_ends_no_later(tmp_path_factory: pytest.TempPathFactory, number: int, names: list[str]) -> None:
    graph = graph_of_export(tmp_path_factory.getbasetemp(), number)
    draw = np.random.default_rng(number)
    before, changed = replay_times(graph), graph
    for name in names:
        changed = LESS[name](graph, lambda count: np.flatnonzero(draw.random(count) < 0.5))(changed)
        after = replay_times(changed)
        assert (after.end <= before.end).all(), name
        assert (after.call_end <= before.call_end).all(), name
        before = after


@settings(max_examples=tries(6))
@given(st.integers(0, 100_000))
def test_no_change_changes_nothing(tmp_path_factory: pytest.TempPathFactory, number: int) -> None:
    graph = graph_of_export(tmp_path_factory.getbasetemp(), number)
    nothing: list[Edit] = [edit(graph, lambda _: np.empty(0, np.intp)) for edit in LESS.values()]
    events = np.ones(len(graph.calls), np.int64)
    nothing += [without_events(graph, events, 0), without_events(graph, 0 * events, 9)]
    for edit in nothing:
        times = replay_times(edit(graph))
        assert np.array_equal(times.end, graph.recorded.end)
        assert np.array_equal(times.call_end, graph.recorded.call_end)

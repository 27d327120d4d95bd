"""The compiled pass gives what the plain one says, for any columns that fit together, and refuses others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuledger.replay.graph import Bound, DependencyGraph, Times
from gpuledger.replay.passes import is_compiled, replay_times
from support.thorough import tries
from support.traces.random_graphs import graph_of, random_graph
from support.traces.trace_notation import trace

compiled = pytest.mark.skipif(not is_compiled(), reason="installed without a compiler")


def both(graph: DependencyGraph) -> tuple[Times, Times]:
    fast = replay_times(graph)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPULEDGER_NATIVE", "0")
        return fast, replay_times(graph)


@compiled
@settings(max_examples=tries(20))
@given(st.integers(0, 1 << 32))
def test_the_compiled_pass_equals_the_plain_one(seed: int) -> None:
    fast, plain = both(random_graph(seed))
    for name in Times.__struct_fields__:
        np.testing.assert_array_equal(getattr(fast, name), getattr(plain, name), name)


def test_who_comes_first_to_a_rendezvous_waits_for_the_last() -> None:
    graph = graph_of(trace("s0: 0-10", "s1: 4-10", "s0: 12-20"))
    meeting = replace(
        graph.operations,
        group=np.array([0, 0, -1], np.int32),
        duration_ns=np.array([6, 6, 8]),
        flags=graph.operations.flags,
    )
    for times in both(replace(graph, operations=meeting, groups=1)):
        assert times.start.tolist() == [0, 4, 12]
        assert times.end.tolist() == [10, 10, 20]
        assert [Bound(bound) for bound in times.bound[:2].tolist()] == [Bound.BY_RENDEZVOUS, Bound.AT_ITS_TIME]


@compiled
@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("calls", "thread", 99),
        ("calls", "after", 1 << 40),
        ("calls", "queue", -2),
        ("calls", "first_wait", 1 << 40),
        ("operations", "call", 1 << 40),
        ("operations", "stream", -1),
        ("operations", "other", 1 << 40),
        ("operations", "group", 99),
        ("recorded", "past", 1 << 40),
    ],
)
def test_positions_outside_their_column_are_refused(table: str, column: str, value: int) -> None:
    graph = next(drawn for seed in range(99) if len((drawn := random_graph(seed)).calls) > 2 < len(drawn.operations))
    nodes = getattr(graph, table)
    wrong = getattr(nodes, column).copy()
    wrong[-1] = value
    with pytest.raises(ValueError, match="do not belong together"):
        replay_times(replace(graph, **{table: replace(nodes, **{column: wrong})}))


@compiled
def test_columns_of_other_lengths_and_integers_are_refused() -> None:
    graph = next(drawn for seed in range(99) if len((drawn := random_graph(seed)).operations) > 2)
    short = replace(graph.operations, duration_ns=graph.operations.duration_ns[1:])
    with pytest.raises(ValueError, match="do not belong together"):
        replay_times(replace(graph, operations=short))
    narrow = replace(graph.operations, duration_ns=graph.operations.duration_ns.astype(np.int16))
    with pytest.raises(ValueError, match="other integers"):
        replay_times(replace(graph, operations=narrow))
    with pytest.raises(ValueError, match="do not belong together"):
        replay_times(replace(graph, order=np.array([3])))

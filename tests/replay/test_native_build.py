"""The compiled passes of the builder give what numpy says, and refuse columns that do not fit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger.replay import program_order
from gpuledger.replay.graph import CallNodes, DependencyGraph, OperationNodes
from gpuledger.replay.passes import is_compiled, native
from gpuledger.trace.model import Trace
from support.thorough import tries
from support.traces.random_graphs import graph_of, graph_of_export
from support.traces.trace_notation import called

pytestmark = pytest.mark.skipif(not is_compiled(), reason="installed without a compiler")


def assert_same(fast: DependencyGraph, plain: DependencyGraph) -> None:
    for name in ("order", "wait", "wait_ns", "call_row", "node_of_call"):
        np.testing.assert_array_equal(getattr(fast, name), getattr(plain, name), name)
    for table, nodes in (("calls", CallNodes), ("operations", OperationNodes)):
        for name in nodes.__struct_fields__:
            ours, theirs = (getattr(getattr(graph, table), name) for graph in (fast, plain))
            np.testing.assert_array_equal(ours, theirs, f"{table}.{name}")


@settings(max_examples=tries(10))
@given(st.integers(0, 100_000))
def test_a_random_export(tmp_path_factory: pytest.TempPathFactory, number: int) -> None:
    fast = graph_of_export(tmp_path_factory.getbasetemp(), number)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPULEDGER_NATIVE", "0")
        assert_same(fast, graph_of_export(tmp_path_factory.getbasetemp(), number))


def _full_queue() -> Trace:
    """Four launches into a queue for two: the third and the fourth wait for the first and the second to end."""
    return called(
        "0-10 cudaLaunchKernel -> s7: 12-200",
        "20-30 cudaLaunchKernel -> s7: 201-400",
        "40-210 cudaLaunchKernel -> s7: 401-500",
        "220-410 cudaLaunchKernel -> s7: 501-600",
        "700-710 cudaLaunchKernel -> s7: 712-720",
        "720-730 cudaLaunchKernel -> s7: 732-740",
        "740-750 cudaLaunchKernel -> s7: 752-760",
    )


def test_a_full_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_order, "QUEUE", 2)
    fast = graph_of(_full_queue())
    waits = np.repeat(np.arange(len(fast.calls)), np.diff(fast.calls.first_wait))
    assert list(zip(waits.tolist(), fast.wait.tolist(), strict=True)) == [(2, 0), (3, 1)]
    assert fast.calls.queue.tolist() == [-1, -1, -1, -1, 2, 3, 4]
    monkeypatch.setenv("GPULEDGER_NATIVE", "0")
    assert_same(fast, graph_of(_full_queue()))


def test_columns_that_do_not_fit_are_refused() -> None:
    long, short, number = np.zeros(3, np.int64), np.zeros(2, np.int64), np.zeros(3, np.int32)
    flags = np.zeros(3, np.int8)
    with pytest.raises(ValueError, match="do not belong together"):
        native.outer(long, short, number, long, long, number, long, long, long, 1)
    with pytest.raises(ValueError, match="do not belong together"):
        native.outer(long, long, number, long, long, number, long, long, long, 0)
    with pytest.raises(ValueError, match="do not belong together"):
        native.streams(number, long, long, long, long, 0, 1)
    with pytest.raises(ValueError, match="do not belong together"):
        native.order(long, long, long, long, long)
    with pytest.raises(ValueError, match="do not belong together"):
        native.queue(long + 9, long, long, flags, long, long, long, long, long, 0)
    with pytest.raises(ValueError, match="do not belong together"):
        native.lags(long, long + 9, long, long, long, long, flags, flags, flags, long, long)

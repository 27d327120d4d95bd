"""A trace that is replayed as it is comes out as it was, to the nanosecond."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger import open_trace
from gpuledger.replay.graph import DependencyGraph
from gpuledger.replay.passes import replay_times
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import Table
from support.command import ROOT
from support.thorough import tries
from support.traces.random_graphs import graph_of, graph_of_export
from support.traces.trace_notation import trace

NSYS = ("decode", "graph", "zoo_node", "zoo_graph", "two_gloo", "one_nccl", "experts_grouped")
TORCH = ("decode", "graph", "graph_warm", "moe_batched_gemm")
SERVE = ("gloo", "graph", "normal")


def as_it_was(graph: DependencyGraph) -> bool:
    times, recorded = replay_times(graph), graph.recorded
    return all(
        np.array_equal(getattr(times, column), getattr(recorded, column))
        for column in ("call_begin", "call_end", "start", "end")
    )


@pytest.mark.parametrize("name", NSYS)
def test_a_capture_of_nsys(unpacked: Callable[[str], Path], name: str) -> None:
    assert as_it_was(graph_of(open_trace(unpacked(f"{name}.sqlite"))))


@pytest.mark.parametrize("name", TORCH)
def test_a_trace_of_torch(name: str) -> None:
    assert as_it_was(graph_of(open_trace(ROOT / "captures" / "torch" / f"{name}.json.gz")))


@pytest.mark.parametrize("name", SERVE)
def test_a_capture_of_a_serving_engine(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.sqlite"
    path.write_bytes(lzma.decompress((ROOT / "captures" / "serve" / f"{name}.sqlite.xz").read_bytes()))
    assert as_it_was(graph_of(open_trace(path)))


@pytest.mark.parametrize("name", ["graph", "zoo_node", "two_gloo"])
def test_the_usual_lags_alone_give_nearly_the_same(unpacked: Callable[[str], Path], name: str) -> None:
    graph = graph_of(open_trace(unpacked(f"{name}.sqlite")), residuals=False)
    recorded, first = graph.recorded.end.max(), graph.recorded.call_begin.min()
    assert abs(replay_times(graph).end.max() - recorded) < 0.002 * (recorded - first)


@settings(max_examples=tries(10))
@given(st.integers(0, 100_000))
def test_a_random_export(tmp_path_factory: pytest.TempPathFactory, number: int) -> None:
    assert as_it_was(graph_of_export(tmp_path_factory.getbasetemp(), number))


def _calls(names: list[str], correlation: list[int], *kernels: tuple[int, int, int]) -> Trace:
    """Calls of 10 ns every 20, and kernels (start, end, correlation)."""
    calls = enumerate(zip(names, correlation, strict=True))
    return trace(
        "tables calls kernels",
        *(f"{20 * at}-{20 * at + 10} {name} correlation={number}" for at, (name, number) in calls),
        *(f"s0: {start}-{end} k correlation={launched}" for start, end, launched in kernels),
    )


@pytest.mark.parametrize(
    "hostile",
    [
        _calls([], []),
        trace("s0: 5-10"),
        trace("s0: 0-10", "s0: 5-8", "s1: 5-8", "s0: 8-20"),
        _calls(["cudaLaunchKernel", "cudaDeviceSynchronize"], [1, 2]),
        _calls(["cudaLaunchKernel"], [1], (3, 9, 1)),
        _calls(["cudaLaunchKernel"], [1], (12, 30, 7)),
        _calls(["cudaStreamSynchronize", "cudaLaunchKernel", "cudaDeviceSynchronize"], [1, 2, 3], (31, 200, 2)),
        _calls(["cudaLaunchKernel"] * 3, [1, 1, 1], (11, 12, 1), (11, 12, 1), (0, 1, 1)),
    ],
    ids=[
        "nothing",
        "one operation",
        "no calls",
        "calls without work",
        "begins inside its call",
        "launched by no call",
        "outlives its wait",
        "one number for all",
    ],
)
@pytest.mark.parametrize("residuals", [True, False])
def test_a_hostile_trace(hostile: Trace, residuals: bool) -> None:
    graph = graph_of(hostile, residuals=residuals)
    assert as_it_was(graph) or not residuals
    assert len(replay_times(graph).end) == len(hostile[Table.KERNELS])

"""A trace as it would be: the same without changes; with them what is gone is gone, and the rest belongs together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from gpuledger.ledger.ranges import innermost
from gpuledger.read import open_trace
from gpuledger.replay.edits import Edit, without_calls
from gpuledger.replay.graph import DependencyGraph
from gpuledger.replay.replayed_trace import replayed_trace
from gpuledger.replay.scenario import scenario
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import Table
from support.traces.book_checks import analysed
from support.traces.program import Program
from support.traces.trace_notation import columns_of

US = 1_000


def with_edits(trace: Trace, *edits: Edit) -> tuple[Trace, int]:
    """The trace as it would be, and how long the replay says that its steady stretch takes."""
    device, *_ = analysed(trace)
    model = scenario(trace, device)
    return replayed_trace(model, *edits), model.steady_ns(*edits)


def looped() -> Trace:
    program = Program()
    for step in range(6):
        with program.range(f"step {step}"):
            program.kernel("gemm", 100)
            with program.range("read"):
                program.read()
            program.wait()
            program.kernel("norm", 30)
            program.host(20)
    return program.trace()


@pytest.mark.parametrize("name", ["decode", "zoo_node", "two_gloo"])
def test_without_changes_it_is_the_trace(name: str, unpacked: Callable[[str], Path]) -> None:
    trace = open_trace(unpacked(f"{name}.sqlite"))
    same, _ = with_edits(trace)
    for table in trace.tables:
        assert same[table] == trace[table], table


def slow_host(graph: DependencyGraph) -> DependencyGraph:
    """What the host does takes three times as long."""
    calls = graph.calls
    code = calls.code_ns + 2 * graph.code_before(np.arange(len(calls)))
    return replace(graph, calls=replace(calls, code_ns=code, duration_ns=3 * calls.duration_ns))


def test_calls_that_go_are_left_out_with_their_work() -> None:
    trace = looped()
    device, *_ = analysed(trace)
    names = device.host.calls.texts("name")
    gone = np.flatnonzero([name != "cudaLaunchKernel" for name in names])
    fixed, steady_ns = with_edits(trace, lambda graph: without_calls(graph, gone))
    assert len(fixed[Table.COPIES]) == 0
    assert set(fixed[Table.CALLS].texts("name")) == {"cudaLaunchKernel"}
    assert len(fixed[Table.KERNELS]) == len(trace[Table.KERNELS])
    [after] = analysed(fixed)
    assert after.steady_ns == steady_ns < device.steady_ns


def test_ranges_stay_around_what_they_were_around() -> None:
    trace = looped()
    slower, _ = with_edits(trace, slow_host)
    around = [innermost(of[Table.RANGES], of[Table.CALLS]).tolist() for of in (trace, slower)]
    assert around[0] == around[1]
    before, after = (columns_of(of[Table.RANGES], "start_ns", "end_ns") for of in (trace, slower))
    assert after[-1][1] > before[-1][1]


def test_times_since_1970_keep_their_nanoseconds() -> None:
    trace = looped()
    shift = 1_700_000_000_123_456_789
    program = {
        table: rows.__class__(
            rows.schema,
            {
                column.name: rows[column.name] + shift if column.name in ("start_ns", "end_ns") else rows[column.name]
                for column in rows.schema.columns
            },
            rows.strings,
        )
        for table, rows in trace.tables.items()
    }
    late = Trace(trace.origin, (), trace.strings, program, trace.absent)
    (moved, _), (there, _) = (with_edits(of, slow_host) for of in (late, trace))
    for table in (Table.CALLS, Table.RANGES, Table.KERNELS):
        assert (moved[table]["end_ns"] - shift == there[table]["end_ns"]).all()

"""What the kernels of a range use of the GPU: the mean by time of those launched in it, ranges inside included."""

from __future__ import annotations

import pytest

from gpuledger.analyse.ranges.range_tree import RangeRow, range_tree
from gpuledger.analyse.utilization.kernel_use import UseOfKernels, use_of_kernels
from gpuledger.ledger.device import analyse_devices
from gpuledger.present.row_sheets import row_sheet
from gpuledger.selection import Selection
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import Rows, Table
from support.traces.sampled_traces import SM_ACTIVE, TENSOR, in_turn, sampled
from support.traces.trace_notation import table


def with_ranges(trace: Trace) -> Trace:
    """Every kernel is launched in a range of its own name, all of them in `step`."""
    kernels, metrics = trace["kernels"], trace["metrics"]
    strings = Strings(dict.fromkeys([*trace.strings.texts, "cudaLaunchKernel", "runtime", "step", "push_pop", ""]))
    count, last = len(kernels), int(kernels["end_ns"][-1])
    begins = [1_000 + 100 * number for number in range(count)]
    columns = {name: kernels[name] for name in (column.name for column in kernels.schema.columns)}
    tables = {
        Table.KERNELS: Rows(kernels.schema, columns | {"correlation": kernels["correlation"] + range(count)}, strings),
        Table.METRICS: Rows(
            metrics.schema, {name: metrics[name] for name in ("start_ns", "end_ns", "gpu", "name", "value")}, strings
        ),
        Table.CALLS: table(
            Table.CALLS,
            strings,
            count,
            start_ns=begins,
            end_ns=[begin + 50 for begin in begins],
            name=["cudaLaunchKernel"] * count,
            layer=["runtime"] * count,
            correlation=range(count),
        ),
        Table.RANGES: table(
            Table.RANGES,
            strings,
            count + 1,
            start_ns=[0, *(begin - 10 for begin in begins)],
            end_ns=[last, *(begin + 60 for begin in begins)],
            name=["step", *(text or "" for text in kernels.texts("name"))],
            kind=["push_pop"] * (count + 1),
            domain=[""] * (count + 1),
        ),
    }
    return Trace(
        trace.origin, (), strings, tables, {name: why for name, why in trace.absent.items() if name not in tables}
    )


def nodes_of(trace: Trace, use: UseOfKernels | None) -> dict[str, RangeRow]:
    [device] = analyse_devices(trace, "run", Selection())
    return {node.range or "": node for node in range_tree(trace, device, use).nodes}


def test_a_range_has_the_mean_of_its_kernels() -> None:
    launches = in_turn(["gemm", "copy"], [131_000, 65_500], 100)
    trace = with_ranges(sampled(launches, {SM_ACTIVE: {"gemm": 90, "copy": 60}, TENSOR: {"gemm": 75}}))
    use = use_of_kernels(trace, 0)
    assert not isinstance(use, NotMeasured)
    nodes = nodes_of(trace, use)
    assert nodes["gemm"].tensor_share == pytest.approx(0.744, abs=0.01)
    assert nodes["copy"].tensor_share == pytest.approx(0, abs=0.01)
    both = nodes["step"]
    assert both.sm_active_share == pytest.approx((2 * 0.893 + 0.591) / 3, abs=0.01)
    assert both.dram_read_share is None  # was not sampled
    sheet = row_sheet("ranges", "Ranges", RangeRow, tuple(nodes.values()))
    assert all(len(row) == len(sheet.columns) for row in sheet.rows)
    assert {"sm_active_share", "tensor_share"} == {
        column.key for column in sheet.columns if column.key[:2] in ("sm", "te")
    }
    assert not any(node.is_sampled for node in nodes_of(trace, None).values())

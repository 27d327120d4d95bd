"""What the kernels of a range use of the GPU: the mean by time of those launched in it, ranges inside included."""

from __future__ import annotations

import pytest

from gpuledger.analyse.range_tree import RangeNode, range_tree
from gpuledger.analyse.utilization.kernel_use import UseOfKernels, use_of_kernels
from gpuledger.catalog.gpu_metrics import GpuMetric
from gpuledger.ledger.device import analyse_devices
from gpuledger.present.views.program_time import ranges_sheet
from gpuledger.selection import Selection
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import Rows, Table
from support.sampled_traces import SM_ACTIVE, TENSOR, in_turn, sampled
from support.trace_notation import table


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


def nodes_of(trace: Trace, use: UseOfKernels | None) -> dict[str, RangeNode]:
    [device] = analyse_devices(trace, "run", Selection())
    return {node.name: node for node in range_tree(trace, device, use).nodes}


def test_a_range_has_the_mean_of_its_kernels() -> None:
    launches = in_turn(["gemm", "copy"], [131_000, 65_500], 100)
    trace = with_ranges(sampled(launches, {SM_ACTIVE: {"gemm": 90, "copy": 60}, TENSOR: {"gemm": 75}}))
    use = use_of_kernels(trace, 0)
    assert not isinstance(use, NotMeasured)
    nodes = nodes_of(trace, use)
    assert nodes["gemm"].use_percent[GpuMetric.TENSOR] == pytest.approx(74.4, abs=1)
    assert nodes["copy"].use_percent[GpuMetric.TENSOR] == pytest.approx(0, abs=1)
    both = nodes["step"].use_percent
    assert both[GpuMetric.SM_ACTIVE] == pytest.approx((2 * 89.3 + 59.1) / 3, abs=1)
    assert GpuMetric.DRAM_READ not in both  # was not sampled
    [device] = analyse_devices(trace, "run", Selection())
    sheet = ranges_sheet(range_tree(trace, device, use))
    assert all(len(row) == len(sheet.columns) for row in sheet.rows)
    assert "sm_active_percent" in {column.key for column in sheet.columns}
    assert all(not node.use_percent for node in nodes_of(trace, None).values())

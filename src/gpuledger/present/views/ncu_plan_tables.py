"""The kernels of a plan for Nsight Compute, as a table."""

from __future__ import annotations

from gpuledger.analyse.kernels.ncu_plan import NcuPlan, PlannedKernel, Triple
from gpuledger.catalog.kernel_names import label
from gpuledger.present.sheet import Cell, Column, Sheet, Unit

_COLUMNS = (
    Column("share_of_gpu_percent", "Kernels", Unit.SHARE_PERCENT),
    Column("share_of_step_percent", "Step", Unit.SHARE_PERCENT, detail=2),
    Column("count_per_step", "Launches", Unit.MEAN, detail=1),
    Column("ns_per_step", "Time", Unit.NS),
    Column("grid", "Grid", Unit.TEXT, detail=3),
    Column("block", "Block", Unit.TEXT, detail=4),
    Column("name", "Name", Unit.TEXT, shorten=label),
)
_LEFT_OUT = Column("reason", "Left out", Unit.TEXT)


def covered_sheet(plan: NcuPlan) -> Sheet:
    """The kernels to profile."""
    rows = tuple(_row(plan, kernel) for kernel in plan.covered)
    return Sheet("ncu_plan", f"Worth profiling, per step, GPU {plan.gpu}", _COLUMNS, rows)


def every_kernel_sheet(plan: NcuPlan) -> Sheet:
    """All kernels, with why one is left out."""
    rows = tuple((*_row(plan, kernel), kernel.left_out) for kernel in plan.kernels)
    return Sheet("ncu_plan", f"Kernels per step, GPU {plan.gpu}", (*_COLUMNS, _LEFT_OUT), rows)


def _row(plan: NcuPlan, kernel: PlannedKernel) -> tuple[Cell, ...]:
    return (
        100 * kernel.ns / plan.kernel_ns if plan.kernel_ns else None,
        100 * kernel.ns / plan.steady_ns,
        kernel.count / plan.steps,
        kernel.ns // plan.steps,
        _shape(kernel.grid),
        _shape(kernel.block),
        kernel.name,
    )


def _shape(triple: Triple) -> str:
    return "x".join(map(str, triple))

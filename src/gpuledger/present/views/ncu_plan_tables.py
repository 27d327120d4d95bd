"""The kernels of a plan for Nsight Compute, as a table."""

from __future__ import annotations

from gpuledger.analyse.kernels.ncu_plan import Kernel, Plan, Triple
from gpuledger.analyse.sheet import Cell, Column, Digits, Sheet
from gpuledger.catalog.kernel_names import label

_COLUMNS = (
    Column("share_of_gpu_percent", "Kernels (%)", Digits.TENTH),
    Column("share_of_step_percent", "Step (%)", Digits.TENTH, detail=2),
    Column("count_per_step", "Launches", Digits.TENTH, detail=1),
    Column("ns_per_step", "Time (ns)", Digits.WHOLE),
    Column("grid", "Grid", Digits.TEXT, detail=3),
    Column("block", "Block", Digits.TEXT, detail=4),
    Column("name", "Name", Digits.TEXT, shorten=label),
)
_LEFT_OUT = Column("reason", "Left out", Digits.TEXT)


def covered_sheet(plan: Plan) -> Sheet:
    """The kernels to profile."""
    rows = tuple(_row(plan, kernel) for kernel in plan.covered)
    return Sheet("ncu_plan", f"Worth profiling, per step, GPU {plan.gpu}", _COLUMNS, rows)


def every_kernel_sheet(plan: Plan) -> Sheet:
    """All kernels, with why one is left out."""
    rows = tuple((*_row(plan, kernel), kernel.left_out) for kernel in plan.kernels)
    return Sheet("ncu_plan", f"Kernels per step, GPU {plan.gpu}", (*_COLUMNS, _LEFT_OUT), rows)


def _row(plan: Plan, kernel: Kernel) -> tuple[Cell, ...]:
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

"""Everything in one table: NVIDIA's cuda_gpu_sum (kernels, copies) and cuda_api_gpu_sum (those and the host's calls).

The percentages share one base: the sum of all rows, host and GPU time added together where both are shown.
"""

from __future__ import annotations

from gpuledger.analyse.nvidia import calls, copies, kernels
from gpuledger.analyse.nvidia.columns import TIME_SHARE, time_cells, time_columns
from gpuledger.catalog.kernel_names import label
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.trace.model import Trace
from gpuledger.trace.statistics import Statistics, shares


def _shorter(operation: str) -> str:
    """A kernel's label; copies are in brackets and stay as they are."""
    return operation if operation.startswith("[") else label(operation)


_COLUMNS = (
    TIME_SHARE,
    *time_columns("instances", "Instances"),
    Column("category", "Category", Unit.TEXT, detail=6),
    Column("operation", "Operation", Unit.TEXT, shorten=_shorter),
)

_Operation = tuple[Statistics, str, str]


def cuda_gpu_sum(trace: Trace) -> Sheet:
    """Time of kernels, copies and memsets."""
    return Sheet("cuda_gpu_sum", "CUDA GPU Summary (Kernels/MemOps)", _COLUMNS, _rows(_on_gpu(trace)))


def cuda_api_gpu_sum(trace: Trace) -> Sheet:
    """Time of CUDA calls, kernels, copies and memsets."""
    on_host = [(each.times, "CUDA_API", each.name) for each in calls.by_short_name(trace)]
    title = "CUDA Summary (API/Kernels/MemOps)"
    return Sheet("cuda_api_gpu_sum", title, _COLUMNS, _rows(on_host + _on_gpu(trace)))


def _on_gpu(trace: Trace) -> list[_Operation]:
    ran = [(each.times, "CUDA_KERNEL", each.name) for each in kernels.by_name(trace)]
    return ran + [(each.times, "MEMORY_OPER", each.operation) for each in copies.by_kind(trace)]


def _rows(operations: list[_Operation]) -> tuple[tuple[Cell, ...], ...]:
    operations = sorted(operations, key=lambda each: (-each[0].total, each[2]))
    percent = shares([times.total for times, _, _ in operations])
    return tuple(
        (share, *time_cells(times), category, operation)
        for share, (times, category, operation) in zip(percent, operations, strict=True)
    )

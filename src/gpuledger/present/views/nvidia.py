"""NVIDIA's summary tables: for each report its columns, and how a row fills them, as `nsys stats` prints them.

The percentages of a table share one base: the sum of all its rows, host and GPU time added together where both are
shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from gpuledger.analyse import nvidia_tables
from gpuledger.analyse.nvidia_tables import (
    CopyTimes,
    KernelLaunchTimes,
    NvidiaReport,
    RangeKernelTimes,
    RangeProjection,
    RangeTimes,
)
from gpuledger.catalog.kernel_names import label
from gpuledger.ledger.activity import shortened
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.trace.statistics import Statistics, shares

Cells = tuple[Cell, ...]


class _Timed(Protocol):
    @property
    def times(self) -> Statistics: ...


R = TypeVar("R")
T = TypeVar("T", bound=_Timed)

_NO_TIMES: Final[Cells] = (None, None, None, None, 0.0)
"""What NVIDIA prints for the spread of nothing."""


@dataclass(frozen=True, slots=True)
class NvidiaTable(Generic[R]):
    """How one report is printed."""

    report: NvidiaReport[R]
    columns: tuple[Column, ...]
    cells: Callable[[Sequence[R]], Sequence[Cells]]
    """All rows at once, as some cells are shares of their sum."""


def nvidia_sheet(report: NvidiaReport[Any], trace: Trace) -> Sheet | NotMeasured:
    """One of NVIDIA's tables, or why this profile cannot give it."""
    rows = report.rows(trace)
    if isinstance(rows, NotMeasured):
        return rows
    table = nvidia_table(report)
    return Sheet(report.name, report.title, table.columns, tuple(table.cells(rows)), rounded=False)


def nvidia_table(report: NvidiaReport[Any]) -> NvidiaTable[Any]:
    """How a report is printed."""
    return next(table for table in NVIDIA_TABLES if table.report is report)


def _time_columns(count_key: str, count_heading: str) -> tuple[Column, ...]:
    """NVIDIA's columns for the statistics of durations."""
    return (
        Column("total_ns", "Total Time", Unit.NS),
        Column(count_key, count_heading, Unit.COUNT),
        *_spread_columns(""),
    )


def _spread_columns(prefix: str, *, average_detail: int = 1) -> tuple[Column, ...]:
    """Average, median, least, most and deviation of a duration; `prefix` as in `TAvg`."""
    key = f"{prefix.strip().lower()}_" if prefix else ""
    return (
        Column(f"{key}avg_ns", f"{prefix}Avg", Unit.MEAN_NS, detail=average_detail),
        Column(f"{key}med_ns", f"{prefix}Med", Unit.MEAN_NS, detail=2),
        Column(f"{key}min_ns", f"{prefix}Min", Unit.NS, detail=4),
        Column(f"{key}max_ns", f"{prefix}Max", Unit.NS, detail=3),
        Column(f"{key}stddev_ns", f"{prefix}StdDev", Unit.MEAN_NS, detail=5),
    )


def _time_cells(times: Statistics) -> Cells:
    """In the order of `_time_columns`."""
    return (times.total, times.count, *_spread_cells(times))


def _spread_cells(times: Statistics) -> Cells:
    """In the order of `_spread_columns`."""
    return (times.average, times.median, times.least, times.most, times.deviation)


def _with_share(name: Callable[[T], Cells]) -> Callable[[Sequence[T]], Sequence[Cells]]:
    """Share and times of each row, then what it is called."""

    def cells(rows: Sequence[T]) -> Sequence[Cells]:
        percent = shares([row.times.total for row in rows])
        return [(share, *_time_cells(row.times), *name(row)) for share, row in zip(percent, rows, strict=True)]

    return cells


def _row_by_row(row_cells: Callable[[R], Cells]) -> Callable[[Sequence[R]], Sequence[Cells]]:
    return lambda rows: [row_cells(row) for row in rows]


def _operation_label(operation: str) -> str:
    """A kernel's label; copies are in brackets and stay as they are."""
    return operation if operation.startswith("[") else label(operation)


def _size_cells(copies: CopyTimes) -> Cells:
    return (*_time_cells(copies.sizes), copies.operation)


def _launch_cells(launched: KernelLaunchTimes) -> Cells:
    return (
        launched.pid,
        launched.tid,
        launched.device,
        launched.whole.count,
        launched.queued.count if launched.queued else 0,
        *_spread_cells(launched.whole),
        *_spread_cells(launched.in_call),
        *(_spread_cells(launched.queued) if launched.queued else _NO_TIMES),
        *_spread_cells(launched.executed),
        launched.function,
        launched.kernel,
    )


def _range_times(name: Callable[[RangeTimes], Cells]) -> Callable[[Sequence[RangeTimes]], Sequence[Cells]]:
    """Without ends there are only instances to print."""

    def cells(rows: Sequence[RangeTimes]) -> Sequence[Cells]:
        percent = shares([row.times.total if row.times else 0 for row in rows])
        return [
            (share, *_time_cells(row.times), *name(row))
            if row.times
            else (None, None, row.instances, *_NO_TIMES, *name(row))
            for share, row in zip(percent, rows, strict=True)
        ]

    return cells


def _projection_cells(entry: RangeProjection) -> Cells:
    return (
        entry.name.text,
        entry.name.style,
        entry.projected.total,
        entry.host.total,
        entry.projected.count,
        *_spread_cells(entry.projected),
        entry.operations.total,
        entry.operations.average,
        entry.mean_level,
        entry.mean_children,
    )


def _range_kernel_cells(entry: RangeKernelTimes) -> Cells:
    return (
        entry.range.text if entry.range else None,
        entry.range.style if entry.range else None,
        entry.pid,
        entry.tid,
        entry.range_instances,
        entry.kernel_instances,
        entry.times.total,
        *_spread_cells(entry.times),
        entry.kernel,
    )


_SHARE: Final = Column("time_percent", "Time", Unit.SHARE_PERCENT)
_KERNEL: Final = Column("name", "Name", Unit.TEXT, shorten=label)
_KERNEL_TIMES: Final = (_SHARE, *_time_columns("instances", "Instances"))
_CALLS: Final = (_SHARE, *_time_columns("calls", "Num Calls"), Column("name", "Name", Unit.TEXT))
_COPIED: Final = Column("operation", "Operation", Unit.TEXT)
_OPERATIONS: Final = (
    *_KERNEL_TIMES,
    Column("category", "Category", Unit.TEXT, detail=6),
    Column("operation", "Operation", Unit.TEXT, shorten=_operation_label),
)
_RANGE: Final = Column("range", "Range", Unit.TEXT)
_STYLE: Final = Column("style", "Style", Unit.TEXT, detail=6)
_PID: Final = Column("pid", "PID", Unit.ID, detail=6)
_TID: Final = Column("tid", "TID", Unit.ID, detail=6)

NVIDIA_TABLES: Final[tuple[NvidiaTable[Any], ...]] = (
    NvidiaTable(nvidia_tables.CUDA_GPU_KERN_SUM, (*_KERNEL_TIMES, _KERNEL), _with_share(lambda kernel: (kernel.name,))),
    NvidiaTable(
        nvidia_tables.CUDA_GPU_KERN_GB_SUM,
        (
            *_KERNEL_TIMES,
            Column("grid", "GridXYZ", Unit.TRIPLE),
            Column("block", "BlockXYZ", Unit.TRIPLE),
            _KERNEL,
        ),
        _with_share(lambda kernel: (kernel.grid, kernel.block, kernel.name)),
    ),
    NvidiaTable(nvidia_tables.CUDA_API_SUM, _CALLS, _with_share(lambda function: (shortened(function.name),))),
    NvidiaTable(nvidia_tables.CUDA_GPU_SUM, _OPERATIONS, _with_share(lambda entry: (entry.category, entry.operation))),
    NvidiaTable(
        nvidia_tables.CUDA_API_GPU_SUM, _OPERATIONS, _with_share(lambda entry: (entry.category, entry.operation))
    ),
    NvidiaTable(
        nvidia_tables.CUDA_GPU_MEM_TIME_SUM,
        (_SHARE, *_time_columns("count", "Count"), _COPIED),
        _with_share(lambda copies: (copies.operation,)),
    ),
    NvidiaTable(
        nvidia_tables.CUDA_GPU_MEM_SIZE_SUM,
        (
            Column("total_bytes", "Total (MB)", Unit.MB),
            Column("count", "Count", Unit.COUNT),
            Column("avg_bytes", "Avg (MB)", Unit.MB, detail=1),
            Column("med_bytes", "Med (MB)", Unit.MB, detail=2),
            Column("min_bytes", "Min (MB)", Unit.MB, detail=4),
            Column("max_bytes", "Max (MB)", Unit.MB, detail=3),
            Column("stddev_bytes", "StdDev (MB)", Unit.MB, detail=5),
            _COPIED,
        ),
        _row_by_row(_size_cells),
    ),
    NvidiaTable(
        nvidia_tables.CUDA_KERN_EXEC_SUM,
        (
            _PID,
            _TID,
            Column("device", "DevId", Unit.ID, detail=6),
            Column("count", "Count", Unit.COUNT),
            Column("queued_count", "QCount", Unit.COUNT, detail=6),
            *_spread_columns("T", average_detail=0),
            *_spread_columns("A", average_detail=0),
            *_spread_columns("Q", average_detail=0),
            *_spread_columns("K", average_detail=0),
            Column("api_name", "API Name", Unit.TEXT, detail=4),
            Column("kernel_name", "Kernel Name", Unit.TEXT, shorten=label),
        ),
        _row_by_row(_launch_cells),
    ),
    NvidiaTable(
        nvidia_tables.NVTX_SUM,
        (_SHARE, *_time_columns("instances", "Instances"), _STYLE, _RANGE),
        _range_times(lambda entry: (entry.name.style, entry.name.text)),
    ),
    NvidiaTable(
        nvidia_tables.NVTX_PUSHPOP_SUM,
        (_SHARE, *_time_columns("instances", "Instances"), _RANGE),
        _range_times(lambda entry: (entry.name.text,)),
    ),
    NvidiaTable(
        nvidia_tables.NVTX_GPU_PROJ_SUM,
        (
            _RANGE,
            _STYLE,
            Column("total_proj_ns", "Total Proj Time", Unit.NS),
            Column("total_range_ns", "Total Range Time", Unit.NS, detail=1),
            Column("instances", "Range Instances", Unit.COUNT),
            *_spread_columns("Proj "),
            Column("gpu_ops", "Total GPU Ops", Unit.COUNT, detail=1),
            Column("avg_gpu_ops", "Avg GPU Ops", Unit.MEAN, detail=6),
            Column("avg_level", "Avg Range Lvl", Unit.MEAN, detail=6),
            Column("avg_children", "Avg Num Child", Unit.MEAN, detail=6),
        ),
        _row_by_row(_projection_cells),
    ),
    NvidiaTable(
        nvidia_tables.NVTX_KERN_SUM,
        (
            Column("range", "NVTX Range", Unit.TEXT),
            _STYLE,
            _PID,
            _TID,
            Column("range_instances", "NVTX Inst", Unit.COUNT, detail=1),
            Column("kernel_instances", "Kern Inst", Unit.COUNT),
            Column("total_ns", "Total Time", Unit.NS),
            *_spread_columns(""),
            Column("kernel_name", "Kernel Name", Unit.TEXT, shorten=label),
        ),
        _row_by_row(_range_kernel_cells),
    ),
    NvidiaTable(nvidia_tables.OSRT_SUM, _CALLS, _with_share(lambda function: (function.name,))),
)
"""One for each of NVIDIA_REPORTS."""

"""Copies and memsets by kind, in time and in bytes: NVIDIA's cuda_gpu_mem_time_sum and cuda_gpu_mem_size_sum.

A copy of a kind that the export gives no name is in neither table, as with NVIDIA; the trace's health counts them.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuledger.analyse.nvidia.columns import TIME_SHARE, time_cells, time_columns
from gpuledger.present.sheet import Column, Sheet, Unit
from gpuledger.trace.keys import group
from gpuledger.trace.model import Trace
from gpuledger.trace.statistics import Statistics, shares, summarise
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import Table

OPERATION = Column("operation", "Operation", Unit.TEXT)


@dataclass(frozen=True, slots=True)
class CopyGroup:
    """The copies of one kind: their times, and their bytes."""

    operation: str
    times: Statistics
    bytes: Statistics


def by_kind(trace: Trace) -> list[CopyGroup]:
    """One group per kind of copy, memsets as one kind, in no particular order."""
    every = trace[Table.COPIES]
    copies = every.where(every.codes("kind") != NO_TEXT)
    kinds = copies.codes("kind")
    first, number = group(kinds)
    names = copies.strings.decode(kinds[first])
    times, sizes = summarise(copies.duration_ns, number), summarise(copies["bytes"], number)
    return [CopyGroup(_operation(name), t, s) for name, t, s in zip(names, times, sizes, strict=True)]


def _operation(kind: str | None) -> str:
    """NVIDIA's display name."""
    return "[CUDA memset]" if kind == "Memset" else f"[CUDA memcpy {kind}]"


def cuda_gpu_mem_time_sum(trace: Trace) -> Sheet:
    """Time of copies and memsets."""
    groups = sorted(by_kind(trace), key=lambda each: (-each.times.total, each.operation))
    percent = shares([each.times.total for each in groups])
    rows = tuple((share, *time_cells(each.times), each.operation) for share, each in zip(percent, groups, strict=True))
    columns = (TIME_SHARE, *time_columns("count", "Count"), OPERATION)
    return Sheet("cuda_gpu_mem_time_sum", "CUDA GPU MemOps Summary (by Time)", columns, rows)


def cuda_gpu_mem_size_sum(trace: Trace) -> Sheet:
    """Bytes of copies and memsets."""
    columns = (
        Column("total_bytes", "Total (MB)", Unit.MB),
        Column("count", "Count", Unit.COUNT),
        Column("avg_bytes", "Avg (MB)", Unit.MB, detail=1),
        Column("med_bytes", "Med (MB)", Unit.MB, detail=2),
        Column("min_bytes", "Min (MB)", Unit.MB, detail=4),
        Column("max_bytes", "Max (MB)", Unit.MB, detail=3),
        Column("stddev_bytes", "StdDev (MB)", Unit.MB, detail=5),
        OPERATION,
    )
    groups = sorted(by_kind(trace), key=lambda each: (-each.bytes.total, each.operation))
    rows = tuple((*time_cells(each.bytes), each.operation) for each in groups)
    return Sheet("cuda_gpu_mem_size_sum", "CUDA GPU MemOps Summary (by Size)", columns, rows)

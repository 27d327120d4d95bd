"""Copies and memsets by kind, in time and in bytes: NVIDIA's cuda_gpu_mem_time_sum and cuda_gpu_mem_size_sum.

A copy of a kind that the export gives no name is in neither table, as with NVIDIA; the trace's health counts them.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuledger.trace.keys import group
from gpuledger.trace.model import Trace
from gpuledger.trace.statistics import Statistics, summarise
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import Table


@dataclass(frozen=True, slots=True)
class CopyTimes:
    """The copies of one kind: their times in nanoseconds, and their bytes."""

    operation: str
    """NVIDIA's display name."""
    times: Statistics
    sizes: Statistics


def by_kind(trace: Trace) -> list[CopyTimes]:
    """One entry per kind of copy, memsets as one kind, in no particular order."""
    every = trace[Table.COPIES]
    copies = every.where(every.codes("kind") != NO_TEXT)
    kinds = copies.codes("kind")
    first, number = group(kinds)
    return [
        CopyTimes("[CUDA memset]" if kind == "Memset" else f"[CUDA memcpy {kind}]", times, sizes)
        for kind, times, sizes in zip(
            copies.strings.decode(kinds[first]),
            summarise(copies.duration_ns, number),
            summarise(copies["bytes"], number),
            strict=True,
        )
    ]


def cuda_gpu_mem_time_sum(trace: Trace) -> tuple[CopyTimes, ...]:
    """Time of copies and memsets."""
    return tuple(sorted(by_kind(trace), key=lambda copies: (-copies.times.total, copies.operation)))


def cuda_gpu_mem_size_sum(trace: Trace) -> tuple[CopyTimes, ...]:
    """Bytes of copies and memsets."""
    return tuple(sorted(by_kind(trace), key=lambda copies: (-copies.sizes.total, copies.operation)))

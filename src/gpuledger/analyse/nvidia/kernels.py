"""Kernel executions by name, and by name and launch shape: NVIDIA's cuda_gpu_kern_sum and cuda_gpu_kern_gb_sum.

A kernel counts wherever it ran: all processes, GPUs and streams together. Times overlap where kernels do.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuledger.analyse.nvidia.columns import TIME_SHARE, time_cells, time_columns
from gpuledger.catalog.kernel_names import label
from gpuledger.present.sheet import Column, Sheet, Unit
from gpuledger.trace.keys import group
from gpuledger.trace.model import Trace
from gpuledger.trace.statistics import Statistics, shares, summarise
from gpuledger.trace.tables import Table

_NAME = Column("name", "Name", Unit.TEXT, shorten=label)
_TIMES = (TIME_SHARE, *time_columns("instances", "Instances"))


@dataclass(frozen=True, slots=True)
class KernelGroup:
    """The executions of one kernel; grid and block where it was asked for by launch shape."""

    name: str
    times: Statistics
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None


def by_name(trace: Trace) -> list[KernelGroup]:
    """One group per kernel name, in no particular order."""
    kernels = trace[Table.KERNELS]
    first, number = group(kernels.codes("name"))
    names = kernels.strings.decode(kernels.codes("name")[first])
    return [
        KernelGroup(name or "", times)
        for name, times in zip(names, summarise(kernels.duration_ns, number), strict=True)
    ]


def by_shape(trace: Trace) -> list[KernelGroup]:
    """One group per kernel name, grid and block, in no particular order."""
    kernels = trace[Table.KERNELS]
    grid, block = kernels["grid"], kernels["block"]
    first, number = group(kernels.codes("name"), *grid.T, *block.T)
    names = kernels.strings.decode(kernels.codes("name")[first])
    shapes = zip(map(tuple, grid[first].tolist()), map(tuple, block[first].tolist()), strict=True)
    return [
        KernelGroup(name or "", times, grid, block)
        for name, times, (grid, block) in zip(names, summarise(kernels.duration_ns, number), shapes, strict=True)
    ]


def cuda_gpu_kern_sum(trace: Trace) -> Sheet:
    """Time of each kernel."""
    groups = sorted(by_name(trace), key=lambda each: (-each.times.total, each.times.count, each.name))
    percent = shares([each.times.total for each in groups])
    rows = tuple((share, *time_cells(each.times), each.name) for share, each in zip(percent, groups, strict=True))
    return Sheet("cuda_gpu_kern_sum", "CUDA GPU Kernel Summary", (*_TIMES, _NAME), rows)


def cuda_gpu_kern_gb_sum(trace: Trace) -> Sheet:
    """Time of each kernel, told apart by launch shape."""
    groups = sorted(
        by_shape(trace), key=lambda each: (-each.times.total, each.times.count, each.name, each.grid, each.block)
    )
    percent = shares([each.times.total for each in groups])
    rows = tuple(
        (share, *time_cells(each.times), each.grid, each.block, each.name)
        for share, each in zip(percent, groups, strict=True)
    )
    shape = (Column("grid", "GridXYZ", Unit.TRIPLE), Column("block", "BlockXYZ", Unit.TRIPLE))
    return Sheet("cuda_gpu_kern_gb_sum", "CUDA GPU Kernel/Grid/Block Summary", (*_TIMES, *shape, _NAME), rows)

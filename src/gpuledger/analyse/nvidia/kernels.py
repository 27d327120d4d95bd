"""Kernel executions by name, and by name and launch shape: NVIDIA's cuda_gpu_kern_sum and cuda_gpu_kern_gb_sum.

A kernel counts wherever it ran: all processes, GPUs and streams together. Times overlap where kernels do.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuledger.trace.keys import group
from gpuledger.trace.model import Trace
from gpuledger.trace.statistics import Statistics, summarise
from gpuledger.trace.tables import Table


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """The executions of one kernel, in nanoseconds."""

    name: str
    times: Statistics


@dataclass(frozen=True, slots=True)
class KernelShapeTimes:
    """The executions of one kernel in one launch shape, in nanoseconds."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    times: Statistics


def by_name(trace: Trace) -> list[KernelTimes]:
    """One entry per kernel name, in no particular order."""
    kernels = trace[Table.KERNELS]
    first, number = group(kernels.codes("name"))
    names = kernels.strings.decode(kernels.codes("name")[first])
    times = summarise(kernels.duration_ns, number)
    return [KernelTimes(name or "", statistics) for name, statistics in zip(names, times, strict=True)]


def cuda_gpu_kern_sum(trace: Trace) -> tuple[KernelTimes, ...]:
    """Time of each kernel."""
    return tuple(
        sorted(by_name(trace), key=lambda kernel: (-kernel.times.total, kernel.times.count, kernel.name)),
    )


def cuda_gpu_kern_gb_sum(trace: Trace) -> tuple[KernelShapeTimes, ...]:
    """Time of each kernel, told apart by launch shape."""
    kernels = trace[Table.KERNELS]
    grids, blocks = kernels["grid"], kernels["block"]
    first, number = group(kernels.codes("name"), *grids.T, *blocks.T)
    by_shape = [
        KernelShapeTimes(name or "", tuple(grid), tuple(block), statistics)
        for name, grid, block, statistics in zip(
            kernels.strings.decode(kernels.codes("name")[first]),
            grids[first].tolist(),
            blocks[first].tolist(),
            summarise(kernels.duration_ns, number),
            strict=True,
        )
    ]
    by_shape.sort(key=lambda kernel: (-kernel.times.total, kernel.times.count, kernel.name, kernel.grid, kernel.block))
    return tuple(by_shape)

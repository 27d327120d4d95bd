"""What a kernel makes of the GPU, in one word: percent of its counters in, at a roof, under-filled or stalled out.

The limits are those of the verdicts on Nsight Compute's numbers (`analyse.kernels.verdict`); docs/concepts/use.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.kernels.verdict import ALIKE, BUSY, UNEVEN
from gpuledger.catalog.gpu_metrics import GpuMetric

Floats = NDArray[Any]


class UseClass(StrEnum):
    """How compute time uses the GPU; each instant is of one class."""

    COMPUTE_ROOF = "compute_roof"
    """Tensor cores or issue slots are near their peak."""
    MEMORY_ROOF = "memory_roof"
    """DRAM is near its peak."""
    UNDER_FILLED = "under_filled"
    """Neither is, and multiprocessors have no warp: too few blocks, a tail, or too short a kernel."""
    STALLED = "stalled"
    """Neither is, though multiprocessors have warps: they wait, or use a unit that is not sampled."""
    UNKNOWN = "unknown"
    """Not sampled, or not known well enough."""


CLASSES: Final = tuple(UseClass)
AT_A_ROOF: Final = (UseClass.COMPUTE_ROOF, UseClass.MEMORY_ROOF)
UNKNOWN: Final = CLASSES.index(UseClass.UNKNOWN)

VAGUE: Final = 20.0
"""Points: an interval that is wider says little of a counter. A class that depends on where in such an interval the
counter is, is not known."""

_COMPUTE: Final = (GpuMetric.TENSOR, GpuMetric.SM_ISSUE)
_MEMORY: Final = (GpuMetric.DRAM_READ, GpuMetric.DRAM_WRITE)

FigureColumns = tuple[Floats, Floats, Floats]
"""Percent, low and high of each kernel."""


def use_classes(figures: Mapping[GpuMetric, FigureColumns], count: int) -> NDArray[np.int8]:
    """Of each of so many kernels: the position of its class in `CLASSES`."""
    percent = {metric: sides[0] for metric, sides in figures.items()}
    classes = _classes(percent, count)
    known = np.ones(count, np.bool_)
    for metric, (_, low, high) in figures.items():
        for side in (low, high):
            known &= (high - low <= VAGUE) | (_classes(percent | {metric: side}, count) == classes)
    return np.where(known, classes, np.int8(UNKNOWN))


def _classes(percent: Mapping[GpuMetric, Floats], count: int) -> NDArray[np.int8]:
    """By the numbers alone. Without a roof nearby, all that could be one must have been sampled."""
    nothing = np.zeros(count)
    compute = np.maximum.reduce([nothing, *(percent[metric] for metric in _COMPUTE if metric in percent)])
    memory = sum((percent[metric] for metric in _MEMORY if metric in percent), nothing)
    all_sampled = {*_MEMORY, GpuMetric.SM_ISSUE, GpuMetric.SM_ACTIVE} <= percent.keys()
    idle = percent.get(GpuMetric.SM_ACTIVE, nothing) <= 100 * UNEVEN
    number = {name: np.int8(place) for place, name in enumerate(CLASSES)}
    beneath = np.where(idle, number[UseClass.UNDER_FILLED], number[UseClass.STALLED])
    of_roof = np.where(compute >= memory - 100 * ALIKE, number[UseClass.COMPUTE_ROOF], number[UseClass.MEMORY_ROOF])
    is_near = np.maximum(compute, memory) >= 100 * BUSY
    return np.where(is_near, of_roof, beneath if all_sampled else number[UseClass.UNKNOWN])

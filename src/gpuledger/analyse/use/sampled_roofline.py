"""Where kernels stand under the roofs, from samples: use in percent in, operations and bytes per second out.

A percentage of tensor cores' cycles is that share of the peak of the type that the kernel's name gives (half precision
where it gives none). Of kernels that hardly use tensor cores, issue slots are taken as multiply-adds in single
precision: what they compute at most. Peaks are the data sheet's, at the clock that was sampled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gpuledger.analyse.use.kernel_use import KernelUse
from gpuledger.analyse.use.stretches import SampledUse
from gpuledger.catalog.gpu_metrics import GpuMetric
from gpuledger.catalog.gpu_peaks import Peaks, peak_bytes_per_s, peaks_of
from gpuledger.catalog.kernel_types import matrix_type
from gpuledger.messages import say
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.model import Gpu

USES_TENSOR: Final = 5.0
"""Percent of the tensor cores' cycles, from which on a kernel is told by them."""

_EIGHT_BITS: Final = re.compile(r"e4m3|e5m2|fp8|float8|_f8", re.IGNORECASE)
_HALF: Final = ("bf16", "fp16")
_PLAIN: Final = "fp32"


@dataclass(frozen=True, slots=True)
class SampledPoint:
    """One kernel at DRAM."""

    kernel: KernelUse
    kind: str
    """What it is taken to compute in: `tensor bf16`, …, or `fp32`."""
    operations_per_byte: float
    operations_per_s: float
    share: float
    """Of the nearer of its two roofs."""


@dataclass(frozen=True, slots=True)
class SampledRoofline:
    """The kernels of one GPU, the most time first, and the roofs over them."""

    points: tuple[SampledPoint, ...]
    compute_per_s: Mapping[str, float]
    """The roofs of what the points compute in."""
    bytes_per_s: float


def sampled_roofline(use: SampledUse, gpu: Gpu | None) -> SampledRoofline | NotMeasured:
    """Kernels whose tensor cores or issue slots, and DRAM, were sampled, on a GPU whose peaks are known."""
    kernels, stretches = use
    if gpu is None:
        return NotMeasured(say("the profile does not describe the GPU"))
    peaks = peaks_of(gpu)
    if isinstance(peaks, NotMeasured):
        return peaks
    bandwidth = gpu.bandwidth_bytes_per_s or peak_bytes_per_s(gpu)
    if isinstance(bandwidth, NotMeasured):
        return bandwidth
    clock = stretches.clock
    pace = clock.mean_hz / clock.highest_hz if clock is not None and clock.highest_hz else 1.0
    points, roofs = list[SampledPoint](), dict[str, float]()
    for kernel in kernels.kernels:
        computed = _computed(kernel, peaks)
        dram = kernel.dram
        if computed is None or dram is None or not dram.percent or not computed[1]:
            continue
        kind, percent, tera = computed
        roofs[kind] = tera * 1e12 * pace
        per_s = percent / 100 * roofs[kind]
        moved = dram.percent / 100 * bandwidth
        points.append(SampledPoint(kernel, kind, per_s / moved, per_s, max(percent, dram.percent) / 100))
    if not points:
        return NotMeasured(say("no kernel has both its arithmetic and its DRAM traffic sampled"))
    return SampledRoofline(tuple(points), roofs, float(bandwidth))


def _computed(kernel: KernelUse, peaks: Peaks) -> tuple[str, float, float] | None:
    """What a kernel computes in, how much of that peak it uses in percent, and the peak in 1e12 a second."""
    tensor, issue = (kernel.figures.get(metric) for metric in (GpuMetric.TENSOR, GpuMetric.SM_ISSUE))
    if tensor is not None and tensor.percent >= USES_TENSOR:
        named = "fp8" if _EIGHT_BITS.search(kernel.full_name) else matrix_type(kernel.full_name)
        for kind in (named, *_HALF):
            if kind is not None and peaks.tera.get(kind, 0.0) > peaks.plain.get(kind, 0.0):
                return f"tensor {kind}", tensor.percent, peaks.tera[kind]
    if issue is not None and _PLAIN in peaks.plain:
        return _PLAIN, issue.percent, peaks.plain[_PLAIN]
    return None

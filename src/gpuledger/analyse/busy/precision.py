"""Kernels in a wider type than they need: single precision where tensor cores could work, double by accident."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from gpuledger.analyse.busy.steady import LEAST_NS, Mask, Shortened, SteadyKernels
from gpuledger.catalog.gpu_peaks import Peaks, peaks_of
from gpuledger.catalog.kernel_types import matrix_type, moves_unnamed, names_tensor_core_gpu, works_on_floats
from gpuledger.trace.health import NotMeasured

ATTAINED: Final = 0.7
"""Of the ratio of two types' peaks, what tensor cores usually attain of it where plain arithmetic attains its peak."""

USUALLY_FASTER: Final = 5.0
"""Of a GPU whose peaks are not known but whose kernels are made for tensor cores: V100s have the least, 5.6 times."""

LEAST_FASTER: Final = 2.0
"""Types whose peaks differ by less are not worth a change."""

MOSTLY: Final = 0.3
"""From this share of the kernels' time in a wide type on, the tensors are of that type: others would move half."""

BY_ACCIDENT: Final = 0.5
"""Programs that spend more than this in double precision mean it."""


def narrower(kernels: SteadyKernels) -> Shortened:
    """Single precision in bfloat16 on tensor cores, and what moves such tensors; double precision in single."""
    duration = kernels.took_ns.astype(np.float64)
    saved = {}
    wide = np.zeros(len(kernels), np.bool_)
    for kind in ("fp32", "tf32"):
        chosen = kernels.is_matrix & kernels.named(partial(_is_of, kind))
        times = _times_as_fast(kernels, kind) if chosen.any() else 0.0
        if times >= LEAST_FASTER:
            duration[chosen] /= times
            wide |= chosen
            saved[kind] = float((kernels.took_ns - duration)[chosen].sum())
    if kernels.took_ns[wide].sum() >= MOSTLY * kernels.took_ns.sum():
        moved = ~kernels.is_matrix & kernels.named(works_on_floats) & (kernels.took_ns >= LEAST_NS)
        duration[moved] /= 2
        wide |= moved
    double = are_double(kernels)
    if double.any():
        duration[double & kernels.is_matrix] /= _single_for_double(kernels)
        duration[double & ~kernels.is_matrix] /= 2
        saved["fp64"] = float((kernels.took_ns - duration)[double].sum())
        wide |= double
    return kernels.taking(wide, duration, max(saved, key=lambda kind: saved[kind], default=""))


def are_double(kernels: SteadyKernels) -> Mask:
    """Which kernels are in double precision by accident; none where it is most of the work.

    By their names, or right after one where a name tells only that eight bytes move.
    """
    matrix = kernels.is_matrix & kernels.named(partial(_is_of, "fp64"))
    eight = kernels.of_elements(lambda kernel: kernel.element_bytes == 8) > 0
    double: Mask = matrix | (eight & ~kernels.named(_is_integer))
    unnamed = np.flatnonzero(kernels.named(moves_unnamed))
    for place in unnamed[unnamed > 0].tolist() if len(unnamed) and double.any() else ():
        double[place] |= double[place - 1] and kernels.part[place] == kernels.part[place - 1]
    is_little = bool(kernels.took_ns[double].sum() < BY_ACCIDENT * kernels.took_ns.sum())
    return double if is_little else np.zeros(len(kernels), np.bool_)


def _times_as_fast(kernels: SteadyKernels, kind: str) -> float:
    """How many times as fast 16 bits are as a type; 0 where the GPU has no tensor cores, or is not known to."""
    peaks = _peaks(kernels)
    if peaks is None:
        return USUALLY_FASTER if kind == "fp32" and kernels.named(names_tensor_core_gpu).any() else 0.0
    narrow = peaks.tera.get("bf16", peaks.tera.get("fp16", 0.0))
    if kind == "tf32":
        return narrow / peaks.tera["tf32"] if "tf32" in peaks.tera else 0.0
    return ATTAINED * narrow / peaks.plain[kind] if kind in peaks.plain else 0.0


def _single_for_double(kernels: SteadyKernels) -> float:
    """How many times as fast matrix products in single precision are, without tensor cores."""
    peaks = _peaks(kernels)
    if peaks is None or "fp64" not in peaks.tera or "fp32" not in peaks.plain:
        return 1.0
    return max(peaks.plain["fp32"] / peaks.tera["fp64"], 1.0)


def _peaks(kernels: SteadyKernels) -> Peaks | None:
    peaks = NotMeasured("no GPU") if kernels.gpu is None else peaks_of(kernels.gpu)
    return None if isinstance(peaks, NotMeasured) else peaks


def _is_of(kind: str, name: str) -> bool:
    return matrix_type(name) == kind


def _is_integer(name: str) -> bool:
    return "long" in name.replace("unsigned long)", "") or "int64" in name

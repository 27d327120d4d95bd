"""Kernels that leave most of the GPU idle: too few blocks for its multiprocessors, or too little work for a launch."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.busy.steady import Shortened, SteadyKernels
from gpuledger.analyse.kernel_loops import kernel_loops

START_NS: Final = 3_500
"""What a kernel takes to start, to fetch the first of its data and to end, however little it does (products of a few
megabytes on an H200)."""

LONG_NS: Final = 7_000
"""Shorter kernels mostly start and end."""

FEW: Final = 0.5
"""Kernels with blocks for no more of the multiprocessors than this leave the GPU idle."""

FEWEST_PRODUCTS: Final = 8
"""The same matrix product so many times in a row, with nothing between, is a loop: layers have other kernels, too."""

AT_ROOF: Final = 0.9
"""What a kernel that fills the GPU attains of its roof."""


def spread(kernels: SteadyKernels) -> Shortened:
    """Kernels with few blocks do their work on all multiprocessors."""
    filled = _filled(kernels)
    if filled is None:
        return kernels.gone(np.zeros(len(kernels), np.bool_))
    which = (filled > 0) & (filled <= FEW) & (kernels.took_ns >= LONG_NS) & kernels.are_alone
    duration = START_NS + (kernels.took_ns - START_NS) * filled
    shares = kernels.roof_shares if which.any() else None
    if shares is not None:
        by_roof = kernels.took_ns * shares / AT_ROOF
        duration = np.fmax(duration, by_roof)
    return kernels.taking(which, duration, was_sampled=shares is not None)


def batched(kernels: SteadyKernels) -> Shortened:
    """Equal matrix products that follow each other become one batched product."""
    filled = _filled(kernels)
    which, duration = np.zeros(len(kernels), np.bool_), np.zeros(len(kernels))
    products = kernels.of_families(frozenset({"gemm"}))
    if filled is None or np.count_nonzero(products) < FEWEST_PRODUCTS:
        return kernels.gone(which)
    parts = np.where(products, kernels.part, -np.arange(1, len(kernels) + 1))
    loops = [
        loop for loop in kernel_loops(kernels.names, parts, FEWEST_PRODUCTS) if products[loop.start : loop.end].all()
    ]
    shares = kernels.roof_shares if loops else None
    work = np.maximum(kernels.took_ns - START_NS, 0) * np.minimum(filled, 1.0)
    if shares is not None:
        work = np.where(np.isnan(shares), work, kernels.took_ns * shares / AT_ROOF)
    for loop in loops:
        if kernels.are_alone[loop.start : loop.end].all() and (filled[loop.start : loop.end] > 0).all():
            which[loop.start : loop.end] = True
            duration[loop.start] = START_NS + work[loop.start : loop.end].sum()
    return kernels.taking(which, duration, was_sampled=shares is not None)


def _filled(kernels: SteadyKernels) -> NDArray[np.float64] | None:
    """Blocks for each multiprocessor; None where the GPU is not known."""
    count = None if kernels.gpu is None else kernels.gpu.sm_count
    return kernels.launch_shape("grid") / count if count else None

"""How long kernels take for what they do: at the roof that limits a product, and at what programs reach of their roofs.

The shares were measured on an H200 (torch 2.11, programs of `lab.programs.paired.light`) against the roofs in
`catalog.gpus`: docs/concepts/light.md has the figures. Other GPUs are taken to reach the same shares.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.operators.arithmetic import Count
from gpuledger.catalog.gpus import peak_flops
from gpuledger.trace.model import Gpu, NotMeasured

Floats = NDArray[np.float64]


class LightRoof(IntEnum):
    """What a kernel would be limited by."""

    COMPUTE = 0
    MEMORY = 1
    UNKNOWN = 2


MOST_BOUND: Final = 0.5
"""Of an upper bound of arithmetic, the least that it can be: a causal mask halves it, a stride of two quarters it."""

SINGLE: Final = ("fp32", "tf32", "fp64")  # what kernels that were given `float` may work in


def product_at_roof_ns(
    gpu: Gpu | None, count: Count, singles: NDArray[np.bool_], per_byte: float
) -> tuple[float, LightRoof]:
    """What one product, convolution or attention takes at its roof; `singles` says which of SINGLE its kernels are."""
    kind = count.kind
    if kind == "fp32":
        kind = SINGLE[int(singles.argmax())] if singles.sum() == 1 else "tf32"
    peak = peak_flops(gpu, kind) if gpu is not None and kind else NotMeasured("not known")
    compute = np.nan if isinstance(peak, NotMeasured) else count.flops * 1e9 / peak
    memory = np.nan if count.moved_bytes is None else count.moved_bytes * per_byte
    if np.isnan(compute):
        return np.nan, LightRoof.UNKNOWN
    return (memory, LightRoof.MEMORY) if memory > compute else (compute, LightRoof.COMPUTE)


PRODUCT: Final = 0.8
PRODUCT_START_NS: Final = 8_000
"""Matrix products and convolutions: 45 us at 64 % of the roof, 90 us at 73 to 80 %, 1.4 ms at 78 %."""

STREAM: Final = 0.88
STREAM_START_NS: Final = 3_000
"""Kernels that go through memory once: 84 to 92 % of the bandwidth from 90 us on."""

ATTENTION: Final = {64: 0.30, 128: 0.36}
NEWEST_ATTENTION: Final = {64: 0.55, 128: 0.68}
NEWEST_BACKWARD: Final = {64: 0.41, 128: 0.51}
ATTENTION_LENGTH: Final = 750
"""Fused attention (FlashAttention 2), by the size of a head: with 1,024 positions of heads of 64 it reaches 17 % of the
roof forward and backward, with 4,096 it is 24 to 28 %, with 8,192 of heads of 128 it is 32 %. The share is what very
long inputs reach, the length where half of that is reached. The newest are cuDNN's for Hopper: 32 % forward and 24 %
backward (all its kernels) with 1,024 positions of heads of 64, 63 % forward with 8,192 of heads of 128; backward with
such heads was not measured, and is taken to be better in the same ratio."""


def product_ns(light_ns: Floats) -> Floats:
    """Of matrix products and convolutions."""
    return light_ns / PRODUCT + PRODUCT_START_NS


def stream_ns(light_ns: Floats) -> Floats:
    """Of kernels that are bound by memory."""
    return light_ns / STREAM + STREAM_START_NS


def attention_ns(light_ns: Floats, length: int, head: int, rates: Mapping[int, float] = ATTENTION) -> Floats:
    """Of fused attention over inputs of some length, by kernels of these rates."""
    longest = rates[64 if head <= 64 else 128]
    return light_ns / (longest * length / (length + ATTENTION_LENGTH))

"""What one product, convolution or attention takes at the roof that limits it."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.operators.arithmetic import Count
from gpuledger.catalog.gpus import peak_flops
from gpuledger.trace.model import Gpu, NotMeasured


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

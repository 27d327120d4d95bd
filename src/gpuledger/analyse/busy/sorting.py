"""Sorts of many values, of which a program may want the largest only: what picking those takes instead.

Nothing in a profile says how many of the sorted values are read. A sampler reads a few: it sorts a vocabulary for the
fifty likeliest tokens. So this is a guess, and only about sorts that take long.
"""

from __future__ import annotations

from typing import Final

from gpuledger.analyse.busy.steady import Shortened, SteadyKernels
from gpuledger.catalog.kernel_types import sorts_values

PICKED: Final = 0.2
"""What `topk` takes of a sort's time: 441 of 2,072 us for 50 of 128,000 values in each of 256 rows (H200). A radix sort
moves values and indices four times, a radix selection reads values four times."""

LONG_NS: Final = 20_000
"""Shorter sorts are of few values, as of an expert's tokens."""


def picked(kernels: SteadyKernels) -> Shortened:
    """Sorts take what picking the largest takes."""
    sorts = kernels.named(sorts_values) & (kernels.took_ns >= LONG_NS)
    return kernels.taking(sorts, PICKED * kernels.took_ns)

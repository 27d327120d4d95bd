"""Attention that is not fused: what runs between its two products, for which all scores go through memory."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpuledger.analyse.busy.steady import Mask, Shortened, SteadyKernels
from gpuledger.catalog.kernel_types import copies_tensor
from gpuledger.trace.keys import Positions

NEAR: Final = 8
"""The two products have at most so many kernels between them and the softmax: scales, masks, casts."""

MOST_COPIES: Final = 3
"""Of queries, keys and values."""


def between_products(kernels: SteadyKernels) -> Shortened:
    """Scales, masks, the softmax and casts of all scores do not run, nor do copies for the products' sake."""
    products, softmax = (kernels.of_families(frozenset({family})) for family in ("gemm", "softmax"))
    places, at = np.flatnonzero(products), np.flatnonzero(softmax)
    if len(places) < 2 or not len(at):
        return kernels.gone(np.zeros(len(kernels), np.bool_))
    next_place = np.searchsorted(places, at)
    has_both = (next_place > 0) & (next_place < len(places))
    at, next_place = at[has_both], next_place[has_both]
    before, after = places[next_place - 1], places[next_place]
    near = (at - before <= NEAR) & (after - at <= NEAR) & (kernels.part[before] == kernels.part[after])
    edges = np.zeros(len(kernels) + 1, np.int64)
    np.add.at(edges, before[near] + 1, 1)
    np.add.at(edges, after[near], -1)
    return kernels.gone((np.cumsum(edges[:-1]) > 0) | _copies_around(kernels, before[near], after[near]))


def _copies_around(kernels: SteadyKernels, first: Positions, second: Positions) -> Mask:
    """Copies right before the first product and right after the second: heads are brought together, and apart again."""
    copies = kernels.named(copies_tensor)
    around = np.zeros(len(kernels), np.bool_)
    for product, way in ((first, -1), (second, 1)):
        place = product + way
        for _ in range(MOST_COPIES):
            place = place[(place >= 0) & (place < len(kernels))]
            place = place[copies[place]]
            around[place] = True
            place = place + way
    return around

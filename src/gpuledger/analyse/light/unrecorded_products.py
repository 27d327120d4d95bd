"""Products whose operators' inputs do not say what they need, by what else was recorded, and what a product takes.

Experts by their blocks, attention over a cache by what an engine says of its step, products of compiled regions by the
sizes that the region was given.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.light.compiled_products import REGIONS, RegionSizes, finishes_product
from gpuledger.analyse.light.launching_operators import GraphOperators, LaunchingOperators
from gpuledger.analyse.light.paged_attention import batch_lengths, paged_count, says_lengths
from gpuledger.analyse.light.routed_experts import routed_counts
from gpuledger.analyse.operators.arithmetic import Count, Inputs
from gpuledger.analyse.steady_kernels import SteadyKernels
from gpuledger.catalog.gpus import peak_flops
from gpuledger.catalog.kernel_types import is_routed_product, routed_product
from gpuledger.trace.keys import Positions, RowsByKey, group, is_among
from gpuledger.trace.model import Gpu, NotMeasured
from gpuledger.trace.spans import Ints

Floats = NDArray[np.float64]


class LightRoof(IntEnum):
    """What a kernel would be limited by."""

    COMPUTE = 0
    MEMORY = 1
    UNKNOWN = 2


MOST_BOUND: Final = 0.5
"""Of an upper bound of arithmetic, the least that it can be: a causal mask halves it, a stride of two quarters it."""


SINGLE: Final = ("fp32", "tf32", "fp64")
"""What kernels that were given `float` may work in."""


def put_unrecorded(
    kernels: SteadyKernels,
    operators: LaunchingOperators | GraphOperators,
    rows: Positions,
    figures: Floats,
    roof: NDArray[Any],
    per_byte: float,
) -> None:
    """Fill in what is not known of products; `rows` are the operators of the kernels, -1 for none.

    `figures` are light, its low and its high end of each kernel.
    """
    kinds, kind = operators.kinds, np.where(rows < 0, -1, operators.kind[rows])
    blocks = np.fmax(kernels.blocks, operators.blocks) if isinstance(operators, GraphOperators) else kernels.blocks
    _put_routed(kernels, kinds, kind, blocks, figures, roof, per_byte)
    _put_paged(kernels, kinds, kind, rows, figures, roof, per_byte)
    _put_compiled(kernels, kinds, kind, figures, roof, per_byte)


def _put_routed(
    kernels: SteadyKernels,
    kinds: Sequence[tuple[str, Inputs | None]],
    kind: Positions,
    blocks: Ints,
    figures: Floats,
    roof: NDArray[Any],
    per_byte: float,
) -> None:
    """Experts' products, of which only the rows are among their operator's inputs."""
    routed = np.flatnonzero(kernels.named(is_routed_product) & np.isnan(figures[0]) & (kind >= 0))
    for number, here in RowsByKey.of(kind[routed]):
        given = kinds[number][1]
        first, which = group(kernels.names[routed[here]], blocks[routed[here]])
        order = np.sort(first)  # as they were launched
        launched = [(routed_product(kernels.text(place)), int(blocks[place])) for place in routed[here[order]].tolist()]
        counts = None if given is None else routed_counts(given, [(name, size) for name, size in launched if name])
        for count, place in zip(counts or (), order.tolist(), strict=False):
            whole, limit = product_at_roof_ns(kernels.gpu, count, np.zeros(len(SINGLE), np.bool_), per_byte)
            mine = routed[here[which == which[place]]]
            figures[:, mine] = np.array([whole, whole * MOST_BOUND, whole])[:, None]
            roof[mine] = limit


def _put_paged(
    kernels: SteadyKernels,
    kinds: Sequence[tuple[str, Inputs | None]],
    kind: Positions,
    rows: Positions,
    figures: Floats,
    roof: NDArray[Any],
    per_byte: float,
) -> None:
    """Attention whose lengths an engine says in the annotation around the step."""
    unknown = np.flatnonzero(kernels.of_families(frozenset({"attention"})) & np.isnan(figures[0]) & (kind >= 0))
    texts, said = kernels.annotated(unknown, says_lengths)
    first, number = group(kind[unknown], said)
    for group_number, place in enumerate(first.tolist()):
        given, lengths = kinds[kind[unknown[place]]][1], batch_lengths(texts[said[place]]) if said[place] >= 0 else None
        count = None if given is None or lengths is None else paged_count(given, lengths)
        if count is not None:
            whole, limit = product_at_roof_ns(kernels.gpu, count, np.zeros(len(SINGLE), np.bool_), per_byte)
            mine = unknown[number == group_number]
            part = kernels.took_ns[mine] / np.maximum(np.bincount(rows[mine], kernels.took_ns[mine])[rows[mine]], 1)
            figures[:, mine] = np.array([whole, whole * MOST_BOUND, whole])[:, None] * part
            roof[mine] = limit


def _put_compiled(
    kernels: SteadyKernels,
    kinds: Sequence[tuple[str, Inputs | None]],
    kind: Positions,
    figures: Floats,
    roof: NDArray[Any],
    per_byte: float,
) -> None:
    """Products in compiled regions, by what these were given and how they were launched."""
    regions = [number for number, (name, _) in enumerate(kinds) if name in REGIONS]
    mine = kernels.is_matrix & np.isnan(figures[0]) & is_among(kind, regions) if regions else np.zeros(0, np.bool_)
    if not mine.any():
        return
    figures[:, mine & kernels.named(finishes_product)] = 0.0
    sizes = RegionSizes(given for number in regions if (given := kinds[number][1]) is not None)
    products, (launched, number) = np.flatnonzero(mine & np.isnan(figures[0])), kernels.launched
    singles = np.stack([kernels.multiply_in(single) for single in SINGLE], axis=1)
    for which, here in RowsByKey.of(number[products]):
        places, counts = products[here], sizes.counts(*launched[which][:2])
        told = sorted(product_at_roof_ns(kernels.gpu, count, singles[places[0]], per_byte) for count in counts)
        whole, limits = np.array([ns for ns, _ in told]), np.array([limit for _, limit in told], np.int8)
        largest = np.searchsorted(whole, kernels.took_ns[places], side="right") - 1
        places, largest = places[largest >= 0], largest[largest >= 0]
        if len(places):
            figures[:, places] = whole[largest], np.full(len(places), whole[0]), whole[largest]
            roof[places] = limits[largest]


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

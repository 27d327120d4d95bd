"""Products whose operators' inputs do not say what they need, by what else was recorded.

Experts by their blocks, attention over a cache by what an engine says of its step, products of compiled regions by the
sizes that the region was given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.light.compiled_products import REGIONS, RegionSizes, finishes_product
from gpuledger.analyse.light.launching_operators import GraphOperators, LaunchingOperators
from gpuledger.analyse.light.paged_attention import batch_lengths, paged_count, says_lengths
from gpuledger.analyse.light.product_roof import MOST_BOUND, SINGLE, product_at_roof_ns
from gpuledger.analyse.light.routed_experts import routed_counts
from gpuledger.analyse.operators.arithmetic import Count, Inputs
from gpuledger.analyse.steady_kernels import SteadyKernels
from gpuledger.catalog.kernel_types import is_routed_product, routed_product
from gpuledger.records import dataclass
from gpuledger.trace.keys import Positions, RowsByKey, group, is_among
from gpuledger.trace.spans import Ints

Floats = NDArray[np.float64]


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
    blocks = np.fmax(kernels.blocks, operators.blocks) if isinstance(operators, GraphOperators) else kernels.blocks
    kind = np.where(rows < 0, -1, operators.kind[rows])
    lacking = _Lacking(kernels, operators.kinds, kind, figures, roof, per_byte)
    lacking.put_routed(blocks)
    lacking.put_paged(rows)
    lacking.put_compiled()


@dataclass(frozen=True, slots=True, eq=False)
class _Lacking:
    """Kernels of products, with the figures that are filled in where they are not known."""

    kernels: SteadyKernels
    kinds: Sequence[tuple[str, Inputs | None]]
    kind: Positions
    """Of each kernel the place of its operator in `kinds`, -1 for none."""
    figures: Floats
    roof: NDArray[Any]
    per_byte: float

    def _unknown(self, which: NDArray[np.bool_]) -> Positions:
        return np.flatnonzero(which & np.isnan(self.figures[0]) & (self.kind >= 0))

    def _put_bound(self, mine: Positions, count: Count, part: Floats | float = 1.0) -> None:
        """These kernels do at most so much, each its part of it."""
        none = np.zeros(len(SINGLE), np.bool_)
        whole, self.roof[mine] = product_at_roof_ns(self.kernels.gpu, count, none, self.per_byte)
        self.figures[:, mine] = np.array([whole, whole * MOST_BOUND, whole])[:, None] * part

    def put_routed(self, blocks: Ints) -> None:
        """Experts' products, of which only the rows are among their operator's inputs."""
        kernels, routed = self.kernels, self._unknown(self.kernels.named(is_routed_product))
        for number, here in RowsByKey.of(self.kind[routed]):
            given = self.kinds[number][1]
            first, which = group(kernels.names[routed[here]], blocks[routed[here]])
            order = np.sort(first)  # as they were launched
            places = routed[here[order]].tolist()
            launched = [(routed_product(kernels.text(place)), int(blocks[place])) for place in places]
            counts = None if given is None else routed_counts(given, [(name, size) for name, size in launched if name])
            for count, place in zip(counts or (), order.tolist(), strict=False):
                self._put_bound(routed[here[which == which[place]]], count)

    def put_paged(self, rows: Positions) -> None:
        """Attention whose lengths an engine says in the annotation around the step."""
        kernels, unknown = self.kernels, self._unknown(self.kernels.of_families(frozenset({"attention"})))
        texts, said = kernels.annotated(unknown, says_lengths)
        first, number = group(self.kind[unknown], said)
        for group_number, place in enumerate(first.tolist()):
            given = self.kinds[self.kind[unknown[place]]][1]
            lengths = batch_lengths(texts[said[place]]) if said[place] >= 0 else None
            count = None if given is None or lengths is None else paged_count(given, lengths)
            if count is not None:
                mine = unknown[number == group_number]
                took = kernels.took_ns[mine]
                self._put_bound(mine, count, took / np.maximum(np.bincount(rows[mine], took)[rows[mine]], 1))

    def put_compiled(self) -> None:
        """Products in compiled regions, by what these were given and how they were launched."""
        kernels, kinds, figures = self.kernels, self.kinds, self.figures
        regions = [number for number, (name, _) in enumerate(kinds) if name in REGIONS]
        if not regions:
            return
        mine = kernels.is_matrix & np.isnan(figures[0]) & is_among(self.kind, regions)
        if not mine.any():
            return
        figures[:, mine & kernels.named(finishes_product)] = 0.0
        sizes = RegionSizes(given for number in regions if (given := kinds[number][1]) is not None)
        products, (launched, number) = np.flatnonzero(mine & np.isnan(figures[0])), kernels.launched
        singles = np.stack([kernels.multiply_in(single) for single in SINGLE], axis=1)
        for which, here in RowsByKey.of(number[products]):
            places, counts = products[here], sizes.counts(*launched[which][:2])
            told = sorted(product_at_roof_ns(kernels.gpu, count, singles[places[0]], self.per_byte) for count in counts)
            whole, limits = np.array([ns for ns, _ in told]), np.array([limit for _, limit in told], np.int8)
            largest = np.searchsorted(whole, kernels.took_ns[places], side="right") - 1
            places, largest = places[largest >= 0], largest[largest >= 0]
            if len(places):
                figures[:, places] = whole[largest], np.full(len(places), whole[0]), whole[largest]
                self.roof[places] = limits[largest]

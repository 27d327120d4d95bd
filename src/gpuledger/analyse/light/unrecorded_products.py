"""Products whose operators' inputs do not say what they need, by what else was recorded.

Experts in engines for serving, whose weights are not among the inputs: the operator was given rows of some width and
each row's score for each expert. Two products are launched: the second writes rows of that width, so that its blocks
and the tile in its name tell how many tiles of rows there are, and these how many columns the first writes. Each expert
that rows go to reads its weights; one tile of each may be nearly empty.

Attention over a cache in pages: SGLang and vLLM write how long its sequences are into the annotation around a step, of
prompts and of tokens that are made:
`execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)` has sums over the requests of
queries, keys, queries squared, and queries times keys. Layers that look back over a window only need less: a bound.

Products inside a region that torch compiled and replays as a CUDA graph: the region was given its weights,
[columns, depth] each, and the rows that go through them. A product's name tells its tile, and its launch how many tiles
its result has. Forward and backward multiply the same three sizes in another order, so that each product is one of few;
of those that fit, it is the largest that the time it took allows at the GPU's peak. The smallest is the low end: light
may be less, and never more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.analyse.light.reachable import MOST_BOUND, SINGLE, product_at_roof_ns
from gpuledger.analyse.light.steady_kernels import SteadyKernels
from gpuledger.analyse.operators.arithmetic import ELEMENT_BYTES, Count, Inputs
from gpuledger.analyse.operators.launching_operators import GraphOperators, LaunchingOperators
from gpuledger.catalog.kernel_names import name_matcher
from gpuledger.catalog.kernel_types import RoutedProduct, is_routed_product, routed_product
from gpuledger.regex import regex
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
    """Fill in what is not known of products; `rows` are the operators of the kernels, -1 for none. `figures` are light,
    its low and its high end of each kernel."""
    blocks = np.fmax(kernels.blocks, operators.blocks) if isinstance(operators, GraphOperators) else kernels.blocks
    kind = np.where(rows < 0, -1, operators.kind[rows])
    lacking = _Lacking(kernels, operators.kinds, kind, figures, roof, per_byte)
    lacking.put_routed(blocks)
    lacking.put_paged(rows)
    lacking.put_compiled()


class _Lacking(Struct, frozen=True, eq=False):
    """Kernels of products, with the figures that are filled in where they are not known."""

    kernels: SteadyKernels
    kinds: Sequence[tuple[str, Inputs | None]]
    kind: Positions  # of each kernel the place of its operator in `kinds`, -1 for none
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
        texts, said = kernels.annotated(unknown, lambda text: batch_lengths(text) is not None)
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


def routed_counts(given: Inputs, launched: Sequence[tuple[RoutedProduct, int]]) -> tuple[Count, Count] | None:
    """Of both products, by their names and blocks, in their order; None where these do not go together."""
    matrices = [shape for shape in given.shapes if len(shape) == 2]
    if len(launched) != 2 or len(matrices) < 2 or matrices[0][0] != matrices[1][0]:
        return None
    (rows, width), (_, experts) = matrices[:2]
    (up, up_blocks), (down, down_blocks) = launched
    tiles, odd = divmod(down_blocks, -(-width // down.columns_tile))
    if odd or not tiles or up.rows_tile != down.rows_tile or up_blocks % tiles or not rows:
        return None
    columns = up_blocks // tiles * up.columns_tile
    inner = columns // 2 if up.is_gated else columns
    pairs = max((tiles - experts) * up.rows_tile, rows)
    return (
        _routed_count(up, pairs, min(experts, pairs), width, columns, inner),
        _routed_count(down, pairs, min(experts, pairs), inner, width, width),
    )


def _routed_count(kernel: RoutedProduct, pairs: int, experts: int, depth: int, columns: int, written: int) -> Count:
    """Of rows times their experts' weights; results are of 16 bits, or are rows of the next."""
    moved_bits = experts * depth * columns * kernel.weight_bits + pairs * (depth * kernel.row_bits + written * 16)
    return Count(2 * pairs * depth * columns, kernel.kind, is_bound=True, moved_bytes=moved_bits // 8)


_SUMS: Final = r"sq(\d{1,12})sk(\d{1,12})sqsq(\d{1,18})sqsk(\d{1,18})"
_BATCH: Final = regex(rf"^execute_\d+_context_\d+\({_SUMS}\)_generation_\d+\({_SUMS}\)")


class BatchLengths(NamedTuple):
    """Of all requests in a step together."""

    queries: int
    keys: int
    scores: int  # pairs of a query and a key that it sees: those up to its own position


def batch_lengths(annotation: str) -> BatchLengths | None:
    """What an engine's annotation says."""
    match = _BATCH.match(annotation)
    if match is None:
        return None
    prompts, made = (tuple(map(int, match.groups()[side : side + 4])) for side in (0, 4))
    queries, keys = (prompts[at] + made[at] for at in (0, 1))
    return BatchLengths(queries, keys, prompts[3] - prompts[2] // 2 + made[3])


def paged_count(given: Inputs, lengths: BatchLengths) -> Count | None:
    """Queries of [tokens, heads, width], then keys and values of [..., heads, width]; None where none fit."""
    tensors = [at for at, shape in enumerate(given.shapes) if len(shape) > 2]
    if not tensors or len(query := given.shapes[tensors[0]]) != 3 or query[0] < lengths.queries or not query[1]:
        return None
    heads, width = query[1:]
    others = [(at, given.shapes[at]) for at in tensors[1:]]
    read = [at for at, shape in others if shape[-1] == width and shape[-2] > 0 and heads % shape[-2] == 0]
    read = [at for at in read if given.shapes[at] != query] or read
    if len(read) < 2:
        return None
    sizes = [ELEMENT_BYTES.get(given.kind(at) or "", 1) for at in (tensors[0], read[0])]
    moved = 2 * prod(query) * sizes[0] + 2 * lengths.keys * given.shapes[read[0]][-2] * width * sizes[1]
    return Count(4 * lengths.scores * heads * width, given.kind(tensors[0]), is_bound=True, moved_bytes=moved)


REGIONS: Final = frozenset(("CompiledFunction", "CompiledFunctionBackward"))

_TILE: Final = regex(r"(?<![0-9x])(\d{2,3})x(\d{2,3})(?![0-9])")
MOST_WEIGHTS: Final = 300
LEAST_DEPTH: Final = 8  # of a product's depth, what each of the blocks that share it has at least

finishes_product: Final = name_matcher(r"splitKreduce|epilogue::impl", 0)
"""Whether a kernel adds up what others multiplied, or adds a bias."""


class RegionSizes:
    """What may be multiplied in compiled regions that were given these."""

    def __init__(self, regions: Iterable[Inputs]) -> None:
        sizes: set[tuple[int, int, int]] = set()
        kinds: dict[str | None, int] = {}
        for given in regions:
            matrices = [shape for shape in given.shapes if len(shape) > 1 and 0 < prod(shape) < 2**50]
            batch = matrices[-1][0] if matrices else 0  # what a program is given comes after its weights
            rows = {batch, *(prod(shape[:2]) for shape in matrices if shape[0] == batch)}
            weights = dict.fromkeys(shape for shape in matrices if len(shape) == 2)
            sizes |= {(many, *weight) for weight in list(weights)[:MOST_WEIGHTS] for many in rows}
            for place, shape in enumerate(given.shapes):
                kind = given.kind(place)
                kinds[kind] = kinds.get(kind, 0) + (len(shape) == 2)
        self.kind: Final = max(kinds, key=lambda kind: kinds[kind], default=None)
        self._sizes: Final = np.array(sorted(sizes), np.int64).reshape(-1, 3)

    def counts(self, kernel: str, grid: tuple[int, int, int]) -> list[Count]:
        """Products whose result such a launch may write, the smallest first."""
        tile, width = _TILE.search(kernel), ELEMENT_BYTES.get(self.kind or "")
        if tile is None or width is None or min(grid) < 1:
            return []
        wide, high = int(tile[1]), int(tile[2])
        which = np.zeros(len(self._sizes), np.bool_)
        for rows, columns, depth in ((0, 1, 2), (0, 2, 1), (1, 2, 0)):
            is_shared = LEAST_DEPTH * grid[2] <= self._sizes[:, depth]
            for one, other in ((rows, columns), (columns, rows)):
                tiles = _tiles(self._sizes[:, one], wide), _tiles(self._sizes[:, other], high)
                which |= (tiles[0] == grid[0]) & (tiles[1] == grid[1]) & is_shared
        found = {}
        for rows, columns, depth in self._sizes[which].tolist():
            flops, moved = 2 * rows * columns * depth, width * (rows * columns + columns * depth + rows * depth)
            found[flops] = Count(flops, self.kind, is_bound=True, moved_bytes=moved)
        return [found[flops] for flops in sorted(found)]


def _tiles(size: NDArray[np.int64], tile: int) -> NDArray[np.int64]:
    tiles: NDArray[np.int64] = -(-size // max(tile, 1))
    return tiles

"""Products inside a region that torch compiled and replays as a CUDA graph: no operator of theirs is recorded.

Three things are. The region was given its weights, [columns, depth] each, and the rows that go through them. A
product's name tells its tile, and its launch how many tiles its result has. Forward and backward multiply the same
three sizes in another order, so that each product is one of few; of those that fit, it is the largest that the time it
took allows at the GPU's peak. The smallest is the low end: light may be less, and never more.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.operators.arithmetic import ELEMENT_BYTES, Count, Inputs
from gpuledger.catalog.kernel_names import name_matcher
from gpuledger.regex import regex

REGIONS: Final = frozenset(("CompiledFunction", "CompiledFunctionBackward"))

_TILE: Final = regex(r"(?<![0-9x])(\d{2,3})x(\d{2,3})(?![0-9])")
MOST_WEIGHTS: Final = 300
LEAST_DEPTH: Final = 8
"""Of a product's depth, what each of the blocks that share it has at least."""

finishes_product: Final = name_matcher(r"splitKreduce|epilogue::impl", 0)
"""Whether a kernel adds up what others multiplied, or adds a bias."""


class RegionSizes:
    """What may be multiplied in regions that were given these."""

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

"""Whose gradients the blocks without a stack may be: backward runs on autograd's threads, which record none.

A gradient is as large as what it is the gradient of. So a block without a stack is laid to the one function of the
program that allocates blocks of its size; where several do, nobody can tell, and nothing is said.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.memory.snapshot.holders import Holder, user_path
from gpuledger.analyse.memory.snapshot.lifetimes import Lifetimes
from gpuledger.trace.memory_snapshot import MemorySnapshot

LEAST_BYTES: Final = 1 << 20
"""Smaller blocks are of a few common sizes."""

MOST_SIZES: Final = 16
"""So many are looked for, those with the most bytes first."""


def likely_gradients(snapshot: MemorySnapshot, lives: Lifetimes, rows: NDArray[np.intp]) -> tuple[Holder, ...]:
    """The blocks without a stack among these by the function that alone allocates their size, the most bytes first."""
    size, stack = lives.size_bytes, lives.stack
    unnamed = rows[(stack[rows] < 0) & ~lives.is_early[rows] & (size[rows] >= LEAST_BYTES)]
    found: dict[tuple[str, ...], list[int]] = {}
    sizes, counts = np.unique(size[unnamed], return_counts=True)
    for at in np.argsort(-sizes * counts, kind="stable")[:MOST_SIZES].tolist():
        stacks, times = np.unique(stack[(size == sizes[at]) & (stack >= 0)], return_counts=True)
        paths: Counter[tuple[str, ...]] = Counter()
        for one, many in zip(stacks.tolist(), times.tolist(), strict=True):
            paths[user_path(snapshot, one)] += many
        del paths[()]
        if len({_function(path[0]) for path in paths}) == 1:
            [(most, _)] = paths.most_common(1)
            found.setdefault(most, []).extend([int(sizes[at])] * int(counts[at]))
    held = (Holder(path[0], path, sum(blocks), len(blocks)) for path, blocks in found.items())
    return tuple(sorted(held, key=lambda holder: (-holder.size_bytes, holder.path)))


def _function(place: str) -> str:
    """A place without its line: `function (file.py`."""
    return place.rpartition(":")[0] or place

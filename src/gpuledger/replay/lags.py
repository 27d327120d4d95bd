"""How long each edge takes: what is usual for its kind, and, where the trace shows that an edge bound, what it took.

*Without residuals* every edge has the usual lag of its kind, which tests the model. *With* them, the edge that bound
keeps the lag that was recorded, and no other edge has more than was recorded, so that the graph as it is replays
exactly, and an edit changes only what it touches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.trace.keys import group
from gpuledger.trace.spans import Ints
from gpuledger.trace.statistics import median

SAMPLE: Final = 20_000
"""So many of a kind are enough to know what is usual."""

TRIMMED: Final = 0.1
"""This share of the lowest and of the highest is left out of a mean."""

FEWEST: Final = 4
"""Fewer of a pair of names say less than all of their kind."""


def trimmed_mean(values: NDArray[Any]) -> int:
    """The mean without the extremes."""
    ordered = np.sort(sampled(values))
    cut = int(len(ordered) * TRIMMED)
    return round(float(ordered[cut : len(ordered) - cut].mean()))


def middle(values: NDArray[Any]) -> int:
    """The median."""
    return round(median(sampled(values)))


def sampled(values: NDArray[Any]) -> NDArray[Any]:
    """No more than are needed, from the whole length."""
    return values[:: max(len(values) // SAMPLE, 1)]


def by_key(values: Ints, keys: NDArray[Any], usual: Callable[[NDArray[Any]], int], fewest: int = 1) -> dict[int, int]:
    """The usual value of each key that has enough of them."""
    if not len(values):
        return {}
    first, number = group(keys)
    order = np.argsort(number, kind="stable")
    edges = np.searchsorted(number[order], np.arange(len(first) + 1)).tolist()
    return {
        int(keys[row]): usual(values[order[low:high]])
        for row, low, high in zip(first.tolist(), edges[:-1], edges[1:], strict=True)
        if high - low >= fewest
    }


def looked_up(keys: NDArray[Any], usual: dict[int, int], default: int) -> Ints:
    """The usual value of each row's key."""
    if not usual:
        return np.full(len(keys), default, np.int64)
    known = np.array(sorted(usual), np.int64)
    values = np.array([usual[key] for key in known.tolist()], np.int64)
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where(known[place] == keys, values[place], default)

"""Rows that share a key: grouping, looking up and joining on several integer columns at once. All vectorised."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.intp]


def group(*keys: NDArray[Any]) -> tuple[Positions, Positions]:
    """Rows with equal keys together: the first row of each group, and for each row the number of its group.

    Groups are numbered in the order of their keys.
    """
    count = len(keys[0])
    if not count:
        return np.empty(0, np.intp), np.empty(0, np.intp)
    order = np.lexsort(keys[::-1])
    opens = np.zeros(count, np.bool_)
    opens[0] = True
    for key in keys:
        ordered = key[order]
        opens[1:] |= ordered[1:] != ordered[:-1]
    number = np.empty(count, np.intp)
    number[order] = np.cumsum(opens) - 1
    return order[opens], number


def search(
    major: NDArray[Any],
    minor: NDArray[Any],
    wanted_major: NDArray[Any],
    wanted_minor: NDArray[Any],
    *,
    side: Literal["left", "right"],
) -> Positions:
    """`np.searchsorted` for keys of two columns, sorted by (major, minor)."""
    count = len(major)
    if count and major[0] == major[-1]:  # one process, one thread: the usual case
        inside = np.searchsorted(minor, wanted_minor, side=side)
        return np.where(wanted_major == major[0], inside, np.where(wanted_major < major[0], 0, count))
    rank = np.concatenate((np.ones(count, np.int8), np.full(len(wanted_major), 0 if side == "left" else 2, np.int8)))
    order = np.lexsort((rank, np.concatenate((minor, wanted_minor)), np.concatenate((major, wanted_major))))
    is_key = order < count
    below = np.cumsum(is_key)
    found = np.empty(len(wanted_major), np.intp)
    found[order[~is_key] - count] = below[~is_key]
    return found


def expand(first: Positions, last: Positions) -> tuple[Positions, Positions]:
    """All pairs (i, j) with first[i] <= j < last[i], in order of i, then j."""
    count = np.maximum(last - first, 0)
    outer = np.repeat(np.arange(len(count)), count)
    offset = np.arange(len(outer)) - np.repeat(np.cumsum(count) - count, count)
    return outer, first[outer] + offset


def join(
    left_major: NDArray[Any], left_minor: NDArray[Any], right_major: NDArray[Any], right_minor: NDArray[Any]
) -> tuple[Positions, Positions]:
    """All pairs of rows (left, right) with equal keys, in order of left."""
    if (found := _by_table(left_major, left_minor, right_major, right_minor)) is not None:
        return found
    order = np.lexsort((right_minor, right_major))
    major, minor = right_major[order], right_minor[order]
    first = search(major, minor, left_major, left_minor, side="left")
    last = search(major, minor, left_major, left_minor, side="right")
    left, position = expand(first, last)
    return left, order[position]


_SPARSE = 8
"""How many times as many places as rows a table may have."""


def _by_table(
    left_major: NDArray[Any], left_minor: NDArray[Any], right_major: NDArray[Any], right_minor: NDArray[Any]
) -> tuple[Positions, Positions] | None:
    """The same through a table with a place for each key; None where keys repeat or lie too far apart for one.

    Correlation ids of one process are counted up and used once, so this is how most joins go: no sorting.
    """
    if not len(left_minor) or not len(right_minor) or (right_major != right_major[0]).any():
        return None
    least, most = int(right_minor.min()), int(right_minor.max())
    if most - least >= _SPARSE * (len(right_minor) + 1024):
        return None
    place = np.full(most - least + 1, -1, np.intp)
    place[right_minor - least] = np.arange(len(right_minor))
    if (place[right_minor - least] != np.arange(len(right_minor))).any():
        return None
    left = np.flatnonzero((left_major == right_major[0]) & (left_minor >= least) & (left_minor <= most))
    right = place[left_minor[left] - least]
    return left[right >= 0], right[right >= 0]

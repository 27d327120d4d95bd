"""Columns whose rows are all the same: one value, broadcast, so that a million rows of it take no room.

One process, one device, no graph: most columns of most profiles are like that. They are numpy arrays as any other, with
a stride of 0; what works row by row is done once here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gpuledger.trace import sweep


def same(value: int, rows: int, dtype: DTypeLike = np.int64) -> NDArray[Any]:
    """A column that holds one value throughout."""
    return np.broadcast_to(np.array(value, dtype), rows)


def is_same(values: NDArray[Any]) -> bool:
    """Whether a column is stored as one value."""
    return values.ndim == 1 and len(values) > 0 and values.strides[0] == 0


def by_row(function: Callable[..., NDArray[Any]], *columns: NDArray[Any]) -> NDArray[Any]:
    """What `function` makes of columns, row by row; asked for one row where all rows are the same."""
    if columns and all(map(is_same, columns)):
        return np.broadcast_to(function(*(values[:1] for values in columns))[0], len(columns[0]))
    return function(*columns)


def equal(values: NDArray[Any], value: int) -> NDArray[np.bool_]:
    """Which rows hold this value."""
    return by_row(lambda column: column == value, values)


def take(values: NDArray[Any], positions: NDArray[Any]) -> NDArray[Any]:
    """The rows at these positions, or under this mask. Positions of 32 bits count from the start."""
    is_mask = positions.dtype == np.bool_
    if is_mask and is_same(positions):
        return values if positions[0] else values[:0]
    if is_same(values):
        return np.broadcast_to(values[0], int(np.count_nonzero(positions)) if is_mask else len(positions))
    if positions.dtype == np.int32:
        return sweep.take(values, positions)
    taken: NDArray[Any] = values[positions]
    return taken


def one_after_another(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Parts of a column as one; without a copy where there is one part, or one value in all of them."""
    parts = [part for part in parts if len(part)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    if all(map(is_same, parts)) and len({part[0] for part in parts}) == 1:
        return np.broadcast_to(parts[0][0], sum(map(len, parts)))
    return np.concatenate(parts)


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """The different values, sorted."""
    if is_same(values):
        return values[:1]
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    if high - low > len(values) + 65536:
        return sweep.distinct(values.astype(np.int64, copy=False)).astype(values.dtype, copy=False)
    return (np.flatnonzero(sweep.marked(values, low, high)) + low).astype(values.dtype)

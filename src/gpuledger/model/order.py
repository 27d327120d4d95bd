"""Records of several tables in one order of time.

A profiler writes down what begins as it begins, table by table and stream by stream. So each table is nearly sorted:
its records move a little, and tables are merged (native/sweep.c), which is quicker than sorting them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.model import sweep
from gpuledger.model.sweep import Ints

try:
    from gpuledger.native import _sweep as native
except ImportError:  # installed where there was no compiler
    native = None  # type: ignore[assignment]

Part = tuple[Ints, Ints, NDArray[Any]]
"""Start and end of some records, and what decides between two that start at once."""

_FEW: Final = 2000
"""Below so many records numpy is as quick."""


def in_order(parts: Sequence[Part]) -> tuple[NDArray[np.signedinteger], Ints, Ints]:
    """The records by start, then by what decides, then as they come: which ones they are, their start and end."""
    count = sum(len(start) for start, _, _ in parts)
    if _FEW <= count < 2**31 - 1 and sweep.is_there():
        start, end, order = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int32)
        columns = [np.ascontiguousarray(column, np.int64) for part in parts for column in part]
        native.in_order(*columns, start, end, order)
        return order, start, end
    start, end, tie = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    position = np.lexsort((tie, start))
    return position, start[position], end[position]

"""Which samples of a long capture are looked at: spans of columns in, those of some stretches of time out.

A minute has more samples than levels become sharper by. Of a long capture, stretches of some milliseconds are looked
at, spread evenly, and those in which something ran that runs rarely. The choice depends on when things ran, never on
what was measured, so that it moves no level.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.use.shares import ColumnSpans
from gpuledger.trace.spans import Ints

MOST_SAMPLES: Final = 120_000
_STRETCH: Final = 64
"""Samples."""
_RARE: Final = 100
"""A column that ran so often is looked at each time."""


def looked_at(stamp_ns: Ints, period_ns: int, spans: ColumnSpans) -> tuple[NDArray[np.bool_], ColumnSpans]:
    """Of the samples those to be looked at, and the spans that lie near them."""
    if len(stamp_ns) <= MOST_SAMPLES:
        return np.ones(len(stamp_ns), np.bool_), spans
    edges = stamp_ns[::_STRETCH]
    begin, end = (
        np.clip(np.searchsorted(edges, instant, side="right") - 1, 0, len(edges) - 1)
        for instant in (spans.start_ns - 2 * period_ns, spans.end_ns + 2 * period_ns)
    )
    chosen = np.zeros(len(edges), np.bool_)
    chosen[:: max(len(stamp_ns) // MOST_SAMPLES, 1)] = True
    rare = np.bincount(spans.column, minlength=spans.columns) <= _RARE
    chosen[begin[rare[spans.column]]] = True
    so_far = np.append(0, np.cumsum(chosen))
    near = so_far[end + 1] > so_far[begin]
    kept = ColumnSpans(spans.start_ns[near], spans.end_ns[near], spans.column[near], spans.columns)
    return np.repeat(chosen, _STRETCH)[: len(stamp_ns)], kept

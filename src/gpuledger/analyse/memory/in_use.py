"""How much of a GPU's memory was in use: the peak and the sums, and the most in each of a fixed number of bins.

Allocations from before the capture count where nsys lists them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuledger.analyse.activity_bins import BINS, bin_edges
from gpuledger.analyse.over_time import memory_events
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, Span
from gpuledger.trace.tables import Table


@dataclass(frozen=True, slots=True)
class MemoryTotals:
    """A GPU's memory over the whole capture."""

    peak_bytes: int
    end_bytes: int
    """In use at the end."""
    allocated_bytes: int
    """Of all allocations together."""


@dataclass(frozen=True, slots=True, eq=False)
class MemoryUse:
    """The most memory that was in use in each bin."""

    edges_ns: Ints
    most_bytes: Ints


def memory_totals(trace: Trace, gpu: int) -> MemoryTotals | NotMeasured:
    """Peak, end and sum, from the profile's memory events."""
    if reason := trace.missing(Table.ALLOCS):
        return reason
    events, released, level = memory_events(trace, gpu)
    if not len(events):
        return _no_event(gpu)
    return MemoryTotals(int(level.max()), int(level[-1]), int(events["bytes"][~released].sum()))


def memory_use(trace: Trace, gpu: int, window: Span, bins: int = BINS) -> MemoryUse | NotMeasured:
    """A GPU's memory over time, from the profile's memory events; those from before the window count."""
    if reason := trace.missing(Table.ALLOCS):
        return reason
    events, _, level = memory_events(trace, gpu)
    if not len(events):
        return _no_event(gpu)
    edges = bin_edges(window, bins)
    begins = np.searchsorted(events["start_ns"], edges[:-1], side="right")
    ends = np.searchsorted(events["start_ns"], edges[1:], side="right")
    held = np.append(0, level)  # what is in use after so many events
    most = [int(held[first : last + 1].max()) for first, last in zip(begins.tolist(), ends.tolist(), strict=True)]
    return MemoryUse(edges, np.array(most, np.int64))


def _no_event(gpu: int) -> NotMeasured:
    return NotMeasured(f"no memory event of GPU {gpu} was recorded")

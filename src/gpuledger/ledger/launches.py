"""GPU work joined with the calls that launched it.

A call launched a row if both are of one process and carry one correlation id: ids repeat across processes. All
kernels of a graph share their launch's id, so each of them pairs with that one call.
"""

from __future__ import annotations

import numpy as np

from gpuledger.trace.columns import by_row
from gpuledger.trace.keys import KeyPositions, Positions, join
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import NOT_RECORDED, Rows


def places_of(calls: Rows) -> KeyPositions | None:
    """Where each call lies by its process and id; None where only a join can tell."""
    return KeyPositions.of(calls["pid"], calls["correlation"])


def launches(work: Rows, calls: Rows, places: KeyPositions | None = None) -> tuple[Positions, Positions]:
    """All pairs (row of `work`, row of `calls`) where the call launched the work, in the order of `work`."""
    known = np.flatnonzero((work["correlation"] != NOT_RECORDED) & (work["pid"] != NOT_RECORDED))
    keys = work["pid"][known], work["correlation"][known]
    row, call = join(*keys, calls["pid"], calls["correlation"], places)
    return known[row], call


def launching_call(pid: Ints, correlation: Ints, calls: Rows, places: KeyPositions | None = None) -> Positions:
    """The row of `calls` that launched each activity, the first in time where several carry its id; -1 for none."""
    places = places or places_of(calls)
    is_known = (correlation != NOT_RECORDED) & by_row(lambda values: values != NOT_RECORDED, pid)
    if places is not None:
        straight = places.look_up(pid, correlation)
        return straight if is_known.all() else np.where(is_known, straight, -1)
    launched_by = np.full(len(pid), -1, np.intp)
    known = np.flatnonzero(is_known)
    row, call = join(pid[known], correlation[known], calls["pid"], calls["correlation"])
    latest_first = np.lexsort((-calls["start_ns"][call],))
    launched_by[known[row[latest_first]]] = call[latest_first]  # the earliest, written last, stands
    return launched_by

"""GPU work joined with the calls that launched it.

A call launched a row if both are of one process and carry one correlation id: ids repeat across processes. All
kernels of a graph share their launch's id, so each of them pairs with that one call.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuledger.trace.columns import by_row
from gpuledger.trace.keys import KeyPositions, Positions, group, join, last_match
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import NOT_RECORDED, Rows


def places_of(calls: Rows) -> KeyPositions | None:
    """Where each call lies by its process and id; None where only a join can tell."""
    return KeyPositions.of(calls["pid"], calls["correlation"])


def launches(work: Rows, calls: Rows, places: KeyPositions | None = None) -> tuple[Positions, Positions]:
    """All pairs (row of `work`, row of `calls`) where the call launched the work, in the order of `work`.

    As many as both have rows, if ids repeat on one side only; if on both, as NVIDIA's tables need them, up to a bound.
    """
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
    latest_first = np.argsort(-calls["start_ns"], kind="stable")
    call = last_match(pid, correlation, calls["pid"][latest_first], calls["correlation"][latest_first])
    return np.where(is_known & (call >= 0), np.append(latest_first, -1)[call], -1)


@dataclass(frozen=True, slots=True)
class CallsByKey:
    """Calls that carry the same process and id, together: what is said of one is said of all."""

    calls: Rows
    first: Positions
    """One call of each key."""
    number: Positions
    """The key of each call."""

    @classmethod
    def of(cls, calls: Rows) -> CallsByKey:
        return cls(calls, *group(calls["pid"], calls["correlation"]))

    def launched(self, work: Rows) -> Positions:
        """The key that launched each row of work; -1 for none."""
        keys = self.calls["pid"][self.first], self.calls["correlation"][self.first]
        key = last_match(work["pid"], work["correlation"], *keys)
        return np.where((work["correlation"] != NOT_RECORDED) & (work["pid"] != NOT_RECORDED), key, -1)


def recorded_by(calls: Rows, records: Rows) -> Positions:
    """The row of `records`, of which each is of one call, that is of each of these; -1 for none."""
    record = last_match(calls["pid"], calls["correlation"], records["pid"], records["correlation"])
    return np.where((calls["correlation"] != NOT_RECORDED) & (calls["pid"] != NOT_RECORDED), record, -1)

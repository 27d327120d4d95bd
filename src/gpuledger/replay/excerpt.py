"""The part of a trace that is replayed: all of it, or of a long run of like steps as many as are needed.

Steps are alike, so that a few tens of thousands of operations say what a change does to a million. They are taken from
the middle of the steady steps, with one step before them to begin with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from gpuledger.ledger.activity import Activities
from gpuledger.ledger.device import Device
from gpuledger.ledger.host import Host
from gpuledger.trace.keys import Positions
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Span, Spans, clip, total

ENOUGH: Final = 60_000
"""So many operations are replayed of a run of steps that has more."""

FEWEST_STEPS: Final = 5
"""But no fewer steps than this."""


@dataclass(frozen=True, slots=True, eq=False)
class Excerpt:
    """Part of a trace, with one device's steady stretch as far as it is measured."""

    host: Host
    work: Activities
    rows: Positions | None
    """Which of the trace's activities these are; None: all."""
    measured: Spans
    steps: int
    """How many steps are measured; 1 where there are none."""

    @property
    def measured_ns(self) -> int:
        return total(self.measured)

    def places(self, rows: Positions) -> tuple[Positions, Positions]:
        """Which of the trace's activities are here, as positions in `rows`, and where."""
        if self.rows is None:
            return np.arange(len(rows)), rows
        place = np.minimum(np.searchsorted(self.rows, rows), max(len(self.rows) - 1, 0))
        here = np.flatnonzero(self.rows[place] == rows) if len(self.rows) else np.empty(0, np.intp)
        return here, place[here]


def excerpt(
    trace: Trace, device: Device, *, enough: int = ENOUGH, fewest: int = FEWEST_STEPS, lead: int = 1
) -> Excerpt:
    """What is replayed for a device: so many operations, but no fewer steps than that, and `lead` steps before them."""
    first, last = _steps(device, enough, fewest)
    if device.steps is None or (first, last) == (device.steps.warm_up, len(device.steps)):
        return whole(device)
    edges = device.steps.edges_ns
    measured = Span(int(edges[first]), int(edges[last]))
    span = Span(int(edges[first - lead]), measured.end_ns)
    host, work, rows = _cut(trace, device, span)
    return Excerpt(host, work, rows, clip(device.steady_stretches, measured), last - first)


def whole(device: Device) -> Excerpt:
    """All of it."""
    return Excerpt(device.host, device.work, None, device.steady_stretches, device.step_count)


def _steps(device: Device, enough: int, fewest: int) -> tuple[int, int]:
    """The steps that are measured: from which to which."""
    if device.steps is None:
        return 0, 1
    warm_up, count = device.steps.warm_up, len(device.steps)
    each = max(len(device.work) // max(count, 1), 1)
    wanted = max(enough // each, fewest)
    if count - warm_up <= 2 * wanted:
        return warm_up, count
    first = warm_up + (count - warm_up - wanted) // 2
    return max(first, 1), max(first, 1) + wanted


def _cut(trace: Trace, device: Device, span: Span) -> tuple[Host, Activities, Positions]:
    """The calls and activities of a stretch; what was launched before it keeps its place in its stream."""
    host, work = device.host, device.work
    first, last = np.searchsorted(work.start_ns, span)
    rows = np.arange(first, last)
    calls = host.calls
    inside = (calls["end_ns"] > span.start_ns) & (calls["start_ns"] < span.end_ns)
    place = np.cumsum(inside) - 1
    part = Host(trace, calls.where(inside), host.kinds[inside])
    kept = work.at(rows)
    launch = kept.launch
    known = (launch >= 0) & inside[launch] if len(calls) else launch >= 0
    return part, kept.launched_by(np.where(known, place[launch] if len(calls) else -1, -1)), rows

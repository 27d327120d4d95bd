"""The steady stretch as a replay has it: changes of the graph in, the ledger's kinds of time out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuledger.replay.edits import Edit
from gpuledger.replay.graph import Times
from gpuledger.replay.scenario import Scenario
from gpuledger.trace.spans import Spans, cut_to, intersection, total, union
from gpuledger.trace.sweep import states


@dataclass(frozen=True, slots=True)
class ReplayedStretch:
    """Kinds of time sum to the stretch: each instant is of the first that applies."""

    steady_ns: int
    compute_ns: int
    comm_ns: int
    """Communication that nothing hides."""
    copy_ns: int
    idle_ns: int

    @property
    def busy_ns(self) -> int:
        return self.steady_ns - self.idle_ns


def replayed_stretch(scenario: Scenario, edits: Sequence[Edit]) -> ReplayedStretch:
    """What the steady stretch would be with these changes; where some of its steps are replayed, all are like them."""
    times, work = scenario.times(*edits), scenario.part.work
    here = work.on(scenario.device.gpu)
    here = here[np.argsort(times.start[here], kind="stable")]
    windows = _windows(scenario, times)
    if not len(windows):
        return ReplayedStretch(0, 0, 0, 0, 0)
    start, end, whose = cut_to(times.start[here], times.end[here], windows)
    split = states(start, end, work.state[here[whose]], (int(windows.start_ns[0]), int(windows.end_ns[-1])))
    exposed = (total(intersection(Spans(*bounds), windows)) for bounds in split.spans)
    whole, comm, copy, idle = (scenario.of_steady(ns) for ns in (total(windows), *exposed))
    return ReplayedStretch(whole, whole - comm - copy - idle, comm, copy, idle)


def _windows(scenario: Scenario, times: Times) -> Spans:
    """Where what is measured lies then."""
    bounds = [(scenario.instant(times, start), scenario.instant(times, end)) for start, end in scenario.stretches]
    kept = [(start, end) for start, end in bounds if end > start]
    return union([start for start, _ in kept], [end for _, end in kept])

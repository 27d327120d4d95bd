"""What a report says first: how much the GPU works, how much of the window that is about, and the largest loss.

The first number is of the whole window. The finding that is told is the first one, where it is worth a sentence; where
it is about little of what is lost, the line that is the largest loss stands beside it, so that the headline, the first
finding and the books cannot contradict each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpuledger.findings.finding import Finding
from gpuledger.ledger.causes import Cause
from gpuledger.ledger.device import Device
from gpuledger.ledger.lines import Line

LITTLE: Final = 0.02
"""A finding that neither saves nor explains this share of the time is no headline."""

LOSS: Final = 0.05
"""Time lost to one line from this share on is never passed over."""

_UNRECORDED: Final = Line.of_cause(Cause.UNRECORDED)
_LOST: Final = Line.of_cause(Cause.LOST)
_UNKNOWN: Final = (Cause.UNRECORDED, Cause.LOST, Cause.TAIL)
"""Idle time that is nobody's loss: what happened in it, if anything, is not in the file."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A line of time in which the GPU computes nothing, and its share."""

    line: Line
    time_ns: int
    share: float


@dataclass(frozen=True, slots=True)
class Headline:
    """What is said of one GPU."""

    busy_share: float
    """Of the window."""
    steady_busy_share: float
    """Of the steady stretch, which is what the books under the headline are of."""
    coverage: float
    """The share of the window that the steady stretch holds."""
    steps: int | None
    """How many steady steps there are; None where the window is the unit."""
    finding: Finding | None
    """The first one, where it is about enough to be told."""
    loss: Loss | None
    """The largest loss in the steady stretch, where the finding is about little of it."""
    outside: Loss | None
    """The largest loss outside the steady stretch, where much of the window lies there."""
    unrecorded: Loss | None
    """Time in which the device worked on what was launched before the recording began, where it is much."""
    lost: Loss | None
    """Time beside work that the profiler lost, where it is much."""


def headline(device: Device, findings: Sequence[Finding]) -> Headline:
    """The headline for one GPU, whose findings come with the most profitable first."""
    total, steady = device.ledger.total(), device.line_ns
    window_ns = max(device.ledger.window_ns, 1)
    first = findings[0] if findings else None
    if first is not None and max(first.saving_ns, first.explains_ns) < LITTLE * device.steady_ns:
        first = None
    largest = _largest(steady, max(device.steady_ns, 1))
    explained_ns = 0 if first is None else max(first.explains_ns, first.saving_ns)
    outside = {line: ns - steady.get(line, 0) for line, ns in total.items()}
    return Headline(
        busy_share=_busy_ns(total) / window_ns,
        steady_busy_share=_busy_ns(steady) / max(device.steady_ns, 1),
        coverage=device.coverage,
        steps=None if device.steps is None else device.step_count,
        finding=first,
        loss=largest if largest is not None and 2 * explained_ns < largest.time_ns else None,
        outside=_largest(outside, window_ns),
        unrecorded=_told(_UNRECORDED, total.get(_UNRECORDED, 0), window_ns),
        lost=_told(_LOST, total.get(_LOST, 0), window_ns),
    )


def _busy_ns(lines: Mapping[Line, int]) -> int:
    return sum(ns for line, ns in lines.items() if not line.is_idle)


def _largest(lines: Mapping[Line, int], whole_ns: int) -> Loss | None:
    """The largest of the losses; None where it is small."""
    losses = [(ns, line) for line, ns in lines.items() if not line.is_compute and line.cause not in _UNKNOWN]
    if not losses:
        return None
    ns, line = max(losses)
    return _told(line, ns, whole_ns)


def _told(line: Line, ns: int, whole_ns: int) -> Loss | None:
    return Loss(line, ns, ns / whole_ns) if ns >= LOSS * whole_ns else None

"""What a change would buy, from the same books: a line made faster, a cause removed, work hidden, a range in a graph.

Saving, new step and speed-up are different numbers: 7 % of the time made ten times faster saves 6.3 % of the time, and
that is a speed-up of 1.067. The limit is what an infinitely fast line would give (Amdahl).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpuledger.errors import NothingRecorded
from gpuledger.ledger.causes import TRIGGERS, Cause, QueueTrigger
from gpuledger.ledger.device import Device
from gpuledger.ledger.lines import Line, LineKind
from gpuledger.ledger.ranges import calls_in_ranges, spans_of_time
from gpuledger.messages import say
from gpuledger.trace.model import Trace

CLOSED_BY_A_GRAPH: Final = (QueueTrigger.BEHIND, QueueTrigger.DRAINED)
"""Gaps that close where one launch stands for many, and nothing in between waits."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """One change and what it would do to the steady stretch, and to the mean step of it."""

    change: str
    assumption: str
    steps: int
    steady_ns: int
    about_ns: int
    """What the change is about, in the whole stretch."""
    saved_ns: int

    @property
    def line_ns(self) -> int:
        """What the change is about, per step."""
        return self.about_ns // self.steps

    @property
    def step_ns(self) -> int:
        return self.steady_ns // self.steps

    @property
    def saving_ns(self) -> int:
        return self.saved_ns // self.steps

    @property
    def new_step_ns(self) -> int:
        return self.step_ns - self.saving_ns

    @property
    def speed_up(self) -> float:
        return self.step_ns / self.new_step_ns if self.new_step_ns else float("inf")

    @property
    def limit(self) -> float | None:
        """The speed-up if the line took no time at all; None if nothing else remains."""
        rest = self.step_ns - self.line_ns
        return self.step_ns / rest if rest else None


def _matching(device: Device, wanted: str) -> int:
    """The time of what `wanted` names: a line, else a family or a cause, else all lines of a kind."""
    for matches in (
        [line for line in device.line_ns if line == wanted],
        [line for line in device.line_ns if line.detail == wanted],
        [line for line in device.line_ns if line.kind == wanted],
    ):
        if matches:
            return sum(device.line_ns[line] for line in matches)
    names = ", ".join(sorted({line.detail or line for line in device.line_ns}))
    raise NothingRecorded(f"GPU {device.gpu} has no line '{wanted}'", found=f"its lines are {names}")


def speed_up(device: Device, wanted: str, factor: float) -> WhatIf:
    """A line made `factor` times as fast."""
    time = _matching(device, wanted)
    saving = round(time - time / factor)
    said = say("nothing else changes, and nothing waits for what did not become faster")
    return _what_if(device, f"{wanted} {factor:g} x as fast", time, saving, said)


def remove(device: Device, cause: str) -> WhatIf:
    """Idle time of one cause gone."""
    time = _matching(device, cause)
    said = say("the gaps close by that much; the host does not become the limit")
    is_lost = cause in (Cause.LOST, Line.of_cause(Cause.LOST), LineKind.IDLE)  # then it may not have been idle
    return _what_if(device, f"no {cause}", time, time - is_lost * device.idle_ns(Cause.LOST), said)


def hide(device: Device, kind: str, *, but_ns: int = 0) -> WhatIf:
    """Exposed communication or copies run under compute, all but `but_ns` of them, and but what lost work may hide."""
    time = _matching(device, kind)
    but_ns += device.exposed_beside_lost_ns(LineKind(kind))
    said = say("compute of the same step covers it, without slowing down")
    return _what_if(device, f"{kind} hidden", time, min(max(time - but_ns, 0), device.compute_ns), said)


def graph(trace: Trace, device: Device, pattern: str) -> WhatIf:
    """The launches of a range captured in a CUDA graph: the gaps in which the host was behind, or had waited, close."""
    ranges, gaps = spans_of_time(trace), device.ledger.gaps
    texts = ranges.texts("name")
    chosen = ranges.where(np.array([bool(re.search(pattern, text or "")) for text in texts], np.bool_))
    if not len(chosen):
        known = ", ".join(sorted({text or "" for text in texts})[:12])
        raise NothingRecorded(f"no range matches '{pattern}'", found=f"ranges: {known or 'none'}")
    mine = np.flatnonzero(device.steady_gaps & (gaps.call >= 0))
    calls = device.host.calls.at(gaps.call[mine])
    _, inner = calls_in_ranges(chosen, calls)
    launched = mine[np.unique(inner)]
    closes = np.isin(gaps.trigger[launched], [TRIGGERS.index(trigger) for trigger in CLOSED_BY_A_GRAPH])
    time = int(gaps.length_ns[launched][closes].sum())
    said = say("shapes are static and nothing in the range needs the host; one launch for the graph is not counted")
    return _what_if(device, f"range '{pattern}' in a graph", time, time, said)


def _what_if(device: Device, change: str, about: int, saved: int, assumption: str) -> WhatIf:
    return WhatIf(change, assumption, device.step_count, device.steady_ns, about, saved)

"""What a change would buy, from the same books: a line made faster, a cause removed, work hidden, a range in a graph.

Saving, new step and speed-up are different numbers: 7 % of the time made ten times faster saves 6.3 % of the time, and
that is a speed-up of 1.067. The limit is what an infinitely fast line would give (Amdahl).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpuledger.analyse.diff.run_side import RunSide
from gpuledger.analyse.named_time import named_line_ns, named_time, names_of
from gpuledger.analyse.range_shares import RangeRole, range_shares
from gpuledger.errors import NothingRecorded
from gpuledger.ledger.causes import TRIGGERS, Cause, QueueTrigger
from gpuledger.ledger.device import Device
from gpuledger.ledger.lines import Line, LineKind
from gpuledger.ledger.ranges import calls_in_ranges, spans_of_time
from gpuledger.messages import say
from gpuledger.trace.model import Trace

LOST: Final = Line.of_cause(Cause.LOST)

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


def speed_up(trace: Trace, device: Device, wanted: str, factor: float) -> WhatIf:
    """A line, a range or a kernel made `factor` times as fast."""
    meaning, time = named_time(trace, device, wanted)
    saving = round(time - time / factor)
    said = say("nothing else changes, and nothing waits for what did not become faster")
    if meaning == "range":
        said = say("the time that the range is open on the host is the step's, with all that it waits for")
    return _what_if(device, say("{what} {factor} x as fast", what=wanted, factor=f"{factor:g}"), time, saving, said)


def speed_up_of_tables(side: RunSide, wanted: str, factor: float) -> WhatIf:
    """A range of tables made `factor` times as fast: the whole is that of the program's own ranges."""
    shares = range_shares(side)
    ranges = {run_range.name: run_range for run_range in side.ranges or ()}
    chosen = ranges.get(wanted.removeprefix("range:").removeprefix(":"))
    if chosen is None:
        known = ", ".join(list(ranges)[:12])
        raise NothingRecorded(f"{side.name}: has no range '{wanted}'", found=f"its ranges are {known or 'none'}")
    if shares.share(chosen) is None:
        raise NothingRecorded(
            f"{side.name}: {chosen.name} is {shares.roles[chosen.name]}, so it is no part of the whole",
            found=f"the whole is made of {', '.join(shares.names(RangeRole.PART))}",
        )
    said = say(
        "the whole is {parts}, one after the other; set-up and what libraries mark are left out",
        parts=", ".join(shares.names(RangeRole.HOLDS)[-1:] or shares.names(RangeRole.PART)),
    )
    saving = round(chosen.host_ns - chosen.host_ns / factor)
    return WhatIf(
        say("{what} {factor} x as fast", what=wanted, factor=f"{factor:g}"),
        said,
        1,
        shares.whole_ns,
        chosen.host_ns,
        saving,
    )


def remove(device: Device, cause: str) -> WhatIf:
    """Idle time of one cause gone."""
    time = named_line_ns(device, cause)
    said = say("the gaps close by that much; the host does not become the limit")
    lost_ns = device.idle_ns(Cause.LOST) if cause in (*names_of(LOST), Cause.LOST, LineKind.IDLE) else 0
    return _what_if(
        device, say("no {cause}", cause=cause), time, time - lost_ns, said
    )  # what was lost may not have been idle


def hide(device: Device, kind: str, *, but_ns: int = 0) -> WhatIf:
    """Exposed communication or copies run under compute, all but `but_ns` of them, and but what lost work may hide."""
    time = named_line_ns(device, kind)
    but_ns += device.exposed_beside_lost_ns(LineKind(kind))
    said = say("compute of the same step covers it, without slowing down")
    return _what_if(device, say("{kind} hidden", kind=kind), time, min(max(time - but_ns, 0), device.compute_ns), said)


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
    return _what_if(device, say("range '{pattern}' in a graph", pattern=pattern), time, time, said)


def _what_if(device: Device, change: str, about: int, saved: int, assumption: str) -> WhatIf:
    return WhatIf(change, assumption, device.step_count, device.steady_ns, about, saved)

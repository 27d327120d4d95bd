"""One GPU's gaps summed up: a device in; idle time by cause, by trigger and by length, and single gaps, out.

Causes and lengths are of the whole window and sum to its idle time; triggers are of the steady steps.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from gpuledger.attribution.lines import LinePlace, idle_lines
from gpuledger.ledger.causes import CAUSES, TRIGGERS, Cause, Trigger
from gpuledger.ledger.device import Device
from gpuledger.ledger.gaps import histogram
from gpuledger.ledger.ranges import ranges_around
from gpuledger.trace.model import Trace
from gpuledger.trace.statistics import largest

MOST_LINES: Final = 20  # those with the most time
LONGEST: Final = 20  # so many single gaps are described where nobody says from which length on


class CauseTime(Struct, frozen=True):
    """Idle time of one cause."""

    cause: Cause
    time_ns: int


class TriggerTime(Struct, frozen=True):
    """Idle time that one thing set off."""

    trigger: Trigger
    call: str  # the call that emptied the queue; "" where none did
    gaps: int
    time_ns: int


class GapLengths(Struct, frozen=True):
    """Gaps of about one length."""

    name: str  # from where to where, as `1-5 us`
    gaps: int
    time_ns: int


class LongGap(Struct, frozen=True):
    """One gap, and what was around it."""

    start_ns: int  # from the run's zero, as `--time` takes it
    length_ns: int
    trigger: Trigger
    drained_by: str  # the call that emptied the queue; "" where none did
    largest_cause: Cause
    largest_cause_ns: int
    before: str | None  # the activity that ended last before it
    after: str | None  # the activity that ended it
    ranges: tuple[str, ...]  # around the call that launched the latter, outermost first
    tid: int | None  # the thread that made that call

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.length_ns


class GapSummary(Struct, frozen=True):
    """All gaps of one GPU. Causes have the most time first, the longest gaps are in the order of their length."""

    gpu: int
    by_cause: tuple[CauseTime, ...]
    by_trigger: tuple[TriggerTime, ...]
    by_length: tuple[GapLengths, ...]
    longest: tuple[LongGap, ...]
    least_ns: int | None  # the longest are all gaps of at least this length; None: the first LONGEST
    by_line: tuple[LinePlace, ...] = ()  # by the line that the host was at, where Python's stacks were sampled

    @property
    def idle_ns(self) -> int:
        return sum(cause.time_ns for cause in self.by_cause)

    @property
    def steady_idle_ns(self) -> int:
        return sum(trigger.time_ns for trigger in self.by_trigger)

    @property
    def gaps(self) -> int:
        return sum(bucket.gaps for bucket in self.by_length)


def gap_summary(trace: Trace, device: Device, least_ns: int | None = None) -> GapSummary:
    """Sum up one GPU's gaps, and describe the longest: all of at least `least_ns`, where that is given."""
    sums = device.ledger.gaps.by_cause.sums()
    return GapSummary(
        gpu=device.gpu,
        by_cause=tuple(CauseTime(*pair) for pair in sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))),
        by_trigger=tuple(
            TriggerTime(trigger, call, count, time) for (trigger, call), (time, count) in device.triggers.items()
        ),
        by_length=tuple(GapLengths(*bucket) for bucket in histogram(device.ledger.gaps)),
        longest=_longest(trace, device, least_ns),
        least_ns=least_ns,
        by_line=idle_lines(trace, device)[:MOST_LINES],
    )


def _longest(trace: Trace, device: Device, least_ns: int | None) -> tuple[LongGap, ...]:
    gaps, activities = device.ledger.gaps, device.work

    def name(activity: int) -> str | None:
        return trace.strings.text(int(activities.name[activity])) if activity >= 0 else None

    main_cause = gaps.by_cause.largest()
    count = LONGEST if least_ns is None else int(np.count_nonzero(gaps.length_ns >= least_ns))
    listed = largest(gaps.length_ns, count)
    around = ranges_around(trace, device.host.calls, gaps.call[listed])
    longest = []
    for gap, ranges in zip(listed.tolist(), around, strict=True):
        cause, call = CAUSES[main_cause[gap]], int(gaps.call[gap])
        longest.append(
            LongGap(
                start_ns=int(gaps.start_ns[gap]) - device.zero_ns,
                length_ns=int(gaps.length_ns[gap]),
                trigger=TRIGGERS[gaps.trigger[gap]],
                drained_by=gaps.draining[gaps.drained_by[gap]],
                largest_cause=cause,
                largest_cause_ns=int(gaps.by_cause.of(cause)[gap]),
                before=name(int(gaps.before[gap])),
                after=name(int(gaps.after[gap])),
                ranges=ranges,
                tid=int(device.host.calls.stored("tid")[call]) if call >= 0 else None,
            )
        )
    return tuple(longest)

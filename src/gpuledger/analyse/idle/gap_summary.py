"""One GPU's gaps summed up: a device in; idle time by cause, by trigger and by length, and single gaps, out.

Causes and lengths are of the whole window and sum to its idle time; triggers are of the steady steps.
"""

from __future__ import annotations

from typing import Annotated, Final

import numpy as np
from msgspec import Struct

from gpuledger.attribution.lines import idle_lines
from gpuledger.catalog.kernel_names import label
from gpuledger.ledger.causes import CAUSES, TRIGGERS, Cause, Trigger
from gpuledger.ledger.device import Device
from gpuledger.ledger.gaps import BUCKETS, histogram
from gpuledger.ledger.ranges import ranges_around
from gpuledger.messages import say
from gpuledger.rows import Gpu, Label, Row, Unit, share
from gpuledger.trace.model import Trace
from gpuledger.trace.statistics import largest

MOST_LINES: Final = 20  # those with the most time
_BOUNDS: Final = tuple(zip((0, *(end for _, end in BUCKETS if end)), (end for _, end in BUCKETS), strict=True))
LONGEST: Final = 20  # single gaps described where nobody says from which length on


class CauseRow(Row, frozen=True):
    """Idle time of the whole window by what the host, or the device, was doing."""

    gpu: Gpu
    cause: Annotated[Cause, Label(say("Cause"))]
    time_ns: Annotated[int, Label(say("Time"), Unit.NS, is_summed=True)]
    share: Annotated[float | None, Label(say("Share"), Unit.SHARE, meaning="of the idle time", is_summed=True)]


class TriggerRow(Row, frozen=True):
    """Idle time of the steady steps by what set it off."""

    gpu: Gpu
    trigger: Annotated[Trigger, Label(say("Trigger"), meaning="what to fix")]
    call: Annotated[str | None, Label(say("Call"), meaning="the call that emptied the queue; null: none did")]
    gaps: Annotated[int, Label(say("Gaps"), Unit.COUNT)]
    time_ns: Annotated[int, Label(say("Time"), Unit.NS)]
    share: Annotated[float | None, Label(say("Share"), Unit.SHARE, meaning="of the idle time in the steady steps")]


class GapLengthRow(Row, frozen=True):
    """Gaps of about one length."""

    gpu: Gpu
    length: Annotated[str, Label(say("Length"))]
    from_ns: int
    to_ns: int | None
    """They are shorter than this; null: there is no end."""
    gaps: Annotated[int, Label(say("Gaps"), Unit.COUNT)]
    time_ns: Annotated[int, Label(say("Time"), Unit.NS)]
    share: Annotated[float | None, Label(say("Share"), Unit.SHARE, meaning="of the idle time")]


class GapRow(Row, frozen=True):
    """One gap, and what was around it."""

    gpu: Gpu
    length_ns: Annotated[int, Label(say("Length"), Unit.NS)]
    start_ns: Annotated[int, Label(say("Start"), Unit.INSTANT_NS)]
    end_ns: Annotated[int, Label(say("End"), Unit.INSTANT_NS, detail=1)]
    trigger: Annotated[Trigger, Label(say("Trigger"))]
    call: Annotated[str | None, Label(say("Call"), detail=2, meaning="the call that emptied the queue")]
    cause: Annotated[Cause, Label(say("Largest cause"), detail=2)]
    cause_ns: Annotated[int, Label(say("Cause"), Unit.NS, detail=3, meaning="time of the largest cause")]
    before: Annotated[str | None, Label(say("Before"), detail=4, shorten=label, meaning="the activity that ended last")]
    ranges: Annotated[tuple[str, ...], Label(say("Range"), detail=5, meaning="around the launch, outermost first")]
    tid: Annotated[int | None, Label(say("Thread"), Unit.ID, detail=6, meaning="that launched what came after")]
    after: Annotated[str | None, Label(say("After"), shorten=label, meaning="the activity that ended the gap")]


class IdleLineRow(Row, frozen=True):
    """Idle time of the whole window by the line of the program that the host was at, by samples of Python's stacks."""

    gpu: Gpu
    line: Annotated[str, Label(say("Line"), meaning="file:line")]
    function: Annotated[str, Label(say("Function"))]
    into: Annotated[str | None, Label(say("Calls"), detail=1, meaning="the library's function that most of it is in")]
    time_ns: Annotated[int, Label(say("Time"), Unit.NS)]
    share: Annotated[float | None, Label(say("Share"), Unit.SHARE, meaning="of the idle time")]


class GapSummary(Struct, frozen=True):
    """All gaps of one GPU. Causes have the most time first, the longest gaps are in the order of their length."""

    gpu: int
    by_cause: tuple[CauseRow, ...]
    by_trigger: tuple[TriggerRow, ...]
    by_length: tuple[GapLengthRow, ...]
    longest: tuple[GapRow, ...]
    least_ns: int | None  # the longest are all gaps of at least this length; None: the first LONGEST
    by_line: tuple[IdleLineRow, ...] = ()  # where Python's stacks were sampled

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
    gpu, sums = device.gpu, device.ledger.gaps.by_cause.sums()
    idle_ns, steady_ns = sum(sums.values()), sum(time for time, _ in device.triggers.values())
    return GapSummary(
        gpu=gpu,
        by_cause=tuple(
            CauseRow(gpu, cause, time, share(time, idle_ns))
            for cause, time in sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))
        ),
        by_trigger=tuple(
            TriggerRow(gpu, trigger, call or None, count, time, share(time, steady_ns))
            for (trigger, call), (time, count) in device.triggers.items()
        ),
        by_length=tuple(
            GapLengthRow(gpu, name, from_ns, to_ns, gaps, time, share(time, idle_ns))
            for (name, gaps, time), (from_ns, to_ns) in zip(histogram(device.ledger.gaps), _BOUNDS, strict=True)
        ),
        longest=_longest(trace, device, least_ns),
        least_ns=least_ns,
        by_line=tuple(
            IdleLineRow(gpu, place.at, place.function, place.into or None, place.amount_ns, place.share)
            for place in idle_lines(trace, device)[:MOST_LINES]
        ),
    )


def _longest(trace: Trace, device: Device, least_ns: int | None) -> tuple[GapRow, ...]:
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
            GapRow(
                gpu=device.gpu,
                length_ns=int(gaps.length_ns[gap]),
                start_ns=int(gaps.start_ns[gap]) - device.zero_ns,
                end_ns=int(gaps.start_ns[gap] + gaps.length_ns[gap]) - device.zero_ns,
                trigger=TRIGGERS[gaps.trigger[gap]],
                call=gaps.draining[gaps.drained_by[gap]] or None,
                cause=cause,
                cause_ns=int(gaps.by_cause.of(cause)[gap]),
                before=name(int(gaps.before[gap])),
                after=name(int(gaps.after[gap])),
                ranges=ranges,
                tid=int(device.host.calls.stored("tid")[call]) if call >= 0 else None,
            )
        )
    return tuple(longest)

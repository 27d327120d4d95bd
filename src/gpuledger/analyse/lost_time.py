"""When a thread kept a GPU waiting: gaps in, the stretches of each launching thread out.

A gap is ended by work that some thread launched. What counts is what that thread did meanwhile, up to the return of
its launch: what comes after is not the host's. Of a gap that the program's own code set off, only the stretches in
which the thread ran such code count. Of a gap that the device itself set off, all counts, whatever the thread did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpuledger.ledger.causes import Cause, Trigger
from gpuledger.ledger.device import Device
from gpuledger.trace.columns import distinct
from gpuledger.trace.keys import Positions, RowsByKey
from gpuledger.trace.spans import Ints, Span, Spans, covered, total, union

_NOT_THE_HOSTS: Final = (Cause.DEVICE_WAIT, Cause.CONTEXT_SWITCH)
"""What ends these gaps had been launched in time."""


@dataclass(frozen=True, slots=True, eq=False)
class ThreadTime:
    """Stretches of one thread's time."""

    thread: int
    """As `ledger.ranges.thread` numbers it."""
    pid: int
    tid: int
    spans: Spans

    @property
    def ns(self) -> int:
        return total(self.spans)

    @property
    def longest(self) -> Span:
        """The longest of the stretches, the first of several."""
        return longest(self.spans)


@dataclass(frozen=True, slots=True, eq=False)
class LostTime:
    """What some gaps cost."""

    by_thread: tuple[ThreadTime, ...]
    """The stretches in which the GPU waited for each thread that ended some of the gaps, the most first."""
    waiting: tuple[ThreadTime, ...]
    """The parts of them in which the thread itself waited for another one."""
    gaps: Positions
    by_gap_ns: Ints
    """How much of the stretches lies in each of the gaps."""

    @property
    def ns(self) -> int:
        return whole_ns(self.by_thread)


def whole_ns(parts: Sequence[ThreadTime]) -> int:
    """The time of these together."""
    return sum(part.ns for part in parts)


def longest(spans: Spans) -> Span:
    """The longest of these, the first of several."""
    position = int((spans.end_ns - spans.start_ns).argmax())
    return Span(int(spans.start_ns[position]), int(spans.end_ns[position]))


def lost_time(device: Device, chosen: Positions, trigger: Trigger) -> LostTime:
    """What gaps with one trigger, by position, cost; those that no known call ended are left out."""
    gaps, host = device.ledger.gaps, device.host
    chosen = chosen[gaps.call[chosen] >= 0]
    numbers = host.thread_of_call[gaps.call[chosen]]
    by_thread, waiting = [], []
    by_gap = np.zeros(len(chosen), np.int64)
    for number, mine in RowsByKey.of(numbers):
        call = int(gaps.call[chosen[mine][0]])
        who = int(host.threads[number]), int(host.calls["pid"][call]), int(host.calls["tid"][call])
        spans = _late(device, chosen[mine], number, trigger)
        if len(spans):
            by_thread.append(ThreadTime(*who, spans))
            waiting.append(ThreadTime(*who, host.thread(number).waits_for_thread(spans)))
            by_gap[mine] = covered(spans, gaps.start_ns[chosen[mine]], gaps.end_ns[chosen[mine]])
    by_thread.sort(key=lambda part: (-part.ns, part.thread))
    return LostTime(tuple(by_thread), tuple(part for part in waiting if part.ns), chosen, by_gap)


def _late(device: Device, chosen: Positions, number: int, trigger: Trigger) -> Spans:
    """The stretches of gaps, all ended by one thread, that count."""
    gaps, host = device.ledger.gaps, device.host
    start, end = gaps.start_ns[chosen], gaps.end_ns[chosen]
    if trigger in _NOT_THE_HOSTS:
        return union(start, end)
    bound = "start_ns" if trigger is Cause.HOST_CODE else "end_ns"
    spans = union(start, np.clip(host.calls[bound][gaps.call[chosen]], start, end))
    return host.thread(number).own_code(spans) if trigger is Cause.HOST_CODE else spans


def waits_behind(device: Device, chosen: Positions) -> Positions:
    """The different calls, by position, that let the queue run dry before these gaps: one may leave many behind."""
    drainer = device.ledger.gaps.drainer[chosen]
    return distinct(drainer[drainer >= 0])

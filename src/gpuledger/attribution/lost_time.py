"""When a thread kept a GPU waiting: gaps in, the stretches of each launching thread out.

A gap is ended by work that some thread launched. What counts is what that thread did meanwhile, up to the return of
its launch: what comes after is not the host's. Of a gap that the program's own code set off, only the stretches in
which the thread ran such code count. Of a gap that the device itself set off, all counts, whatever the thread did.

When the host worked on the steady steps: a device in, a stretch of the host's time out.

Which thread worked while another one waited: stretches of time in, the busiest other thread out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.attribution.ranges import NamedNest
from gpuledger.catalog.calls import WAITS_FOR_THREAD, CallKind, call_kind
from gpuledger.ledger.activity import shortened
from gpuledger.ledger.causes import Cause, Trigger
from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import spans_of_time, thread
from gpuledger.trace.keys import Positions, RowsByKey, distinct
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, Span, Spans, covered, difference, either, intersection, total, union
from gpuledger.trace.tables import Rows, Table

_NOT_THE_HOSTS: Final = (Cause.DEVICE_WAIT, Cause.CONTEXT_SWITCH)  # what ends these gaps had been launched in time


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


def host_stretch(trace: Trace, device: Device) -> Span:
    """Calls and ranges that begin in it belong to the steady steps."""
    work, calls = device.work.of(device.gpu), device.host.calls
    work = work.where(work.launch >= 0)
    start_ns, call = work.start_ns, work.launch
    if device.steps is None or not len(call):
        return Span(min(device.steady.start_ns, _first(trace)), max(device.steady.end_ns, device.ledger.window.end_ns))
    earlier = start_ns < device.steady.start_ns
    later = start_ns >= device.steady.end_ns
    steady = call[~earlier & ~later]
    if not len(steady):
        return device.steady
    began = int(calls["start_ns"][steady].min())
    start = int(calls["end_ns"][call[earlier]].max()) if earlier.any() else _around(trace, device, steady, began)
    end = int(calls["start_ns"][call[later]].min()) if later.any() else device.steady.end_ns
    last = int(calls["end_ns"][steady].max())
    # streams that run out of order may turn the two around
    return Span(min(start, began), max(end, last)) if end <= start else Span(start, end)


def of_this_gpu(device: Device, rows: Rows) -> NDArray[np.bool_]:
    """Which rows are of the processes that use this GPU."""
    is_own: NDArray[np.bool_] = np.isin(rows["pid"], distinct(device.work.of(device.gpu).pid))
    return is_own


def begins_in(stretch: Span, rows: Rows) -> NDArray[np.bool_]:
    """Which rows begin in the stretch."""
    start = rows["start_ns"]
    inside: NDArray[np.bool_] = (start >= stretch.start_ns) & (start < stretch.end_ns)
    return inside


def _first(trace: Trace) -> int:
    """Where a window is the one step, everything recorded belongs to it."""
    span = trace.span
    return span.start_ns if isinstance(span, Span) else np.iinfo(np.int64).max


def _around(trace: Trace, device: Device, steady: NDArray[np.intp], began_ns: int) -> int:
    """Where the first step begins on the host: with the ranges around its first launch, up to a step before it."""
    calls = device.host.calls
    first = int(steady[int(calls["start_ns"][steady].argmin())])
    ranges = spans_of_time(trace)
    usual = (device.steady.end_ns - device.steady.start_ns) // device.step_count
    around = (
        (thread(ranges) == device.host.threads[device.host.thread_of_call[first]])
        & (ranges["start_ns"] <= began_ns)
        & (ranges["end_ns"] >= began_ns)
        & (ranges["start_ns"] >= began_ns - usual)
    )
    return int(ranges["start_ns"][around].min(initial=began_ns))


FEWEST_SAMPLES: Final = 3  # so many samples of a thread show that it was busy
MOSTLY: Final = 0.5  # a thread with ranges open for this share of the time says where the program was

LEAST_BUSY: Final = 0.2
"""A thread that nothing is known of for more than the rest of the time was not what the other one waited for."""


def busiest_thread(trace: Trace, waiting: ThreadTime) -> ThreadTime | None:
    """The other thread, of any process, that did the most meanwhile, and what it did of it; None where none shows."""
    return _most_sampled(trace, waiting) or _most_covered(trace, waiting)


def named_thread(ranges: NamedNest, outside: ThreadTime) -> ThreadTime | None:
    """The other thread of the process with ranges open for most of the time; None where none has that."""
    rows, best = _others(ranges.rows.where(ranges.rows["pid"] == outside.pid), outside), None
    for other, positions in RowsByKey.of(thread(rows)):
        mine = rows.at(positions)
        held = replace(outside, thread=other, tid=int(mine["tid"][0]), spans=intersection(outside.spans, _union(mine)))
        if held.ns >= MOSTLY * outside.ns and (best is None or held.ns > best.ns):
            best = held
    return best


def _most_sampled(trace: Trace, waiting: ThreadTime) -> ThreadTime | None:
    samples = _others(trace[Table.SAMPLES], waiting)
    number = np.searchsorted(waiting.spans.start_ns, samples["start_ns"], side="right") - 1
    samples = samples.where((number >= 0) & (samples["start_ns"] < waiting.spans.end_ns[np.maximum(number, 0)]))
    owner = thread(samples)
    counts = {other: len(positions) for other, positions in RowsByKey.of(owner)}
    busiest = max(counts, key=lambda other: (counts[other], -other), default=None)
    if busiest is None or counts[busiest] < FEWEST_SAMPLES:
        return None
    return _thread_time(samples, np.flatnonzero(owner == busiest), waiting)


def _most_covered(trace: Trace, waiting: ThreadTime) -> ThreadTime | None:
    """By ranges and calls; of other processes by ranges alone, as nobody knows what their calls wait for."""
    ranges, calls = (_others(trace[table], waiting) for table in (Table.RANGES, Table.CALLS))
    ranges = ranges.where(~ranges["open"])
    waits = trace.strings.each(calls.codes("name"), _waits, np.bool_) | (calls["pid"] != waiting.pid)
    by_range, by_call = RowsByKey.of(thread(ranges)), RowsByKey.of(thread(calls))
    best: ThreadTime | None = None
    for other in distinct(np.concatenate((by_range.keys, by_call.keys))).tolist():
        named, called = ranges.at(by_range.rows(other)), by_call.rows(other)
        working, idle = calls.at(called[~waits[called]]), calls.at(called[waits[called]])
        busy = intersection(waiting.spans, difference(either(_union(named), _union(working)), _union(idle)))
        if total(busy) >= LEAST_BUSY * waiting.ns and (best is None or total(busy) > best.ns):
            of_it = named if len(named) else working
            best = ThreadTime(other, int(of_it["pid"][0]), int(of_it["tid"][0]), busy)
    return best


def _union(rows: Rows) -> Spans:
    return union(rows["start_ns"], rows["end_ns"])


def _waits(call: str) -> bool:
    return bool(WAITS_FOR_THREAD.search(call)) or call_kind(shortened(call)) is CallKind.SYNC


def _thread_time(rows: Rows, mine: Positions, waiting: ThreadTime) -> ThreadTime:
    """The whole of the stretches as the time of the thread that these rows are of."""
    first = int(mine[0])
    return ThreadTime(int(thread(rows)[first]), int(rows["pid"][first]), int(rows["tid"][first]), waiting.spans)


def _others(rows: Rows, waiting: ThreadTime) -> Rows:
    """The rows of other threads that lie anywhere near the stretches."""
    near = Span(int(waiting.spans.start_ns[0]), int(waiting.spans.end_ns[-1]))
    return rows.where(
        (thread(rows) != waiting.thread) & (rows["start_ns"] < near.end_ns) & (rows["end_ns"] >= near.start_ns)
    )

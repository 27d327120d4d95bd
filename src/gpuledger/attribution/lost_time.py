"""When a thread kept a GPU waiting: gaps in, the stretches of each launching thread out.

A gap is ended by work that some thread launched. What counts is what that thread did meanwhile, up to the return of
its launch: what comes after is not the host's. Of a gap that the program's own code set off, only the stretches in
which the thread ran such code count. Of a gap that the device itself set off, all counts, whatever the thread did.

Also here: the stretch of the host's time that belongs to the steady steps, and which other thread was busy while one
waited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from gpuledger.attribution.ranges import NamedNest
from gpuledger.catalog.calls import WAITS_FOR_THREAD, CallKind, call_kind
from gpuledger.ledger.activity import short_function_name
from gpuledger.ledger.causes import Cause, Trigger
from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import spans_of_time, thread
from gpuledger.regex import regex
from gpuledger.trace.keys import Positions, RowsByKey, distinct, is_among
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, Span, Spans, covered, difference, either, holds, intersection, total, union
from gpuledger.trace.tables import Rows, Table

_NOT_THE_HOSTS: Final = (Cause.DEVICE_WAIT, Cause.CONTEXT_SWITCH)  # what ends these gaps had been launched in time


class ThreadTime(Struct, frozen=True, eq=False):
    """Stretches of one thread's time."""

    thread: int  # as `ledger.ranges.thread` numbers it
    pid: int
    tid: int
    spans: Spans

    @property
    def ns(self) -> int:
        return total(self.spans)

    @property
    def longest(self) -> Span:
        return longest(self.spans)


class LostTime(Struct, frozen=True, eq=False):
    """What some gaps cost."""

    by_thread: tuple[ThreadTime, ...]
    """The stretches in which the GPU waited for each thread that ended some of the gaps, the most first."""
    waiting: tuple[ThreadTime, ...]  # the parts of them in which the thread itself waited for another one
    gaps: Positions
    by_gap_ns: Ints  # how much of the stretches lies in each of the gaps

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
    by_thread, waiting = [], []
    by_gap = np.zeros(len(chosen), np.int64)
    for number, mine in RowsByKey.of(host.thread_of_call[gaps.call[chosen]]):
        call = gaps.call[chosen[mine]]
        who = int(host.threads[number]), int(host.calls["pid"][call[0]]), int(host.calls.stored("tid")[call[0]])
        start, end = (np.clip(edge[chosen[mine]], *device.steady) for edge in (gaps.start_ns, gaps.end_ns))
        is_code = trigger is Cause.HOST_CODE
        launched = end if trigger in _NOT_THE_HOSTS else host.calls["start_ns" if is_code else "end_ns"][call]
        spans = union(start, np.clip(launched, start, end))
        if is_code:
            spans = host.thread(number).own_code(spans)
        if len(spans):
            by_thread.append(ThreadTime(*who, spans))
            waiting.append(ThreadTime(*who, host.thread(number).waits_for_thread(spans)))
            by_gap[mine] = covered(spans, start, end)
    by_thread.sort(key=lambda part: (-part.ns, part.thread))
    return LostTime(tuple(by_thread), tuple(part for part in waiting if part.ns), chosen, by_gap)


def waits_behind(device: Device, chosen: Positions) -> Positions:
    """The different calls, by position, that emptied the queue before these gaps: one may be behind many."""
    drainer = device.ledger.gaps.drainer[chosen]
    return distinct(drainer[drainer >= 0])


def host_stretch(trace: Trace, device: Device) -> Span:
    """Calls and ranges that begin in it belong to the steady steps."""
    work, calls, steady_span = device.work.of(device.gpu), device.host.calls, device.steady
    work = work.where(work.launch >= 0)
    start_ns, call = work.start_ns, work.launch
    if device.steps is None or not len(call):  # where a window is the one step, all that was recorded belongs to it
        recorded = trace.span.start_ns if isinstance(trace.span, Span) else steady_span.start_ns
        return Span(min(steady_span.start_ns, recorded), max(steady_span.end_ns, device.ledger.window.end_ns))
    earlier, later = start_ns < steady_span.start_ns, start_ns >= steady_span.end_ns
    steady = call[~earlier & ~later]
    if not len(steady):
        return steady_span
    began = int(calls["start_ns"][steady].min())
    start = int(calls["end_ns"][call[earlier]].max()) if earlier.any() else _around(trace, device, steady, began)
    end = int(calls["start_ns"][call[later]].min()) if later.any() else steady_span.end_ns
    last = int(calls["end_ns"][steady].max())
    # streams that run out of order may turn the two around
    return Span(min(start, began), max(end, last)) if end <= start else Span(start, end)


def of_this_gpu(device: Device, rows: Rows) -> NDArray[np.bool_]:
    """Which rows are of the processes that use this GPU."""
    is_own: NDArray[np.bool_] = is_among(rows["pid"], distinct(device.work.of(device.gpu).pid))
    return is_own


def begins_in(stretch: Span, rows: Rows) -> NDArray[np.bool_]:
    """Which rows begin in the stretch."""
    start = rows["start_ns"]
    inside: NDArray[np.bool_] = (start >= stretch.start_ns) & (start < stretch.end_ns)
    return inside


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


_WAITING: Final = regex(
    r"\b(wait|acquire|join|get|select|poll|_poll|_?recv\w*|_?read|accept|_wait_for_tstate_lock)"
    r" \((python[\d.]+/)?(threading|queue|selectors|socket|multiprocessing/|concurrent/|asyncio/)"
)
"""The innermost frame of a thread of Python that waits for another."""
FEWEST_SAMPLES: Final = 3  # so many samples of a thread show that it was busy
MOSTLY: Final = 0.5  # what a thread did for this share of the time is what it did: waited, or was in a range or in none

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
    samples = samples.where(holds(waiting.spans, samples["start_ns"]))
    is_wait = np.zeros(len(trace.stacks) + 1, np.bool_)  # Python's are sampled even when blocked; the last is for -1
    for number in distinct(samples["stack"][samples["stack"] >= 0]).tolist():
        is_wait[number] = bool(_WAITING.search((trace.stacks.texts(number, trace.strings) or [""])[0]))
    samples = samples.where(~is_wait[samples["stack"]])
    owner = thread(samples)
    counts = {other: len(positions) for other, positions in RowsByKey.of(owner)}
    busiest = max(counts, key=lambda other: (counts[other], -other), default=None)
    if busiest is None or counts[busiest] < FEWEST_SAMPLES:
        return None
    first = int(np.flatnonzero(owner == busiest)[0])
    return ThreadTime(busiest, int(samples["pid"][first]), int(samples.stored("tid")[first]), waiting.spans)


def _most_covered(trace: Trace, waiting: ThreadTime) -> ThreadTime | None:
    """By ranges and calls; of other processes by ranges alone, as nobody knows what their calls wait for."""

    def waits(call: str) -> bool:
        return bool(WAITS_FOR_THREAD.search(call)) or call_kind(short_function_name(call)) is CallKind.SYNC

    ranges, calls = (_others(trace[table], waiting) for table in (Table.RANGES, Table.CALLS))
    ranges = ranges.where(~ranges["open"])
    is_wait = trace.strings.each(calls.codes("name"), waits, np.bool_) | (calls["pid"] != waiting.pid)
    by_range, by_call = RowsByKey.of(thread(ranges)), RowsByKey.of(thread(calls))
    best: ThreadTime | None = None
    for other in distinct(np.concatenate((by_range.keys, by_call.keys))).tolist():
        named, called = ranges.at(by_range.rows(other)), by_call.rows(other)
        working, idle = calls.at(called[~is_wait[called]]), calls.at(called[is_wait[called]])
        busy = intersection(waiting.spans, difference(either(_union(named), _union(working)), _union(idle)))
        if total(busy) >= LEAST_BUSY * waiting.ns and (best is None or total(busy) > best.ns):
            rows = named if len(named) else working
            best = ThreadTime(other, int(rows["pid"][0]), int(rows["tid"][0]), busy)
    return best


def _union(rows: Rows) -> Spans:
    return union(rows["start_ns"], rows["end_ns"])


def _others(rows: Rows, waiting: ThreadTime) -> Rows:
    """The rows of other threads that lie anywhere near the stretches."""
    start, end = waiting.spans.start_ns[0], waiting.spans.end_ns[-1]
    return rows.where((thread(rows) != waiting.thread) & (rows["start_ns"] < end) & (rows["end_ns"] >= start))

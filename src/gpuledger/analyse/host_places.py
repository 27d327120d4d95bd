"""Where host time was lost: where the host was meanwhile, not where the launch that ended the gap was made.

Three questions, each about lost time (see `lost_time`): which range, operator or function of the launching thread holds
it; which other thread held it, where the launching one only waited; and, of time lost after waits, where those were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpuledger.analyse.active_threads import busiest_thread, named_thread
from gpuledger.analyse.lost_time import LostTime, ThreadTime
from gpuledger.analyse.program_ranges import ProgramRanges
from gpuledger.analyse.range_places import RangePlace, held_by_ranges, outside_ranges, range_places
from gpuledger.analyse.stack_places import (
    StackPlace,
    calls_place,
    costliest_call,
    function_place,
    samples_place,
    stacks_place,
)
from gpuledger.catalog.call_kinds import CALL_KINDS, WAITS_FOR_THREAD
from gpuledger.ledger.calls import of_layers
from gpuledger.ledger.causes import Cause, Trigger
from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import innermost
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import Rows

MOSTLY: Final = 0.5
"""A thread that waited, or was in no range, for this share of the time was not the one that held it."""

_HOST_FUNCTION: Final = ("LaunchHostFunc", "StreamAddCallback")
"""Calls that queue a function of the host on a stream."""


@dataclass(frozen=True, slots=True)
class ThreadPlaces:
    """What held the time of one or several threads, as far as it was recorded."""

    pid: int
    tid: int
    """The thread with the most."""
    ranges: tuple[RangePlace, ...]
    """The place, and the largest part of it where the time parts there."""
    function: StackPlace | None
    """Of torch's Python functions."""
    stack: StackPlace | None
    """By the stacks of calls."""
    samples: tuple[StackPlace, ...]
    """By the stacks of samples, Python's and the processor's."""
    call: StackPlace | None
    """The function that the time was spent in, of calls of the kind that was asked for."""


def places(trace: Trace, ranges: ProgramRanges, parts: Sequence[ThreadTime], calls: Rows | None) -> ThreadPlaces:
    """Where these threads were, `calls` being those that may hold the time."""
    by_source = (samples_place(trace, source, parts) for source in ("python", "cpu"))
    return ThreadPlaces(
        pid=parts[0].pid,
        tid=parts[0].tid,
        ranges=range_places(ranges.named, parts),
        function=function_place(ranges.functions, parts),
        stack=calls_place(trace, parts),
        samples=tuple(sampled for sampled in by_source if sampled is not None),
        call=None if calls is None else costliest_call(calls, parts),
    )


def calls_behind(trace: Trace, device: Device, trigger: Trigger) -> Rows | None:
    """The calls that hold the host in gaps that calls set off; None for other triggers."""
    host = device.host
    if trigger in (Cause.OS, Cause.WAIT_THREAD):
        return of_layers(trace, "os")
    kinds = {kind.value: kind for kind in CALL_KINDS}
    return host.calls.where(host.are(kinds[trigger.value])) if trigger.value in kinds else None


def awaited_thread(trace: Trace, lost: LostTime) -> ThreadTime | None:
    """The thread that was busy while the launching one waited for another, for most of the time; None where none."""
    if not _waits_mostly(lost):
        return None
    return busiest_thread(trace, next(part for part in lost.waiting if part.thread == lost.by_thread[0].thread))


def program_thread(ranges: ProgramRanges, lost: LostTime) -> ThreadTime | None:
    """The thread whose ranges say where the program was while the launching one was in none, for most of the time.

    A thread that runs autograd's operators is in no range of the program's, which runs on another one.
    """
    first = lost.by_thread[0]
    outside = outside_ranges(ranges.named, first)
    if _waits_mostly(lost) or outside.ns < max(MOSTLY * first.ns, 1):
        return None
    return named_thread(ranges.named, outside)


def _waits_mostly(lost: LostTime) -> bool:
    """Whether the thread with the most of it waited for another one for most of that."""
    return any(
        part.thread == lost.by_thread[0].thread and part.ns >= MOSTLY * lost.by_thread[0].ns for part in lost.waiting
    )


def places_of_other(trace: Trace, ranges: ProgramRanges, part: ThreadTime) -> ThreadPlaces:
    """Where a thread was that others waited for: also the call of the system that it was in."""
    system = of_layers(trace, "os")
    waits = trace.strings.each(system.codes("name"), lambda name: bool(WAITS_FOR_THREAD.search(name)), np.bool_)
    return places(trace, ranges, (part,), system.where(~waits))


@dataclass(frozen=True, slots=True)
class WaitPlaces:
    """Where the waits were made that time was lost after."""

    path: tuple[str, ...]
    """The ranges around most of them, by the time lost after them; empty where no range was."""
    path_ns: int
    stack: StackPlace | None


def wait_places(trace: Trace, ranges: ProgramRanges, device: Device, lost: LostTime) -> WaitPlaces:
    """The ranges and the functions that hold the waits."""
    drainer = device.ledger.gaps.drainer[lost.gaps]
    waited = drainer >= 0
    calls, weight = device.host.calls.at(drainer[waited]), lost.by_gap_ns[waited]
    path, path_ns = held_by_ranges(ranges.named, innermost(ranges.named.rows, calls), weight)
    return WaitPlaces(path, path_ns, stacks_place(trace, calls["stack"], weight, lost.ns))


def launch_ranges(ranges: ProgramRanges, device: Device, lost: LostTime) -> tuple[tuple[str, ...], int]:
    """The ranges in which most of what ended the gaps was launched, and the time lost before it."""
    calls = device.host.calls.at(device.ledger.gaps.call[lost.gaps])
    return held_by_ranges(ranges.named, innermost(ranges.named.rows, calls), lost.by_gap_ns)


def host_function_ns(device: Device, lost: LostTime) -> tuple[str, int]:
    """The call that queued a function of the host between the launches around gaps, and the time of such gaps."""
    calls, gaps = device.host.calls, device.ledger.gaps
    is_queued = calls.strings.each(
        calls.codes("name"), lambda name: any(part in name for part in _HOST_FUNCTION), np.bool_
    )
    queued = calls.where(is_queued & np.isin(calls["pid"], [part.pid for part in lost.by_thread]))
    if not len(queued):
        return "", 0
    start = np.sort(queued["start_ns"])
    before = device.work.launch[np.maximum(gaps.before[lost.gaps], 0)]
    launched_before = np.where(before >= 0, calls["start_ns"][np.maximum(before, 0)], np.iinfo(np.int64).min)
    launched_after = calls["start_ns"][gaps.call[lost.gaps]]
    between = np.searchsorted(start, launched_after) > np.searchsorted(start, launched_before)
    return queued.texts("name")[0] or "", int(lost.by_gap_ns[between].sum())

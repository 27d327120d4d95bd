"""Where host time was lost: where the host was meanwhile, not where the launch that ended the gap was made.

Three questions, each about lost time (see `lost_time`): which range, operator or function of the launching thread holds
it; which other thread held it, where the launching one only waited; and, of time lost after waits, where those were.
Ranges tell by paths of names and the time that each path holds; recorded stacks tell by the function in them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gpuledger.attribution.lines import (
    LinePlace,
    function_line,
    heaviest_line,
    is_in_loader,
    own_frames,
    sampled_line,
)
from gpuledger.attribution.lost_time import (
    MOSTLY,
    LostTime,
    ThreadTime,
    busiest_thread,
    longest,
    named_thread,
    whole_ns,
)
from gpuledger.attribution.ranges import NamedNest, NamePaths, ProgramRanges
from gpuledger.catalog.calls import CALL_KINDS, WAITS_FOR_THREAD
from gpuledger.ledger.activity import Activities, calls_in_layers, short_function_name
from gpuledger.ledger.causes import Cause, Trigger
from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import innermost, thread
from gpuledger.messages import say
from gpuledger.regex import regex
from gpuledger.trace import sweep
from gpuledger.trace.keys import RowsByKey, distinct, group, is_among
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import (
    Ints,
    Span,
    Spans,
    covered,
    difference,
    holds,
    intersection,
    one_span,
    parents,
    total,
    union,
)
from gpuledger.trace.strings import torch_frame
from gpuledger.trace.tables import Rows, Table

GOES_ON: Final = 0.5
"""A range that holds this share of what the one around it holds is the place, rather than the one around it."""

LEAST_OF_ALL: Final = 0.2  # a path goes on only while it holds this share of the whole
_OUTSIDE: Final = -1  # the path of what lies in no range

_Sides = tuple[str | None, str | None]


class RangePlace(Struct, frozen=True):
    """The ranges of one path, and what they hold."""

    path: tuple[str, ...]  # outermost first; empty for what lies outside every range
    time_ns: int  # of the time asked about, with the ranges inside
    between: _Sides
    """The ranges next to most of the time, where that lies in none further inside; None: it begins or ends there."""
    span: Span  # the longest stretch of it
    thread: int  # the thread with most of it


def range_places(ranges: NamedNest, lost: Sequence[ThreadTime]) -> tuple[RangePlace, ...]:
    """Where most of the lost time lies; where it parts inside that, also the largest part. None without any range."""
    if not is_among(ranges.thread, [part.thread for part in lost]).any():
        return ()
    paths = _Paths(ranges, _overlap(ranges.rows, ranges.thread, lost), whole_ns(lost))
    path = paths.heaviest()
    places = [paths.place(path, lost)]
    if path != _OUTSIDE and (part_of_it := paths.largest_part(path)) is not None:
        places.append(paths.place(part_of_it, lost))
    return tuple(place for place in places if place is not None)


def _held_by_ranges(ranges: NamedNest, calls: Rows, weight_ns: Ints) -> tuple[tuple[str, ...], int]:
    """The path of ranges around these calls that holds most of their weight; and what it holds."""
    own = sweep.sums(innermost(ranges.rows, calls), weight_ns, len(ranges))
    paths = _Paths(ranges, ranges.nest.summed_up(own), int(weight_ns.sum()))
    path = paths.heaviest()
    return paths.names(path), paths.held_ns(path)


class _Paths:
    """Ranges put together by path of names, and the time that each path holds with what is inside."""

    def __init__(self, ranges: NamedNest, inclusive_ns: Ints, whole: int) -> None:
        self._ranges, self._whole_ns = ranges, whole
        holding = np.flatnonzero(inclusive_ns > 0)  # what encloses one that holds time holds it too
        place = np.full(len(ranges) + 1, -1, np.intp)  # the last is for row -1
        place[holding] = np.arange(len(holding))
        paths = NamePaths(place[ranges.nest.parent[holding]], ranges.name_of[holding])
        self._of_row: Final = np.full(len(ranges), _OUTSIDE, np.intp)
        self._of_row[holding] = paths.of_row[:-1]
        self._above: Final[list[int]] = paths.parent.tolist()
        self._name: Final[list[int]] = paths.name.tolist()
        self._held: Final[list[int]] = paths.sums(inclusive_ns[holding]).tolist()
        self._inner: Final[dict[int, list[int]]] = {}
        for path, above in enumerate(self._above):
            self._inner.setdefault(above, []).append(path)

    def held_ns(self, path: int) -> int:
        """What a path holds with what is inside; outside of every range, what no range holds."""
        if path != _OUTSIDE:
            return min(self._held[path], self._whole_ns)
        return max(self._whole_ns - sum(self._held[child] for child in self._inner.get(_OUTSIDE, ())), 0)

    def names(self, path: int) -> tuple[str, ...]:
        names: list[str] = []
        while path != _OUTSIDE:
            names.append(self._ranges.names[self._name[path]])
            path = self._above[path]
        return tuple(reversed(names))

    def heaviest(self) -> int:
        """The path to report. Where no outermost range has half, the largest counts if it has more than the outside."""
        child = self._largest_inside(_OUTSIDE)
        enough = max(LEAST_OF_ALL * self._whole_ns, min(GOES_ON * self._whole_ns, self.held_ns(_OUTSIDE)))
        return _OUTSIDE if child is None or self.held_ns(child) < enough else self._innermost(child)

    def largest_part(self, path: int) -> int | None:
        """Where the time parts inside a path: the largest part of it, if it is more than what lies in none."""
        child = self._largest_inside(path)
        own = self.held_ns(path) - sum(self.held_ns(inner) for inner in self._inner.get(path, ()))
        if child is None or self.held_ns(child) < max(LEAST_OF_ALL * self._whole_ns, own):
            return None
        return self._innermost(child)

    def _innermost(self, path: int) -> int:
        """From here on inwards while one range has half."""
        child = self._largest_inside(path)
        while child is not None and self.held_ns(child) >= max(
            GOES_ON * self.held_ns(path), LEAST_OF_ALL * self._whole_ns
        ):
            path, child = child, self._largest_inside(child)
        return path

    def _largest_inside(self, path: int) -> int | None:
        return max(self._inner.get(path, ()), key=lambda child: (self._held[child], -child), default=None)

    def place(self, path: int, lost: Sequence[ThreadTime]) -> RangePlace | None:
        """A path as a place, looked at on the thread with most of it."""
        is_outside, rows = path == _OUTSIDE, self._ranges.rows
        of_path = np.arange(len(rows)) if is_outside else np.flatnonzero(self._of_row == path)
        by_thread = RowsByKey.of(self._ranges.thread[of_path])

        def inside(part: ThreadTime) -> Spans:
            mine = of_path[by_thread.rows(part.thread)]
            return (difference if is_outside else intersection)(
                part.spans, union(rows["start_ns"][mine], rows["end_ns"][mine])
            )

        part, held = max(((part, inside(part)) for part in lost), key=lambda pair: total(pair[1]))
        if not len(held):
            return None
        between = self._between(path, part, held)
        return RangePlace(self.names(path), self.held_ns(path), between, longest(held), part.thread)

    def _between(self, path: int, part: ThreadTime, held: Spans) -> _Sides:
        """The ranges directly inside a path, on one thread, next to most of the time that lies in none of them."""
        rows, parent, mine = self._ranges.rows, self._ranges.nest.parent, self._ranges.thread == part.thread
        around = np.flatnonzero(mine & (self._of_row == path)) if path != _OUTSIDE else np.array([-1])
        inner = np.flatnonzero(mine & is_among(parent, around))
        inner = inner[np.argsort(rows["start_ns"][inner], kind="stable")]
        start, end = rows["start_ns"][inner], rows["end_ns"][inner]
        own = difference(held, union(start, end))
        if not len(inner) or 2 * total(own) < total(held):
            return None, None
        by_end = np.argsort(end, kind="stable")
        before = np.append(inner[by_end], -1)[np.searchsorted(end[by_end], own.start_ns, side="right") - 1]
        after = np.append(inner, -1)[np.searchsorted(start, own.end_ns, side="left")]
        if path != _OUTSIDE:  # only those in the same instance of the range, of several that follow each other
            order = around[np.argsort(rows["start_ns"][around], kind="stable")]
            number = np.searchsorted(rows["start_ns"][order], own.start_ns, side="right") - 1
            instance = order[np.maximum(number, 0)]
            before, after = (np.where(parent[side] == instance, side, -1) for side in (before, after))
        names = np.append(self._ranges.name_of, -1)
        first, pair = group(names[before], names[after])
        sums = np.bincount(pair, weights=own.end_ns - own.start_ns)
        most = int(sums.argmax())
        if sums[most] < GOES_ON * total(own):
            return None, None
        left, right = (int(names[side[first[most]]]) for side in (before, after))
        texts = (*self._ranges.names, None)
        return texts[left], texts[right]


_NO_PLACE: Final = regex(
    r"^(0x[0-9a-f]+$|\[|_?Py|cu[A-Z]|cuda[A-Z]|c10::|at::_ops::|std::|__|_IO_|_start$|main$|$)|\(<|::call\(|redispatch|lambda"
)
"""Frames that do not say where: unresolved, the interpreter's, CUDA's, the dispatcher's, the C library's."""

_OPERATOR: Final = regex(r"^at::_ops::(?P<name>\w+)::call\(")


class StackPlace(Struct, frozen=True):
    """A function, and how much of what was looked at is in it: nanoseconds, or samples."""

    name: str
    amount: int
    whole: int
    span: Span | None = None  # the longest stretch of it; None for samples

    @property
    def share(self) -> float:
        return self.amount / max(self.whole, 1)


def _calls_place(trace: Trace, lost: Sequence[ThreadTime]) -> StackPlace | None:
    """The place of the recorded stacks with the most of the lost time in calls; of all the lost time."""
    calls = trace[Table.CALLS]
    calls = calls.where(calls["stack"] >= 0)
    calls = calls.where(parents(calls["start_ns"], calls["end_ns"], thread(calls)) < 0)  # the driver's call lies inside
    return _heaviest_stack(trace, calls["stack"], _overlap(calls, thread(calls), lost), whole_ns(lost))


def _samples_place(trace: Trace, lost: Sequence[ThreadTime]) -> StackPlace | None:
    """The place of most of the processor's samples that were taken in the lost time."""
    samples = trace[Table.SAMPLES]
    samples = samples.where((samples["stack"] >= 0) & (samples.codes("source") == trace.strings.code("cpu")))
    inside, by_thread = np.zeros(len(samples), np.int64), RowsByKey.of(thread(samples))
    for part in lost:
        mine = by_thread.rows(part.thread)
        inside[mine] |= holds(part.spans, samples["start_ns"][mine])
    return _heaviest_stack(trace, samples["stack"], inside, int(inside.sum()))


def _function_place(functions: NamedNest, lost: Sequence[ThreadTime]) -> tuple[StackPlace | None, list[str]]:
    """The function among those that torch recorded that holds the lost time, and those around it, outermost first."""
    held = next(iter(range_places(functions, lost)), None)
    if held is None or not held.path:
        return None, []
    path = [torch_frame(function) for function in held.path]
    name = place(path[::-1])
    return None if name is None else StackPlace(name, held.time_ns, whole_ns(lost), held.span), path


def _costliest_call(calls: Rows, lost: Sequence[ThreadTime]) -> StackPlace | None:
    """The function of these calls that holds the most of the lost time."""
    owner = thread(calls)
    overlap = _overlap(calls, owner, lost)
    if not overlap.any():
        return None
    first, number = group(calls.codes("name"))
    sums = sweep.sums(number, overlap, len(first))
    most = int(sums.argmax())
    name = calls.strings.text(int(calls.codes("name")[first[most]]))
    rows = np.flatnonzero((number == most) & (overlap > 0))
    row = int(rows[overlap[rows].argmax()])
    spans = next(part.spans for part in lost if part.thread == owner[row])
    inside = intersection(spans, one_span(Span(int(calls["start_ns"][row]), int(calls["end_ns"][row]))))
    return StackPlace(short_function_name(name or "?"), int(sums[most]), whole_ns(lost), longest(inside))


def place(frames: list[str]) -> str | None:
    """What to call the place of a stack, the innermost frame first: the operator and the Python function around it."""
    operators = [match["name"] for frame in frames if (match := _OPERATOR.match(frame))]
    own = next(iter(own_frames(frames)), None)
    if own and is_in_loader(frames):
        return say("{function} in {around}", function=own, around="torch.utils.data.DataLoader")
    if operators and own:
        return say("{operator} from {function}", operator=f"aten::{operators[-1]}", function=own)
    if operators:
        return f"aten::{operators[-1]}"
    native = next((frame for frame in frames if not _NO_PLACE.search(frame)), None)
    if own or native is None:
        return own
    return re.split(r"[(<]", native.removeprefix("void "))[0] or native  # without parameters and template arguments


def _overlap(rows: Rows, owner: Ints, lost: Sequence[ThreadTime]) -> Ints:
    overlap, by_thread = np.zeros(len(rows), np.int64), RowsByKey.of(owner)
    for part in lost:
        mine = by_thread.rows(part.thread)
        overlap[mine] = covered(part.spans, rows["start_ns"][mine], rows["end_ns"][mine])
    return overlap


def _heaviest_stack(trace: Trace, stacks: Ints, amount: Ints, whole: int) -> StackPlace | None:
    """The place, of those that the stacks name, with the largest amount; None where none has any."""
    counts = np.flatnonzero(amount)
    first, number = group(stacks[counts])
    sums = sweep.sums(number, amount[counts], len(first))
    weights: Counter[str] = Counter()
    for stack, summed in zip(stacks[counts[first]].tolist(), sums.tolist(), strict=True):
        name = place(trace.stacks.texts(stack, trace.strings))
        if name is not None:
            weights[name] += summed
    if not weights:
        return None
    name, most = max(weights.items(), key=lambda item: (item[1], item[0]))
    return StackPlace(name, most, whole)


_HOST_FUNCTION: Final = ("LaunchHostFunc", "StreamAddCallback")  # calls that queue a function of the host on a stream


class ThreadPlaces(Struct, frozen=True):
    """What held the time of one or several threads, as far as it was recorded."""

    pid: int
    tid: int  # the thread with the most
    ranges: tuple[RangePlace, ...]  # the place, and the largest part of it where the time parts there
    function: StackPlace | None  # of torch's Python functions
    stack: StackPlace | None  # by the stacks of calls
    samples: StackPlace | None  # by the processor's samples
    call: StackPlace | None  # the function that the time was spent in, of calls of the kind that was asked for
    line: LinePlace | None  # by samples of Python's stacks, else by torch's Python functions


def places(trace: Trace, ranges: ProgramRanges, parts: Sequence[ThreadTime], calls: Rows | None) -> ThreadPlaces:
    """Where these threads were, `calls` being those that may hold the time."""
    function, path = _function_place(ranges.functions, parts)
    line = sampled_line(trace, parts)
    if line is None and function is not None:
        line = function_line(path, function.amount, parts)
    return ThreadPlaces(
        pid=parts[0].pid,
        tid=parts[0].tid,
        ranges=range_places(ranges.named, parts),
        function=function,
        stack=_calls_place(trace, parts),
        samples=_samples_place(trace, parts),
        call=None if calls is None else _costliest_call(calls, parts),
        line=line,
    )


def calls_behind(trace: Trace, device: Device, trigger: Trigger) -> Rows | None:
    """The calls that hold the host in gaps that calls set off; None for other triggers."""
    host = device.host
    if trigger in (Cause.OS, Cause.WAIT_THREAD):
        return calls_in_layers(trace, "os")
    kinds = {kind.value: kind for kind in CALL_KINDS}
    return host.calls.where(host.are(kinds[trigger.value])) if trigger.value in kinds else None


def awaited_thread(trace: Trace, lost: LostTime) -> ThreadTime | None:
    """The thread that was busy while the launching one waited for another, for most of the time; None where none."""
    if not _waits_mostly(lost):
        return None
    return busiest_thread(trace, next(part for part in lost.waiting if part.thread == lost.by_thread[0].thread))


def program_thread(ranges: ProgramRanges, lost: LostTime) -> ThreadTime | None:
    """The thread whose ranges say where the program was while the launching one was in none, for most of the time. A
    thread that runs autograd's operators is in no range of the program's, which runs on another one."""
    first = lost.by_thread[0]
    if _waits_mostly(lost):
        return None
    mine = ranges.named.rows.only().where(ranges.named.thread == first.thread)
    outside = replace(first, spans=difference(first.spans, union(mine["start_ns"], mine["end_ns"])))
    if outside.ns < max(MOSTLY * first.ns, 1):
        return None
    return named_thread(ranges.named, outside)


def _waits_mostly(lost: LostTime) -> bool:
    """Whether the thread with the most of it waited for another one for most of that."""
    return any(
        part.thread == lost.by_thread[0].thread and part.ns >= MOSTLY * lost.by_thread[0].ns for part in lost.waiting
    )


def places_of_other(trace: Trace, ranges: ProgramRanges, part: ThreadTime) -> ThreadPlaces:
    """Where a thread was that others waited for: also the call of the system that it was in."""
    system = calls_in_layers(trace, "os")
    waits = trace.strings.each(system.codes("name"), lambda name: bool(WAITS_FOR_THREAD.search(name)), np.bool_)
    return places(trace, ranges, (part,), system.where(~waits))


class WaitPlaces(Struct, frozen=True):
    """Where the waits were made that time was lost after."""

    path: tuple[str, ...]  # the ranges around most of them, by the time lost after them; empty where no range was
    path_ns: int
    stack: StackPlace | None
    line: LinePlace | None


def wait_places(trace: Trace, ranges: ProgramRanges, device: Device, lost: LostTime) -> WaitPlaces:
    """The ranges and the functions that hold the waits."""
    drainer = device.ledger.gaps.drainer[lost.gaps]
    waited = drainer >= 0
    calls, weight = device.host.calls.at(drainer[waited]), lost.by_gap_ns[waited]
    path, path_ns = _held_by_ranges(ranges.named, calls, weight)
    has_stack = calls["stack"] >= 0
    stacks, weight = calls["stack"][has_stack], weight[has_stack]
    held = _heaviest_stack(trace, stacks, weight, lost.ns)
    line = _sampled_waits(trace, device.host.calls.at(distinct(drainer[waited])))
    if line is None and held is not None:
        frames = [trace.stacks.texts(stack, trace.strings)[::-1] for stack in stacks.tolist()]
        line = heaviest_line(list(zip(frames, weight.tolist(), strict=True)), is_exact=trace.origin.tool == "nsys")
    return WaitPlaces(path, path_ns, held, line)


def _sampled_waits(trace: Trace, calls: Rows) -> LinePlace | None:
    """The line that most of these calls were made in, by the samples that were taken in them."""
    parts = [
        ThreadTime(number, int(calls["pid"][mine[0]]), int(calls.stored("tid")[mine[0]]), _spans(calls, mine))
        for number, mine in RowsByKey.of(thread(calls))
    ]
    return sampled_line(trace, parts) if parts else None


def _spans(rows: Rows, positions: Ints) -> Spans:
    return union(rows["start_ns"][positions], rows["end_ns"][positions])


def launch_ranges(ranges: ProgramRanges, device: Device, lost: LostTime) -> tuple[tuple[str, ...], int]:
    """The ranges in which most of what ended the gaps was launched, and the time lost before it."""
    calls = device.host.calls.at(device.ledger.gaps.call[lost.gaps])
    return _held_by_ranges(ranges.named, calls, lost.by_gap_ns)


def launch_ranges_of(ranges: ProgramRanges, work: Activities, calls: Rows) -> tuple[tuple[str, ...], float]:
    """The ranges in which most of this work was launched, and their share of its time."""
    time_ns, known = work.end_ns - work.start_ns, work.launch >= 0
    path, held_ns = _held_by_ranges(ranges.named, calls.at(work.launch[known]), time_ns[known])
    return path, held_ns / max(int(time_ns.sum()), 1)


def host_function_ns(device: Device, lost: LostTime) -> tuple[str, int]:
    """The call that queued a function of the host between the launches around gaps, and the time of such gaps."""
    calls, gaps = device.host.calls, device.ledger.gaps
    is_queued = calls.strings.each(
        calls.codes("name"), lambda name: any(part in name for part in _HOST_FUNCTION), np.bool_
    )
    queued = calls.where(is_queued & is_among(calls["pid"], [part.pid for part in lost.by_thread]))
    if not len(queued):
        return "", 0
    start = np.sort(queued["start_ns"])
    before = device.work.launch[np.maximum(gaps.before[lost.gaps], 0)]
    launched_before = np.where(before >= 0, calls["start_ns"][np.maximum(before, 0)], np.iinfo(np.int64).min)
    launched_after = calls["start_ns"][gaps.call[lost.gaps]]
    between = np.searchsorted(start, launched_after) > np.searchsorted(start, launched_before)
    return queued.texts("name")[0] or "", int(lost.by_gap_ns[between].sum())

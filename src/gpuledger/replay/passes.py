"""Passes over the events of a dependency graph: when everything would happen, what held it up, how late it may be.

Forwards, each event comes at the latest of what it needs. Backwards, from an event along what held it up (`PathWalk`),
or from limits to how late everything else may be (`set_limits`). Compiled (native/replay.c); the same in plain Python
where the package was installed without a compiler, or with GPULEDGER_NATIVE=0, and to say what those give.
"""

from __future__ import annotations

import os
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple, replace

from gpuledger.replay.graph import Bound, DependencyGraph, GraphEvent, OperationFlag, Times
from gpuledger.trace.spans import Ints

_PASSES: Final = ("forward", "slack", "path", "outer", "streams", "lags", "bound", "queue", "order")

try:
    from gpuledger.replay.native import _replay as native
except ImportError:  # installed where there was no compiler
    native = None  # type: ignore[assignment]

__all__ = ("is_compiled", "native")


def is_compiled() -> bool:
    """Whether the passes were compiled, all of them; GPULEDGER_NATIVE=0 leaves them out. A checkout that went on
    without being built again lacks the newer ones: plain Python gives the same."""
    return os.environ.get("GPULEDGER_NATIVE") != "0" and all(hasattr(native, name) for name in _PASSES)


_NONE: Final = -(1 << 62)


def replay_times(graph: DependencyGraph) -> Times:
    """When every call and operation begins and ends."""
    times = Times(*(column.copy() for column in astuple(graph.recorded)))
    if is_compiled():
        native.forward(*columns(graph), *astuple(times), graph.threads, graph.streams, graph.groups)
    else:
        _PlainPass(graph, times).run()
    return times


def columns(graph: DependencyGraph) -> tuple[Ints, ...]:
    """The graph as the compiled passes take it."""
    return (graph.order, *astuple(graph.calls), graph.wait, graph.wait_ns, *astuple(graph.operations))


class _PlainPass:
    """The pass, event by event. It says what the compiled one gives."""

    def __init__(self, graph: DependencyGraph, times: Times) -> None:
        self.graph, self.times = graph, times
        self.last_call = [-1] * graph.threads
        self.tail, self.tail_end, self.aside = ([start] * graph.streams for start in (-1, _NONE, _NONE))
        meets = (graph.operations.group >= 0) & (graph.operations.flags & OperationFlag.GONE == 0)
        self.missing = np.bincount(graph.operations.group[meets], minlength=graph.groups).tolist()
        self.members: list[list[int]] = [[] for _ in range(graph.groups)]

    def run(self) -> None:
        steps = (self._end_call, self._begin_call, self._start_operation)  # as GraphEvent numbers them
        for event in self.graph.order.tolist():
            steps[event & 3](event >> 2)

    def _begin_call(self, call: int) -> None:
        calls, times = self.graph.calls, self.times
        before, after = self.last_call[calls.thread[call]], int(calls.after[call])
        begin, by = int(calls.code_ns[call]) + (int(times.call_end[before]) if before >= 0 else 0), before
        if after >= 0:
            handed = int(times.call_end[after] + calls.after_ns[call])
            if handed > begin or before < 0:
                begin, by = handed, after
        self.last_call[calls.thread[call]] = call
        times.call_begin[call], times.begin_by[call], times.end_by[call] = begin, by, -1
        times.call_end[call] = begin + calls.duration_ns[call]
        if calls.queue[call] >= 0:
            self._wait(call, int(calls.queue[call]), int(calls.queue_ns[call]))

    def _end_call(self, call: int) -> None:
        calls, times, graph = self.graph.calls, self.times, self.graph
        times.call_end[call] = times.call_begin[call] + calls.duration_ns[call]
        for position in range(int(calls.first_wait[call]), int(calls.first_wait[call + 1])):
            self._wait(call, int(graph.wait[position]), int(graph.wait_ns[position]))

    def _wait(self, call: int, operation: int, lag: int) -> None:
        last = int(self.times.past[operation])  # up to which the operation's stream has come
        over = lag + (int(self.times.end[last]) if last >= 0 else _NONE)
        if over > self.times.call_end[call]:
            self.times.call_end[call], self.times.end_by[call] = over, last

    def _start_operation(self, operation: int) -> None:
        work, times = self.graph.operations, self.times
        stream, call, other, flags = (
            int(work.stream[operation]),
            int(work.call[operation]),
            int(work.other[operation]),
            int(work.flags[operation]),
        )
        start, bound, by = int(work.call_ns[operation]), Bound.AT_ITS_TIME, -1
        if call >= 0:
            counted_from = times.call_begin if flags & OperationFlag.FROM_BEGIN else times.call_end
            start, bound, by = start + int(counted_from[call]), Bound.BY_CALL, call
        if self.tail[stream] >= 0 and self.tail_end[stream] + work.stream_ns[operation] > start:
            start, bound, by = (
                int(self.tail_end[stream] + work.stream_ns[operation]),
                Bound.BY_STREAM,
                self.tail[stream],
            )
        if other >= 0 and times.end[other] + work.other_ns[operation] > start:
            start, bound, by = int(times.end[other] + work.other_ns[operation]), Bound.BY_OPERATION, other
        times.bound[operation], times.by[operation], times.start[operation] = bound, by, start
        if flags & OperationFlag.GONE:
            times.end[operation], times.past[operation] = start, self.tail[stream]
            return
        if flags & OperationFlag.ASIDE:
            times.start[operation] = start = max(start, self.aside[stream])
        group = int(work.group[operation])
        if group < 0:
            self._end_operation(operation, start + int(work.duration_ns[operation]))
            return
        self.members[group].append(operation)
        self.missing[group] -= 1
        if not self.missing[group]:
            met = max(int(times.start[member]) for member in self.members[group])
            latest = next(member for member in self.members[group] if times.start[member] == met)
            for member in reversed(self.members[group]):
                if times.start[member] < met:
                    times.bound[member], times.by[member] = Bound.BY_RENDEZVOUS, latest
                self._end_operation(member, met + int(work.duration_ns[member]))

    def _end_operation(self, operation: int, end: int) -> None:
        stream = int(self.graph.operations.stream[operation])
        self.times.end[operation] = end
        if self.graph.operations.flags[operation] & OperationFlag.ASIDE:
            self.aside[stream], self.times.past[operation] = end, operation
            return
        if end >= self.tail_end[stream]:
            self.tail[stream], self.tail_end[stream] = operation, end
        self.times.past[operation] = self.tail[stream]


NO_LIMIT: Final = 1 << 62  # the latest time of what nothing depends on


class HeldPath(Struct, frozen=True, eq=False):
    """What held an event up, from the last to the first; the segments follow one another without a gap. An operation
    holds the path from what it waited for; a call from the end of its thread's last one, with the code between; a call
    that waited for an operation (`CALL_ENDS`) from that one's end."""

    event: Ints
    start_ns: Ints
    end_ns: Ints


class Latest(Struct, frozen=True, eq=False):
    """The latest that each may begin and end for those that were limited beforehand to keep their limits."""

    call_begin: Ints
    call_end: Ints
    start: Ints
    end: Ints


def no_limits(graph: DependencyGraph) -> Latest:
    """Nothing has a limit yet."""
    calls, operations = len(graph.calls), len(graph.operations)
    return Latest(*(np.full(count, NO_LIMIT, np.int64) for count in (calls, calls, operations, operations)))


def set_limits(graph: DependencyGraph, latest: Latest) -> None:
    """Fill in how late everything may be for what has a limit to keep it."""
    if is_compiled():
        native.slack(*columns(graph), *astuple(latest), graph.threads, graph.streams, graph.groups)
    else:
        _PlainLimits(graph, latest).run()


class PathWalk:
    """Walks back in one replay, as often as is asked."""

    def __init__(self, graph: DependencyGraph, times: Times) -> None:
        self.graph, self.times = graph, _with_streams_aside(graph, times)
        room = 2 * len(graph.calls) + len(graph.operations)
        self._room = tuple(np.empty(room, np.int64) for _ in HeldPath.__struct_fields__)

    def back(self, event: int, from_ns: int, stop_ns: int) -> HeldPath:
        """From an event at its time to an instant, or to where nothing is known to have held it up."""
        if is_compiled():
            given = (*columns(self.graph), *astuple(self.times), *self._room)
            count = native.path(*given, event, from_ns, stop_ns)
            return HeldPath(*(column[:count].copy() for column in self._room))
        segments = _plain_path(self.graph, self.times, event, from_ns, stop_ns, len(self._room[0]))
        return HeldPath(*np.array(segments, np.int64).reshape(-1, 3).T)


def _with_streams_aside(graph: DependencyGraph, times: Times) -> Times:
    """Operations on a stream of their own wait for each other, which the forward pass does not note."""
    work = graph.operations
    rows = np.flatnonzero((work.flags & OperationFlag.ASIDE > 0) & (work.flags & OperationFlag.GONE == 0))
    if not len(rows):
        return times
    rows = rows[np.lexsort((times.end[rows], times.start[rows], work.stream[rows]))]
    before, after = rows[:-1], rows[1:]
    waits = (work.stream[before] == work.stream[after]) & (times.end[before] == times.start[after])
    by, bound = times.by.copy(), times.bound.copy()
    by[after[waits]], bound[after[waits]] = before[waits], Bound.BY_OPERATION
    return replace(times, by=by, bound=bound)


def _plain_path(
    graph: DependencyGraph, times: Times, event: int, now: int, stop: int, most: int
) -> list[tuple[int, int, int]]:
    segments: list[tuple[int, int, int]] = []
    while event >= 0 and now > stop and len(segments) < most:
        position, kind = event >> 2, GraphEvent(event & 3)
        by = int(times.by[position]) if kind is GraphEvent.OPERATION else -1
        if kind is GraphEvent.OPERATION and times.bound[position] == Bound.BY_RENDEZVOUS:
            over, following = int(times.start[by]), by << 2 | GraphEvent.OPERATION
        elif kind is GraphEvent.OPERATION:
            over, following = _held_by(graph, times, position, by)
        elif kind is GraphEvent.CALL_ENDS and times.end_by[position] >= 0:
            over = int(times.end[times.end_by[position]])
            following = int(times.end_by[position]) << 2 | GraphEvent.OPERATION
        else:
            event, before = position << 2 | GraphEvent.CALL_BEGINS, int(times.begin_by[position])
            over = int(times.call_end[before] if before >= 0 else times.call_begin[position])
            following = before << 2 | GraphEvent.CALL_ENDS if before >= 0 else -1
        over = min(over, now)
        segments.append((event, over, now))
        event, now = following, over
    return segments


def _held_by(graph: DependencyGraph, times: Times, operation: int, by: int) -> tuple[int, int]:
    """When what an operation's start is due to was over, and which event that was."""
    start, bound = int(times.start[operation]), times.bound[operation]
    if by < 0 or bound == Bound.AT_ITS_TIME:
        return start, -1
    if bound != Bound.BY_CALL:
        return min(int(times.end[by]), start), by << 2 | GraphEvent.OPERATION
    if graph.operations.flags[operation] & OperationFlag.FROM_BEGIN:
        return min(int(times.call_begin[by]), start), by << 2 | GraphEvent.CALL_BEGINS
    return min(int(times.call_end[by]), start), by << 2 | GraphEvent.CALL_ENDS


class _PlainLimits:
    """The pass from the last event to the first. It says what the compiled one gives."""

    def __init__(self, graph: DependencyGraph, latest: Latest) -> None:
        self.graph, self.latest = graph, latest
        self.thread = [NO_LIMIT] * graph.threads
        self.stream, self.aside = [NO_LIMIT] * graph.streams, [NO_LIMIT] * graph.streams
        self.reach = [NO_LIMIT] * len(graph.operations)
        self.met = [NO_LIMIT] * graph.groups
        self.members: list[list[int]] = [[] for _ in range(graph.groups)]

    def run(self) -> None:
        events = self.graph.order.tolist()
        work = self.graph.operations
        for event in events:
            operation = event >> 2
            meets = event & 3 == GraphEvent.OPERATION and work.group[operation] >= 0
            if meets and not work.flags[operation] & OperationFlag.GONE:
                self.members[work.group[operation]].append(operation)
        for event in reversed(events):
            if event & 3 == GraphEvent.OPERATION:
                self._operation(event >> 2)
            else:
                self._call(event >> 2, ends=event & 3 == GraphEvent.CALL_ENDS)

    def _operation(self, operation: int) -> None:
        work, latest = self.graph.operations, self.latest
        stream, group, flags = int(work.stream[operation]), int(work.group[operation]), int(work.flags[operation])
        gone, aside = bool(flags & OperationFlag.GONE), bool(flags & OperationFlag.ASIDE)
        if aside and not gone:
            _sooner(latest.end, operation, min(self.reach[operation], self.aside[stream]))
        else:
            _sooner(self.stream, stream, self.reach[operation])
            if not gone:
                _sooner(latest.end, operation, self.stream[stream])
        if gone:
            _sooner(latest.start, operation, int(latest.end[operation]))
        elif group < 0:
            _sooner(latest.start, operation, int(latest.end[operation] - work.duration_ns[operation]))
        else:
            if self.members[group][-1] == operation:
                self._meeting(group)
            _sooner(latest.start, operation, self.met[group])
        start = int(latest.start[operation])
        if aside and not gone:
            _sooner(self.aside, stream, start)
        _sooner(self.stream, stream, start - int(work.stream_ns[operation]))
        if work.call[operation] >= 0:
            of_call = latest.call_begin if flags & OperationFlag.FROM_BEGIN else latest.call_end
            _sooner(of_call, int(work.call[operation]), start - int(work.call_ns[operation]))
        if work.other[operation] >= 0:
            _sooner(latest.end, int(work.other[operation]), start - int(work.other_ns[operation]))

    def _meeting(self, group: int) -> None:
        work, latest = self.graph.operations, self.latest
        for member in self.members[group]:
            own = self.aside if work.flags[member] & OperationFlag.ASIDE else self.stream
            _sooner(latest.end, member, min(self.reach[member], own[int(work.stream[member])]))
            _sooner(self.met, group, int(latest.end[member] - work.duration_ns[member]))

    def _call(self, call: int, *, ends: bool) -> None:
        graph, calls, latest = self.graph, self.graph.calls, self.latest
        thread = int(calls.thread[call])
        _sooner(latest.call_end, call, self.thread[thread])
        end = int(latest.call_end[call])
        if ends:
            for position in range(int(calls.first_wait[call]), int(calls.first_wait[call + 1])):
                _sooner(self.reach, int(graph.wait[position]), end - int(graph.wait_ns[position]))
            return
        if calls.queue[call] >= 0 and not calls.blocks[call]:
            _sooner(self.reach, int(calls.queue[call]), end - int(calls.queue_ns[call]))
        _sooner(latest.call_begin, call, end - int(calls.duration_ns[call]))
        begin = int(latest.call_begin[call])
        self.thread[thread] = begin - int(calls.code_ns[call])
        if calls.after[call] >= 0:
            _sooner(latest.call_end, int(calls.after[call]), begin - int(calls.after_ns[call]))


def _sooner(latest: Ints | list[int], position: int, value: int) -> None:
    latest[position] = min(int(latest[position]), value)

"""When everything would happen: one pass over the events of a dependency graph, each at the latest of what it needs.

Compiled (native/replay.c); the same in plain Python where the package was installed without a compiler, or with
GPULEDGER_NATIVE=0, and to say what it gives.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Final

import numpy as np

from gpuledger.replay.graph import Bound, DependencyGraph, OperationFlag, Times
from gpuledger.replay.native_passes import is_compiled, native
from gpuledger.trace.spans import Ints

_NONE: Final = -(1 << 62)


def replayed(graph: DependencyGraph) -> Times:
    """When every call and operation begins and ends."""
    times = Times(*(getattr(graph.recorded, field.name).copy() for field in fields(Times)))
    if is_compiled():
        native.forward(*columns(graph), *table_columns(times), graph.threads, graph.streams, graph.groups)
    else:
        _PlainPass(graph, times).run()
    return times


def columns(graph: DependencyGraph) -> tuple[Ints, ...]:
    """The graph as the compiled passes take it."""
    return (graph.order, *table_columns(graph.calls), graph.wait, graph.wait_ns, *table_columns(graph.operations))


def table_columns(table: object) -> tuple[Ints, ...]:
    """The columns of a part of the graph, or of times."""
    return tuple(getattr(table, field.name) for field in fields(table))  # type: ignore[arg-type]


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
        steps = (self._ends, self._begins, self._starts)  # as GraphEvent numbers them
        for event in self.graph.order.tolist():
            steps[event & 3](event >> 2)

    def _reached(self, operation: int) -> int:
        """When the stream of an operation has come past it."""
        last = int(self.times.past[operation])
        return int(self.times.end[last]) if last >= 0 else _NONE

    def _begins(self, at: int) -> None:
        calls, times = self.graph.calls, self.times
        before, after = self.last_call[calls.thread[at]], int(calls.after[at])
        begin, by = int(calls.code_ns[at]) + (int(times.call_end[before]) if before >= 0 else 0), before
        if after >= 0:
            handed = int(times.call_end[after] + calls.after_ns[at])
            if handed > begin or before < 0:
                begin, by = handed, after
        self.last_call[calls.thread[at]] = at
        times.call_begin[at], times.begin_by[at], times.end_by[at] = begin, by, -1
        times.call_end[at] = begin + calls.duration_ns[at]
        if calls.queue[at] >= 0:
            self._waits(at, int(calls.queue[at]), int(calls.queue_ns[at]))

    def _ends(self, at: int) -> None:
        calls, times, graph = self.graph.calls, self.times, self.graph
        times.call_end[at] = times.call_begin[at] + calls.duration_ns[at]
        for position in range(int(calls.first_wait[at]), int(calls.first_wait[at + 1])):
            self._waits(at, int(graph.wait[position]), int(graph.wait_ns[position]))

    def _waits(self, at: int, operation: int, lag: int) -> None:
        over = self._reached(operation) + lag
        if over > self.times.call_end[at]:
            self.times.call_end[at], self.times.end_by[at] = over, self.times.past[operation]

    def _starts(self, at: int) -> None:
        work, times = self.graph.operations, self.times
        stream, call, other, flags = int(work.stream[at]), int(work.call[at]), int(work.other[at]), int(work.flags[at])
        start, bound, by = int(work.call_ns[at]), Bound.AT_ITS_TIME, -1
        if call >= 0:
            counted_from = times.call_begin if flags & OperationFlag.FROM_BEGIN else times.call_end
            start, bound, by = start + int(counted_from[call]), Bound.BY_CALL, call
        if self.tail[stream] >= 0 and self.tail_end[stream] + work.stream_ns[at] > start:
            start, bound, by = int(self.tail_end[stream] + work.stream_ns[at]), Bound.BY_STREAM, self.tail[stream]
        if other >= 0 and times.end[other] + work.other_ns[at] > start:
            start, bound, by = int(times.end[other] + work.other_ns[at]), Bound.BY_OPERATION, other
        times.bound[at], times.by[at], times.start[at] = bound, by, start
        if flags & OperationFlag.GONE:
            times.end[at], times.past[at] = start, self.tail[stream]
            return
        if flags & OperationFlag.ASIDE:
            times.start[at] = start = max(start, self.aside[stream])
        group = int(work.group[at])
        if group < 0:
            self._ends_at(at, start + int(work.duration_ns[at]))
            return
        self.members[group].append(at)
        self.missing[group] -= 1
        if not self.missing[group]:
            met = max(int(times.start[member]) for member in self.members[group])
            latest = next(member for member in self.members[group] if times.start[member] == met)
            for member in reversed(self.members[group]):
                if times.start[member] < met:
                    times.bound[member], times.by[member] = Bound.BY_RENDEZVOUS, latest
                self._ends_at(member, met + int(work.duration_ns[member]))

    def _ends_at(self, at: int, end: int) -> None:
        stream = int(self.graph.operations.stream[at])
        self.times.end[at] = end
        if self.graph.operations.flags[at] & OperationFlag.ASIDE:
            self.aside[stream], self.times.past[at] = end, at
            return
        if end >= self.tail_end[stream]:
            self.tail[stream], self.tail_end[stream] = at, end
        self.times.past[at] = self.tail[stream]

"""The chain that makes the steady stretch as long as it is: a scenario and its edits in, segments that sum to it out.

Back from the end of the stretch each segment is what the next one waited for: an operation that ran, what lay before
its start (launch latency, turnaround), a call, the host's own code before that, or the wake-up after a wait. A segment
has the line that the books would give it. The wait itself is never on the path: what it waited for is.

Slack is how much later something could end without the stretch ending later. On the chain it is 0.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.catalog.calls import CALL_KINDS
from gpuledger.ledger.activity import State
from gpuledger.ledger.books import COMM, COPY, Line
from gpuledger.ledger.causes import CAUSES, Cause
from gpuledger.ledger.gaps import LAUNCH_LATENCY_NS
from gpuledger.replay.edits import Edit, apply_edits
from gpuledger.replay.graph import Bound, DependencyGraph, GraphEvent, OperationFlag, Times
from gpuledger.replay.passes import NO_LIMIT, HeldPath, PathWalk, no_limits, replay_times, set_limits
from gpuledger.replay.scenario import AnchorKind, Scenario
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, RowsByKey
from gpuledger.trace.spans import Ints

FREE_NS: Final = NO_LIMIT >> 3  # the slack of what the end of the stretch does not depend on, or more


class PathPart(IntEnum):
    """What a segment is a part of."""

    RUNNING = 0  # an operation runs
    BEFORE_START = 1  # an operation could go, and has not started
    CALL = 2
    CODE = 3  # the host's own code before a call
    WAKE_UP = 4  # what a call waited for is over, and the call has not returned
    OUTSIDE = 5  # nothing is known to have held it up


class CriticalPath(Struct, frozen=True, eq=False):
    """Segments in the order of time, each of some length, in the time of the replay."""

    start_ns: Ints
    end_ns: Ints
    part: NDArray[np.int8]
    lines: tuple[Line, ...]
    line: NDArray[np.int16]  # position in `lines`
    operation: Ints  # position among the graph's operations; -1 for none
    call: Ints  # position among the graph's calls; -1 for none

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def length_ns(self) -> Ints:
        return self.end_ns - self.start_ns

    def by_line(self) -> dict[Line, tuple[int, int]]:
        """The time of each line, and of how many segments, the longest first; they sum to the stretch."""
        amount = np.bincount(self.line, minlength=len(self.lines))
        time = sweep.sums(self.line, self.length_ns, len(self.lines))
        sums = {line: (int(time[row]), int(amount[row])) for row, line in enumerate(self.lines) if amount[row]}
        return dict(sorted(sums.items(), key=lambda item: (-item[1][0], item[0])))

    def runs(self, operations: int) -> NDArray[np.bool_]:
        """Which of the graph's operations, so many, run on the path."""
        running = np.zeros(operations, np.bool_)
        running[self.operation[self.are(PathPart.RUNNING)]] = True
        return running

    def are(self, part: PathPart) -> NDArray[np.bool_]:
        of_part: NDArray[np.bool_] = self.part == part
        return of_part


class Slack(Struct, frozen=True, eq=False):
    """How much later each could end without the steady stretch ending later; from `FREE_NS` on it does not matter."""

    operation_ns: Ints
    call_ns: Ints


def critical_path(scenario: Scenario, *edits: Edit) -> CriticalPath:
    """Of the steady stretch, or the part of it that is replayed, as recorded or with these changes."""
    graph = apply_edits(scenario.graph, edits)
    times = replay_times(graph)
    walk = PathWalk(graph, times)
    pieces = _Pieces(scenario, graph, walk.times)
    for start_ns, end_ns in scenario.stretches:
        begins, anchor = scenario.instant(times, start_ns), scenario.anchor(end_ns)
        ends = anchor.in_replay(times)
        if anchor.kind is AnchorKind.CLOCK:
            pieces.add_outside(begins, ends, Cause.UNATTRIBUTED)
            continue
        from_ns = ends - anchor.after_ns
        kind = GraphEvent.CALL_BEGINS if anchor.kind is AnchorKind.CALL else GraphEvent.OPERATION
        path = walk.back(anchor.position << 2 | kind, from_ns, begins)
        pieces.add(path, begins)
        known_from = int(path.start_ns[-1]) if len(path.start_ns) else from_ns
        pieces.add_outside(begins, known_from, Cause.UNATTRIBUTED)
        pieces.add_outside(max(from_ns, begins), ends, Cause.TAIL)
    return pieces.joined()


def slack(scenario: Scenario, *edits: Edit) -> Slack:
    """Of all calls and operations."""
    graph = apply_edits(scenario.graph, edits)
    times = replay_times(graph)
    latest = no_limits(graph)
    columns = {AnchorKind.END: "end", AnchorKind.START: "start", AnchorKind.CALL: "call_begin"}
    for _, end_ns in scenario.stretches:
        anchor = scenario.anchor(end_ns)
        if anchor.kind in columns:
            limit = getattr(latest, columns[anchor.kind])
            limit[anchor.position] = anchor.in_replay(times) - anchor.after_ns
    set_limits(graph, latest)
    gone = graph.operations.flags & OperationFlag.GONE > 0
    return Slack(np.where(gone, NO_LIMIT, latest.end - times.end), latest.call_end - times.call_end)


class _Pieces:
    """Segments in the making: columns of start, end, part, line, operation and call."""

    def __init__(self, scenario: Scenario, graph: DependencyGraph, times: Times) -> None:
        self.host, self.work = scenario.part.host, scenario.part.work
        self.graph, self.times, self.recorded = graph, times, scenario.graph.recorded
        causes = [Line.of_cause(cause) for cause in CAUSES]
        families = [Line.of_family(family) for family in self.work.families]
        self.lines = (*causes, COMM, COPY, *families)
        self.cause_of_kind = np.array([CAUSES.index(Cause[kind.name]) for kind in CALL_KINDS], np.int64)
        self.columns: list[tuple[Ints, ...]] = []

    def add(self, path: HeldPath, begins: int) -> None:
        """All segments of a path, as far as they lie after an instant."""
        kept = len(self.columns)
        kind, position = path.event & 3, path.event >> 2
        for event, put in (
            (GraphEvent.OPERATION, self._operations),
            (GraphEvent.CALL_BEGINS, self._calls),
        ):
            mine = kind == event
            put(position[mine], path.start_ns[mine], path.end_ns[mine])
        wakes = kind == GraphEvent.CALL_ENDS
        line = self._call_line(position[wakes])
        self._put(path.start_ns[wakes], path.end_ns[wakes], PathPart.WAKE_UP, line, -1, position[wakes])
        self.columns[kept:] = [
            (np.maximum(start, begins), np.maximum(end, begins), *rest) for start, end, *rest in self.columns[kept:]
        ]

    def add_outside(self, start_ns: int, end_ns: int, cause: Cause) -> None:
        """Time of which nothing is known, or after the last work."""
        self._put(np.array([start_ns]), np.array([end_ns]), PathPart.OUTSIDE, CAUSES.index(cause), -1, -1)

    def joined(self) -> CriticalPath:
        """All of them, in order, without those of no length."""
        columns = [np.concatenate(parts) for parts in zip(*self.columns, strict=True)] or [np.empty(0, np.int64)] * 6
        kept = np.flatnonzero(columns[1] > columns[0])
        kept = kept[np.argsort(columns[0][kept], kind="stable")]
        start, end, part, line, operation, call = (column[kept] for column in columns)
        return CriticalPath(start, end, part.astype(np.int8), self.lines, line.astype(np.int16), operation, call)

    def _put(
        self, start: Ints, end: Ints, part: PathPart, line: Ints | int, operation: Ints | int, call: Ints | int
    ) -> None:
        self.columns.append(
            tuple(np.broadcast_to(value, len(start)) for value in (start, end, part, line, operation, call))
        )

    def _operations(self, operation: Positions, start: Ints, end: Ints) -> None:
        times, work = self.times, self.work
        began = np.clip(times.start[operation], start, end)
        by_call = np.where(times.bound[operation] == Bound.BY_CALL, times.by[operation], -1)
        lag_line = self._lag_line(operation, began - start)
        self._put(start, began, PathPart.BEFORE_START, lag_line, operation, by_call)
        line = work.family[operation].astype(np.int64) + self.lines.index(COPY) + 1
        for state, exposed in ((State.COMM, COMM), (State.COPY, COPY)):
            line[work.state[operation] == state] = self.lines.index(exposed)
        self._put(began, end, PathPart.RUNNING, line, operation, -1)

    def _lag_line(self, operation: Positions, lag: Ints) -> Ints:
        """What lies between an operation and what it waited for."""
        times, work = self.times, self.work
        by_call, by = times.bound[operation] == Bound.BY_CALL, np.maximum(times.by[operation], 0)
        in_graph = ~by_call & (work.graph_node[operation] >= 0)
        if in_graph.any():
            in_graph &= work.launch[np.minimum(by, len(work) - 1)] == work.launch[operation]
        inside = by_call & (self.graph.operations.flags[operation] & OperationFlag.FROM_BEGIN > 0)
        causes = (
            (inside & (work.state[operation] == State.COPY), Cause.COPY_CALL),
            (in_graph, Cause.GRAPH),
            (lag > LAUNCH_LATENCY_NS, Cause.DEVICE_WAIT),
            (by_call, Cause.LAUNCH_LATENCY),
        )
        conditions, of_cause = zip(*((mask, CAUSES.index(cause)) for mask, cause in causes), strict=True)
        line: Ints = np.select(conditions, of_cause, CAUSES.index(Cause.TURNAROUND))
        in_call = inside & ~conditions[0]
        line[in_call] = self._call_line(by[in_call])
        return line

    def _call_line(self, call: Positions) -> Ints:
        line: Ints = self.cause_of_kind[self.host.kinds[self.graph.call_row[call]]]
        return line

    def _calls(self, call: Positions, start: Ints, end: Ints) -> None:
        """Calls, and before them the host's own code by cause: of what an edit leaves, each cause keeps its share."""
        called = np.clip(self.times.call_begin[call], start, end)
        self._put(called, end, PathPart.CALL, self._call_line(call), -1, call)
        before, begin = self.times.begin_by[call], self.recorded.call_begin[call]
        ended = np.where(before >= 0, np.minimum(self.recorded.call_end[np.maximum(before, 0)], begin), begin)
        amounts = {Cause.HOST_CODE: np.zeros(len(call), np.int64)}
        for number, mine in RowsByKey.of(self.graph.calls.thread[call]):
            for cause, amount in self.host.thread(number).split(ended[mine], begin[mine]).items():
                if amount.any():
                    amounts.setdefault(cause, np.zeros(len(call), np.int64))[mine] = amount
        till = start
        for cause, amount in _scale(amounts, called - start).items():
            self._put(till, till + amount, PathPart.CODE, CAUSES.index(cause), -1, call)
            till = till + amount


def _scale(amounts: dict[Cause, Ints], length: Ints) -> dict[Cause, Ints]:
    """Amounts in the same proportion that sum to other lengths; the largest takes what is left by rounding."""
    whole = sum(amounts.values(), np.zeros(len(length), np.int64))
    changed = np.flatnonzero(whole != length)
    if not len(changed):
        return amounts
    share = length[changed] / np.maximum(whole[changed], 1)
    for amount in amounts.values():
        amount[changed] = np.floor(amount[changed] * share).astype(np.int64)
    left = length - sum(amounts.values(), np.zeros(len(length), np.int64))
    largest = np.argmax([amount[changed] for amount in amounts.values()], axis=0)
    for number, amount in enumerate(amounts.values()):
        amount[changed] += np.where(largest == number, left[changed], 0)
    return amounts

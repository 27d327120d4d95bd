"""What operations wait for besides their call and their stream, and how late they began for reasons nobody recorded.

An operation that began later than its call and its stream explain waited for an event of another stream, in a graph
for the end of another branch, on a GPU of several processes for its turn. Where a host function, or an event of work
that was not recorded, stood in the stream, the profile shows nothing but the delay: that is an input, as host code is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from gpuledger.ledger.activity import Activities
from gpuledger.ledger.host import Host
from gpuledger.replay.events import WAITS, EventEdges
from gpuledger.replay.graph import NEVER
from gpuledger.replay.outer_calls import OuterCalls
from gpuledger.replay.stream_order import StreamOrder
from gpuledger.trace import keys
from gpuledger.trace.columns import distinct
from gpuledger.trace.keys import Positions, RowsByKey
from gpuledger.trace.spans import Ints

UNEXPLAINED_NS: Final = 3_000
"""An operation that begins by so much later than its call and its stream explain waited for something else."""

AT_ONCE_NS: Final = 10_000
"""So soon after an event is over goes on who waits for it."""

BY_EVENT: Final = -1
BY_PROCESS: Final = -2
"""Keys of usual lags; a node of a graph is its own."""

_HOST_FUNCTION: Final = re.compile(r"LaunchHostFunc|StreamAddCallback")
_UNSEEN: Final = re.compile(rf"{WAITS.pattern}|StreamWaitValue|WaitExternalSemaphore")


@dataclass(frozen=True, slots=True, eq=False)
class StallingCalls:
    """Calls that make a stream stand still without an operation that would show it: by thread, then time."""

    thread: Ints
    """The thread of each call, times 2^40."""
    host_function: Ints
    unseen: Ints
    """Waits for what may not have been recorded."""

    @classmethod
    def of(cls, host: Host, outer: OuterCalls) -> Self:
        """Those among all calls."""
        thread = outer.thread.astype(np.int64) << 40
        places = [np.flatnonzero(outer.named(host, pattern)) for pattern in (_HOST_FUNCTION, _UNSEEN)]
        return cls(thread, *(np.sort(thread[rows] + rows) for rows in places))

    def between(self, chosen: Ints, after: Ints, before: Ints) -> NDArray[np.bool_]:
        """Whether the thread of the call `before` made one of the chosen calls since `after`."""
        if not len(chosen):
            return np.zeros(len(before), np.bool_)
        thread = self.thread[before]
        first, last = (np.searchsorted(chosen, thread + calls) for calls in (after, before))
        between: NDArray[np.bool_] = (before >= 0) & (last > first)
        return between


@dataclass(frozen=True, slots=True, eq=False)
class Elsewhere:
    """Columns as long as the operations."""

    other: Ints
    """The operation that it waits for; -1 for none."""
    lag_ns: Ints
    """From that one's end to its start, as recorded."""
    key: Ints
    """What kind of wait it is: those of one key have one usual lag."""
    binds: NDArray[np.bool_]
    """Whether it began when it did because of that one."""
    keeps: NDArray[np.bool_]
    """Whether its delay is an input."""


def elsewhere(
    work: Activities,
    launch: Ints,
    streams: StreamOrder,
    events: EventEdges,
    stalling: StallingCalls,
    due: Ints,
    branches: NDArray[np.bool_],
    shared: NDArray[np.bool_],
) -> Elsewhere:
    """`due`: how long before its start each was due by its call and stream; `branches` overlap their stream.

    `shared` ran on a GPU of several processes.
    """
    finder = _Elsewhere(work, launch, streams, due)
    late = np.flatnonzero((due < -UNEXPLAINED_NS) & (due > NEVER // 2) | branches)
    finder.by_event(events)
    finder.unlaunched()
    if len(late):
        finder.by_branch(late)
        unexplained = late[~finder.binds[late] & ~branches[late]]
        finder.by_stream(unexplained)
        finder.by_process(unexplained, shared)
        finder.stalled(late, stalling, shared)
    return Elsewhere(finder.other, finder.lag, finder.key, finder.binds, finder.keeps)


class _Elsewhere:
    """The answer in the making."""

    def __init__(self, work: Activities, launch: Ints, streams: StreamOrder, due: Ints) -> None:
        self.work, self.launch, self.streams, self.due = work, launch, streams, due
        count = len(work)
        self.other, self.lag, self.key = (
            np.full(count, -1, np.int64),
            np.zeros(count, np.int64),
            np.zeros(count, np.int64),
        )
        self.binds, self.keeps = np.zeros(count, np.bool_), np.zeros(count, np.bool_)

    def _set(self, rows: Positions, source: Positions, key: Ints | int) -> None:
        self.other[rows], self.key[rows], self.binds[rows] = source, key, True
        self.lag[rows] = self.work.start_ns[rows] - self.work.end_ns[source]

    def by_event(self, events: EventEdges) -> None:
        """Events hold an operation up if they were over after it was due, and else if a change makes them."""
        self._set(events.operation, events.source, BY_EVENT)
        at_once = self.lag[events.operation] < AT_ONCE_NS
        self.binds[events.operation] = at_once & self._explains(events.operation, events.source)

    def _explains(self, rows: Positions, source: Positions) -> NDArray[np.bool_]:
        """Whether these were over after the others were due; a kernel may begin as the last of another drains."""
        since = self.work.start_ns[rows] - self.work.end_ns[source]
        explains: NDArray[np.bool_] = (self.due[rows] < -UNEXPLAINED_NS) & (since < -self.due[rows])
        return explains & (since >= -UNEXPLAINED_NS) & (self.work.start_ns[source] < self.work.start_ns[rows])

    def by_branch(self, late: Positions) -> None:
        """In a graph the last node of the same launch that had ended."""
        late = late[(self.work.graph_node[late] >= 0) & (self.launch[late] >= 0)]
        if not len(late):
            return
        nodes = np.flatnonzero((self.work.graph_node >= 0) & (self.launch >= 0))
        nodes = nodes[np.lexsort((self.work.end_ns[nodes], self.launch[nodes]))]
        launch, end = self.launch[nodes], self.work.end_ns[nodes]
        place = keys.search(launch, end, self.launch[late], self.work.start_ns[late], side="right") - 1
        last = nodes[np.maximum(place, 0)]
        there = (place >= 0) & (self.launch[last] == self.launch[late])
        self._set(late[there], last[there], self.work.graph_node[late[there]])

    def by_stream(self, late: Positions) -> None:
        """The last operation of the process that had ended, if it is of another stream."""
        by_process = RowsByKey.of(self.work.pid)
        for pid, mine in RowsByKey.of(self.work.pid[late]):
            self._by_last(late[mine], by_process.rows(pid), BY_EVENT)

    def unlaunched(self) -> None:
        """What no call launched and nothing precedes in its stream follows the last that had ended on its GPU."""
        alone = np.flatnonzero((self.launch < 0) & (self.streams.before < 0) & ~self.binds)
        for gpu in distinct(self.work.gpu[alone]).tolist() if len(alone) else ():
            mine, among = alone[self.work.gpu[alone] == gpu], self.work.on(gpu)
            by_end = among[np.argsort(self.work.end_ns[among], kind="stable")]
            place = np.searchsorted(self.work.end_ns[by_end], self.work.start_ns[mine], side="right") - 1
            self._set(mine[place >= 0], by_end[place[place >= 0]], BY_EVENT)
            self.keeps[mine] = True

    def by_process(self, late: Positions, shared: NDArray[np.bool_]) -> None:
        """The last operation of another process on the same GPU."""
        late = late[shared[late] & ~self.binds[late]]
        for gpu in distinct(self.work.gpu[late]).tolist() if len(late) else ():
            self._by_last(late[self.work.gpu[late] == gpu], self.work.on(gpu), BY_PROCESS)

    def _by_last(self, late: Positions, among: Positions, key: int) -> None:
        by_end = among[np.argsort(self.work.end_ns[among], kind="stable")]
        end, start = self.work.end_ns[by_end], self.work.start_ns[late]
        place = np.searchsorted(end, start + UNEXPLAINED_NS, side="right") - 1
        is_later = self.work.start_ns[by_end[np.maximum(place, 0)]] >= start  # a short one has itself ended by then
        place = np.where(is_later, np.searchsorted(end, start, side="left") - 1, place)
        last = by_end[np.maximum(place, 0)]
        explains = (place >= 0) & (self.streams.stream[last] != self.streams.stream[late])
        explains &= self._explains(late, last)
        self._set(late[explains], last[explains], key)

    def stalled(self, late: Positions, stalling: StallingCalls, shared: NDArray[np.bool_]) -> None:
        """Delays that are inputs.

        Those behind a host function; those behind an event that no recorded operation explains; the first of each
        stream, which may wait for what was launched before the recording; turns on a GPU that processes share.
        """
        before = self.streams.before[late]
        source = np.where(self.binds[late], self.other[late], before)
        since = np.where(source >= 0, self.launch[source], -1)
        unexplained = ~self.binds[late]
        keeps = unexplained & (before < 0) | shared[late] & (self.key[late] != BY_PROCESS)
        keeps |= stalling.between(stalling.host_function, since, self.launch[late])
        self.keeps[late] = keeps | unexplained & stalling.between(stalling.unseen, since, self.launch[late])

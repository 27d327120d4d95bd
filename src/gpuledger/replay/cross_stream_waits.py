"""What operations wait for besides their call and their stream, and how late they began for reasons nobody recorded.

An operation that began later than its call and its stream explain waited for an event of another stream, in a graph
for the end of another branch, on a GPU of several processes for its turn. Where a host function, or an event of work
that was not recorded, stood in the stream, the profile shows nothing but the delay: that is an input, as host code is.
A collective's kernels on several GPUs meet: each ends its transfer after the last has begun (`with_rendezvous`).
"""

from __future__ import annotations

import re
from typing import Final, Self

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from gpuledger.ledger.activity import Activities, record_of_call
from gpuledger.ledger.host import Host
from gpuledger.replay.graph import NEVER, DependencyGraph
from gpuledger.replay.program_order import OuterCalls, StreamOrder, streams_by_process
from gpuledger.trace.keys import Positions, RowsByKey, distinct, group, search
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, furthest
from gpuledger.trace.sweep import fold
from gpuledger.trace.tables import Table

RECORDS: Final = re.compile(r"EventRecord")
WAITS: Final = re.compile(r"StreamWaitEvent")


def event_edges(
    trace: Trace, host: Host, outer: OuterCalls, work: Activities, launch: Ints, streams: StreamOrder
) -> tuple[Positions, Positions]:
    """Operations, and the one of another stream whose event each waits for; of two for one operation the later is last.

    Those that the order of the calls tells and the times do not contradict.
    """
    waiting, recording = (np.flatnonzero(outer.named(host, pattern)) for pattern in (WAITS, RECORDS))
    if not len(waiting) or not len(recording) or len(streams.by_stream) < 2 or not (launch >= 0).any():
        return np.empty(0, np.intp), np.empty(0, np.intp)
    record = np.full(len(waiting), -1, np.intp)  # the last one before each wait on its thread
    by_thread = RowsByKey.of(outer.thread[recording])
    for number, mine in RowsByKey.of(outer.thread[waiting]):
        own = recording[by_thread.rows(number)]
        record[mine] = np.append(own, -1)[np.searchsorted(own, waiting[mine]) - 1]
    waiting, record = waiting[record >= 0], record[record >= 0]
    finder = _Events(outer, work, launch, streams)
    stream = np.full(len(waiting), -1, np.int64)  # that CUPTI says each of these calls makes wait
    if len(syncs := trace[Table.SYNCS]):
        sync = record_of_call(host.calls.only("pid", "correlation").at(outer.row[waiting]), syncs)
        stream[sync >= 0] = syncs["stream"][sync[sync >= 0]]
    operation = finder.waiting_operation(waiting, stream)
    source = finder.recorded_operation(record, operation)
    possible = (operation >= 0) & (source >= 0) & (streams.stream[operation] != streams.stream[source])
    possible &= (work.pid[operation] == work.pid[source]) & (work.end_ns[source] <= work.start_ns[operation])
    operation, source = operation[possible], source[possible]
    order = np.argsort(work.end_ns[source], kind="stable")
    return operation[order], source[order]


class _Events:
    """What was launched before and after calls, by thread and by stream."""

    def __init__(self, outer: OuterCalls, work: Activities, launch: Ints, streams: StreamOrder) -> None:
        self.outer, self.work, self.launch, self.streams = outer, work, launch, streams
        launched = np.flatnonzero(launch >= 0)
        key = self._key(launch[launched])
        order = np.argsort(key, kind="stable")
        self.launched, self.key = launched[order], key[order]

    def _key(self, call: Ints) -> Ints:
        return (self.outer.thread[call].astype(np.int64) << 40) + call

    def waiting_operation(self, waiting: Positions, stream: Ints) -> Positions:
        """The first operation launched after each wait, in its stream if that is known, else by its thread; or -1."""
        place = np.searchsorted(self.key, self._key(waiting))
        following = np.append(self.launched, -1)[place]
        same = self.outer.thread[self.launch[following]] == self.outer.thread[waiting]
        following = np.where((following >= 0) & same, following, -1)
        for number in distinct(stream[stream >= 0]).tolist() if (stream >= 0).any() else ():
            mine = np.flatnonzero(stream == number)
            pid = self.work.pid[following[mine]]
            for rows in (rows for rows in self.streams.by_stream if self.work.stream[rows[0]] == number):
                place = np.searchsorted(furthest(self.launch[rows]), waiting[mine])
                of_process = (place < len(rows)) & (self.work.pid[rows[0]] == pid) & (following[mine] >= 0)
                following[mine[of_process]] = rows[place[of_process]]
        return following

    def recorded_operation(self, record: Positions, operation: Positions) -> Positions:
        """The last operation that each record's thread had launched, or the other stream's, if there is but one."""
        place = np.searchsorted(self.key, self._key(record)) - 1
        last = np.where(place >= 0, self.launched[np.maximum(place, 0)], -1)
        last = np.where(self.outer.thread[self.launch[last]] == self.outer.thread[record], last, -1)
        stays = (last >= 0) & (operation >= 0) & (self.streams.stream[last] == self.streams.stream[operation])
        staying = np.flatnonzero(stays)
        by_stream = RowsByKey.of(self.streams.stream[operation[staying]])
        for _, numbers in streams_by_process(self.work, self.streams):
            pairs = zip(numbers.tolist(), numbers[::-1].tolist(), strict=True) if len(numbers) == 2 else ()
            for number, other in pairs:
                mine, candidates = staying[by_stream.rows(number)], self.streams.by_stream[other]
                place = np.searchsorted(furthest(self.launch[candidates]), record[mine]) - 1
                last[mine] = np.where(place >= 0, candidates[np.maximum(place, 0)], -1)
        return last


UNEXPLAINED_NS: Final = 3_000
"""An operation that begins by so much later than its call and its stream explain waited for something else."""

AT_ONCE_NS: Final = 10_000  # whoever waits for an event goes on no later than this after it is over

BY_EVENT: Final = -1
BY_PROCESS: Final = -2
"""Keys of usual lags; a node of a graph is its own."""

_HOST_FUNCTION: Final = re.compile(r"LaunchHostFunc|StreamAddCallback")
_UNSEEN: Final = re.compile(rf"{WAITS.pattern}|StreamWaitValue|WaitExternalSemaphore")


class StallingCalls(Struct, frozen=True, eq=False):
    """Calls that make a stream stand still without an operation that would show it: by thread, then time."""

    thread: Ints  # the thread of each call, times 2^40
    host_function: Ints
    unseen: Ints  # waits for what may not have been recorded

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


def cross_stream_waits(
    work: Activities,
    launch: Ints,
    streams: StreamOrder,
    events: tuple[Positions, Positions],
    stalling: StallingCalls,
    due: Ints,
    branches: NDArray[np.bool_],
    shared: NDArray[np.bool_],
) -> CrossStreamWaits:
    """`due`: how long before its start each was due by its call and stream; `branches` overlap their stream.

    `shared` ran on a GPU of several processes.
    """
    waits = CrossStreamWaits(work, launch, streams, due)
    late = np.flatnonzero((due < -UNEXPLAINED_NS) & (due > NEVER // 2) | branches)
    waits.add_events(*events)
    waits.add_unlaunched()
    if len(late):
        waits.add_branches(late)
        unexplained = late[~waits.binds[late] & ~branches[late]]
        waits.add_streams(unexplained)
        waits.add_processes(unexplained, shared)
        waits.keep_stalled(late, stalling, shared)
    return waits


class CrossStreamWaits:
    """Columns as long as the operations, filled in by one kind of wait after the other."""

    def __init__(self, work: Activities, launch: Ints, streams: StreamOrder, due: Ints) -> None:
        self._work, self._launch, self._streams, self._due = work, launch, streams, due
        self.other: Final = np.full(len(work), -1, np.int64)  # the operation that it waits for; -1 for none
        self.lag_ns: Final = np.zeros(len(work), np.int64)  # from that one's end to its start, as recorded
        self.key: Final = np.zeros(len(work), np.int64)  # what kind of wait it is: those of one key have one usual lag
        self.binds: Final = np.zeros(len(work), np.bool_)  # whether it began when it did because of that one
        self.keeps: Final = np.zeros(len(work), np.bool_)  # whether its delay is an input

    def _set(self, rows: Positions, source: Positions, key: Ints | int) -> None:
        self.other[rows], self.key[rows], self.binds[rows] = source, key, True
        self.lag_ns[rows] = self._work.start_ns[rows] - self._work.end_ns[source]

    def _explains(self, rows: Positions, source: Positions) -> NDArray[np.bool_]:
        """Whether these were over after the others were due; a kernel may begin as the last of another drains."""
        since = self._work.start_ns[rows] - self._work.end_ns[source]
        explains: NDArray[np.bool_] = (self._due[rows] < -UNEXPLAINED_NS) & (since < -self._due[rows])
        return explains & (since >= -UNEXPLAINED_NS) & (self._work.start_ns[source] < self._work.start_ns[rows])

    def add_events(self, operation: Positions, source: Positions) -> None:
        """Events hold an operation up if they were over after it was due, and else if a change makes them."""
        self._set(operation, source, BY_EVENT)
        self.binds[operation] = (self.lag_ns[operation] < AT_ONCE_NS) & self._explains(operation, source)

    def add_branches(self, late: Positions) -> None:
        """In a graph the last node of the same launch that had ended."""
        work, launch = self._work, self._launch
        late = late[(work.graph_node[late] >= 0) & (launch[late] >= 0)]
        if not len(late):
            return
        nodes = np.flatnonzero((work.graph_node >= 0) & (launch >= 0))
        nodes = nodes[np.lexsort((work.end_ns[nodes], launch[nodes]))]
        place = search(launch[nodes], work.end_ns[nodes], launch[late], work.start_ns[late], side="right") - 1
        last = nodes[np.maximum(place, 0)]
        there = (place >= 0) & (launch[last] == launch[late])
        self._set(late[there], last[there], work.graph_node[late[there]])

    def add_streams(self, late: Positions) -> None:
        """The last operation of the process that had ended, if it is of another stream."""
        by_process = RowsByKey.of(self._work.pid)
        for pid, mine in RowsByKey.of(self._work.pid[late]):
            self._add_last(late[mine], by_process.rows(pid), BY_EVENT)

    def add_unlaunched(self) -> None:
        """What no call launched and nothing precedes in its stream follows the last that had ended on its GPU."""
        work = self._work
        alone = np.flatnonzero((self._launch < 0) & (self._streams.before < 0) & ~self.binds)
        for gpu in distinct(work.gpu[alone]).tolist() if len(alone) else ():
            mine, among = alone[work.gpu[alone] == gpu], work.on(gpu)
            by_end = among[np.argsort(work.end_ns[among], kind="stable")]
            place = np.searchsorted(work.end_ns[by_end], work.start_ns[mine], side="right") - 1
            self._set(mine[place >= 0], by_end[place[place >= 0]], BY_EVENT)
            self.keeps[mine] = True

    def add_processes(self, late: Positions, shared: NDArray[np.bool_]) -> None:
        """The last operation of another process on the same GPU."""
        late = late[shared[late] & ~self.binds[late]]
        for gpu in distinct(self._work.gpu[late]).tolist() if len(late) else ():
            self._add_last(late[self._work.gpu[late] == gpu], self._work.on(gpu), BY_PROCESS)

    def _add_last(self, late: Positions, among: Positions, key: int) -> None:
        by_end = among[np.argsort(self._work.end_ns[among], kind="stable")]
        end, start = self._work.end_ns[by_end], self._work.start_ns[late]
        place = np.searchsorted(end, start + UNEXPLAINED_NS, side="right") - 1
        is_later = self._work.start_ns[by_end[np.maximum(place, 0)]] >= start  # a short one has itself ended by then
        place = np.where(is_later, np.searchsorted(end, start, side="left") - 1, place)
        last = by_end[np.maximum(place, 0)]
        explains = (place >= 0) & (self._streams.stream[last] != self._streams.stream[late])
        explains &= self._explains(late, last)
        self._set(late[explains], last[explains], key)

    def keep_stalled(self, late: Positions, stalling: StallingCalls, shared: NDArray[np.bool_]) -> None:
        """Delays that are inputs.

        Those behind a host function; those behind an event that no recorded operation explains; the first of each
        stream, which may wait for what was launched before the recording; turns on a GPU that processes share.
        """
        before, launch = self._streams.before[late], self._launch
        source = np.where(self.binds[late], self.other[late], before)
        since = np.where(source >= 0, launch[source], -1)
        unexplained = ~self.binds[late]
        keeps = unexplained & (before < 0) | shared[late] & (self.key[late] != BY_PROCESS)
        keeps |= stalling.between(stalling.host_function, since, launch[late])
        self.keeps[late] = keeps | unexplained & stalling.between(stalling.unseen, since, launch[late])


def with_rendezvous(graph: DependencyGraph, meetings: NDArray[np.signedinteger]) -> DependencyGraph:
    """The graph in which operations with the same number in `meetings` meet; -1: it meets nobody."""
    member = np.flatnonzero(meetings >= 0)
    if not len(member):
        return graph
    operations = graph.operations
    first, meeting = group(meetings[member])
    start, end = graph.recorded.start[member], graph.recorded.end[member]
    last = fold("most", meeting, start, np.full(len(first), np.iinfo(np.int64).min))
    first_end = fold("least", meeting, end, np.full(len(first), np.iinfo(np.int64).max))
    count = np.bincount(meeting, minlength=len(first))
    apart = np.bincount(
        distinct(meeting * graph.streams + operations.stream[member]) // graph.streams, minlength=len(first)
    )
    meets = (last < first_end) & (count > 1) & (apart == count)
    # operations that something waits for, and when that went on: the next in a stream, calls, operations elsewhere
    waiting = np.repeat(np.arange(len(graph.calls)), np.diff(graph.calls.first_wait))
    waits = np.flatnonzero(operations.other >= 0)
    source = np.concatenate((member, graph.wait, operations.other[waits]))
    goes_on = np.concatenate(
        (_next_start(graph, member), graph.recorded.call_end[waiting], graph.recorded.start[waits])
    )
    of_member = np.full(len(operations), -1, np.int64)
    of_member[member] = meeting
    held = of_member[source]
    meets[held[(held >= 0) & (goes_on <= last[held])]] = False
    number = np.where(meets, np.cumsum(meets) - 1, -1)
    numbers, duration = np.full(len(operations), -1, np.int32), operations.duration_ns.copy()
    numbers[member] = number[meeting]
    duration[member] = np.where(meets[meeting], end - last[meeting], duration[member])
    return replace(graph, operations=replace(operations, group=numbers, duration_ns=duration), groups=int(meets.sum()))


def _next_start(graph: DependencyGraph, member: Positions) -> Ints:
    """When the next operation of each one's stream began; of the last one never."""
    stream = graph.operations.stream
    with_members = np.zeros(graph.streams, np.bool_)
    with_members[stream[member]] = True
    rows = np.flatnonzero(with_members[stream])
    rows = rows[np.argsort(stream[rows], kind="stable")]  # in a stream they come in the order of time
    following = np.full(len(stream), np.iinfo(np.int64).max)
    is_next = stream[rows[1:]] == stream[rows[:-1]]
    following[rows[:-1][is_next]] = graph.recorded.start[rows[1:][is_next]]
    return following[member]

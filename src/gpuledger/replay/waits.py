"""What calls and operations wait for, besides their thread, their call and their stream.

A synchronising call waits for operations that were launched before it, a copy call for its copy. Which stream a call
waits for is told by CUPTI's record of it where there is one; they are incomplete. Else it is the stream of the
operation whose end let it return, or of the one that was launched last. Which event a call waits for is told by nothing
but the operation whose end let it return. A thread that stood still while another one worked waited for it; so did one
that the system says waited, for whoever called last before it went on.

An operation that began later than its call and its stream explain waited for an event of another stream, in a graph
for the end of another branch, on a GPU of several processes for its turn. Where a host function, or an event of work
that was not recorded, stood in the stream, the profile shows nothing but the delay: that is an input, as host code is.
A collective's kernels on several GPUs meet: each ends its transfer after the last has begun (`with_rendezvous`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Final, Self

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from gpuledger.catalog.calls import WOKEN_BY_THREAD
from gpuledger.ledger.activity import Activities, calls_in_layers, record_of_call, short_function_name
from gpuledger.ledger.device import CLOCKS_NS
from gpuledger.ledger.host import Host
from gpuledger.ledger.ranges import thread
from gpuledger.replay.graph import NEVER, DependencyGraph
from gpuledger.replay.program_order import OuterCalls, StreamOrder, streams_by_process
from gpuledger.trace.keys import Positions, RowsByKey, distinct, group, leave_out, search
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, covered, furthest, union
from gpuledger.trace.sweep import fold, refuse_too_many
from gpuledger.trace.tables import Table

_DEVICE: Final = re.compile(r"(Device|Ctx|Context|Thread)Synchronize")
_STREAM: Final = re.compile(r"StreamSynchronize")
_EVENT: Final = re.compile(r"EventSynchronize")


class Waits(Struct, frozen=True, eq=False):
    """Pairs of a call and an operation that it waits for, by call. Calls are positions among the outer calls."""

    call: Positions
    operation: Positions


def waits(trace: Trace, host: Host, outer: OuterCalls, work: Activities, launch: Ints, streams: StreamOrder) -> Waits:
    """All of them; `launch` holds each operation's outer call."""
    finder = _Waiting(trace, host, outer, work, launch, streams)
    pairs = [finder.own_copies(), *finder.of_synchronisations()]
    call, operation = (np.concatenate(columns) for columns in zip(*pairs, strict=True))
    order = np.argsort(call, kind="stable")
    return Waits(call[order], operation[order])


_Pairs = tuple[Positions, Positions]
_Triples = tuple[Positions, Positions, Ints]


class _Waiting:
    def __init__(
        self, trace: Trace, host: Host, outer: OuterCalls, work: Activities, launch: Ints, streams: StreamOrder
    ) -> None:
        self.trace, self.host, self.outer, self.work = trace, host, outer, work
        self.launch, self.streams = launch, streams
        self.blocking = host.blocking  # rows of the host's calls
        self.node = outer.node_of_call[self.blocking]

    def own_copies(self) -> _Pairs:
        """Copy calls, and the operations that they put on the device themselves."""
        is_blocking = np.zeros(len(self.outer) + 1, np.bool_)  # the last is for what no call launched
        is_blocking[self.node] = True
        own = np.flatnonzero(is_blocking[self.launch])
        return self._ended_in_time(self.launch[own], own)

    def of_synchronisations(self) -> Iterator[_Pairs]:
        """Calls that synchronise with a device, a stream or an event, process by process."""
        calls, blocking = self.host.calls, self.blocking
        names = calls.codes("name")[blocking]

        def matching(pattern: re.Pattern[str]) -> NDArray[np.bool_]:
            return calls.strings.each(names, lambda name: bool(pattern.search(short_function_name(name))), np.bool_)

        is_device, is_stream, is_event = map(matching, (_DEVICE, _STREAM, _EVENT))
        by_process = streams_by_process(self.work, self.streams)
        for pid, of_process in RowsByKey.of(calls["pid"][blocking]):
            process = _ProcessOperations(self, by_process.rows(pid).tolist())
            device = self.node[of_process[is_device[of_process]]]
            refuse_too_many(len(device) * len(process.streams), len(self.outer) + len(self.work))
            for number in process.streams:
                yield self._ended_in_time(device, process.last_before(number, device))
            in_stream = of_process[is_stream[of_process]]
            stream = self._recorded_stream(blocking[in_stream], process)
            stream[stream < 0] = process.likely_stream(self.node[in_stream[stream < 0]])
            for number, of_stream in RowsByKey.of(stream):
                if number >= 0:
                    mine = self.node[in_stream[of_stream]]
                    yield self._ended_in_time(mine, process.last_before(number, mine))
            events = self.node[of_process[is_event[of_process]]]
            last = process.last_ended(events)
            really = last >= 0
            really[really] = self.work.end_ns[last[really]] >= self.outer.begin_ns[events[really]]
            yield self._ended_in_time(events[really], last[really])

    def _ended_in_time(self, calls: Positions, operation: Positions) -> _Pairs:
        """Those where the operation was over when the call returned: else it waited for something else."""
        there = operation >= 0
        calls, operation = calls[there], operation[there]
        returned = self.outer.end_ns[calls]
        over = (self.streams.reach_ns[operation] <= returned + CLOCKS_NS) & (self.work.start_ns[operation] < returned)
        over &= self.outer.begin_ns[calls] < returned
        return calls[over], operation[over]

    def _recorded_stream(self, rows: Positions, process: _ProcessOperations) -> Ints:
        """The stream that CUPTI says each of these calls waited for; -1: it does not."""
        stream = np.full(len(rows), -1, np.int64)
        syncs = self.trace[Table.SYNCS]
        if not len(rows) or not len(syncs):
            return stream
        record = record_of_call(self.host.calls.only("pid", "correlation").at(rows), syncs)
        names = syncs["stream"][record[record >= 0]]
        different = distinct(names)
        numbers = np.array([process.numbered.get(name, -1) for name in different.tolist()], np.int64)
        stream[record >= 0] = numbers[np.searchsorted(different, names)]
        return stream


class _ProcessOperations:
    """The operations of one process, by stream and by end."""

    def __init__(self, finder: _Waiting, streams: list[int]) -> None:
        self.finder, self.streams, work, by_stream = finder, streams, finder.work, finder.streams.by_stream
        self._launched: dict[int, Ints] = {}
        self.numbered: dict[int, int] = {}
        """By CUDA's number; of the same number in several contexts the busiest stream is meant."""
        for number in sorted(streams, key=lambda number: len(by_stream[number]), reverse=True):
            self.numbered.setdefault(int(work.stream[by_stream[number][0]]), number)

    @cached_property
    def _by_end(self) -> tuple[Positions, Ints]:
        """All of them in the order in which they end, and when."""
        own = [self.finder.streams.by_stream[number] for number in self.streams]
        rows = np.concatenate(own) if own else np.empty(0, np.intp)
        rows = rows[np.argsort(self.finder.work.end_ns[rows], kind="stable")]
        return rows, self.finder.work.end_ns[rows]

    def _launched_ns(self, stream: int) -> Ints:
        """When each operation of a stream was launched, in its order."""
        if stream not in self._launched:
            rows, finder = self.finder.streams.by_stream[stream], self.finder
            call = finder.launch[rows]
            begun = np.where(call >= 0, finder.outer.begin_ns[np.maximum(call, 0)], finder.work.start_ns[rows])
            self._launched[stream] = furthest(begun)
        return self._launched[stream]

    def last_before(self, stream: int, calls: Positions) -> Positions:
        """The last operation of a stream that was launched before each of these calls began; -1 for none."""
        place = np.searchsorted(self._launched_ns(stream), self.finder.outer.begin_ns[calls]) - 1
        return np.where(place >= 0, self.finder.streams.by_stream[stream][np.maximum(place, 0)], -1)

    def last_ended(self, calls: Positions) -> Positions:
        """The operation that ended last before each of these calls returned; -1 for none."""
        rows, end = self._by_end
        place = np.searchsorted(end, self.finder.outer.end_ns[calls] + CLOCKS_NS, side="right") - 1
        return np.append(rows, -1)[place]

    def likely_stream(self, calls: Positions) -> Ints:
        """The stream of the operation whose end let each of these return; where none did, of the last launched one."""
        likely = np.full(len(calls), -1, np.int64)
        if not len(calls) or not self.streams:
            return likely
        finder, last = self.finder, self.last_ended(calls)
        latest = np.full(len(calls), np.iinfo(np.int64).min)
        for stream in self.streams:
            launched = self._launched_ns(stream)
            place = np.searchsorted(launched, finder.outer.begin_ns[calls]) - 1
            when = np.where(place >= 0, launched[np.maximum(place, 0)], np.iinfo(np.int64).min)
            likely = np.where(when > latest, stream, likely)
            latest = np.maximum(when, latest)
        known = np.maximum(last, 0)
        really = (last >= 0) & (finder.work.end_ns[known] >= finder.outer.begin_ns[calls])
        return np.where(really, finder.streams.stream[known], likely)


LEAST_NS: Final = 20_000  # a thread that stands still for less waits for nobody
COVERED: Final = 0.5  # the share of the time stood still that the other thread's calls must cover


class HandOffs(Struct, frozen=True, eq=False):
    """Calls that another thread's call hands over to."""

    call: Positions
    after: Positions
    lag_ns: Ints


def hand_offs(trace: Trace, host: Host, outer: OuterCalls, code_ns: Ints) -> HandOffs:
    """All of them; between processes there are none. `code_ns` lies before each call on its thread."""
    process = host.threads >> 32
    several = [pid for pid, threads in RowsByKey.of(process) if len(threads) > 1]
    of_process: list[Positions] = []
    if len(several) == 1 and np.all(process == process[0]):
        of_process = [np.arange(len(outer))]
    elif several:
        of_process = [*map(RowsByKey.of(process[outer.thread]).rows, several)]
    parts: list[_Triples] = []
    for rows in (rows for rows in of_process if len(rows)):
        handed = _hand_offs_of_process(outer, rows, code_ns)
        stood = rows[(code_ns[rows] >= LEAST_NS) & (outer.before[rows] >= 0)]
        waited = _mostly_waiting(trace, host, outer, leave_out(stood, handed[0]))
        parts += [handed, _wakeup_edges(outer, rows, waited)]
    columns = [np.concatenate(part) for part in zip(*parts, strict=True)] if parts else [np.empty(0, np.intp)] * 3
    return HandOffs(*columns)


def _mostly_waiting(trace: Trace, host: Host, outer: OuterCalls, calls: Positions) -> Positions:
    """Of these calls those before which their thread mostly waited to be woken, by the system's calls."""
    system = calls_in_layers(trace, "os")
    wakes = system.strings.each(system.codes("name"), lambda name: bool(WOKEN_BY_THREAD.search(name)), np.bool_)
    system, since = system.where(wakes), outer.end_ns[outer.before[calls]]
    of_thread, waited_ns = RowsByKey.of(thread(system)), np.zeros(len(calls), np.int64)
    for number, mine in RowsByKey.of(outer.thread[calls]):
        own = of_thread.rows(int(host.threads[number]))
        waits = union(system["start_ns"][own], system["end_ns"][own])
        waited_ns[mine] = covered(waits, since[mine], outer.begin_ns[calls[mine]])
    waited: Positions = calls[waited_ns >= np.maximum(COVERED * (outer.begin_ns[calls] - since), 1)]
    return waited


def _wakeup_edges(outer: OuterCalls, rows: Positions, calls: Positions) -> _Triples:
    """Before each of these calls whatever a process called last, if its thread had not waited for much longer."""
    by_end = rows[np.argsort(outer.end_ns[rows], kind="stable")]
    begin, since = outer.begin_ns[calls], outer.end_ns[outer.before[calls]]
    last = by_end[np.searchsorted(outer.end_ns[by_end], begin, side="right") - 1]  # at the least the thread's own
    woken = outer.end_ns[last] - since >= np.maximum(COVERED * (begin - since), 1)
    return calls[woken], last[woken], (begin - outer.end_ns[last])[woken]


def _hand_offs_of_process(outer: OuterCalls, rows: Positions, code_ns: Ints) -> _Triples:
    thread = outer.thread if len(rows) == len(outer) else outer.thread[rows]
    switches = np.flatnonzero(thread[1:] != thread[:-1]) + 1
    # a thread's first call may follow another thread's at once
    long = np.flatnonzero((code_ns[rows[switches]] >= LEAST_NS) | (outer.before[rows[switches]] < 0))
    first, last = rows[switches[long]], rows[switches[long] - 1]
    run_start_ns = outer.begin_ns[rows[np.append(0, switches)[long]]]  # where the run that hands over began
    own_before = outer.before[first]
    stood_from = np.where(own_before >= 0, outer.end_ns[own_before], run_start_ns)
    stood = outer.begin_ns[first] - stood_from
    lag = outer.begin_ns[first] - outer.end_ns[last]
    worked = outer.end_ns[last] - np.maximum(run_start_ns, stood_from)
    handed = (lag >= 0) & (stood >= LEAST_NS) & (worked >= COVERED * stood)
    first, last, lag = first[handed], last[handed], lag[handed]
    # no thread comes from nowhere: what another of its process called last leads to its first call
    opening, by_end = (
        leave_out(rows[outer.before[rows] < 0], first),
        rows[np.argsort(outer.end_ns[rows], kind="stable")],
    )
    place = np.searchsorted(outer.end_ns[by_end], outer.begin_ns[opening], side="right") - 1
    opening, before = opening[place >= 0], by_end[place[place >= 0]]
    since = outer.begin_ns[opening] - outer.end_ns[before]
    return np.append(first, opening), np.append(last, before), np.append(lag, since)


RECORDS: Final = re.compile(r"EventRecord")
WAITS: Final = re.compile(r"StreamWaitEvent")


def event_edges(
    trace: Trace, host: Host, outer: OuterCalls, work: Activities, launch: Ints, streams: StreamOrder
) -> tuple[Positions, Positions]:
    """Operations, and the one of another stream whose event each waits for; of two for one operation the later is last.
    Those that the order of the calls tells and the times do not contradict."""
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

# keys of usual lags; a node of a graph is its own
BY_EVENT: Final = -1
BY_PROCESS: Final = -2

_HOST_FUNCTION: Final = re.compile(r"LaunchHostFunc|StreamAddCallback")
_UNSEEN: Final = re.compile(rf"{WAITS.pattern}|StreamWaitValue|WaitExternalSemaphore")


class StallingCalls(Struct, frozen=True, eq=False):
    """Calls that make a stream stand still without an operation that would show it: by thread, then time."""

    thread: Ints  # the thread of each call, times 2^40
    host_function: Ints
    unseen: Ints  # waits for what may not have been recorded

    @classmethod
    def of(cls, host: Host, outer: OuterCalls) -> Self:
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
    """`due`: how long before its start each was due by its call and stream; `branches` overlap their stream. `shared`
    ran on a GPU of several processes."""
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
        """Delays that are inputs. Those behind a host function; those behind an event that no recorded operation
        explains; the first of each stream, which may wait for what was launched before the recording; turns on a GPU
        that processes share."""
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

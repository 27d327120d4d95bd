"""What calls wait for: operations that were launched before them, and threads that hand over to one another.

A synchronising call waits for operations that were launched before it, a copy call for its copy. Which stream a call
waits for is told by CUPTI's record of it where there is one; they are incomplete. Else it is the stream of the
operation whose end let it return, or of the one that was launched last. Which event a call waits for is told by nothing
but the operation whose end let it return. A thread that stood still while another one worked waited for it; so did one
that the system says waited, for whoever called last before it went on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.catalog.calls import WOKEN_BY_THREAD
from gpuledger.ledger.activity import Activities, of_layers, record_of_call, short_function_name
from gpuledger.ledger.host import Host
from gpuledger.ledger.ranges import thread
from gpuledger.replay.program_order import OuterCalls, StreamOrder, streams_by_process
from gpuledger.trace.keys import Positions, RowsByKey, distinct, leave_out
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, covered, furthest, union
from gpuledger.trace.sweep import refuse_too_many
from gpuledger.trace.tables import Table

CLOCKS_NS: Final = 3_000
"""By so much an operation may seem to end after the call that waited for it: the two clocks agree no better."""

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
        parts += [handed, _wake_ups(outer, rows, waited)]
    columns = [np.concatenate(part) for part in zip(*parts, strict=True)] if parts else [np.empty(0, np.intp)] * 3
    return HandOffs(*columns)


def _mostly_waiting(trace: Trace, host: Host, outer: OuterCalls, calls: Positions) -> Positions:
    """Of these calls those before which their thread mostly waited to be woken, by the system's calls."""
    system = of_layers(trace, "os")
    wakes = system.strings.each(system.codes("name"), lambda name: bool(WOKEN_BY_THREAD.search(name)), np.bool_)
    system, since = system.where(wakes), outer.end_ns[outer.before[calls]]
    of_thread, waited_ns = RowsByKey.of(thread(system)), np.zeros(len(calls), np.int64)
    for number, mine in RowsByKey.of(outer.thread[calls]):
        own = of_thread.rows(int(host.threads[number]))
        waits = union(system["start_ns"][own], system["end_ns"][own])
        waited_ns[mine] = covered(waits, since[mine], outer.begin_ns[calls[mine]])
    waited: Positions = calls[waited_ns >= np.maximum(COVERED * (outer.begin_ns[calls] - since), 1)]
    return waited


def _wake_ups(outer: OuterCalls, rows: Positions, calls: Positions) -> _Triples:
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

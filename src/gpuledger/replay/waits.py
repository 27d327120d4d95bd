"""What calls wait for: a synchronising call for the operations that were launched before it, a copy call for its copy.

Which stream a call waits for is told by CUPTI's record of it where there is one; they are incomplete. Else it is the
stream of the operation whose end let it return, or of the one that was launched last. Which event a call waits for is
told by nothing but the operation whose end let it return.

Threads that hand over to one another: a thread that stood still while another one worked waited for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from gpuledger.ledger.activity import Activities, recorded_by, shortened
from gpuledger.ledger.host import Host
from gpuledger.replay.program_order import OuterCalls, StreamOrder, streams_by_process
from gpuledger.trace.keys import Positions, RowsByKey, distinct
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, furthest
from gpuledger.trace.sweep import refuse_too_many
from gpuledger.trace.tables import Table

CLOCKS_NS: Final = 3_000
"""By so much an operation may seem to end after the call that waited for it: the two clocks agree no better."""

_DEVICE: Final = re.compile(r"(Device|Ctx|Context|Thread)Synchronize")
_STREAM: Final = re.compile(r"StreamSynchronize")
_EVENT: Final = re.compile(r"EventSynchronize")


@dataclass(frozen=True, slots=True, eq=False)
class Waits:
    """Pairs of a call and an operation that it waits for, by call. Calls are positions among the outer calls."""

    call: Positions
    operation: Positions


def waits(trace: Trace, host: Host, outer: OuterCalls, work: Activities, launch: Ints, streams: StreamOrder) -> Waits:
    """All of them; `launch` holds each operation's outer call."""
    finder = _Waiting(trace, host, outer, work, launch, streams)
    pairs = [*finder.own_copies(), *finder.of_synchronisations()]
    call, operation = (np.concatenate(columns) for columns in zip(*pairs, strict=True))
    order = np.argsort(call, kind="stable")
    return Waits(call[order], operation[order])


_Pairs = tuple[Positions, Positions]


class _Waiting:
    def __init__(
        self,
        trace: Trace,
        host: Host,
        outer: OuterCalls,
        work: Activities,
        launch: Ints,
        streams: StreamOrder,
    ) -> None:
        self.trace, self.host, self.outer, self.work = trace, host, outer, work
        self.launch, self.streams = launch, streams
        self.blocking = host.blocking
        """Rows of the host's calls."""
        self.node = outer.node_of_call[self.blocking]

    def own_copies(self) -> list[_Pairs]:
        """Copy calls, and the operations that they put on the device themselves."""
        is_blocking = np.zeros(len(self.outer) + 1, np.bool_)
        is_blocking[self.node] = True
        is_blocking[-1] = False  # what no call launched
        own = np.flatnonzero(is_blocking[self.launch])
        return [self._checked(self.launch[own], own)]

    def of_synchronisations(self) -> list[_Pairs]:
        names = self.host.calls.codes("name")[self.blocking]
        strings = self.host.calls.strings
        texts = {code: shortened(strings.text(code) or "") for code in distinct(names).tolist()} if len(names) else {}
        chosen = {
            pattern: np.isin(names, [code for code, text in texts.items() if pattern.search(text)])
            for pattern in (_DEVICE, _STREAM, _EVENT)
        }
        pairs: list[_Pairs] = []
        streams = streams_by_process(self.work, self.streams)
        for pid, of_process in RowsByKey.of(self.host.calls["pid"][self.blocking]):
            process = _ProcessOperations(self, streams.rows(pid).tolist())
            device = self.node[of_process[chosen[_DEVICE][of_process]]]
            refuse_too_many(len(device) * len(process.streams), len(self.outer) + len(self.work))
            pairs += [self._checked(device, process.last_before(number, device)) for number in process.streams]
            in_stream = of_process[chosen[_STREAM][of_process]]
            calls = self.node[in_stream]
            stream = self._recorded_stream(self.blocking[in_stream], process)
            unknown = stream < 0
            stream[unknown] = process.likely_stream(calls[unknown])
            for number, of_stream in RowsByKey.of(stream):
                mine = calls[of_stream]
                if number >= 0:
                    pairs.append(self._checked(mine, process.last_before(number, mine)))
            events = self.node[of_process[chosen[_EVENT][of_process]]]
            last = process.last_ended(events)
            really = last >= 0
            really[really] = self.work.end_ns[last[really]] >= self.outer.begin_ns[events[really]]
            pairs.append(self._checked(events[really], last[really]))
        return pairs

    def _checked(self, calls: Positions, operation: Positions) -> _Pairs:
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
        record = recorded_by(self.host.calls.only("pid", "correlation").at(rows), syncs)
        told = record >= 0
        names = syncs["stream"][record[told]]
        different = distinct(names)
        numbers = np.array([process.numbered.get(name, -1) for name in different.tolist()], np.int64)
        stream[told] = numbers[np.searchsorted(different, names)]
        return stream


class _ProcessOperations:
    """The operations of one process, by stream and by end."""

    def __init__(self, finder: _Waiting, own: list[int]) -> None:
        self.finder = finder
        self.streams = own
        work, streams = finder.work, finder.streams
        self.numbered: dict[int, int] = {}
        for number in self.streams:  # of the same number in several contexts the busiest is meant
            name = int(work.stream[streams.by_stream[number][0]])
            known = self.numbered.get(name)
            if known is None or len(streams.by_stream[number]) > len(streams.by_stream[known]):
                self.numbered[name] = number
        self._launched: dict[int, Ints] = {}

    @cached_property
    def by_end(self) -> Positions:
        """All of them."""
        own = [self.finder.streams.by_stream[number] for number in self.streams]
        rows = np.concatenate(own) if own else np.empty(0, np.intp)
        return rows[np.argsort(self.finder.work.end_ns[rows], kind="stable")]

    @cached_property
    def end(self) -> Ints:
        return self.finder.work.end_ns[self.by_end]

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
        if not len(calls) or not len(self.end):
            return np.full(len(calls), -1, np.intp)
        place = np.searchsorted(self.end, self.finder.outer.end_ns[calls] + CLOCKS_NS, side="right") - 1
        return np.where(place >= 0, self.by_end[np.maximum(place, 0)], -1)

    def likely_stream(self, calls: Positions) -> Ints:
        """The stream of the operation whose end let each of these return; where none did, of the last launched one."""
        if not len(calls) or not self.streams:
            return np.full(len(calls), -1, np.int64)
        finder, last = self.finder, self.last_ended(calls)
        known = np.maximum(last, 0)
        really = (last >= 0) & (finder.work.end_ns[known] >= finder.outer.begin_ns[calls])
        latest = np.full(len(calls), np.iinfo(np.int64).min)
        likely = np.full(len(calls), -1, np.int64)
        for stream in self.streams:
            launched = self._launched_ns(stream)
            place = np.searchsorted(launched, finder.outer.begin_ns[calls]) - 1
            when = np.where(place >= 0, launched[np.maximum(place, 0)], np.iinfo(np.int64).min)
            likely = np.where(when > latest, stream, likely)
            latest = np.maximum(when, latest)
        return np.where(really, finder.streams.stream[known], likely)


LEAST_NS: Final = 20_000
"""A thread that stands still for less waits for nobody."""

COVERED: Final = 0.5
"""The share of the time stood still that the other thread's calls must cover."""


@dataclass(frozen=True, slots=True, eq=False)
class HandOffs:
    """Calls that another thread's call hands over to."""

    call: Positions
    after: Positions
    lag_ns: Ints


def hand_offs(host: Host, outer: OuterCalls, code_ns: Ints) -> HandOffs:
    """All of them; between processes there are none. `code_ns` lies before each call on its thread."""
    found = [_of_process(outer, rows, code_ns) for rows in _processes(host, outer)]
    columns = [np.concatenate(parts) for parts in zip(*found, strict=True)] if found else [np.empty(0, np.intp)] * 3
    return HandOffs(*columns)


def _processes(host: Host, outer: OuterCalls) -> list[Positions]:
    """The calls of each process that makes them on several threads."""
    if len(host.threads) < 2:
        return []
    process = host.threads >> 32
    several = [pid for pid, threads in RowsByKey.of(process) if len(threads) > 1]
    if len(several) == 1 and np.all(process == process[0]):
        return [np.arange(len(outer))] if len(outer) else []
    by_process = RowsByKey.of(process[outer.thread])
    return [rows for pid in several if len(rows := by_process.rows(pid))]


def _of_process(outer: OuterCalls, rows: Positions, code_ns: Ints) -> tuple[Positions, Positions, Ints]:
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
    return first[handed], last[handed], lag[handed]

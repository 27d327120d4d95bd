"""Events between streams: the calls that record and wait for them in, which operation waits for which out.

No profile says which event a call records or waits for. Programs wait for what they recorded last, and record behind
what they launched last. Which stream waits is told by CUPTI's record of the wait where there is one, else by what is
launched next.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.ledger.activity import Activities
from gpuledger.ledger.host import Host
from gpuledger.ledger.launches import recorded_by
from gpuledger.replay.outer_calls import OuterCalls
from gpuledger.replay.stream_order import StreamOrder, streams_by_process
from gpuledger.trace.columns import distinct
from gpuledger.trace.keys import Positions, RowsByKey
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, furthest
from gpuledger.trace.tables import Table

RECORDS: Final = re.compile(r"EventRecord")
WAITS: Final = re.compile(r"StreamWaitEvent")


@dataclass(frozen=True, slots=True, eq=False)
class EventEdges:
    """Operations, and the one of another stream that each waits for."""

    operation: Positions
    source: Positions


def event_edges(
    trace: Trace, host: Host, outer: OuterCalls, work: Activities, launch: Ints, streams: StreamOrder
) -> EventEdges:
    """Those that the order of the calls tells and the times do not contradict; of two for one operation the later."""
    waiting, recording = (np.flatnonzero(outer.named(host, pattern)) for pattern in (WAITS, RECORDS))
    none = np.empty(0, np.intp)
    if not len(waiting) or not len(recording) or len(streams.by_stream) < 2 or not (launch >= 0).any():
        return EventEdges(none, none)
    finder = _Events(outer, work, launch, streams)
    record = _last_before(outer.thread, recording, waiting)
    waiting, record = waiting[record >= 0], record[record >= 0]
    operation = finder.waiting_operation(waiting, _told_streams(trace, host, outer, waiting))
    source = finder.recorded_operation(record, operation)
    there = (operation >= 0) & (source >= 0)
    operation, source = operation[there], source[there]
    possible = (streams.stream[operation] != streams.stream[source]) & (work.pid[operation] == work.pid[source])
    possible &= work.end_ns[source] <= work.start_ns[operation]
    operation, source = operation[possible], source[possible]
    order = np.argsort(work.end_ns[source], kind="stable")
    return EventEdges(operation[order], source[order])


class _Events:
    """What was launched before and after calls, by thread and by stream."""

    def __init__(self, outer: OuterCalls, work: Activities, launch: Ints, streams: StreamOrder) -> None:
        self.outer, self.work, self.launch, self.streams = outer, work, launch, streams
        launched = np.flatnonzero(launch >= 0)
        key = self._key(launch[launched])
        order = np.argsort(key, kind="stable")
        self.launched, self.key = launched[order], key[order]

    def _key(self, call: Ints) -> Ints:
        """Calls by thread, then time."""
        return (self.outer.thread[call].astype(np.int64) << 40) + call

    def waiting_operation(self, waiting: Positions, told: Ints) -> Positions:
        """The first operation launched after each wait, in the stream that is told, else by its thread; -1: none."""
        place = np.searchsorted(self.key, self._key(waiting))
        following = np.append(self.launched, -1)[place]
        same = self.outer.thread[self.launch[following]] == self.outer.thread[waiting]
        following = np.where((following >= 0) & same, following, -1)
        for number in distinct(told[told >= 0]).tolist() if (told >= 0).any() else ():
            mine = np.flatnonzero(told == number)
            pid = self.work.pid[following[mine]]
            candidates = [
                (rows, furthest(self.launch[rows]))
                for rows in self.streams.by_stream
                if self.work.stream[rows[0]] == number
            ]
            for rows, launched in candidates:
                place = np.searchsorted(launched, waiting[mine])
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


def _last_before(thread: NDArray[np.int32], calls: Positions, places: Positions) -> Positions:
    """Of these calls the last one before each place on the same thread; -1 for none."""
    last = np.full(len(places), -1, np.intp)
    by_thread = RowsByKey.of(thread[calls])
    for number, mine in RowsByKey.of(thread[places]):
        own = calls[by_thread.rows(number)]
        place = np.searchsorted(own, places[mine]) - 1
        if len(own):
            last[mine] = np.where(place >= 0, own[np.maximum(place, 0)], -1)
    return last


def _told_streams(trace: Trace, host: Host, outer: OuterCalls, waiting: Positions) -> Ints:
    """The number of the stream that CUPTI says each of these calls makes wait; -1: it does not."""
    stream = np.full(len(waiting), -1, np.int64)
    syncs = trace[Table.SYNCS]
    if len(syncs):
        calls = host.calls.only("pid", "correlation").at(outer.row[waiting])
        record = recorded_by(calls, syncs)
        stream[record >= 0] = syncs["stream"][record[record >= 0]]
    return stream

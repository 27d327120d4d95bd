"""What the program ordered: the outermost CUDA calls of each thread, and the operations of each stream.

What the driver's calls inside the runtime's do is part of those. A stream comes past an operation when it and all that
precede it have ended.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.ledger.activity import Activities
from gpuledger.ledger.host import Host
from gpuledger.replay.passes import is_compiled, native
from gpuledger.trace.keys import Positions, RowsByKey, group, is_same, take
from gpuledger.trace.spans import Ints, furthest
from gpuledger.trace.sweep import last_to_end


class OuterCalls(Struct, frozen=True, eq=False):
    """In the order of time. Calls of a thread do not overlap."""

    row: Positions  # position among the host's CUDA calls
    node_of_call: Positions  # for each of the host's CUDA calls the outermost one around it
    thread: NDArray[np.int32]
    begin_ns: Ints
    end_ns: Ints
    before: Positions  # the thread's last call before it; -1 for none

    def __len__(self) -> int:
        return len(self.row)

    def named(self, host: Host, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
        is_named = host.calls.strings.each(host.calls.codes("name"), lambda name: bool(pattern.search(name)), np.bool_)
        return take(is_named, self.row)


def outer_calls(host: Host) -> OuterCalls:
    """Of all threads: in one compiled pass where calls come in the order of time, else thread by thread."""
    calls, count = host.calls, len(host.calls)
    if is_compiled():
        row, node_of_call, begin, end, before = (np.empty(count, np.int64) for _ in range(5))
        thread = np.empty(count, np.int32)
        outermost = native.outer(
            np.ascontiguousarray(calls["start_ns"]),
            np.ascontiguousarray(calls["end_ns"]),
            np.ascontiguousarray(host.thread_of_call, np.int32),
            *(row, node_of_call, thread, begin, end, before),
            len(host.threads),
        )
        if outermost >= 0:
            there = slice(outermost)
            return OuterCalls(row[there], node_of_call, thread[there], begin[there], end[there], before[there])
    return _outer_calls_by_thread(host)


def _outer_calls_by_thread(host: Host) -> OuterCalls:
    start, end, none = host.calls["start_ns"], host.calls["end_ns"], np.empty(0, np.int64)
    node_of_call = np.empty(len(host.calls), np.intp)
    parts, count = [(none, none.astype(np.int32), none, none, none)], 0
    for number, rows in RowsByKey.of(host.thread_of_call):
        rows = rows[np.lexsort((-end[rows], start[rows]))]
        reach = furthest(end[rows])
        opens = np.append(True, end[rows][1:] > reach[:-1])[: len(rows)]
        node_of_call[rows] = np.cumsum(opens) - 1 + count
        outer, reach = rows[opens], reach[opens]
        begin = start[outer].copy()
        begin[1:] = np.maximum(begin[1:], reach[:-1])
        before = np.arange(count - 1, count + len(outer) - 1)
        before[:1] = -1
        parts.append((outer, np.full(len(outer), number, np.int32), begin, np.maximum(reach, begin), before))
        count += len(outer)
    row, thread, begin, finish, before = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.lexsort((row, begin)) if len(parts) > 2 else np.arange(count)
    place = np.empty(count + 1, np.intp)
    place[order], place[-1] = np.arange(count), -1
    return OuterCalls(row[order], place[node_of_call], thread[order], begin[order], finish[order], place[before[order]])


QUEUE: Final = 1_022
"""So many unfinished operations fit into a stream's queue: the next launch waits until the oldest has ended."""


class StreamOrder(Struct, frozen=True, eq=False):
    """Operations are the activities of a trace, by their positions."""

    stream: NDArray[np.int32]
    by_stream: tuple[Positions, ...]  # of each stream its operations, in order
    before: Positions  # the operation of its stream that had the latest end so far; -1: it is the stream's first
    reach_ns: Ints  # when its stream has come past it
    oldest: Positions  # the operation that must be over for it to have room in its stream's queue; -1: there is room


def streams_by_process(work: Activities, streams: StreamOrder) -> RowsByKey:
    """The numbers of the streams that each process has."""
    return RowsByKey.of(np.array([work.pid[rows[0]] for rows in streams.by_stream], np.int64))


def stream_order(work: Activities) -> StreamOrder:
    """Streams are told apart by process, GPU, context and number."""
    stream = _stream_numbers(work)
    count = int(stream.max(initial=-1)) + 1
    if count == 1:
        by_stream: tuple[Positions, ...] = (np.arange(len(stream)),)
    else:
        number = stream.astype(np.int16) if count < 1 << 15 else stream  # which numpy sorts by their digits
        order = np.argsort(number, kind="stable")
        edges = np.append(0, np.cumsum(np.bincount(stream, minlength=count))).tolist()
        by_stream = tuple(order[first:last] for first, last in pairwise(edges))
    before, reach, oldest = (np.empty(len(work), np.int64) for _ in range(3))
    if is_compiled():
        native.streams(stream, np.ascontiguousarray(work.end_ns), before, reach, oldest, count, QUEUE)
    else:
        before[:] = oldest[:] = -1
        for rows in by_stream:
            before[rows[1:]] = rows[last_to_end(work.end_ns[rows])[:-1]]
            reach[rows] = furthest(work.end_ns[rows])
            oldest[rows[QUEUE:]] = rows[:-QUEUE]
    return StreamOrder(stream, by_stream, before, reach, oldest)


def _stream_numbers(work: Activities) -> NDArray[np.int32]:
    keys = [key for key in (work.pid, work.gpu, work.gathered("context"), work.stream) if len(key) and not is_same(key)]
    numbers = [number for _, number in map(group, keys) if number.any()]
    if not numbers:
        return np.zeros(len(work), np.int32)
    together = numbers[0]
    for number in numbers[1:]:  # numbered anew each time: the product of all may be beyond 64 bits
        together = group(together * (int(number.max()) + 1) + number)[1]
    return together.astype(np.int32)

"""Operations by stream: which stream each is in, and when the stream had come past all that precede it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.ledger.activity import Activities
from gpuledger.replay.native_passes import is_compiled, native
from gpuledger.trace.columns import is_same
from gpuledger.trace.keys import Positions, RowsByKey, group
from gpuledger.trace.spans import Ints, furthest
from gpuledger.trace.sweep import last_to_end

QUEUE: Final = 1_022
"""So many unfinished operations fit into a stream's queue: the next launch waits until the oldest has ended."""


@dataclass(frozen=True, slots=True, eq=False)
class StreamOrder:
    """Operations are the activities of a trace, by their positions."""

    stream: NDArray[np.int32]
    by_stream: tuple[Positions, ...]
    """Of each stream its operations, in order."""
    before: Positions
    """The operation of its stream that had the latest end so far; -1: it is the stream's first."""
    reach_ns: Ints
    """When its stream has come past it."""
    oldest: Positions
    """The operation that must be over for it to have room in its stream's queue; -1: there is room."""


def streams_by_process(work: Activities, streams: StreamOrder) -> RowsByKey:
    """The numbers of the streams that each process has."""
    return RowsByKey.of(np.array([work.pid[rows[0]] for rows in streams.by_stream], np.int64))


def stream_order(work: Activities) -> StreamOrder:
    """Streams are told apart by process, GPU, context and number."""
    stream = _numbered(work)
    count = int(stream.max(initial=-1)) + 1
    by_stream = _by_stream(stream, count)
    before, reach, oldest = (np.empty(len(work), np.int64) for _ in range(3))
    if is_compiled():
        end = np.ascontiguousarray(work.end_ns)
        native.streams(stream, end, before, reach, oldest, count, QUEUE)
    else:
        before[:] = oldest[:] = -1
        for rows in by_stream:
            before[rows[1:]] = rows[last_to_end(work.end_ns[rows])[:-1]]
            reach[rows] = furthest(work.end_ns[rows])
            oldest[rows[QUEUE:]] = rows[:-QUEUE]
    return StreamOrder(stream, by_stream, before, reach, oldest)


def _by_stream(stream: NDArray[np.int32], count: int) -> tuple[Positions, ...]:
    if count == 1:
        return (np.arange(len(stream)),)
    number = stream.astype(np.int16) if count < 1 << 15 else stream  # which numpy sorts by their digits
    order = np.argsort(number, kind="stable")
    edges = np.append(0, np.cumsum(np.bincount(stream, minlength=count))).tolist()
    return tuple(order[first:last] for first, last in pairwise(edges))


def _numbered(work: Activities) -> NDArray[np.int32]:
    keys = [key for key in (work.pid, work.gpu, work.gathered("context"), work.stream) if len(key) and not is_same(key)]
    numbers = [number for _, number in map(group, keys) if number.any()]
    if not numbers:
        return np.zeros(len(work), np.int32)
    together = numbers[0]
    for number in numbers[1:]:  # numbered anew each time: the product of all may be beyond 64 bits
        together = group(together * (int(number.max()) + 1) + number)[1]
    return together.astype(np.int32)

"""Operations by stream: which stream each is in, and when the stream had come past all that precede it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuledger.ledger.activity import Activities
from gpuledger.trace.columns import is_same
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.spans import Ints, furthest
from gpuledger.trace.sweep import last_to_end


@dataclass(frozen=True, slots=True, eq=False)
class StreamOrder:
    """Operations are the activities of a trace, by their positions."""

    stream: NDArray[np.int32]
    by_stream: tuple[Positions, ...]
    """Of each stream its operations, in order."""
    before: Positions
    """The operation of its stream that had the latest end so far; -1: it is the stream's first."""

    def far_before(self, distance: int) -> Positions:
        """The operation that many places before each in its stream; -1 for none."""
        place = np.full(len(self.stream), -1, np.intp)
        for rows in self.by_stream:
            place[rows[distance:]] = rows[:-distance]
        return place


def stream_order(work: Activities) -> StreamOrder:
    """Streams are told apart by process, GPU, context and number."""
    stream = _numbered(work)
    count = int(stream.max(initial=-1)) + 1
    before = np.full(len(work), -1, np.intp)
    if count == 1:
        rows = np.arange(len(work))
        before[1:] = last_to_end(work.end_ns)[:-1]
        return StreamOrder(stream, (rows,), before)
    order = np.argsort(stream, kind="stable")
    edges = np.searchsorted(stream[order], np.arange(count + 1))
    by_stream = tuple(order[first:last] for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
    for rows in by_stream:
        before[rows[1:]] = rows[last_to_end(work.end_ns[rows])[:-1]]
    return StreamOrder(stream, by_stream, before)


def _numbered(work: Activities) -> NDArray[np.int32]:
    number = np.zeros(len(work), np.int64)
    for key in (work.pid, work.gpu, work.gathered("context"), work.stream):
        if len(key) and not is_same(key):
            _, own = group(key)
            number = number * (int(own.max()) + 1) + own
    return group(number)[1].astype(np.int32) if number.any() else number.astype(np.int32)


def reached_ns(end_ns: Ints, order: StreamOrder) -> Ints:
    """When the stream of each operation has come past it."""
    reach = np.empty(len(end_ns), np.int64)
    for rows in order.by_stream:
        reach[rows] = furthest(end_ns[rows])
    return reach

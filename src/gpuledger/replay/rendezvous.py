"""Operations that meet: a collective's kernels on several GPUs. Each ends its transfer after the last has begun.

Who began sooner waits inside its kernel. Groups that could not be replayed so are left out, and their kernels keep
their durations: where one ended before the last began, two of one stream, or something began at a member's end that
was over before the last began.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuledger.ledger.activity import Activities
from gpuledger.replay.stream_order import StreamOrder
from gpuledger.trace.columns import distinct
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.spans import Ints
from gpuledger.trace.sweep import fold


@dataclass(frozen=True, slots=True, eq=False)
class Rendezvous:
    """Columns as long as the operations."""

    group: NDArray[np.int32]
    """-1: it meets nobody."""
    duration_ns: Ints
    """What an operation takes; of those that meet from when the last has begun."""
    groups: int


def rendezvous(
    work: Activities, streams: StreamOrder, meetings: NDArray[np.signedinteger] | None, depends: tuple[Ints, Ints]
) -> Rendezvous:
    """`meetings` numbers those that meet; `depends` are operations that something waits for, and when that went on."""
    numbers, duration = np.full(len(work), -1, np.int32), work.end_ns - work.start_ns
    member = np.flatnonzero(meetings >= 0) if meetings is not None else np.empty(0, np.intp)
    if meetings is None or not len(member):
        return Rendezvous(numbers, duration, 0)
    first, meeting = group(meetings[member])
    start, end = work.start_ns[member], work.end_ns[member]
    last = fold("most", meeting, start, np.full(len(first), np.iinfo(np.int64).min))
    first_end = fold("least", meeting, end, np.full(len(first), np.iinfo(np.int64).max))
    count = np.bincount(meeting, minlength=len(first))
    several = len(streams.by_stream) + 1
    apart = np.bincount(distinct(meeting * several + streams.stream[member]) // several, minlength=len(first))
    meets = (last < first_end) & (count > 1) & (apart == count)
    goes_on = np.append(_next_start(work, streams, member), depends[1])
    source = np.append(member, depends[0])
    of_member = np.full(len(work), -1, np.int64)
    of_member[member] = meeting
    held = of_member[source]
    meets[held[(held >= 0) & (goes_on <= last[held])]] = False
    number = np.where(meets, np.cumsum(meets) - 1, -1)
    numbers[member] = number[meeting]
    duration[member] = np.where(meets[meeting], end - last[meeting], duration[member])
    return Rendezvous(numbers, duration, int(meets.sum()))


def _next_start(work: Activities, streams: StreamOrder, member: Positions) -> Ints:
    """When the next operation of each one's stream began; of the last one never."""
    following = np.full(len(member), np.iinfo(np.int64).max)
    stream = streams.stream[member]
    for number in distinct(stream).tolist():
        rows, mine = streams.by_stream[number], np.flatnonzero(stream == number)
        place = np.searchsorted(rows, member[mine]) + 1
        there = place < len(rows)
        following[mine[there]] = work.start_ns[rows[place[there]]]
    return following

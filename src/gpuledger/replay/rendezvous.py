"""Operations that meet: a collective's kernels on several GPUs. Each ends its transfer after the last has begun.

Who began sooner waits inside its kernel. Groups that could not be replayed so are left out, and their kernels keep
their durations: where one ended before the last began, two of one stream, or something began at a member's end that
was over before the last began.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gpuledger.replay.graph import DependencyGraph
from gpuledger.trace.columns import distinct
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.spans import Ints
from gpuledger.trace.sweep import fold


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
    source, goes_on = _what_follows(graph, member)
    of_member = np.full(len(operations), -1, np.int64)
    of_member[member] = meeting
    held = of_member[source]
    meets[held[(held >= 0) & (goes_on <= last[held])]] = False
    number = np.where(meets, np.cumsum(meets) - 1, -1)
    numbers, duration = np.full(len(operations), -1, np.int32), operations.duration_ns.copy()
    numbers[member] = number[meeting]
    duration[member] = np.where(meets[meeting], end - last[meeting], duration[member])
    return replace(graph, operations=replace(operations, group=numbers, duration_ns=duration), groups=int(meets.sum()))


def _what_follows(graph: DependencyGraph, member: Positions) -> tuple[Positions, Ints]:
    """Operations that something waits for, and when that went on: calls, operations elsewhere, the next in a stream."""
    calls, recorded, other = graph.calls, graph.recorded, graph.operations.other
    waiting = np.repeat(np.arange(len(calls)), np.diff(calls.first_wait))
    waits = np.flatnonzero(other >= 0)
    return (
        np.concatenate((member, graph.wait, other[waits])),
        np.concatenate((_next_start(graph, member), recorded.call_end[waiting], recorded.start[waits])),
    )


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

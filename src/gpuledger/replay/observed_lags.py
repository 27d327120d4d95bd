"""How long after its call, and after its stream, each operation began, as recorded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuledger.ledger.activity import Activities
from gpuledger.replay.native_passes import is_compiled, native
from gpuledger.replay.outer_calls import OuterCalls
from gpuledger.replay.stream_order import StreamOrder
from gpuledger.trace.spans import Ints


@dataclass(frozen=True, slots=True, eq=False)
class ObservedLags:
    """Columns as long as the operations."""

    from_begin: NDArray[np.bool_]
    """Which begin inside a call that holds them: their lag counts from where it begins."""
    same_launch: NDArray[np.bool_]
    """Which were launched together with the one before them in their stream, as a graph's nodes are."""
    since_call: Ints
    since_stream: Ints
    """From the end of the one before it in its stream; 0 without one."""


def observed_lags(
    outer: OuterCalls, work: Activities, launch: Ints, streams: StreamOrder, holds: NDArray[np.bool_]
) -> ObservedLags:
    """`holds`: which calls wait for what they launched, or take long by themselves."""
    start, end, before = work.start_ns, work.end_ns, streams.before
    if is_compiled():
        inside, same_launch = np.empty(len(work), np.bool_), np.empty(len(work), np.bool_)
        since_call, since_stream = np.empty(len(work), np.int64), np.empty(len(work), np.int64)
        native.lags(
            *(launch, before, np.ascontiguousarray(start), np.ascontiguousarray(end)),
            *(outer.begin_ns, outer.end_ns, holds.view(np.int8)),
            *(inside.view(np.int8), same_launch.view(np.int8), since_call, since_stream),
        )
        return ObservedLags(inside, same_launch, since_call, since_stream)
    if not len(outer):
        none = np.zeros(len(work), np.bool_)
        return ObservedLags(none, none, np.zeros(len(work), np.int64), _since_stream(start, end, before))
    same_launch = (before >= 0) & (launch >= 0) & (launch[before] == launch)
    inside = (launch >= 0) & (start < outer.end_ns[launch]) & (holds[launch] | same_launch)
    counted_from = np.where(inside, outer.begin_ns[launch], outer.end_ns[launch])
    since_call = np.where(launch >= 0, start - counted_from, 0)
    return ObservedLags(inside, same_launch, since_call, _since_stream(start, end, before))


def _since_stream(start: Ints, end: Ints, before: Ints) -> Ints:
    return np.where(before >= 0, start - end[before], 0) if len(start) else np.empty(0, np.int64)

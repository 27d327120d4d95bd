"""The graph of all ranks with some of them fixed: joined ranks and what is fixed in, an edited graph out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.ranks.joined_ranks import JoinedRanks
from gpuledger.analyse.ranks.median_pace import MedianPace
from gpuledger.analyse.ranks.rank_work import OF_CODE, WorkPart
from gpuledger.analyse.ranks.slow_collectives import SlowPlace
from gpuledger.replay.graph import CallNodes, DependencyGraph
from gpuledger.trace.spans import Ints


@dataclass(frozen=True, slots=True, eq=False)
class Fixed:
    """What is fixed."""

    at_median: NDArray[np.bool_]
    """A row per rank, a column per part of its work: whether it takes what the median rank's does."""
    factor: NDArray[np.float64]
    """By the same: what it takes, as a multiple."""
    places: tuple[SlowPlace, ...] = ()
    """Collectives that take as long as their like."""


def nothing_fixed(ranks: JoinedRanks) -> Fixed:
    """To begin with."""
    shape = (ranks.ranks, len(WorkPart))
    return Fixed(np.zeros(shape, np.bool_), np.ones(shape))


def fixed_graph(ranks: JoinedRanks, pace: MedianPace, fixed: Fixed) -> DependencyGraph:
    """What a rank does itself changes; its waiting follows from that."""
    graph, rank, part = ranks.graph, ranks.rank_of_operation, ranks.part
    duration = graph.operations.duration_ns + np.where(fixed.at_median[rank, part], pace.operation_ns, 0)
    own = (ranks.lane < 0) & (ranks.step >= 0)
    duration = _times(duration, np.where(own, fixed.factor[rank, part], 1.0))
    for place in fixed.places:
        duration[place.operations] += place.change_ns
    return replace(
        graph,
        calls=_calls(ranks, pace, fixed),
        operations=replace(graph.operations, duration_ns=np.maximum(duration, 0)),
    )


def _calls(ranks: JoinedRanks, pace: MedianPace, fixed: Fixed) -> CallNodes:
    calls, rank = ranks.graph.calls, ranks.rank_of_call
    host, factor = fixed.at_median[rank, WorkPart.HOST], fixed.factor[rank, WorkPart.HOST]
    duration = _times(calls.duration_ns + np.where(host, pace.call_ns, 0), factor)
    code = calls.code_ns + np.where(host, pace.code_ns, 0)
    for column, known in enumerate(OF_CODE):
        code += np.where(fixed.at_median[rank, known], pace.known_code_ns[:, column], 0)
    code = np.where(ranks.is_first_call, calls.code_ns, np.maximum(_times(code, factor), 0))
    after = np.where(calls.after >= 0, np.maximum(calls.after_ns + code - calls.code_ns, 0), calls.after_ns)
    return replace(calls, code_ns=code, duration_ns=np.maximum(duration, 0), after_ns=after)


def _times(values: Ints, factor: NDArray[np.float64]) -> Ints:
    """Exactly as they were where the factor is 1."""
    return np.where(factor == 1, values, np.rint(values * factor).astype(np.int64))

"""A job's ranks as one dependency graph: their kept steps in; the graph in which their collectives meet out.

Times are on the first rank's clock, steps go by the first rank's numbers. Replayed as it is, every rank's times come
out as they were recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.ranks.clocks import RankClock
from gpuledger.analyse.ranks.matching import Lane
from gpuledger.analyse.ranks.rank import RankSummary
from gpuledger.analyse.ranks.rank_steps import step_shifts
from gpuledger.analyse.ranks.rank_work import RankWork, WorkPart
from gpuledger.messages import say
from gpuledger.replay.graph import DependencyGraph, Times
from gpuledger.replay.joined import JoinedGraphs, joined
from gpuledger.replay.rendezvous import with_rendezvous
from gpuledger.replay.scenario import Anchor, AnchorKind
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.spans import Ints, Span, Spans, clip, total


@dataclass(frozen=True, slots=True, eq=False)
class JoinedRanks:
    """All ranks together."""

    graph: DependencyGraph
    rank_of_call: Ints
    rank_of_operation: Ints
    part: NDArray[np.int8]
    """The `WorkPart` of each operation."""
    code_ns: Ints
    """Of the code before each call, a column for each of `OF_CODE`."""
    synchronises: NDArray[np.bool_]
    """Which calls wait for the device."""
    step: Ints
    """The step that each operation begins in; -1: in none that all ranks have."""
    first_measured: int
    """The first step that is measured, of those that all ranks have; the ones before it lead up to it."""
    last: int
    """The step after the last one."""
    edges: tuple[tuple[Anchor, Anchor], ...]
    """For each rank where the measured steps begin and end."""
    lane: Ints
    row: Ints
    """For each operation the matched collective that it is part of: its lane and its row in there; -1: none."""

    @property
    def ranks(self) -> int:
        return len(self.edges)

    @property
    def steps(self) -> int:
        """How many steps are measured."""
        return self.last - self.first_measured

    @property
    def is_measured(self) -> NDArray[np.bool_]:
        """Which operations begin in a measured step."""
        measured: NDArray[np.bool_] = self.step >= self.first_measured
        return measured

    @property
    def is_first_call(self) -> NDArray[np.bool_]:
        """Which calls are their thread's first: before those lies no code, but the time at which they begin."""
        is_first = np.zeros(len(self.graph.calls), np.bool_)
        is_first[np.unique(self.graph.calls.thread, return_index=True)[1]] = True
        return is_first

    @property
    def met_share(self) -> float:
        """How many of the matched collectives in here can be replayed as waiting for the last rank."""
        matched = group(self.lane, self.row)[0]
        count = int((self.lane[matched] >= 0).sum())
        return self.graph.groups / count if count else 0.0

    def measured_ns(self, times: Times) -> int:
        """How long the measured steps take on the rank that takes the longest."""
        return max(end - begin for begin, end in self._measured(times))

    def waited_ns(self, waiting: Spans) -> int:
        """How much of some spans lies in the measured steps, as they were recorded."""
        begin, end = zip(*self._measured(self.graph.recorded), strict=True)
        return total(clip(waiting, Span(min(begin), max(end))))

    def _measured(self, times: Times) -> list[Span]:
        """When the measured steps begin and end on each rank."""
        return [Span(*(edge.in_replay(times) for edge in edges)) for edges in self.edges]


def joined_ranks(
    ranks: Sequence[RankSummary], clocks: Sequence[RankClock], lanes: Sequence[Lane]
) -> JoinedRanks | NotMeasured:
    """The ranks' graphs with their matched collectives as rendezvous."""
    works: list[RankWork] = []
    for rank in ranks:
        if isinstance(rank.work, NotMeasured):
            return rank.work
        works.append(rank.work)
    shifts = step_shifts(ranks, clocks)
    if isinstance(shifts, NotMeasured):
        return shifts
    first = max(work.first_step - by for work, by in zip(works, shifts, strict=True))
    last = min(work.first_step + len(work.edges) - 1 - by for work, by in zip(works, shifts, strict=True))
    steady = max(rank.warm_up - by for rank, by in zip(ranks, shifts, strict=True))
    measured = max(first + 1 if last - first > 1 else first, steady)
    if measured >= last:
        return NotMeasured(say("no step is covered by every rank: their profiles start too far apart"))
    ahead = [clock.offset_ns for clock in clocks]
    together = joined([work.graph for work in works], ahead)
    step = np.concatenate(
        [np.where(work.step < 0, -1, work.step - by) for work, by in zip(works, shifts, strict=True)]
    ).astype(np.int64)
    part = np.concatenate([work.part for work in works])
    lane, row = _collectives(lanes, together, part)
    return JoinedRanks(
        graph=with_rendezvous(together.graph, _numbers(lane, row, lanes)),
        rank_of_call=together.of_call,
        rank_of_operation=together.of_operation,
        part=part,
        code_ns=np.concatenate([work.code_ns for work in works]),
        synchronises=np.concatenate([work.synchronises for work in works]),
        step=np.where((step >= first) & (step < last), step, -1),
        first_measured=measured,
        last=last,
        edges=tuple(
            (
                _moved(work.edges[measured + by - work.first_step], together, rank, ahead[rank]),
                _moved(work.edges[last + by - work.first_step], together, rank, ahead[rank]),
            )
            for rank, (work, by) in enumerate(zip(works, shifts, strict=True))
        ),
        lane=lane,
        row=row,
    )


def _moved(anchor: Anchor, together: JoinedGraphs, rank: int, ahead_ns: int) -> Anchor:
    """The same instant in the graph of all."""
    if anchor.kind is AnchorKind.CLOCK:
        return replace(anchor, after_ns=anchor.after_ns - ahead_ns)
    first = together.first_call if anchor.kind is AnchorKind.CALL else together.first_operation
    return replace(anchor, position=anchor.position + first[rank])


def _collectives(lanes: Sequence[Lane], together: JoinedGraphs, part: NDArray[np.int8]) -> tuple[Ints, Ints]:
    """For each operation the lane and the row of its collective, where all members' kernels are there; -1: none."""
    lane_of, row_of = (np.full(len(part), -1, np.int64) for _ in range(2))
    start = together.graph.recorded.start
    communicates = part == WorkPart.COMM
    own = [np.flatnonzero(communicates & (together.of_operation == rank)) for rank in range(len(together.first_call))]
    for number, lane in enumerate(lanes):
        operations = np.stack(
            [_beginning_at(start, own[member], lane.start_ns[:, column]) for column, member in enumerate(lane.members)],
            axis=1,
        )
        rows = np.flatnonzero((operations >= 0).all(axis=1))
        lane_of[operations[rows]] = number
        row_of[operations[rows]] = rows[:, None]
    return lane_of, row_of


def _beginning_at(start: Ints, own: Positions, start_ns: Ints) -> Positions:
    """Which of a rank's communication kernels begins at each of these instants; -1 where it cannot be told."""
    if not len(own):
        return np.full(len(start_ns), -1, np.intp)
    first, last = (np.searchsorted(start[own], start_ns, side=side) for side in ("left", "right"))
    return np.where(last == first + 1, own[np.minimum(first, len(own) - 1)], -1)


def _numbers(lane: Ints, row: Ints, lanes: Sequence[Lane]) -> Ints:
    """One number for each collective."""
    longest = max((len(each) for each in lanes), default=0)
    return np.where(lane >= 0, lane * longest + row, -1)

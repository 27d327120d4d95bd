"""What fixing a rank, a stage or a collective saves: a job in; its graph replayed with each at the median pace, out.

A fixed rank takes for every stretch between two collectives what the median rank of its role takes, a fixed stage in
all what the median stage takes, a fixed collective what its like take. What is saved is the difference of two replays
of all ranks together, so that a rank which waits less comes earlier to its next collective, and may wait there instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from gpuledger.analyse.ranks.job import Job
from gpuledger.analyse.ranks.joined_ranks import (
    Fixed,
    JoinedRanks,
    SlowPlace,
    fixed_graph,
    joined_ranks,
    median_pace,
    slow_places,
)
from gpuledger.analyse.ranks.matching import Lane
from gpuledger.analyse.ranks.rank import OF_CODE, RankSummary, WorkPart
from gpuledger.analyse.ranks.rank_collectives import KINDS, Group
from gpuledger.messages import say
from gpuledger.replay.graph import Times
from gpuledger.replay.passes import replay_times
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.spans import Ints
from gpuledger.trace.sweep import fold

_SENDS: Final = KINDS.index("send_recv")


def stages(ranks: Sequence[RankSummary]) -> tuple[tuple[int, ...], ...]:
    """The ranks of each stage of a pipeline, as positions in `ranks`, in order; none where there are no stages."""
    position = {rank.rank: place for place, rank in enumerate(ranks) if rank.rank is not None}
    kinds_of: dict[Group, set[int]] = {}  # what kinds of collectives the groups do whose ranks are known
    for collectives in (rank.collectives for rank in ranks):
        for named, part in collectives.parts:
            if named is not None and named.ranks:
                kinds_of.setdefault(named, set()).update(np.unique(part.column("kind")).tolist())
    stage = list(range(len(ranks)))  # for each rank the lowest that it is connected with
    sends: list[list[int]] = []
    for named, kinds in kinds_of.items():
        places = [position[number] for number in named.ranks if number in position]
        if kinds <= {_SENDS}:
            sends.append(places)
        elif places and len(places) < len(ranks):
            connected = {stage[place] for place in places}
            stage = [min(connected) if number in connected else number for number in stage]
    if not any(len({stage[place] for place in places}) > 1 for places in sends):
        return ()
    members_of: dict[int, list[int]] = {}
    for place, number in enumerate(stage):
        members_of.setdefault(number, []).append(place)
    return tuple(map(tuple, members_of.values())) if len(members_of) > 1 else ()


def roles(ranks: JoinedRanks, lanes: Sequence[Lane], staged: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """A number for each rank: those with the same one are in one stage and take part in the same collectives."""
    stage = {rank: number for number, members in enumerate(staged) for rank in members}
    met = np.flatnonzero((ranks.lane >= 0) & ranks.is_measured)
    numbers: dict[tuple[object, ...], int] = {}
    role_of = []
    for rank in range(ranks.ranks):
        own = met[ranks.rank_of_operation[met] == rank]
        counts = Counter[tuple[int, int]]()
        for number in np.unique(ranks.lane[own]).tolist():
            kinds = lanes[number].kind[ranks.row[own[ranks.lane[own] == number]]]
            counts.update((kind, lanes[number].size) for kind in kinds.tolist())
        role_of.append(numbers.setdefault((stage.get(rank), *sorted(counts.items())), len(numbers)))
    return tuple(role_of)


class StagePace(Struct, frozen=True, eq=False):
    """Stages against the median stage: a row for each of them, a column per part of the work."""

    factor: NDArray[np.float64]  # with it, a part takes as long as the median stage's; never more than 1
    longer_ns: Ints  # by how much it takes longer, per rank and step


def stage_pace(ranks: JoinedRanks, staged: Sequence[tuple[int, ...]]) -> StagePace:
    """How the stages differ."""
    parts, graph = len(WorkPart), ranks.graph
    own = np.flatnonzero(ranks.is_measured & (ranks.lane < 0))
    place = ranks.rank_of_operation[own] * parts + ranks.part[own]
    work = np.bincount(place, graph.operations.duration_ns[own], minlength=ranks.ranks * parts).reshape(-1, parts)
    totals = work / ranks.steps
    host = np.where(ranks.is_first_call, 0, graph.calls.code_ns + graph.calls.duration_ns)
    in_all = ranks.last - int(ranks.step[ranks.step >= 0].min(initial=ranks.first_measured))
    totals[:, WorkPart.HOST] = np.bincount(ranks.rank_of_call, host, minlength=ranks.ranks) / in_all
    by_stage = np.array([totals[list(members)].mean(axis=0) for members in staged]).reshape(-1, parts)
    middle = np.sort(by_stage, axis=0)[(len(staged) - 1) // 2] if len(staged) else by_stage
    longer = np.maximum(by_stage - middle, 0)
    return StagePace(np.where(longer > 0, middle / np.maximum(by_stage, 1), 1.0), longer.astype(np.int64))


OPERATIONS: Final = 60_000  # operations of all ranks together replayed, where their steps are not longer
MOST_IN_ORDER: Final = 12  # so many are fixed one after the other
MOST_RANKS: Final = 16  # so many ranks, those most waited for, are fixed alone
MOST_PLACES: Final = 6  # so many collectives
TRIED: Final = 3  # of so many that look the most promising the one that saves the most comes next
WORTH_TRYING: Final = 0.001  # of the measured time: for less nothing is replayed


class FixKind(StrEnum):
    """What is fixed."""

    RANK = "rank"
    STAGE = "stage"
    COLLECTIVE = "collective"


class Excess(Struct, frozen=True):
    """In what a rank, a stage's ranks on average or a collective take longer than the median, per step."""

    part: WorkPart
    longer_ns: int
    saves_ns: int  # what it would save if only this took as long as the median's


class Fix(Struct, frozen=True):
    """One rank, stage or collective at the median pace. Times are per step."""

    kind: FixKind
    number: int  # of the rank in `Job.ranks`, of the stage or of the collective
    ranks: tuple[int, ...]
    """Positions in `Job.ranks`: the rank, those of the stage, those that take part in the collective."""
    place: SlowPlace | None  # the collective; None where it is none
    alone_ns: int  # what the job's step would be shorter by if only this were fixed
    then_ns: int  # and by how much more if all before it are fixed too
    excess: tuple[Excess, ...]  # what makes it slow, what saves the most first; of a collective its transfer


class Fixing(Struct, frozen=True):
    """What can be had. Times are per step."""

    step_ns: int  # how long the job's step takes, on the rank that takes the longest
    steps: int  # so many steps were replayed
    met_share: float  # of the matched collectives in them, how many could be replayed as waiting for the last rank
    alone_ns: tuple[int | None, ...]
    """For each rank what fixing it alone saves; None: not tried, as others are waited for far more."""
    in_order: tuple[Fix, ...]
    """Of what makes ranks late the one that saves the most first, then what still saves the most, until there is next
    to nothing to gain; then collectives of all ranks, in the same way."""

    @property
    def of_late_ranks(self) -> tuple[Fix, ...]:
        """What makes ranks late: they themselves, their stage, a collective of some of them; not one of all ranks."""
        return tuple(fix for fix in self.in_order if fix.place is None or len(fix.ranks) < len(self.alone_ns))


def fixing(job: Job) -> Fixing | NotMeasured:
    """What fixing each of a job's ranks, stages and collectives saves, alone and one after the other."""
    if len(job.ranks) < 2 or not job.lanes:
        return NotMeasured(say("no collective was found on several ranks"))
    ranks = joined_ranks(job.ranks, job.clocks, job.lanes)
    return ranks if isinstance(ranks, NotMeasured) else _Search(job, ranks).fixing()


class _Candidate(NamedTuple):
    """What may be fixed."""

    kind: FixKind
    number: int


class _Search:
    """Tries what looks promising, and keeps what saves the most."""

    def __init__(self, job: Job, ranks: JoinedRanks) -> None:
        self.ranks, self.graph = ranks, ranks.graph
        self.waited_ns = ranks.waited_ns(job.waiting)
        self.stages = stages(job.ranks)
        self.pace = median_pace(ranks, roles(ranks, job.lanes, self.stages))
        self.stage_pace = stage_pace(ranks, self.stages)
        self.places = slow_places(ranks, job.lanes, MOST_PLACES)
        self.longer_ns = self._longer_ns()
        self.member = np.flatnonzero(self.graph.operations.group >= 0)
        self.meeting = self.graph.operations.group[self.member]
        before = replay_times(self.graph)
        self.whole_ns, self.blame_ns = ranks.measured_ns(before), self._blame_ns(before)
        self.least_ns = max(WORTH_TRYING * self.whole_ns, 1)

    def fixing(self) -> Fixing:
        """Each candidate alone, then one after the other."""
        steps, blame = self.ranks.steps, self.blame_ns
        slow, slow_stages = ((longer > 0).any(axis=1) for longer in (self.longer_ns, self.stage_pace.longer_ns))
        ranks = [_Candidate(FixKind.RANK, rank) for rank in np.flatnonzero(slow).tolist()]
        others = [
            *(_Candidate(FixKind.STAGE, number) for number in np.flatnonzero(slow_stages).tolist()),
            *(_Candidate(FixKind.COLLECTIVE, number) for number in range(len(self.places))),
        ]
        nothing = Fixed.nothing(self.ranks)
        alone = {
            candidate: self._saved_ns(candidate, self.whole_ns - self._measured_ns(self._with(nothing, candidate)))
            for candidate in (*sorted(ranks, key=lambda rank: -blame[rank.number])[:MOST_RANKS], *others)
            if self._promise_ns(candidate, blame) >= self.least_ns
        }
        every_rank = (_Candidate(FixKind.RANK, number) for number in range(self.ranks.ranks))
        return Fixing(
            step_ns=self.whole_ns // steps,
            steps=steps,
            met_share=self.ranks.met_share,
            alone_ns=tuple(
                alone[rank] // steps if rank in alone else None if self._promise_ns(rank, blame) >= self.least_ns else 0
                for rank in every_rank
            ),
            in_order=self._in_order([*ranks, *others], alone),
        )

    def _in_order(self, candidates: list[_Candidate], alone: dict[_Candidate, int]) -> tuple[Fix, ...]:
        """One after the other, until nobody waits for long; at last collectives that begin when all ranks have come."""
        order: list[Fix] = []
        fixed, now, blame_ns = Fixed.nothing(self.ranks), self.whole_ns, self.blame_ns
        for are_of_all in (False, True):
            left = [candidate for candidate in candidates if self._is_of_all(candidate) == are_of_all]
            fixes: list[Fix] = []
            while left and len(fixes) < MOST_IN_ORDER:
                promises = {candidate: self._promise_ns(candidate, blame_ns) for candidate in left}
                left = sorted(left, key=lambda candidate: -promises[candidate])
                tried = [candidate for candidate in left[:TRIED] if promises[candidate] >= self.least_ns]
                if not tried:
                    break
                measured = [self._measured_ns(self._with(fixed, candidate)) for candidate in tried]
                best = int(np.argmin(measured))
                # what saves nothing by itself may with others that are as late
                chosen, after = (tried[best], measured[best]) if measured[best] < now else (tried[0], now)
                saved = sum(fix.then_ns for fix in fixes) * self.ranks.steps
                saves = self._saved_ns(chosen, now - after, saved)
                fixes.append(self._fix(chosen, fixed, now, saves, alone.get(chosen, 0)))
                left.remove(chosen)
                fixed, now = self._with(fixed, chosen), after
                blame_ns = self._blame_ns(replay_times(fixed_graph(self.ranks, self.pace, fixed)))
            while fixes and fixes[-1].then_ns * self.ranks.steps < self.least_ns:
                fixes.pop()
            order += fixes
        return tuple(order)

    def _saved_ns(self, candidate: _Candidate, shorter_ns: int, before_ns: int = 0) -> int:
        """What is told to be saved: by late ranks never more, in all, than the time in which some rank waits."""
        most = shorter_ns if self._is_of_all(candidate) else self.waited_ns - before_ns
        return max(min(shorter_ns, most), 0)

    def _is_of_all(self, candidate: _Candidate) -> bool:
        """Whether it is a collective of all ranks: it makes nobody late."""
        return candidate.kind is FixKind.COLLECTIVE and len(self._members(candidate)) == self.ranks.ranks

    def _fix(self, candidate: _Candidate, fixed: Fixed, now_ns: int, saved_ns: int, alone_ns: int) -> Fix:
        steps, place = self.ranks.steps, None
        if candidate.kind is FixKind.COLLECTIVE:
            place = self.places[candidate.number]
            excess = [Excess(WorkPart.COMM, place.longer_ns // steps, saved_ns // steps)]
        else:
            longer = self.longer_ns if candidate.kind is FixKind.RANK else self.stage_pace.longer_ns
            excess = []
            for part in WorkPart:
                if longer[candidate.number, part] > 0:
                    saves = now_ns - self._measured_ns(self._with(fixed, candidate, part)) if saved_ns else 0
                    excess.append(Excess(part, int(longer[candidate.number, part]), max(saves, 0) // steps))
        return Fix(
            kind=candidate.kind,
            number=candidate.number,
            ranks=self._members(candidate),
            place=place,
            alone_ns=alone_ns // steps,
            then_ns=saved_ns // steps,
            excess=tuple(sorted(excess, key=lambda one: (-one.saves_ns, -one.longer_ns))),
        )

    def _members(self, candidate: _Candidate) -> tuple[int, ...]:
        if candidate.kind is FixKind.COLLECTIVE:
            return self.places[candidate.number].members
        return (candidate.number,) if candidate.kind is FixKind.RANK else self.stages[candidate.number]

    def _with(self, fixed: Fixed, candidate: _Candidate, only: WorkPart | None = None) -> Fixed:
        """One more that is fixed, or `only` a part of its work."""
        if candidate.kind is FixKind.COLLECTIVE:
            return replace(fixed, places=(*fixed.places, self.places[candidate.number]))
        parts = np.array(WorkPart if only is None else [only])
        rows = np.ix_(np.array(self._members(candidate)), parts)
        if candidate.kind is FixKind.STAGE:
            factor = fixed.factor.copy()
            factor[rows] = self.stage_pace.factor[candidate.number][parts]
            return replace(fixed, factor=factor)
        at_median = fixed.at_median.copy()
        at_median[rows] = True
        return replace(fixed, at_median=at_median)

    def _measured_ns(self, fixed: Fixed) -> int:
        return self.ranks.measured_ns(replay_times(fixed_graph(self.ranks, self.pace, fixed)))

    def _promise_ns(self, candidate: _Candidate, blame_ns: NDArray[np.float64]) -> float:
        if candidate.kind is FixKind.COLLECTIVE:
            return float(self.places[candidate.number].longer_ns)
        return float(blame_ns[list(self._members(candidate))].sum())

    def _blame_ns(self, times: Times) -> NDArray[np.float64]:
        """For each rank what another one waits, on average, at the collectives where it is the last."""
        meetings, start = self.graph.groups, times.start[self.member]
        met = fold("most", self.meeting, start, np.full(meetings, np.iinfo(np.int64).min))
        waited = np.where(self.ranks.is_measured[self.member], met[self.meeting] - start, 0)
        others = np.maximum(np.bincount(self.meeting, minlength=meetings) - 1, 1)
        waits = np.bincount(self.meeting, waited, minlength=meetings) / others
        last = np.zeros(meetings, np.int64)
        is_last = np.flatnonzero(start == met[self.meeting])[::-1]  # of those that come together the first
        last[self.meeting[is_last]] = self.ranks.rank_of_operation[self.member[is_last]]
        return np.bincount(last, waits, minlength=self.ranks.ranks).astype(np.float64)

    def _longer_ns(self) -> Ints:
        """For each rank and part of its work by how much it takes longer than the median rank, per step."""
        ranks, pace, parts = self.ranks, self.pace, len(WorkPart)
        measured = np.flatnonzero(ranks.is_measured)
        place = ranks.rank_of_operation[measured] * parts + ranks.part[measured]
        longer = np.bincount(place, -pace.operation_ns[measured], minlength=ranks.ranks * parts)
        columns = {WorkPart.HOST: pace.call_ns + pace.code_ns}
        columns |= dict(zip(OF_CODE, pace.known_code_ns.T, strict=True))
        calls = np.flatnonzero(pace.is_measured)
        for part, change in columns.items():
            longer += np.bincount(ranks.rank_of_call[calls] * parts + part, -change[calls], minlength=len(longer))
        return np.rint(longer.reshape(-1, parts) / ranks.steps).astype(np.int64)

"""Who does the same work: stages of a pipeline, and ranks that can be compared with one another.

Ranks of a stage talk to each other in collectives (the data and tensor parallel groups), ranks of different stages only
send and receive. So stages are what the collectives of groups smaller than the job connect, if something is sent
between them. Where groups are not recorded, or everything is connected, there are none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.ranks.joined_ranks import JoinedRanks
from gpuledger.analyse.ranks.matching import Lane
from gpuledger.analyse.ranks.rank import RankSummary
from gpuledger.analyse.ranks.rank_collectives import KINDS, Group
from gpuledger.analyse.ranks.rank_work import WorkPart
from gpuledger.trace.spans import Ints

_SENDS: Final = KINDS.index("send_recv")


def stages(ranks: Sequence[RankSummary]) -> tuple[tuple[int, ...], ...]:
    """The ranks of each stage, as positions in `ranks`, in order; none where there are no stages."""
    position = {rank.rank: place for place, rank in enumerate(ranks) if rank.rank is not None}
    together: list[list[int]] = []
    sends: list[list[int]] = []
    for members, kinds in _groups(ranks):
        places = [position[number] for number in members if number in position]
        if kinds <= {_SENDS}:
            sends.append(places)
        elif len(places) < len(ranks):
            together.append(places)
    stage = _connected(len(ranks), together)
    if not any(len({stage[place] for place in places}) > 1 for places in sends):
        return ()
    members_of: dict[int, list[int]] = {}
    for place, number in enumerate(stage):
        members_of.setdefault(number, []).append(place)
    return tuple(map(tuple, members_of.values())) if len(members_of) > 1 else ()


def _groups(ranks: Sequence[RankSummary]) -> Iterable[tuple[tuple[int, ...], set[int]]]:
    """The process groups whose ranks are known, and what kinds of collectives they do."""
    kinds_of: dict[Group, set[int]] = {}
    for rank in ranks:
        collectives = rank.collectives
        for number, named in enumerate(collectives.groups):
            kinds = np.unique(collectives.kind[collectives.group == number]).tolist()
            if named.ranks and kinds:
                kinds_of.setdefault(named, set()).update(kinds)
    return ((named.ranks, kinds) for named, kinds in kinds_of.items())


def _connected(count: int, groups: Iterable[Sequence[int]]) -> list[int]:
    """For each the lowest that it is connected with."""
    lowest = list(range(count))
    for places in groups:
        joined = {lowest[place] for place in places}
        if len(joined) > 1:
            least = min(joined)
            lowest = [least if number in joined else number for number in lowest]
    return lowest


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


@dataclass(frozen=True, slots=True, eq=False)
class StagePace:
    """Stages against the median stage: a row for each of them, a column per part of the work."""

    factor: NDArray[np.float64]
    """With it, a part takes as long as the median stage's; never more than 1."""
    longer_ns: Ints
    """By how much it takes longer, per rank and step."""


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

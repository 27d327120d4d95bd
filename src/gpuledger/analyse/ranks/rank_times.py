"""Each rank of a job per step, and who was late when: its step, compute and communication, what it waited and caused.

Times are those of the steady stretch, spread over its steps.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import numpy as np
from msgspec import Struct

from gpuledger.analyse.ranks.fixing import Fixing
from gpuledger.analyse.ranks.job import Job, step_lengths
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.spans import Ints
from gpuledger.trace.statistics import lower_median


class Waiting(Struct, frozen=True):
    """One rank's waiting at matched collectives, per step."""

    wait_ns: int
    transfer_ns: int
    late: int  # how often the rank was the last to arrive, in the whole stretch
    caused_ns: int  # what the others waited until it came, added up
    saves_ns: int | None  # what fixing only this rank saves, see `fixing`; None where that was not replayed


class RankTimes(Struct, frozen=True):
    """One rank."""

    label: str
    profile: str
    gpu_name: str
    steps: int | None  # None where no steps were found
    median_step_ns: int | None
    compute_ns: int
    exposed_comm_ns: int
    hidden_comm_ns: int
    waiting: Waiting | None  # None where no collective of this rank was matched
    matched: int
    seen: int  # collectives in this rank's profile; of them so many matched
    clock_ahead_ns: int | None
    clock_residual_ns: int | None  # None where nothing tells


def rank_times(job: Job, fixed: Fixing | NotMeasured) -> tuple[RankTimes, ...]:
    """The ranks in order."""
    saves = (None,) * len(job.ranks) if isinstance(fixed, NotMeasured) else fixed.alone_ns
    times = []
    for rank, part, clock, saves_ns in zip(job.ranks, job.parts, job.clocks, saves, strict=True):
        count = rank.step_count
        steady_ns = rank.length_ns[rank.warm_up :]
        waiting = Waiting(
            part.wait_ns // count, part.transfer_ns // count, part.late, part.caused_ns // count, saves_ns
        )
        times.append(
            RankTimes(
                label=rank.label,
                profile=rank.profile,
                gpu_name=rank.gpu_name,
                steps=count if len(rank.edges_ns) else None,
                median_step_ns=lower_median(steady_ns) if len(steady_ns) else None,
                compute_ns=rank.compute_ns // count,
                exposed_comm_ns=rank.exposed_comm_ns // count,
                hidden_comm_ns=rank.hidden_comm_ns // count,
                waiting=waiting if part.matched else None,
                matched=part.matched,
                seen=part.seen,
                clock_ahead_ns=None if isinstance(clock.ahead_ns, NotMeasured) else clock.ahead_ns,
                clock_residual_ns=None if isinstance(clock.residual_ns, NotMeasured) else clock.residual_ns,
            )
        )
    return tuple(times)


MOST_STRAGGLERS: Final = 10


class LateAt(Enum):
    """What lateness was seen at."""

    COLLECTIVES = "collectives"
    STEPS = "steps"


class Lateness(Struct, frozen=True, eq=False):
    """One number per rank and step."""

    seen_at: LateAt
    ranks: tuple[str, ...]
    steps: tuple[int, ...]  # numbers on the first rank
    late_ns: Ints  # a row per rank, a column per step


class WorstStep(Struct, frozen=True):
    """In which step a rank was the latest, and by how much."""

    step: int
    late_ns: int


class Straggler(Struct, frozen=True):
    """A rank that others waited for."""

    label: str
    profile: str
    late: int  # how often it was the last to arrive, of `counted` collectives
    counted: int
    caused_ns: int  # what the others waited for it, added up
    all_caused_ns: int  # the same for all ranks
    saves_share: float | None
    """How much shorter the job's step would be if only this one were fixed; None where that was not replayed."""
    compute_ratio: float | None  # its compute per step over the median rank's
    worst: WorstStep | None  # None where lateness was not measured


def lateness(job: Job) -> Lateness | NotMeasured:
    """How late every rank was, from collectives where there are any in steps."""
    ranks = tuple(rank.label for rank in job.ranks)
    step = np.unique(np.concatenate([np.empty(0, np.int64), *(lane.step for lane in job.lanes)]))
    step = step[step >= 0]
    if len(step):
        late = np.zeros((len(ranks), len(step)), np.int64)
        for lane in job.lanes:
            inside = np.flatnonzero(lane.step >= 0)
            column = np.searchsorted(step, lane.step[inside])
            for member in lane.members:
                np.maximum.at(late[member], column, lane.start_ns(member)[inside] - lane.first_ns[inside])
        return Lateness(LateAt.COLLECTIVES, ranks, tuple(step.tolist()), late)
    lengths = step_lengths(job)
    if isinstance(lengths, NotMeasured):
        return lengths
    longer = (lengths.length_ns - lengths.length_ns.min(axis=1, keepdims=True)).T
    return Lateness(LateAt.STEPS, ranks, tuple(lengths.steps.tolist()), longer)


def stragglers(job: Job, late: Lateness | NotMeasured, fixed: Fixing | NotMeasured) -> tuple[Straggler, ...]:
    """The ranks that others waited for, the most waited for first."""
    caused = [part.caused_ns for part in job.parts]
    compute = [rank.compute_ns / rank.step_count for rank in job.ranks]
    usual = lower_median(np.array(compute, np.int64)) if compute else 0
    waited_for = sorted(
        (rank for rank, part in enumerate(job.parts) if part.late), key=lambda rank: (-caused[rank], rank)
    )
    late_ranks = []
    for rank in waited_for[:MOST_STRAGGLERS]:
        worst, saves_share = None, None
        if not isinstance(late, NotMeasured):
            column = int(late.late_ns[rank].argmax())
            worst = WorstStep(late.steps[column], int(late.late_ns[rank, column]))
        if not isinstance(fixed, NotMeasured) and fixed.step_ns and (alone_ns := fixed.alone_ns[rank]) is not None:
            saves_share = alone_ns / fixed.step_ns
        late_ranks.append(
            Straggler(
                label=job.ranks[rank].label,
                profile=job.ranks[rank].profile,
                late=job.parts[rank].late,
                counted=job.parts[rank].counted,
                caused_ns=caused[rank],
                all_caused_ns=sum(caused),
                saves_share=saves_share,
                compute_ratio=compute[rank] / usual if usual else None,
                worst=worst,
            )
        )
    return tuple(late_ranks)

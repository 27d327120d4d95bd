"""Each rank of a job per step, and who was late when: its step, compute and communication, what it waited and caused.

Times are those of the steady stretch, spread over its steps.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Final

import numpy as np
from msgspec import Struct

from gpuledger.analyse.ranks.fixing import Fixing
from gpuledger.analyse.ranks.job import Job, step_lengths
from gpuledger.messages import say
from gpuledger.rows import Label, Row, Unit
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.statistics import lower_median


class RankTimes(Row, frozen=True):
    """One rank, per step. What is about waiting is None where no collective of it was matched."""

    rank: Annotated[str, Label(say("Rank"))]
    profile: Annotated[str, Label(say("Profile"), detail=5)]
    gpu_name: Annotated[str, Label("GPU", detail=5)]
    steps: Annotated[int | None, Label(say("Steps"), Unit.COUNT, detail=4)]
    step_ns: Annotated[int | None, Label(say("Step"), Unit.NS, meaning="the median")]
    compute_ns: Annotated[int, Label(say("Compute"), Unit.NS)]
    exposed_comm_ns: Annotated[int, Label(say("Exposed comm"), Unit.NS, detail=2)]
    hidden_comm_ns: Annotated[int, Label(say("Hidden comm"), Unit.NS, detail=3)]
    wait_ns: Annotated[int | None, Label(say("Waits"), Unit.NS)]
    transfer_ns: Annotated[int | None, Label(say("Transfers"), Unit.NS, detail=1)]
    late: Annotated[
        int | None,
        Label(say("Late"), Unit.COUNT, detail=1, meaning="how often it came as the last, in all steady steps"),
    ]
    caused_ns: Annotated[
        int | None,
        Label(
            say("Others wait for it"), Unit.NS, detail=2, meaning="what the others, added up, waited until it came last"
        ),
    ]
    saves_ns: Annotated[
        int | None,
        Label(
            say("Fixing it saves"),
            Unit.NS,
            detail=1,
            meaning="how much shorter the job's step is if this rank alone takes what the median rank takes between "
            "collectives, replayed; null: not tried",
        ),
    ]
    matched: Annotated[int, Label(say("Matched"), Unit.COUNT, detail=2, meaning="collectives found on all their ranks")]
    seen: Annotated[int, Label(say("of"), Unit.COUNT, detail=2, meaning="collectives in its profile")]
    clock_ahead_ns: Annotated[int | None, Label(say("Clock ahead"), Unit.NS, detail=3)]
    clock_residual_ns: Annotated[int | None, Label(say("give or take"), Unit.NS, detail=3)]


def rank_times(job: Job, fixed: Fixing | NotMeasured) -> tuple[RankTimes, ...]:
    """The ranks in order."""
    saves = (None,) * len(job.ranks) if isinstance(fixed, NotMeasured) else fixed.alone_ns
    times = []
    for rank, part, clock, saves_ns in zip(job.ranks, job.parts, job.clocks, saves, strict=True):
        count = rank.step_count
        steady_ns = rank.length_ns[rank.warm_up :]
        is_known = part.matched > 0
        times.append(
            RankTimes(
                rank=rank.label,
                profile=rank.profile,
                gpu_name=rank.gpu_name,
                steps=count if len(rank.edges_ns) else None,
                step_ns=lower_median(steady_ns) if len(steady_ns) else None,
                compute_ns=rank.compute_ns // count,
                exposed_comm_ns=rank.exposed_comm_ns // count,
                hidden_comm_ns=rank.hidden_comm_ns // count,
                wait_ns=part.wait_ns // count if is_known else None,
                transfer_ns=part.transfer_ns // count if is_known else None,
                late=part.late if is_known else None,
                caused_ns=part.caused_ns // count if is_known else None,
                saves_ns=saves_ns if is_known else None,
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


class Lateness(Struct, frozen=True):
    """How late each rank was in each step."""

    seen_at: LateAt
    """collectives: how late it reached those of the step, at most; steps: how much longer its step took than that of
    the fastest rank."""
    ranks: tuple[str, ...]
    steps: tuple[int, ...]
    """Numbers on the first rank."""
    late_ns: tuple[tuple[int, ...], ...]
    """A row for each of ranks, a column for each of steps."""


class Straggler(Row, frozen=True):
    """A rank that others waited for."""

    rank: Annotated[str, Label(say("Rank"))]
    late: Annotated[int, Label(say("Last to arrive"), Unit.COUNT)]
    counted: Annotated[int, Label(say("of"), Unit.COUNT, detail=3, meaning="matched collectives")]
    caused_share: Annotated[
        float, Label(say("Waited for"), Unit.SHARE, detail=1, meaning="of what ranks waited for each other")
    ]
    saves_share: Annotated[
        float | None,
        Label(say("Step shorter by"), Unit.SHARE, meaning="if only this rank were fixed; null: not replayed"),
    ]
    compute_change: Annotated[
        float | None, Label(say("Extra compute"), Unit.CHANGE, meaning="per step, against the median rank")
    ]
    worst_step: Annotated[int | None, Label(say("Latest in step"), Unit.ID, detail=1)]
    worst_ns: Annotated[int | None, Label(say("Late by"), Unit.NS, detail=2)]
    profile: Annotated[str, Label(say("Profile"), detail=4)]


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
        return Lateness(LateAt.COLLECTIVES, ranks, tuple(step.tolist()), tuple(map(tuple, late.tolist())))
    lengths = step_lengths(job)
    if isinstance(lengths, NotMeasured):
        return lengths
    longer = (lengths.length_ns - lengths.length_ns.min(axis=1, keepdims=True)).T
    return Lateness(LateAt.STEPS, ranks, tuple(lengths.steps.tolist()), tuple(map(tuple, longer.tolist())))


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
        worst_step, worst_ns, saves_share = None, None, None
        if not isinstance(late, NotMeasured):
            worst_ns = max(late.late_ns[rank])
            worst_step = late.steps[late.late_ns[rank].index(worst_ns)]
        if not isinstance(fixed, NotMeasured) and fixed.step_ns and (alone_ns := fixed.alone_ns[rank]) is not None:
            saves_share = alone_ns / fixed.step_ns
        late_ranks.append(
            Straggler(
                rank=job.ranks[rank].label,
                late=job.parts[rank].late,
                counted=job.parts[rank].counted,
                caused_share=caused[rank] / max(sum(caused), 1),
                saves_share=saves_share,
                compute_change=compute[rank] / usual - 1 if usual else None,
                worst_step=worst_step,
                worst_ns=worst_ns,
                profile=job.ranks[rank].profile,
            )
        )
    return tuple(late_ranks)

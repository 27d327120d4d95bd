"""What is known of a job of many ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct

from gpuledger.analyse.ranks.collectives import (
    CollectivesOfGroup,
    SingleCollective,
    collectives_by_group,
    worst_collectives,
)
from gpuledger.analyse.ranks.fixing import Fixing
from gpuledger.analyse.ranks.job import ComputeBalance, Job, StepAcrossRanks, compute_balance, steps_across_ranks
from gpuledger.analyse.ranks.rank_times import RankTimes, rank_times
from gpuledger.trace.model import NotMeasured

T = TypeVar("T")


class JobAnswer(Struct, frozen=True):
    """A job of many ranks: what fixing saves, its ranks, its collectives, and its steps across ranks."""

    job: Job
    fixed: Fixing | NotMeasured
    ranks: Sequence[RankTimes]
    collectives: Sequence[CollectivesOfGroup]
    worst: Sequence[SingleCollective]
    balance: Sequence[ComputeBalance]
    steps: Sequence[StepAcrossRanks]


def job_answer(job: Job, fixed: Fixing | NotMeasured) -> JobAnswer:
    """All that tables about a job say."""
    return JobAnswer(
        job,
        fixed,
        rank_times(job, fixed),
        collectives_by_group(job),
        worst_collectives(job),
        compute_balance(job),
        steps_across_ranks(job),
    )

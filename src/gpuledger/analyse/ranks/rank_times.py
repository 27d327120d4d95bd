"""Each rank of a job, per step: its step, its compute and communication, what it waited and was waited for.

Times are those of the steady stretch, spread over its steps.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuledger.analyse.ranks.clocks import RankClock
from gpuledger.analyse.ranks.fixing import Fixing
from gpuledger.analyse.ranks.job import Job, RankPart
from gpuledger.analyse.ranks.rank import RankSummary
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.statistics import lower_median


@dataclass(frozen=True, slots=True)
class Waiting:
    """One rank's waiting at matched collectives, per step."""

    wait_ns: int
    transfer_ns: int
    late: int
    """How often the rank was the last to arrive, in the whole stretch."""
    caused_ns: int
    """What the others waited until it came, added up."""
    saves_ns: int | None
    """What fixing only this rank saves, see `fixing`; None where that was not replayed."""


@dataclass(frozen=True, slots=True)
class RankTimes:
    """One rank."""

    label: str
    profile: str
    gpu_name: str
    steps: int | None
    """None where no steps were found."""
    median_step_ns: int | None
    compute_ns: int
    exposed_comm_ns: int
    hidden_comm_ns: int
    waiting: Waiting | None
    """None where no collective of this rank was matched."""
    matched: int
    seen: int
    """Collectives in this rank's profile; of them so many matched."""
    clock_ahead_ns: int | None
    clock_residual_ns: int | None
    """None where nothing tells."""


def rank_times(job: Job, fixed: Fixing | NotMeasured) -> tuple[RankTimes, ...]:
    """The ranks in order."""
    saves = (None,) * len(job.ranks) if isinstance(fixed, NotMeasured) else fixed.alone_ns
    return tuple(map(_times, job.ranks, job.parts, job.clocks, saves))


def _times(rank: RankSummary, part: RankPart, clock: RankClock, saves_ns: int | None) -> RankTimes:
    count = rank.step_count
    steady_ns = rank.length_ns[rank.warm_up :]
    waiting = Waiting(part.wait_ns // count, part.transfer_ns // count, part.late, part.caused_ns // count, saves_ns)
    return RankTimes(
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

"""What findings of a job share: their subject, its median times, and how far the figures hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from gpuledger.findings.finding import Evidence, Finding
from gpuledger.findings.ranks.fix_texts import has_steps, per_job_step
from gpuledger.findings.rule import Rule
from gpuledger.messages import joined, say
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.statistics import median
from gpuledger.units import share_text, time_text

if TYPE_CHECKING:
    from gpuledger.analyse.ranks.fixing import Fixing
    from gpuledger.analyse.ranks.job import Job


class AllRanks(Struct, frozen=True):
    """A job, and what replaying it says."""

    job: Job
    fixed: Fixing | NotMeasured


def middle_ns(times: list[int]) -> int:
    """The median; of two ranks the mean, as both may wait in turn."""
    return int(median(np.array(times, np.int64))) if times else 0


def steady_ns(job: Job) -> int:
    """The steady stretch of the middle rank."""
    return middle_ns([rank.steady_ns for rank in job.ranks])


def per_steady_step(job: Job, time: int) -> str:
    """Of the steady stretch, for each of its steps."""
    return per_job_step(job, time // job.steps)


def doubts(job: Job) -> list[Evidence]:
    """How far the figures hold: what was matched, and how well the clocks are known."""
    residuals = [clock.residual_ns for clock in job.clocks if not isinstance(clock.residual_ns, NotMeasured)]
    matched, seen = sum(part.matched for part in job.parts), sum(part.seen for part in job.parts)
    said = say("{share} of the collectives matched across ranks", share=share_text(matched / seen))
    agree = (
        say("all on one clock")
        if job.has_one_clock
        else say("clocks agree to {time}", time=time_text(max(residuals, default=0)))
    )
    text = joined(say("; "), (said, agree))
    return [Evidence(text, count=matched, share=matched / seen, of=say("the collectives of all ranks"))]


def job_finding(
    rule: Rule[AllRanks], job: Job, claim: str, evidence: list[Evidence], saves: tuple[int, int], assumption: str
) -> Finding:
    """`saves` is the saving in the steady stretch, and its low end."""
    coverage, steps, stepped = job.coverage, job.steps, has_steps(job)
    saving, low = saves
    whole = not isinstance(coverage, NotMeasured) and coverage > 0.9
    # a missing rank may be the one that all wait for
    everybody = isinstance(job.world_size, NotMeasured) or job.world_size == len(job.ranks)
    confidence = (say("low"), say("low"), say("medium"), say("high"))[whole + everybody + (steps > 1)]
    return Finding(
        code=rule.code,
        claim=claim,
        evidence=tuple(evidence),
        saving_ns=saving,
        saving_ns_per_step=saving // steps if stepped else None,
        saving_low_ns_per_step=low // steps if stepped else None,
        assumption=assumption,
        confidence=confidence,
        fix=rule.fix,
    )

"""Findings about a job of many ranks: ranks that wait for one another, and communication that nothing hides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from gpuledger.findings.evidence import Evidence
from gpuledger.findings.finding import WORTH_TELLING, Finding, explain_command
from gpuledger.findings.rule import Rule
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.statistics import median
from gpuledger.trace.tables import NOT_RECORDED
from gpuledger.units import count_text, share_text, time_text

if TYPE_CHECKING:  # the rules of one profile are asked without a job
    from gpuledger.analyse.ranks.collectives import WorstPlace
    from gpuledger.analyse.ranks.job import Job

PROMPT_NS: Final = 50_000
"""A kernel that begins this soon after its launch call was not held up by work before it: the host was late."""

_MOSTLY: Final = 0.5


def job_findings(job: Job) -> tuple[Finding, ...]:
    """What the ranks together say, the most profitable first; nothing where no collective was matched."""
    if not any(part.counted for part in job.parts):
        return ()
    found = [finding for rule in RULES for finding in rule.find(job)]
    return tuple(sorted(found, key=lambda finding: (-finding.saving_ns, finding.code)))


def _skew(job: Job) -> Sequence[Finding]:
    """Ranks that arrive early wait for the last one. What waiting runs under compute costs nothing."""
    waits = [part.exposed_wait_ns for part in job.parts]
    saving = _middle([wait for wait in waits if wait])
    if saving < max(WORTH_TELLING * _steady_ns(job), 1):
        return ()
    late = max(range(len(job.parts)), key=lambda at: job.parts[at].caused_ns)
    part, caused = job.parts[late], sum(each.caused_ns for each in job.parts)
    share = share_text(part.caused_ns / caused)
    claim = (
        f"ranks wait {_per_step(job, saving)} for others to arrive at collectives, {share} of it for"
        f" {job.ranks[late].label}: {_why(job, late)}"
    )
    evidence = [
        f"{job.ranks[late].label} is the last at {count_text(part.late)} of {count_text(part.counted)} collectives",
        _most_and_least(job),
    ]
    where = _worst_place(job)
    if not isinstance(where, NotMeasured):
        each = where.wait_ns // (len(job.ranks) * job.steps)
        text = f"most of it at {where.kind} no. {where.ordinal} of the step (group {where.group})"
        evidence.append(f"{text}: {time_text(each)} per rank, last {job.ranks[where.late].label}")
    if job.steps == 1:
        evidence.append("one step was recorded: its first collective also shows how far apart the captures began")
    # if the work is only spread more evenly, the late rank's share is taken on by the others
    low = min(sum(waits) // len(waits), saving)
    assumption = (
        "all ranks arrive together, as early as those that wait do now; the low end: the same work, spread evenly"
    )
    return [_finding(job, "COMM-SKEW", claim, [*evidence, *_doubts(job)], saving, low, assumption)]


def _worst_place(job: Job) -> WorstPlace | NotMeasured:
    from gpuledger.analyse.ranks.collectives import worst_place

    return worst_place(job)


def _slowest_step_ns(job: Job) -> int | NotMeasured:
    from gpuledger.analyse.ranks.rank_steps import slowest_step_ns

    return slowest_step_ns(job)


def _why(job: Job, late: int) -> str:
    """What makes a rank late: more to compute, a late launch, or work before it on the device."""
    compute = [rank.compute_ns // rank.step_count for rank in job.ranks]
    others = _middle([time for at, time in enumerate(compute) if at != late])
    # what others wait while nothing computes: what they wait under compute costs no time, so it explains nothing
    behind = _middle([part.exposed_wait_ns // job.steps for at, part in enumerate(job.parts) if at != late])
    if compute[late] - others > _MOSTLY * behind:
        return f"it computes {time_text(compute[late])} a step, the others {time_text(others)}"
    prompt = told = 0
    for lane in (lane for lane in job.lanes if late in lane.members):
        mine = lane.steady & (lane.late == late)
        start, launched = (times[mine, lane.members.index(late)] for times in (lane.start_ns, lane.launched_ns))
        known = launched != NOT_RECORDED
        weight = lane.wait_ns[mine].sum(axis=1)
        told += int(weight[known].sum())
        prompt += int(weight[known & (start - launched < PROMPT_NS)].sum())
    if not told:
        return "it computes no longer than the others, and starts late"
    if prompt > _MOSTLY * told:
        return "it computes no longer than the others, its host launches late"
    return "it computes no longer than the others, earlier work on its GPU holds it up"


def _most_and_least(job: Job) -> str:
    """The two ends of the waiting: the longest waiting rank is the fastest one."""
    waits = [part.wait_ns for part in job.parts]
    most, least = int(np.argmax(waits)), int(np.argmin(waits))
    other = f"{job.ranks[least].label} {time_text(waits[least] // job.steps)}"
    text = f"{job.ranks[most].label} waits {_per_step(job, waits[most])}, {other}"
    step = _slowest_step_ns(job)
    return text if isinstance(step, NotMeasured) else f"{text}; the slowest rank's step takes {time_text(step)}"


def _exposed(job: Job) -> Sequence[Finding]:
    """What of the exposed communication is not waiting: the transfer itself, for the middle rank."""
    moving = [rank.exposed_comm_ns - part.exposed_wait_ns for rank, part in zip(job.ranks, job.parts, strict=True)]
    exposed = _middle(moving)
    saving = min(exposed, _middle([rank.compute_ns for rank in job.ranks]))
    if saving < max(WORTH_TELLING * _steady_ns(job), 1):
        return ()
    claim = f"{_per_step(job, exposed)} of communication that is no waiting runs with nothing computing beside it"
    whole = sum(rank.exposed_comm_ns for rank in job.ranks)
    waits = share_text(sum(part.exposed_wait_ns for part in job.parts) / whole)
    evidence = [f"of the exposed communication of all ranks {waits} is waiting for other ranks, which is COMM-SKEW"]
    unmatched = sum(part.seen - part.matched for part in job.parts)
    if unmatched:
        evidence.append(f"{count_text(unmatched)} collectives were not matched: their waits are in it")
    assumption = "compute of the same step covers it, without slowing down"
    return [_finding(job, "COMM-EXPOSED", claim, [*evidence, *_doubts(job)], saving, saving, assumption)]


def _middle(times: list[int]) -> int:
    """The median; of two ranks the mean, as both may wait in turn."""
    return int(median(np.array(times, np.int64))) if times else 0


def _steady_ns(job: Job) -> int:
    return _middle([rank.steady_ns for rank in job.ranks])


def _per_step(job: Job, time: int) -> str:
    return time_text(time // job.steps) + (" a step" if _has_steps(job) else "")


def _has_steps(job: Job) -> bool:
    return all(len(rank.edges_ns) for rank in job.ranks)


def _doubts(job: Job) -> list[str]:
    """How far the figures hold: what was matched, and how well the clocks are known."""
    residuals = [each.residual_ns for each in job.clocks if not isinstance(each.residual_ns, NotMeasured)]
    coverage = job.coverage
    share = "none" if isinstance(coverage, NotMeasured) else share_text(coverage)
    return [f"{share} of the collectives matched across ranks; clocks agree to {time_text(max(residuals, default=0))}"]


def _finding(job: Job, code: str, claim: str, evidence: list[str], saving: int, low: int, assumption: str) -> Finding:
    coverage, steps, stepped = job.coverage, job.steps, _has_steps(job)
    whole = not isinstance(coverage, NotMeasured) and coverage > 0.9
    # a missing rank may be the one that all wait for
    everybody = isinstance(job.world_size, NotMeasured) or job.world_size == len(job.ranks)
    confidence = ("low", "low", "medium", "high")[whole + everybody + (steps > 1)]
    return Finding(
        code=code,
        claim=claim,
        evidence=tuple(map(Evidence, evidence)),
        saving_ns=saving,
        saving_ns_per_step=saving // steps if stepped else None,
        saving_low_ns_per_step=low // steps if stepped else None,
        assumption=assumption,
        confidence=confidence,
        gpu=-1,
        next=explain_command(code),
    )


RULES: Final = (Rule("COMM-SKEW", _skew), Rule("COMM-EXPOSED", _exposed))

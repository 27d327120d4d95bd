"""Findings about a job of many ranks: ranks that wait for one another, and communication that nothing hides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from gpuledger.findings.evidence import LEAST_SHARE, Evidence
from gpuledger.findings.finding import WORTH_TELLING, Finding, explain_command
from gpuledger.findings.rule import Rule
from gpuledger.messages import joined, say
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.statistics import median
from gpuledger.trace.tables import NOT_RECORDED
from gpuledger.units import count_text, share_text, time_text

if TYPE_CHECKING:  # the rules of one profile are asked without a job
    from gpuledger.analyse.ranks.collectives import WorstPlace
    from gpuledger.analyse.ranks.fixing import FixedToo
    from gpuledger.analyse.ranks.job import Job

PROMPT_NS: Final = 50_000
"""A kernel that begins this soon after its launch call was not held up by work before it: the host was late."""

_MOSTLY: Final = 0.5
_WAITING: Final = say("the waiting of all ranks")
_MOST_NAMED: Final = 4
"""So many ranks are named one by one."""


def job_findings(job: Job) -> tuple[Finding, ...]:
    """What the ranks together say, the most profitable first; nothing where no collective was matched."""
    if not any(part.counted for part in job.parts):
        return ()
    found = [finding for rule in RULES for finding in rule.find(job)]
    return tuple(sorted(found, key=lambda finding: (-finding.saving_ns, finding.code)))


def _skew(job: Job) -> Sequence[Finding]:
    """Ranks that arrive early wait for the last one. What waiting runs under compute costs nothing."""
    saving = job.waited_ns
    if saving < max(WORTH_TELLING * _steady_ns(job), 1):
        return ()
    late = job.fixing.together[0].rank
    best = int(np.argmax(job.fixing.alone_ns))
    alone = job.buys_ns(job.fixing.alone_ns[best])
    waits = [part.exposed_wait_ns for part in job.parts]
    # if the work is only spread more evenly, the late rank's share is taken on by the others
    even = min(sum(waits) // len(waits), saving)
    low, at_least = min(
        (even, say("the same work, spread evenly")),
        (alone, say("only {rank} does, the one that buys the most", rank=job.ranks[best].label)),
    )
    assumption = say(
        "all ranks arrive together, as early as those that wait do now; the low end: {at_least}", at_least=at_least
    )
    label = job.ranks[late].label
    claim = say(
        "ranks wait {time} for others to arrive at collectives; {bought}; {rank} {why}",
        time=_per_step(job, saving),
        bought=_bought(job),
        rank=label,
        why=_why(job, late),
    )
    evidence = [_last_at(job, late), _best_alone(job, best), *_waited_at(job, late), _most_and_least(job)]
    if job.steps == 1:
        evidence.append(
            Evidence(say("one step was recorded: its first collective also shows how far apart captures began"))
        )
    return [_finding(job, "COMM-SKEW", claim, [*evidence, *_doubts(job)], saving, low, assumption)]


def _bought(job: Job) -> str:
    """What fixing the rank most waited for buys, and how many more it takes until most of the waiting is gone."""
    first, *others = job.fixing.together
    alone = job.fixing.alone_ns[first.rank]
    label = job.ranks[first.rank].label
    said = (
        say("fixing {rank} alone buys {time} of it", rank=label, time=_bought_time(job, alone))
        if alone
        else say("fixing {rank} alone buys nothing", rank=label)
    )
    count = next((n for n, more in enumerate(others, 2) if _is_most(job, more)), 1 + len(others))
    if _is_most(job, first) or count == 1:
        return said
    ranks = _named(job, [fixed.rank for fixed in job.fixing.together[:count]])
    return say(
        "{alone}, {ranks} together {time}",
        alone=said,
        ranks=ranks,
        time=_bought_time(job, job.fixing.together[count - 1].together_ns),
    )


def _is_most(job: Job, fixed: FixedToo) -> bool:
    return fixed.together_ns > _MOSTLY * job.fixing.waited_ns


def _bought_time(job: Job, freed: int) -> str:
    return time_text(job.buys_ns(freed) // job.steps)


def _named(job: Job, ranks: Sequence[int]) -> str:
    """Ranks in words: their numbers where they have some, and of many only how many they are."""
    if len(ranks) > _MOST_NAMED:
        return say("the {count} ranks most waited for", count=count_text(len(ranks)))
    if all(job.ranks[rank].rank is not None for rank in ranks):
        return say("ranks {numbers}", numbers=_and([str(job.ranks[rank].rank) for rank in ranks]))
    return _and([job.ranks[rank].label for rank in ranks])


def _and(names: Sequence[str]) -> str:
    return joined(say(" and "), (joined(say(", "), names[:-1]), names[-1]))


def _last_at(job: Job, late: int) -> Evidence:
    """How often a rank is the last, and what is waited at those collectives: which is not what fixing it buys."""
    part, waited = job.parts[late], sum(part.caused_ns for part in job.parts)
    said = say(
        "{rank} is the last at {count} of {of} collectives",
        rank=job.ranks[late].label,
        count=count_text(part.late),
        of=count_text(part.counted),
    )
    share = part.caused_ns / waited
    if share < LEAST_SHARE:
        return Evidence(said, count=part.late)
    said = say("{last}, where ranks wait {share} of all they wait", last=said, share=share_text(share))
    return Evidence(said, count=part.late, share=share, of=_WAITING)


def _best_alone(job: Job, best: int) -> Evidence:
    """How much of the waiting goes by fixing one rank."""
    share = job.fixing.alone_ns[best] / job.fixing.waited_ns
    if share < LEAST_SHARE:
        return Evidence(
            say("no rank alone buys as much as {share} of the exposed waiting", share=share_text(LEAST_SHARE))
        )
    said = say(
        "of single ranks {rank} buys the most, {share} of the exposed waiting",
        rank=job.ranks[best].label,
        share=share_text(share),
    )
    return Evidence(said, share=share, of=say("the exposed waiting of all ranks"))


def _waited_at(job: Job, late: int) -> list[Evidence]:
    """The place in the step at which ranks wait the longest, if that says where to look."""
    place, waited = _worst_place(job), sum(part.wait_ns for part in job.parts)
    if isinstance(place, NotMeasured) or place.wait_ns < LEAST_SHARE * waited:
        return []
    per_rank, share = place.wait_ns // (len(job.ranks) * job.steps), place.wait_ns / waited
    text = say(
        "{share} of the waiting at {kind} no. {ordinal} of the step (group {group}): {time} per rank",
        share=share_text(share),
        kind=place.kind,
        ordinal=place.ordinal,
        group=place.group,
        time=time_text(per_rank),
    )
    return [
        Evidence(
            text if place.late == late else say("{place}, last {rank}", place=text, rank=job.ranks[place.late].label),
            kernel=place.kind,
            count=place.times,
            share=share,
            of=_WAITING,
        )
    ]


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
        return say(
            "computes {time} a step, the others {others}", time=time_text(compute[late]), others=time_text(others)
        )
    prompt = told = 0
    for lane in (lane for lane in job.lanes if late in lane.members):
        mine = lane.steady & (lane.late == late)
        start, launched = (times[mine, lane.members.index(late)] for times in (lane.start_ns, lane.launched_ns))
        known = launched != NOT_RECORDED
        weight = lane.wait_ns[mine].sum(axis=1)
        told += int(weight[known].sum())
        prompt += int(weight[known & (start - launched < PROMPT_NS)].sum())
    if not told:
        return say("computes no longer than the others, and starts late")
    if prompt > _MOSTLY * told:
        return say("computes no longer than the others, its host launches late")
    return say("computes no longer than the others, earlier work on its GPU holds it up")


def _most_and_least(job: Job) -> Evidence:
    """The two ends of the waiting: the longest waiting rank is the fastest one."""
    waits = [part.wait_ns for part in job.parts]
    most, least = int(np.argmax(waits)), int(np.argmin(waits))
    text = say(
        "{rank} waits {time}, {other} {less}",
        rank=job.ranks[most].label,
        time=_per_step(job, waits[most]),
        other=job.ranks[least].label,
        less=time_text(waits[least] // job.steps),
    )
    step = _slowest_step_ns(job)
    return Evidence(
        text
        if isinstance(step, NotMeasured)
        else say("{waits}; the slowest rank's step takes {time}", waits=text, time=time_text(step)),
        count=job.parts[most].counted,
    )


def _exposed(job: Job) -> Sequence[Finding]:
    """What of the exposed communication is not waiting: the transfer itself, for the middle rank."""
    moving = [rank.exposed_comm_ns - part.exposed_wait_ns for rank, part in zip(job.ranks, job.parts, strict=True)]
    exposed = _middle(moving)
    saving = min(exposed, _middle([rank.compute_ns for rank in job.ranks]))
    if saving < max(WORTH_TELLING * _steady_ns(job), 1):
        return ()
    claim = say(
        "{time} of communication that is no waiting runs with nothing computing beside it",
        time=_per_step(job, exposed),
    )
    whole = sum(rank.exposed_comm_ns for rank in job.ranks)
    waiting = sum(part.exposed_wait_ns for part in job.parts) / whole
    share, what = (1 - waiting, say("no waiting")) if waiting < _MOSTLY else (waiting, say("waiting for other ranks"))
    evidence = [
        Evidence(
            say(
                "of the exposed communication of all ranks {share} is {what}; what is waiting is COMM-SKEW",
                share=share_text(share),
                what=what,
            ),
            count=sum(part.counted for part in job.parts),
            share=share,
            of=say("the exposed communication of all ranks"),
        )
    ]
    unmatched = sum(part.seen - part.matched for part in job.parts)
    if unmatched:
        said = say("{count} collectives were not matched: their waits are in it", count=count_text(unmatched))
        evidence.append(Evidence(said, count=unmatched))
    assumption = say("compute of the same step covers it, without slowing down")
    return [_finding(job, "COMM-EXPOSED", claim, [*evidence, *_doubts(job)], saving, saving, assumption)]


def _middle(times: list[int]) -> int:
    """The median; of two ranks the mean, as both may wait in turn."""
    return int(median(np.array(times, np.int64))) if times else 0


def _steady_ns(job: Job) -> int:
    return _middle([rank.steady_ns for rank in job.ranks])


def _per_step(job: Job, time: int) -> str:
    each = time_text(time // job.steps)
    return say("{time} a step", time=each) if _has_steps(job) else each


def _has_steps(job: Job) -> bool:
    return all(len(rank.edges_ns) for rank in job.ranks)


def _doubts(job: Job) -> list[Evidence]:
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


def _finding(
    job: Job, code: str, claim: str, evidence: list[Evidence], saving: int, low: int, assumption: str
) -> Finding:
    coverage, steps, stepped = job.coverage, job.steps, _has_steps(job)
    whole = not isinstance(coverage, NotMeasured) and coverage > 0.9
    # a missing rank may be the one that all wait for
    everybody = isinstance(job.world_size, NotMeasured) or job.world_size == len(job.ranks)
    confidence = (say("low"), say("low"), say("medium"), say("high"))[whole + everybody + (steps > 1)]
    return Finding(
        code=code,
        claim=claim,
        evidence=tuple(evidence),
        saving_ns=saving,
        saving_ns_per_step=saving // steps if stepped else None,
        saving_low_ns_per_step=low // steps if stepped else None,
        assumption=assumption,
        confidence=confidence,
        gpu=-1,
        next=explain_command(code),
    )


RULES: Final = (Rule("COMM-SKEW", _skew), Rule("COMM-EXPOSED", _exposed))

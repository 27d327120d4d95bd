"""COMM-SKEW: ranks arrive at collectives at different times.

The same collective takes much longer on some ranks than on others. On the timeline of a fast rank the communication
kernel starts early and spins; on the slowest rank it starts late and is short. Every rank's step takes as long as the
slowest rank's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from gpuledger.findings.finding import MIN_EVIDENCE_SHARE, SIGNIFICANT_SHARE, Evidence, Finding
from gpuledger.findings.ranks.all_ranks import AllRanks, doubts, job_finding, per_steady_step, steady_ns
from gpuledger.findings.ranks.fix_texts import (
    MAX_NAMED_RANKS,
    MOSTLY,
    enough_of,
    fix_name,
    fix_names,
    has_steps,
    per_job_step,
    what_is_saved,
    why_slow,
)
from gpuledger.findings.rule import Rule
from gpuledger.messages import say
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.spans import Span, clip, total
from gpuledger.units import count_text, share_text, time_text

if TYPE_CHECKING:
    from gpuledger.analyse.ranks.fixing import Fix, Fixing
    from gpuledger.analyse.ranks.job import Job

_MIN_WAITING_SHARE: Final = (
    0.1  # waiting that takes so much of the steps is enough even if no rank that is slow explains it
)
_WAITING: Final = say("the waiting of all ranks")
_TOGETHER: Final = say("all ranks arrive together, as early as those that wait do now")


def _skew(rule: Rule[AllRanks], ranks: AllRanks) -> Sequence[Finding]:
    """Ranks that arrive early wait for the last one. What waiting runs under compute costs nothing."""
    job, fixed = ranks.job, ranks.fixed
    if job.waited_ns < max(SIGNIFICANT_SHARE * steady_ns(job), 1):
        return ()
    late = int(np.argmax([part.caused_ns for part in job.parts]))
    waits = say(
        "for {time}, at least one rank waits for others at a collective", time=per_steady_step(job, job.waited_ns)
    )
    evidence = [_last_at(job, late), *_waited_at(job, late), _most_and_least(job)]
    if job.steps == 1:
        evidence.append(
            Evidence(say("one step was recorded: its first collective also shows how far apart captures began"))
        )
    if isinstance(fixed, NotMeasured):
        return [_not_replayed(rule, job, late, waits, evidence, fixed.reason)]
    fixes = fixed.of_late_ranks
    saving = job.steps * sum(fix.then_ns for fix in fixes)
    if saving < SIGNIFICANT_SHARE * steady_ns(job) and job.waited_ns < _MIN_WAITING_SHARE * steady_ns(job):
        return ()
    if not fixes:
        said = say("{waits}; bringing any one rank to the median pace would not make the job faster", waits=waits)
        every = job_finding(rule, job, said, [*evidence, *doubts(job)], (_lost_in_steps_ns(job), 0), _TOGETHER)
        return [replace(every, is_bound=True, explains_ns=job.waited_ns)]
    enough = enough_of(fixes)
    why, saved = why_slow(job, enough[0]), what_is_saved(job, fixed, enough)
    claim = (
        say("{why}; {saved}", why=why, saved=saved)
        if len(enough) == 1
        else say("{why}; {ranks}: {saved}", why=why, ranks=fix_names(job, enough), saved=saved)
    )
    alone = job.steps * max(fix.alone_ns for fix in fixes)
    assumption = say("{fixed} at the median rank's pace between collectives", fixed=fix_names(job, fixes))
    if len(fixes) > 1:
        assumption = say("{assumption}; the low end: only the one that saves the most", assumption=assumption)
    evidence = [
        *_one_after_the_other(job, fixes),
        Evidence(waits),
        *evidence,
        *_what_stays(job, saving),
        _replay_reach(job, fixed),
    ]
    return [job_finding(rule, job, claim, [*evidence, *doubts(job)], (saving, min(alone, saving)), assumption)]


def _not_replayed(
    rule: Rule[AllRanks], job: Job, late: int, waits: str, evidence: list[Evidence], reason: str
) -> Finding:
    """Who is waited for is known; what fixing it saves is not, but no more than what is waited."""
    claim = say("{waits}, most of all for {rank}", waits=waits, rank=job.ranks[late].label)
    evidence.append(Evidence(say("what fixing it saves was not replayed: {reason}", reason=reason)))
    finding = job_finding(rule, job, claim, [*evidence, *doubts(job)], (job.waited_ns, 0), _TOGETHER)
    return replace(finding, is_bound=True)


def _lost_in_steps_ns(job: Job) -> int:
    """The waiting that steps lose: of one step without that at its first collective, as captures begin apart."""
    if job.steps > 1:
        return job.waited_ns
    all_there_ns = min(int(lane.last_ns[lane.steady].min()) for lane in job.lanes if lane.steady.any())
    return total(clip(job.waiting, Span(all_there_ns, int(job.waiting.end_ns[-1]))))


def _one_after_the_other(job: Job, fixes: Sequence[Fix]) -> list[Evidence]:
    """What each saves once those before it are fixed, with what makes it slow; of one alone the claim says it."""
    first, *others = fixes
    if not others:
        return []
    said = (
        say("fixing {rank} alone saves {time}", rank=fix_name(job, first), time=per_job_step(job, first.alone_ns))
        if first.alone_ns
        else say("fixing {rank} alone saves nothing", rank=fix_name(job, first))
    )
    return [
        Evidence(said),
        *(
            Evidence(say("then {why}: saves {time} more", why=why_slow(job, fix), time=per_job_step(job, fix.then_ns)))
            for fix in others[:MAX_NAMED_RANKS]
        ),
    ]


def _what_stays(job: Job, saving: int) -> list[Evidence]:
    left = 1 - saving / job.waited_ns
    if left <= MOSTLY:
        return []
    said = say(
        "{share} of the waiting would remain: the last rank to arrive there is no slower than the median",
        share=share_text(left),
    )
    return [Evidence(said, share=left, of=say("the time in which at least one rank waits"))]


def _replay_reach(job: Job, fixed: Fixing) -> Evidence:
    steps = say("{count} steps", count=count_text(fixed.steps)) if fixed.steps > 1 else say("one step")
    said = say(
        "replayed: {what} of all ranks, {share} of their collectives waiting for the last rank",
        what=steps if has_steps(job) else say("the whole run"),
        share=share_text(fixed.met_share),
    )
    return Evidence(said, count=fixed.steps)


def _last_at(job: Job, late: int) -> Evidence:
    """How often a rank is the last, and what is waited at those collectives: which is not what fixing it buys."""
    part, waited = job.parts[late], sum(part.caused_ns for part in job.parts)
    said = say(
        "{rank} arrives last at {count} of {of} collectives",
        rank=job.ranks[late].label,
        count=count_text(part.late),
        of=count_text(part.counted),
    )
    share = part.caused_ns / waited
    if share < MIN_EVIDENCE_SHARE:
        return Evidence(said, count=part.late)
    said = say("{last}, which account for {share} of all waiting", last=said, share=share_text(share))
    return Evidence(said, count=part.late, share=share, of=_WAITING)


def _waited_at(job: Job, late: int) -> list[Evidence]:
    """The place in the step at which ranks wait the longest, if that says where to look."""
    from gpuledger.analyse.ranks.collectives import worst_place

    place, waited = worst_place(job), sum(part.wait_ns for part in job.parts)
    if isinstance(place, NotMeasured) or place.wait_ns < MIN_EVIDENCE_SHARE * waited:
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


def _most_and_least(job: Job) -> Evidence:
    """The two ends of the waiting: the longest waiting rank is the fastest one."""
    from gpuledger.analyse.ranks.job import slowest_step_ns

    waits = [part.wait_ns for part in job.parts]
    most, least = int(np.argmax(waits)), int(np.argmin(waits))
    text = say(
        "{rank} waits {time}, {other} {less}",
        rank=job.ranks[most].label,
        time=per_steady_step(job, waits[most]),
        other=job.ranks[least].label,
        less=time_text(waits[least] // job.steps),
    )
    step = slowest_step_ns(job)
    return Evidence(
        text
        if isinstance(step, NotMeasured)
        else say("{waits}; the slowest rank's step takes {time}", waits=text, time=time_text(step)),
        count=job.parts[most].counted,
    )


RULE: Final = Rule("COMM-SKEW", _skew, say("fix the ranks that come late: `gpuledger fleet` names them"))

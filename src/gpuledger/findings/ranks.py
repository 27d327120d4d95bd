"""Findings about a job of many ranks: ranks that wait for one another, and communication that nothing hides.

With the words for what fixing a rank, a stage or a collective saves, which tables of a job use too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gpuledger.findings.copies import OVERLAP_COMMUNICATION
from gpuledger.findings.finding import LEAST_SHARE, WORTH_TELLING, Evidence, Finding
from gpuledger.findings.rule import Rule
from gpuledger.messages import joined, say
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.spans import Span, clip, total
from gpuledger.trace.statistics import median
from gpuledger.units import count_text, share_text, time_text

if TYPE_CHECKING:
    from gpuledger.analyse.ranks.fixing import Fix, Fixing
    from gpuledger.analyse.ranks.job import Job

MOSTLY: Final = 0.5
MOST_NAMED: Final = 4
"""So many ranks are named one by one."""


def fix_name(job: Job, fix: Fix) -> str:
    """What is fixed: `rank 5`, `stage 1 (rank 4 - rank 7)`, `all_reduce no. 3 of group 0`."""
    if fix.place is not None:
        place = fix.place
        return say("{kind} no. {ordinal} of group {group}", kind=place.kind, ordinal=place.ordinal, group=place.group)
    first, last = (job.ranks[fix.ranks[side]].label for side in (0, -1))
    if len(fix.ranks) == 1:
        return first
    return say("stage {number} ({first} to {last})", number=fix.number, first=first, last=last)


def per_step(job: Job, time: int) -> str:
    """A time that is of one step where there are steps."""
    return say("{time} per step", time=time_text(time)) if has_steps(job) else time_text(time)


def has_steps(job: Job) -> bool:
    """Whether times are of a step."""
    return all(len(rank.edges_ns) for rank in job.ranks)


def why_slow(job: Job, fix: Fix) -> str:
    """What it takes longer in than the median."""
    from gpuledger.analyse.ranks.rank import WorkPart

    excess, who = fix.excess[0], fix_name(job, fix)
    time = per_step(job, excess.longer_ns)
    if fix.place is not None:
        return say("{who} takes {time} longer than its peers", who=who, time=time)
    match excess.part:
        case WorkPart.COMPUTE:
            return say("{who}: its kernels take {time} longer than the median", who=who, time=time)
        case WorkPart.COMM:
            return say("{who}: its communication with others takes {time} longer than the median", who=who, time=time)
        case WorkPart.COPY:
            return say("{who}: its copies take {time} longer than the median", who=who, time=time)
        case WorkPart.GARBAGE:
            return say("{who}: its Python garbage collection takes {time} longer than the median", who=who, time=time)
        case WorkPart.SYSTEM:
            return say("{who}: its host spends {time} longer in system calls than the median", who=who, time=time)
        case WorkPart.THREAD:
            return say("{who}: its host waits {time} longer for other threads than the median", who=who, time=time)
        case WorkPart.HOST:
            return say("{who}: its host takes {time} longer to launch its work than the median", who=who, time=time)


def what_is_saved(job: Job, fixed: Fixing, fixes: Sequence[Fix]) -> str:
    """What the job's step takes with these at the median pace, all of them from the top."""
    after = fixed.step_ns - sum(fix.then_ns for fix in fixes)
    share = share_text(1 - after / fixed.step_ns)
    times = {"after": time_text(after), "before": time_text(fixed.step_ns), "share": share}
    if not has_steps(job):
        return say("at the median pace the job takes {after} instead of {before} ({share} less)", **times)
    return say("at the median pace the job's step takes {after} instead of {before} ({share} less)", **times)


def enough_of(fixes: Sequence[Fix]) -> Sequence[Fix]:
    """As many from the top as save most of what all of them do."""
    whole, saved = sum(fix.then_ns for fix in fixes), 0
    for count, fix in enumerate(fixes, 1):
        saved += fix.then_ns
        if saved > MOSTLY * whole:
            return fixes[:count]
    return fixes


def fix_names(job: Job, fixes: Sequence[Fix]) -> str:
    """Several in words: ranks by their numbers where they have some, and of many only how many they are."""
    if len(fixes) > MOST_NAMED:
        return say("the first {count} of them", count=count_text(len(fixes)))
    numbers = [job.ranks[fix.ranks[0]].rank for fix in fixes if len(fix.ranks) == 1]
    if len(numbers) == len(fixes) > 1 and None not in numbers:
        return say("ranks {numbers}", numbers=comma_list([str(number) for number in numbers]))
    return comma_list([fix_name(job, fix) for fix in fixes])


def comma_list(names: Sequence[str]) -> str:
    """a, b and c."""
    return joined(say(" and "), (joined(say(", "), names[:-1]), names[-1])) if len(names) > 1 else names[0]


_MUCH: Final = 0.1  # waiting that takes so much of the steps is enough even if no rank that is slow explains it
_WAITING: Final = say("the waiting of all ranks")
_TOGETHER: Final = say("all ranks arrive together, as early as those that wait do now")


class AllRanks(Struct, frozen=True):
    """A job, and what replaying it says."""

    job: Job
    fixed: Fixing | NotMeasured


def job_findings(job: Job, fixed: Fixing | NotMeasured) -> tuple[Finding, ...]:
    """What the ranks together say, what costs the most first; nothing where no collective was matched."""
    if not any(part.counted for part in job.parts):
        return ()
    findings = [finding for rule in RULES for finding in rule.findings(AllRanks(job, fixed))]
    return tuple(sorted(findings, key=lambda one: (-max(one.saving_ns, one.explains_ns), one.code)))


def _skew(rule: Rule[AllRanks], ranks: AllRanks) -> Sequence[Finding]:
    """Ranks that arrive early wait for the last one. What waiting runs under compute costs nothing."""
    job, fixed = ranks.job, ranks.fixed
    if job.waited_ns < max(WORTH_TELLING * _steady_ns(job), 1):
        return ()
    late = int(np.argmax([part.caused_ns for part in job.parts]))
    waits = say("for {time}, at least one rank waits for others at a collective", time=_per_step(job, job.waited_ns))
    evidence = [_last_at(job, late), *_waited_at(job, late), _most_and_least(job)]
    if job.steps == 1:
        evidence.append(
            Evidence(say("one step was recorded: its first collective also shows how far apart captures began"))
        )
    if isinstance(fixed, NotMeasured):
        return [_not_replayed(rule, job, late, waits, evidence, fixed.reason)]
    fixes = fixed.of_late_ranks
    saving = job.steps * sum(fix.then_ns for fix in fixes)
    if saving < WORTH_TELLING * _steady_ns(job) and job.waited_ns < _MUCH * _steady_ns(job):
        return ()
    if not fixes:
        said = say("{waits}; bringing any one rank to the median pace would not make the job faster", waits=waits)
        every = _finding(rule, job, said, [*evidence, *_doubts(job)], (_lost_in_steps_ns(job), 0), _TOGETHER)
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
    return [_finding(rule, job, claim, [*evidence, *_doubts(job)], (saving, min(alone, saving)), assumption)]


def _not_replayed(
    rule: Rule[AllRanks], job: Job, late: int, waits: str, evidence: list[Evidence], reason: str
) -> Finding:
    """Who is waited for is known; what fixing it saves is not, but no more than what is waited."""
    claim = say("{waits}, most of all for {rank}", waits=waits, rank=job.ranks[late].label)
    evidence.append(Evidence(say("what fixing it saves was not replayed: {reason}", reason=reason)))
    finding = _finding(rule, job, claim, [*evidence, *_doubts(job)], (job.waited_ns, 0), _TOGETHER)
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
        say("fixing {rank} alone saves {time}", rank=fix_name(job, first), time=per_step(job, first.alone_ns))
        if first.alone_ns
        else say("fixing {rank} alone saves nothing", rank=fix_name(job, first))
    )
    return [
        Evidence(said),
        *(
            Evidence(say("then {why}: saves {time} more", why=why_slow(job, fix), time=per_step(job, fix.then_ns)))
            for fix in others[:MOST_NAMED]
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
    if share < LEAST_SHARE:
        return Evidence(said, count=part.late)
    said = say("{last}, which account for {share} of all waiting", last=said, share=share_text(share))
    return Evidence(said, count=part.late, share=share, of=_WAITING)


def _waited_at(job: Job, late: int) -> list[Evidence]:
    """The place in the step at which ranks wait the longest, if that says where to look."""
    from gpuledger.analyse.ranks.collectives import worst_place

    place, waited = worst_place(job), sum(part.wait_ns for part in job.parts)
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


def _most_and_least(job: Job) -> Evidence:
    """The two ends of the waiting: the longest waiting rank is the fastest one."""
    from gpuledger.analyse.ranks.job import slowest_step_ns

    waits = [part.wait_ns for part in job.parts]
    most, least = int(np.argmax(waits)), int(np.argmin(waits))
    text = say(
        "{rank} waits {time}, {other} {less}",
        rank=job.ranks[most].label,
        time=_per_step(job, waits[most]),
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


def _exposed_communication(rule: Rule[AllRanks], ranks: AllRanks) -> Sequence[Finding]:
    """What of the exposed communication is not waiting: the transfer itself, for the middle rank."""
    job, fixed = ranks.job, ranks.fixed
    moving = [rank.exposed_comm_ns - part.exposed_wait_ns for rank, part in zip(job.ranks, job.parts, strict=True)]
    exposed = _middle(moving)
    saving = min(exposed, _middle([rank.compute_ns for rank in job.ranks]))
    if saving < max(WORTH_TELLING * _steady_ns(job), 1):
        return ()
    claim = say(
        "{time} of communication other than waiting is not overlapped with compute",
        time=_per_step(job, exposed),
    )
    whole = sum(rank.exposed_comm_ns for rank in job.ranks)
    waiting = sum(part.exposed_wait_ns for part in job.parts) / whole
    share, what = (
        (1 - waiting, say("actual transfer")) if waiting < MOSTLY else (waiting, say("waiting for other ranks"))
    )
    evidence = [
        *_slow_collectives(job, fixed),
        Evidence(
            say(
                "of the exposed communication of all ranks, {share} is {what}; the waiting part is COMM-SKEW",
                share=share_text(share),
                what=what,
            ),
            count=sum(part.counted for part in job.parts),
            share=share,
            of=say("the exposed communication of all ranks"),
        ),
    ]
    unmatched = sum(part.seen - part.matched for part in job.parts)
    if unmatched:
        said = say("{count} collectives were not matched: this includes their waits", count=count_text(unmatched))
        evidence.append(Evidence(said, count=unmatched))
    assumption = say("compute in the same step hides it, without slowing down")
    return [_finding(rule, job, claim, [*evidence, *_doubts(job)], (saving, saving), assumption)]


def _slow_collectives(job: Job, fixed: Fixing | NotMeasured) -> list[Evidence]:
    """Collectives whose transfer takes longer than that of others like them."""
    if isinstance(fixed, NotMeasured):
        return []
    return [
        Evidence(
            say(
                "{why}: without that the job's step is {saved} shorter",
                why=why_slow(job, fix),
                saved=time_text(fix.alone_ns),
            ),
            kernel=fix.place.kind,
            count=fixed.steps,
        )
        for fix in fixed.in_order
        if fix.place is not None
    ]


def _middle(times: list[int]) -> int:
    """The median; of two ranks the mean, as both may wait in turn."""
    return int(median(np.array(times, np.int64))) if times else 0


def _steady_ns(job: Job) -> int:
    return _middle([rank.steady_ns for rank in job.ranks])


def _per_step(job: Job, time: int) -> str:
    """Of the steady stretch, for each of its steps."""
    return per_step(job, time // job.steps)


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


RULES: Final = (
    Rule("COMM-SKEW", _skew, say("fix the ranks that come late: `gpuledger fleet` names them")),
    Rule("COMM-EXPOSED", _exposed_communication, OVERLAP_COMMUNICATION),
)

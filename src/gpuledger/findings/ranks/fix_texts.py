"""Words for what fixing a rank, a stage or a collective saves; tables of a job use them too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from gpuledger.messages import joined, say
from gpuledger.units import count_text, share_text, time_text

if TYPE_CHECKING:
    from gpuledger.analyse.ranks.fixing import Fix, Fixing
    from gpuledger.analyse.ranks.job import Job

MOSTLY: Final = 0.5
MAX_NAMED_RANKS: Final = 4
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


def per_job_step(job: Job, time: int) -> str:
    """A time that is of one step where there are steps."""
    return say("{time} per step", time=time_text(time)) if has_steps(job) else time_text(time)


def has_steps(job: Job) -> bool:
    """Whether times are of a step."""
    return all(len(rank.edges_ns) for rank in job.ranks)


def why_slow(job: Job, fix: Fix) -> str:
    """What it takes longer in than the median."""
    from gpuledger.analyse.ranks.rank import WorkPart

    excess, who = fix.excess[0], fix_name(job, fix)
    time = per_job_step(job, excess.longer_ns)
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
    if len(fixes) > MAX_NAMED_RANKS:
        return say("the first {count} of them", count=count_text(len(fixes)))
    numbers = [job.ranks[fix.ranks[0]].rank for fix in fixes if len(fix.ranks) == 1]
    if len(numbers) == len(fixes) > 1 and None not in numbers:
        return say("ranks {numbers}", numbers=comma_list([str(number) for number in numbers]))
    return comma_list([fix_name(job, fix) for fix in fixes])


def comma_list(names: Sequence[str]) -> str:
    """a, b and c."""
    return joined(say(" and "), (joined(say(", "), names[:-1]), names[-1])) if len(names) > 1 else names[0]

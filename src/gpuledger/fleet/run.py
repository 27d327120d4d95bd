"""The job of many profiles: each is read once and its ranks are summed up; then all are merged.

The work is done here, by processes of this machine, or by a cluster. A profile that fails is named and the rest goes
on. Summaries are put in the order of the profiles' names before they are merged, so that the result does not depend on
who was done first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpuledger.analyse.ranks.job import Job, job
from gpuledger.analyse.ranks.rank import RankSummary, rank_summary
from gpuledger.analyse.ranks.rank_traces import RankTrace, rank_places, rank_traces
from gpuledger.errors import NothingRecorded, ToolFailed
from gpuledger.fleet import cluster
from gpuledger.fleet.profiles import Failed, Profile, as_stored, failure, job_profiles, memory_bytes, natural
from gpuledger.ledger.steps import Wanted
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.read import open_trace
from gpuledger.system import host_resources, worker_processes
from gpuledger.trace.tables import Table
from gpuledger.units import count_text
from gpuledger.version import own_version

NEEDED: Final = {
    table: frozenset(column.name for column in table.schema.columns)
    - {"stack", "kernel", "grid", "block", "registers", "smem_static_bytes", "smem_dynamic_bytes"}
    for table in Table
    if table not in (Table.ALLOCS, Table.SAMPLES, Table.METRICS)
}
"""What the summaries of ranks are made from; the rest is not read."""

ProfileOutcome = tuple[RankSummary | Failed, ...]
"""What came of a profile's ranks, of which there is at least one."""
Tell = Callable[[int, int], None]
"""Is told how many profiles of how many are done; 0 of 0 while they are still looked for."""

WORKER_BYTES: Final = 2 << 30
"""The memory that one worker should have at least."""
_SHOWN: Final = 5
"""So many failures are shown where nothing else is."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """What came of a job's profiles."""

    job: Job
    profiles: int
    """How many there were, those that failed included."""
    analysed: int
    """Of how many at least one rank could be analysed."""
    failed: tuple[Failed, ...]
    """Profiles, and ranks of profiles that hold several."""


def say_nothing(_: int, __: int) -> None:
    """For whoever does not watch."""


def fleet(
    given: Sequence[str],
    wanted: Wanted,
    *,
    scheduler: str | None = None,
    count: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    tell: Tell = say_nothing,
    operations: int = 0,
) -> Fleet:
    """Analyse the profiles that `given` names: on the cluster at `scheduler`, else with `count` local workers.

    Without `count`, as many as this machine has cores and memory for; 0: in this process. About so many `operations` of
    all ranks together are kept to be replayed.
    """
    tell(0, 0)
    profiles, broken = job_profiles(given, limits)
    each = -(-operations // max(len(profiles), 1))
    task = functools.partial(summarise, wanted=wanted, limits=limits, expected=own_version(), operations=each)
    outcomes = done_by(task, profiles, scheduler=scheduler, count=count, tell=tell)
    failed = [*broken, *(part for outcome in outcomes for part in outcome if isinstance(part, Failed))]
    failed.sort(key=lambda profile: natural(profile.name))
    ranks = [part for outcome in outcomes for part in outcome if isinstance(part, RankSummary)]
    if not ranks:
        raise _none(given, len(profiles) + len(broken), failed)
    held = {rank.profile for rank in ranks}
    if len(profiles) + len(broken) > 1:  # which one a rank is from has to be said
        ranks = [replace(rank, name=f"{rank.name} of {rank.profile}") if rank.name else rank for rank in ranks]
    return Fleet(job(ranks), len(profiles) + len(broken), len(held), tuple(failed))


def done_by(
    task: Callable[[Profile], ProfileOutcome],
    profiles: Sequence[Profile],
    *,
    scheduler: str | None = None,
    count: int | None = None,
    tell: Tell = say_nothing,
) -> list[ProfileOutcome]:
    """What `task` gives for each profile, in their order. Those of an archive are read as it stores them: in one go."""
    order = sorted(range(len(profiles)), key=lambda number: as_stored(profiles[number]))
    outcomes = _in_this_order(task, [profiles[number] for number in order], scheduler, count, tell)
    by_number = dict(zip(order, outcomes, strict=True))
    return [by_number[number] for number in range(len(profiles))]


def _in_this_order(
    task: Callable[[Profile], ProfileOutcome],
    profiles: Sequence[Profile],
    scheduler: str | None,
    count: int | None,
    tell: Tell,
) -> list[ProfileOutcome]:
    total = len(profiles)
    if scheduler is not None:
        tell(0, total)
        with cluster.cluster_at(scheduler) as client:
            return cluster.spread(client, task, profiles, lost=_lost, tell=lambda done: tell(done, total))
    if count is None:
        # one worker would do no more than this process can, and has to be started first
        count = worker_count(total, max(map(memory_bytes, profiles), default=0))
        count = 0 if count == 1 or not worker_processes.are_allowed() else count
    if not count:
        return [_done_here(task, profile, number, total, tell) for number, profile in enumerate(profiles)]
    tell(0, total)
    return worker_processes.spread(
        task,
        profiles,
        count=count,
        memory_bytes=max(host_resources.free_memory_bytes() // min(count, max(total, 1)), WORKER_BYTES // 4),
        lost=_lost,
        tell=lambda done: tell(done, total),
    )


def worker_count(profiles: int, largest_bytes: int) -> int:
    """How many workers this machine has cores and memory for, if reading one profile takes up to `largest_bytes`."""
    by_memory = host_resources.free_memory_bytes() // max(largest_bytes, WORKER_BYTES)
    return max(min(host_resources.usable_cores(), profiles, by_memory), 1)


def summarise(profile: Profile, wanted: Wanted, limits: Limits, expected: str, operations: int = 0) -> ProfileOutcome:
    """What a profile's ranks contribute to the job; runs on a worker, and raises nothing."""
    try:
        if (installed := own_version()) != expected:
            raise ToolFailed(f"the worker has gpuledger {installed}, not {expected}")
        trace = open_trace(profile.address, only=NEEDED, limits=limits)
        each = -(-operations // max(len(rank_places(trace, wanted.families)), 1))
        return tuple(_summary(part, profile.name, each) for part in rank_traces(trace, wanted))
    except Exception as error:  # any profile may be broken in a new way, and the others are none the worse for it
        return (failure(profile.name, error),)


def _summary(part: RankTrace, profile: str, operations: int) -> RankSummary | Failed:
    try:
        return rank_summary(part.trace, profile, part.wanted, name=part.name, place=part.place, operations=operations)
    except Exception as error:  # as for a profile
        failed = failure(profile, error)
        return replace(failed, name=f"{part.name} of {profile}") if part.name else failed


def _done_here(
    task: Callable[[Profile], ProfileOutcome], profile: Profile, number: int, total: int, tell: Tell
) -> ProfileOutcome:
    tell(number, total)
    return task(profile)


def _lost(profile: Profile, reason: str) -> ProfileOutcome:
    return (Failed(profile.name, reason),)


def _none(given: Sequence[str], profiles: int, failed: Sequence[Failed]) -> NothingRecorded:
    """The refusal when not one profile could be analysed."""
    lines = [f"{profile.name}: {profile.sentence}" for profile in failed[:_SHOWN]]
    rest = [f"and {count_text(len(failed) - _SHOWN)} more"] if len(failed) > _SHOWN else []
    return NothingRecorded(
        f"{', '.join(given)}: not one of {count_text(profiles)} profile{'s' * (profiles > 1)} could be analysed",
        found="\n".join([*lines, *rest]),
        hint="`gpuledger info PROFILE` says what is in one of them",
    )

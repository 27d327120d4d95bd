"""The job of many profiles: each is read and summed up on its own, here or by Dask workers; then they are merged.

A profile that fails is named and the rest goes on. Summaries are put in the order of the profiles' names before they
are merged, so that the result does not depend on who was done first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

from gpuledger.analyse.ranks.job import Job, job
from gpuledger.analyse.ranks.rank import RankSummary, rank_summary
from gpuledger.errors import NothingRecorded, ToolFailed
from gpuledger.fleet import workers
from gpuledger.fleet.profiles import Failed, Profile, failure, job_profiles, memory_bytes, natural
from gpuledger.ledger.steps import Wanted
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.read import open_trace
from gpuledger.trace.tables import Table
from gpuledger.units import count_text

NEEDED: Final = {
    table: frozenset(column.name for column in table.schema.columns)
    - {"stack", "grid", "block", "registers", "smem_static_bytes", "smem_dynamic_bytes"}
    for table in Table
    if table not in (Table.SYNCS, Table.ALLOCS, Table.SAMPLES)
}
"""What a rank's summary is made from; the rest is not read."""

Outcome = RankSummary | Failed
Tell = Callable[[int, int], None]
"""Is told how many profiles of how many are done; 0 of 0 while they are still looked for."""

_SHOWN: Final = 5
"""So many failures are shown where nothing else is."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """What came of a job's profiles."""

    job: Job
    profiles: int
    """How many there were, those that failed included."""
    failed: tuple[Failed, ...]


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
) -> Fleet:
    """Analyse the profiles that `given` names: on the cluster at `scheduler`, else with `count` local workers.

    Without `count`, as many as this machine has cores and memory for; 0, or without Dask: in this process.
    """
    tell(0, 0)
    profiles, broken = job_profiles(given, limits)
    task = functools.partial(summarise, wanted=wanted, limits=limits, expected=version("gpuledger"))
    outcomes = done_by(task, profiles, scheduler=scheduler, count=count, tell=tell)
    failed = [*broken, *(each for each in outcomes if isinstance(each, Failed))]
    failed.sort(key=lambda each: natural(each.name))
    ranks = [each for each in outcomes if isinstance(each, RankSummary)]
    if not ranks:
        raise _none(given, failed)
    return Fleet(job(ranks), len(profiles) + len(broken), tuple(failed))


def done_by(
    task: Callable[[Profile], Outcome],
    profiles: Sequence[Profile],
    *,
    scheduler: str | None = None,
    count: int | None = None,
    tell: Tell = say_nothing,
) -> list[Outcome]:
    """What `task` gives for each profile, in their order."""
    total = len(profiles)
    if scheduler is None and count is None:
        # one worker would do no more than this process can, and has to be started first
        several = total > 1 and workers.are_possible()
        count = workers.worker_count(total, max(map(memory_bytes, profiles))) if several else 0
        count = 0 if count == 1 else count
    if scheduler is None and not count:
        return [_told(task, profile, at, total, tell) for at, profile in enumerate(profiles)]
    tell(0, total)
    group = workers.workers_of(scheduler) if scheduler else workers.local_workers(min(count or 1, total))
    with group as client:
        return workers.spread(client, task, profiles, _lost, lambda done: tell(done, total))


def summarise(profile: Profile, wanted: Wanted, limits: Limits, expected: str) -> Outcome:
    """One profile's part in the job; runs on a worker, and raises nothing."""
    try:
        if (found := version("gpuledger")) != expected:
            raise ToolFailed(f"the worker has gpuledger {found}, not {expected}")
        return rank_summary(open_trace(profile.address, only=NEEDED, limits=limits), profile.name, wanted)
    except Exception as error:  # any profile may be broken in a new way, and the others are none the worse for it
        return failure(profile.name, error)


def _told(task: Callable[[Profile], Outcome], profile: Profile, at: int, total: int, tell: Tell) -> Outcome:
    tell(at, total)
    return task(profile)


def _lost(profile: Profile, error: Exception) -> Failed:
    return Failed(profile.name, workers.died(error))


def _none(given: Sequence[str], failed: Sequence[Failed]) -> NothingRecorded:
    """The refusal when not one profile could be analysed."""
    lines = [f"{each.name}: {each.sentence}" for each in failed[:_SHOWN]]
    more = [f"and {count_text(len(failed) - _SHOWN)} more"] if len(failed) > _SHOWN else []
    return NothingRecorded(
        f"{', '.join(given)}: not one of {count_text(len(failed))} profile{'s' * (len(failed) > 1)} could be analysed",
        found="\n".join([*lines, *more]),
        hint="`gpuledger info PROFILE` says what is in one of them",
    )

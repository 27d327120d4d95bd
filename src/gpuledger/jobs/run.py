"""The job of many profiles: folders, globs, archives and files in; the ranks of each summed up and merged out.

A profile that fails is named and the rest goes on. Summaries are put in the order of the profiles' names before they
are merged, so that the result does not depend on who was done first.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.analyse.ranks.job import Job, job
from gpuledger.analyse.ranks.rank import RankSummary, rank_places, rank_summary, rank_traces
from gpuledger.errors import GpuledgerError, NothingRecorded, ToolFailed
from gpuledger.jobs import cluster
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.messages import say
from gpuledger.read import open_trace, profiles_in
from gpuledger.read.registry import reader_of
from gpuledger.read.source import in_time, look_at
from gpuledger.selection import Selection
from gpuledger.system import resources, worker_processes
from gpuledger.system.files import SEPARATOR
from gpuledger.system.opening import exists, is_dir, is_limited, seen, walk
from gpuledger.trace.tables import Table
from gpuledger.units import count_text
from gpuledger.version import own_version

_NAMED_LIKE_ONE: Final = (".json", ".json.gz", ".sqlite", ".nsys-rep", ".tar", ".tar.gz", ".tgz", ".zip")


class Profile(Struct, frozen=True):
    """One profile of a job."""

    address: str  # absolute, so that a worker in another folder finds it
    name: str  # how the report calls it: the path below the folder that holds all of them
    place: int = 0  # where it lies among the profiles of its archive, which is read fastest in this order


class Failed(Struct, frozen=True):
    """A profile, or a rank of one, that could not be read or analysed."""

    profile: str
    sentence: str
    """What was wrong, without a full stop."""


def job_profiles(given: Sequence[str], limits: Limits = DEFAULT_LIMITS) -> tuple[list[Profile], list[Failed]]:
    """The profiles that `given` names, in the order of their names, and what could not be looked at."""
    paths = list(dict.fromkeys(path.absolute() for text in given for path in _named(text)))
    if not paths:
        raise NothingRecorded(
            f"{', '.join(given)}: no profile in there",
            found="looked for torch.profiler traces, nsys exports and reports, and archives of traces, at any depth",
            hint="give the folder that holds the profiles, or a glob in quotes: 'traces/**/*.json.gz'",
        )
    below = os.path.commonpath([Path(str(path).partition(SEPARATOR)[0]).parent for path in paths])
    profiles, broken = [], []
    for path in paths:
        try:
            members = profiles_in(path, limits) if exists(path) else [str(path)]
            if not members:
                raise NothingRecorded(f"{path.name}: an archive without a profile in it")
            profiles += [
                Profile(address, os.path.relpath(address, below), place) for place, address in enumerate(members)
            ]
        except GpuledgerError as error:
            broken.append(failure(os.path.relpath(path, below), error))
    return sorted(profiles, key=lambda profile: natural(profile.name)), broken


def failure(name: str, error: Exception) -> Failed:
    """What went wrong with a profile, in one sentence."""
    if isinstance(error, MemoryError):
        return Failed(name, "not enough memory")
    claim = error.claim if isinstance(error, GpuledgerError) else f"internal error: {type(error).__name__}: {error}"
    for own in (name, Path(name).name, Path(name.split(SEPARATOR)[0]).name):
        claim = claim.removeprefix(f"{own}: ")
    return Failed(name, " ".join(claim.split()))


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts rank2 before rank10."""
    return tuple((1, int(part), "") if part.isdecimal() else (0, 0, part) for part in re.split(r"(\d+)", text))


def profiles_text(profiles: int, failed: int) -> str:
    """How many were analysed, in words."""
    whole = say("1 profile") if profiles == 1 else say("{count} profiles", count=count_text(profiles))
    return whole if not failed else say("{count} of {whole}", count=count_text(profiles - failed), whole=whole)


def _named(text: str) -> Iterable[Path]:
    path = Path(text)
    if is_dir(path):
        return _below(path)
    is_there = os.path.lexists(path) or (SEPARATOR in text and exists(Path(text.partition(SEPARATOR)[0])))
    if not is_there and glob.has_magic(text) and not is_limited():  # it goes through links
        matches = [Path(match) for match in sorted(glob.glob(text, recursive=True), key=natural)]  # noqa: PTH207
        return [path for match in matches for path in (_below(match) if match.is_dir() else [match])]
    if not is_there:
        look_at(path)  # says that there is no such file, and which was probably meant
    return [path]


def _below(folder: Path) -> Iterator[Path]:
    """The profiles in a folder and the folders below it; the folder itself where it is an export."""
    for here, folders, files in walk(folder):
        where = Path(here)
        if _recognised(where):
            folders.clear()
            yield where
            continue
        folders.sort(key=natural)
        for name in sorted(files, key=natural):
            exported = name.endswith(".nsys-rep") and name.removesuffix(".nsys-rep") + ".sqlite" in files
            if not name.startswith(".") and not exported:
                path = where / name
                if name.lower().endswith(_NAMED_LIKE_ONE) or _recognised(path):
                    yield path


def _recognised(path: Path) -> bool:
    try:
        source = look_at(path)
    except GpuledgerError:
        return False
    return reader_of(source) is not None


NEEDED: Final = {
    table: frozenset(column.name for column in table.schema.columns)
    - {"stack", "kernel", "blocks", "grid", "block", "registers", "smem_static_bytes", "smem_dynamic_bytes"}
    for table in Table
    if table not in (Table.ALLOCS, Table.SAMPLES, Table.METRICS)
}
"""What the summaries of ranks are made from; the rest is not read."""

ProfileOutcome = tuple[RankSummary | Failed, ...]  # what came of a profile's ranks, of which there is at least one
Tell = Callable[[int, int], None]
"""Is told how many profiles of how many are done; 0 of 0 while they are still looked for."""

WORKER_BYTES: Final = 2 << 30  # the memory that one worker should have at least
_SHOWN: Final = 5  # failures shown where nothing else is


class Fleet(Struct, frozen=True):
    """What came of a job's profiles."""

    job: Job
    profiles: int  # how many there were, those that failed included
    analysed: int  # of how many at least one rank could be analysed
    failed: tuple[Failed, ...]  # profiles, and ranks of profiles that hold several


def fleet(
    given: Sequence[str],
    wanted: Selection,
    *,
    scheduler: str | None = None,
    count: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    tell: Tell = lambda *_: None,
    operations: int = 0,
    phases: bool = False,
) -> Fleet:
    """Analyse the profiles that `given` names: on the cluster at `scheduler`, else with `count` local workers.

    Without `count`, as many as this machine has cores and memory for; 0: in this process. About so many `operations` of
    all ranks together are kept to be replayed; with `phases` each rank's steps are told by phase of a layer.
    """
    tell(0, 0)
    profiles, broken = job_profiles(given, limits)
    total = len(profiles) + len(broken)
    per_profile = -(-operations // max(len(profiles), 1))
    task = partial(
        summarize_rank, wanted=wanted, limits=limits, expected=own_version(), operations=per_profile, phases=phases
    )
    outcomes = done_by(task, profiles, scheduler=scheduler, count=count, tell=tell)
    failed = [*broken, *(part for outcome in outcomes for part in outcome if isinstance(part, Failed))]
    failed.sort(key=lambda one: natural(one.profile))
    ranks = [part for outcome in outcomes for part in outcome if isinstance(part, RankSummary)]
    if not ranks:
        lines = [f"{one.profile}: {one.sentence}" for one in failed[:_SHOWN]]
        rest = [f"and {count_text(len(failed) - _SHOWN)} more"] if len(failed) > _SHOWN else []
        raise NothingRecorded(
            f"{', '.join(given)}: not one of {count_text(total)} profile{'s' * (total > 1)} could be analysed",
            found="\n".join([*lines, *rest]),
            hint="`gpuledger info PROFILE` says what is in one of them",
        )
    analysed = len({rank.profile for rank in ranks})
    if total > 1:  # which one a rank is from has to be said
        ranks = [replace(rank, name=f"{rank.name} of {rank.profile}") if rank.name else rank for rank in ranks]
    return Fleet(job(ranks), total, analysed, tuple(failed))


def done_by(
    task: Callable[[Profile], ProfileOutcome],
    profiles: Sequence[Profile],
    *,
    scheduler: str | None = None,
    count: int | None = None,
    tell: Tell = lambda *_: None,
) -> list[ProfileOutcome]:
    """What `task` gives for each profile, in their order. Those of an archive are read as it stores them: in one go."""

    def as_stored(number: int) -> tuple[object, ...]:
        return natural(profiles[number].name.partition(SEPARATOR)[0]), profiles[number].place

    def lost(profile: Profile, reason: str) -> ProfileOutcome:
        return (Failed(profile.name, reason),)

    total, order = len(profiles), sorted(range(len(profiles)), key=as_stored)
    stored = [profiles[number] for number in order]
    if scheduler is None and count is None:
        # one worker would do no more than this process can, and has to be started first
        count = worker_count(total, max(map(_memory_bytes, profiles), default=0))
        count = 0 if count == 1 or not worker_processes.are_allowed() else count
    if scheduler is None and not count:
        outcomes = []
        for number, profile in enumerate(stored):
            tell(number, total)
            outcomes.append(task(profile))
    else:
        tell(0, total)
        if scheduler is not None:
            with cluster.cluster_at(scheduler) as client:
                outcomes = cluster.spread(client, task, stored, lost=lost, tell=lambda done: tell(done, total))
        else:
            share = resources.free_memory_bytes() // min(count or 1, max(total, 1))
            outcomes = worker_processes.spread(
                task,
                stored,
                count=count or 1,
                memory_bytes=max(share, WORKER_BYTES // 4),
                lost=lost,
                tell=lambda done: tell(done, total),
            )
    by_number = dict(zip(order, outcomes, strict=True))
    return [by_number[number] for number in range(total)]


def _memory_bytes(profile: Profile) -> int:
    """What reading a profile may take, roughly: traces take half their size, and unpack to twelve times theirs."""
    size = seen(Path(profile.address.partition(SEPARATOR)[0])).st_size
    return size if profile.address.endswith((".json", ".sqlite", ".tar")) else 10 * size


def worker_count(profiles: int, largest_bytes: int) -> int:
    """How many workers this machine has cores and memory for, if reading one profile takes up to `largest_bytes`."""
    by_memory = resources.free_memory_bytes() // max(largest_bytes, WORKER_BYTES)
    return max(min(resources.usable_cores(), profiles, by_memory), 1)


def summarize_rank(
    profile: Profile, wanted: Selection, limits: Limits, expected: str, operations: int = 0, *, phases: bool = False
) -> ProfileOutcome:
    """What a profile's ranks contribute to the job; runs on a worker, and raises nothing."""
    try:
        if (installed := own_version()) != expected:
            raise ToolFailed(f"the worker has gpuledger {installed}, not {expected}")
        with in_time(profile.name, limits):
            trace = open_trace(profile.address, only=NEEDED, limits=limits)
            each = -(-operations // max(len(rank_places(trace, wanted.families)), 1))
            outcome: list[RankSummary | Failed] = []
            for part in rank_traces(trace, wanted):
                try:
                    rank = partial(rank_summary, name=part.name, place=part.place, operations=each, phases=phases)
                    outcome.append(rank(part.trace, profile.name, part.wanted))
                except Exception as error:  # as for a profile
                    failed = failure(profile.name, error)
                    outcome.append(replace(failed, profile=f"{part.name} of {profile.name}") if part.name else failed)
            return tuple(outcome)
    except Exception as error:  # any profile may be broken in a new way, and the others are none the worse for it
        return (failure(profile.name, error),)

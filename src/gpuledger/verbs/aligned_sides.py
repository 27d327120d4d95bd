"""Sides of an alignment: a mock and a model in, each as the forwards of the operation out."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.analyse.align.alignment import Isolation
from gpuledger.analyse.align.kernel_sequences import Forwards
from gpuledger.analyse.align.operation_side import OperationSide, side
from gpuledger.analyse.align.sides_from import (
    mock_forwards,
    mock_from_table,
    model_forwards,
    model_from_table,
    side_of_timing,
)
from gpuledger.errors import GpuledgerError, WrongCall
from gpuledger.jobs.run import job_profiles
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.read.stats_text.tables import is_printed_tables, open_summaries
from gpuledger.selection import Selection
from gpuledger.stages import NOBODY
from gpuledger.timing.timed_operations import TimedOperation
from gpuledger.trace.model import Note, Trace
from gpuledger.verbs.compared_sides import timings_at, told_apart
from gpuledger.verbs.definition import ProfileOptions
from gpuledger.verbs.profiles import Profile, profile_name, read_profile

_SIDES: Final = ("mock", "model")


class ReadSide(Struct, frozen=True):
    """A side as it was read: what isolating it had to say, what was lost, and whether it holds all that belongs."""

    side: OperationSide
    remarks: tuple[str, ...]
    health: tuple[Note, ...]
    whole: bool = True


def aligned_sides(
    mock: Profile,
    ranks: Sequence[Profile],
    isolation: Isolation,
    mock_range: str | None,
    wanted: Selection,
    forwards: tuple[int | None, int | None],
    asked: ProfileOptions,
) -> tuple[ReadSide, ReadSide]:
    """Both sides, under names that tell them apart. `forwards` are how many there are in printed tables."""
    timed = _timed_sides(mock, ranks, asked.get("limits", DEFAULT_LIMITS))
    if timed is not None:
        ours, theirs = (ReadSide(operation, (), ()) for operation in timed)
    elif ranks:
        ours = _mock(mock, mock_range, isolation, forwards[0], asked | {"names_from": None})
        theirs = _model(ranks, wanted, isolation, ours.side, forwards[1], asked)
    else:
        raise WrongCall(
            "one side alone cannot be compared",
            hint="give MOCK and E2E, or one file of two operations that `gpuledger time` timed in turns",
        )
    if ours.side.profile == theirs.side.profile and ranks:
        names = told_apart(mock, ranks[0])
        ours, theirs = (
            replace(read, side=replace(read.side, profile=name))
            for read, name in zip((ours, theirs), names, strict=True)
        )
    return ours, theirs


def _timed_sides(mock: Profile, e2e: Sequence[Profile], limits: Limits) -> tuple[OperationSide, OperationSide] | None:
    """Both sides where they are what `gpuledger time` wrote; None where neither is."""
    paths = [given for given in (mock, *e2e) if not isinstance(given, Trace)]
    if len(paths) < len(e2e) + 1:
        return None
    files = [(given, timings_at(given, limits)) for given in paths]
    operations = [(Path(given).name, operation) for given, timings in files for operation in timings or ()]
    if not operations:
        return None
    if len(operations) != len(_SIDES) or any(timings is None for _, timings in files):
        raise GpuledgerError(
            "a timing is compared with one other timing",
            found=", ".join(f"{Path(given).name}: {_count_words(timings)}" for given, timings in files),
            hint="give one file of `gpuledger time A B -o FILE.json`, or two of `gpuledger time A -o FILE.json`",
        )
    first, second = (
        side_of_timing(operation, operation.operation if not e2e else name) for name, operation in operations
    )
    return first, second


def _count_words(timings: tuple[TimedOperation, ...] | None) -> str:
    return "no timing" if timings is None else "two operations" if len(timings) > 1 else "one operation"


def _mock(
    mock: Profile, mock_range: str | None, isolation: Isolation, forwards: int | None, asked: ProfileOptions
) -> ReadSide:
    limits = asked.get("limits", DEFAULT_LIMITS)
    if not isinstance(mock, Trace) and is_printed_tables(mock, limits=limits):
        run = open_summaries(mock, limits=limits)
        made = mock_from_table(run, isolation, forwards)
        return ReadSide(made.side, made.notes, run.health)
    trace = _trace(mock, asked)
    ours = mock_forwards(trace, profile_name(mock, "mock"), Selection(), mock_range, isolation)
    return ReadSide(side(ours.forwards), ours.notes, trace.health)


def _trace(profile: Profile, asked: ProfileOptions) -> Trace:
    progress = asked.get("progress", NOBODY)
    progress.clear()
    trace = read_profile(profile, **asked)
    progress.stage("looking for the operation")
    return trace


def _model(
    given: Sequence[Profile],
    wanted: Selection,
    isolation: Isolation,
    mock: OperationSide,
    forwards: int | None,
    asked: ProfileOptions,
) -> ReadSide:
    limits = asked.get("limits", DEFAULT_LIMITS)
    if len(given) == 1 and not isinstance(given[0], Trace) and is_printed_tables(given[0], limits=limits):
        run = open_summaries(given[0], limits=limits)
        made = model_from_table(run, isolation, mock, forwards)
        return ReadSide(made.side, made.notes, run.health, made.whole)
    if not mock.ordered and isolation.by == "auto":
        raise GpuledgerError(
            "the mock's table has no order, so its sequence cannot be looked for",
            hint="--range=REGEX or --pattern=REGEX says where the operation is",
        )
    ranks, remarks, health = list[Forwards](), dict[str, None](), list[Note]()
    for profile, name in _profiles(given, limits):
        gc.collect()  # the last profile's trace and books, which refer to each other in a circle
        trace = _trace(profile, asked)
        theirs = model_forwards(trace, name, wanted, isolation, mock.kernels)
        ranks += theirs.forwards
        remarks |= dict.fromkeys(theirs.notes)
        health += trace.health
    return ReadSide(side(ranks, mock.kernels), tuple(remarks), tuple(dict.fromkeys(health)))


def _profiles(given: Sequence[Profile], limits: Limits) -> list[tuple[Profile, str]]:
    """Every rank's profile with its name: those that were read, or all in the files, folders and globs."""
    if any(isinstance(profile, Trace) for profile in given):
        return [(profile, profile_name(profile, "model")) for profile in given]
    profiles, broken = job_profiles([str(path) for path in given], limits)
    if broken:
        raise GpuledgerError(f"{broken[0].profile}: {broken[0].sentence}")
    return [(profile.address, profile.name) for profile in profiles]

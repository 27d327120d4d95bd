"""Sides of an alignment: a mock and a model in, each as the forwards of the operation out."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from gpuledger.analyse.align.kernel_sequences import Forwards
from gpuledger.analyse.align.operation_kernels import Isolation, mock_forwards, model_forwards
from gpuledger.analyse.align.operation_side import (
    OperationSide,
    mock_from_table,
    model_from_table,
    side,
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


ReadSide = tuple[OperationSide, tuple[Note, ...]]
"""A side, and what was lost on reading it."""


def aligned_sides(
    mock: Profile,
    ranks: Sequence[Profile],
    isolation: Isolation,
    mock_range: str | None,
    wanted: Selection,
    forwards: tuple[int | None, int | None],
    asked: ProfileOptions,
) -> tuple[OperationSide, OperationSide, tuple[Note, ...]]:
    """Both sides, under names that tell them apart, and what was lost on reading them. `forwards` are how many there
    are in printed tables."""
    timed = _timed_sides(mock, ranks, asked.get("limits", DEFAULT_LIMITS))
    health: tuple[Note, ...] = ()
    if timed is not None:
        ours, theirs = timed
    elif ranks:
        ours, our_health = _mock(mock, mock_range, isolation, forwards[0], asked | {"names_from": None})
        theirs, their_health = _model(ranks, wanted, isolation, ours, forwards[1], asked)
        health = (*our_health, *their_health)
    else:
        raise WrongCall(
            "one side alone cannot be compared",
            hint="give MOCK and E2E, or one file of two operations that `gpuledger time` timed in turns",
        )
    if ours.profile == theirs.profile and ranks:
        names = told_apart(mock, ranks[0])
        ours, theirs = replace(ours, profile=names[0]), replace(theirs, profile=names[1])
    return ours, theirs, health


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
        return mock_from_table(run, isolation, forwards), run.health
    trace = _trace(mock, asked)
    ours = mock_forwards(trace, profile_name(mock, "mock"), Selection(), mock_range, isolation)
    return side([ours]), trace.health


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
        return model_from_table(run, isolation, mock, forwards), run.health
    if not mock.ordered and isolation.by == "auto":
        raise GpuledgerError(
            "the mock's table has no order, so its sequence cannot be looked for",
            hint="--range=REGEX or --pattern=REGEX says where the operation is",
        )
    ranks, health = list[Forwards](), list[Note]()
    for profile, name in _profiles(given, limits):
        gc.collect()  # the last profile's trace and books, which refer to each other in a circle
        trace = _trace(profile, asked)
        ranks += model_forwards(trace, name, wanted, isolation, mock.kernels)
        health += trace.health
    return side(ranks, mock.kernels), tuple(dict.fromkeys(health))


def _profiles(given: Sequence[Profile], limits: Limits) -> list[tuple[Profile, str]]:
    """Every rank's profile with its name: those that were read, or all in the files, folders and globs."""
    if any(isinstance(profile, Trace) for profile in given):
        return [(profile, profile_name(profile, "model")) for profile in given]
    profiles, broken = job_profiles([str(path) for path in given], limits)
    if broken:
        raise GpuledgerError(f"{broken[0].profile}: {broken[0].sentence}")
    return [(profile.address, profile.name) for profile in profiles]

"""Whether a mock of one operation runs what the operation runs in the model."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from gpuledger.analyse.align.alignment import alignment
from gpuledger.analyse.align.checks import TIERS, KnownDifferences
from gpuledger.analyse.align.kernel_sequences import Forwards
from gpuledger.analyse.align.operation_kernels import Isolation, mock_forwards, model_forwards
from gpuledger.analyse.align.operation_side import (
    OperationSide,
    mock_from_table,
    model_from_table,
    side,
    side_of_timing,
)
from gpuledger.errors import GpuledgerError
from gpuledger.jobs.run import job_profiles
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.present.views.compare.align import AlignAnswer, align_answer
from gpuledger.read.stats_text.tables import is_printed_tables, open_summaries
from gpuledger.selection import Selection
from gpuledger.stages import NOBODY, Listener
from gpuledger.timing.timed_operations import TimedOperation
from gpuledger.trace.model import Note, Trace
from gpuledger.verbs.compared_sides import timings_at, told_apart
from gpuledger.verbs.profiles import Profile, ProfileReading, profile_name

_SIDES: Final = ("mock", "model")


_Read = tuple[OperationSide, tuple[Note, ...]]  # a side, and what was lost on reading it


def align(
    mock: Profile,
    model: Profile | Sequence[str] = (),
    *,
    range_pattern: str | None = None,
    kernel_pattern: str | None = None,
    mock_range: str | None = None,
    wanted: Selection | None = None,
    tier: str = "mock",
    known: KnownDifferences | None = None,
    forwards: tuple[int | None, int | None] = (None, None),
    names_from: Path | None = None,
    limits: Limits = DEFAULT_LIMITS,
    progress: Listener = NOBODY,
) -> AlignAnswer:
    """Whether a mock of one operation runs what the operation runs in the model: the seven checks of `gpuledger align`.

    The operation is what ranges that match launch, or the kernels whose names match, of the mock too; else the mock's
    own sequence of kernels is looked for. A model of several ranks is several profiles. Sides may also be tables that
    `nsys stats` printed, of so many `forwards`, or the JSON of `gpuledger time`, which for two operations is both.
    """
    isolation = Isolation("auto") if kernel_pattern is None else Isolation("pattern", kernel_pattern)
    if range_pattern is not None:
        isolation = Isolation("range", range_pattern)
    ranks = [model] if isinstance(model, Trace | str | Path) else list(model)
    timed = _timed_sides(mock, ranks, limits)
    if timed is None and not ranks:
        raise GpuledgerError("one side alone cannot be compared", hint="give a mock and a model, or a timing of both")
    if timed is None:
        reading = ProfileReading(limits, progress)
        one, health = _mock(mock, mock_range, isolation, forwards[0], reading)
        reading = replace(reading, names_from=names_from)
        other, their_health = _model(ranks, wanted or Selection(), isolation, one, forwards[1], reading)
    else:
        (one, other), health, their_health = timed, (), ()
    if one.profile == other.profile and ranks:
        names = told_apart(mock, ranks[0])
        one, other = replace(one, profile=names[0]), replace(other, profile=names[1])
    made = alignment(one, other, isolation, TIERS[tier], known or KnownDifferences())
    return align_answer(made, (*health, *their_health))


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
    mock: Profile, mock_range: str | None, isolation: Isolation, forwards: int | None, reading: ProfileReading
) -> _Read:
    if not isinstance(mock, Trace) and is_printed_tables(mock, limits=reading.limits):
        run = open_summaries(mock, limits=reading.limits)
        return mock_from_table(run, isolation, forwards), run.health
    trace = _trace(mock, reading)
    ours = mock_forwards(trace, profile_name(mock, "mock"), Selection(), mock_range, isolation)
    return side([ours]), trace.health


def _trace(profile: Profile, reading: ProfileReading) -> Trace:
    reading.progress.clear()
    trace = reading.trace(profile)
    reading.progress.stage("looking for the operation")
    return trace


def _model(
    given: Sequence[Profile],
    wanted: Selection,
    isolation: Isolation,
    mock: OperationSide,
    forwards: int | None,
    reading: ProfileReading,
) -> _Read:
    if len(given) == 1 and not isinstance(given[0], Trace) and is_printed_tables(given[0], limits=reading.limits):
        run = open_summaries(given[0], limits=reading.limits)
        return model_from_table(run, isolation, mock, forwards), run.health
    if not mock.ordered and isolation.by == "auto":
        raise GpuledgerError(
            "the mock's table has no order, so its sequence cannot be looked for",
            hint="--range=REGEX or --pattern=REGEX says where the operation is",
        )
    ranks, health = list[Forwards](), list[Note]()
    for profile, name in _profiles(given, reading.limits):
        gc.collect()  # the last profile's trace and books, which refer to each other in a circle
        trace = _trace(profile, reading)
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

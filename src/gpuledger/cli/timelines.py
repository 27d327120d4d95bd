"""Profiles on one timeline, for `gpuledger export` and `view`.

Several profiles are ranks of a job. They are read twice: once to find out, through their collectives, how far their
clocks are apart, and then one after the other to be written, so that only one of them is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import click
from msgspec import Struct
from msgspec.structs import replace

from gpuledger.changes.changes import Changes
from gpuledger.cli.terminal import progress
from gpuledger.errors import NothingRecorded, UnreadableProfile
from gpuledger.export.sections import (
    TimelineFormat,
    TimelineInput,
    earliest_ns,
    gzip_chunks,
    job_notes,
    scene,
    sections,
)
from gpuledger.export.timeline import TimelineSection, UniqueNumbers
from gpuledger.findings.profiled_run import columns_for
from gpuledger.jobs.run import Profile, fleet, job_profiles
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.read import open_trace
from gpuledger.read.source import in_time
from gpuledger.replay.edits import Edit
from gpuledger.replay.replayed_trace import replayed_trace
from gpuledger.replay.scenario import Scenario
from gpuledger.selection import Selection
from gpuledger.stages import FINDINGS
from gpuledger.system.files import replacing
from gpuledger.trace.model import Note, Severity
from gpuledger.units import count_text, time_text
from gpuledger.verbs.definition import Option

_DAY_NS: Final = 86_400_000_000_000

Fixes = Annotated[
    tuple[str, ...],
    Option(
        "The timeline as it would be with this finding fixed, by replay; may be given several times.",
        "--fix",
        metavar="CODE",
        completes="codes",
    ),
]


class Timeline(Struct, frozen=True):
    """What is to be written. Sections are made when they are asked for."""

    sections: Iterator[TimelineSection]
    first_ns: int  # no time comes before it
    remarks: tuple[str, ...] = ()


def timeline(
    given: Sequence[str],
    wanted: Selection,
    limits: Limits,
    *,
    workers: int | None,
    quiet: bool,
    fixes: Sequence[str] = (),
) -> Timeline:
    """The timeline of one profile, or of the ranks of a job; of one, as it would be with findings fixed."""
    profiles, broken = job_profiles(given, limits)
    if len(profiles) + len(broken) > 1:
        if fixes:
            raise click.UsageError("--fix replays one profile; several were given.")
        return _of_job(given, profiles, wanted, limits, workers, quiet)
    if broken:
        raise UnreadableProfile(f"{broken[0].profile}: {broken[0].sentence}")
    remarks: tuple[str, ...] = ()
    with progress(quiet=quiet) as tell, in_time(profiles[0].name, limits):
        trace = open_trace(profiles[0].address, only=columns_for(), limits=limits, progress=tell)
        tell.stage(FINDINGS)
        made = scene(trace, profiles[0].name, wanted)
        if fixes:
            made, saved = _with_fixes(made, profiles[0].name, fixes)
            remarks = (saved,)
    return Timeline(sections(made, UniqueNumbers()), earliest_ns(made.trace), remarks)


def _with_fixes(made: TimelineInput, name: str, codes: Sequence[str]) -> tuple[TimelineInput, str]:
    """The same as it would be with these findings fixed, on every GPU that has them; and what that does to a step."""
    changes = [Changes(made.trace, device, made.findings) for device in made.devices]
    edits: list[Edit] = []
    wanted = list(dict.fromkeys(code.upper() for code in codes))
    for code in wanted:
        having = [of for of in changes if code in of.findings]
        if not having:
            for of in changes:
                of.fix(code)  # says what is wrong with the code itself
            has = ", ".join(dict.fromkeys(finding.code for finding in made.findings)) or "none"
            raise NothingRecorded(f"{name}: has no finding {code}", found=f"its findings: {has}")
        edits += [of.fix(code).edit for of in having]
    trace = replayed_trace(changes[0].scenario, *edits)
    claim = f"this is no recording, but the profile replayed with {', '.join(wanted)} fixed"
    note = Note(Severity.WARNING, "replayed", claim)
    told = "; ".join(f"GPU {of.device.gpu}: {_before_and_after(of.scenario, edits)}" for of in changes)
    return scene(replace(trace, health=(note, *trace.health)), name, made.wanted), told


def _before_and_after(model: Scenario, edits: Sequence[Edit]) -> str:
    steps = model.device.step_count
    before, after = (time_text(round(time / steps)) for time in (model.device.steady_ns, model.steady_ns(*edits)))
    return f"{before} -> {after}" + (" per step" if model.device.steps is not None else "")


def _of_job(
    given: Sequence[str],
    profiles: Sequence[Profile],
    wanted: Selection,
    limits: Limits,
    workers: int | None,
    quiet: bool,
) -> Timeline:
    with progress(quiet=quiet) as line:

        def tell(done: int, total: int) -> None:
            line(f"{count_text(done)} of {count_text(total)} profiles" if total else "the folder", 0)

        found = fleet(given, wanted, count=workers, limits=limits, tell=tell)
    job, addresses = found.job, {profile.name: profile.address for profile in profiles}
    offsets = [clock.offset_ns for clock in job.clocks]
    begins = [rank.window.start_ns - offset for rank, offset in zip(job.ranks, offsets, strict=True)]
    # a clock either counts from 1970, or from the capture's beginning, or nearly
    first = min(begins) - _DAY_NS if min(begins) > 2 * _DAY_NS else min(-max(offsets), 0)
    failures = tuple(f"{lost.profile}: {lost.sentence}" for lost in found.failed)

    def ranks() -> Iterator[TimelineSection]:
        numbers = UniqueNumbers()
        losses = [Note(Severity.LOSS, "profile-failed", failure) for failure in failures]
        yield from job_notes([*job.notes, *losses], min(begins), numbers)
        for rank, offset_ns in zip(job.ranks, offsets, strict=True):
            trace = open_trace(addresses[rank.profile], only=columns_for(), limits=limits)
            yield from sections(scene(trace, rank.profile, wanted, f"{rank.label}: ", offset_ns), numbers)

    return Timeline(ranks(), first, failures)


def write_timeline(
    given: tuple[str, ...],
    target: Path,
    form: TimelineFormat,
    wanted: Selection,
    limits: Limits = DEFAULT_LIMITS,
    *,
    force: bool = False,
    workers: int | None = None,
    quiet: bool = False,
    fixes: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """Write it, whole or not at all; gives what is to be said beside it."""
    made = timeline(given, wanted, limits, workers=workers, quiet=quiet, fixes=fixes)
    with replacing(target, force=force) as file:
        write_sections(made, file, form)
    return made.remarks


def write_sections(made: Timeline, file: BinaryIO, form: TimelineFormat) -> None:
    """Write a timeline into a file that is open."""
    base = made.first_ns if form.chrome else min(made.first_ns, 0)
    chunks = form.writer(base).write(made.sections)
    for chunk in gzip_chunks(chunks) if form.packed else chunks:
        file.write(chunk)

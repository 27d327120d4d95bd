"""Profiles on one timeline, for the verbs that write or show one: what the user names in, sections out.

Several profiles are ranks of a job. They are read twice: once to find out, through their collectives, how far their
clocks are apart, and then one after the other to be written, so that only one of them is in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import click

from gpuledger.cli.completion import finding_codes
from gpuledger.cli.progress import progress
from gpuledger.errors import NothingRecorded, UnreadableProfile
from gpuledger.export.timeline import TimelineSection, UniqueNumbers
from gpuledger.export.timeline_sections import TimelineInput, earliest_ns, job_notes, scene, sections
from gpuledger.fleet.profiles import Failed, Profile, job_profiles
from gpuledger.fleet.run import Fleet, fleet
from gpuledger.ledger.steps import Wanted
from gpuledger.limits import Limits
from gpuledger.read import open_trace
from gpuledger.read.request import Progress
from gpuledger.replay.edits import Edit
from gpuledger.replay.replayed_trace import replayed_trace
from gpuledger.replay.scenario import Scenario
from gpuledger.stages import FINDINGS
from gpuledger.trace.health import Note, Severity
from gpuledger.units import count_text, time_text
from gpuledger.whatif.changes import Changes

_DAY_NS = 86_400_000_000_000

fix_option = click.option(
    "--fix",
    "fixes",
    multiple=True,
    metavar="CODE",
    shell_complete=finding_codes,
    help="The timeline as it would be with this finding fixed, by replay; may be given several times.",
)


@dataclass(frozen=True, slots=True)
class Timeline:
    """What is to be written. Sections are made when they are asked for."""

    sections: Iterator[TimelineSection]
    first_ns: int
    """No time comes before it."""
    remarks: tuple[str, ...] = ()


def timeline(
    given: Sequence[str],
    wanted: Wanted,
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
        raise UnreadableProfile(f"{broken[0].name}: {broken[0].sentence}")
    with progress(quiet=quiet) as tell:
        trace = open_trace(profiles[0].address, limits=limits, progress=tell)
        tell.stage(FINDINGS)
        made = scene(trace, profiles[0].name, wanted)
    remarks: tuple[str, ...] = ()
    if fixes:
        made, saved = _fixed(made, profiles[0].name, fixes)
        remarks = (saved,)
    return Timeline(sections(made, UniqueNumbers()), earliest_ns(made.trace), remarks)


def _fixed(made: TimelineInput, name: str, codes: Sequence[str]) -> tuple[TimelineInput, str]:
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
    note = Note(
        Severity.WARNING,
        "replayed",
        f"this is no recording, but the profile replayed with {', '.join(wanted)} fixed",
    )
    told = "; ".join(f"GPU {of.device.gpu}: {_before_and_after(of.scenario, edits)}" for of in changes)
    return scene(replace(trace, health=(note, *trace.health)), name, made.wanted), told


def _before_and_after(model: Scenario, edits: Sequence[Edit]) -> str:
    steps = model.device.step_count
    before, after = (time_text(round(time / steps)) for time in (model.device.steady_ns, model.steady_ns(*edits)))
    return f"{before} -> {after}" + (" per step" if model.device.steps is not None else "")


def _of_job(
    given: Sequence[str], profiles: Sequence[Profile], wanted: Wanted, limits: Limits, workers: int | None, quiet: bool
) -> Timeline:
    with progress(quiet=quiet) as tell:
        found = fleet(given, wanted, count=workers, limits=limits, tell=_told(tell))
    job = found.job
    offsets = [clock.offset_ns for clock in job.clocks]
    begins = [rank.window.start_ns - offset for rank, offset in zip(job.ranks, offsets, strict=True)]
    # a clock either counts from 1970, or from the capture's beginning, or nearly
    first = min(begins) - _DAY_NS if min(begins) > 2 * _DAY_NS else min(-max(offsets), 0)
    remarks = tuple(f"{each.name}: {each.sentence}" for each in found.failed)
    by_name = {each.name: each for each in profiles}
    return Timeline(_ranks(found, by_name, wanted, limits, min(begins)), first, remarks)


def _ranks(
    found: Fleet, profiles: dict[str, Profile], wanted: Wanted, limits: Limits, began: int
) -> Iterator[TimelineSection]:
    numbers, job = UniqueNumbers(), found.job
    notes = [*job.notes, *map(_failure, found.failed)]
    yield from job_notes(notes, began, numbers)
    for rank, clock in zip(job.ranks, job.clocks, strict=True):
        trace = open_trace(profiles[rank.profile].address, limits=limits)
        made = scene(trace, rank.profile, wanted, f"{rank.label}: ", clock.offset_ns)
        yield from sections(made, numbers)


def _failure(failed: Failed) -> Note:
    return Note(Severity.LOSS, "profile-failed", f"{failed.name}: {failed.sentence}")


def _told(tell: Progress) -> Callable[[int, int], None]:
    def told(done: int, total: int) -> None:
        tell(f"{count_text(done)} of {count_text(total)} profiles" if total else "the folder", 0)

    return told

"""`gpuledger export` and `view`: profiles on one timeline for other viewers, or in a browser; or their tables.

Several profiles are ranks of a job. They are read twice: once to find out, through their collectives, how far their
clocks are apart, and then one after the other to be written, so that only one of them is in memory.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from html import escape
from pathlib import Path
from typing import BinaryIO

import click
from msgspec import Struct
from msgspec.structs import replace

from gpuledger.changes.changes import Changes
from gpuledger.cli.inputs import files, finding_codes, limits_option, step_options
from gpuledger.cli.terminal import progress
from gpuledger.errors import NothingRecorded, OutputRefused, UnreadableProfile
from gpuledger.export.perfetto_server import Viewer, ui_files
from gpuledger.export.sections import (
    ENDINGS,
    TimelineFormat,
    TimelineInput,
    earliest_ns,
    form_of,
    gzip_chunks,
    job_notes,
    parquet_names,
    scene,
    sections,
    write_tables,
)
from gpuledger.export.timeline import TimelineSection, UniqueNumbers
from gpuledger.findings.profiled_run import columns_for
from gpuledger.jobs.run import Profile, fleet, job_profiles
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.present.safe_text import visible
from gpuledger.read import open_trace
from gpuledger.read.source import in_time
from gpuledger.replay.edits import Edit
from gpuledger.replay.replayed_trace import replayed_trace
from gpuledger.replay.scenario import Scenario
from gpuledger.selection import Selection
from gpuledger.stages import FINDINGS
from gpuledger.system.files import refuse_existing, replacing, replacing_in
from gpuledger.trace.model import Note, Severity
from gpuledger.trace.tables import Table
from gpuledger.units import bytes_text, count_text, time_text

_DAY_NS = 86_400_000_000_000

fix_option = click.option(
    "--fix",
    "fixes",
    multiple=True,
    metavar="CODE",
    shell_complete=finding_codes,
    help="The timeline as it would be with this finding fixed, by replay; may be given several times.",
)


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


@click.command()
@click.argument("given", metavar="PROFILE...", nargs=-1, required=True, shell_complete=files)
@click.option(
    "-o",
    "--output",
    "path",
    required=True,
    metavar="FILE",
    shell_complete=files,
    help="File to write; its extension sets the format.",
)
@click.option("--force", is_flag=True, help="Overwrite the output if it exists.")
@click.option(
    "--workers",
    type=click.IntRange(min=0),
    metavar="N",
    help="Read N profiles at a time; 0: one after another. Default: as cores and memory allow.",
)
@fix_option
@step_options
@limits_option
@click.option("-q", "--quiet", is_flag=True, help="No progress or notes, only errors.")
def export(
    given: tuple[str, ...],
    path: str,
    force: bool,
    workers: int | None,
    fixes: tuple[str, ...],
    wanted: Selection,
    limits: Limits,
    quiet: bool,
) -> None:
    """Write PROFILE as a timeline for Perfetto or Chrome, or its tables as Parquet.

    A timeline ends in .pftrace (for Perfetto; .gz makes it smaller) or .json (for Chrome, VS Code and others). It
    holds processes, threads, ranges and calls; a track per GPU stream, with arrows from the launches; idle gaps by
    cause, steps, counters, the critical path, and the findings as markers. Several profiles are ranks of a job:
    their clocks are aligned. With --fix, kernels, copies and calls are where a replay puts them with the finding
    fixed; what else a thread does moves with its calls. Tables go into a folder that ends in .parquet or /, one
    file each.

    \b
    Examples:
      gpuledger export run.sqlite -o run.pftrace
      gpuledger export run.sqlite -o run.pftrace.gz --time=0.5s:1.5s
      gpuledger export run.sqlite -o fixed.pftrace --fix=HOST-SYNC
      gpuledger export traces/ -o job.pftrace
      gpuledger export trace.json.gz -o tables.parquet
    """
    target = Path(path)
    form = None if target.is_dir() else form_of(path)
    if form is None:
        if len(given) > 1 or wanted.time_ns or wanted.scope_pattern or wanted.device is not None:
            raise click.UsageError("tables are written whole, of one profile: no --time, --range or --device.")
        if fixes:
            raise click.UsageError("--fix is for timelines; tables hold what was recorded.")
        _tables(given[0], target, limits, force=force, quiet=quiet)
        return
    if target.exists() and not force:
        raise refuse_existing(target)
    remarks = write_timeline(
        given, target, form, wanted, limits, force=force, workers=workers, quiet=quiet, fixes=fixes
    )
    for line in () if quiet else (*remarks, f"Wrote {path}: {bytes_text(target.stat().st_size)}"):
        click.echo(visible(line), err=True)


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


def _tables(profile: str, folder: Path, limits: Limits, *, force: bool, quiet: bool) -> None:
    with progress(quiet=quiet) as tell:
        trace = open_trace(profile, only=tuple(Table), limits=limits, progress=tell)
    with replacing_in(folder, parquet_names(), force=force) as beside:
        names = [each.name for each in write_tables(trace, beside)]
    if not quiet:
        click.echo(visible(f"Wrote {folder}{os.sep}: {', '.join(names)}"), err=True)


_READY = tuple(ending for ending, form in ENDINGS.items() if not form.chrome)
_ASKS_TO_END = (signal.SIGTERM, signal.SIGHUP)


@click.command()
@click.argument("given", metavar="PROFILE...", nargs=-1, required=True, shell_complete=files)
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="Default: any free port.")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@fix_option
@step_options
@limits_option
@click.option("-q", "--quiet", is_flag=True, help="No progress or notes, only the address and errors.")
def view(
    given: tuple[str, ...],
    port: int,
    no_browser: bool,
    fixes: tuple[str, ...],
    wanted: Selection,
    limits: Limits,
    quiet: bool,
) -> None:
    """Open the timeline of PROFILE in the Perfetto UI, in a browser, offline.

    Writes the timeline to a temporary file without a name, serves it together with the UI on this machine alone, and
    opens the browser, or prints the address where there is none. No network is used. Ctrl-C ends it, and
    the file is gone however it ends. Timelines that `export` wrote (.pftrace) open as they are.

    \b
    Examples:
      gpuledger view run.sqlite
      gpuledger view traces/ --no-browser --port=9000
      gpuledger view run.sqlite --fix=HOST-SYNC
      gpuledger view run.pftrace
    """
    ui_files()  # says what is missing before anything is read
    for number in _ASKS_TO_END:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as a script does for what it runs in the background
            signal.signal(number, signal.default_int_handler)
    with (
        _timeline(given, fixes, wanted, limits, quiet) as (content, name),
        contextlib.suppress(KeyboardInterrupt),  # an interruption is how a viewer ends
        Viewer(content, name, port) as viewer,
        ExitStack() as kept,
    ):
        opened = not no_browser and _has_a_screen() and _open_browser(viewer.address, kept)
        _tell(viewer.address, opened=opened, quiet=quiet)
        threading.Event().wait()
    if not quiet:
        click.echo("ended", err=True)


@contextlib.contextmanager
def _timeline(
    given: tuple[str, ...], fixes: tuple[str, ...], wanted: Selection, limits: Limits, quiet: bool
) -> Iterator[tuple[BinaryIO, str]]:
    """The file to show, and what the viewer calls it. What is made for it has no place: it goes with us in any case."""
    ready = [Path(each) for each in given if each.lower().endswith(_READY)]
    if ready and len(given) > 1:
        raise click.UsageError("a timeline that is written already is shown alone.")
    if ready and fixes:
        raise click.UsageError("--fix replays a profile; a timeline that is written already is shown as it is.")
    if ready:
        if not ready[0].is_file():
            raise UnreadableProfile(f"{ready[0]}: no such file")
        with ready[0].open("rb") as file:
            yield file, ready[0].name
        return
    made = timeline(given, wanted, limits, workers=None, quiet=quiet, fixes=fixes)
    with tempfile.TemporaryFile() as unnamed:
        try:
            write_sections(made, unnamed, TimelineFormat(chrome=False, packed=False))
            unnamed.flush()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OutputRefused(f"{tempfile.gettempdir()}: cannot be written: {reason}") from None
        for line in made.remarks:
            click.echo(visible(line), err=True)
        yield unnamed, "timeline.pftrace"


def _open_browser(address: str, kept: ExitStack) -> bool:
    """Open the browser through a page in a private folder: its command line, which all users see, has no token."""
    start = Path(kept.enter_context(tempfile.TemporaryDirectory(prefix="gpuledger-"))) / "open.html"
    start.write_text(f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(address)}">')
    return webbrowser.open_new_tab(start.as_uri())


def _tell(address: str, *, opened: bool, quiet: bool) -> None:
    if not quiet:
        where = "in your browser" if opened else "open this address in a browser"
        click.echo(f"{where}; Ctrl-C ends", err=True)
    click.echo(address)
    sys.stdout.flush()


def _has_a_screen() -> bool:
    """Whether a browser would appear before the user's eyes: not on a machine far away, nor in a terminal."""
    if "SSH_CONNECTION" in os.environ:
        return False
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))

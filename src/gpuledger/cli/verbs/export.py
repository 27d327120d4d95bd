"""`gpuledger export`: a timeline for other viewers, or the tables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import click

from gpuledger.cli.completion import files
from gpuledger.cli.limits import limit_option
from gpuledger.cli.output import step_options
from gpuledger.cli.progress import progress
from gpuledger.cli.timeline import Timeline, fix_option, timeline
from gpuledger.export.parquet_tables import parquet_names, write_tables
from gpuledger.export.timeline_format import TimelineFormat, form_of, packed
from gpuledger.ledger.steps import Wanted
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.present.safe_text import visible
from gpuledger.read import open_trace
from gpuledger.system.atomic_files import refuse_existing, replacing, replacing_in
from gpuledger.trace.tables import Table
from gpuledger.units import bytes_text


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
@limit_option
@click.option("-q", "--quiet", is_flag=True, help="No progress or notes, only errors.")
def export(
    given: tuple[str, ...],
    path: str,
    force: bool,
    workers: int | None,
    fixes: tuple[str, ...],
    wanted: Wanted,
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
    wanted: Wanted,
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
    for chunk in packed(chunks) if form.packed else chunks:
        file.write(chunk)


def _tables(profile: str, folder: Path, limits: Limits, *, force: bool, quiet: bool) -> None:
    with progress(quiet=quiet) as tell:
        trace = open_trace(profile, only=tuple(Table), limits=limits, progress=tell)
    with replacing_in(folder, parquet_names(), force=force) as beside:
        names = [each.name for each in write_tables(trace, beside)]
    if not quiet:
        click.echo(visible(f"Wrote {folder}{os.sep}: {', '.join(names)}"), err=True)

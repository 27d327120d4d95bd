"""`gpuledger export`: profiles on one timeline for other viewers, or their tables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import click

from gpuledger.cli.terminal import progress
from gpuledger.cli.timelines import Fixes, write_timeline
from gpuledger.export.sections import (
    form_of,
    parquet_names,
    write_tables,
)
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.present.safe_text import visible
from gpuledger.read import open_trace
from gpuledger.system.files import refuse_existing, replacing_in
from gpuledger.trace.tables import Table
from gpuledger.units import bytes_text
from gpuledger.verbs.definition import Option, PerProfile, VerbArgument, WithoutRank


def export(
    given: Annotated[tuple[str, ...], VerbArgument("PROFILE...", completes="files")],
    *,
    path: Annotated[
        str, Option("File to write; its extension sets the format.", "-o --output", "FILE", completes="files")
    ],
    force: Annotated[bool, Option("Overwrite the output if it exists.")] = False,
    workers: Annotated[
        int | None,
        Option(
            "Read N profiles at a time; 0: one after another. Default: as cores and memory allow.",
            metavar="N",
            least=0,
        ),
    ] = None,
    fixes: Fixes = (),
    wanted: WithoutRank,
    limits: Annotated[Limits, PerProfile()] = DEFAULT_LIMITS,
    quiet: Annotated[bool, Option("No progress or notes, only errors.", "-q --quiet")] = False,
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


def _tables(profile: str, folder: Path, limits: Limits, *, force: bool, quiet: bool) -> None:
    with progress(quiet=quiet) as tell:
        trace = open_trace(profile, only=tuple(Table), limits=limits, progress=tell)
    with replacing_in(folder, parquet_names(), force=force) as beside:
        names = [each.name for each in write_tables(trace, beside)]
    if not quiet:
        click.echo(visible(f"Wrote {folder}{os.sep}: {', '.join(names)}"), err=True)

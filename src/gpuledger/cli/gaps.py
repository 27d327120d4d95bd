"""`gpuledger gaps`: why the GPU was idle."""

from __future__ import annotations

from pathlib import Path

import click

from gpuledger.analyse.steps import Wanted
from gpuledger.cli.output import Output, output_options, profile_argument, step_options
from gpuledger.cli.progress import progress
from gpuledger.read import open_trace
from gpuledger.render.gaps import gap_sheets
from gpuledger.render.sheets import sheets
from gpuledger.report import build_report


@click.command()
@profile_argument
@step_options
@output_options
def gaps(profile: Path, wanted: Wanted, output: Output) -> None:
    """Say why the GPU was idle in PROFILE: causes, triggers, lengths, the longest gaps.

    A gap is a stretch in which nothing ran on a GPU: no kernel, no copy, no graph, on any stream, of any process. Its
    time is booked to causes, which sum to it; its trigger is what to fix.

    \b
    Examples:
      gpuledger gaps run.sqlite
      gpuledger gaps run.sqlite --format=csv -o gaps.csv
    """
    with progress(quiet=output.quiet) as tell:
        trace = open_trace(profile, progress=tell)
    made = build_report(trace, profile.name, wanted)
    tables = [sheet for device in made.devices for sheet in gap_sheets(trace, device)]
    output.write(sheets(output.format, "gaps", profile.name, tables, trace.health, output.width))

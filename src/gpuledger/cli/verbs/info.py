"""`gpuledger info`: what is in a profile."""

from __future__ import annotations

from pathlib import Path

import click

from gpuledger.analyse.inventory import contents
from gpuledger.cli.limits import limit_option
from gpuledger.cli.output import Output, output_options, profile_argument
from gpuledger.limits import Limits
from gpuledger.present.views.info import info_document
from gpuledger.read import open_trace
from gpuledger.trace.tables import Table


@click.command()
@profile_argument
@click.option(
    "-v", "--verbose", is_flag=True, help="Also the profile's own tables, the command line, host and environment."
)
@limit_option
@output_options
def info(profile: Path, verbose: bool, limits: Limits, output: Output) -> None:
    """Show what is in PROFILE, what is missing, and what that means.

    Prints the tool and its version, GPUs, processes, the time span, the rows of every table, and the profile's
    health: what was lost, and what nsys itself warned about. Command lines and environment variables only with
    --verbose.

    \b
    Examples:
      gpuledger info run.sqlite
      gpuledger info run.sqlite --format=json | jq .tables
      gpuledger info run_pqtdir
    """
    trace = open_trace(profile, only=tuple(Table), limits=limits, progress=output.progress)
    output.progress.stage("taking stock")
    output.show(info_document(str(profile), trace, contents(trace), verbose=verbose))

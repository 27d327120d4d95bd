"""`gpuledger history`: runs in a store, a figure over them, and which commit changed it."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from gpuledger.cli.inputs import files, limit_option, step_options
from gpuledger.cli.main import load
from gpuledger.cli.output import Output, output_options
from gpuledger.limits import Limits
from gpuledger.selection import Selection

_STORE = click.option(
    "--store",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    envvar="GPULEDGER_HISTORY",
    show_envvar=True,
    help="The folder with the runs, a Parquet file each; it may be a shared one.",
)
_FIGURE = click.argument("figure", required=False, default="", shell_complete=lambda *_: [])


@click.group()
def history() -> None:
    """Keep the figures of runs in a store; show their trend, and which commit changed it.

    A run is a Parquet file: commit, date, machine, GPU, clock, tool, method, and its figures with what `diff` compares.
    DuckDB reads a store as it is: SELECT * FROM 'DIR/*.parquet'. Needs `pip install 'gpuledger[arrow]'`.

    \b
    Examples:
      gpuledger history add run.sqlite --store=perf/
      gpuledger history trend --store=perf/
      gpuledger history trend line:compute.gemm --store=perf/ --format=csv
      gpuledger history blame --store=perf/ --comment
    """


@history.command()
@click.argument("profiles", metavar="PROFILE...", nargs=-1, required=True, shell_complete=files)
@_STORE
@click.option("--commit", default="", help="The commit that ran. Default: the capture's, else this folder's, by git.")
@click.option("--machine", default=platform.node, help="What it ran on. Default: the name of this machine.")
@click.option(
    "--clock", "clock_mhz", type=click.FloatRange(1, 100_000), metavar="MHZ", help="The SM clock, if samples lack it."
)
@click.option("--method", default="", help="How it was recorded, besides what the profile says, e.g. 'batch 8'.")
@step_options
@limit_option
@output_options
def add(
    profiles: tuple[str, ...], store: Path, wanted: Selection, limits: Limits, output: Output, **facts: Any
) -> None:
    """Add a run to the store: one PROFILE, or several of the same commit.

    Each is what `gpuledger diff` takes as a side: a profile, a folder or glob of several, a baseline, the JSON of
    `gpuledger time`. The file gets its name when it is whole, so that many may add at a time.
    """
    verb = load("gpuledger.verbs.history")
    added, path = verb.add_run(profiles, store, verb.RunFacts(**facts), wanted, limits=limits, progress=output.progress)
    output.show(added.document(), remarks=[f"Wrote {path}"])


@history.command()
@_STORE
@output_options
def show(store: Path, output: Output) -> None:
    """List the runs, the oldest commit first."""
    output.show(load("gpuledger.verbs.history").show_runs(store).document())


@history.command()
@_FIGURE
@_STORE
@output_options
def trend(figure: str, store: Path, output: Output) -> None:
    """Show FIGURE over the runs (default: the step), with its changes: code, method, hardware or noise.

    FIGURE is `step`, `launches`, `memory`, `line:NAME`, `phase:NAME` or `range:NAME`, or a part of one that stands for
    no other. docs/concepts/history.md says how changes are found, and how often that is wrong.
    """
    output.show(load("gpuledger.verbs.history").show_trend(store, figure).document())


@history.command()
@_FIGURE
@_STORE
@click.option("--comment", is_flag=True, help="Write Markdown for a comment on a pull request: trend, changes, causes.")
@output_options
def blame(figure: str, store: Path, comment: bool, output: Output) -> None:
    """Name the commit of each change of FIGURE (default: the step), and the line, phase, range and kernel that moved.

    Up to five runs on each side of a change are compared as `gpuledger diff` does it.
    """
    answer = load("gpuledger.verbs.history").blame(store, figure)
    if comment:
        replace(output, format="md").show(answer.comment())
    else:
        output.show(answer.document())

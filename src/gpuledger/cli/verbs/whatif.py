"""`gpuledger whatif`: what a change would buy."""

from __future__ import annotations

from pathlib import Path

import click

from gpuledger.analyse.whatif import graph, hide, remove, speed_up
from gpuledger.cli.limits import limit_option
from gpuledger.cli.output import Output, output_options, profile_argument, step_options
from gpuledger.cli.progress import progress
from gpuledger.findings.profiled_run import diagnosed
from gpuledger.ledger.steps import Wanted
from gpuledger.limits import Limits
from gpuledger.present.views.tables import tables_document
from gpuledger.present.views.whatif import whatif_sheet
from gpuledger.read import open_trace


def _speed_ups(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[tuple[str, float], ...]:
    found = []
    for value in values:
        line, _sign, factor = value.partition("=")
        try:
            number = float(factor)
        except ValueError:
            number = 0.0
        if not line or number <= 0:
            raise click.BadParameter(f"{value!r}: expected LINE=FACTOR, e.g. gemm=2")
        found.append((line, number))
    return tuple(found)


@click.command()
@profile_argument
@click.option(
    "--speedup", multiple=True, metavar="LINE=FACTOR", callback=_speed_ups, help="Make a line faster, e.g. gemm=2."
)
@click.option("--remove", "removed", multiple=True, metavar="CAUSE", help="Take a cause of idle time away, e.g. sync.")
@click.option(
    "--hide", "hidden", multiple=True, type=click.Choice(["comm", "copy"]), help="Hide exposed work under compute."
)
@click.option(
    "--graph", "captured", multiple=True, metavar="RANGE", help="Capture the ranges matching RANGE in a graph."
)
@step_options
@limit_option
@output_options
def whatif(
    profile: Path,
    speedup: tuple[tuple[str, float], ...],
    removed: tuple[str, ...],
    hidden: tuple[str, ...],
    captured: tuple[str, ...],
    wanted: Wanted,
    limits: Limits,
    output: Output,
) -> None:
    """Say what a change would buy in PROFILE: new step, saving, speed-up, and Amdahl's limit.

    Each change is looked at alone, on the GPU that the report shows first, from the same books as the report. The limit
    is the speed-up if the line took no time at all.

    \b
    Examples:
      gpuledger whatif run.sqlite --speedup=gemm=2 --remove=sync
      gpuledger whatif run.sqlite --graph=decode --hide=comm
    """
    if not (speedup or removed or hidden or captured):
        raise click.UsageError("say what to change: --speedup, --remove, --hide or --graph")
    with progress(quiet=output.quiet) as tell:
        trace = open_trace(profile, limits=limits, progress=tell)
    device = diagnosed(trace, profile.name, wanted).main_device
    changes = [
        *(speed_up(device, line, factor) for line, factor in speedup),
        *(remove(device, cause) for cause in removed),
        *(hide(device, kind) for kind in hidden),
        *(graph(trace, device, pattern) for pattern in captured),
    ]
    made = [whatif_sheet(device, changes)]
    output.show(tables_document("whatif", profile.name, made, trace.health, device.zero_ns))

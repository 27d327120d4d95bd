"""`gpuledger whatif`: what a change would buy."""

from __future__ import annotations

from pathlib import Path

import click

from gpuledger.analyse.diff.from_tables import side_of_tables
from gpuledger.analyse.whatif import graph, hide, remove, speed_up, speed_up_of_tables
from gpuledger.cli.limits import limit_option
from gpuledger.cli.output import Output, output_options, profile_argument, step_options
from gpuledger.cli.progress import progress
from gpuledger.findings.profiled_run import diagnosed
from gpuledger.ledger.lines import EXPOSED
from gpuledger.ledger.steps import Wanted
from gpuledger.limits import Limits
from gpuledger.present.views.tables import tables_document
from gpuledger.present.views.whatif import whatif_of_tables_sheet, whatif_sheet
from gpuledger.read import open_trace
from gpuledger.read.stats_text.tables import is_printed_tables, open_summaries


def _speed_ups(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[tuple[str, float], ...]:
    speed_ups = []
    for value in values:
        name, _sign, factor = value.rpartition("=")
        try:
            number = float(factor)
        except ValueError:
            number = 0.0
        if not name or not 0 < number < float("inf"):
            raise click.BadParameter(f"{value!r}: expected NAME=FACTOR, e.g. gemm=2")
        speed_ups.append((name, number))
    return tuple(speed_ups)


def _hidden(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    codes = {name: str(kind) for kind, words in EXPOSED.items() for name in (str(kind), str(words))}
    for value in values:
        if value not in codes:
            raise click.BadParameter(f"{value!r} is not one of {', '.join(map(repr, EXPOSED))}.")
    return tuple(codes[value] for value in values)


@click.command()
@profile_argument
@click.option(
    "--speedup",
    multiple=True,
    metavar="NAME=FACTOR",
    callback=_speed_ups,
    help="Make a line, a range or a kernel faster, e.g. gemm=2.",
)
@click.option("--remove", "removed", multiple=True, metavar="CAUSE", help="Take a cause of idle time away, e.g. sync.")
@click.option(
    "--hide",
    "hidden",
    multiple=True,
    metavar="comm|copy",
    callback=_hidden,
    help="Hide exposed work under compute.",
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
    is the speed-up if the line took no time at all. Names are those that reports print: lines (`gemm`, `idle: launch
    calls`), ranges (`compute_loop`, `layer# > mlp`) and kernels; `range:NAME` and `kernel:NAME` say which is meant.

    PROFILE may also be tables that `nsys stats` printed: then --speedup takes ranges, and the whole is the time of the
    program's own ranges, with set-up and what libraries mark left out.

    \b
    Examples:
      gpuledger whatif run.sqlite --speedup=gemm=2 --remove=sync
      gpuledger whatif run.sqlite --speedup='iter > compute_loop=10'
      gpuledger whatif run.sqlite --graph=decode --hide=comm
      gpuledger whatif nvtx_sum.txt --speedup=compute_loop=10
    """
    if not (speedup or removed or hidden or captured):
        raise click.UsageError("say what to change: --speedup, --remove, --hide or --graph")
    if is_printed_tables(profile, limits=limits):
        if removed or hidden or captured:
            raise click.UsageError("tables of `nsys stats` hold sums: only --speedup of a range can be answered.")
        printed = open_summaries(profile, limits=limits)
        side = side_of_tables(printed, profile.name)
        sheet = whatif_of_tables_sheet([speed_up_of_tables(side, name, factor) for name, factor in speedup])
        output.show(tables_document("whatif", profile.name, [sheet], printed.health, 0))
        return
    with progress(quiet=output.quiet) as tell:
        trace = open_trace(profile, limits=limits, progress=tell)
    device = diagnosed(trace, profile.name, wanted).main_device
    changes = [
        *(speed_up(trace, device, name, factor) for name, factor in speedup),
        *(remove(device, cause) for cause in removed),
        *(hide(device, kind) for kind in hidden),
        *(graph(trace, device, pattern) for pattern in captured),
    ]
    sheet = whatif_sheet(device, changes)
    output.show(tables_document("whatif", profile.name, [sheet], trace.health, device.zero_ns))

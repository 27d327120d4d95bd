"""`gpuledger whatif`: what changes would buy, alone and together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuledger.cli.inputs import (
    InOrder,
    checked_regex,
    finding_codes,
    in_order,
    limit_option,
    one_by_one,
    profile_argument,
    step_options,
)
from gpuledger.cli.main import answering, sentence
from gpuledger.cli.output import Output, page_options
from gpuledger.limits import Limits
from gpuledger.selection import Selection
from gpuledger.units import FACTORS, LONGEST_LAUNCH_NS, parse_instant, time_text

if TYPE_CHECKING:
    from gpuledger.ledger.books import LineKind


def _factor(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if FACTORS[0] <= number <= FACTORS[1] else None


def _speed_up(value: str) -> tuple[str, float]:
    name, _, number = value.rpartition("=")
    factor = _factor(number)
    if not name or factor is None:
        raise click.BadParameter(f"{value!r}: expected NAME=FACTOR, e.g. gemm=2, from {FACTORS[0]:g} to {FACTORS[1]:,}")
    return name, factor


def _host(value: str) -> float:
    factor = _factor(value)
    if factor is None:
        raise click.BadParameter(f"{value!r}: expected a factor, e.g. 2, from {FACTORS[0]:g} to {FACTORS[1]:,}")
    return factor


def _cost(value: str) -> int:
    try:
        cost = parse_instant(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if cost < 0:
        raise click.BadParameter("a call cannot take less than no time")
    if cost > LONGEST_LAUNCH_NS:
        raise click.BadParameter(f"{value!r}: no launch takes longer than {time_text(LONGEST_LAUNCH_NS)}")
    return cost


def _hidden_kind(value: str) -> LineKind:
    from gpuledger.ledger.books import EXPOSED

    kinds = {name: kind for kind, words in EXPOSED.items() for name in (str(kind), str(words))}
    if value not in kinds:
        raise click.BadParameter(f"{value!r} is not one of {', '.join(map(repr, EXPOSED))}.")
    return kinds[value]


@click.command(cls=InOrder)
@profile_argument
@click.option(
    "--fix", multiple=True, metavar="CODE", shell_complete=finding_codes, help="Apply a finding's fix, e.g. HOST-SYNC."
)
@click.option(
    "--speedup",
    multiple=True,
    metavar="NAME=FACTOR",
    callback=one_by_one(_speed_up),
    help="Speed up a line, a range or a kernel, e.g. gemm=2; a range includes the host code and calls inside.",
)
@click.option(
    "--light",
    multiple=True,
    metavar="NAME",
    help="A kernel, a family, an operator or a range at what the GPU's roofs allow, e.g. gemm: an upper bound.",
)
@click.option(
    "--reachable",
    multiple=True,
    metavar="NAME",
    help="The same at rates that programs reach, not at the roofs, e.g. aten::mm.",
)
@click.option(
    "--remove",
    multiple=True,
    metavar="NAME",
    help="Remove a cause of idle time, e.g. sync; or work (a family, a kernel, a range), with its launches.",
)
@click.option(
    "--hide",
    multiple=True,
    metavar="comm|copy",
    callback=one_by_one(_hidden_kind),
    help="Overlap exposed work with compute.",
)
@click.option(
    "--graph",
    multiple=True,
    metavar="REGEX",
    callback=one_by_one(checked_regex),
    help="Launch matching ranges as a CUDA graph: an upper bound.",
)
@click.option("--host", multiple=True, metavar="FACTOR", callback=one_by_one(_host), help="A faster host, e.g. 1.5.")
@click.option(
    "--launch-cost",
    multiple=True,
    metavar="TIME",
    callback=one_by_one(_cost),
    help="Cost of each launch call, e.g. 2us.",
)
@step_options
@limit_option
@page_options
def whatif(profile: Path, wanted: Selection, limits: Limits, output: Output, **given: Sequence[Any]) -> None:
    """Predict what changes to PROFILE would save, alone and together, and what is left to fix.

    The profile is replayed with the changes: every call and kernel at the earliest moment that what it waits for
    allows. So a faster kernel saves nothing where the GPU waits for the host. Any number of changes can be given: each
    is looked at alone, then one after the other in the order given, on the GPU that the report shows first. Without
    any, what could be asked of this profile is listed.

    Names are those that reports print: findings (`HOST-SYNC`), lines (`gemm`, `idle: launch calls`), ranges
    (`compute_loop`, `layer# > mlp`) and kernels; `line:NAME`, `range:NAME` and `kernel:NAME` say which is meant.
    `idle: host code`, a line of the report's first screen, is all idle time that host code set off; `host_code` is what
    was attributed to host code, whatever set the gap off. A name that the profile does not have, or that means several
    things, is reported as an error; the other changes are still answered. The limit is the speed-up if what becomes
    faster took no time at all; of --reachable, at its light.

    What kernels take at the GPU's roofs comes from shapes (record_shapes=True), samples of counters, or launches;
    kernels of which nothing is known stay as they are. `operator:NAME` says that an operator is meant.

    PROFILE may also be tables that `nsys stats` printed: then --speedup takes ranges, and the whole is the time of the
    program's own ranges, with setup and library ranges left out.

    \b
    Examples:
      gpuledger whatif run.sqlite
      gpuledger whatif run.sqlite --fix=HOST-SYNC --fix=LAUNCH-BOUND
      gpuledger whatif run.sqlite --speedup=gemm=2 --remove=sync --host=1.5
      gpuledger whatif run.sqlite --speedup='iter > compute_loop=10'
      gpuledger whatif trace.json.gz --light=gemm --reachable=aten::mm
      gpuledger whatif run.sqlite --graph=decode --hide=comm
      gpuledger whatif nvtx_sum.txt --speedup=compute_loop=10
    """
    changes = in_order(given)
    replay = answering("whatif")
    from gpuledger.read.stats_text.tables import is_printed_tables

    if len(changes) > len(given["speedup"]) and is_printed_tables(profile, limits=limits):
        raise click.UsageError("tables of `nsys stats` hold sums: only --speedup of a range can be answered.")
    answer = replay(profile, changes, wanted=wanted, limits=limits, progress=output.progress)
    if len(answer.refused) < len(changes) or not changes:
        output.show(answer.document())
    output.progress.clear()
    for refusal in answer.refused[:-1]:
        click.echo(sentence(refusal), err=True)
    if answer.refused:
        raise answer.refused[-1]

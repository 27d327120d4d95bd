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
    rank_step_options,
)
from gpuledger.cli.main import answering, sentence
from gpuledger.cli.output import Output, page_options
from gpuledger.errors import NothingRecorded
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
    help="Speed up a line, a range (with its host code and calls) or a kernel, e.g. gemm=2.",
)
@click.option(
    "--light",
    multiple=True,
    metavar="NAME",
    help="Work at what the GPU's roofs allow, e.g. gemm: an upper bound.",
)
@click.option(
    "--reachable",
    multiple=True,
    metavar="NAME",
    help="The same at rates that programs reach, e.g. aten::mm.",
)
@click.option(
    "--remove",
    multiple=True,
    metavar="NAME",
    help="Remove a cause of idle time, e.g. sync; or work, with its launches.",
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
    help="Launch matching ranges, or each `step`, as a CUDA graph: an upper bound.",
)
@click.option("--host", multiple=True, metavar="FACTOR", callback=one_by_one(_host), help="A faster host, e.g. 1.5.")
@click.option(
    "--launch-cost",
    multiple=True,
    metavar="TIME",
    callback=one_by_one(_cost),
    help="Cost of each launch call, e.g. 2us.",
)
@rank_step_options
@limit_option
@page_options
def whatif(profile: Path, wanted: Selection, limits: Limits, output: Output, **given: Sequence[Any]) -> None:
    """Show the critical path of PROFILE, and predict what changes would save, alone and together.

    Without changes: the critical path, the host and GPU work that sets the step time, and what can be asked. Back from
    the end of the steady steps, each segment is what the next one waited for; they sum to the steps. A wait is never on
    the path: what it waited for is. What is not on it has slack: making it faster saves nothing.

    With changes the profile is replayed: every call and kernel at the earliest moment that what it waits for allows.
    Each change is looked at alone, then one after the other in the order given, on the GPU that the report shows
    first, with the path before and after and what is left to fix.

    Names are those that reports print: findings (`HOST-SYNC`), lines (`gemm`, `idle: launch calls`), ranges
    (`layer# > mlp`) and kernels; `line:NAME`, `range:NAME`, `kernel:NAME` and `operator:NAME` say which is meant. A
    name that the profile does not have is an error; the other changes are still answered. --light and --reachable
    need shapes (record_shapes=True) or samples of counters.

    PROFILE may also be tables that `nsys stats` printed: then --speedup takes ranges.

    \b
    Examples:
      gpuledger whatif run.sqlite
      gpuledger whatif run.sqlite --fix=HOST-SYNC --speedup=gemm=2 --host=1.5
      gpuledger whatif trace.json.gz --light=gemm --reachable=aten::mm
      gpuledger whatif run.sqlite --graph=decode --hide=comm
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
    refused = [NothingRecorded(refusal.claim, found=refusal.found, hint=refusal.hint) for refusal in answer.refused]
    for refusal in refused[:-1]:
        click.echo(sentence(refusal), err=True)
    if refused:
        raise refused[-1]

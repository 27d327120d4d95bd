"""`gpuledger phases`: what the phases of a layer cost, and what lies between them."""

from __future__ import annotations

import re
from pathlib import Path

import click

from gpuledger.analyse.phases.phase_costs import phase_costs
from gpuledger.analyse.phases.phase_waits import KnownJob, phase_waits, talking_ranks
from gpuledger.cli.limits import limit_option
from gpuledger.cli.output import Output, page_options, profile_argument, step_options
from gpuledger.fleet.profiles import job_profiles
from gpuledger.fleet.run import fleet
from gpuledger.ledger.device import analysed
from gpuledger.ledger.steps import Wanted
from gpuledger.limits import Limits
from gpuledger.present.views.phases import phases_document
from gpuledger.read import open_trace
from gpuledger.stages import BOOKS


def _named(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    asked = []
    for value in values:
        name, equals, pattern = value.partition("=")
        if not (name.strip() and equals and pattern):
            raise click.BadParameter(f"{value!r}: expected NAME=REGEX, e.g. dispatch=all_to_all")
        try:
            re.compile(pattern)
        except re.error as error:
            raise click.BadParameter(f"{pattern!r} is no regular expression: {error}") from None
        asked.append((name.strip(), pattern))
    return tuple(asked)


@click.command()
@profile_argument
@click.option(
    "--phase",
    "asked",
    multiple=True,
    metavar="NAME=REGEX",
    callback=_named,
    help="Count matching ranges and kernels as phase NAME; takes precedence over known names.",
)
@click.option(
    "--ranks",
    multiple=True,
    metavar="DIR|GLOB",
    help="Profiles of all ranks of the job, to tell waiting from transfer.",
)
@step_options
@limit_option
@page_options
def phases(
    profile: Path,
    asked: tuple[tuple[str, str], ...],
    ranks: tuple[str, ...],
    wanted: Wanted,
    limits: Limits,
    output: Output,
) -> None:
    """Show what each phase of a layer costs in PROFILE, and the idle time inside and between phases.

    Phases are attention, router, dispatch, expert_gemm, combine, mlp: by the range around each launch (`attention`,
    `moe_dispatch`, modules and operators of vLLM, SGLang, Megatron, DeepEP), else by the kernel's name. The work of
    the phases, other work and idle time sum to the steady steps, in all and by layer. Collectives are split into
    waiting for other ranks and transfer where the ranks are known.

    \b
    Examples:
      gpuledger phases run.sqlite
      gpuledger phases run.sqlite --phase=dispatch=SendRecv --phase=experts=ffn
      gpuledger phases rank0.json.gz --ranks='traces/*.json.gz' -o phases.html
    """
    trace = open_trace(profile, limits=limits, progress=output.progress)
    output.progress.stage(BOOKS)
    devices = analysed(trace, profile.name, wanted)
    output.progress.clear()
    job = _job(profile, ranks, wanted, limits) if ranks or talking_ranks(devices[0].work) > 1 else None
    output.progress.stage("telling the phases apart")
    answers = [(phase_costs(trace, device, asked), phase_waits(trace, device, job, asked)) for device in devices]
    output.show(phases_document(profile.name, answers, trace.health, devices[0].zero_ns))


def _job(profile: Path, ranks: tuple[str, ...], wanted: Wanted, limits: Limits) -> KnownJob:
    """The job that the profile is a part of, or all of, and which of its ranks are the profile's."""
    given = (*ranks, str(profile))
    [name] = [part.name for part in job_profiles(given, limits)[0] if part.address == str(profile.absolute())]
    job = fleet(given, wanted, count=None if ranks else 0, limits=limits).job
    return KnownJob(job, tuple(number for number, rank in enumerate(job.ranks) if rank.profile == name))

"""`gpuledger ncu-plan`: what to give to Nsight Compute."""

from __future__ import annotations

import re
from pathlib import Path

import click

from gpuledger.analyse.inventory import contents
from gpuledger.analyse.kernels.ncu_plan import plan
from gpuledger.capture.ncu.command import ENDING, SETS, Measure, ncu_command
from gpuledger.capture.ncu.metric_names import checked
from gpuledger.cli.limits import limit_option
from gpuledger.cli.output import Output, english_options, profile_argument, step_options
from gpuledger.findings.profiled_run import diagnosed
from gpuledger.ledger.steps import Wanted
from gpuledger.limits import Limits
from gpuledger.present.views.info import origin_line
from gpuledger.present.views.ncu_plan import Proposal, plan_document
from gpuledger.read import open_trace


@click.command()
@profile_argument
@click.argument("command", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--set",
    "set_",
    type=click.Choice(list(SETS)),
    default="verdict",
    help="What to measure: what verdicts need (the default), or one of ncu's own sets.",
)
@click.option("--metrics", metavar="NAME[,NAME...]", help="Measure these instead of a set; names are checked.")
@click.option(
    "--coverage",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.95,
    metavar="SHARE",
    help="How much of the kernel time to profile, 0 to 1. Default: 0.95.",
)
@click.option("--anyway", is_flag=True, help="Plan even where kernels are hardly any of the step's time.")
@step_options
@limit_option
@english_options
def ncu_plan(
    profile: Path,
    command: tuple[str, ...],
    set_: str,
    metrics: str | None,
    coverage: float,
    anyway: bool,
    wanted: Wanted,
    limits: Limits,
    output: Output,
) -> None:
    """Pick the kernels of PROFILE worth profiling with Nsight Compute; print the commands and their cost.

    Launches of one kernel with the same grid and block from the same place in the program are alike: one of each is
    profiled, from the steady steps of the GPU that the report shows first, the kernels with the most time first.
    Communication is left out. Where all kernels together are under 5 % of the step none is worth it, and that is said.
    Nothing is run: the commands are for you to paste. Without COMMAND a placeholder stands for it.

    \b
    Examples:
      gpuledger ncu-plan run.sqlite -- python train.py --steps=30
      gpuledger ncu-plan run.sqlite --set=roofline --coverage=0.8
      gpuledger ncu-plan trace.json.gz --metrics=dram__bytes.sum --format=json
    """
    measure = Measure.of_set(set_) if metrics is None else Measure.of_metrics(checked(metrics))
    trace = open_trace(profile, limits=limits, progress=output.progress)
    run = diagnosed(trace, profile.name, wanted, stage=output.progress.stage)
    found = plan(trace, run.main_device, coverage, anyway=anyway)
    exports = [f"ncu-{_stem(profile)}{f'-{at}' if at > 1 else ''}" for at in range(1, len(found.runs) + 1)]
    made = Proposal(
        profile=str(profile),
        name=profile.name,
        headline=origin_line(trace, contents(trace)),
        plan=found,
        commands=tuple(
            ncu_command(run.functions, run.skip, run.count, measure, export, command)
            for run, export in zip(found.runs, exports, strict=True)
        ),
        reports=tuple(f"{export}{ENDING}" for export in exports),
        passes=measure.cost.passes,
        seconds=sum(measure.seconds(run.launches, run.ns) for run in found.runs),
        notes=trace.health,
    )
    output.show(plan_document(made))


def _stem(profile: Path) -> str:
    """The profile's name without its endings, trace.json.gz -> trace; ncu would read a % in it as a variable."""
    return re.sub(r"[^\w.-]", "_", Path(profile.name.removesuffix(".gz")).stem)

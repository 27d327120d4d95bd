"""`gpuledger kernels` and `ncu-plan`: what limits kernels, and which of a timeline to give to Nsight Compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gpuledger.capture.ncu import SETS
from gpuledger.cli.inputs import limit_option, profile_argument, step_options
from gpuledger.cli.main import answering
from gpuledger.cli.output import Output, english_options, page_options


@click.command()
@click.argument("files", metavar="NCU|PROFILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--ncu",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With PROFILE: Nsight Compute report to check the samples against; may be given several times.",
)
@click.option("--each-launch", is_flag=True, help="With PROFILE: also list every launch of one step, in order.")
@step_options
@limit_option
@page_options
def kernels(files: tuple[Path, ...], ncu: tuple[Path, ...], each_launch: bool, output: Output, **asked: Any) -> None:
    """Show what limits each kernel in NCU: memory, compute or latency, and what to try.

    NCU is one or more reports of Nsight Compute: .ncu-rep files, or what `ncu --csv` printed (--page raw, --page
    details, or --metrics). Each launch is judged against the roofs of the GPU it ran on; kernels are distinguished
    by name, launch shape and size of problem. The .ncu-rep format needs `pip install 'gpuledger[ncu]'`.

    PROFILE is a timeline. Its kernels are listed in execution order, with their time in a step and share of
    compute; --range=layer0 lists one layer's, and --each-launch every launch of one step, with the gap before it.
    `gpuledger report PROFILE --ncu=NCU` has both together. Where GPU metrics were sampled (`gpuledger capture nsys`
    does where it can), each kernel also has what it uses of the GPU: SMs, issue slots, tensor cores, warps and DRAM,
    in percent, with a 90 % interval. With --ncu, those numbers are checked against what Nsight Compute measured for
    the same kernels.

    \b
    Examples:
      gpuledger kernels layer.ncu-rep
      gpuledger kernels layer.ncu-rep -o kernels.html
      gpuledger kernels details.csv -o kernels.json
      gpuledger kernels layer.ncu-rep --format=csv
      gpuledger kernels run.sqlite --range=layer0 --each-launch
      gpuledger kernels run.sqlite --format=json | jq '.kernels[0].use'
      gpuledger kernels run.sqlite --ncu=counted.csv
    """
    answer = answering("kernels")
    from gpuledger.verbs.kernels import is_timeline

    if (ncu or each_launch) and not (len(files) == 1 and is_timeline(files[0])):
        option = "--ncu=FILE" if ncu else "--each-launch"
        name = option.partition("=")[0]
        raise click.UsageError(f"{name} goes with one timeline, e.g. `gpuledger kernels run.sqlite {option}`.")
    output.show(answer(files, ncu=ncu, each_launch=each_launch, progress=output.progress, **asked).document())


@click.command()
@profile_argument
@click.argument("command", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--set",
    "measured",
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
def ncu_plan(output: Output, **asked: Any) -> None:
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
    output.show(answering("ncu-plan")(progress=output.progress, **asked).document())

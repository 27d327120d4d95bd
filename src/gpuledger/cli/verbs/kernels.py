"""`gpuledger kernels` and `ncu-plan`: what limits kernels, and which of a timeline to give to Nsight Compute."""

from __future__ import annotations

import re
from pathlib import Path

import click

from gpuledger.analyse.inventory import contents
from gpuledger.analyse.kernels.ncu_plan import plan
from gpuledger.capture.ncu import ENDING, SETS, Measure, check_metrics, ncu_command
from gpuledger.cli.inputs import limit_option, profile_argument, step_options
from gpuledger.cli.output import Output, english_options, page_options
from gpuledger.findings.profiled_run import diagnose
from gpuledger.ledger.steps import Selection
from gpuledger.limits import Limits
from gpuledger.present.views.info import origin_line
from gpuledger.present.views.ncu import Proposal, plan_document
from gpuledger.read import open_trace
from gpuledger.read.registry import reader_of
from gpuledger.read.source import look_at
from gpuledger.stages import BOOKS


@click.command()
@click.argument("files", metavar="NCU|PROFILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--ncu",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With PROFILE: Nsight Compute report to check the samples against; may be given several times.",
)
@step_options
@limit_option
@page_options
def kernels(files: tuple[Path, ...], ncu: tuple[Path, ...], wanted: Selection, limits: Limits, output: Output) -> None:
    """Show what limits each kernel in NCU: memory, compute or latency, and what to try.

    NCU is one or more reports of Nsight Compute: .ncu-rep files, or what `ncu --csv` printed (--page raw, --page
    details, or --metrics). Each launch is judged against the roofs of the GPU it ran on; kernels are distinguished
    by name, launch shape and size of problem. The .ncu-rep format needs `pip install 'gpuledger[ncu]'`.

    PROFILE is a timeline. Its kernels are listed in execution order, with their time in a step and share of
    compute; --range=layer0 lists one layer's. `gpuledger report PROFILE --ncu=NCU` has both together. Where GPU
    metrics were sampled (`gpuledger capture nsys` does where it can), each kernel also has what it uses of the GPU:
    SMs, issue slots, tensor cores, warps and DRAM, in percent, with a 90 % interval. With --ncu, those numbers are
    checked against what Nsight Compute measured for the same kernels.

    \b
    Examples:
      gpuledger kernels layer.ncu-rep
      gpuledger kernels layer.ncu-rep -o kernels.html
      gpuledger kernels details.csv -o kernels.json
      gpuledger kernels layer.ncu-rep --format=csv
      gpuledger kernels run.sqlite --range=layer0
      gpuledger kernels run.sqlite --format=json | jq '.kernels[0].use'
      gpuledger kernels run.sqlite --ncu=counted.csv
    """
    if len(files) == 1 and reader_of(look_at(files[0])) is not None:
        _of_timeline(files[0], ncu, wanted, limits, output)
    elif ncu:
        raise click.UsageError("--ncu goes with one timeline, e.g. `gpuledger kernels run.sqlite --ncu=FILE`.")
    else:
        _of_reports(files, limits, output)


def _of_reports(files: tuple[Path, ...], limits: Limits, output: Output) -> None:
    from gpuledger.answers.kernels import kernels_answer
    from gpuledger.present.views.kernels import kernels_document
    from gpuledger.read.ncu.reader import open_kernels

    report = open_kernels(files, limits=limits, progress=output.progress)
    output.progress.stage("judging the kernels")
    output.show(kernels_document(kernels_answer([path.name for path in files], report)))


def _of_timeline(profile: Path, ncu: tuple[Path, ...], wanted: Selection, limits: Limits, output: Output) -> None:
    from gpuledger.analyse.kernels.step_kernels import overview
    from gpuledger.analyse.utilization.stretches import use_of_device
    from gpuledger.ledger.device import analyse_devices
    from gpuledger.present.views.kernels import kernel_sentences
    from gpuledger.present.views.timeline import step_kernels_sheet, timeline_document
    from gpuledger.read import open_trace
    from gpuledger.read.ncu.reader import open_kernels
    from gpuledger.trace.tables import Table

    trace = open_trace(profile, only=tuple(Table), limits=limits, progress=output.progress)
    counted = open_kernels(ncu, limits=limits, progress=output.progress) if ncu else None
    output.progress.stage(BOOKS)
    devices = analyse_devices(trace, profile.name, wanted)
    steps = [(overview(trace, device, wanted.scope_pattern), device) for device in devices]
    sheets = [step_kernels_sheet(kernels, device, wanted.families) for kernels, device in steps]
    sentences = [sentence for kernels, device in steps for sentence in kernel_sentences(kernels, device)]
    use = {device.gpu: use_of_device(trace, device) for device in devices}
    zero_ns = devices[0].zero_ns
    output.show(
        timeline_document(profile.name, use, sheets, trace.origin, trace.health, zero_ns, counted, unsampled=sentences)
    )


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
    wanted: Selection,
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
    measure = Measure.of_set(set_) if metrics is None else Measure.of_metrics(check_metrics(metrics))
    trace = open_trace(profile, limits=limits, progress=output.progress)
    run = diagnose(trace, profile.name, wanted, stage=output.progress.stage)
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

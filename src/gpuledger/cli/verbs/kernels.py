"""`gpuledger kernels`: what limits the kernels that Nsight Compute profiled; of a timeline, its kernels in order."""

from __future__ import annotations

from pathlib import Path

import click

from gpuledger.cli.limits import limit_option
from gpuledger.cli.output import Output, page_options, step_options
from gpuledger.ledger.steps import Wanted
from gpuledger.limits import Limits
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
def kernels(files: tuple[Path, ...], ncu: tuple[Path, ...], wanted: Wanted, limits: Limits, output: Output) -> None:
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
    from gpuledger.analyse.kernels.judgement import judged
    from gpuledger.analyse.kernels.judgement import kernels as put_together
    from gpuledger.present.views.kernels import kernels_document
    from gpuledger.read.ncu.reader import open_kernels

    report = open_kernels(files, limits=limits, progress=output.progress)
    output.progress.stage("judging the kernels")
    judged_kernels = put_together([judged(launch) for launch in report.launches])
    output.show(kernels_document([path.name for path in files], judged_kernels, report.health))


def _of_timeline(profile: Path, ncu: tuple[Path, ...], wanted: Wanted, limits: Limits, output: Output) -> None:
    from gpuledger.analyse.kernels.step_kernels import overview
    from gpuledger.analyse.use.stretches import use_of_device
    from gpuledger.ledger.device import analysed
    from gpuledger.present.views.answers import kernel_answer
    from gpuledger.present.views.timeline_document import timeline_document
    from gpuledger.present.views.timeline_kernels import step_kernels_sheet
    from gpuledger.read import open_trace
    from gpuledger.read.ncu.reader import open_kernels
    from gpuledger.trace.tables import Table

    trace = open_trace(profile, only=tuple(Table), limits=limits, progress=output.progress)
    counted = open_kernels(ncu, limits=limits, progress=output.progress) if ncu else None
    output.progress.stage(BOOKS)
    devices = analysed(trace, profile.name, wanted)
    steps = [(overview(trace, device, wanted.scope_pattern), device) for device in devices]
    sheets = [step_kernels_sheet(kernels, device, wanted.families) for kernels, device in steps]
    sentences = [sentence for kernels, device in steps for sentence in kernel_answer(kernels, device)]
    use = {device.gpu: use_of_device(trace, device) for device in devices}
    zero_ns = devices[0].zero_ns
    output.show(
        timeline_document(profile.name, use, sheets, trace.origin, trace.health, zero_ns, counted, unsampled=sentences)
    )

"""`gpuledger info` and `stats`: what is in a profile, and NVIDIA's tables of it."""

from __future__ import annotations

from pathlib import Path

import click

from gpuledger.cli.commands import command_of
from gpuledger.cli.inputs import limit_option, profile_argument, words
from gpuledger.cli.main import answering
from gpuledger.cli.output import Output, english_options
from gpuledger.limits import Limits
from gpuledger.verbs import DEFAULT_REPORTS
from gpuledger.verbs import info as inventory


def _print_formats(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from gpuledger.read.registry import formats_table

        click.echo(formats_table())
        ctx.exit()


info = click.option(
    "--formats",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_formats,
    help="Print the formats that are read, the versions seen, and what each lacks.",
)(command_of(inventory.info))


def _names(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.strip() for text in value for name in text.split(",") if name.strip()) or DEFAULT_REPORTS


def _known_reports() -> list[str]:
    from gpuledger.analyse.recorded.nvidia_tables import NVIDIA_REPORTS

    return list(NVIDIA_REPORTS)


@click.command()
@profile_argument
@click.option(
    "-r",
    "--report",
    "reports",
    multiple=True,
    callback=_names,
    shell_complete=words(_known_reports),
    metavar="NAME[,NAME...]",
    help=f"NVIDIA's name of a table; several with commas. Default: {','.join(DEFAULT_REPORTS)}.",
)
@limit_option
@english_options
def stats(profile: Path, reports: tuple[str, ...], limits: Limits, output: Output) -> None:
    """Print NVIDIA's summary tables of PROFILE, to the nanosecond.

    The CSV equals what `nsys stats --format csv` of nsys 2025.3 prints: header, rows, order and digits. Times are
    those of the profile, with overlaps and nesting counted in full. On a terminal long names are cut in the middle;
    CSV and JSON have them whole.

    \b
    Tables:
      cuda_gpu_kern_sum      kernels
      cuda_gpu_kern_gb_sum   kernels by launch shape
      cuda_api_sum           CUDA calls
      cuda_gpu_sum           kernels and copies
      cuda_api_gpu_sum       CUDA calls, kernels and copies
      cuda_gpu_mem_time_sum  copies and memsets, by time
      cuda_gpu_mem_size_sum  copies and memsets, by bytes
      cuda_kern_exec_sum     from the launch call to the kernel's end
      nvtx_sum               ranges, time on the host
      nvtx_pushpop_sum       push/pop ranges, time on the host
      nvtx_gpu_proj_sum      ranges, time on the GPU
      nvtx_kern_sum          kernels by range
      osrt_sum               operating-system calls

    \b
    Examples:
      gpuledger stats run.sqlite
      gpuledger stats run.sqlite --report=nvtx_kern_sum --format=csv
      gpuledger stats run.sqlite --report=cuda_gpu_kern_sum -o kernels.json
    """
    try:
        answer = answering("stats")(profile, reports, limits=limits, progress=output.progress)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'-r' / '--report'") from None
    output.show(answer.document())

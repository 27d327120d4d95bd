"""`gpuledger info` and `stats`: what is in a profile, and NVIDIA's tables of it."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import click

from gpuledger.analyse.inventory import contents
from gpuledger.analyse.nvidia_tables import DEFAULT_REPORTS, NVIDIA_REPORTS, NvidiaReport, columns_for, report_named
from gpuledger.cli.completion import words
from gpuledger.cli.inputs import limit_option, profile_argument
from gpuledger.cli.output import Output, english_options, output_options
from gpuledger.errors import NothingRecorded
from gpuledger.limits import Limits
from gpuledger.present.views.info import info_document
from gpuledger.present.views.nvidia import NamedSheet, nvidia_sheet, stats_document
from gpuledger.read import open_trace
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.trace.tables import Table


@click.command()
@profile_argument
@click.option(
    "-v", "--verbose", is_flag=True, help="Also the profile's own tables, the command line, host and environment."
)
@limit_option
@output_options
def info(profile: Path, verbose: bool, limits: Limits, output: Output) -> None:
    """Show what is in PROFILE, what is missing, and what that means.

    Prints the tool and its version, GPUs, processes, the time span, the rows of every table, and the profile's
    health: what was lost, and what nsys itself warned about. Command lines and environment variables only with
    --verbose.

    \b
    Examples:
      gpuledger info run.sqlite
      gpuledger info run.sqlite --format=json | jq .tables
      gpuledger info run_pqtdir
    """
    trace = open_trace(profile, only=tuple(Table), limits=limits, progress=output.progress)
    output.progress.stage("taking stock")
    output.show(info_document(str(profile), trace, contents(trace), verbose=verbose))


def _reports(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> tuple[NvidiaReport[Any], ...]:
    names = [name.strip() for text in value for name in text.split(",") if name.strip()] or list(DEFAULT_REPORTS)
    reports = []
    for name in dict.fromkeys(names):
        report = report_named(name)
        if report is None:
            known = [report.name for report in NVIDIA_REPORTS]
            close = difflib.get_close_matches(name, known, n=1)
            meant = f"Did you mean {close[0]}?" if close else f"There are: {', '.join(known)}."
            raise click.BadParameter(f"no report {name!r}. {meant}")
        reports.append(report)
    return tuple(reports)


@click.command()
@profile_argument
@click.option(
    "-r",
    "--report",
    "reports",
    multiple=True,
    callback=_reports,
    shell_complete=words(lambda: [report.name for report in NVIDIA_REPORTS]),
    metavar="NAME[,NAME...]",
    help=f"NVIDIA's name of a table; several with commas. Default: {','.join(DEFAULT_REPORTS)}.",
)
@limit_option
@english_options
def stats(profile: Path, reports: tuple[NvidiaReport[Any], ...], limits: Limits, output: Output) -> None:
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
    trace = open_trace(profile, only=columns_for(reports), limits=limits, progress=output.progress)
    output.progress.stage("making the tables")
    named: list[NamedSheet] = [(report.name, nvidia_sheet(report, trace)) for report in reports]
    if all(isinstance(sheet, NotMeasured) for _, sheet in named):
        raise _nothing(profile, trace, named)
    output.show(stats_document(profile.name, named, trace.health))


def _nothing(profile: Path, trace: Trace, named: list[NamedSheet]) -> NothingRecorded:
    """The refusal when not one of the tables can be made."""
    reasons = list(dict.fromkeys(sheet.reason for _, sheet in named if isinstance(sheet, NotMeasured)))
    origin = trace.origin
    version = f"nsys {origin.tool_version or 'of unknown version'}, export schema {origin.schema_version or 'unknown'}"
    held = [f"{name} ({count:,})" for name, count in origin.source_rows if count]
    asked = named[0][0] if len(named) == 1 else "any of the tables asked for"
    return NothingRecorded(
        f"{profile.name}: nothing for {asked}: {reasons[0]}",
        found="\n".join([*reasons[1:], f"{version}; rows: {', '.join(held) or 'none at all'}"]),
        hint="`gpuledger info` says what was recorded; record again with `nsys profile --trace=cuda,nvtx`",
    )

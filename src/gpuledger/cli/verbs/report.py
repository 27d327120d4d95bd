"""`gpuledger report`: the main job. How a report is shown is imported when it is known which way that is."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuledger.cli.inputs import (
    limit_option,
    named,
    names_option,
    profile_argument,
    read_snapshot,
    show_snapshot,
    step_options,
)
from gpuledger.cli.output import Output, page_options
from gpuledger.errors import MissingPackage
from gpuledger.findings.profiled_run import WHERE_SAMPLED, ProfiledRun, columns_for, diagnose
from gpuledger.ledger.steps import Selection
from gpuledger.limits import Limits
from gpuledger.present.views.report import report_document
from gpuledger.read import open_trace

if TYPE_CHECKING:
    from gpuledger.read.request import Progress
    from gpuledger.trace.measured import KernelReport


@click.command()
@profile_argument
@click.option(
    "--ncu",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Nsight Compute report (.ncu-rep or CSV) of the same program; may be given several times.",
)
@click.option(
    "--memory",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Memory snapshot of PyTorch of the same run (`capture torch --memory` writes one).",
)
@click.option("--charts", is_flag=True, help="With a Markdown file: write its charts next to it, as PNG.")
@click.option("--brief", is_flag=True, help="Only the answer and what to do (text and Markdown).")
@step_options
@names_option
@limit_option
@page_options
def report(
    profile: Path,
    ncu: tuple[Path, ...],
    memory: Path | None,
    charts: bool,
    brief: bool,
    wanted: Selection,
    names_from: Path | None,
    limits: Limits,
    output: Output,
) -> None:
    """Show where the time in PROFILE went, and what to do about it.

    Books every nanosecond of each GPU's time to one line: compute by kernel family, exposed communication and
    copies, and idle time by cause. The lines sum to the window. Then shows what to change, ranked by what it would
    save. With reports of Nsight Compute (--ncu), also shows what limits each kernel of the step, and what fixing it
    would save. Of a memory snapshot of PyTorch it shows who holds the memory, see `gpuledger memory`.

    \b
    Examples:
      gpuledger report run.sqlite
      gpuledger report run.sqlite --brief
      gpuledger report run.sqlite --step-range=decode
      gpuledger report run.sqlite -o report.html
      gpuledger report run.sqlite -o report.md --charts
      gpuledger report run.sqlite --lang=zh
      gpuledger report run.sqlite --ncu=layer.ncu-rep
      gpuledger report replay.json.gz --names-from=capture.json.gz
      gpuledger report run.json.gz --memory=run.memory.pickle
      gpuledger report snapshot.pickle -o memory.html
    """
    if charts and (output.format != "md" or output.path is None):
        raise click.UsageError(
            "--charts goes with a Markdown file, e.g. -o report.md; a page (-o report.html) has them."
        )
    if charts and find_spec("vl_convert") is None:
        raise MissingPackage(
            "a chart as a PNG file needs vl-convert-python, which is not installed",
            hint="`pip install 'gpuledger[charts]'`; a page (-o report.html) has the same charts without it",
        )
    if not (ncu or memory or charts) and show_snapshot(profile, limits, output, is_brief=brief):
        return
    columns = columns_for(profiled=bool(ncu) or names_from is not None)
    trace = open_trace(profile, only=columns, where_sampled=WHERE_SAMPLED, limits=limits, progress=output.progress)
    trace = named(trace, profile.name, names_from, limits, output.progress)
    profiled = _open_kernels(ncu, limits, output.progress) if ncu else None
    snapshot = None if memory is None else read_snapshot(memory, limits, output)
    made = diagnose(trace, profile.name, wanted, profiled, stage=output.progress.stage)
    pictures = _write_pictures(made, output) if charts else []
    output.show(report_document(made, pictures, is_brief=brief, memory=snapshot))


def _open_kernels(files: tuple[Path, ...], limits: Limits, tell: Progress) -> KernelReport:
    from gpuledger.read.ncu.reader import open_kernels

    return open_kernels(files, limits=limits, progress=tell)


def _write_pictures(made: ProfiledRun, output: Output) -> list[tuple[str, str]]:
    """Write the pictures beside the document: all of them, or none if one is there already. Titles and names."""
    from gpuledger.present.charts.svg import png
    from gpuledger.present.views.page.report_page import report_pictures

    found = [(each.picture, output.beside(each.ending)) for each in report_pictures(made, output.language)]
    for picture, path in found:
        output.write_bytes(path, png(picture))
    return [(picture.title, path.name) for picture, path in found]

"""`gpuledger report`: the main job. How a report is shown is imported when it is known which way that is."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuledger.cli.inputs import limit_option, names_option, profile_argument, rank_step_options
from gpuledger.cli.main import answering
from gpuledger.cli.output import Output, page_options
from gpuledger.errors import MissingPackage
from gpuledger.limits import Limits
from gpuledger.selection import Selection

if TYPE_CHECKING:
    from gpuledger.answers.report import ReportAnswer


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
@rank_step_options
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
    copies, and idle time by what set it off. The lines sum to the window. Then shows what to change, ranked by what
    it would save. With reports of Nsight Compute (--ncu), also shows what limits each kernel of the step, and what
    fixing it would save. Of a memory snapshot of PyTorch it shows who holds the memory, see `gpuledger memory`.

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
    build = answering("report")
    from msgspec.structs import replace

    from gpuledger.answers.report import ReportAnswer
    from gpuledger.present.views.report import report_document
    from gpuledger.read.snapshot import is_snapshot_file
    from gpuledger.verbs.memory import memory_snapshot

    if not (ncu or memory or charts) and is_snapshot_file(profile):
        answer = memory_snapshot(profile, limits, output.progress)
        output.show(replace(answer.document(), blocks=answer.opening) if brief else answer.document())
        return
    snapshot = None if memory is None else memory_snapshot(memory, limits, output.progress)
    run = build(profile, wanted=wanted, ncu=ncu, names_from=names_from, limits=limits, progress=output.progress)
    made = ReportAnswer(run)
    pictures = _write_pictures(made, output) if charts else []
    output.show(report_document(made, pictures, is_brief=brief, memory=snapshot))


def _write_pictures(made: ReportAnswer, output: Output) -> list[tuple[str, str]]:
    """Write the pictures beside the document: all of them, or none if one is there already. Titles and names."""
    from gpuledger.present.charts.svg import png
    from gpuledger.present.views.page.report_page import report_pictures

    found = [(each.picture, output.beside(each.ending)) for each in report_pictures(made, output.language)]
    for picture, path in found:
        output.write_bytes(path, png(picture))
    return [(picture.title, path.name) for picture, path in found]

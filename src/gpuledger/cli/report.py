"""`gpuledger report`: the main job."""

from __future__ import annotations

from pathlib import Path

import click

from gpuledger.analyse.answers.ledger import ledger_sheet
from gpuledger.analyse.contents import contents
from gpuledger.analyse.steps import Wanted
from gpuledger.cli.output import Output, language_option, output_options, profile_argument, step_options
from gpuledger.cli.progress import progress
from gpuledger.read import open_trace
from gpuledger.read.ncu import open_kernels
from gpuledger.render.csv import sheet_csv
from gpuledger.render.info import headline
from gpuledger.render.json import document
from gpuledger.render.report import report_markdown, report_text
from gpuledger.report import build_report


@click.command()
@profile_argument
@click.option(
    "--ncu",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A report of Nsight Compute (.ncu-rep or CSV) of the same program; may be given several times.",
)
@step_options
@language_option
@output_options
def report(profile: Path, ncu: tuple[Path, ...], wanted: Wanted, language: str, output: Output) -> None:
    """Say where the time in PROFILE went, and what to do about it.

    Books every nanosecond of each GPU's time to one line: compute by kernel family, exposed communication and copies,
    and idle time by cause. The lines sum to the window. Then says what to change, ranked by what it would save.
    With reports of Nsight Compute (--ncu), also says what limits each kernel of the step, and what fixing it would buy.

    \b
    Examples:
      gpuledger report run.sqlite
      gpuledger report run.sqlite --step-range=decode
      gpuledger report run.sqlite -o report.md
      gpuledger report run.sqlite --lang=zh
      gpuledger report run.sqlite --ncu=layer.ncu-rep
    """
    with progress(quiet=output.quiet) as tell:
        trace = open_trace(profile, progress=tell)
        profiled = open_kernels(ncu, progress=tell) if ncu else None
    made = build_report(trace, profile.name, wanted, profiled)
    about = headline(trace, contents(trace))
    match output.format:
        case "json":
            output.write(document(made.to_dict()))
        case "csv":
            output.write("\n".join(sheet_csv(ledger_sheet(device)) for device in made.devices))
        case "md":
            output.write(report_markdown(made, about, language))
        case _:
            output.write(report_text(made, about, output.width, language))

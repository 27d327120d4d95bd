"""`gpuledger report`: its pictures, a short form, and memory snapshots."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from gpuledger.cli.output import Output
from gpuledger.errors import MissingPackage
from gpuledger.verbs.definition import Option

if TYPE_CHECKING:
    from gpuledger.answers.report import ReportAnswer
    from gpuledger.verbs.profiled_report import Report


def report(
    verb: Callable[..., Report],
    output: Output,
    *,
    memory: Annotated[
        Path | None,
        Option("Memory snapshot of PyTorch of the same run (`capture torch --memory` writes one).", metavar="FILE"),
    ] = None,
    charts: Annotated[bool, Option("With a Markdown file: write its charts next to it, as PNG.")] = False,
    brief: Annotated[bool, Option("Only the answer and what to do (text and Markdown).")] = False,
    **asked: Any,
) -> None:
    """Show the report: with pictures, in short, or who holds the memory of a snapshot."""
    if charts and (output.format != "md" or output.path is None):
        raise click.UsageError(
            "--charts goes with a Markdown file, e.g. -o report.md; a page (-o report.html) has them."
        )
    if charts and find_spec("vl_convert") is None:
        raise MissingPackage(
            "a chart as a PNG file needs vl-convert-python, which is not installed",
            hint="`pip install 'gpuledger[charts]'`; a page (-o report.html) has the same charts without it",
        )
    from msgspec.structs import replace

    from gpuledger.answers.report import ReportAnswer
    from gpuledger.present.views.report import report_document
    from gpuledger.read.snapshot import is_snapshot_file
    from gpuledger.verbs.memory import memory_snapshot

    if not (asked["ncu"] or memory or charts) and is_snapshot_file(asked["profile"]):
        answer = memory_snapshot(asked["profile"], asked["limits"], output.progress)
        output.show(replace(answer.document(), blocks=answer.opening) if brief else answer.document())
        return
    snapshot = None if memory is None else memory_snapshot(memory, asked["limits"], output.progress)
    made = ReportAnswer(verb(**asked))
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

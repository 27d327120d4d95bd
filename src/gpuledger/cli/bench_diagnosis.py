"""`gpuledger bench diagnosis`: how well we, or another tool, name planted faults."""

from __future__ import annotations

import time
from pathlib import Path

import click

from gpuledger.cli.output import Output, output_options
from gpuledger.diagnosis.answers import answers_at, answers_text
from gpuledger.diagnosis.cases import DiagnosisBenchmark, DiagnosisCase, diagnosis_benchmark
from gpuledger.diagnosis.own_answers import captures_folder, own_answers
from gpuledger.diagnosis.score import tool_score
from gpuledger.present.views.diagnosis import diagnosis_document
from gpuledger.system.atomic_files import refuse_existing

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.option("--answers", "files", type=_FILE, multiple=True, help="Score a tool's answers; repeat to compare tools.")
@click.option("--write-answers", "written", type=_FILE, help="Also write our own answers to this file.")
@click.option("--only", metavar="CASE[,CASE...]", help="Only some cases.")
@output_options
def diagnosis(files: tuple[Path, ...], written: Path | None, only: str | None, output: Output) -> None:
    """Score how well a tool names planted faults, and what fixing them saved.

    100 captures of programs whose fault is known: 73 with a fault (the fix was measured, with and without the
    profiler), 27 without it. Without --answers our own reports are scored, which takes a minute; the captures are in
    gpuledger's repository. Scoring another tool's answers needs no captures.

    \b
    Examples:
      gpuledger bench diagnosis
      gpuledger bench diagnosis --only=host_read,llama_tuned
      gpuledger bench diagnosis --write-answers=ours.json
      gpuledger bench diagnosis --answers=ours.json --answers=theirs.json

    What counts, and how to enter a tool: docs/concepts/diagnosis-benchmark.md.
    """
    whole = diagnosis_benchmark()
    benchmark = _chosen(whole, only)
    if files and written:
        raise click.UsageError("--write-answers is for our own answers, and --answers for another tool's.")
    if written is not None and written.exists() and not output.force:
        raise refuse_existing(written)
    if files:
        answers = [answers_at(path, whole) for path in files]
        output.show(diagnosis_document(benchmark, [tool_score(benchmark, each) for each in answers]))
        return
    began, count = time.monotonic(), len(benchmark.cases)

    def tell(done: int, case: DiagnosisCase) -> None:
        output.progress.stage(f"case {done + 1} of {count}, {case.id}")

    ours = own_answers(benchmark, captures_folder(whole), tell)
    if written is not None:
        output.write_bytes(written, answers_text(ours))
    took = f"{count} captures in {time.monotonic() - began:.0f} s"
    output.show(diagnosis_document(benchmark, [tool_score(benchmark, ours)]), remarks=(took,))


def _chosen(benchmark: DiagnosisBenchmark, only: str | None) -> DiagnosisBenchmark:
    if only is None:
        return benchmark
    ids = [name.strip() for name in only.split(",") if name.strip()]
    if unknown := benchmark.unknown(ids):
        import difflib

        close = difflib.get_close_matches(unknown[0], [case.id for case in benchmark.cases], n=1)
        meant = f" Did you mean {close[0]}?" if close else ""
        raise click.BadParameter(f"no case {unknown[0]!r}.{meant}", param_hint="--only")
    if not ids:
        raise click.BadParameter("names no case.", param_hint="--only")
    return benchmark.only(ids)

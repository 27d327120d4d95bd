"""`gpuledger bench`: the programs to profile, each with its own options, and how well tools name planted faults."""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import click

from gpuledger.cli.commands import command_of
from gpuledger.cli.inputs import VerbCommand
from gpuledger.cli.output import Output
from gpuledger.diagnosis.cases import DiagnosisBenchmark, DiagnosisCase, answers_at, answers_text, diagnosis_benchmark
from gpuledger.diagnosis.score import captures_folder, own_answers, tool_score
from gpuledger.errors import MissingPackage
from gpuledger.present.views.runs.bench import bench_document, diagnosis_answer
from gpuledger.system.files import refuse_existing
from gpuledger.verbs.definition import Option, VerbArgument

BENCHES = {
    "moe": "An MoE layer on one device: experts in a loop, as one padded GEMM, or grouped.",
    "ep": "The same layer with its experts spread over ranks: dispatch, compute, combine.",
    "decode": "A decoder-only model: time to the first token, time per token; eager, graph, compiled.",
    "serve": "Prefill and decode of a node at a fixed point, in lockstep over ranks, against targets.",
    "transport": "Dispatch and combine between ranks without a model: times, bytes, bandwidth.",
    "barrier": "Barriers between ranks: phase against tag, launched against replayed from a graph.",
    "longctx": "A prompt of 128,000 tokens in chunks: does it hold, does it stall, does it slow down?",
    "mock": "One part of the decoder alone: its attention, its MLP or a layer, on the model's own input.",
}
"""Each with what it is, as the modules of gpuledger_workloads are called: listed here, so that help needs none."""


DIAGNOSIS = "diagnosis"  # no workload: it scores reports, and has options of its own


class _Bench(VerbCommand):
    """Lists the workloads in its help, and hands over where no workload is asked for."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args[:1] != [DIAGNOSIS]:
            return super().make_context(info_name, args, parent, **extra)

        return diagnosis.make_context(f"{info_name} {DIAGNOSIS}", args[1:], parent, **extra)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Workloads"):
            formatter.write_dl(list(BENCHES.items()))
        with formatter.section("Not a workload"):
            formatter.write_dl([(DIAGNOSIS, "How well reports of planted faults name them; scores other tools too.")])
        super().format_options(ctx, formatter)


def _bench(
    name: Annotated[str | None, VerbArgument("NAME", completes=lambda: (*BENCHES, DIAGNOSIS))] = None,
    arguments: Annotated[tuple[str, ...], VerbArgument("[OPTIONS OF NAME]...")] = (),
    *,
    output: Output,
) -> None:
    """Run a program to profile: an MoE layer, a decoder, a server's steps, a transport, a barrier.

    Each checks what it computes against an independent answer, marks its parts with NVTX ranges, runs on a GPU or, at a
    small size, on a CPU, and reports progress on stderr. With --cuda-profiler it opens the window that
    `gpuledger capture nsys --preset=steady` records. Needs torch.

    \b
    Examples:
      gpuledger bench moe --mode=grouped --num-experts=256 --experts-per-token=8
      gpuledger bench ep --world-size=2 --backend=gloo
      gpuledger bench decode --graph -o decode.json
      gpuledger capture nsys -- gpuledger bench moe --mode=loop --cuda-profiler

    The exit code is 3 where a target was missed.
    """
    if name is None or name in ("-h", "--help"):
        click.echo(click.get_current_context().get_help())
        return
    if name not in BENCHES:
        raise click.UsageError(f"no workload {name!r}. There are: {', '.join((*BENCHES, DIAGNOSIS))}.")
    result = _result(name, arguments)
    if result is None:  # another rank tells
        return
    output.show(bench_document(result))
    if result.get("verdict") == "FAIL":
        sys.exit(3)


def _result(name: str, arguments: tuple[str, ...]) -> dict[str, Any] | None:
    try:
        command_lines = importlib.import_module("gpuledger_workloads.command_lines")
        options = command_lines.PARSERS[name]().parse_args(arguments)
        workload = importlib.import_module(f"gpuledger_workloads.{name}")  # late: it loads torch
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing.startswith(("gpuledger.", "gpuledger_workloads.")):  # a fault of ours
            raise
        package = "gpuledger-workloads" if missing == "gpuledger_workloads" else missing
        hint = "install it with `pip install 'gpuledger[workloads]'`"
        raise MissingPackage(f"bench {name}: needs the package {package}", hint=hint) from None
    result: dict[str, Any] | None = workload.run(options)
    return result


def _diagnosis(
    *,
    files: Annotated[
        tuple[Path, ...], Option("Score a tool's answers; repeat to compare tools.", "--answers", "FILE")
    ] = (),
    written: Annotated[Path | None, Option("Also write our own answers to this file.", "--write-answers")] = None,
    only: Annotated[str | None, Option("Only some cases.", metavar="CASE[,CASE...]")] = None,
    output: Output,
) -> None:
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
    benchmark = _choose_cases(whole, only)
    if files and written:
        raise click.UsageError("--write-answers is for our own answers, and --answers for another tool's.")
    if written is not None and written.exists() and not output.force:
        raise refuse_existing(written)
    if files:
        answers = [answers_at(path, whole) for path in files]
        output.show(diagnosis_answer(benchmark, [tool_score(benchmark, each) for each in answers]).document())
        return
    began, count = time.monotonic(), len(benchmark.cases)

    def tell(done: int, case: DiagnosisCase) -> None:
        output.progress.stage(f"case {done + 1} of {count}, {case.id}")

    ours = own_answers(benchmark, captures_folder(whole), tell)
    if written is not None:
        output.write_bytes(written, answers_text(ours))
    took = f"{count} captures in {time.monotonic() - began:.0f} s"
    output.show(diagnosis_answer(benchmark, [tool_score(benchmark, ours)]).document(), remarks=(took,))


def _choose_cases(benchmark: DiagnosisBenchmark, only: str | None) -> DiagnosisBenchmark:
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


bench = command_of(
    _bench,
    "bench",
    has_page=False,
    kind=_Bench,
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    epilog="`gpuledger bench NAME --help` lists the options of one.",
)
diagnosis = command_of(_diagnosis, "diagnosis", has_page=False)

"""The critical path as sentences and tables: by kind, what is on it, and what lies beside it with its slack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from gpuledger.analyse.path_summary import BesidePath, OperationOnPath, PathSide, PathSummary, side_of
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.ledger.books import Line
from gpuledger.messages import Message, joined, say
from gpuledger.present.document import Document, Paragraph, SheetBlock, SheetTitle, json_by
from gpuledger.present.palette import line_tone
from gpuledger.present.sheet import Cell, Column, Sheet, Term, Unit, percent, share_column
from gpuledger.present.terms import TOTAL
from gpuledger.present.views.tables import stretch_sheet, stretch_text, tables_page
from gpuledger.trace.model import Note
from gpuledger.units import count_text, share_text, time_text

_SIDES: Final = {
    PathSide.HOST: say("host"),
    PathSide.GPU: "GPU",
    PathSide.BETWEEN: say("between them"),
    PathSide.OUTSIDE: say("unknown"),
}
"""Who is busy in a part of the path."""

_NAMED: Final = 3
"""So many of the largest parts are named in the sentence."""


def critical_document(profile: str, summaries: Sequence[PathSummary], notes: Sequence[Note], zero_ns: int) -> Document:
    """The critical path of every GPU, for every format; JSON is the document gpuledger.critical/1."""
    sheets, shown = [], []
    for summary in summaries:
        of_gpu = critical_sheets(summary)
        sheets += of_gpu
        shown += [stretch_sheet(sheet, has_steps=summary.steps is not None) for sheet in of_gpu]
    sentences = [Paragraph(sentence) for summary in summaries for sentence in path_sentences(summary)]
    remarks = [Paragraph(remark) for summary in summaries for remark in path_remarks(summary)]

    return Document(
        blocks=lambda: (
            *sentences,
            *(SheetBlock(sheet, SheetTitle.NAMED, tells_hidden=True) for sheet in shown),
            *remarks,
        ),
        data=json_by(
            "tables.critical_json", profile, zero_ns, [sentence.text for sentence in sentences], sheets, notes
        ),
        sheets=lambda: tuple(sheets),
        remarks=tuple(remark.text for remark in remarks),
        page=lambda: tables_page(profile, (*sentences, *remarks), shown),
    )


def critical_sheets(summary: PathSummary) -> list[Sheet]:
    """All tables about one GPU; those that would be empty are left out."""
    sheets = [path_sheet(summary), operations_sheet(summary), calls_sheet(summary)]
    return [sheet for sheet in (*sheets, _ranges_sheet(summary), beside_sheet(summary)) if sheet.rows]


def path_sheet(summary: PathSummary) -> Sheet:
    """The path by kind; the parts sum to the steady steps."""
    whole = summary.whole_ns
    total: dict[str, Cell] = {
        "part": TOTAL,
        "side": "",
        "per_step_ns": _per_step(summary, whole),
        "share_percent": percent(whole, whole),
        "times": sum(times for _, _, times in summary.lines),
        "total_ns": whole,
    }
    columns = (
        Column("part", say("Part"), Unit.TEXT, lambda part: part_term(part[0])),
        Column("side", say("Side"), Unit.TEXT, lambda part: _side_term(part[0])),
        *_time_columns(summary, lambda part: part[1]),
        Column("times", say("Times"), Unit.COUNT, lambda part: part[2]),
        Column("total_ns", say("All steps"), Unit.NS, lambda part: part[1], detail=1),
    )
    title = say("The critical path, {whole}", whole=stretch_text(summary.steps, summary.gpu))
    return Sheet.of(f"critical_path_gpu{summary.gpu}", title, columns, summary.lines, foot=(total,))


def part_term(line: Line) -> Term:
    """A part of the path by its line or cause; whether the GPU is idle meanwhile is not said."""
    words = say("compute: {family}", family=line.family) if line.is_compute else line.brief_label
    return Term(line.cause or line, words, tone=line_tone(line))


def _side_term(line: Line) -> Term:
    return Term(side_of(line), _SIDES[side_of(line)])


def _per_step(summary: PathSummary, time_ns: int) -> float:
    return time_ns / (summary.steps or 1)


def _time_column(summary: PathSummary, key: str, name: str, time_ns: Callable[[Any], int]) -> Column:
    """A time of all steps, for one of them."""
    return Column(key, name, Unit.MEAN_NS, lambda record: _per_step(summary, time_ns(record)))


def _share_column(summary: PathSummary, time_ns: Callable[[Any], int]) -> Column:
    return share_column("share_percent", say("Share"), time_ns, summary.whole_ns)


def _time_columns(summary: PathSummary, time_ns: Callable[[Any], int]) -> tuple[Column, Column]:
    """Time on the path per step, and its share of the step."""
    return _time_column(summary, "per_step_ns", say("Per step"), time_ns), _share_column(summary, time_ns)


def _kernel_name(kernel: OperationOnPath | BesidePath) -> str:
    return label(kernel.name) if kernel.name else say("graphs traced whole")


def operations_sheet(summary: PathSummary) -> Sheet:
    """What ran on the GPU, by name, the most time on the path first."""
    columns = (
        Column("operation", say("On the path"), Unit.TEXT, _kernel_name, shorten=cut_label),
        Column("line", say("Line"), Unit.TEXT, lambda operation: part_term(operation.line), detail=1),
        *_time_columns(summary, lambda operation: operation.path_ns),
        Column("times", say("Times"), Unit.COUNT),
        share_column("of_gpu_time_percent", say("of its GPU time"), "path_ns", "gpu_ns"),
    )
    title = say("Kernels and copies with the most time on it, {whole}", whole=stretch_text(summary.steps, summary.gpu))
    return Sheet.of(f"critical_operations_gpu{summary.gpu}", title, columns, summary.operations)


def calls_sheet(summary: PathSummary) -> Sheet:
    """What the host called, likewise."""
    columns = (
        Column("call", say("Call"), Unit.TEXT, "name"),
        _time_column(summary, "call_per_step_ns", say("In the call"), lambda call: call.call_ns),
        _time_column(summary, "code_per_step_ns", say("Code before it"), lambda call: call.code_ns),
        _share_column(summary, lambda call: call.call_ns + call.code_ns),
        Column("times", say("Times"), Unit.COUNT),
        Column("waits", say("Waits"), Unit.COUNT),
    )
    title = say("Calls on it, with the host code before them, {whole}", whole=stretch_text(summary.steps, summary.gpu))
    return Sheet.of(f"critical_calls_gpu{summary.gpu}", title, columns, summary.calls)


def _ranges_sheet(summary: PathSummary) -> Sheet:
    columns = (
        Column("range", say("Range"), Unit.TEXT, "name"),
        _time_column(summary, "host_per_step_ns", say("Host"), lambda part: part.host_ns),
        _time_column(summary, "gpu_per_step_ns", "GPU", lambda part: part.gpu_ns),
        _share_column(summary, lambda part: part.host_ns + part.gpu_ns),
    )
    title = say("Innermost ranges with the most time on it, {whole}", whole=stretch_text(summary.steps, summary.gpu))
    return Sheet.of(f"critical_ranges_gpu{summary.gpu}", title, columns, summary.ranges)


def beside_sheet(summary: PathSummary) -> Sheet:
    """Kernels that are not on it, with their slack."""
    columns = (
        Column("kernel", say("Off the path"), Unit.TEXT, _kernel_name, shorten=cut_label),
        _time_column(summary, "beside_per_step_ns", say("Per step"), lambda kernel: kernel.beside_ns),
        Column("beside", say("Times"), Unit.COUNT),
        Column("launches", say("of launches"), Unit.COUNT, detail=1),
        Column("slack_ns", say("Slack, median"), Unit.NS),
        Column("least_slack_ns", say("Slack, least"), Unit.NS, detail=1),
        _time_column(summary, "saving_per_step_ns", say("Saves at 2x"), lambda kernel: kernel.saved_ns),
    )
    title = say("Not on it: kernels with the most GPU time, {whole}", whole=stretch_text(summary.steps, summary.gpu))
    return Sheet.of(f"critical_beside_gpu{summary.gpu}", title, columns, summary.beside)


def step_text(summary: PathSummary, time_ns: int) -> str:
    """A time of all steps, for one of them."""
    return time_text(round(_per_step(summary, time_ns)))


def path_sentence(summary: PathSummary) -> Message:
    """What the step's length is due to: the side with the most time and its largest parts, then the other sides."""
    sides = sorted(_SIDES, key=lambda side: -summary.side_ns(side))
    largest, *others = [side for side in sides if summary.side_ns(side)]
    share = {side: share_text(summary.side_ns(side) / summary.whole_ns) for side in (largest, *others)}
    parts = [
        say("{part} {time}", part=part_term(line).words, time=step_text(summary, time))
        for line, time, _ in summary.lines
        if side_of(line) == largest
    ]
    first = say(
        "GPU {gpu}: of {whole} {unit}, the critical path is {share} {side}: {parts}",
        gpu=summary.gpu,
        whole=step_text(summary, summary.whole_ns),
        unit=say("in the window") if summary.steps is None else say("per step"),
        share=share[largest],
        side=_SIDES[largest],
        parts=joined(say(", "), parts[:_NAMED]),
    )
    if not others:
        return say("{told}.", told=first)
    rest = [say("{side} {share}", side=_SIDES[side], share=share[side]) for side in others]
    return say("{told}; {others}.", told=first, others=joined(say(", "), rest))


def path_sentences(summary: PathSummary) -> list[Message]:
    """What the path consists of, and of which steps it is where that is not all of them."""
    if summary.steady_steps is None:
        return [path_sentence(summary)]
    of_steps = say(
        "GPU {gpu}: the path is that of {count} of the {all} steady steps, from the middle of the run.",
        gpu=summary.gpu,
        count=count_text(summary.steps or 0),
        all=count_text(summary.steady_steps),
    )
    return [path_sentence(summary), of_steps]


def path_remarks(summary: PathSummary) -> list[Message]:
    """What the tables do not say themselves: what waits cost, and what it buys to make other kernels faster."""
    remarks, gpu = [], summary.gpu
    if waits := [call for call in summary.calls if call.waits]:
        named = [say("{count} x {call}", count=count_text(call.waits), call=call.name) for call in waits]
        remarks.append(
            say(
                "GPU {gpu}: the path passes through {waits} to the work they waited for. A wait itself takes "
                "little of the path: it costs the framework overhead and the launch latency after it. "
                "`gpuledger report` has the saving of removing it.",
                gpu=gpu,
                waits=joined(say(", "), named),
            )
        )
    if not summary.beside:
        remarks.append(say("GPU {gpu}: no significant kernel runs off the path.", gpu=gpu))
    if saves_nothing := [kernel for kernel in summary.beside if not kernel.saved_ns]:
        kernels = joined(say(", "), [_slack_text(kernel) for kernel in saves_nothing[:_NAMED]])
        nothing = say("GPU {gpu}: making these kernels faster saves nothing: {kernels}.", gpu=gpu, kernels=kernels)
        remarks.append(nothing)
    return remarks


def _slack_text(kernel: BesidePath) -> Message:
    name = cut_label(label(kernel.name)) if kernel.name else say("graphs traced whole")
    if kernel.slack_ns is None:
        return say("{kernel} (nothing waits for it)", kernel=name)
    return say("{kernel} ({slack} of slack)", kernel=name, slack=time_text(kernel.slack_ns))

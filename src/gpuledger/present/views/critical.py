"""The critical path as sentences and tables: by kind, what is on it, and what lies beside it with its slack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gpuledger.analyse.path_summary import BesidePath, CallOnPath, PathSide, PathSummary, side_of
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.ledger.books import Line
from gpuledger.messages import Message, joined, say
from gpuledger.present.digits import percent
from gpuledger.present.document import Document, Paragraph, SheetBlock, SheetTitle
from gpuledger.present.palette import line_tone
from gpuledger.present.sheet import Column, Sheet, Term, Unit
from gpuledger.present.terms import TOTAL
from gpuledger.present.views.tables_page import stretch_text, tables_page
from gpuledger.present.writers.json import health_json, tables_json
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

_PATH: Final = (
    Column("part", say("Part"), Unit.TEXT),
    Column("side", say("Side"), Unit.TEXT),
    Column("per_step_ns", say("Per step"), Unit.MEAN_NS),
    Column("share_percent", say("Share"), Unit.SHARE_PERCENT),
    Column("times", say("Times"), Unit.COUNT),
    Column("total_ns", say("All steps"), Unit.NS, detail=1),
)
_OPERATIONS: Final = (
    Column("operation", say("On the path"), Unit.TEXT, shorten=cut_label),
    Column("line", say("Line"), Unit.TEXT, detail=1),
    Column("per_step_ns", say("Per step"), Unit.MEAN_NS),
    Column("share_percent", say("Share"), Unit.SHARE_PERCENT),
    Column("times", say("Times"), Unit.COUNT),
    Column("of_gpu_time_percent", say("of its GPU time"), Unit.SHARE_PERCENT),
)
_CALLS: Final = (
    Column("call", say("Call"), Unit.TEXT),
    Column("call_per_step_ns", say("In the call"), Unit.MEAN_NS),
    Column("code_per_step_ns", say("Code before it"), Unit.MEAN_NS),
    Column("share_percent", say("Share"), Unit.SHARE_PERCENT),
    Column("times", say("Times"), Unit.COUNT),
    Column("waits", say("Waits"), Unit.COUNT),
)
_RANGES: Final = (
    Column("range", say("Range"), Unit.TEXT),
    Column("host_per_step_ns", say("Host"), Unit.MEAN_NS),
    Column("gpu_per_step_ns", "GPU", Unit.MEAN_NS),
    Column("share_percent", say("Share"), Unit.SHARE_PERCENT),
)
_BESIDE: Final = (
    Column("kernel", say("Off the path"), Unit.TEXT, shorten=cut_label),
    Column("beside_per_step_ns", say("Per step"), Unit.MEAN_NS),
    Column("beside", say("Times"), Unit.COUNT),
    Column("launches", say("of launches"), Unit.COUNT, detail=1),
    Column("slack_ns", say("Slack, median"), Unit.NS),
    Column("least_slack_ns", say("Slack, least"), Unit.NS, detail=1),
    Column("saving_per_step_ns", say("Saves at 2x"), Unit.MEAN_NS),
)


def critical_document(profile: str, summaries: Sequence[PathSummary], notes: Sequence[Note], zero_ns: int) -> Document:
    """The critical path of every GPU, for every format; JSON is the document gpuledger.critical/1."""
    sheets = [sheet for summary in summaries for sheet in critical_sheets(summary)]
    sentences = [Paragraph(path_sentence(summary)) for summary in summaries]
    remarks = [Paragraph(remark) for summary in summaries for remark in path_remarks(summary)]

    def data() -> dict[str, Any]:
        return {
            "schema": "gpuledger.critical/1",
            "profile": profile,
            "zero_ns": zero_ns,
            "sentences": [sentence.text for sentence in sentences],
            "tables": tables_json(sheets),
            "health": health_json(notes),
        }

    return Document(
        blocks=lambda: (
            *sentences,
            *(SheetBlock(sheet, SheetTitle.NAMED, tells_hidden=True) for sheet in sheets),
            *remarks,
        ),
        data=data,
        sheets=lambda: tuple(sheets),
        remarks=tuple(remark.text for remark in remarks),
        page=lambda reader: tables_page(profile, (*sentences, *remarks), sheets, reader),
    )


def critical_sheets(summary: PathSummary) -> list[Sheet]:
    """All tables about one GPU; those that would be empty are left out."""
    sheets = [path_sheet(summary), operations_sheet(summary), calls_sheet(summary)]
    return [sheet for sheet in (*sheets, _ranges_sheet(summary), beside_sheet(summary)) if sheet.rows]


def path_sheet(summary: PathSummary) -> Sheet:
    """The path by kind; the parts sum to the steady steps."""
    whole = summary.whole_ns
    rows = tuple(
        (
            part_term(line),
            Term(side_of(line), _SIDES[side_of(line)]),
            _per_step(summary, time),
            percent(time, whole),
            count,
            time,
        )
        for line, time, count in summary.lines
    )
    foot = ((TOTAL, "", _per_step(summary, whole), percent(whole, whole), sum(row[4] for row in rows), whole),)
    return _sheet(
        summary, "critical_path", say("The critical path, {whole}", whole=_stretch(summary)), _PATH, rows, foot
    )


def part_term(line: Line) -> Term:
    """A part of the path by its line or cause; whether the GPU is idle meanwhile is not said."""
    words = say("compute: {family}", family=line.family) if line.is_compute else line.brief_label
    return Term(line.cause or line, words, tone=line_tone(line))


def operations_sheet(summary: PathSummary) -> Sheet:
    """What ran on the GPU, by name, the most time on the path first."""
    rows = tuple(
        (
            label(operation.name) if operation.name else say("graphs traced whole"),
            part_term(operation.line),
            _per_step(summary, operation.path_ns),
            percent(operation.path_ns, summary.whole_ns),
            operation.times,
            percent(operation.path_ns, operation.gpu_ns),
        )
        for operation in summary.operations
    )
    title = say("Kernels and copies with the most time on it, {whole}", whole=_stretch(summary))
    return _sheet(summary, "critical_operations", title, _OPERATIONS, rows)


def calls_sheet(summary: PathSummary) -> Sheet:
    """What the host called, likewise."""
    rows = tuple(
        (
            call.name,
            _per_step(summary, call.call_ns),
            _per_step(summary, call.code_ns),
            percent(call.call_ns + call.code_ns, summary.whole_ns),
            call.times,
            call.waits,
        )
        for call in summary.calls
    )
    title = say("Calls on it, with the host code before them, {whole}", whole=_stretch(summary))
    return _sheet(summary, "critical_calls", title, _CALLS, rows)


def _ranges_sheet(summary: PathSummary) -> Sheet:
    rows = tuple(
        (
            part.name,
            _per_step(summary, part.host_ns),
            _per_step(summary, part.gpu_ns),
            percent(part.host_ns + part.gpu_ns, summary.whole_ns),
        )
        for part in summary.ranges
    )
    title = say("Innermost ranges with the most time on it, {whole}", whole=_stretch(summary))
    return _sheet(summary, "critical_ranges", title, _RANGES, rows)


def beside_sheet(summary: PathSummary) -> Sheet:
    """Kernels that are not on it, with their slack."""
    rows = tuple(
        (
            label(kernel.name) if kernel.name else say("graphs traced whole"),
            _per_step(summary, kernel.beside_ns),
            kernel.beside,
            kernel.launches,
            kernel.slack_ns,
            kernel.least_slack_ns,
            _per_step(summary, kernel.saved_ns),
        )
        for kernel in summary.beside
    )
    title = say("Not on it: kernels with the most GPU time, {whole}", whole=_stretch(summary))
    return _sheet(summary, "critical_beside", title, _BESIDE, rows)


def _sheet(
    summary: PathSummary,
    name: str,
    title: Message,
    columns: tuple[Column, ...],
    rows: tuple[tuple[Any, ...], ...],
    foot: tuple[tuple[Any, ...], ...] = (),
) -> Sheet:
    return Sheet(f"{name}_gpu{summary.gpu}", title, columns, rows, foot, rounded=True)


def _stretch(summary: PathSummary) -> str:
    return stretch_text(summary.steps, summary.gpu)


def _per_step(summary: PathSummary, time_ns: int) -> float:
    return time_ns / (summary.steps or 1)


def step_text(summary: PathSummary, time_ns: int) -> str:
    """A time of all steps, for one of them."""
    return time_text(round(_per_step(summary, time_ns)))


def path_sentence(summary: PathSummary) -> Message:
    """What the step's length is due to: the side with the most time and its largest parts, then the other sides."""
    sides = sorted(_SIDES, key=lambda side: -summary.side_ns(side))
    largest, *others = [side for side in sides if summary.side_ns(side)]
    parts = [(line, time) for line, time, _ in summary.lines if side_of(line) == largest][:_NAMED]
    told = say(
        "GPU {gpu}: of {whole} {unit}, the critical path is {share} {side}: {parts}",
        gpu=summary.gpu,
        whole=step_text(summary, summary.whole_ns),
        unit=say("in the window") if summary.steps is None else say("per step"),
        share=share_text(summary.side_ns(largest) / summary.whole_ns),
        side=_SIDES[largest],
        parts=joined(
            say(", "),
            [say("{part} {time}", part=part_term(line).words, time=step_text(summary, time)) for line, time in parts],
        ),
    )
    if not others:
        return say("{told}.", told=told)
    shares = [
        say("{side} {share}", side=_SIDES[side], share=share_text(summary.side_ns(side) / summary.whole_ns))
        for side in others
    ]
    return say("{told}; {others}.", told=told, others=joined(say(", "), shares))


def path_remarks(summary: PathSummary) -> list[Message]:
    """What the tables do not say themselves: what waits cost, and what it buys to make other kernels faster."""
    remarks = []
    waits = [call for call in summary.calls if call.waits]
    if waits:
        remarks.append(_waits_remark(summary.gpu, waits))
    if not summary.beside:
        remarks.append(say("GPU {gpu}: no significant kernel runs off the path.", gpu=summary.gpu))
    buys_nothing = [kernel for kernel in summary.beside if not kernel.saved_ns]
    if buys_nothing:
        kernels = joined(say(", "), [_slack_text(kernel) for kernel in buys_nothing[:_NAMED]])
        remarks.append(
            say("GPU {gpu}: making these kernels faster saves nothing: {kernels}.", gpu=summary.gpu, kernels=kernels)
        )
    return remarks


def _waits_remark(gpu: int, waits: Sequence[CallOnPath]) -> Message:
    named = [say("{count} x {call}", count=count_text(call.waits), call=call.name) for call in waits]
    return say(
        "GPU {gpu}: the path passes through {waits} to the work they waited for. A wait itself takes "
        "little of the path: it costs the framework overhead and the launch latency after it. "
        "`gpuledger report` has the saving of removing it.",
        gpu=gpu,
        waits=joined(say(", "), named),
    )


def _slack_text(kernel: BesidePath) -> Message:
    name = cut_label(label(kernel.name)) if kernel.name else say("graphs traced whole")
    if kernel.slack_ns is None:
        return say("{kernel} (nothing waits for it)", kernel=name)
    return say("{kernel} ({slack} of slack)", kernel=name, slack=time_text(kernel.slack_ns))

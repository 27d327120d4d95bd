"""Phases as tables: what each costs, what lies inside and between them, each layer, and waiting against transfer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gpuledger.analyse.phase_costs import BetweenPhases, PhaseCosts, PhaseWait
from gpuledger.analyse.work_phases import ToldBy
from gpuledger.ledger.books import Line
from gpuledger.messages import Message, joined, say
from gpuledger.present.digits import percent
from gpuledger.present.document import Document, Heading, Paragraph, SheetBlock, SheetTitle
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.present.terms import TOTAL, line_term
from gpuledger.present.views.tables_page import stretch_text, tables_page
from gpuledger.present.writers.json import health_json, tables_json
from gpuledger.trace.model import Note, NotMeasured
from gpuledger.units import share_text, time_text

Waits = tuple[PhaseWait, ...] | NotMeasured

_PHASES: Final = (
    Column("phase", say("Phase"), Unit.TEXT),
    Column("per_step_ns", say("Per step"), Unit.MEAN_NS),
    Column("share_percent", say("Share"), Unit.SHARE_PERCENT),
    Column("visits", say("Times"), Unit.COUNT, detail=1),
    Column("per_visit_ns", say("Each"), Unit.MEAN_NS),
    Column("hidden_per_step_ns", say("Hidden"), Unit.MEAN_NS),
    Column("total_ns", say("All steps"), Unit.NS, detail=2),
    Column("told_by", say("Source"), Unit.TEXT, detail=1),
)
_BETWEEN: Final = (
    Column("from", say("From"), Unit.TEXT),
    Column("to", say("To"), Unit.TEXT),
    Column("times", say("Times"), Unit.COUNT, detail=1),
    Column("idle_per_step_ns", say("Idle"), Unit.MEAN_NS),
    Column("other_per_step_ns", say("Other work"), Unit.MEAN_NS),
    Column("share_percent", say("Share"), Unit.SHARE_PERCENT),
    Column("cause", say("Largest cause"), Unit.TEXT),
    Column("idle_ns", say("Idle, all steps"), Unit.NS, detail=3),
    Column("other_ns", say("Other work, all steps"), Unit.NS, detail=3),
)
_WAITS: Final = (
    Column("phase", say("Phase"), Unit.TEXT),
    Column("layer", say("Layer"), Unit.TEXT),
    Column("seen", say("Collectives"), Unit.COUNT),
    Column("matched", say("Matched"), Unit.COUNT),
    Column("running_ns", say("Running"), Unit.NS),
    Column("wait_ns", say("Waiting"), Unit.NS),
    Column("transfer_ns", say("Transfer"), Unit.NS),
    Column("wait_percent", say("of it waiting"), Unit.SHARE_PERCENT),
)
_NO_PHASES: Final = NotMeasured(
    say("no range or kernel is named after a phase of a layer; --phase NAME=REGEX defines one")
)
_UNTOLD: Final = say(
    "Most GPU work is in no phase: neither its range nor its kernel name shows one. Work in a "
    "CUDA graph has no ranges: record a run without the graph, or define phases with --phase "
    "NAME=REGEX."
)
IDLE: Final = say("idle")
OTHER_WORK: Final = say("other work")
INSIDE: Final = say("(inside)")
BEGIN: Final = say("(start)")
END: Final = say("(end)")
_NO_LAYER: Final = say("(in no layer)")
_ALL_LAYERS: Final = say("all")
_TOLD_BY: Final = {
    ToldBy.USER: "--phase",
    ToldBy.RANGE: say("ranges"),
    ToldBy.KERNEL: say("kernel names"),
}


def phases_document(
    profile: str, answers: Sequence[tuple[PhaseCosts, Waits]], notes: Sequence[Note], zero_ns: int
) -> Document:
    """The phases of every GPU, for every format; JSON is the document gpuledger.phases/1."""
    sheets = [sheet for costs, waits in answers for sheet in phase_sheets(costs, waits)]
    missing = [
        (what, f"{name}_gpu{costs.gpu}", result.reason)
        for costs, waits in answers
        for what, name, result in (
            (say("Phases"), "phases", costs.phases or _NO_PHASES),
            (say("Phases by layer"), "phase_layers", costs.layers),
            (say("Waiting for other ranks"), "phase_waits", waits),
        )
        if isinstance(result, NotMeasured)
    ]

    def data() -> dict[str, Any]:
        return {
            "schema": "gpuledger.phases/1",
            "profile": profile,
            "zero_ns": zero_ns,
            "tables": tables_json(sheets),
            "not_measured": [{"table": table, "reason": reason} for _, table, reason in missing],
            "health": health_json(notes),
        }

    sentences = [Paragraph(_sentence(costs)) for costs, _ in answers]
    if any(costs.phases and not costs.tell_the_most for costs, _ in answers):
        sentences.append(Paragraph(_UNTOLD))
    doubts = [
        Paragraph(say("{what} ({table}): not measured: {reason}.", what=what, table=table, reason=why))
        for what, table, why in missing
    ]
    return Document(
        blocks=lambda: (
            *sentences,
            *(SheetBlock(sheet, SheetTitle.NAMED, tells_hidden=True) for sheet in sheets),
            *doubts,
        ),
        data=data,
        sheets=lambda: tuple(sheets),
        remarks=tuple(doubt.text for doubt in doubts),
        page=lambda reader: tables_page(
            profile, sentences, sheets, reader, more=(Heading(say("Not measured")), *doubts) if doubts else ()
        ),
    )


def phase_sheets(costs: PhaseCosts, waits: Waits) -> list[Sheet]:
    """All tables about one GPU."""
    sheets = [phases_sheet(costs), between_sheet(costs)]
    if not isinstance(costs.layers, NotMeasured):
        sheets.append(layers_sheet(costs))
    if not isinstance(waits, NotMeasured):
        sheets.append(waits_sheet(costs, waits))
    return sheets


def phases_sheet(costs: PhaseCosts) -> Sheet:
    """What each phase costs; with idle time and other work they sum to the steady steps."""
    rows = tuple(
        (
            cost.phase,
            _per_step(costs, cost.busy_ns),
            percent(cost.busy_ns, costs.whole_ns),
            cost.visits,
            cost.busy_ns / cost.visits if cost.visits else None,
            _per_step(costs, cost.hidden_ns),
            cost.busy_ns,
            joined(say(", "), [_TOLD_BY[source] for source in cost.told_by]),
        )
        for cost in costs.phases
    )
    sums = ((IDLE, costs.idle_ns), (OTHER_WORK, costs.other_ns), (TOTAL, costs.whole_ns))
    foot = tuple(
        (name, _per_step(costs, time), percent(time, costs.whole_ns), None, None, None, time, "") for name, time in sums
    )
    return Sheet(
        f"phases_gpu{costs.gpu}",
        say("Phases, {whole}", whole=stretch_text(costs.steps, costs.gpu)),
        _PHASES,
        rows,
        foot,
        rounded=True,
    )


def between_sheet(costs: PhaseCosts) -> Sheet:
    """Idle time and other work by the phases around them."""
    rows = tuple(
        (
            place.before or BEGIN,
            INSIDE if place.inside else place.after or END,
            place.times,
            _per_step(costs, place.idle_ns),
            _per_step(costs, place.other_ns),
            percent(place.idle_ns + place.other_ns, costs.whole_ns),
            None if place.largest_cause is None else line_term(Line.of_cause(place.largest_cause)),
            place.idle_ns,
            place.other_ns,
        )
        for place in costs.between
    )
    idle, other = costs.idle_ns, costs.other_ns
    share = percent(idle + other, costs.whole_ns)
    foot = ((TOTAL, "", None, _per_step(costs, idle), _per_step(costs, other), share, None, idle, other),)
    title = say("Inside and between phases, {whole}", whole=stretch_text(costs.steps, costs.gpu))
    return Sheet(f"phase_gaps_gpu{costs.gpu}", title, _BETWEEN, rows, foot, rounded=True)


def layers_sheet(costs: PhaseCosts) -> Sheet:
    """A row per layer: its phases, and the idle time and the other work before each of them."""
    layers = () if isinstance(costs.layers, NotMeasured) else costs.layers
    names = [cost.phase for cost in costs.phases]
    columns = (
        Column("layer", say("Layer"), Unit.TEXT),
        *(Column(f"{name}_ns", name, Unit.MEAN_NS) for name in names),
        Column("idle_ns", say("Idle"), Unit.MEAN_NS),
        Column("other_ns", say("Other work"), Unit.MEAN_NS, detail=1),
        Column("length_ns", say("Whole"), Unit.MEAN_NS),
        Column("share_percent", say("Share"), Unit.SHARE_PERCENT, detail=2),
    )

    def row(name: str, busy: Sequence[int], idle: int, other: int) -> tuple[Cell, ...]:
        whole = sum(busy) + idle + other
        times = (*busy, idle, other, whole)
        return (name, *(_per_step(costs, time) for time in times), percent(whole, costs.whole_ns))

    rows = tuple(
        row(_NO_LAYER if layer.layer is None else str(layer.layer), layer.busy_ns, layer.idle_ns, layer.other_ns)
        for layer in layers
    )
    sums = [cost.busy_ns for cost in costs.phases]
    foot = (row(TOTAL, sums, costs.idle_ns, costs.other_ns),)
    return Sheet(
        f"phase_layers_gpu{costs.gpu}",
        say("Phases by layer, {whole}", whole=stretch_text(costs.steps, costs.gpu)),
        columns,
        rows,
        foot,
        rounded=True,
    )


def waits_sheet(costs: PhaseCosts, waits: Sequence[PhaseWait]) -> Sheet:
    """Waiting for other ranks against moving data."""
    rows = tuple(
        (
            wait.phase or OTHER_WORK,
            _ALL_LAYERS if wait.layer is None else str(wait.layer),
            wait.seen,
            wait.matched,
            wait.running_ns,
            wait.wait_ns,
            wait.transfer_ns,
            percent(wait.wait_ns, wait.running_ns),
        )
        for wait in waits
    )
    title = say("Waiting for other ranks vs transfer, all steady steps, GPU {gpu}", gpu=costs.gpu)
    return Sheet(f"phase_waits_gpu{costs.gpu}", title, _WAITS, rows, rounded=True)


def _per_step(costs: PhaseCosts, time_ns: int) -> float:
    return time_ns / (costs.steps or 1)


def _sentence(costs: PhaseCosts) -> Message:
    """What a step takes, what of it is in phases, and where the GPU is idle the longest."""
    idle = [place for place in costs.between if place.idle_ns]
    told = say(
        "GPU {gpu}: of {whole} {unit}, phases take {busy}, other work {other}, idle {idle}",
        gpu=costs.gpu,
        whole=time_text(round(_per_step(costs, costs.whole_ns))),
        unit=say("in the window") if costs.steps is None else say("per step"),
        busy=share_text(sum(cost.busy_ns for cost in costs.phases) / costs.whole_ns),
        other=share_text(costs.other_ns / costs.whole_ns),
        idle=share_text(costs.idle_ns / costs.whole_ns),
    )
    if not idle:
        return say("{told}.", told=told)
    worst = max(idle, key=lambda place: place.idle_ns)
    return say(
        "{told}, mostly {where} ({time}).",
        told=told,
        where=_where(worst),
        time=time_text(round(_per_step(costs, worst.idle_ns))),
    )


def _where(place: BetweenPhases) -> Message:
    if place.inside:
        return say("inside {phase}", phase=place.before)
    return say("between {before} and {after}", before=place.before or BEGIN, after=place.after or END)

"""Phases as tables: what each costs, what lies inside and between them, each layer, and waiting against transfer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpuledger.analyse.phase_costs import BetweenPhases, PhaseCost, PhaseCosts, PhaseWait
from gpuledger.analyse.work_phases import ToldBy
from gpuledger.ledger.books import Line
from gpuledger.messages import Message, joined, say
from gpuledger.present.document import Document, Heading, Paragraph, SheetBlock, SheetTitle, json_by
from gpuledger.present.sheet import Cell, Column, Sheet, Term, Unit, percent, share_column
from gpuledger.present.terms import TOTAL, line_term
from gpuledger.present.views.tables import stretch_sheet, stretch_text, tables_page
from gpuledger.trace.model import Note, NotMeasured
from gpuledger.units import share_text, time_text

Waits = tuple[PhaseWait, ...] | NotMeasured

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
    ToldBy.ORDER: say("kernel order"),
}


def phases_document(
    profile: str, answers: Sequence[tuple[PhaseCosts, Waits]], notes: Sequence[Note], zero_ns: int
) -> Document:
    """The phases of every GPU, for every format; JSON is the document gpuledger.phases/1."""
    sheets, shown = [], []
    for costs, waits in answers:
        of_gpu = phase_sheets(costs, waits)
        sheets += of_gpu
        shown += [stretch_sheet(sheet, has_steps=costs.steps is not None) for sheet in of_gpu]
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
            *(SheetBlock(sheet, SheetTitle.NAMED, tells_hidden=True) for sheet in shown),
            *doubts,
        ),
        data=json_by(
            "tables.phases_json", profile, zero_ns, sheets, [(table, why) for _, table, why in missing], notes
        ),
        sheets=lambda: tuple(sheets),
        remarks=tuple(doubt.text for doubt in doubts),
        page=lambda: tables_page(
            profile, sentences, shown, more=(Heading(say("Not measured")), *doubts) if doubts else ()
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
    whole = costs.whole_ns
    foot: list[dict[str, Cell]] = [
        {
            "phase": name,
            "per_step_ns": _per_step(costs, time),
            "share_percent": percent(time, whole),
            "total_ns": time,
            "told_by": "",
        }
        for name, time in ((IDLE, costs.idle_ns), (OTHER_WORK, costs.other_ns), (TOTAL, whole))
    ]

    def each_ns(cost: PhaseCost) -> float | None:
        return cost.busy_ns / cost.visits if cost.visits else None

    def told_by(cost: PhaseCost) -> Message:
        return joined(say(", "), [_TOLD_BY[source] for source in cost.told_by])

    columns = (
        Column("phase", say("Phase"), Unit.TEXT),
        Column("per_step_ns", say("Per step"), Unit.MEAN_NS, lambda cost: _per_step(costs, cost.busy_ns)),
        share_column("share_percent", say("Share"), "busy_ns", whole),
        Column("visits", say("Times"), Unit.COUNT, detail=1),
        Column("per_visit_ns", say("Each"), Unit.MEAN_NS, each_ns),
        Column("hidden_per_step_ns", say("Hidden"), Unit.MEAN_NS, lambda cost: _per_step(costs, cost.hidden_ns)),
        Column("total_ns", say("All steps"), Unit.NS, "busy_ns", detail=2),
        Column("told_by", say("Source"), Unit.TEXT, told_by, detail=1),
    )
    title = say("Phases, {whole}", whole=stretch_text(costs.steps, costs.gpu))
    return Sheet.of(f"phases_gpu{costs.gpu}", title, columns, costs.phases, foot=foot)


def between_sheet(costs: PhaseCosts) -> Sheet:
    """Idle time and other work by the phases around them."""
    idle, other, whole = costs.idle_ns, costs.other_ns, costs.whole_ns
    total: dict[str, Cell] = {
        "from": TOTAL,
        "to": "",
        "idle_per_step_ns": _per_step(costs, idle),
        "other_per_step_ns": _per_step(costs, other),
        "share_percent": percent(idle + other, whole),
        "idle_ns": idle,
        "other_ns": other,
    }

    def cause(place: BetweenPhases) -> Term | None:
        return None if place.largest_cause is None else line_term(Line.of_cause(place.largest_cause))

    def per_step(key: str, name: Message, time: str) -> Column:
        return Column(key, name, Unit.MEAN_NS, lambda place: _per_step(costs, getattr(place, time)))

    columns = (
        Column("from", say("From"), Unit.TEXT, lambda place: place.before or BEGIN),
        Column("to", say("To"), Unit.TEXT, lambda place: INSIDE if place.inside else place.after or END),
        Column("times", say("Times"), Unit.COUNT, detail=1),
        per_step("idle_per_step_ns", say("Idle"), "idle_ns"),
        per_step("other_per_step_ns", say("Other work"), "other_ns"),
        share_column("share_percent", say("Share"), lambda place: place.idle_ns + place.other_ns, whole),
        Column("cause", say("Largest cause"), Unit.TEXT, cause),
        Column("idle_ns", say("Idle, all steps"), Unit.NS, detail=3),
        Column("other_ns", say("Other work, all steps"), Unit.NS, detail=3),
    )
    title = say("Inside and between phases, {whole}", whole=stretch_text(costs.steps, costs.gpu))
    return Sheet.of(f"phase_gaps_gpu{costs.gpu}", title, columns, costs.between, foot=(total,))


def layers_sheet(costs: PhaseCosts) -> Sheet:
    """A row per layer: its phases, and the idle time and the other work before each of them, which sum to the last."""
    layers = () if isinstance(costs.layers, NotMeasured) else costs.layers
    count = len(costs.phases)

    def times(name: str, busy: Sequence[int], idle: int, other: int) -> tuple[str, tuple[int, ...]]:
        return name, (*busy, idle, other, sum(busy) + idle + other)

    def time_column(key: str, name: str, place: int, detail: int = 0) -> Column:
        return Column(key, name, Unit.MEAN_NS, lambda layer: _per_step(costs, layer[1][place]), detail)

    return Sheet.of(
        f"phase_layers_gpu{costs.gpu}",
        say("Phases by layer, {whole}", whole=stretch_text(costs.steps, costs.gpu)),
        (
            Column("layer", say("Layer"), Unit.TEXT, lambda layer: layer[0]),
            *(time_column(f"{cost.phase}_ns", cost.phase, place) for place, cost in enumerate(costs.phases)),
            time_column("idle_ns", say("Idle"), count),
            time_column("other_ns", say("Other work"), count + 1, detail=1),
            time_column("length_ns", say("Whole"), count + 2),
            share_column("share_percent", say("Share"), lambda layer: layer[1][-1], costs.whole_ns, detail=2),
        ),
        [
            times(_NO_LAYER if layer.layer is None else str(layer.layer), layer.busy_ns, layer.idle_ns, layer.other_ns)
            for layer in layers
        ],
        foot=(times(TOTAL, [cost.busy_ns for cost in costs.phases], costs.idle_ns, costs.other_ns),),
    )


def waits_sheet(costs: PhaseCosts, waits: Sequence[PhaseWait]) -> Sheet:
    """Waiting for other ranks against moving data."""
    columns = (
        Column("phase", say("Phase"), Unit.TEXT, lambda wait: wait.phase or OTHER_WORK),
        Column("layer", say("Layer"), Unit.TEXT, _layer_text),
        Column("seen", say("Collectives"), Unit.COUNT),
        Column("matched", say("Matched"), Unit.COUNT),
        Column("running_ns", say("Running"), Unit.NS),
        Column("wait_ns", say("Waiting"), Unit.NS),
        Column("transfer_ns", say("Transfer"), Unit.NS),
        share_column("wait_percent", say("of it waiting"), "wait_ns", "running_ns"),
    )
    title = say("Waiting for other ranks vs transfer, all steady steps, GPU {gpu}", gpu=costs.gpu)
    return Sheet.of(f"phase_waits_gpu{costs.gpu}", title, columns, waits)


def _layer_text(wait: PhaseWait) -> str:
    return _ALL_LAYERS if wait.layer is None else str(wait.layer)


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
    where = say("between {before} and {after}", before=worst.before or BEGIN, after=worst.after or END)
    if worst.inside:
        where = say("inside {phase}", phase=worst.before)
    time = time_text(round(_per_step(costs, worst.idle_ns)))
    return say("{told}, mostly {where} ({time}).", told=told, where=where, time=time)

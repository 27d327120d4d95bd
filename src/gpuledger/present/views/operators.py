"""What operators cost on one GPU: sentences, and tables by name, by inputs with rates, and inside graphs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from gpuledger.analyse.operators.costs import OperatorCosts
from gpuledger.analyse.operators.graph_places import MODULE
from gpuledger.catalog.kernel_names import label
from gpuledger.messages import Message, joined, say
from gpuledger.present.sheet import Cell, Column, Sheet, Unit, percent, share_column
from gpuledger.present.views.light import lit_columns
from gpuledger.present.views.program_time import NAMED, names_with_shares
from gpuledger.present.views.tables import TableAnswer
from gpuledger.present.views.words import Sentences, none_sentence, steady_title, step_time_text
from gpuledger.trace.model import NotMeasured
from gpuledger.units import count_text, share_text

if TYPE_CHECKING:
    from gpuledger.analyse.operators.arithmetic import Inputs, OperatorWork
    from gpuledger.analyse.operators.costs import HostCost
    from gpuledger.answers.one_gpu import OperatorsAnswer

MOST_SHAPES: Final = 50
MOST_PLACES: Final = 50

_INSIDE: Final = " > "

_FEW_ROWS: Final = 0.1
"""Of the GPU time: from here on, products of few rows are worth a sentence."""

_FAR: Final = 0.5
"""Of its roof: a product that reaches less is far from it."""

_HIDDEN: Final = 0.5
"""Of the rows at which arithmetic takes as long as the bytes: up to here it hides behind them (H200: 64 rows take a
tenth longer than 16)."""


def operators_tables(answer: OperatorsAnswer) -> TableAnswer:
    """Host and GPU time by operator; for people, each figure has its unit beside it."""
    return TableAnswer(
        operator_sentences(answer), tuple(ops_sheets(answer)), tuple(ops_sheets(answer, with_units=True))
    )


def operator_sentences(answer: OperatorsAnswer) -> Sentences:
    """Which operators take the most GPU time, and how much of its peak the GPU gives."""
    costs, device = answer.costs, answer.device
    operators, graphs, mfu = costs.operators, costs.graphs, costs.work.mfu
    if 2 * graphs.named_ns > operators.device_ns or (not operators.by_name and graphs.named_ns):
        innermost: Counter[str] = Counter()
        for work in graphs.work:
            if work.path:
                innermost[work.path[-1]] += work.device_ns
        largest = sorted(innermost.items(), key=lambda named: (-named[1], named[0]))[:NAMED]
        return (
            say(
                "GPU {gpu}: inside graphs, operators with the most GPU self time: {largest}, of {time}.",
                gpu=costs.gpu,
                largest=names_with_shares(largest, graphs.device_ns),
                time=step_time_text(device, graphs.device_ns),
            ),
        )
    if not operators.by_name:
        return (
            say("GPU {gpu}: no operators were recorded.", gpu=costs.gpu),
            say("Fix: record with `gpuledger capture torch`; `gpuledger ranges` has what NVTX marks."),
        )
    if not operators.device_ns:
        return (none_sentence(device, say("GPU work")),)
    first = [(group.name, group.device_self_ns) for group in operators.by_name[:NAMED] if group.device_self_ns]
    sentences = (
        say(
            "GPU {gpu}: operators with the most GPU self time: {largest}, of {time}.",
            gpu=costs.gpu,
            largest=names_with_shares(first, operators.device_ns),
            time=step_time_text(device, operators.device_ns),
        ),
        *_few_rows(costs),
    )
    if isinstance(mfu, NotMeasured) or mfu is None:
        return sentences
    peak = {"share": share_text(mfu), "gpu": costs.work.gpu}
    if costs.work.is_bound:
        return *sentences, say("MFU at most {share} of the dense peak of {gpu}.", **peak)
    return *sentences, say("MFU {share} of the dense peak of {gpu}.", **peak)


def _few_rows(costs: OperatorCosts) -> Sentences:
    """What matrix products with few rows are bound by, where they matter: no saving, but more work in the same time."""
    bound = [work for work in costs.work.work if work.rows and work.is_memory_bound and work.device_ns]
    time_ns = sum(work.device_ns for work in bound)
    if time_ns < _FEW_ROWS * costs.operators.device_ns:
        return ()
    largest = max(bound, key=lambda work: work.device_ns)
    hidden = int(_HIDDEN * largest.rows * (largest.memory_ns or 0.0) / (largest.compute_ns or 1.0))
    leading = 10 ** (len(str(hidden)) - 1)  # what is known of a roof is no more than one digit
    free = say(
        "{share} of the GPU time is in matrix products of few rows ({rows} in the largest), bound by reading their "
        "weights: they run at {roof} of the memory bandwidth. Up to about {free} rows take hardly longer, so a larger "
        "batch gives more tokens per second; quantized weights are fewer bytes to read.",
        share=share_text(time_ns / costs.operators.device_ns),
        rows=count_text(largest.rows),
        roof=share_text(min(sum(work.memory_ns or 0.0 for work in bound) / time_ns, 1.0)),
        free=count_text(hidden // leading * leading),
    )
    far = [work for work in bound if (work.roof_share or 1.0) < _FAR]
    if sum(work.device_ns for work in far) < _FEW_ROWS * costs.operators.device_ns:
        return (free,)
    farthest = max(far, key=lambda work: work.device_ns)
    return (
        free,
        say(
            "{name} with {rows} rows is far from it, at {share}: split-K, stream-K or a smaller tile keeps more reads "
            "in flight.",
            name=farthest.name,
            rows=count_text(farthest.rows),
            share=share_text(farthest.roof_share or 0.0),
        ),
    )


def ops_sheets(answer: OperatorsAnswer, *, with_units: bool = False) -> list[Sheet]:
    """All tables about operators, over the steady steps. Without operators in the profile, those are without rows.

    For people, `with_units`, each figure has its unit beside it.
    """
    sheets = [
        _figures_sheet(answer.costs, with_units=with_units),
        _operators_sheet(answer.costs),
        _shapes_sheet(answer),
        _host_sheet(answer.costs),
        _graphs_sheet(answer.costs, for_people=with_units),
    ]
    costs, launched = answer.costs, answer.costs.operators.attributed_share
    return [
        replace(
            sheet,
            name=f"{sheet.name}_gpu{costs.gpu}",
            title=steady_title(answer.device, sheet.title),
            why_empty=launched.reason if sheet.name.startswith("ops") and isinstance(launched, NotMeasured) else "",
        )
        for sheet in sheets
    ]


def _figures_sheet(costs: OperatorCosts, *, with_units: bool) -> Sheet:
    """How much of the GPU's time operators explain, and how much of its peak they give: name, value, unit and note."""

    def with_unit(row: tuple[Message, float | None, str, str]) -> str:
        _, value, unit, _ = row
        return "" if value is None else f"{value:,.1f} {unit}"

    columns = (
        Column("figure", say("Figure"), Unit.TEXT, lambda row: row[0]),
        *(
            (Column("value", say("Value"), Unit.FIGURE, with_unit),)
            if with_units
            else (
                Column("value", say("Value"), Unit.RATIO, lambda row: row[1]),
                Column("unit", say("Unit"), Unit.TEXT, lambda row: row[2]),
            )
        ),
        Column("note", "", Unit.TEXT, lambda row: row[3]),
    )
    return Sheet.of("ops_figures", say("Coverage and GPU utilization"), columns, _figures(costs))


def _figures(costs: OperatorCosts) -> list[tuple[Message, float | None, str, str]]:
    def share(name: Message, value: float | NotMeasured | None, note: str = "") -> None:
        figures.append((name, percent(value), "%", value.reason if isinstance(value, NotMeasured) else note))

    figures: list[tuple[Message, float | None, str, str]] = []
    operators, work, graphs = costs.operators, costs.work, costs.graphs
    share(say("GPU time launched in an operator"), operators.attributed_share)
    share(say("GPU time launched in an annotation"), operators.annotated_share)
    if graphs.launches:
        inside = graphs.device_ns / operators.device_ns if operators.device_ns else None
        share(say("GPU time inside graphs"), inside)
        share(say("of which with a place in the program"), graphs.named_share)
    if work.work:
        note = say("upper bound: attention counted in full, or a convolution's stride unknown") if work.is_bound else ""
        figures.append((say("FLOPs counted per step"), work.flops / 1e9 / costs.steps, "GFLOP", note))
        share(say("matrix kernels' time in counted operators"), work.coverage)
    peak = (
        say("at most; dense peak of {gpu}", gpu=work.gpu) if work.is_bound else say("dense peak of {gpu}", gpu=work.gpu)
    )
    share(say("MFU: time at peak / time taken"), work.mfu, peak)
    if work.without_peak_share and not isinstance(work.mfu, NotMeasured):
        share(say("work left out, peak unknown"), work.without_peak_share)
    return figures


def _operators_sheet(costs: OperatorCosts) -> Sheet:
    operators = costs.operators
    rest_ns = operators.device_ns - operators.attributed_ns
    rest: dict[str, Cell] = {
        "name": say("(in no operator)"),
        "device_ns": rest_ns,
        "device_self_ns": rest_ns,
        "device_self_percent": percent(rest_ns, operators.device_ns),
    }
    columns = (
        Column("name", say("Operator"), Unit.TEXT),
        Column("count", say("Count"), Unit.COUNT),
        Column("per_step", say("Per step"), Unit.MEAN, lambda group: group.count / costs.steps, detail=3),
        Column("host_ns", say("Host"), Unit.NS, detail=1),
        Column("host_self_ns", say("Host, self"), Unit.NS),
        Column("device_ns", "GPU", Unit.NS, detail=1),
        Column("device_self_ns", say("GPU, self"), Unit.NS),
        share_column("device_self_percent", say("GPU, self"), "device_self_ns", operators.device_ns),
        Column("kernels", say("Kernels"), Unit.COUNT, detail=4),
        Column("launches", say("Launches"), Unit.COUNT, detail=5),
        *lit_columns(lambda group: costs.lit.get(group.name), costs.lit.values(), operators.device_ns, costs.steps, 2),
    )
    return Sheet.of("ops", say("Operators"), columns, (*operators.by_name, rest) if operators.by_name else ())


def _shapes_sheet(answer: OperatorsAnswer) -> Sheet:
    whole_ns = answer.costs.operators.device_ns
    rated = [(shape, _rates(shape.work)) for shape in answer.shapes(MOST_SHAPES)]
    columns = (
        Column("name", say("Operator"), Unit.TEXT, lambda row: row[0].costs.name),
        Column("shapes", say("Inputs"), Unit.TEXT, lambda row: shapes_text(row[0].inputs)),
        Column("types", say("Types"), Unit.TEXT, lambda row: types_text(row[0].inputs), detail=3),
        Column("count", say("Count"), Unit.COUNT, lambda row: row[0].costs.count),
        Column("host_self_ns", say("Host, self"), Unit.NS, lambda row: row[0].costs.host_self_ns, detail=4),
        Column("device_self_ns", say("GPU, self"), Unit.NS, lambda row: row[0].costs.device_self_ns),
        share_column(
            "device_self_percent", say("GPU, self"), lambda row: row[0].costs.device_self_ns, whole_ns, detail=1
        ),
        Column("flops", "FLOPs", Unit.COUNT, lambda row: row[1].get("flops"), detail=5),
        Column("computed_in", say("Computed in"), Unit.TEXT, lambda row: row[1].get("computed_in"), detail=2),
        Column("tflops_per_s", "TFLOP/s", Unit.MEAN, lambda row: row[1].get("tflops_per_s")),
        Column("peak_percent", say("Of peak"), Unit.SHARE_PERCENT, lambda row: row[1].get("peak_percent"), 1),
        Column("roof", say("Roof"), Unit.TEXT, lambda row: row[1].get("roof")),
        Column("roof_percent", say("Of its roof"), Unit.SHARE_PERCENT, lambda row: row[1].get("roof_percent")),
        Column("note", "", Unit.TEXT, lambda row: row[1].get("note"), detail=2),
    )
    title = say("Operators by inputs, top {count} by GPU time", count=MOST_SHAPES)
    return Sheet.of("ops_by_shape", title, columns, rated)


def _rates(work: OperatorWork | None) -> dict[str, Cell]:
    """How fast counted work was done, by column; nothing where it was not counted."""
    if work is None:
        return {}
    of_roof = work.roof_share
    notes: list[str] = [say("at most")] if work.is_bound else []
    notes += [say("partly from the caches")] if of_roof is not None and of_roof > 1 else []
    notes += [work.peak.reason] if isinstance(work.peak, NotMeasured) else []
    return {
        "flops": work.flops,
        "computed_in": work.kind,
        "tflops_per_s": None if work.flops_per_s is None else work.flops_per_s / 1e12,
        "peak_percent": percent(work.peak_share),
        "roof": None if of_roof is None else say("memory") if work.is_memory_bound else say("compute"),
        "roof_percent": percent(of_roof),
        "note": joined(say("; "), notes),
    }


def shapes_text(given: Inputs) -> str:
    """Shapes for people: `512x2048, 2048x3072`; what is no tensor is left out."""
    return ", ".join("x".join(map(str, shape)) for shape in given.shapes if shape)


def types_text(given: Inputs) -> str:
    """The types of the tensors, each once, in order."""
    kinds = [given.kind(position) for position, shape in enumerate(given.shapes) if shape]
    return ", ".join(dict.fromkeys(kind for kind in kinds if kind))


def _host_sheet(costs: OperatorCosts) -> Sheet:
    def device_ns(cost: HostCost) -> float | None:
        return None if cost.device_ns is None else cost.device_ns / costs.steps

    columns = (
        Column("kind", say("Kind"), Unit.TEXT, "kind.value"),
        Column("name", say("Name"), Unit.TEXT, shorten=label),
        Column("where", say("Where"), Unit.TEXT, "place", detail=1),
        Column("count", say("Count"), Unit.COUNT, detail=2),
        Column("per_step", say("Per step"), Unit.MEAN, lambda cost: cost.count / costs.steps, detail=3),
        Column("host_ns_per_step", say("Host per step"), Unit.NS, lambda cost: cost.host_ns / costs.steps),
        Column("device_ns_per_step", say("GPU per step"), Unit.NS, device_ns),
    )
    return Sheet.of("host_against_device", say("Host vs device"), columns, costs.host)


def _innermost(place: str) -> str:
    """The inner modules and the operator, of a place too long to show whole: `Mlp_# > Linear_# > aten::mm`."""
    names = place.split(_INSIDE)
    modules = [name.removeprefix(MODULE) for name in names if name.startswith(MODULE)]
    return _INSIDE.join((*modules[-2:], names[-1])) if modules else _INSIDE.join(names[-2:])


def _graphs_sheet(costs: OperatorCosts, *, for_people: bool) -> Sheet:
    """The places inside graphs with the most GPU time, the others in one row.

    For people equal layers together, and without the column of lines of code where none is known.
    """
    work = costs.graphs.layers_together if for_people else costs.graphs.work
    rest = work[MOST_PLACES:]
    count, device_ns = sum(place.count for place in rest), sum(place.device_ns for place in rest)
    more: dict[str, Cell] = {
        "place": say("({count} more)", count=len(rest)),
        "count": count,
        "per_step": count / costs.steps,
        "device_ns": device_ns,
        "device_percent": percent(device_ns, costs.graphs.device_ns),
    }
    columns: tuple[Column, ...] = (
        Column(
            "place",
            say("Place"),
            Unit.TEXT,
            lambda place: joined(_INSIDE, place.path or (say("(unknown)"),)),
            shorten=_innermost,
        ),
        Column("known_by", say("How known"), Unit.TEXT, "source", detail=1),
        Column("where", say("Where"), Unit.TEXT, detail=3),
        Column("count", say("Executions"), Unit.COUNT),
        Column("per_step", say("Per step"), Unit.MEAN, lambda place: place.count / costs.steps, detail=2),
        Column("device_ns", "GPU", Unit.NS, detail=1),
        share_column("device_percent", "GPU", "device_ns", costs.graphs.device_ns),
    )
    if for_people and not any(place.where for place in costs.graphs.work):
        columns = tuple(column for column in columns if column.key != "where")
    return Sheet.of("graph_work", say("Work inside graphs"), columns, (*work[:MOST_PLACES], *((more,) if rest else ())))

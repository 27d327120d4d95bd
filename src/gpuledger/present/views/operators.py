"""Operators as tables: by GPU time, by inputs with rates, host against device, and the work inside graphs."""

from __future__ import annotations

from typing import Final

from gpuledger.analyse.operators.arithmetic import Inputs, OperatorWork, parse_inputs
from gpuledger.analyse.operators.costs import OperatorCosts
from gpuledger.analyse.operators.graph_places import MODULE
from gpuledger.catalog.kernel_names import label
from gpuledger.messages import joined, say
from gpuledger.present.digits import percent
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.trace.model import NotMeasured

MOST_SHAPES: Final = 50
MOST_PLACES: Final = 50

_INSIDE: Final = " > "


def _innermost(place: str) -> str:
    """The inner modules and the operator, of a place too long to show whole: `Mlp_# > Linear_# > aten::mm`."""
    names = place.split(_INSIDE)
    modules = [name.removeprefix(MODULE) for name in names if name.startswith(MODULE)]
    return _INSIDE.join((*modules[-2:], names[-1])) if modules else _INSIDE.join(names[-2:])


_COUNT = Column("count", say("Count"), Unit.COUNT)
_OPERATORS = (
    Column("name", say("Operator"), Unit.TEXT),
    _COUNT,
    Column("per_step", say("Per step"), Unit.MEAN, detail=2),
    Column("host_ns", say("Host"), Unit.NS, detail=1),
    Column("host_self_ns", say("Host, self"), Unit.NS),
    Column("device_ns", "GPU", Unit.NS, detail=1),
    Column("device_self_ns", say("GPU, self"), Unit.NS),
    Column("device_self_percent", say("GPU, self"), Unit.SHARE_PERCENT),
    Column("kernels", say("Kernels"), Unit.COUNT, detail=3),
    Column("launches", say("Launches"), Unit.COUNT, detail=4),
)
_SHAPES = (
    Column("name", say("Operator"), Unit.TEXT),
    Column("shapes", say("Inputs"), Unit.TEXT),
    Column("types", say("Types"), Unit.TEXT, detail=3),
    _COUNT,
    Column("host_self_ns", say("Host, self"), Unit.NS, detail=4),
    Column("device_self_ns", say("GPU, self"), Unit.NS),
    Column("device_self_percent", say("GPU, self"), Unit.SHARE_PERCENT, detail=1),
    Column("flops", "FLOPs", Unit.COUNT, detail=5),
    Column("computed_in", say("Computed in"), Unit.TEXT, detail=2),
    Column("tflops_per_s", "TFLOP/s", Unit.MEAN),
    Column("peak_percent", say("Of peak"), Unit.SHARE_PERCENT, detail=1),
    Column("roof", say("Roof"), Unit.TEXT),
    Column("roof_percent", say("Of its roof"), Unit.SHARE_PERCENT),
    Column("note", "", Unit.TEXT, detail=2),
)
_AGAINST = (
    Column("kind", say("Kind"), Unit.TEXT),
    Column("name", say("Name"), Unit.TEXT, shorten=label),
    Column("where", say("Where"), Unit.TEXT, detail=1),
    Column("count", say("Count"), Unit.COUNT, detail=2),
    Column("per_step", say("Per step"), Unit.MEAN, detail=3),
    Column("host_ns_per_step", say("Host per step"), Unit.NS),
    Column("device_ns_per_step", say("GPU per step"), Unit.NS),
)
_FIGURES = (
    Column("figure", say("Figure"), Unit.TEXT),
    Column("value", say("Value"), Unit.RATIO),
    Column("unit", say("Unit"), Unit.TEXT),
    Column("note", "", Unit.TEXT),
)
_FIGURES_WITH_UNITS = (_FIGURES[0], Column("value", say("Value"), Unit.FIGURE), _FIGURES[3])
_GRAPHS = (
    Column("place", say("Place"), Unit.TEXT, shorten=_innermost),
    Column("known_by", say("How known"), Unit.TEXT, detail=1),
    Column("where", say("Where"), Unit.TEXT, detail=3),
    Column("count", say("Executions"), Unit.COUNT),
    Column("per_step", say("Per step"), Unit.MEAN, detail=2),
    Column("device_ns", "GPU", Unit.NS, detail=1),
    Column("device_percent", "GPU", Unit.SHARE_PERCENT),
)


def ops_sheets(costs: OperatorCosts, *, with_units: bool = False) -> list[Sheet]:
    """All tables about operators, over the steady steps. Without operators in the profile, those are without rows.

    For people, `with_units`, each figure has its unit beside it.
    """
    figures = [_with_unit(row) for row in _figures(costs)] if with_units else _figures(costs)
    columns = _FIGURES_WITH_UNITS if with_units else _FIGURES
    return [
        _sheet(costs, "ops_figures", say("Coverage and GPU utilization"), columns, figures),
        _sheet(costs, "ops", say("Operators"), _OPERATORS, _by_name(costs)),
        _sheet(
            costs,
            "ops_by_shape",
            say("Operators by inputs, top {count} by GPU time", count=MOST_SHAPES),
            _SHAPES,
            _by_shape(costs),
        ),
        _sheet(costs, "host_against_device", say("Host vs device"), _AGAINST, _against(costs)),
        _sheet(costs, "graph_work", say("Work inside graphs"), *_graph_columns(costs, for_people=with_units)),
    ]


def _graph_columns(costs: OperatorCosts, *, for_people: bool) -> tuple[tuple[Column, ...], list[tuple[Cell, ...]]]:
    """The work inside graphs; for people without the column of lines of code where none is known."""
    rows = _in_graphs(costs, for_people=for_people)
    if not for_people or any(work.where for work in costs.graphs.work):
        return _GRAPHS, rows
    at = [column.key for column in _GRAPHS].index("where")
    return (*_GRAPHS[:at], *_GRAPHS[at + 1 :]), [(*row[:at], *row[at + 1 :]) for row in rows]


def _sheet(
    costs: OperatorCosts, name: str, title: str, columns: tuple[Column, ...], rows: list[tuple[Cell, ...]]
) -> Sheet:
    launched = costs.operators.attributed_share
    return Sheet(
        f"{name}_gpu{costs.gpu}",
        say("{title}, steady steps, GPU {gpu}", title=title, gpu=costs.gpu),
        columns,
        tuple(rows),
        why_empty=launched.reason if name.startswith("ops") and isinstance(launched, NotMeasured) else "",
    )


def _share_cells(share: float | NotMeasured | None) -> tuple[float | None, str, str]:
    """Value, unit and note of a share."""
    if isinstance(share, NotMeasured):
        return None, "%", share.reason
    return None if share is None else 100 * share, "%", ""


def _figures(costs: OperatorCosts) -> list[tuple[Cell, ...]]:
    operators, work, graphs = costs.operators, costs.work, costs.graphs
    rows: list[tuple[Cell, ...]] = [
        (say("GPU time launched in an operator"), *_share_cells(operators.attributed_share)),
        (say("GPU time launched in an annotation"), *_share_cells(operators.annotated_share)),
    ]
    if graphs.launches:
        inside = graphs.device_ns / operators.device_ns if operators.device_ns else None
        rows += [
            (say("GPU time inside graphs"), *_share_cells(inside)),
            (say("of which with a place in the program"), *_share_cells(graphs.named_share)),
        ]
    if work.work:
        note = say("upper bound: attention counted in full, or a convolution's stride unknown") if work.is_bound else ""
        rows.append((say("FLOPs counted per step"), work.flops / 1e9 / costs.steps, "GFLOP", note))
        rows.append((say("matrix kernels' time in counted operators"), *_share_cells(work.coverage)))
    value, unit, reason = _share_cells(work.mfu)
    against = (
        say("at most; dense peak of {gpu}", gpu=work.gpu) if work.is_bound else say("dense peak of {gpu}", gpu=work.gpu)
    )
    rows.append((say("MFU: time at peak / time taken"), value, unit, reason or against))
    if work.without_peak_share and not isinstance(work.mfu, NotMeasured):
        rows.append((say("work left out, peak unknown"), *_share_cells(work.without_peak_share)))
    return rows


def _with_unit(row: tuple[Cell, ...]) -> tuple[Cell, ...]:
    figure, value, unit, *note = row
    return figure, f"{value:,.1f} {unit}" if isinstance(value, int | float) else "", *note


def _by_name(costs: OperatorCosts) -> list[tuple[Cell, ...]]:
    operators = costs.operators
    if not operators.by_name:
        return []
    rows: list[tuple[Cell, ...]] = [
        (
            group.name,
            group.count,
            group.count / costs.steps,
            group.host_ns,
            group.host_self_ns,
            group.device_ns,
            group.device_self_ns,
            percent(group.device_self_ns, operators.device_ns),
            group.kernels,
            group.launches,
        )
        for group in operators.by_name
    ]
    rest = operators.device_ns - operators.attributed_ns
    share = percent(rest, operators.device_ns)
    rows.append((say("(in no operator)"), None, None, None, None, rest, rest, share, None, None))
    return rows


def _by_shape(costs: OperatorCosts) -> list[tuple[Cell, ...]]:
    """None where no inputs were recorded at all."""
    operators = costs.operators
    if all(group.inputs is None for group in operators.by_inputs):
        return []
    counted = {(work.name, work.inputs): work for work in costs.work.work}
    shown = [group for group in operators.by_inputs if group.device_self_ns or (group.name, group.inputs) in counted]
    rows: list[tuple[Cell, ...]] = []
    for group in shown[:MOST_SHAPES]:
        given = parse_inputs(group.inputs) or Inputs((), ())
        rows.append(
            (
                group.name,
                shapes_text(given),
                types_text(given),
                group.count,
                group.host_self_ns,
                group.device_self_ns,
                percent(group.device_self_ns, operators.device_ns),
                *_rates(counted.get((group.name, group.inputs or ""))),
            )
        )
    return rows


def _rates(work: OperatorWork | None) -> tuple[Cell, ...]:
    if work is None:
        return (None,) * 7
    rate, share, of_roof = work.flops_per_s, work.peak_share, work.roof_share
    notes: list[str] = [say("at most")] if work.is_bound else []
    notes += [say("partly from the caches")] if of_roof is not None and of_roof > 1 else []
    notes += [work.peak.reason] if isinstance(work.peak, NotMeasured) else []
    tera = None if rate is None else rate / 1e12
    roof = None if of_roof is None else say("memory") if work.is_memory_bound else say("compute")
    shares = (None if part is None else 100 * part for part in (share, of_roof))
    of_peak, of_its_roof = shares
    return (work.flops, work.kind, tera, of_peak, roof, of_its_roof, joined(say("; "), notes))


def shapes_text(given: Inputs) -> str:
    """Shapes for people: `512x2048, 2048x3072`; what is no tensor is left out."""
    return ", ".join("x".join(map(str, shape)) for shape in given.shapes if shape)


def types_text(given: Inputs) -> str:
    """The types of the tensors, each once, in order."""
    kinds = [given.kind(position) for position, shape in enumerate(given.shapes) if shape]
    return ", ".join(dict.fromkeys(kind for kind in kinds if kind))


def _against(costs: OperatorCosts) -> list[tuple[Cell, ...]]:
    return [
        (
            cost.kind.value,
            cost.name,
            cost.place,
            cost.count,
            cost.count / costs.steps,
            cost.host_ns / costs.steps,
            None if cost.device_ns is None else cost.device_ns / costs.steps,
        )
        for cost in costs.host
    ]


def _in_graphs(costs: OperatorCosts, *, for_people: bool) -> list[tuple[Cell, ...]]:
    """The places with the most GPU time, the others in one row; for people equal layers together."""
    work = costs.graphs.layers_together if for_people else costs.graphs.work
    shown, rest = work[:MOST_PLACES], work[MOST_PLACES:]
    places = [
        (joined(_INSIDE, work.path or (say("(unknown)"),)), work.source, work.where, work.count, work.device_ns)
        for work in shown
    ]
    if rest:
        sums = sum(work.count for work in rest), sum(work.device_ns for work in rest)
        places.append((say("({count} more)", count=len(rest)), None, None, *sums))
    return [
        (place, source, where, count, count / costs.steps, device_ns, percent(device_ns, costs.graphs.device_ns))
        for place, source, where, count, device_ns in places
    ]

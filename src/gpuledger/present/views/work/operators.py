"""What operators cost: sentences, and tables by name, by inputs with rates, on the host, and inside graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final

from msgspec.structs import replace

from gpuledger.analyse.light.books import SOURCES
from gpuledger.analyse.light.operator_costs import HostCostKind, OperatorCosts
from gpuledger.analyse.operators.arithmetic import Inputs, OperatorWork, parse_inputs
from gpuledger.analyse.operators.graph_places import MODULE, of_any_layer
from gpuledger.catalog.kernel_names import label
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, say
from gpuledger.present.row_sheets import known, row_from, row_sheet
from gpuledger.present.sheet import Sheet
from gpuledger.present.views.answer import Answer, health_rows, note_sentences, reasons
from gpuledger.present.views.words import NAMED, names_with_shares, none_sentence, step_time_text
from gpuledger.rows import Gpu, Label, Row, Unit, share
from gpuledger.trace.model import Names, NotMeasured, Trace
from gpuledger.units import count_text, share_text

MOST_SHAPES: Final = 50
MOST_PLACES: Final = 50

_FEW_ROWS: Final = 0.1
"""Of the GPU time: from here on, products of few rows are worth a sentence."""

_FAR: Final = 0.5
"""Of its roof: a product that reaches less is far from it."""

_HIDDEN: Final = 0.5
"""Of the rows at which arithmetic takes as long as the bytes: up to here it hides behind them (H200: 64 rows take a
tenth longer than 16)."""

Sentences = tuple[Message, ...]

_INSIDE: Final = Label("").separator


class CoverageRow(Row, frozen=True):
    """How much of one GPU's time operators explain, and how much of its peak they give."""

    gpu: Gpu
    operator_share: Annotated[float | None, Label(say("In operators"), Unit.SHARE, meaning="GPU time launched there")]
    annotation_share: Annotated[
        float | None, Label(say("In annotations"), Unit.SHARE, detail=2, meaning="GPU time launched there")
    ]
    graph_share: Annotated[float | None, Label(say("In graphs"), Unit.SHARE, meaning="null: no graph was launched")]
    graph_named_share: Annotated[
        float | None,
        Label(say("of it named"), Unit.SHARE, detail=1, meaning="with a place in the program"),
    ]
    flops: Annotated[int | None, Label("FLOPs", Unit.COUNT, detail=3, meaning="of the counted operators")]
    counted_share: Annotated[
        float | None, Label(say("Counted"), Unit.SHARE, detail=3, meaning="matrix kernels' time in counted operators")
    ]
    mfu: Annotated[float | None, Label("MFU", Unit.SHARE, meaning="time at the dense peak, of the time taken")]
    is_upper_bound: Annotated[
        bool, Label(say("at most"), detail=2, meaning="attention counted in full, or a stride unknown")
    ]
    without_peak_share: Annotated[
        float | None, Label(say("Peak unknown"), Unit.SHARE, detail=4, meaning="FLOPs that MFU leaves out")
    ]
    model: Annotated[str, Label(say("GPU model"), detail=1)]


class OperatorRow(Row, frozen=True):
    """The operators of one name; or, without a name, what was launched in none."""

    gpu: Gpu
    name: Annotated[str | None, Label(say("Operator"), unknown=say("(in no operator)"), meaning="null: in none")]
    count: Annotated[int | None, Label(say("Count"), Unit.COUNT)]
    per_step: Annotated[float | None, Label(say("Per step"), Unit.MEAN, detail=3)]
    host_ns: Annotated[int | None, Label(say("Host"), Unit.NS, detail=2)]
    host_self_ns: Annotated[int | None, Label(say("Host, self"), Unit.NS, meaning="without operators inside")]
    gpu_ns: Annotated[int, Label("GPU", Unit.NS, detail=1)]
    gpu_self_ns: Annotated[int, Label(say("GPU, self"), Unit.NS, meaning="without operators inside")]
    share: Annotated[float | None, Label(say("Share"), Unit.SHARE, meaning="of the GPU time, self")]
    kernels: Annotated[int | None, Label(say("Kernels"), Unit.COUNT, detail=4)]
    launches: Annotated[int | None, Label(say("Launches"), Unit.COUNT, detail=5, meaning="a graph is one")]
    light_share: Annotated[
        float | None, Label(say("Light"), Unit.SHARE, meaning="what the GPU's roofs allow, of the known time")
    ]
    beyond_light_ns: Annotated[
        int | None, Label(say("Beyond light"), Unit.NS, detail=3, meaning="what kernels take longer")
    ]
    light_source: Annotated[str | None, Label(say("Light known from"), detail=4)]


class OperatorShapeRow(Row, frozen=True):
    """The operators of one name and inputs, and how fast they are where their work can be counted."""

    gpu: Gpu
    name: Annotated[str, Label(say("Operator"))]
    shapes: Annotated[tuple[tuple[int, ...], ...], Label(say("Inputs"), separator=", ", meaning="of the tensors")]
    types: Annotated[tuple[str, ...], Label(say("Types"), detail=3, separator=", ", meaning="each once")]
    count: Annotated[int, Label(say("Count"), Unit.COUNT)]
    host_self_ns: Annotated[int, Label(say("Host, self"), Unit.NS, detail=4)]
    gpu_self_ns: Annotated[int, Label(say("GPU, self"), Unit.NS)]
    share: Annotated[float | None, Label(say("Share"), Unit.SHARE, detail=1, meaning="of the GPU time, self")]
    flops: Annotated[int | None, Label("FLOPs", Unit.COUNT, detail=5)]
    computed_in: Annotated[str | None, Label(say("Computed in"), detail=2)]
    tflops_per_s: Annotated[float | None, Label("TFLOP/s", Unit.MEAN)]
    peak_share: Annotated[float | None, Label(say("Of peak"), Unit.SHARE, detail=1)]
    roof: Annotated[str | None, Label(say("Roof"), meaning="memory or compute, whichever takes longer")]
    roof_share: Annotated[float | None, Label(say("Of its roof"), Unit.SHARE, meaning="over 1: partly from the caches")]
    is_upper_bound: Annotated[bool | None, Label(say("at most"), detail=2)]
    why_no_peak: Annotated[str | None, Label(say("Peak"), detail=2, meaning="why it is not known")]


class HostCostRow(Row, frozen=True):
    """One function, operator or kernel, on the host and on the GPU."""

    gpu: Gpu
    kind: Annotated[HostCostKind, Label(say("Kind"))]
    name: Annotated[str, Label(say("Name"), shorten=label)]
    where: Annotated[str | None, Label(say("Where"), detail=1, meaning="where a waiting call is made")]
    count: Annotated[int, Label(say("Count"), Unit.COUNT, detail=2)]
    per_step: Annotated[float | None, Label(say("Per step"), Unit.MEAN, detail=3)]
    host_ns: Annotated[int, Label(say("Host"), Unit.NS)]
    gpu_ns: Annotated[int | None, Label("GPU", Unit.NS, meaning="null: launches nothing")]


def _innermost(place: str) -> str:
    """The inner modules and the operator, of a place too long to show whole: `Mlp_# > Linear_# > aten::mm`."""
    names = place.split(_INSIDE)
    modules = [name.removeprefix(MODULE) for name in names if name.startswith(MODULE)]
    return _INSIDE.join((*modules[-2:], names[-1]) if modules else names[-2:])


class GraphWorkRow(Row, frozen=True):
    """What one place in the program does inside graphs."""

    gpu: Gpu
    path: Annotated[
        Names | None,
        Label(say("Place"), shorten=_innermost, unknown=say("(unknown)"), meaning="outermost first"),
    ]
    known_by: Annotated[str | None, Label(say("How known"), detail=1)]
    where: Annotated[str | None, Label(say("Where"), detail=3, meaning="the line of code")]
    count: Annotated[int, Label(say("Executions"), Unit.COUNT)]
    per_step: Annotated[float | None, Label(say("Per step"), Unit.MEAN, detail=2)]
    gpu_ns: Annotated[int, Label("GPU", Unit.NS)]
    share: Annotated[float | None, Label(say("Share"), Unit.SHARE, meaning="of the graphs' time")]


class OpsAnswer(Answer, frozen=True, kw_only=True, tag="gpuledger.ops/1"):
    """Operators over the steady steps, the most GPU time first."""

    has_steps: bool
    coverage: Annotated[tuple[CoverageRow, ...], Label(say("Coverage and GPU utilization"))]
    operators: Annotated[tuple[OperatorRow, ...], Label(say("Operators"))]
    by_shape: Annotated[
        tuple[OperatorShapeRow, ...], Label(say("Operators by inputs, top {count} by GPU time", count=MOST_SHAPES))
    ]
    host: Annotated[tuple[HostCostRow, ...], Label(say("Host vs device"))]
    graph_work: Annotated[tuple[GraphWorkRow, ...], Label(say("Work inside graphs"))]

    def title(self, table: str) -> str:
        title = super().title(table)
        return say("{title}, steady steps", title=title) if self.has_steps else title

    def sheet(self, table: str, *, is_exact: bool = False) -> Sheet:
        if table != "graph_work" or is_exact:
            return super().sheet(table, is_exact=is_exact)
        rows = layers_together(self.graph_work)
        shown = [
            row for gpu in dict.fromkeys(row.gpu for row in rows) for row in _few([r for r in rows if r.gpu == gpu])
        ]
        return row_sheet(table, self.title(table), GraphWorkRow, shown)


def ops_answer(name: str, trace: Trace, devices: Sequence[Device], all_costs: Sequence[OperatorCosts]) -> OpsAnswer:
    """What operators cost on every GPU."""
    of_all = list(zip(devices, all_costs, strict=True))
    recorded = [costs.operators.attributed_share for costs in all_costs]
    return OpsAnswer(
        profile=name,
        zero_ns=devices[0].zero_ns,
        sentences=(
            *(sentence for device, costs in of_all for sentence in operator_sentences(device, costs)),
            *note_sentences(trace.health),
        ),
        not_measured=reasons(operators=recorded, by_shape=recorded),
        health=health_rows(trace.health),
        has_steps=any(device.steps is not None for device in devices),
        coverage=tuple(map(_coverage_row, all_costs)),
        operators=tuple(row for device, costs in of_all for row in _operator_rows(device, costs)),
        by_shape=tuple(row for costs in all_costs for row in _shape_rows(costs)),
        host=tuple(
            row_from(
                HostCostRow,
                cost,
                gpu=costs.gpu,
                where=cost.place,
                per_step=_per_step(device, cost.count),
                gpu_ns=cost.device_ns,
            )
            for device, costs in of_all
            for cost in costs.host
        ),
        graph_work=tuple(
            row_from(
                GraphWorkRow,
                work,
                gpu=costs.gpu,
                known_by=work.source,
                per_step=_per_step(device, work.count),
                gpu_ns=work.device_ns,
                share=share(work.device_ns, costs.graphs.device_ns),
            )
            for device, costs in of_all
            for work in costs.graphs.work
        ),
    )


def _per_step(device: Device, count: int) -> float | None:
    return None if device.steps is None else count / device.step_count


def _coverage_row(costs: OperatorCosts) -> CoverageRow:
    operators, work, graphs = costs.operators, costs.work, costs.graphs
    return CoverageRow(
        gpu=costs.gpu,
        operator_share=known(operators.attributed_share),
        annotation_share=known(operators.annotated_share),
        graph_share=share(graphs.device_ns, operators.device_ns) if graphs.launches else None,
        graph_named_share=graphs.named_share,
        flops=work.flops if work.work else None,
        counted_share=work.coverage if work.work else None,
        mfu=known(work.mfu),
        is_upper_bound=work.is_bound,
        without_peak_share=work.without_peak_share or None,
        model=work.gpu,
    )


def _operator_rows(device: Device, costs: OperatorCosts) -> Iterator[OperatorRow]:
    operators = costs.operators
    for group in operators.by_name:
        lit = costs.lit.get(group.name)
        yield row_from(
            OperatorRow,
            group,
            gpu=costs.gpu,
            per_step=_per_step(device, group.count),
            gpu_ns=group.device_ns,
            gpu_self_ns=group.device_self_ns,
            share=share(group.device_self_ns, operators.device_ns),
            light_share=None if lit is None else lit.share,
            beyond_light_ns=None if lit is None else lit.beyond_ns,
            light_source=None if lit is None else SOURCES[lit.source],
        )
    rest_ns = operators.device_ns - operators.attributed_ns
    if operators.by_name:
        nothing: dict[str, Any] = dict.fromkeys(OperatorRow.__struct_fields__)
        of_rest = {"gpu_ns": rest_ns, "gpu_self_ns": rest_ns, "share": share(rest_ns, operators.device_ns)}
        yield OperatorRow(**{**nothing, "gpu": costs.gpu, **of_rest})


def _shape_rows(costs: OperatorCosts) -> Iterator[OperatorShapeRow]:
    """The first operators by inputs with GPU time or counted work; none where no inputs were recorded at all."""
    groups = costs.operators.by_inputs
    if all(group.inputs is None for group in groups):
        return
    counted = {(work.name, work.inputs): work for work in costs.work.work}
    chosen = [group for group in groups if group.device_self_ns or (group.name, group.inputs) in counted]
    for group in chosen[:MOST_SHAPES]:
        given = parse_inputs(group.inputs) or Inputs((), ())
        kinds = (given.kind(position) for position, shape in enumerate(given.shapes) if shape)
        work = counted.get((group.name, group.inputs or ""))
        yield OperatorShapeRow(
            gpu=costs.gpu,
            name=group.name,
            shapes=tuple(shape for shape in given.shapes if shape),
            types=tuple(dict.fromkeys(kind for kind in kinds if kind)),
            count=group.count,
            host_self_ns=group.host_self_ns,
            gpu_self_ns=group.device_self_ns,
            share=share(group.device_self_ns, costs.operators.device_ns),
            flops=None if work is None else work.flops,
            computed_in=None if work is None else work.kind,
            tflops_per_s=None if work is None or work.flops_per_s is None else work.flops_per_s / 1e12,
            peak_share=None if work is None else work.peak_share,
            roof=_roof(work),
            roof_share=None if work is None else work.roof_share,
            is_upper_bound=None if work is None else work.is_bound,
            why_no_peak=work.peak.reason if work is not None and isinstance(work.peak, NotMeasured) else None,
        )


def _roof(work: OperatorWork | None) -> Message | None:
    if work is None or work.roof_share is None:
        return None
    return say("memory") if work.is_memory_bound else say("compute")


def layers_together(rows: Sequence[GraphWorkRow]) -> list[GraphWorkRow]:
    """The same with equal layers as one: `Layer_3 > aten::mm` and `Layer_7 > aten::mm` are `Layer_# > aten::mm`.

    A place that is alone keeps its name; the line of code is that of most of the time.
    """
    alike: dict[tuple[int, Names | None], list[GraphWorkRow]] = {}
    for row in rows:
        alike.setdefault((row.gpu, row.path and tuple(map(of_any_layer, row.path))), []).append(row)
    together = (_summed(same, same[0].path if len(same) == 1 else path) for (_, path), same in alike.items())
    return sorted(together, key=lambda row: (row.gpu, -row.gpu_ns, row.path or ()))


def _few(rows: list[GraphWorkRow]) -> list[GraphWorkRow]:
    """The first, and one for the others."""
    rest = rows[MOST_PLACES:]
    more = (
        replace(_summed(rest, (say("({count} more)", count=len(rest)),)), known_by=None, where=None) if rest else None
    )
    return [*rows[:MOST_PLACES], *([more] if more else [])]


def _summed(rows: Sequence[GraphWorkRow], path: Names | None) -> GraphWorkRow:
    known = rows[0].per_step is not None
    return replace(
        rows[0],
        path=path,
        count=sum(row.count for row in rows),
        per_step=sum(row.per_step or 0 for row in rows) if known else None,
        gpu_ns=sum(row.gpu_ns for row in rows),
        share=None if rows[0].share is None else sum(row.share or 0 for row in rows),
    )


def operator_sentences(device: Device, costs: OperatorCosts) -> Sentences:
    """Which operators take the most GPU time, and how much of its peak the GPU gives."""
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
    if isinstance(mfu, NotMeasured):
        return (*sentences, say("MFU is not measured: {reason}.", reason=mfu.reason))
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

"""Operators as tables: by GPU time, by inputs with rates, host against device, and the work inside graphs."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from gpuledger.analyse.call_sites import place
from gpuledger.analyse.operators.arithmetic import Inputs, Work, WorkDone, parse_inputs, work_done
from gpuledger.analyse.operators.graph_names import GraphNames, graph_names
from gpuledger.analyse.operators.operators import Ops, Paths, ops
from gpuledger.catalog.call_kinds import CallKind, call_kind
from gpuledger.catalog.kernel_names import label
from gpuledger.ledger.activity import State
from gpuledger.ledger.calls import short_names, shortened
from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import innermost
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.model import Trace

MOST_SHAPES: Final = 50
MOST_PLACES: Final = 50

_COUNT = Column("count", "Count", Unit.COUNT)
_OPERATORS = (
    Column("name", "Operator", Unit.TEXT),
    _COUNT,
    Column("per_step", "A step", Unit.MEAN, detail=2),
    Column("host_ns", "Host", Unit.NS, detail=1),
    Column("host_self_ns", "Host, self", Unit.NS),
    Column("device_ns", "GPU", Unit.NS, detail=1),
    Column("device_self_ns", "GPU, self", Unit.NS),
    Column("device_self_percent", "GPU, self", Unit.SHARE_PERCENT),
    Column("kernels", "Kernels", Unit.COUNT, detail=3),
    Column("launches", "Launches", Unit.COUNT, detail=4),
)
_SHAPES = (
    Column("name", "Operator", Unit.TEXT),
    Column("shapes", "Inputs", Unit.TEXT),
    Column("types", "Types", Unit.TEXT, detail=3),
    _COUNT,
    Column("host_self_ns", "Host, self", Unit.NS, detail=4),
    Column("device_self_ns", "GPU, self", Unit.NS),
    Column("device_self_percent", "GPU, self", Unit.SHARE_PERCENT, detail=1),
    Column("flops", "FLOPs", Unit.COUNT, detail=5),
    Column("computed_in", "Computed in", Unit.TEXT, detail=2),
    Column("tflops_per_s", "TFLOP/s", Unit.MEAN),
    Column("peak_percent", "Of peak", Unit.SHARE_PERCENT),
    Column("note", "", Unit.TEXT, detail=2),
)
_AGAINST = (
    Column("kind", "Kind", Unit.TEXT),
    Column("name", "Name", Unit.TEXT, shorten=label),
    Column("where", "Where", Unit.TEXT, detail=1),
    Column("count", "Count", Unit.COUNT, detail=2),
    Column("per_step", "A step", Unit.MEAN, detail=3),
    Column("host_ns_per_step", "Host a step", Unit.NS),
    Column("device_ns_per_step", "GPU a step", Unit.NS),
)
_FIGURES = (
    Column("figure", "Figure", Unit.TEXT),
    Column("value", "Value", Unit.RATIO),
    Column("unit", "Unit", Unit.TEXT),
    Column("note", "", Unit.TEXT),
)
_GRAPHS = (
    Column("place", "Place", Unit.TEXT),
    Column("known_by", "Known by", Unit.TEXT, detail=1),
    Column("count", "Executions", Unit.COUNT),
    Column("per_step", "A step", Unit.MEAN, detail=2),
    Column("device_ns", "GPU", Unit.NS, detail=1),
    Column("device_percent", "GPU", Unit.SHARE_PERCENT),
)

MOVES: Final = ("aten::to", "aten::_to_copy", "aten::copy_")
INDEXING: Final = re.compile(
    r"^aten::_?(index(_\w+)?|gather\w*|scatter\w*|nonzero\w*|masked_(select|scatter)\w*|embedding\w*|take\w*)$"
)


def ops_sheets(trace: Trace, device: Device) -> list[Sheet]:
    """All tables about operators, over the steady steps. Without operators in the profile, those are without rows."""
    found = ops(trace, device)
    done = work_done(trace, device, found)
    graphs = graph_names(trace, device)
    most = f"the {MOST_SHAPES} that take the most GPU time"
    made = [
        Sheet("ops_figures", "Coverage and use of the GPU", _FIGURES, _figures(device, found, done, graphs)),
        Sheet("ops", "Operators", _OPERATORS, _by_name(device, found)),
        Sheet("ops_by_shape", f"Operators by inputs, {most}", _SHAPES, _by_shape(found, done)),
        Sheet("host_against_device", "Host against device", _AGAINST, _against(trace, device, found)),
        Sheet("graph_work", "Work inside graphs", _GRAPHS, _in_graphs(device, graphs)),
    ]
    gpu = device.gpu
    return [
        Sheet(f"{sheet.name}_gpu{gpu}", f"{sheet.title}, steady steps, GPU {gpu}", sheet.columns, sheet.rows)
        for sheet in made
    ]


def _percent(share: float | NotMeasured | None) -> tuple[float | None, str, str]:
    """Value, unit and note of a share."""
    if isinstance(share, NotMeasured):
        return None, "%", share.reason
    return None if share is None else 100 * share, "%", ""


def _figures(device: Device, found: Ops, done: WorkDone, graphs: GraphNames) -> tuple[tuple[Cell, ...], ...]:
    rows: list[tuple[Cell, ...]] = [
        ("GPU time launched in an operator", *_percent(found.attributed_share)),
        ("GPU time launched in an annotation", *_percent(found.annotated_share)),
    ]
    if graphs.launches:
        rows += [
            ("GPU time inside graphs", *_percent(graphs.device_ns / found.device_ns if found.device_ns else None)),
            ("of it with a place in the program", *_percent(graphs.named_share)),
        ]
    if done.work:
        note = "at most: attention in full, or a convolution's stride not known" if done.is_bound else ""
        rows.append(("work counted a step", done.flops / 1e9 / device.step_count, "GFLOP", note))
        rows.append(("matrix kernels' time in counted operators", *_percent(done.coverage)))
    value, unit, reason = _percent(done.mfu)
    against = f"{'at most; ' if done.is_bound else ''}dense peak of {done.gpu}"
    rows.append(("MFU: time at peak of the time taken", value, unit, reason or against))
    if done.without_peak_share and not isinstance(done.mfu, NotMeasured):
        rows.append(("work left out of it, its peak not known", *_percent(done.without_peak_share)))
    return tuple(rows)


def _by_name(device: Device, found: Ops) -> tuple[tuple[Cell, ...], ...]:
    if not found.by_name:
        return ()
    rows: list[tuple[Cell, ...]] = [
        (
            each.name,
            each.count,
            each.count / device.step_count,
            each.host_ns,
            each.host_self_ns,
            each.device_ns,
            each.device_self_ns,
            _share(each.device_self_ns, found.device_ns),
            each.kernels,
            each.launches,
        )
        for each in found.by_name
    ]
    rest = found.device_ns - found.attributed_ns
    rows.append(("(in no operator)", None, None, None, None, rest, rest, _share(rest, found.device_ns), None, None))
    return tuple(rows)


def _share(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None


def _by_shape(found: Ops, done: WorkDone) -> tuple[tuple[Cell, ...], ...]:
    """None where no inputs were recorded at all."""
    if all(each.inputs is None for each in found.by_inputs):
        return ()
    counted = {(each.name, each.inputs): each for each in done.work}
    shown = [each for each in found.by_inputs if each.device_self_ns or (each.name, each.inputs) in counted]
    rows: list[tuple[Cell, ...]] = []
    for each in shown[:MOST_SHAPES]:
        given = parse_inputs(each.inputs) or Inputs((), ())
        amounts = (each.count, each.host_self_ns, each.device_self_ns, _share(each.device_self_ns, found.device_ns))
        rates = _rates(counted.get((each.name, each.inputs or "")))
        rows.append((each.name, shapes_text(given), types_text(given), *amounts, *rates))
    return tuple(rows)


def _rates(work: Work | None) -> tuple[Cell, ...]:
    if work is None:
        return (None, None, None, None, None)
    rate, share = work.flops_per_s, work.peak_share
    notes = ["at most"] if work.is_bound else []
    notes += [work.peak.reason] if isinstance(work.peak, NotMeasured) else []
    tera = None if rate is None else rate / 1e12
    return (work.flops, work.kind, tera, None if share is None else 100 * share, "; ".join(notes))


def shapes_text(given: Inputs) -> str:
    """Shapes for people: `512x2048, 2048x3072`; what is no tensor is left out."""
    return ", ".join("x".join(map(str, shape)) for shape in given.shapes if shape)


def types_text(given: Inputs) -> str:
    """The types of the tensors, each once, in order."""
    kinds = [given.kind(at) for at, shape in enumerate(given.shapes) if shape]
    return ", ".join(dict.fromkeys(kind for kind in kinds if kind))


def _against(trace: Trace, device: Device, found: Ops) -> tuple[tuple[Cell, ...], ...]:
    """The rows of seed 004's question: what the host does, and what the GPU does for it."""
    rows = [
        *_launches(device, found),
        *_operators(found),
        *_waits(trace, device, found),
        *_communication(device, found),
    ]
    steps = device.step_count
    return tuple(
        (kind, name, where, count, count / steps, host / steps, None if gpu is None else gpu / steps)
        for kind, name, where, count, host, gpu in rows
    )


_Row = tuple[str, str, str | None, int, int, int | None]
"""Kind, name, place, count, time on the host, time on the GPU."""


def _launches(device: Device, found: Ops) -> list[_Row]:
    """The launch calls behind the steps' work, by function: the host may have made them before the steps began."""
    calls = device.host.calls
    names, function = short_names(calls)
    launching = device.found.launch[found.activity]
    length = (device.found.end_ns - device.found.start_ns)[found.activity][launching >= 0]
    launching = launching[launching >= 0]
    made = np.unique(launching)
    counts, spent, gpu = np.zeros((3, len(names)), np.int64)
    np.add.at(counts, function[made], 1)
    np.add.at(spent, function[made], calls.duration_ns[made])
    np.add.at(gpu, function[launching], length)
    rows: list[_Row] = [
        ("launch call", name, None, *amounts)
        for name, *amounts in zip(names, counts.tolist(), spent.tolist(), gpu.tolist(), strict=True)
        if amounts[0] and call_kind(name) == "launch"
    ]
    return sorted(rows, key=lambda row: (-row[4], row[1]))


def _operators(found: Ops) -> list[_Row]:
    """Moves between types and places, and operators that index; with what is inside them."""
    moves: list[_Row] = []
    indexing: list[_Row] = []
    for each in found.by_name:
        amounts = (each.count, each.host_ns, each.device_ns)
        if each.name in MOVES:
            moves.append(("dtype move", each.name, None, *amounts))
        elif INDEXING.match(each.name):
            indexing.append(("indexing", each.name, None, *amounts))
    return [*sorted(moves, key=lambda row: MOVES.index(row[1])), *sorted(indexing, key=lambda row: (-row[4], row[1]))]


def _waits(trace: Trace, device: Device, found: Ops) -> list[_Row]:
    """Calls that wait for the device, by function and place: the recorded stack's, else the operators around."""
    host = device.host
    waiting = host.calls.where(device.steady_calls & (host.are(CallKind.SYNC)))
    codes = np.unique(waiting.codes("name"))
    launching = [code for code in codes.tolist() if call_kind(waiting.strings.text(code) or "") == "launch"]
    waiting = waiting.where(~np.isin(waiting.codes("name"), launching))
    paths = Paths(found.nest)
    around = paths.of_row[innermost(found.nest.rows, waiting)]
    first, number = group(waiting.codes("name"), waiting["stack"], around)
    counts, sums = np.bincount(number, minlength=len(first)).tolist(), np.zeros(len(first), np.int64)
    np.add.at(sums, number, waiting.duration_ns)
    rows: dict[tuple[str, str | None], tuple[int, int]] = {}
    for at, count, spent in zip(first.tolist(), counts, sums.tolist(), strict=True):
        where = place(trace.stacks.texts(int(waiting["stack"][at]), trace.strings))
        where = where or " > ".join(paths.names(int(around[at]))) or None
        key = (shortened(waiting.strings.text(int(waiting.codes("name")[at])) or ""), where)
        before = rows.get(key, (0, 0))
        rows[key] = (before[0] + count, before[1] + spent)
    made: list[_Row] = [("waiting call", name, where, *amounts, None) for (name, where), amounts in rows.items()]
    return sorted(made, key=lambda row: (-row[4], row[1], row[2] or ""))[:MOST_PLACES]


def _communication(device: Device, found: Ops) -> list[_Row]:
    """Kernels that move data between GPUs, DeepEP's among them, with the time of the calls that launched them."""
    activities, host = device.found, device.host
    mine: Positions = found.activity[activities.state[found.activity] == State.COMM]
    first, number = group(activities.name[mine])
    times = np.zeros((2, len(first)), np.int64)
    np.add.at(times[0], number, (activities.end_ns - activities.start_ns)[mine])
    launching = activities.launch[mine]
    once, _ = group(number, launching)  # a graph's launch counts once
    once = once[launching[once] >= 0]
    np.add.at(times[1], number[once], host.calls.duration_ns[launching[once]])
    names = host.calls.strings.decode(activities.name[mine][first].astype(np.int32))
    counts = np.bincount(number, minlength=len(first)).tolist()
    made: list[_Row] = [
        ("communication kernel", name or "?", None, count, spent, gpu)
        for name, count, gpu, spent in zip(names, counts, *times.tolist(), strict=True)
    ]
    return sorted(made, key=lambda row: (-(row[5] or 0), row[1]))


def _in_graphs(device: Device, graphs: GraphNames) -> tuple[tuple[Cell, ...], ...]:
    shown, rest = graphs.work[:MOST_PLACES], graphs.work[MOST_PLACES:]
    rows = [(" > ".join(each.path or ("(not known)",)), each.source, each.count, each.device_ns) for each in shown]
    if rest:
        sums = sum(each.count for each in rest), sum(each.device_ns for each in rest)
        rows.append((f"({len(rest)} more)", None, *sums))
    return tuple(
        (where, source, count, count / device.step_count, spent, _share(spent, graphs.device_ns))
        for where, source, count, spent in rows
    )

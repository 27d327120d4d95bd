"""What the books hold, for queries: their tables, and what they know of rows of the trace's own tables.

The tables are GPUs, lines, gaps and their causes, steps, findings, and how kernels use the GPU. Of a row of the trace
the books know its step, the launching call, and the ranges around that call. Books and findings are made when the first
query names them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.light.books import light_rows
from gpuledger.analyse.light.steady_kernels import all_steady
from gpuledger.analyse.phases.step_summary import step_books
from gpuledger.analyse.utilization.stretches import SampledUse
from gpuledger.attribution.ranges import NamePaths
from gpuledger.catalog.calls import CALL_KINDS
from gpuledger.catalog.gpu_metrics import OF_KERNELS
from gpuledger.findings.finding import Finding
from gpuledger.findings.profiled_run import sampled_use
from gpuledger.findings.run_rules import findings
from gpuledger.ledger.activity import CUDA_LAYERS, GRAPH_FAMILY, State
from gpuledger.ledger.causes import CAUSES, TRIGGERS
from gpuledger.ledger.device import Device, analyse_devices
from gpuledger.ledger.host import Host
from gpuledger.ledger.step_variation import variation
from gpuledger.selection import Selection
from gpuledger.sql.tables import AXES, ColumnValues, TableValues, instants, numbers, words
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, equal
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, holds
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import NOT_RECORDED, Table


class QuerySubject:
    """One profile. With `devices` the books are made already."""

    def __init__(
        self,
        trace: Trace,
        devices: Sequence[Device] | None = None,
        name: str = "profile",
        wanted: Selection | None = None,
    ) -> None:
        self.trace: Final = trace
        self._devices, self._name, self._wanted = devices, name, wanted or Selection()

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """Every GPU that ran anything."""
        if self._devices is not None:
            return tuple(self._devices)
        return analyse_devices(self.trace, self._name, self._wanted)

    @cached_property
    def use(self) -> dict[int, SampledUse]:
        """What samples say of each GPU that was sampled."""
        return sampled_use(self.trace, self.devices)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        return findings(self.trace, self.devices, use=self.use)


def launched_values(subject: QuerySubject, table: Table, asked: Collection[str]) -> TableValues:
    """These columns for each row of a table of GPU work; NULL for rows that took no time, which the books leave out."""
    work, host = subject.devices[0].work, subject.devices[0].host
    is_graph = (work.family == work.families.index(GRAPH_FAMILY)) & (work.name == NO_TEXT)
    is_copy = work.state == State.COPY
    chosen = np.flatnonzero(
        is_copy if table is Table.COPIES else is_graph if table is Table.GRAPHS else ~is_copy & ~is_graph
    )
    row, rows = work.row_at(chosen), len(subject.trace[table])
    start_ns, gpu = work.start_ns[chosen], work.gpu[chosen]

    def placed(values: NDArray[Any], fill: int = NOT_RECORDED) -> NDArray[Any]:
        """A column of the books, in the order of the table's rows."""
        column = np.full(rows, fill, values.dtype)
        column[row] = values
        return column

    def by_gpu(values_of: Callable[[Device, Ints], NDArray[Any]], fill: NDArray[Any]) -> NDArray[Any]:
        """What holds on its own GPU of each activity, by when it begins."""
        for device in subject.devices:
            own = equal(gpu, device.gpu)
            fill[own] = values_of(device, start_ns[own])
        return fill

    values: TableValues = {}
    if "family" in asked:
        values["family"] = ColumnValues(placed(work.family[chosen]), work.families)
    if "step" in asked:
        values["step"] = ColumnValues(placed(by_gpu(step_of, np.full(len(chosen), -1, np.int64))))
    if "is_steady" in asked:
        steady = by_gpu(Device.begins_steady, np.zeros(len(chosen), np.bool_))
        values["is_steady"] = ColumnValues(placed(steady, fill=0), missing=None)
    return values | of_calls(subject.trace, host, placed(work.launch[chosen]), asked)


def call_values(subject: QuerySubject, asked: Collection[str]) -> TableValues:
    """These columns for each row of the table of calls; those of other layers than CUDA's have no kind and no range."""
    host, calls = subject.devices[0].host, subject.trace[Table.CALLS]
    is_cuda = np.isin(calls.codes("layer"), [calls.strings.code(layer) for layer in CUDA_LAYERS])
    position = np.where(is_cuda, np.cumsum(is_cuda) - 1, -1)
    values = of_calls(subject.trace, host, position, asked)
    if "call_kind" in asked:
        kinds = np.append(host.kinds, np.int8(NOT_RECORDED))[position]
        values["call_kind"] = ColumnValues(kinds, tuple(map(str, CALL_KINDS)))
    return values


def of_calls(trace: Trace, host: Host, call: Positions, asked: Collection[str]) -> TableValues:
    """What is asked of the CUDA calls at these positions, -1 for none."""
    values: TableValues = {}
    for name, column in (("launch_start_ns", "start_ns"), ("launch_end_ns", "end_ns"), ("launch_tid", "tid")):
        if name in asked:
            values[name] = ColumnValues(np.append(host.calls[column], NOT_RECORDED)[call])
    if "launch_call" in asked:
        names = np.append(host.calls.codes("name"), np.int32(NO_TEXT))
        values["launch_call"] = ColumnValues(names[call], trace.strings)
    if "range" in asked or "range_path" in asked:
        around = np.append(host.range_of_call, np.int32(-1))[call]
        if "range" in asked:
            names = np.append(host.ranges.codes("name"), np.int32(NO_TEXT))[around]
            values["range"] = ColumnValues(names, trace.strings)
        if "range_path" in asked:
            values["range_path"] = _paths(trace, host, around)
    return values


def _paths(trace: Trace, host: Host, around: NDArray[np.int32]) -> ColumnValues:
    """The names of the ranges around each call; only its own where ranges overlap without nesting."""
    ranges = host.ranges
    above = np.full(len(ranges), -1, np.intp) if host.nesting is None else host.nesting.above
    paths = NamePaths(above, ranges.codes("name"))
    texts: list[str] = []
    for parent, name in zip(paths.parent.tolist(), paths.name.tolist(), strict=True):
        own = trace.strings.text(name) or "?"
        texts.append(own if parent < 0 else f"{texts[parent]} > {own}")
    distinct = list(dict.fromkeys(texts))
    number = {text: position for position, text in enumerate(distinct)}
    of_path = np.array([*(number[text] for text in texts), NOT_RECORDED], np.int64)
    return ColumnValues(of_path[paths.of_row[around]], distinct)


def step_of(device: Device, start_ns: Ints) -> Ints:
    """The step that each of these instants lies in, as `gpuledger steps` counts kernels; -1 for none."""
    if device.steps is None:
        return np.full(len(start_ns), -1, np.int64)
    step = sweep.search(device.steps.edges_ns, start_ns, "right") - 1
    inside = (step < len(device.steps)) & holds(device.ledger.busy.stretches, start_ns)
    return np.where(inside, step, -1).astype(np.int64)


def _together(parts: Sequence[Sequence[NDArray[Any]]], columns: int) -> list[NDArray[Any]]:
    """Columns of several parts, each part's columns in the same order, behind each other."""
    if not parts:
        return [np.empty(0, np.int64)] * columns
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def _times(values: Sequence[int]) -> ColumnValues:
    return instants(np.array(values, np.int64))


def _gpus(subject: QuerySubject) -> TableValues:
    devices = subject.devices
    described = [subject.trace.origin.gpu(device.gpu) for device in devices]
    idle = [int(device.ledger.gaps.length_ns.sum()) for device in devices]
    return {
        "gpu": numbers([device.gpu for device in devices]),
        "name": words([gpu.name if gpu else None for gpu in described]),
        "zero_ns": _times([device.zero_ns for device in devices]),
        "window_start_ns": _times([device.ledger.window.start_ns for device in devices]),
        "window_end_ns": _times([device.ledger.window.end_ns for device in devices]),
        "window_ns": _times([device.ledger.window_ns for device in devices]),
        "busy_ns": _times([device.ledger.window_ns - ns for device, ns in zip(devices, idle, strict=True)]),
        "idle_ns": _times(idle),
        "steady_start_ns": _times([device.steady.start_ns for device in devices]),
        "steady_end_ns": _times([device.steady.end_ns for device in devices]),
        "steady_ns": _times([device.steady_ns for device in devices]),
        "steady_steps": numbers([None if device.steps is None else device.step_count for device in devices]),
        "step_source": words([None if device.steps is None else device.steps.source for device in devices]),
    }


def _lines(subject: QuerySubject) -> TableValues:
    """A row for each line that has time in a tile."""
    parts, names = [], dict[str, int]()
    for device in subject.devices:
        books, edges = device.ledger, device.ledger.tiles_ns
        tile, line = np.nonzero(books.books)
        code = np.array([names.setdefault(str(line), len(names)) for line in books.lines], np.int32)
        step = np.full(len(edges) - 1, -1, np.int64)  # of what lies beside the steps
        if device.steps is not None:  # a tile may begin where nothing is looked at
            number = np.searchsorted(device.steps.edges_ns, edges[:-1], side="right") - 1
            step = np.where(number < len(device.steps), number, -1)
        gpu, of_tile = np.full(len(tile), device.gpu), (step, device.steady_tiles, edges[:-1], edges[1:])
        parts.append([gpu, *(column[tile] for column in of_tile), code[line], books.books[tile, line]])
    gpu, step, steady, start, end, line, amount = _together(parts, 7)
    kinds, details = zip(*((name.partition(".")[0], name.partition(".")[2]) for name in names), strict=True)
    kind, detail = words(kinds), words(details)
    return {
        "gpu": ColumnValues(gpu),
        "step": ColumnValues(step),
        "is_steady": ColumnValues(steady, missing=None),
        "start_ns": instants(start),
        "end_ns": instants(end),
        "line": ColumnValues(line, tuple(names)),
        "kind": ColumnValues(kind.array[line], kind.texts),
        "detail": ColumnValues(detail.array[line], detail.texts),
        "line_ns": instants(amount),
    }


def _gaps(subject: QuerySubject) -> TableValues:
    parts, draining = [], dict[str, int]()
    for device in subject.devices:
        gaps = device.ledger.gaps
        drained = [draining.setdefault(name, len(draining)) if name else -1 for name in gaps.draining]
        names = np.append(device.work.name, np.int32(NO_TEXT))
        parts.append(
            [
                np.full(len(gaps), device.gpu),
                gaps.start_ns,
                gaps.end_ns,
                gaps.trigger,
                np.array(drained, np.int64)[gaps.drained_by],
                gaps.by_cause.largest(),
                np.max([gaps.by_cause.of(cause) for cause in CAUSES], axis=0, initial=0),
                names[gaps.before],
                names[gaps.after],
                gaps.call,
                step_of(device, gaps.start_ns),
                device.steady_gap_ns,
            ]
        )
    gpu, start, end, trigger, drained_by, cause, cause_ns, before, after, call, step, steady_ns = _together(parts, 12)
    strings = subject.trace.strings
    return {
        "gap": ColumnValues(np.arange(len(start))),
        "gpu": ColumnValues(gpu),
        "start_ns": instants(start),
        "end_ns": instants(end),
        "duration_ns": "end_ns - start_ns",
        "trigger": ColumnValues(trigger, tuple(map(str, TRIGGERS))),
        "drained_by": ColumnValues(drained_by, tuple(draining)),
        "cause": ColumnValues(cause, tuple(map(str, CAUSES))),
        "cause_ns": instants(cause_ns),
        "before": ColumnValues(before, strings),
        "after": ColumnValues(after, strings),
        "step": ColumnValues(step),
        "is_steady": ColumnValues(steady_ns > 0, missing=None),
        "steady_ns": instants(steady_ns),
        **of_calls(subject.trace, subject.devices[0].host, call, ("launch_call", "launch_tid")),
    }


def _gap_causes(subject: QuerySubject) -> TableValues:
    first, parts = 0, []
    for device in subject.devices:
        by_cause = device.ledger.gaps.by_cause
        for cause in by_cause.used:
            amount = by_cause.of(cause)
            [booked] = np.nonzero(amount)
            gpu, number = (np.full(len(booked), value) for value in (device.gpu, CAUSES.index(cause)))
            parts.append([booked + first, gpu, number, amount[booked]])
        first += len(by_cause)
    gap, gpu, cause_number, amounts = _together(parts, 4)
    return {
        "gap": ColumnValues(gap),
        "gpu": ColumnValues(gpu),
        "cause": ColumnValues(cause_number, tuple(map(str, CAUSES))),
        "cause_ns": instants(amounts),
    }


def _steps(subject: QuerySubject) -> TableValues:
    varied = [(device, variation(device)) for device in subject.devices]
    rows = [(device, step) for device, steps in varied if steps is not None for step in step_books(device, steps)]
    return {
        "gpu": numbers([device.gpu for device, _ in rows]),
        "step": numbers([step.step for _, step in rows]),
        "start_ns": _times([step.start_ns + device.zero_ns for device, step in rows]),
        "end_ns": _times([step.end_ns + device.zero_ns for device, step in rows]),
        "duration_ns": _times([step.length_ns for _, step in rows]),
        "busy_ns": _times([step.busy_ns for _, step in rows]),
        "idle_ns": _times([step.idle_ns for _, step in rows]),
        "kernels": numbers([step.kernels for _, step in rows]),
        "largest_line": words([step.largest_line for _, step in rows]),
        "phase": words([step.phase or "" for _, step in rows]),
        "note": words([step.note or "" for _, step in rows]),
    }


def _findings(subject: QuerySubject) -> TableValues:
    rows = subject.findings
    return {
        "rank": numbers(range(1, len(rows) + 1)),
        "code": words([finding.code for finding in rows]),
        "claim": words([finding.claim for finding in rows]),
        "saving_ns": numbers([finding.saving_ns for finding in rows]),
        "saving_per_step_ns": numbers([finding.saving_ns_per_step for finding in rows]),
        "low_per_step_ns": numbers([finding.saving_low_ns_per_step for finding in rows]),
        "then_ns": numbers([finding.then_ns for finding in rows]),
        "plain_low_ns": numbers([finding.plain.low_ns if finding.plain else None for finding in rows]),
        "plain_high_ns": numbers([finding.plain.high_ns if finding.plain else None for finding in rows]),
        "lost_ns": numbers([finding.explains_ns for finding in rows]),
        "is_bound": ColumnValues(np.array([finding.is_bound for finding in rows], np.bool_), missing=None),
        "confidence": words([finding.confidence for finding in rows]),
        "gpu": numbers([finding.gpu if finding.gpu >= 0 else None for finding in rows]),
        "assumption": words([finding.assumption for finding in rows]),
        "fix": words([finding.fix for finding in rows]),
    }


def _use(subject: QuerySubject) -> TableValues:
    rows = [(gpu, kernel) for gpu, (used, _) in subject.use.items() for kernel in used.kernels]
    values: TableValues = {
        "gpu": numbers([gpu for gpu, _ in rows]),
        "name": words([kernel.name for _, kernel in rows]),
        "full_name": words([kernel.full_name for _, kernel in rows]),
        "launches": numbers([kernel.launches for _, kernel in rows]),
        "total_ns": numbers([kernel.time_ns for _, kernel in rows]),
        "use_class": words([str(kernel.use_class) for _, kernel in rows]),
    }
    for place, axis in enumerate(AXES):
        values[f"grid_{axis}"] = numbers([kernel.grid[place] for _, kernel in rows])
        values[f"block_{axis}"] = numbers([kernel.block[place] for _, kernel in rows])
    for metric in OF_KERNELS:
        figures = [kernel.figures.get(metric) for _, kernel in rows]
        for column, side in (("percent", "percent"), ("low_percent", "low"), ("high_percent", "high")):
            amounts = [np.nan if figure is None else getattr(figure, side) for figure in figures]
            values[f"{metric}_{column}"] = ColumnValues(np.array(amounts, np.float64))
    return values


def _light(subject: QuerySubject) -> TableValues:
    rows = [
        (device.gpu, row)
        for device in subject.devices
        for row in light_rows(device, all_steady(subject.trace, device, subject.use.get(device.gpu)))
    ]
    return {
        "gpu": numbers([gpu for gpu, _ in rows]),
        "kernel": words([row.kernel for _, row in rows]),
        "operator": words([row.operator for _, row in rows]),
        "launches": numbers([row.count for _, row in rows]),
        "ns": numbers([row.took_ns for _, row in rows]),
        "light_ns": numbers([None if row.share is None else row.light_ns for _, row in rows]),
        "low_ns": numbers([None if row.share is None else row.low_ns for _, row in rows]),
        "high_ns": numbers([None if row.share is None else row.high_ns for _, row in rows]),
        "source": words([row.source.name.lower() for _, row in rows]),
        "roof": words([row.roof.name.lower() for _, row in rows]),
    }


# How each table of the books is made.
BOOKED: Final[dict[str, Callable[[QuerySubject], TableValues]]] = {
    "gpus": _gpus,
    "lines": _lines,
    "gaps": _gaps,
    "gap_causes": _gap_causes,
    "steps": _steps,
    "findings": _findings,
    "use": _use,
    "light": _light,
}

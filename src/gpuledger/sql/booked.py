"""The tables of the books: GPUs, lines, gaps and their causes, steps, findings, and how kernels use the GPU.

What the books know of rows of the trace's own tables: the step, the launching call, the ranges around that call.

What a query is asked of: a trace, and its books and findings, each made when the first query names them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.step_summary import step_books
from gpuledger.analyse.utilization.stretches import SampledUse
from gpuledger.attribution.ranges import NamePaths
from gpuledger.catalog.calls import CALL_KINDS
from gpuledger.catalog.gpu_metrics import OF_KERNELS
from gpuledger.findings.finding import Finding
from gpuledger.findings.profiled_run import sampled
from gpuledger.findings.rules import findings
from gpuledger.ledger.activity import CUDA_LAYERS, GRAPH_FAMILY, Activities, State
from gpuledger.ledger.causes import CAUSES, TRIGGERS
from gpuledger.ledger.device import Device, analysed
from gpuledger.ledger.host import Host
from gpuledger.ledger.step_variation import variation
from gpuledger.ledger.steps import Wanted
from gpuledger.sql.tables import AXES, ColumnValues, TableValues, flags, fractions, instants, numbers, words
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, equal
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, holds
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import NOT_RECORDED, Table


class QuerySubject:
    """One profile. With `devices` the books are made already."""

    def __init__(
        self, trace: Trace, devices: Sequence[Device] | None = None, name: str = "profile", wanted: Wanted | None = None
    ) -> None:
        self.trace: Final = trace
        self._devices, self._name, self._wanted = devices, name, wanted or Wanted()

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """Every GPU at work."""
        made = self._devices
        return analysed(self.trace, self._name, self._wanted) if made is None else tuple(made)

    @cached_property
    def use(self) -> dict[int, SampledUse]:
        """What samples say of each GPU that was sampled."""
        return sampled(self.trace, self.devices)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What the report finds."""
        return findings(self.trace, self.devices, use=self.use)


def launched_values(subject: QuerySubject, table: Table, asked: Collection[str]) -> TableValues:
    """These columns for each row of a table of GPU work; NULL for rows that took no time, which the books leave out."""
    work, host = subject.devices[0].work, subject.devices[0].host
    at = _positions(work, table)
    row, rows = work.row_at(at), len(subject.trace[table])

    def placed(values: NDArray[Any], fill: int = NOT_RECORDED) -> NDArray[Any]:
        """A column of the books, in the order of the table's rows."""
        column = np.full(rows, fill, values.dtype)
        column[row] = values
        return column

    values: TableValues = {}
    if "family" in asked:
        values["family"] = ColumnValues(placed(work.family[at]), work.families)
    if "step" in asked:
        values["step"] = ColumnValues(placed(_launched_steps(subject, work.start_ns[at], work.gpu[at])))
    if "is_steady" in asked:
        values["is_steady"] = ColumnValues(
            placed(_steady(subject, work.start_ns[at], work.gpu[at]), fill=0), missing=None
        )
    call = placed(work.launch[at])
    return values | of_calls(subject.trace, host, call, asked)


def _positions(work: Activities, table: Table) -> Positions:
    """The activities that are rows of this table."""
    if table is Table.COPIES:
        return np.flatnonzero(work.state == State.COPY)
    is_graph = (work.family == work.families.index(GRAPH_FAMILY)) & (work.name == NO_TEXT)
    return np.flatnonzero(is_graph if table is Table.GRAPHS else (work.state != State.COPY) & ~is_graph)


def call_values(subject: QuerySubject, asked: Collection[str]) -> TableValues:
    """These columns for each row of the table of calls; those of other layers than CUDA's have no kind and no range."""
    host, calls = subject.devices[0].host, subject.trace[Table.CALLS]
    layers = [calls.strings.code(layer) for layer in CUDA_LAYERS]
    is_cuda = np.isin(calls.codes("layer"), layers)
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


def _launched_steps(subject: QuerySubject, start_ns: Ints, gpu: NDArray[np.int32]) -> Ints:
    """The step of its GPU that each of these begins in; -1 for none."""
    step = np.full(len(start_ns), -1, np.int64)
    for device in subject.devices:
        own = equal(gpu, device.gpu)
        step[own] = step_of(device, start_ns[own])
    return step


def _steady(subject: QuerySubject, start_ns: Ints, gpu: NDArray[np.int32]) -> NDArray[np.bool_]:
    steady = np.zeros(len(start_ns), np.bool_)
    for device in subject.devices:
        own = equal(gpu, device.gpu)
        steady[own] = device.begins_steady(start_ns[own])
    return steady


def step_of(device: Device, start_ns: Ints) -> Ints:
    """The step that each of these instants lies in, as `gpuledger steps` counts kernels; -1 for none."""
    if device.steps is None:
        return np.full(len(start_ns), -1, np.int64)
    step = sweep.search(device.steps.edges_ns, start_ns, "right") - 1
    inside = (step < len(device.steps)) & holds(device.ledger.busy.stretches, start_ns)
    return np.where(inside, step, -1).astype(np.int64)


_CALL_OF_GAP: Final = ("launch_call", "launch_tid")


def _together(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _gpus(subject: QuerySubject) -> TableValues:
    devices = subject.devices
    described = [subject.trace.origin.gpu(device.gpu) for device in devices]
    windows = [device.ledger.window for device in devices]
    idle = [int(device.ledger.gaps.length_ns.sum()) for device in devices]
    busy = [device.ledger.window_ns - idle_ns for device, idle_ns in zip(devices, idle, strict=True)]

    def times(values: list[int]) -> ColumnValues:
        return instants(np.array(values, np.int64))

    return {
        "gpu": numbers([device.gpu for device in devices]),
        "name": words([gpu.name if gpu else None for gpu in described]),
        "zero_ns": times([device.zero_ns for device in devices]),
        "window_start_ns": times([window.start_ns for window in windows]),
        "window_end_ns": times([window.end_ns for window in windows]),
        "window_ns": times([device.ledger.window_ns for device in devices]),
        "busy_ns": times(busy),
        "idle_ns": times(idle),
        "steady_start_ns": times([device.steady.start_ns for device in devices]),
        "steady_end_ns": times([device.steady.end_ns for device in devices]),
        "steady_ns": times([device.steady_ns for device in devices]),
        "steady_steps": numbers([None if device.steps is None else device.step_count for device in devices]),
        "step_source": words([None if device.steps is None else device.steps.source for device in devices]),
    }


def _lines(subject: QuerySubject) -> TableValues:
    """A row for each line that has time in a tile."""
    parts: list[list[NDArray[Any]]] = []
    names: dict[str, int] = {}
    for device in subject.devices:
        books = device.ledger
        tile, line = np.nonzero(books.books)
        code = np.array([names.setdefault(str(each), len(names)) for each in books.lines], np.int32)
        start = books.tiles_ns[:-1]
        parts.append(
            [
                np.full(len(tile), device.gpu),
                _step_of_tile(device, start)[tile],
                device.steady_tiles[tile],
                start[tile],
                books.tiles_ns[1:][tile],
                code[line],
                books.books[tile, line],
            ]
        )
    gpu, step, steady, start, end, line, amount = (_together(list(column)) for column in zip(*parts, strict=True))
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


def _step_of_tile(device: Device, start_ns: Ints) -> Ints:
    """The step that each tile is; -1 for what lies beside the steps. A tile may begin where nothing is looked at."""
    if device.steps is None:
        return np.full(len(start_ns), -1, np.int64)
    step = np.searchsorted(device.steps.edges_ns, start_ns, side="right") - 1
    return np.where(step < len(device.steps), step, -1)


def _gaps(subject: QuerySubject) -> TableValues:
    parts: list[list[NDArray[Any]]] = []
    draining: dict[str, int] = {}
    for device in subject.devices:
        gaps = device.ledger.gaps
        drained = [draining.setdefault(name, len(draining)) if name else -1 for name in gaps.draining]
        names = np.append(device.work.name, np.int32(NO_TEXT))
        cause = gaps.by_cause.largest()
        amounts = np.max([gaps.by_cause.of(each) for each in CAUSES], axis=0, initial=0)
        parts.append(
            [
                np.full(len(gaps), device.gpu),
                gaps.start_ns,
                gaps.end_ns,
                gaps.trigger,
                np.array(drained, np.int64)[gaps.drained_by],
                cause,
                amounts,
                names[gaps.before],
                names[gaps.after],
                gaps.call,
                step_of(device, gaps.start_ns),
                device.steady_gaps,
            ]
        )
    columns = [_together(list(column)) for column in zip(*parts, strict=True)]
    gpu, start, end, trigger, drained_by, cause, cause_ns, before, after, call, step, steady = columns
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
        "is_steady": ColumnValues(steady, missing=None),
        **of_calls(subject.trace, subject.devices[0].host, call, _CALL_OF_GAP),
    }


def _gap_causes(subject: QuerySubject) -> TableValues:
    first, parts = 0, list[list[NDArray[Any]]]()
    for device in subject.devices:
        by_cause = device.ledger.gaps.by_cause
        for cause in by_cause.used:
            amount = by_cause.of(cause)
            [booked] = np.nonzero(amount)
            parts.append(
                [
                    booked + first,
                    np.full(len(booked), device.gpu),
                    np.full(len(booked), CAUSES.index(cause)),
                    amount[booked],
                ]
            )
        first += len(by_cause)
    columns = [_together(list(column)) for column in zip(*parts, strict=True)] or [np.empty(0, np.int64)] * 4
    gap, gpu, cause_at, amounts = columns
    return {
        "gap": ColumnValues(gap),
        "gpu": ColumnValues(gpu),
        "cause": ColumnValues(cause_at, tuple(map(str, CAUSES))),
        "cause_ns": instants(amounts),
    }


def _steps(subject: QuerySubject) -> TableValues:
    varied = [(device, variation(device)) for device in subject.devices]
    rows = [(device, step) for device, steps in varied if steps is not None for step in step_books(device, steps)]

    def times(values: list[int]) -> ColumnValues:
        return instants(np.array(values, np.int64))

    return {
        "gpu": numbers([device.gpu for device, _ in rows]),
        "step": numbers([step.step for _, step in rows]),
        "start_ns": times([step.start_ns + device.zero_ns for device, step in rows]),
        "end_ns": times([step.end_ns + device.zero_ns for device, step in rows]),
        "duration_ns": times([step.length_ns for _, step in rows]),
        "busy_ns": times([step.busy_ns for _, step in rows]),
        "idle_ns": times([step.idle_ns for _, step in rows]),
        "kernels": numbers([step.kernels for _, step in rows]),
        "largest_line": words([step.largest_line for _, step in rows]),
        "phase": words([step.phase for _, step in rows]),
        "note": words([step.note.value for _, step in rows]),
    }


def _findings(subject: QuerySubject) -> TableValues:
    found = subject.findings
    return {
        "rank": numbers(range(1, len(found) + 1)),
        "code": words([each.code for each in found]),
        "claim": words([each.claim for each in found]),
        "saving_ns": numbers([each.saving_ns for each in found]),
        "saving_per_step_ns": numbers([each.saving_ns_per_step for each in found]),
        "low_per_step_ns": numbers([each.saving_low_ns_per_step for each in found]),
        "then_ns": numbers([each.then_ns for each in found]),
        "plain_low_ns": numbers([each.plain.low_ns if each.plain else None for each in found]),
        "plain_high_ns": numbers([each.plain.high_ns if each.plain else None for each in found]),
        "lost_ns": numbers([each.explains_ns for each in found]),
        "is_bound": flags([each.is_bound for each in found]),
        "confidence": words([each.confidence for each in found]),
        "gpu": numbers([each.gpu if each.gpu >= 0 else None for each in found]),
        "assumption": words([each.assumption for each in found]),
        "fix": words([each.fix for each in found]),
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
        values[f"{metric}_percent"] = fractions([each.percent if each else None for each in figures])
        values[f"{metric}_low_percent"] = fractions([each.low if each else None for each in figures])
        values[f"{metric}_high_percent"] = fractions([each.high if each else None for each in figures])
    return values


BOOKED: Final[dict[str, Callable[[QuerySubject], TableValues]]] = {
    "gpus": _gpus,
    "lines": _lines,
    "gaps": _gaps,
    "gap_causes": _gap_causes,
    "steps": _steps,
    "findings": _findings,
    "use": _use,
}
"""How each table of the books is made."""

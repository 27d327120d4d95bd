"""What the books hold, for queries: their tables, and what they know of rows of the trace's own tables.

The tables are GPUs, lines, gaps and their causes, steps, findings, and how kernels use the GPU. Of a row of the trace
the books know its step, the launching call, and the ranges around that call. Books and findings are made when the first
query names them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
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
from gpuledger.sql.tables import ColumnValues, QueryTable, TableValues, Texts, row_values, words
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, equal
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, holds
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import NOT_RECORDED, Table

Rows = Iterator[tuple[Any, ...]]
"""Values in the order of the table's columns."""


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
        self.name: Final = name
        self._devices, self._wanted = devices, wanted or Selection()

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """Every GPU that ran anything."""
        if self._devices is not None:
            return tuple(self._devices)
        return analyse_devices(self.trace, self.name, self._wanted)

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


def _joined(parts: Sequence[Mapping[str, NDArray[Any]]], texts: Mapping[str, Texts]) -> TableValues:
    """The columns of all GPUs; `texts` of those that hold codes. Times are never missing."""
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return {
        name: ColumnValues(
            column, texts.get(name), None if name.endswith("_ns") or column.dtype == np.bool_ else NOT_RECORDED
        )
        for name, column in columns.items()
    }


def _gpus(subject: QuerySubject) -> Rows:
    for device in subject.devices:
        books, steps = device.ledger, device.steps
        idle_ns = int(books.gaps.length_ns.sum())
        yield (
            *(device.gpu, gpu.name if (gpu := subject.trace.origin.gpu(device.gpu)) else None, device.zero_ns),
            *(books.window.start_ns, books.window.end_ns, books.window_ns, books.window_ns - idle_ns, idle_ns),
            *(device.steady.start_ns, device.steady.end_ns, device.steady_ns),
            *((None, None) if steps is None else (device.step_count, steps.source)),
        )


def _lines(subject: QuerySubject) -> TableValues:
    """A row for each line that has time in a tile."""
    parts, names = list[dict[str, NDArray[Any]]](), dict[str, int]()
    for device in subject.devices:
        books, edges = device.ledger, device.ledger.tiles_ns
        tile, line = np.nonzero(books.books)
        code = np.array([names.setdefault(str(line), len(names)) for line in books.lines], np.int32)
        step = np.full(len(edges) - 1, -1, np.int64)  # of what lies beside the steps
        if device.steps is not None:  # a tile may begin where nothing is looked at
            number = np.searchsorted(device.steps.edges_ns, edges[:-1], side="right") - 1
            step = np.where(number < len(device.steps), number, -1)
        parts.append(
            {
                "gpu": np.full(len(tile), device.gpu),
                "step": step[tile],
                "is_steady": device.steady_tiles[tile],
                "start_ns": edges[:-1][tile],
                "end_ns": edges[1:][tile],
                "line": code[line],
                "line_ns": books.books[tile, line],
            }
        )
    values = _joined(parts, {"line": tuple(names)})
    line_codes = np.concatenate([part["line"] for part in parts])
    kinds, _, details = zip(*(name.partition(".") for name in names), strict=True)
    for name, told in (("kind", words(kinds)), ("detail", words(details))):
        values[name] = ColumnValues(told.array[line_codes], told.texts)
    return values


def _gaps(subject: QuerySubject) -> TableValues:
    parts, draining, strings = list[dict[str, NDArray[Any]]](), dict[str, int](), subject.trace.strings
    for device in subject.devices:
        gaps = device.ledger.gaps
        drained = [draining.setdefault(name, len(draining)) if name else -1 for name in gaps.draining]
        names = np.append(device.work.name, np.int32(NO_TEXT))
        parts.append(
            {
                "gpu": np.full(len(gaps), device.gpu),
                "start_ns": gaps.start_ns,
                "end_ns": gaps.end_ns,
                "trigger": gaps.trigger,
                "drained_by": np.array(drained, np.int64)[gaps.drained_by],
                "cause": gaps.by_cause.largest(),
                "cause_ns": np.max([gaps.by_cause.of(cause) for cause in CAUSES], axis=0, initial=0),
                "before": names[gaps.before],
                "after": names[gaps.after],
                "step": step_of(device, gaps.start_ns),
                "is_steady": device.steady_gap_ns > 0,
                "steady_ns": device.steady_gap_ns,
            }
        )
    texts: dict[str, Texts] = {"drained_by": tuple(draining), "before": strings, "after": strings}
    texts |= {"trigger": tuple(map(str, TRIGGERS)), "cause": tuple(map(str, CAUSES))}
    values = _joined(parts, texts)
    call = np.concatenate([device.ledger.gaps.call for device in subject.devices])
    launched = of_calls(subject.trace, subject.devices[0].host, call, ("launch_call", "launch_tid"))
    return {"gap": ColumnValues(np.arange(len(call))), "duration_ns": "end_ns - start_ns", **values, **launched}


def _gap_causes(subject: QuerySubject) -> TableValues:
    first, parts = 0, list[dict[str, NDArray[Any]]]()
    for device in subject.devices:
        by_cause = device.ledger.gaps.by_cause
        time_ns = np.stack([by_cause.of(cause) for cause in CAUSES])
        cause, gap = np.nonzero(time_ns)
        own = np.full(len(gap), device.gpu)
        parts.append({"gap": gap + first, "gpu": own, "cause": cause, "cause_ns": time_ns[cause, gap]})
        first += len(by_cause)
    return _joined(parts, {"cause": tuple(map(str, CAUSES))})


def _steps(subject: QuerySubject) -> Rows:
    for device in subject.devices:
        varied, zero_ns = variation(device), device.zero_ns
        for step in () if varied is None else step_books(device, varied):
            yield (
                *(step.gpu, step.step, step.start_ns + zero_ns, step.end_ns + zero_ns),
                *(step.length_ns, step.busy_ns, step.idle_ns),
                *(step.kernels, step.largest_line, step.phase, step.note),
            )


def _findings(subject: QuerySubject) -> Rows:
    for rank, found in enumerate(subject.findings, 1):
        plain_low_ns, plain_high_ns = (found.plain.low_ns, found.plain.high_ns) if found.plain else (None, None)
        yield (
            *(rank, found.code, found.claim, found.saving_ns, found.saving_ns_per_step, found.saving_low_ns_per_step),
            *(found.then_ns, plain_low_ns, plain_high_ns, found.explains_ns, found.is_bound, found.confidence),
            *(found.gpu if found.gpu >= 0 else None, found.assumption, found.fix),
        )


def _use(subject: QuerySubject) -> Rows:
    for gpu, (used, _) in subject.use.items():
        for kernel in used.kernels:
            figures = (kernel.figures.get(metric) for metric in OF_KERNELS)
            shares = ((None,) * 3 if of is None else (of.percent, of.low, of.high) for of in figures)
            shape = (*kernel.grid, *kernel.block)
            times = (kernel.launches, kernel.time_ns)
            yield gpu, kernel.name, kernel.full_name, *shape, *times, str(kernel.use_class), *chain(*shares)


def _light(subject: QuerySubject) -> Rows:
    for device in subject.devices:
        for row in light_rows(device, all_steady(subject.trace, device, subject.use.get(device.gpu))):
            known = (None,) * 3 if row.share is None else (row.light_ns, row.low_ns, row.high_ns)
            source, roof = row.source.name.lower(), row.roof.name.lower()
            yield device.gpu, row.kernel, row.operator, row.count, row.took_ns, *known, source, roof


_IN_COLUMNS: Final[dict[str, Callable[[QuerySubject], TableValues]]] = {
    "lines": _lines,
    "gaps": _gaps,
    "gap_causes": _gap_causes,
}
_IN_ROWS: Final[dict[str, Callable[[QuerySubject], Rows]]] = {
    "gpus": _gpus,
    "steps": _steps,
    "findings": _findings,
    "use": _use,
    "light": _light,
}


def booked_values(subject: QuerySubject, table: QueryTable) -> TableValues:
    """A table of the books."""
    if table.name in _IN_ROWS:
        return row_values(table, _IN_ROWS[table.name](subject))
    return _IN_COLUMNS[table.name](subject)

"""What the books know of rows of the trace's own tables: the step, the launching call, the ranges around that call."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.name_paths import NamePaths
from gpuledger.catalog.call_kinds import CALL_KINDS
from gpuledger.ledger.activity import GRAPH_FAMILY, Activities, State
from gpuledger.ledger.calls import CUDA_LAYERS
from gpuledger.ledger.device import Device
from gpuledger.ledger.host import Host
from gpuledger.sql.column_values import ColumnValues, TableValues
from gpuledger.sql.subject import QuerySubject
from gpuledger.trace import sweep
from gpuledger.trace.columns import equal
from gpuledger.trace.keys import Positions
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, holds
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import NOT_RECORDED, Table


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
        values["step"] = ColumnValues(placed(_steps(subject, work.start_ns[at], work.gpu[at])))
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


def _steps(subject: QuerySubject, start_ns: Ints, gpu: NDArray[np.int32]) -> Ints:
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

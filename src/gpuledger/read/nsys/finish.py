"""Raw columns in nsys's numbering in, finished tables out: texts coded, processes and devices found, types narrowed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuledger.read.nsys.container import NULL
from gpuledger.read.nsys.devices import NsysDevices
from gpuledger.read.nsys.strings import TextCoding
from gpuledger.trace.columns import by_row, distinct, is_same, same
from gpuledger.trace.deadline import check
from gpuledger.trace.model import PID_BITS
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import NOT_RECORDED, Kind, Rows, Table

Raw = dict[str, Ints]
"""One table on its way in: int64 columns, text as ids, processes and threads in nsys's global numbering."""


_ON_GPU = (Table.KERNELS, Table.COPIES, Table.GRAPHS)


class TableFinisher:
    """Raw columns in, a finished table out: text coded, processes and devices resolved, types narrowed."""

    def __init__(self, coding: TextCoding, hosts: Ints, devices: NsysDevices) -> None:
        self.devices = devices
        self._coding = coding
        self._hosts = hosts

    def rows(self, table: Table, wanted: frozenset[str], raw: Raw) -> Rows:
        """The finished table. What is done with leaves `raw`, so that a column is not there twice for long."""
        columns: dict[str, NDArray[Any]] = {}
        if "tid" in raw:
            columns["tid"] = _thread(raw["tid"])
            raw["pid"] = raw.pop("tid")
        if "end_tid" in raw:
            columns["end_tid"] = _thread(raw["end_tid"])
        if "pid" in raw:
            columns["pid"] = self._process(raw.pop("pid"))
        if "hardware" in raw:
            columns["gpu"] = by_row(self.devices.numbered, by_row(_number, raw["hardware"]))
        elif "gpu" in wanted:
            device = by_row(_number, raw["device"])
            resolve = self.devices.resolve_work if table in _ON_GPU else self.devices.resolve
            columns["gpu"] = by_row(resolve, columns["pid"], device)
            if table in _ON_GPU:
                self.devices.count_assumed(device, columns["gpu"])
        for column in table.schema.columns:
            check()
            if column.name in wanted and column.name not in columns:
                columns[column.name] = self._column(column.name, column.kind, raw)
        chosen = {name: values for name, values in columns.items() if name in wanted}
        return Rows(table.schema, chosen, self._coding.strings)

    def _column(self, name: str, kind: Kind, raw: Raw) -> NDArray[Any]:
        if kind is Kind.TEXT:
            return by_row(self._coding.codes, raw.pop(name))
        if kind is Kind.TRIPLE:
            triple = np.empty((len(raw["start_ns"]), 3), np.int32)
            for place, axis in enumerate("xyz"):
                triple[:, place] = _number(raw.pop(f"{name}_{axis}"))
            return triple
        return by_row(lambda values: _number(values).astype(kind.dtype, copy=False), raw[name])

    def _process(self, global_id: Ints) -> Ints:
        """nsys's global id -> the host's index above the operating system's process id."""

        def one_by_one(ids: Ints) -> Ints:
            host = np.searchsorted(self._hosts, ids >> 2 * PID_BITS)
            pid = host << PID_BITS | (ids >> PID_BITS & (1 << PID_BITS) - 1)
            return np.where(ids == NULL, NOT_RECORDED, pid)

        return by_row(one_by_one, _of_one_process(global_id))


def _of_one_process(global_id: Ints) -> Ints:
    """The ids, or one for all of them: the process stands in the upper bits, so the least and the greatest tell."""
    if not len(global_id) or is_same(global_id):
        return global_id
    least, most = int(global_id.min()), int(global_id.max())
    is_one = least != NULL and least >> PID_BITS == most >> PID_BITS
    return same(least, len(global_id)) if is_one else global_id


def hosts(raw: Mapping[Table, Raw]) -> Ints:
    """The hosts that the events come from, in nsys's numbering."""
    seen = [np.empty(0, np.int64)]
    for columns in raw.values():
        ids = distinct(_of_one_process(columns.get("tid", columns.get("pid", seen[0]))))
        seen.append(ids[ids != NULL] >> 2 * PID_BITS)
    return distinct(np.concatenate(seen))


def ordinals(raw: Mapping[Table, Raw]) -> Ints:
    """CUDA's numbers of the devices that anything ran on."""
    tables = [raw[table] for table in _ON_GPU if table in raw]
    seen = [distinct(columns["device"]) for columns in tables if len(columns.get("device", ()))]
    numbers = distinct(np.concatenate([np.empty(0, np.int64), *seen]))
    known: Ints = numbers[(numbers != NULL) & (numbers != NOT_RECORDED)]
    return known


def _thread(global_id: Ints) -> Ints:
    def one_by_one(ids: Ints) -> Ints:
        threads = ids & (1 << PID_BITS) - 1
        return threads if ids.min(initial=0) != NULL else np.where(ids == NULL, NOT_RECORDED, threads)

    return by_row(one_by_one, global_id)


def _number(values: Ints) -> Ints:
    if values.min(initial=0) > NULL:
        return values
    return np.where(values == NULL, NOT_RECORDED, values)

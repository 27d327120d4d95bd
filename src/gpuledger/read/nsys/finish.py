"""Raw columns in nsys's numbering in, finished tables out: texts coded, processes and devices found, types narrowed.

Also the samples of a GPU's counters: numbers of metrics and of hardware become names and GPUs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import DTypeLike, NDArray

from gpuledger.limits import Limits
from gpuledger.read.columns import NULL, ColumnRange, StoredTables
from gpuledger.read.nsys.origin import NsysDevices, text_rows
from gpuledger.read.nsys.schema import actual_name
from gpuledger.read.request import counted
from gpuledger.trace import sweep
from gpuledger.trace.deadline import check
from gpuledger.trace.keys import by_row, distinct, group, is_same, same, take
from gpuledger.trace.model import PID_BITS, Note
from gpuledger.trace.spans import Ints
from gpuledger.trace.strings import NO_TEXT, Codes, Strings
from gpuledger.trace.tables import NOT_RECORDED, SELDOM_ASKED, Kind, Rows, Table
from gpuledger.units import count_text

_FIRST_OWN = 1 << 62
"""Own texts are numbered from here, above any id of nsys, so that nsys's order comes first."""

_MOST_PLACES = 1 << 22
"""Up to here nsys's ids have a table with a place for each."""


class TextCoding(Struct, frozen=True, dict=True):
    """The finished dictionary, and how to apply it."""

    strings: Strings
    notes: tuple[Note, ...]
    _ids: Ints
    """In order: nsys's by number, then ours, which are larger and follow one another."""
    _codes: Codes

    def codes(self, ids: Ints) -> Codes:
        least, most = int(ids.min(initial=0)), int(ids.max(initial=0))
        first_own = self._first_own
        if first_own is not None and (most < first_own or most >= _FIRST_OWN):
            place = ids if most < _FIRST_OWN else np.where(ids < _FIRST_OWN, ids, ids - (_FIRST_OWN - first_own))
            return take(self._by_place, place) if least >= 0 else self._by_place[np.maximum(place, -1)]
        if not len(self._ids):
            return np.full(len(ids), NO_TEXT, np.int32)
        nearest = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        return np.where(self._ids[nearest] == ids, self._codes[nearest], np.int32(NO_TEXT)).astype(np.int32)

    @property
    def _first_own(self) -> int | None:
        """Where our own ids begin in `_by_place`; None where nsys does not, as it mostly does, count its ids from 0."""
        last = int(self._ids[self._ids < _FIRST_OWN].max(initial=-1))
        is_counted = len(self._ids) and self._ids[0] >= 0 and last < _MOST_PLACES
        return last + 1 if is_counted else None

    @cached_property
    def _by_place(self) -> Codes:
        """The code of each of nsys's ids, then of each of ours, and last of what has no text: one look for each."""
        theirs = self._ids[self._ids < _FIRST_OWN]
        table = np.full(int(theirs.max(initial=-1)) + 1, NO_TEXT, np.int32)
        table[theirs] = self._codes[: len(theirs)]
        return np.concatenate((table, self._codes[len(theirs) :], np.array([NO_TEXT], np.int32)))


class TextCoder:
    """Collects the texts that the tables use."""

    def __init__(self) -> None:
        self._own: dict[str | bytes, int] = {}
        self._used: list[Ints] = []

    def own(self, text: str | bytes) -> int:
        """The id of a text of ours; bytes are decoded with the others at the end."""
        return self._own.setdefault(text, _FIRST_OWN + len(self._own))

    def use(self, ids: Ints, known: ColumnRange | None = None) -> Ints:
        """Note that a column uses these ids of nsys; gives them back, none of them in the place of ours."""
        bounds = None if known is None or known.nulls or not len(ids) else (known.least, known.most)
        if (ids.max(initial=0) if bounds is None else bounds[1]) >= _FIRST_OWN:
            ids, bounds = np.minimum(ids, _FIRST_OWN - 1), None
        self._used.append(distinct(ids, bounds))
        return ids

    def labels(self, values: Ints, names: Mapping[int, str]) -> Ints:
        """A column of nsys's enumeration values as ids of their labels; NULL where a value has none."""

        def one_by_one(some: Ints) -> Ints:
            values = distinct(some)
            ids = [self.own(names[value]) if value in names else NULL for value in values.tolist()]
            labelled: Ints = np.array(ids, np.int64)[sweep.search(values, some)]
            return labelled

        return by_row(one_by_one, values)

    def coding(self, export: StoredTables, limits: Limits) -> TextCoding:
        """Fetch what was used and code it: nsys's strings in nsys's order, then our own in the order they came."""
        used = distinct(np.concatenate([np.empty(0, np.int64), *self._used]))
        wanted = used[(used >= 0) & (used < _FIRST_OWN)]
        stored = export.texts_by_id("StringIds", "id", "value", wanted.tolist())
        decoder = _Decoder(limits.text_bytes)
        check()
        texts = dict(zip(stored, decoder.texts(list(stored.values())), strict=True))
        named = used[(used != NULL) & (used < _FIRST_OWN)].tolist()
        by_id = {number: texts.get(number, f"[string {number} is not in the export]") for number in named}
        by_id |= {number: own if isinstance(own, str) else decoder.text(own) for own, number in self._own.items()}
        code: dict[str, int] = {}
        codes = np.array([code.setdefault(text, len(code)) for text in by_id.values()], np.int32)
        check()
        notes = (*decoder.notes(), *counted("names-missing", len(named) - len(stored)))
        return TextCoding(Strings(code), notes, np.array(list(by_id), np.int64), codes)


class _Decoder:
    """Bytes to text. What is not UTF-8 stays visible as `\\xNN`, so that two different names stay different."""

    def __init__(self, longest: int) -> None:
        self._longest, self._odd, self._cut = longest, 0, 0

    def texts(self, stored: list[bytes]) -> list[str]:
        """All of them at once where that can be, as nearly always: there may be a million."""
        with contextlib.suppress(UnicodeDecodeError):  # then one by one, to see which
            whole = b"\0".join(stored).decode().split("\0")
            if len(whole) == len(stored) and max(map(len, stored), default=0) <= self._longest:
                return whole
        return [self.text(text) for text in stored]

    def text(self, stored: bytes) -> str:
        if len(stored) > self._longest:
            self._cut += 1
            stored = stored[: self._longest] + b"..."
        try:
            return stored.decode()
        except UnicodeDecodeError:
            self._odd += 1
            return stored.decode(errors="backslashreplace")

    def notes(self) -> list[Note]:
        cut = counted("names-cut", self._cut, longest=count_text(self._longest))
        return [*counted("names-not-utf8", self._odd), *cut]


Raw = dict[str, Ints]
"""One table on its way in: int64 columns, text as ids, processes and threads in nsys's global numbering."""

_ON_GPU = (Table.KERNELS, Table.COPIES, Table.GRAPHS)


class TableFinisher:
    """Raw columns in, a finished table out: text coded, processes and devices resolved, types narrowed."""

    def __init__(self, coding: TextCoding, hosts: Ints, devices: NsysDevices) -> None:
        self.devices, self._coding, self._hosts = devices, coding, hosts

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
            axes = [_number(raw.pop(f"{name}_{axis}")) for axis in "xyz"]
            triples = np.empty((len(axes[0]), 3), _narrowest(*axes))
            for place, axis in enumerate(axes):
                triples[:, place] = axis
            return triples
        values = by_row(_number, raw.pop(name))
        dtype = _narrowest(values) if name in SELDOM_ASKED else kind.dtype
        return by_row(lambda values: values.astype(dtype, copy=False), values)

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


def _thread(global_id: Ints) -> NDArray[np.int32]:
    def one_by_one(ids: Ints) -> NDArray[np.int32]:
        threads = np.empty(len(ids), np.int32)
        np.bitwise_and(ids, (1 << PID_BITS) - 1, out=threads)
        if ids.min(initial=0) == NULL:
            threads[ids == NULL] = NOT_RECORDED
        return threads

    return by_row(one_by_one, global_id)


def _number(values: Ints) -> Ints:
    if values.dtype == np.int32 or values.min(initial=0) > NULL:  # 32 bits are those that hold no NULL
        return values
    return np.where(values == NULL, NOT_RECORDED, values)


def _narrowest(*columns: Ints) -> DTypeLike:
    """The smallest integers that hold all of these."""
    least, most = min(values.min(initial=0) for values in columns), max(values.max(initial=0) for values in columns)
    return next(
        bits for bits in (np.int16, np.int32, np.int64) if least >= np.iinfo(bits).min and most <= np.iinfo(bits).max
    )


MOST_COUNTERS: Final = 100_000
"""GPUs times counters of an export that can be real; of one with more, none has a name."""

_GPU_BITS: Final = 0xFF


def metric_columns(export: StoredTables, coder: TextCoder, raw: Raw) -> tuple[Raw, int]:
    """Names in place of numbers, the GPU in place of the type of hardware; and how many counters have no name."""
    if not len(raw["start_ns"]):
        return raw | {"end_ns": raw["start_ns"]}, 0
    hardware_row, hardware = group(raw["hardware"])
    counter_row, counter = group(raw["name"])
    kinds, numbers = raw["hardware"][hardware_row].tolist(), raw["name"][counter_row].tolist()
    if len(kinds) * len(numbers) > MOST_COUNTERS:
        name = np.broadcast_to(np.int64(NULL), len(raw["name"]))
        unnamed = len(numbers)
    else:
        names = _names(export)
        texts = [[names.get((kind, number)) or f"metric {number}" for number in numbers] for kind in kinds]
        unnamed = sum(not any(names.get((kind, number)) for kind in kinds) for number in numbers)
        codes = np.array([[coder.own(text) for text in row] for row in texts], np.int64)
        name = by_row(lambda *place: codes[place], hardware, counter)
    gpu = by_row(lambda ids: np.where(ids == NULL, NULL, ids & _GPU_BITS), raw["hardware"])
    return raw | {"end_ns": raw["start_ns"], "name": name, "hardware": gpu}, unnamed


def lost_samples(export: StoredTables) -> list[Note]:
    """Counters that have names, which nsys writes where it samples them, and no sample."""
    samples = actual_name("GPU_METRICS", export.tables)
    counters = 0 if samples is not None and export.count(samples) else len(set(_names(export).values()))
    return counted("samples-lost", counters)


def _names(export: StoredTables) -> dict[tuple[int, int], str]:
    """The name of each counter; NULL stands for the hardware where the samples do not say it."""
    rows = text_rows(export, "TARGET_INFO_GPU_METRICS", ("metricName",), integers=("typeId", "metricId"))
    listed = {(row["typeId"], row["metricId"]): row["metricName"] for row in rows}
    return {(NULL, metric): name for (_, metric), name in listed.items()} | listed

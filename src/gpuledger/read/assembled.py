"""Raw columns of any reader in, a `Trace` out: rows without times dropped, what a format never says filled in.

A reader gathers numpy columns under our names, text as codes of one `TextCodes`. What all formats need done to them
before they are tables is done here: ranges nested, nodes of graphs numbered, widths narrowed, impossible times refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.errors import NothingRecorded
from gpuledger.limits import Limits
from gpuledger.messages import say
from gpuledger.read.causality import with_true_times
from gpuledger.read.checked_tables import assumed_gpu, refuse_impossible, unrecorded_work, within_bounds
from gpuledger.read.columns import NULL
from gpuledger.read.request import WantedColumns, counted, too_many_gpus, too_many_rows
from gpuledger.regex import regex
from gpuledger.trace.deadline import check
from gpuledger.trace.keys import distinct, group, is_among, occurrences
from gpuledger.trace.model import NOT_DESCRIBED, UNNAMED_GPU, Gpu, Note, NotMeasured, Origin, Trace, thread_number
from gpuledger.trace.spans import Ints, depths, parents
from gpuledger.trace.strings import NO_TEXT, Stacks, Strings
from gpuledger.trace.tables import NOT_RECORDED, TIMES, Kind, Rows, Schema, Table
from gpuledger.units import count_text

Columns = dict[str, NDArray[Any]]
"""One table on its way in, by the names of our columns."""

WORK: Final = (Table.KERNELS, Table.COPIES)


class TextCodes(dict[str, int]):
    """Gives each new text the next code."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self.cut = 0

    def __missing__(self, text: str) -> int:
        if len(text) > self._longest:
            self.cut += 1
            text = text[: self._longest] + "..."
        return self.setdefault(text, len(self))

    def column(self, texts: Iterable[str | None]) -> NDArray[np.int32]:
        """The codes of texts; NO_TEXT for None."""
        return np.array([NO_TEXT if text is None else self[text] for text in texts], np.int32)


class RawTables:
    """What a reader has gathered so far: parts of tables, and texts. Nothing that was not asked for is kept."""

    def __init__(self, name: str, wanted: WantedColumns, limits: Limits) -> None:
        self.name, self._wanted, self._limits = name, wanted, limits
        self.codes = TextCodes(limits.text_bytes)
        self.notes: list[Note] = []
        self._parts: dict[Table, list[Columns]] = {}

    @classmethod
    def of(
        cls, name: str, wanted: WantedColumns, limits: Limits, tables: Mapping[Table, Columns], texts: Iterable[str]
    ) -> RawTables:
        """Whole tables, whose texts have their codes already."""
        raw = cls(name, wanted, limits)
        raw.codes.update({text: code for code, text in enumerate(texts)})
        raw._parts = {table: [columns] for table, columns in tables.items()}
        return raw

    def numbers_of_gpus(self, *tables: Table) -> list[int]:
        """The numbers that rows of these tables have under `device`."""
        parts = [part["device"] for table in tables for part in self._parts.get(table, ())]
        return sorted({int(number) for part in parts for number in distinct(part)} - {NOT_RECORDED})

    def wants(self, *tables: Table) -> bool:
        return any(table in self._wanted for table in tables)

    def add(self, table: Table, columns: Columns, chosen: NDArray[np.bool_] | None = None) -> None:
        """Rows of one table, or those chosen; `start_ns` and `end_ns` may be NULL: left out, and counted."""
        if chosen is not None:
            columns = {name: values[chosen] for name, values in columns.items()}
        if table not in self._wanted or not len(columns["start_ns"]):
            return
        check()
        columns |= {time: within_bounds(columns[time].astype(np.int64, copy=False)) for time in TIMES}
        known = (columns["start_ns"] != NULL) & (columns["end_ns"] != NULL)
        lost = len(known) - int(np.count_nonzero(known))
        self.notes += counted("rows-dropped", lost, table=table.value, columns="start or end")
        if lost:
            columns = {name: values[known] for name, values in columns.items()}
        self._parts.setdefault(table, []).append(columns)
        if sum(len(part["start_ns"]) for part in self._parts[table]) > self._limits.rows_per_table:
            raise too_many_rows(self.name, table.value, self._limits.rows_per_table)

    def place_on_gpus(self, described: Mapping[int, Gpu], most: int) -> tuple[Gpu, ...]:
        """The GPUs of the profile; rows get `gpu`, and `device` as the same number, for the profile's own number.

        A number that a machine can have, below `most`, stays as it is; others are names, and count from 0 in their
        order. Work that does not say where it ran is put on the one GPU that has most, and that is noted.
        """
        work = [part for table in WORK for part in self._parts.get(table, ())]
        numbers = sorted({*self.numbers_of_gpus(*WORK), *described.keys()} - {NOT_RECORDED})
        is_plain = bool(numbers) and numbers[0] >= 0 and numbers[-1] < most
        number_of = {number: number if is_plain else place for place, number in enumerate(numbers)}
        if lacking := sum(int(np.count_nonzero(part["device"] == NOT_RECORDED)) for part in work):
            likely = _busiest(work, number_of)
            self.notes += assumed_gpu(lacking, likely)
            number_of[NOT_RECORDED] = likely
        gpus = [Gpu(NOT_DESCRIBED)] * (max(number_of.values(), default=-1) + 1)
        for number, place in number_of.items():
            if number != NOT_RECORDED or not numbers:
                gpus[place] = described.get(number, Gpu(UNNAMED_GPU))
        for part in (part for parts in self._parts.values() for part in parts if "device" in part):
            first, number_in = group(part["device"])
            own = [number_of.get(number, NOT_RECORDED) for number in part["device"][first].tolist()]
            part["gpu"] = part["device"] = np.array(own, np.int64)[number_in]
        return tuple(gpus)

    def complete(self, main_pid: int) -> dict[Table, Columns]:
        """The parts of each table together, with what no event says; rows that name no process are of `main_pid`."""
        tables = {
            table: together(parts) for table, parts in self._parts.items() if any(len(p["start_ns"]) for p in parts)
        }
        self._parts = {table: [columns] for table, columns in tables.items()}
        for table, columns in tables.items():
            check()
            complete(table, columns, main_pid)
            if table is Table.RANGES:
                nest(columns)
        number_graph_nodes(tables, list(self.codes))
        return tables

    def trace(self, origin: Origin, main_pid: int) -> Trace:
        """The finished trace; rows that name no process are of `main_pid`."""
        tables = self.complete(main_pid)
        if not tables and not any(count for _, count in origin.source_rows):
            raise NothingRecorded(
                f"{self.name}: the profile holds no events", hint="the profiler was stopped before it started"
            )
        return self.finish(origin)

    def finish(self, origin: Origin, stacks: Stacks | None = None) -> Trace:
        """The trace of completed tables."""
        raw = {table: columns for table, [columns] in self._parts.items()}
        if len(origin.gpus) > self._limits.gpus:
            raise too_many_gpus(self.name, len(origin.gpus), self._limits.gpus)
        self._tell_unlinked(raw)
        self.notes += counted("names-cut", self.codes.cut, longest=count_text(self._limits.text_bytes))
        strings = Strings(self.codes)
        tables = {
            table: finished(table.schema, self._wanted[table], columns, strings) for table, columns in raw.items()
        }
        for table, rows in tables.items():
            self.notes += counted("times-backward", int((rows.duration_ns < 0).sum()), table=table.value)
        refuse_impossible(self.name, tables, origin.gpus, self._limits)
        tables, damage = with_true_times(tables)
        absent = {
            table: NotMeasured(say("no {table} were recorded", table=table.value))
            for table in self._wanted
            if table not in tables
        }
        notes = (*self.notes, *unrecorded_work(tables, frozenset(self._wanted)), *damage)
        return Trace(origin, notes, strings, tables, absent, stacks or Stacks())

    def _tell_unlinked(self, raw: Mapping[Table, Columns]) -> None:
        """Work of which none says which call launched it, though there are calls that can be named."""
        calls = raw.get(Table.CALLS, {}).get("correlation", np.empty(0))
        for table in WORK:
            if table in raw and (calls >= 0).any() and (raw[table]["correlation"] == NOT_RECORDED).all():
                lost = say("which call launched which work is not known")
                self.notes += counted("links-missing", 1, table=table.value, column="correlation", lost=lost)


def _busiest(parts: Sequence[Columns], number_of: Mapping[int, int]) -> int:
    rows = np.concatenate([part["device"] for part in parts])
    numbers, counts = occurrences(rows[rows != NOT_RECORDED])
    return number_of[int(numbers[counts.argmax()])] if len(numbers) else 0


def complete(table: Table, columns: Columns, pid: int) -> None:
    """Fill in what a profile does not say: the process, and columns that it never records."""
    count = len(columns["start_ns"])
    own = columns.get("pid", np.full(count, NOT_RECORDED))
    columns["pid"] = np.where(own == NOT_RECORDED, pid, own)
    for column in table.schema.columns:
        if column.name not in columns:
            shape = (count, 3) if column.kind is Kind.TRIPLE else count
            columns[column.name] = np.full(shape, NOT_RECORDED, column.kind.dtype)


def nest(columns: Columns) -> None:
    """Depth and parent of each range among those of its kind on its thread."""
    parent = np.full(len(columns["start_ns"]), NOT_RECORDED, np.int64)
    thread = thread_number(columns["pid"], columns["tid"])
    for kind in distinct(columns["kind"]).tolist():
        mine = np.flatnonzero(columns["kind"] == kind)
        up = parents(columns["start_ns"][mine], columns["end_ns"][mine], thread[mine])
        parent[mine] = np.where(up >= 0, mine[up], NOT_RECORDED)
    columns["parent"], columns["depth"] = parent, depths(parent)
    columns["open"] = np.zeros(len(parent), np.bool_)


def number_graph_nodes(raw: Mapping[Table, Columns], texts: Sequence[str]) -> None:
    """Kernels of a graph, where its nodes have no numbers: those that a graph launch launched, in order."""
    if Table.KERNELS not in raw or Table.CALLS not in raw:
        return
    kernels, calls = raw[Table.KERNELS], raw[Table.CALLS]
    launching = [code for code in distinct(calls["name"]).tolist() if "GraphLaunch" in texts[code]]
    graphs = calls["correlation"][is_among(calls["name"], launching)]
    mine = np.flatnonzero(is_among(kernels["correlation"], graphs) & (kernels["graph_node"] <= 0))
    kernels["graph_node"] = np.where(kernels["graph_node"] == 0, NOT_RECORDED, kernels["graph_node"])
    order = mine[np.lexsort((kernels["start_ns"][mine], kernels["correlation"][mine]))]
    launch = kernels["correlation"][order]
    first = np.searchsorted(launch, launch, side="left")
    kernels["graph_node"][order] = 1 + np.arange(len(order)) - first


def finished(schema: Schema, wanted: Collection[str], columns: Columns, strings: Strings) -> Rows:
    """What is wanted of the raw columns, which are given up one by one."""
    chosen = {}
    for column in schema.columns:
        values = columns.pop(column.name)
        if column.name in wanted:
            chosen[column.name] = as_kept(column.kind, values)
    return Rows(schema, chosen, strings)


def as_kept(kind: Kind, wide: NDArray[Any]) -> NDArray[Any]:
    """A column as wide as it is kept, in memory of its own; what does not fit was not recorded."""
    narrow: NDArray[Any] = np.ascontiguousarray(wide, kind.dtype)
    if kind in (Kind.INT32, Kind.TRIPLE) and wide.dtype != narrow.dtype:
        narrow[wide != narrow] = NOT_RECORDED
    return narrow


def together(parts: list[Columns]) -> Columns:
    """The columns of several parts in a row; what one lacks is filled in. Takes them out of the parts, one by one."""
    lengths = [len(part["start_ns"]) for part in parts]
    whole: Columns = {}
    for key in sorted(set().union(*parts)):
        example = next(part[key] for part in parts if key in part)
        own = [
            part.pop(key) if key in part else np.full((length, *example.shape[1:]), NOT_RECORDED, example.dtype)
            for part, length in zip(parts, lengths, strict=True)
        ]
        whole[key] = own[0] if len(own) == 1 else np.concatenate(own)
    return whole


_SIDES: Final = {"H": "Host", "D": "Device"}
_WAY: Final = regex(r"(H(?:OST)?|D(?:EVICE)?)_?(?:TO|2)_?(H|D|HOST|DEVICE)(?![a-z])", re.IGNORECASE)
_FILL: Final = regex(r"fill|memset", re.IGNORECASE)


def copy_kind(name: str) -> str:
    """NVIDIA's label for a copy as others call it: CopyHostToDevice, MemcpyH2D, FillBuffer."""
    if way := _WAY.search(name):
        source, target = (_SIDES[side[0].upper()] for side in way.groups())
        return f"{source}-to-{target}"
    return "Memset" if _FILL.search(name) else "Unknown"


def copy_columns(raw: RawTables, names: NDArray[np.int64], texts: list[str]) -> Columns:
    """Kind and the two memories of copies, named by numbers of texts; which host memory is not said."""
    kinds = [copy_kind(text) for text in texts] + ["Unknown"]
    source = ["Device" if kind.startswith("Device") else "Unknown" for kind in kinds]
    target = ["Device" if kind.endswith("Device") or kind == "Memset" else "Unknown" for kind in kinds]
    coded = {"kind": kinds, "src_kind": source, "dst_kind": target}
    return {column: raw.codes.column(said)[names] for column, said in coded.items()}


def ints(values: Iterable[int | None]) -> Ints:
    """Whole numbers as a column; NULL for None, and for what 64 bits do not hold."""
    kept = [value if type(value) is int and -(2**63) < value < 2**63 else NULL for value in values]
    return np.array(kept, np.int64)


def value_by_key(wanted: Ints, keys: Ints, values: NDArray[Any], missing: int = NOT_RECORDED) -> NDArray[Any]:
    """For each of `wanted` the value beside its key, the first of several."""
    if not len(keys):
        return np.full(len(wanted), missing)
    order = np.argsort(keys, kind="stable")
    place = order[np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)]
    return np.where(keys[place] == wanted, values[place], missing)


def recorded(values: Ints) -> Ints:
    """The same with NOT_RECORDED for NULL."""
    return np.where(values == NULL, NOT_RECORDED, values)

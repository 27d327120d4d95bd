"""torch.profiler (Kineto) trace -> Trace. NVIDIA and AMD, torch 1.9 to today.

Events become columns batch by batch, so that memory holds the columns and one batch. Operators and Python functions are
ranges of their own kinds beside the user's annotations. Kernels carry no process: they belong to the one that launched
the file's calls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from gpuledger.errors import NothingRecorded
from gpuledger.limits import Limits
from gpuledger.model.health import Note, NotMeasured, Severity
from gpuledger.model.spans import depths, parents
from gpuledger.model.strings import NO_TEXT, Strings
from gpuledger.model.tables import NOT_RECORDED, Kind, Rows, Table
from gpuledger.model.trace import Trace
from gpuledger.read.events import Args, Event, EventStream
from gpuledger.read.exact import nanoseconds
from gpuledger.read.export import Progress, Wanted
from gpuledger.read.source import Source, opened, unrecognised
from gpuledger.read.stream import GZIP, Bytes, Plain, unpacked
from gpuledger.read.torch_columns import CATEGORIES, Codes, Columns, Shaper
from gpuledger.read.torch_origin import Devices, describe
from gpuledger.read.torch_stacks import call_stacks
from gpuledger.units import count_text

_NO_ARGS: Final = Args()


def looks_like_json(head: bytes) -> bool:
    """Whether something that begins so may be a trace."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[") and bool(head)


class TorchReader:
    """torch.profiler trace -> Trace, plain or gzipped."""

    name = "torch json"

    def recognises(self, source: Source) -> bool:
        return source.head.startswith(GZIP) or looks_like_json(source.head)

    def read(self, source: Source, wanted: Wanted, limits: Limits, progress: Progress) -> Trace:
        with opened(source) as file:
            head, stream = unpacked(Plain(file), source.name, limits)
            is_packed = source.head.startswith(GZIP)
            if not looks_like_json(head):
                raise unrecognised(replace(source, head=head or b"\0"))
            return read_torch(stream, source.name, "json.gz" if is_packed else "json", wanted, limits, progress)


def read_torch(stream: Bytes, name: str, container: str, wanted: Wanted, limits: Limits, progress: Progress) -> Trace:
    """Read what `wanted` names of one trace."""
    events = EventStream(stream, name, limits)
    reading = _Reading(wanted, limits)
    for batch in events.batches():
        reading.take(batch)
        progress("events", reading.events)
    if not reading.events:
        raise NothingRecorded(f"{name}: the trace holds no events", hint="the profiler was stopped before it started")
    return reading.trace(events, name, container)


class _Reading:
    """Collects the columns of all batches."""

    def __init__(self, wanted: Wanted, limits: Limits) -> None:
        self._wanted = wanted
        self.codes = Codes(limits.text_bytes)
        self._shaper = Shaper(self.codes, with_inputs="inputs" in wanted.get(Table.RANGES, ()))
        self.events = 0
        self._parts: dict[Table, list[Columns]] = {}
        self._process_names: dict[int, str] = {}
        self._seen: dict[str, int] = {}
        self._untimed = self._begin_end = 0

    def take(self, batch: list[Event]) -> None:
        """Add one batch."""
        self.events += len(batch)
        by_category: defaultdict[str, list[Event]] = defaultdict(list)
        for event in batch:
            by_category[event.cat].append(event)
        for category, events in by_category.items():
            self._seen[category] = self._seen.get(category, 0) + len(events)
            if category not in CATEGORIES:
                self._take_others(events)
                continue
            if {event.ph for event in events} != {"X"}:
                self._begin_end += sum(event.ph in ("B", "E") for event in events)
                events = [event for event in events if event.ph == "X"]
            for table, kind, shape in CATEGORIES[category]:
                if table in self._wanted:
                    self._add(table, kind, shape, events)

    def _take_others(self, events: list[Event]) -> None:
        """Names of processes, memory events; arrows between events are left alone, as correlation says the same."""
        if events[0].ph in ("s", "f", "t"):
            return
        memory = []
        for event in events:
            if event.ph == "M" and event.name == "process_name" and isinstance(event.pid, int) and event.args:
                self._process_names.setdefault(event.pid, event.args.name)
            elif event.ph == "i" and event.name == "[memory]":
                memory.append(event)
        if memory and Table.ALLOCS in self._wanted:
            self._add(Table.ALLOCS, "memory", Shaper.allocs, memory)

    def _add(self, table: Table, kind: str, shape: Callable[..., Columns], events: list[Event]) -> None:
        if table is Table.COLLECTIVES:
            events = [event for event in events if event.args is not None and event.args.collective]
        if not events:
            return
        start, timed = nanoseconds([event.ts for event in events])
        if not timed.all():
            self._untimed += int((~timed).sum())
            events = [event for event, good in zip(events, timed.tolist(), strict=True) if good]
            start = start[timed]
            if not events:
                return
        length, has_length = nanoseconds([event.dur for event in events])
        self._untimed += 0 if kind == "memory" else int((~has_length).sum())
        args = [event.args or _NO_ARGS for event in events]
        columns = shape(self._shaper, events, args, kind) | {"start_ns": start, "end_ns": start + length}
        self._parts.setdefault(table, []).append(columns)

    def trace(self, events: EventStream, name: str, container: str) -> Trace:
        """All columns together as tables."""
        raw = {
            table: {key: np.concatenate([part[key] for part in parts]) for key in _keys(parts)}
            for table, parts in self._parts.items()
        }
        devices = Devices(events.metadata, [raw[table]["device"] for table in _ON_GPU if table in raw])
        pid = self._main_process(raw)
        tables: dict[Table, Rows] = {}
        for table, columns in raw.items():
            _complete(table, columns, devices, pid)
            if table is Table.RANGES:
                _nest(columns)
            elif table is Table.KERNELS:
                columns["short_name"] = columns["mangled_name"] = np.full(len(columns["name"]), NO_TEXT)
        _graph_nodes(raw, self.codes)
        stacks = call_stacks(raw, self.codes) if "stack" in self._wanted.get(Table.CALLS, ()) else None
        strings = Strings(self.codes)
        for table, columns in raw.items():
            if len(columns["start_ns"]):
                tables[table] = _rows(table, self._wanted[table], columns, strings)
        absent = {
            table: NotMeasured(f"no {table.value} were recorded") for table in self._wanted if table not in tables
        }
        origin = describe(events.metadata, container, devices, self._process_names, tables, self._seen)
        notes = (*events.notes(), *self._doubts(tables))
        if stacks is None:
            return Trace(origin, notes, strings, tables, absent)
        return Trace(origin, notes, strings, tables, absent, stacks)

    def _main_process(self, raw: Mapping[Table, Columns]) -> int:
        """The process of most calls, else of most ranges, else the first that has a name."""
        for table in (Table.CALLS, Table.RANGES):
            if table in raw:
                pids, counts = np.unique(raw[table]["pid"], return_counts=True)
                return int(pids[counts.argmax()])
        return min(self._process_names, default=0)

    def _doubts(self, tables: Mapping[Table, Rows]) -> list[Note]:
        found = []
        if self._untimed:
            sentence = (
                f"{count_text(self._untimed)} events have no usable time or duration and were left out or cut short"
            )
            found.append(Note(Severity.LOSS, "events-untimed", sentence, self._untimed))
        if self._begin_end:
            sentence = (
                f"{count_text(self._begin_end)} events are given by begin and end, which torch does not do; left out"
            )
            found.append(Note(Severity.LOSS, "events-begin-end", sentence, self._begin_end))
        if self.codes.cut:
            sentence = f"{count_text(self.codes.cut)} names were too long and were cut"
            found.append(Note(Severity.WARNING, "names-cut", sentence, self.codes.cut))
        foreign = sorted(category for category in self._seen if category.startswith("mtia"))
        if foreign:
            count = sum(self._seen[category] for category in foreign)
            sentence = f"{count_text(count)} events of an MTIA accelerator were left out: only GPUs are understood"
            found.append(Note(Severity.LOSS, "mtia", sentence, count))
        for table, rows in tables.items():
            if backward := int((rows.duration_ns < 0).sum()):
                sentence = f"{count_text(backward)} {table.value} end before they begin"
                found.append(Note(Severity.WARNING, "times-backward", sentence, backward))
        return found


_ON_GPU: Final = (Table.KERNELS, Table.COPIES, Table.SYNCS, Table.ALLOCS)


def _keys(parts: list[Columns]) -> set[str]:
    """The columns of all parts; what one lacks is filled in."""
    keys = set().union(*parts)
    for part in parts:
        for key in keys - part.keys():
            part[key] = np.full(len(part["start_ns"]), NOT_RECORDED)
    return keys


def _complete(table: Table, columns: Columns, devices: Devices, pid: int) -> None:
    """Fill in what Kineto does not say: which GPU, which process, and columns that it never records."""
    count = len(columns["start_ns"])
    if "device" in columns:
        columns["gpu"] = devices.resolve(columns["device"])
    columns.setdefault("pid", np.full(count, pid))
    for column in table.schema.columns:
        columns.setdefault(column.name, np.full(count, NOT_RECORDED))


def _nest(columns: Columns) -> None:
    """Depth and parent of each range among those of its kind on its thread."""
    parent = np.full(len(columns["start_ns"]), NOT_RECORDED, np.int64)
    thread = (columns["pid"] << 32) + columns["tid"]
    for kind in np.unique(columns["kind"]).tolist():
        mine = np.flatnonzero(columns["kind"] == kind)
        up = parents(columns["start_ns"][mine], columns["end_ns"][mine], thread[mine])
        parent[mine] = np.where(up >= 0, mine[up], NOT_RECORDED)
    columns["parent"], columns["depth"] = parent, depths(parent)
    columns["open"] = np.zeros(len(parent), np.int64)


def _graph_nodes(raw: Mapping[Table, Columns], codes: Codes) -> None:
    """Kernels of a graph, where Kineto does not number its nodes: those that a graph launch launched, in order."""
    if Table.KERNELS not in raw or Table.CALLS not in raw:
        return
    kernels, calls = raw[Table.KERNELS], raw[Table.CALLS]
    texts = list(codes)
    launching = [code for code in np.unique(calls["name"]).tolist() if "GraphLaunch" in texts[code]]
    graphs = calls["correlation"][np.isin(calls["name"], launching)]
    mine = np.flatnonzero(np.isin(kernels["correlation"], graphs) & (kernels["graph_node"] <= 0))
    kernels["graph_node"] = np.where(kernels["graph_node"] == 0, NOT_RECORDED, kernels["graph_node"])
    order = mine[np.lexsort((kernels["start_ns"][mine], kernels["correlation"][mine]))]
    launch = kernels["correlation"][order]
    first = np.searchsorted(launch, launch, side="left")
    kernels["graph_node"][order] = 1 + np.arange(len(order)) - first


def _rows(table: Table, wanted: frozenset[str], columns: Columns, strings: Strings) -> Rows:
    chosen = {
        column.name: columns[column.name].astype(column.kind.dtype)
        for column in table.schema.columns
        if column.name in wanted
    }
    for column in table.schema.columns:
        if column.kind is Kind.INT32 and column.name in chosen:
            wide = columns[column.name]
            chosen[column.name][wide != chosen[column.name]] = NOT_RECORDED
    return Rows(table.schema, chosen, strings)

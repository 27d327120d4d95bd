"""torch.profiler (Kineto) trace -> Trace. NVIDIA and AMD, torch 1.9 to today.

Events become columns batch by batch, so that memory holds the columns and one batch. Operators and Python functions are
ranges of their own kinds beside the user's annotations. Kernels carry no process: they belong to the one that launched
the file's calls.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from gpuledger.errors import NothingRecorded
from gpuledger.limits import Limits
from gpuledger.model.health import Note, NotMeasured, Severity
from gpuledger.model.spans import Ints, depths, parents
from gpuledger.model.strings import NO_TEXT, Strings
from gpuledger.model.tables import NOT_RECORDED, Kind, Rows, Table
from gpuledger.model.trace import Trace
from gpuledger.read.events import Args, Event, EventStream
from gpuledger.read.exact import nanoseconds
from gpuledger.read.export import Progress, Wanted
from gpuledger.read.stream import Bytes
from gpuledger.read.torch_origin import Devices, describe
from gpuledger.read.torch_stacks import call_stacks
from gpuledger.units import count_text

Columns = dict[str, NDArray[Any]]
_NO_ARGS: Final = Args()
_SPACED: Final = bytes.maketrans(b"[]", b"  ")


class Codes(dict[str, int]):
    """Gives each new text the next code."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self.cut = 0

    def __missing__(self, text: str) -> int:
        if len(text) > self._longest:
            self.cut += 1
            text = text[: self._longest] + "..."
        return self.setdefault(text, len(self))


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
        self.events = 0
        self._parts: dict[Table, list[Columns]] = {}
        self._process_names: dict[int, str] = {}
        self._seen: dict[str, int] = {}
        self._untimed = self._begin_end = 0
        self._threads: dict[str, int] = {}
        self._known_inputs: dict[tuple[bytes, bytes], int] = {}

    def take(self, batch: list[Event]) -> None:
        """Add one batch."""
        self.events += len(batch)
        by_category: defaultdict[str, list[Event]] = defaultdict(list)
        for event in batch:
            by_category[event.cat].append(event)
        for category, events in by_category.items():
            self._seen[category] = self._seen.get(category, 0) + len(events)
            if category not in _CATEGORIES:
                self._take_others(events)
                continue
            if {event.ph for event in events} != {"X"}:
                self._begin_end += sum(event.ph in ("B", "E") for event in events)
                events = [event for event in events if event.ph == "X"]
            for table, kind, shape in _CATEGORIES[category]:
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
            self._add(Table.ALLOCS, "memory", _Reading.allocs, memory)

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
        columns = shape(self, events, args, kind) | {"start_ns": start, "end_ns": start + length}
        self._parts.setdefault(table, []).append(columns)

    # One method per kind of event: its columns beside the times.

    def kernels(self, events: list[Event], args: list[Args], _: str) -> Columns:
        return self._where(args) | {
            "name": self._text([event.name for event in events]),
            "grid": _triples([each.grid for each in args]),
            "block": _triples([each.block for each in args]),
            "registers": _ints([each.registers for each in args]),
            "smem_dynamic_bytes": _ints([each.shared_memory for each in args]),
            "graph": _ints([each.graph for each in args]),
            "graph_node": _ints([each.graph_node for each in args]),
        }

    def copies(self, events: list[Event], args: list[Args], kind: str) -> Columns:
        names = [event.name for event in events]
        parts = {name: _copy_kind(name, kind) for name in set(names)}
        return self._where(args) | {
            "kind": self._text([parts[name][0] for name in names]),
            "src_kind": self._text([parts[name][1] for name in names]),
            "dst_kind": self._text([parts[name][2] for name in names]),
            "bytes": self._numbers([each.bytes for each in args]),
        }

    def calls(self, events: list[Event], args: list[Args], kind: str) -> Columns:
        return self._thread(events) | {
            "correlation": _ints([each.correlation for each in args]),
            "name": self._text([event.name for event in events]),
            "layer": np.full(len(events), self.codes[kind]),
        }

    def ranges(self, events: list[Event], args: list[Args], kind: str) -> Columns:
        own = {"name": self._text([event.name for event in events]), "kind": np.full(len(events), self.codes[kind])}
        if kind == "op" and "inputs" in self._wanted[Table.RANGES]:
            own["inputs"] = self._inputs(args)
        return self._thread(events) | own

    def _inputs(self, args: list[Args]) -> Ints:
        """Shapes and types of operators' inputs, each distinct pair coded once; they come as JSON and stay so."""
        dims = b"\0".join([each.dims or each.dims_2021 for each in args]).split(b"\0")
        types = b"\0".join([each.types for each in args]).split(b"\0")
        pairs = self._known_inputs
        for pair in set(zip(dims, types, strict=True)) - pairs.keys():
            text = b"\n".join(pair).decode(errors="replace")
            pairs[pair] = NO_TEXT if text == "\n" else self.codes[text]
        return np.array([pairs[pair] for pair in zip(dims, types, strict=True)], np.int64)

    def syncs(self, events: list[Event], args: list[Args], _: str) -> Columns:
        return self._where(args) | {"kind": self._text([each.sync_kind for each in args])}

    def allocs(self, events: list[Event], args: list[Args], _: str) -> Columns:
        given = _ints([each.memory_bytes for each in args])
        on_gpu = np.isin(_ints([each.memory_device_type for each in args]), _GPU_TYPES)
        operation = np.where(given >= 0, self.codes["Allocation"], self.codes["Deallocation"])
        device = _ints([each.memory_device for each in args])
        return {
            "device": np.where(on_gpu, device, NOT_RECORDED),
            "operation": operation,
            "bytes": np.abs(given),
            "address": _ints([each.address for each in args]),
            "memory_kind": np.where(on_gpu, self.codes["Device"], self.codes["Pageable"]),
        }

    def overheads(self, events: list[Event], _: list[Args], __: str) -> Columns:
        return self._thread(events) | {"name": self._text([event.name for event in events])}

    def collectives(self, events: list[Event], args: list[Args], kind: str) -> Columns:
        of_kernel = kind == "kernel"
        thread = {"tid": np.full(len(events), NOT_RECORDED)} if of_kernel else self._thread(events)
        correlation = _ints([each.correlation if of_kernel else NOT_RECORDED for each in args])
        return thread | {
            "correlation": correlation,
            "name": self._text([each.collective for each in args]),
            "group": self._raw([each.group for each in args]),
            "ranks": self._raw([each.ranks for each in args]),
            "group_size": _ints([each.group_size for each in args]),
            "in_elements": _ints([each.in_elements for each in args]),
            "out_elements": _ints([each.out_elements for each in args]),
            "dtype": self._text([each.dtype for each in args]),
        }

    def _where(self, args: list[Args]) -> Columns:
        return {
            "device": _ints([each.device for each in args]),
            "context": _ints([each.context for each in args]),
            "stream": _ints([each.stream for each in args]),
            "correlation": _ints([each.correlation for each in args]),
        }

    def _thread(self, events: list[Event]) -> Columns:
        return {"pid": self._numbers([event.pid for event in events]), "tid": self._numbers([e.tid for e in events])}

    def _numbers(self, values: list[int | str]) -> Ints:
        """Process and thread ids; a text that holds no number gets one of its own, below any other."""
        try:
            return np.array(values, np.int64)
        except (ValueError, OverflowError):
            return np.array([self._number(value) for value in values], np.int64)

    def _number(self, value: int | str) -> int:
        if isinstance(value, int):
            return value if abs(value) < 2**62 else NOT_RECORDED
        if re.fullmatch(r"-?\d{1,18}", value):
            return int(value)
        return self._threads.setdefault(value, -2 - len(self._threads))

    def _text(self, texts: list[str]) -> Ints:
        codes = self.codes
        return np.array([codes[text] for text in texts], np.int64)

    def _raw(self, texts: Sequence[Any]) -> Ints:
        """Codes of texts that are JSON of their own; NO_TEXT where there is none."""
        found = [bytes(text) for text in texts]
        codes = {text: self.codes[text.decode(errors="replace").strip('"')] if text else NO_TEXT for text in set(found)}
        return np.array([codes[text] for text in found], np.int64)

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
        absent = {table: NotMeasured(f"no {table.value} were recorded") for table in self._wanted if table not in tables}
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
            sentence = f"{count_text(self._untimed)} events have no usable time or duration and were left out or cut short"
            found.append(Note(Severity.LOSS, "events-untimed", sentence, self._untimed))
        if self._begin_end:
            sentence = f"{count_text(self._begin_end)} events are given by begin and end, which torch does not do; left out"
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
_GPU_TYPES: Final = (1, 6)
"""CUDA and HIP in torch's numbering of device types."""

_COPY: Final = re.compile(r"Memcpy (?P<way>\w+) \((?P<source>\w+) -> (?P<target>\w+)\)")
_WAYS: Final = {
    "HtoD": "Host-to-Device",
    "DtoH": "Device-to-Host",
    "DtoD": "Device-to-Device",
    "HtoH": "Host-to-Host",
    "PtoP": "Peer-to-Peer",
}
_KERNEL_FEEDS: Final = (
    (Table.KERNELS, "kernel", _Reading.kernels),
    (Table.COLLECTIVES, "kernel", _Reading.collectives),
)
_OP_FEEDS: Final = ((Table.RANGES, "op", _Reading.ranges), (Table.COLLECTIVES, "op", _Reading.collectives))
_CATEGORIES: Final[Mapping[str, tuple[tuple[Table, str, Callable[..., Columns]], ...]]] = {
    "kernel": _KERNEL_FEEDS,
    "Kernel": _KERNEL_FEEDS,
    "gpu_memcpy": ((Table.COPIES, "copy", _Reading.copies),),
    "Memcpy": ((Table.COPIES, "copy", _Reading.copies),),
    "gpu_memset": ((Table.COPIES, "set", _Reading.copies),),
    "Memset": ((Table.COPIES, "set", _Reading.copies),),
    "cuda_runtime": ((Table.CALLS, "runtime", _Reading.calls),),
    "Runtime": ((Table.CALLS, "runtime", _Reading.calls),),
    "cuda_driver": ((Table.CALLS, "driver", _Reading.calls),),
    "cpu_op": _OP_FEEDS,
    "Operator": _OP_FEEDS,
    "user_annotation": ((Table.RANGES, "push_pop", _Reading.ranges),),
    "python_function": ((Table.RANGES, "python", _Reading.ranges),),
    "cuda_sync": ((Table.SYNCS, "sync", _Reading.syncs),),
    "overhead": ((Table.OVERHEADS, "overhead", _Reading.overheads),),
}
"""What the events of each category are, in the spellings of 2021 and of today."""


def _copy_kind(name: str, kind: str) -> tuple[str, str, str]:
    """NVIDIA's label of a copy, and the memories it joins, from Kineto's name for it."""
    if kind == "set":
        inside = re.search(r"\((\w+)\)", name)
        return "Memset", "Unknown", inside[1] if inside else "Unknown"
    match = _COPY.search(name)
    if match is None:
        return "Unknown", "Unknown", "Unknown"
    memory = {"Host": "Unknown"}  # AMD says only that it was the host's
    return (
        _WAYS.get(match["way"], "Unknown"),
        memory.get(match["source"], match["source"]),
        memory.get(match["target"], match["target"]),
    )


def _ints(values: Sequence[int]) -> Ints:
    try:
        return np.array(values, np.int64)
    except OverflowError:
        return np.array([value if -(2**63) <= value < 2**63 else NOT_RECORDED for value in values], np.int64)


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


def _triples(texts: Sequence[bytes | Raw]) -> Ints:
    """Grids and blocks from `[x, y, z]`; NOT_RECORDED where there is none."""
    numbers = np.fromstring(b",".join(texts).translate(_SPACED), np.int64, sep=",") if all(texts) else np.empty(0)
    if len(numbers) == 3 * len(texts):
        return numbers.reshape(-1, 3)
    return np.array([_triple(bytes(text)) for text in texts], np.int64).reshape(-1, 3)


def _triple(text: bytes) -> tuple[int, int, int]:
    numbers = [int(each) for each in re.findall(rb"\d{1,9}", text)[:3]]
    return (numbers[0], numbers[1], numbers[2]) if len(numbers) == 3 else (NOT_RECORDED,) * 3


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

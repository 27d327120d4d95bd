"""torch.profiler (Kineto) trace -> Trace. NVIDIA and AMD, torch 1.9 to today.

Events become columns batch by batch: memory holds the columns and one batch, never the text. Operators and Python
functions are ranges of their own kinds beside the user's annotations. Kernels carry no process: they belong to the one
that launched the file's calls.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Final

import numpy as np

from gpuledger.errors import NothingRecorded
from gpuledger.limits import Limits
from gpuledger.messages import say
from gpuledger.read.plausible_times import refuse_endless
from gpuledger.read.request import Progress, WantedColumns, too_many_gpus
from gpuledger.read.source import Source, in_time, opened, unrecognised
from gpuledger.read.stream import GZIP, ByteStream, PlainFile, read_ahead, unpacked
from gpuledger.read.torch.columns import Columns, TextCodes, as_kept
from gpuledger.read.torch.gather import GatheredEvents, gather
from gpuledger.read.torch.merge import by_table
from gpuledger.read.torch.origin import TorchDevices, describe
from gpuledger.read.torch.parallel import gather_in_parts
from gpuledger.read.torch.stacks import call_stacks
from gpuledger.read.unrecorded_work import unrecorded_work
from gpuledger.trace.deadline import check
from gpuledger.trace.health import Note, NotMeasured, Severity
from gpuledger.trace.model import Trace, thread_number
from gpuledger.trace.spans import depths, parents
from gpuledger.trace.stacks import Stacks
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import NOT_RECORDED, Rows, Table
from gpuledger.units import count_text

_DEEPEST: Final = 5000
"""No deeper than a thread's stack allows."""


_LOOKED_AT_BYTES: Final = 64 << 10
_KEYS_OF_A_TRACE: Final = re.compile(rb'"(?:traceEvents|deviceProperties|distributedInfo|ph)"\s*:')


def looks_like_json(head: bytes) -> bool:
    """Whether something that begins so may be a trace."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[") and bool(head)


def says_it_is_a_trace(source: Source, limits: Limits) -> bool:
    """Whether the first bytes of a JSON file, plain or gzipped, have keys of a trace: most JSON files are none."""
    with opened(source) as file:
        head, stream = unpacked(PlainFile(file), source.name, limits)
        stream.read(len(head))
        return _KEYS_OF_A_TRACE.search(head + stream.read(_LOOKED_AT_BYTES)) is not None


class TorchReader:
    """torch.profiler trace -> Trace, plain or gzipped."""

    name = "torch json"

    def recognises(self, source: Source) -> bool:
        return source.head.startswith(GZIP) or looks_like_json(source.head)

    def read(self, source: Source, wanted: WantedColumns, limits: Limits, progress: Progress) -> Trace:
        with in_time(source.name, limits), opened(source) as file:
            head, stream = unpacked(PlainFile(file), source.name, limits)
            is_packed = source.head.startswith(GZIP)
            if not looks_like_json(head):
                raise unrecognised(replace(source, head=head or b"\0"))
            container = "json.gz" if is_packed else "json"
            with nesting(limits.event_depth):
                whole = gather_in_parts(source, wanted, limits, progress)
            if whole is None:
                return read_torch(stream, source.name, container, wanted, limits, progress)
            return as_trace(whole, source.name, container, wanted, limits)


def read_torch(
    stream: ByteStream, name: str, container: str, wanted: WantedColumns, limits: Limits, progress: Progress
) -> Trace:
    """Read what `wanted` names of one stream; what is packed is unpacked while it is parsed."""
    with nesting(limits.event_depth), nullcontext(stream) if container == "json" else read_ahead(stream) as text:
        whole = gather(text, name, wanted, limits, progress)
    return as_trace(whole, name, container, wanted, limits)


@contextmanager
def nesting(levels: int) -> Iterator[None]:
    """Lets decoders go so deep: they count their levels as Python counts calls, up to Python 3.11."""
    before, frame, depth = sys.getrecursionlimit(), sys._getframe(), 0
    while (frame := frame.f_back) is not None:  # type: ignore[assignment]
        depth += 1
    sys.setrecursionlimit(max(before, depth + min(levels, _DEEPEST)))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def as_trace(whole: GatheredEvents, name: str, container: str, wanted: WantedColumns, limits: Limits) -> Trace:
    """Raw columns as tables: what Kineto does not say is worked out, text is coded."""
    if not whole.events:
        raise NothingRecorded(f"{name}: the trace holds no events", hint="the profiler was stopped before it started")
    check()
    raw, texts = by_table(whole)
    codes = TextCodes.of(texts)
    devices = TorchDevices(whole.metadata, [raw[table]["device"] for table in _ON_GPU if table in raw], limits.gpus)
    if len(devices.gpus) > limits.gpus:
        raise too_many_gpus(name, len(devices.gpus), limits.gpus)
    pid = _main_process(raw, whole.process_names)
    for table, columns in raw.items():
        check()
        _complete(table, columns, devices, pid)
        if table is Table.RANGES:
            _nest(columns)
    _graph_nodes(raw, texts)
    stacks = call_stacks(raw, codes) if "stack" in wanted.get(Table.CALLS, ()) else Stacks()
    strings = Strings(codes)
    tables = {table: _rows(table, wanted[table], columns, strings) for table, columns in raw.items()}
    refuse_endless(name, tables)
    absent = {
        table: NotMeasured(say("no {table} were recorded", table=table.value))
        for table in wanted
        if table not in tables
    }
    origin = describe(whole.metadata, container, devices, whole.process_names, tables, whole.seen)
    return Trace(
        origin,
        (*whole.notes, *_doubts(whole, tables), *devices.notes(), *unrecorded_work(tables, frozenset(wanted))),
        strings,
        tables,
        absent,
        stacks,
    )


def _main_process(raw: Mapping[Table, Columns], names: Mapping[int, str]) -> int:
    """The process of most calls, else of most ranges, else the first that has a name."""
    for table in (Table.CALLS, Table.RANGES):
        if table in raw:
            pids, counts = np.unique(raw[table]["pid"], return_counts=True)
            return int(pids[counts.argmax()])
    return min(names, default=0)


def _doubts(whole: GatheredEvents, tables: Mapping[Table, Rows]) -> list[Note]:
    found = []
    if whole.untimed:
        sentence = say(
            "{count} events have no usable time or duration and were left out or truncated",
            count=count_text(whole.untimed),
        )
        found.append(Note(Severity.LOSS, "events-untimed", sentence, whole.untimed))
    if whole.begin_end:
        sentence = say(
            "{count} events are given by begin and end, which torch does not do; left out",
            count=count_text(whole.begin_end),
        )
        found.append(Note(Severity.LOSS, "events-begin-end", sentence, whole.begin_end))
    if whole.names_cut:
        sentence = say("{count} names were too long and were truncated", count=count_text(whole.names_cut))
        found.append(Note(Severity.WARNING, "names-cut", sentence, whole.names_cut))
    foreign = sorted(category for category in whole.seen if category.startswith("mtia"))
    if foreign:
        count = sum(whole.seen[category] for category in foreign)
        sentence = say(
            "{count} events of an MTIA accelerator were left out: only GPUs are supported", count=count_text(count)
        )
        found.append(Note(Severity.LOSS, "mtia", sentence, count))
    for table, rows in tables.items():
        if backward := int((rows.duration_ns < 0).sum()):
            sentence = say("{count} {table} end before they start", count=count_text(backward), table=table.value)
            found.append(Note(Severity.WARNING, "times-backward", sentence, backward))
    return found


_WORK: Final = (Table.KERNELS, Table.COPIES)
_ON_GPU: Final = (*_WORK, Table.SYNCS, Table.ALLOCS)


def _complete(table: Table, columns: Columns, devices: TorchDevices, pid: int) -> None:
    """Fill in what Kineto does not say: which GPU, which process, and columns that it never records."""
    count = len(columns["start_ns"])
    if "device" in columns:
        resolve = devices.resolve_work if table in _WORK else devices.resolve
        columns["gpu"] = resolve(columns["device"])
    columns["pid"] = (
        np.where(columns["pid"] == NOT_RECORDED, pid, columns["pid"]) if "pid" in columns else (np.full(count, pid))
    )
    for column in table.schema.columns:
        if column.name not in columns:
            columns[column.name] = np.full(count, NOT_RECORDED, column.kind.dtype)


def _nest(columns: Columns) -> None:
    """Depth and parent of each range among those of its kind on its thread."""
    parent = np.full(len(columns["start_ns"]), NOT_RECORDED, np.int64)
    thread = thread_number(columns["pid"], columns["tid"])
    for kind in np.unique(columns["kind"]).tolist():
        mine = np.flatnonzero(columns["kind"] == kind)
        up = parents(columns["start_ns"][mine], columns["end_ns"][mine], thread[mine])
        parent[mine] = np.where(up >= 0, mine[up], NOT_RECORDED)
    columns["parent"], columns["depth"] = parent, depths(parent)
    columns["open"] = np.zeros(len(parent), np.bool_)


def _graph_nodes(raw: Mapping[Table, Columns], texts: list[str]) -> None:
    """Kernels of a graph, where Kineto does not number its nodes: those that a graph launch launched, in order."""
    if Table.KERNELS not in raw or Table.CALLS not in raw:
        return
    kernels, calls = raw[Table.KERNELS], raw[Table.CALLS]
    launching = [code for code in np.unique(calls["name"]).tolist() if "GraphLaunch" in texts[code]]
    graphs = calls["correlation"][np.isin(calls["name"], launching)]
    mine = np.flatnonzero(np.isin(kernels["correlation"], graphs) & (kernels["graph_node"] <= 0))
    kernels["graph_node"] = np.where(kernels["graph_node"] == 0, NOT_RECORDED, kernels["graph_node"])
    order = mine[np.lexsort((kernels["start_ns"][mine], kernels["correlation"][mine]))]
    launch = kernels["correlation"][order]
    first = np.searchsorted(launch, launch, side="left")
    kernels["graph_node"][order] = 1 + np.arange(len(order)) - first


def _rows(table: Table, wanted: frozenset[str], columns: Columns, strings: Strings) -> Rows:
    """What is wanted of the raw columns, which are given up one by one."""
    chosen = {}
    for column in table.schema.columns:
        values = columns.pop(column.name)
        if column.name in wanted:
            chosen[column.name] = as_kept(column.kind, values)
    return Rows(table.schema, chosen, strings)

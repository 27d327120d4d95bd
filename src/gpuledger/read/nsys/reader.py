"""Nsight Systems export -> Trace, from any container. nsys creates tables lazily, so absence is normal.

Events are read table by table; names and processes stay in nsys's numbering until all are in, and are then coded once.
Rows that cannot be used are left out, counted, and named in the trace's health. Call chains become stacks: nsys keeps
one row per frame, in one table for each kind of event.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.errors import UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.messages import joined, say
from gpuledger.read.causality import with_true_times
from gpuledger.read.checked_tables import LARGEST, LARGEST_BYTES, refuse_impossible, unrecorded_work, within_bounds
from gpuledger.read.columns import NULL, ColumnRange, StoredTables
from gpuledger.read.nsys import schema
from gpuledger.read.nsys.finish import (
    Raw,
    TableFinisher,
    TextCoder,
    TextCoding,
    hosts,
    lost_samples,
    metric_columns,
    ordinals,
)
from gpuledger.read.nsys.nccl_payloads import collective_columns, has_layouts, may_have_payloads
from gpuledger.read.nsys.origin import NsysDevices, describe, diagnostics, recorded, text_rows
from gpuledger.read.request import Progress, WantedColumns, counted
from gpuledger.trace.deadline import check
from gpuledger.trace.keys import by_row, last_match, one_after_another, same, take
from gpuledger.trace.model import PID_BITS, Note, NotMeasured, Trace
from gpuledger.trace.spans import Ints, depths, parents
from gpuledger.trace.strings import Stacks, python_frame
from gpuledger.trace.sweep import side_by_side
from gpuledger.trace.tables import NOT_RECORDED, Rows, Table
from gpuledger.units import count_text

_FRAME: Final = ("id", "symbol", "stackDepth")


class StackReader:
    """Numbers the stacks of all tables from 0."""

    def __init__(self, export: StoredTables, coder: TextCoder) -> None:
        self._export, self._coder = export, coder
        self._frames: list[Ints] = []
        self._lengths: list[Ints] = []
        self._count = 0

    def of_events(self, frames: str, chain: Ints) -> Ints:
        """The stack of each event, from its call chain's id; `frames` is the table that holds the chains."""
        if not set(_FRAME) <= self._export.tables.get(frames, frozenset()) or not (chain != NULL).any():
            return same(NULL, len(chain))
        read = self._export.integers(frames, list(_FRAME)).columns
        known = np.logical_and.reduce([read[name] != NULL for name in _FRAME])
        ids, symbol, depth = (read[name][known] for name in _FRAME)
        order = np.lexsort((depth, ids))
        chains, lengths = np.unique(ids, return_counts=True)
        first = self._add(self._coder.use(symbol)[order], lengths)
        if not len(chains):
            return same(NULL, len(chain))
        place = np.minimum(np.searchsorted(chains, chain), len(chains) - 1)
        return np.where(chains[place] == chain, first + place, NULL)

    def of_python(self, payloads: Sequence[bytes | None]) -> Ints:
        """The stack in each payload of nsys's Python sampling; NULL where there is none."""
        from html import unescape

        frames_of = [_frames(payload) for payload in payloads]
        ids = {number for frames in frames_of for frame in frames for number in frame[:2]}
        stored = self._export.texts_by_id("StringIds", "id", "value", ids)
        texts = {number: unescape(text.decode(errors="backslashreplace")) for number, text in stored.items()}
        stacks = np.full(len(payloads), NULL, np.int64)
        for row, frames in enumerate(frames_of):
            if frames:
                own = [self._coder.own(python_frame(texts.get(f, "?"), texts.get(s, "?"), n)) for f, s, n in frames]
                stacks[row] = self._add(np.array(own, np.int64), np.array([len(own)]))
        return stacks

    def _add(self, frames: Ints, lengths: Ints) -> int:
        """Note stacks; gives the number of the first."""
        self._frames.append(frames)
        self._lengths.append(lengths)
        self._count += len(lengths)
        return self._count - len(lengths)

    def stacks(self, coding: TextCoding) -> Stacks:
        frames = np.concatenate([np.empty(0, np.int64), *self._frames])
        lengths = np.concatenate([np.zeros(1, np.int64), *self._lengths])
        return Stacks(np.cumsum(lengths), coding.codes(frames))


def _frames(payload: bytes | None) -> list[tuple[int, int, int]]:
    """Function, file (both as ids) and line of each frame in a payload; none in one of another kind."""
    try:
        outer = json.loads(payload or b"null")
        [(kind, inner)] = outer.items()
        if not kind.startswith("Python"):
            return []
        return [(int(frame["Function"]), int(frame["File"]), int(frame["Line"])) for frame in inner["Frames"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []  # somebody else's payload, which may hold anything


def read_export(export: StoredTables, name: str, wanted: WantedColumns, limits: Limits, progress: Progress) -> Trace:
    """Read the columns in `wanted` of one export; `name` is what messages call it."""
    if "StringIds" not in export.tables:  # each export has had it since the first
        listed = ", ".join(sorted(export.tables)[:5]) or "none"
        if "StringTable" in export.tables:
            raise UnreadableProfile(
                f"{name}: a profile of nvprof or the NVIDIA Visual Profiler, which gpuledger does not read",
                found=f"no StringIds table; tables found: {listed}",
                hint="record the program again with `gpuledger capture nsys -- COMMAND`",
            )
        raise UnreadableProfile(
            f"{name}: a database, but not an Nsight Systems export, nor one of AMD's profilers",
            found=f"no StringIds table; tables found: {listed}",
            hint="make one with `nsys export --type=sqlite REPORT.nsys-rep`",
        )
    if lacking := sorted({"id", "value"} - export.tables["StringIds"]):
        raise UnreadableProfile(
            f"{name}: table StringIds has no column {lacking[0]}, so nothing in the export has a name",
            hint="export it again with another version of nsys",
        )
    reading = _ExportReading(export)
    reading.tell_views(("TARGET_INFO_GPU", "TARGET_INFO_CUDA_DEVICE", "TARGET_INFO_GPU_METRICS"))
    reading.tell_lacking("TARGET_INFO_GPU", ("id", "name"))
    asked = [(table, wanted[table]) for table in Table if table in wanted]
    raw = {table: columns for table, names in asked if (columns := reading.table(table, names)) is not None}
    coding = reading.coder.coding(export, limits)
    finish = TableFinisher(coding, hosts(raw), NsysDevices(export, ordinals(raw)))
    tables = _finished(finish, wanted, raw, progress)
    refuse_impossible(name, tables, finish.devices.gpus, limits)
    tables, damage = with_true_times(tables)
    absent = {table: NotMeasured(reading.why_absent(table)) for table, _ in asked if table not in tables}
    notes = (
        *reading.notes,
        *coding.notes,
        *finish.devices.notes(is_sampled=bool(len(tables.get(Table.METRICS, ())))),
        *_doubts(tables),
        *lost_samples(export),
        *diagnostics(export),
        *unrecorded_work(tables, frozenset(wanted)),
        *damage,
    )
    origin = describe(export, tables, finish.devices.gpus)
    return Trace(origin, notes, coding.strings, tables, absent, reading.stacks.stacks(coding))


def _finished(
    finish: TableFinisher, wanted: WantedColumns, raw: dict[Table, Raw], progress: Progress
) -> dict[Table, Rows]:
    """The finished tables, those of the host beside those of the GPU: mostly there are as many calls as kernels."""

    def finished(of: Iterable[Table]) -> dict[Table, Rows]:
        tables = {}
        for table in of:
            progress(table.value, len(raw[table]["start_ns"]))
            tables[table] = finish.rows(table, wanted[table], raw.pop(table))
        return tables

    order = list(raw)
    of_host = [table for table in order if table in (Table.CALLS, Table.RANGES)]
    of_gpu = [table for table in order if table not in of_host]
    rows = sum(len(raw[table]["start_ns"]) for table in of_host)
    host, gpu = side_by_side(rows, lambda: finished(of_host), lambda: finished(of_gpu))
    return {table: (host | gpu)[table] for table in order}


class _ExportReading:
    """One pass over an export: raw tables out, and what was noted on the way."""

    def __init__(self, export: StoredTables) -> None:
        self.export = export
        self.coder = TextCoder()
        self.stacks = StackReader(export, self.coder)
        self.notes: list[Note] = []
        self._unusable: dict[str, str] = {}

    def table(self, table: Table, wanted: frozenset[str]) -> Raw | None:
        """All rows of one of our tables, from each of nsys's tables that feed it; None if none of them is there."""
        if table is Table.COLLECTIVES and not may_have_payloads(self.export):
            return None
        needed = schema.needed(table, _FEEDS[table], wanted)
        parts = [
            part
            for feed, shape in _FEEDS[table].items()
            if (taken := self._take(feed, needed)) is not None and (part := shape(self, *taken)) is not None
        ]
        if not parts:
            return None
        return {name: one_after_another([part[name] for part in parts]) for name in parts[0]}

    def why_absent(self, table: Table) -> str:
        names = [feed.name for feed in _FEEDS[table]]
        if broken := [self._unusable[name] for name in names if name in self._unusable]:
            return broken[0]
        if table is not Table.COLLECTIVES:
            return say("no {table} were recorded (looked for {names})", table=table.value, names=", ".join(names))
        if has_layouts(self.export):
            return say(
                "the export has no values of NCCL's NVTX payloads; `nsys export --include-json=true` writes them"
            )
        return say("no call of NCCL was recorded with a payload in its NVTX range")

    def _take(self, feed: schema.NsysTable, needed: frozenset[str]) -> tuple[Raw, NDArray[np.bool_], str] | None:
        """The usable rows of one of nsys's tables, which of its rows those are, and its actual name."""
        check()
        name = schema.actual_name(feed.name, self.export.tables)
        if name is None:
            self.tell_views((feed.name,))
            return None
        have = self.export.tables[name]
        if self.tell_lacking(feed.name, feed.required.values()):
            return None
        optional = {ours: theirs for ours, theirs in feed.optional.items() if ours in needed}
        wanted = {**feed.required} | {ours: theirs for ours, theirs in optional.items() if theirs in have}
        read = self.export.integers(name, list(wanted.values()))
        columns = {ours: read.columns[theirs] for ours, theirs in wanted.items()}
        known = {ours: read.summary(theirs) for ours, theirs in wanted.items()}
        unusable = sum(count for column, count in read.bad.items() if column not in feed.required.values())
        unusable += _null_impossible(columns, known)
        self._add(counted("values-unusable", unusable, table=name))
        rows = len(columns["start_ns"])
        self._tell_lost_links(feed, name, {ours: known[ours].nulls < rows for ours in columns}, optional)
        keep = same(1, rows, np.bool_)
        if any(known[ours].nulls for ours in feed.required):
            keep = np.logical_and.reduce([columns[ours] != NULL for ours in feed.required])
            rows, lost = int(keep.sum()), int((~keep).sum())
            named = joined(say(" or "), feed.required.values())
            self._add(counted("rows-dropped", lost, table=name, columns=named))
            columns = {ours: take(values, keep) for ours, values in columns.items()}
        for ours, theirs in wanted.items():
            if theirs in schema.STRING_COLUMNS:
                columns[ours] = self.coder.use(columns[ours], known[ours] if rows == len(keep) else None)
        return dict.fromkeys(optional, same(NULL, rows)) | columns, keep, name

    def _tell_lost_links(
        self, feed: schema.NsysTable, table: str, has_value: Mapping[str, bool], optional: Mapping[str, str]
    ) -> None:
        """Say that no row has what ties it to rows of other tables, or its size: the books come out otherwise."""
        if feed not in _TIED or not has_value["start_ns"]:  # a table without rows
            return
        for ours, lost in _LOST_WITHOUT.items():
            if ours in optional and not has_value.get(ours, False):
                self._add(counted("links-missing", 1, table=table, column=optional[ours], lost=lost))

    def tell_lacking(self, table: str, needed: Iterable[str]) -> bool:
        """Whether a table that is there cannot be used, which is told."""
        name = schema.actual_name(table, self.export.tables)
        lacking = () if name is None else [column for column in needed if column not in self.export.tables[name]]
        if not lacking:
            return False
        self._leave_out(table, say("table {table} has no column {column}", table=name, column=lacking[0]))
        return True

    def tell_views(self, names: Iterable[str]) -> None:
        """nsys writes tables alone; a view could be a query without end, and is not read."""
        for name in names:
            view = schema.actual_name(name, self.export.views)
            if view is not None and name not in self._unusable:
                self._leave_out(name, say("{table} is a view, not a table", table=view))

    def _leave_out(self, table: str, reason: str) -> None:
        self._unusable[table] = reason
        self._add(counted("table-unusable", 1, reason=reason))

    def _add(self, notes: Iterable[Note]) -> None:
        self.notes += [note for note in notes if note not in self.notes]  # a table of nsys may feed two of ours

    def _labels(self, enum: str) -> dict[int, str]:
        """The labels of one of nsys's enumerations; the built-in ones where the export brings none."""
        rows = text_rows(self.export, enum, ("label",), integers=("id",))
        brought = {row["id"]: row["label"] for row in rows if row["id"] is not None and row["label"]}
        return dict(enumerate(schema.LABELS[enum])) | brought

    # One method per table of nsys: give it the columns that our table has.

    def kernels(self, raw: Raw, *_: object) -> Raw:
        graph = (name for name in ("graph", "graph_node") if name in raw)
        return raw | {name: by_row(lambda ids: np.where(ids == 0, NULL, ids), raw[name]) for name in graph}

    def unchanged(self, raw: Raw, *_: object) -> Raw:
        return raw

    def memcpy(self, raw: Raw, *_: object) -> Raw:
        kinds, memory = self._labels("ENUM_CUDA_MEMCPY_OPER"), self._labels("ENUM_CUDA_MEM_KIND")
        labelled = self.coder.labels(raw["kind"], kinds)
        self._add(counted("copy-kind-unknown", int((labelled == NULL).sum())))
        ends = {side: self.coder.labels(raw[side], memory) for side in ("src_kind", "dst_kind")}
        return raw | ends | {"kind": labelled}

    def memset(self, raw: Raw, *_: object) -> Raw:
        nothing = same(NULL, len(raw["start_ns"]))
        target = self.coder.labels(raw["dst_kind"], self._labels("ENUM_CUDA_MEM_KIND"))
        kind = same(self.coder.own("Memset"), len(nothing))
        return raw | {"src_kind": nothing, "dst_kind": target, "kind": kind}

    def cuda_calls(self, raw: Raw, *_: object) -> Raw:
        layers = {schema.CLASS_RUNTIME: "runtime", schema.CLASS_DRIVER: "driver", NULL: "runtime"}
        driver = self.coder.own("driver")
        named = self.coder.labels(raw.pop("class"), layers)
        layer = by_row(lambda ids: np.where(ids == NULL, driver, ids), named)
        nothing = same(NULL, len(layer))
        return raw | {"layer": layer, "kernel": nothing, "blocks": nothing} | self._stack(raw, "CUDA_CALLCHAINS")

    def os_calls(self, raw: Raw, *_: object) -> Raw:
        return self._library_calls(raw | self._stack(raw, "OSRT_CALLCHAINS"), "os", schema.CLASS_OS_CALL)

    def cublas_calls(self, raw: Raw, *_: object) -> Raw:
        return self._library_calls(raw, "cublas", schema.CLASS_CUBLAS_CALL)

    def cudnn_calls(self, raw: Raw, *_: object) -> Raw:
        return self._library_calls(raw, "cudnn", schema.CLASS_CUDNN_CALL)

    def _library_calls(self, raw: Raw, layer: str, call_class: int) -> Raw:
        """The calls of one library. Rows of other classes, of 0 ns, mark where its tracing began and ended."""
        kind = raw.pop("class")
        is_call = (kind == call_class) | ((kind == NULL) & (raw["end_ns"] != raw["start_ns"]))
        raw = {name: take(values, is_call) for name, values in raw.items()}
        nothing = same(NULL, len(raw["start_ns"]))
        own = {"layer": same(self.coder.own(layer), len(nothing))}
        return dict.fromkeys(("correlation", "result", "stack", "kernel", "blocks"), nothing) | raw | own

    def _stack(self, raw: Raw, frames: str) -> Raw:
        """The stacks of events whose call chain was asked for."""
        return {"stack": self.stacks.of_events(frames, raw["stack"])} if "stack" in raw else {}

    def samples(self, raw: Raw, *_: object) -> Raw:
        source = same(self.coder.own("cpu"), len(raw["start_ns"]))
        return raw | {"end_ns": raw["start_ns"], "source": source} | self._stack(raw, "SAMPLING_CALLCHAINS")

    def python_samples(self, raw: Raw, keep: NDArray[np.bool_], table: str) -> Raw:
        """Marks whose payload is a stack. An export without the JSON of payloads has none."""
        stack = np.full(len(raw["start_ns"]), NULL, np.int64)
        if "NVTX_PAYLOAD_SCHEMAS" in self.export.tables and "jsonText" in self.export.tables[table]:
            marks = np.flatnonzero(np.isin(raw["class"], schema.NVTX_MARK))
            payloads = self.export.texts(table, "jsonText").rows()
            stack[marks] = self.stacks.of_python([payloads[row] for row in np.flatnonzero(keep)[marks].tolist()])
        source = np.full(len(stack), self.coder.own("python"), np.int64)
        whole = {"start_ns": raw["start_ns"], "end_ns": raw["start_ns"], "stack": stack, "source": source}
        return {name: values[stack != NULL] for name, values in (raw | whole).items() if name != "class"}

    def nvtx(self, raw: Raw, keep: NDArray[np.bool_], table: str) -> Raw:
        event = raw.pop("class")
        self._add(counted("ranges-gone", int(not len(keep)), table=table))
        raw |= self._since_the_recording_began(raw["start_ns"], raw["end_ns"])
        name = self._nvtx_names(raw["name"], keep, table)
        domain = self._nvtx_domains(raw, event, name)
        kind = np.full(len(event), NULL, np.int64)
        for label, types in _NVTX_KINDS.items():
            kind[np.isin(event, types)] = self.coder.own(label)
        is_range = kind != NULL
        is_mark = np.isin(event, schema.NVTX_MARK)
        is_open = (raw["end_ns"] == NULL) & ~is_mark
        last_seen = max(int(raw["start_ns"].max(initial=NULL)), int(raw["end_ns"].max(initial=NULL)))
        end = np.where(is_open, last_seen, np.where(raw["end_ns"] == NULL, raw["start_ns"], raw["end_ns"]))
        self._add(counted("ranges-open", int((is_open & is_range).sum())))
        lacking, of = int((is_range & ~is_mark & (name == NULL)).sum()), int((is_range & ~is_mark).sum())
        if 2 * lacking > of or "text" not in self.export.tables[table]:  # some programs push a few without a text
            self._add(counted("ranges-unnamed", lacking, of=count_text(of)))
        whole = raw | {"name": name, "domain": domain, "kind": kind, "open": is_open.astype(np.int64), "end_ns": end}
        ranges = {column: values[is_range] for column, values in whole.items()}
        stacked = np.flatnonzero(ranges["kind"] == self.coder.own("push_pop"))
        up = parents(ranges["start_ns"][stacked], ranges["end_ns"][stacked], ranges["tid"][stacked])
        parent = np.full(len(ranges["start_ns"]), NOT_RECORDED, np.int64)
        parent[stacked] = np.where(up >= 0, stacked[up], NOT_RECORDED)
        return ranges | {"parent": parent, "depth": depths(parent), "inputs": same(NULL, len(parent))}

    def _since_the_recording_began(self, start: Ints, end: Ints) -> Raw:
        """Times of ranges, those that count from the host's start put right: nsys 2025.6 so writes what nobody ended.

        They are told by their being the only ones: no call is as late as what the recording's clock cannot show. On a
        host that was not up for longer than the recording lasts, no time says which clock it is of.
        """
        began, ended = next(iter(recorded(self.export)), (0, 0))
        of_host = (start >= began) & (start <= ended)
        if began <= ended - began or not of_host.any() or self._last_call() >= began:
            return {"start_ns": start, "end_ns": end}
        self._add(counted("ranges-since-boot", int(of_host.sum())))
        ended_there = of_host & (end >= began)
        return {"start_ns": np.where(of_host, start - began, start), "end_ns": np.where(ended_there, end - began, end)}

    def _last_call(self) -> int:
        """When the last call began; where no call was recorded, as late as can be."""
        tables = [
            call.name for call in (schema.RUNTIME, schema.OSRT) if "start" in self.export.tables.get(call.name, ())
        ]
        return max(
            (int(self.export.integers(name, ["start"]).columns["start"].max(initial=NULL)) for name in tables),
            default=LARGEST,
        )

    def _nvtx_names(self, text_id: Ints, keep: NDArray[np.bool_], table: str) -> Ints:
        """A registered string where there is one, else the text that was stored in line."""
        lacking = np.flatnonzero(text_id == NULL)
        if not len(lacking) or "text" not in self.export.tables[table]:
            return text_id
        inline = self.export.texts(table, "text")
        own = np.array([*map(self.coder.own, inline.distinct), NULL], np.int64)  # no text has number -1, the last
        names = text_id.copy()
        names[lacking] = own[inline.numbers[np.flatnonzero(keep)[lacking]]]
        return names

    def _nvtx_domains(self, raw: Raw, event: Ints, name: Ints) -> Ints:
        """The name that each event's process gave to its domain: '' for the default one, NULL for one never named."""
        process = raw["tid"] >> PID_BITS
        number = np.where(raw["domain"] == NULL, 0, raw["domain"])
        domain = np.where(number == 0, self.coder.own(""), NULL)
        creations = np.flatnonzero(event == schema.NVTX_DOMAIN)
        latest_first = creations[np.lexsort((creations, raw["start_ns"][creations]))][::-1]
        earliest = last_match(process, number, process[latest_first], number[latest_first])
        is_named = (earliest >= 0) & (number != 0)
        domain[is_named] = name[latest_first[earliest[is_named]]]
        return domain

    def collectives(self, raw: Raw, keep: NDArray[np.bool_], table: str) -> Raw | None:
        return collective_columns(self.export, self.coder, raw, keep, table)

    def allocs(self, raw: Raw, *_: object) -> Raw:
        named = {
            "operation": self.coder.labels(raw["operation"], self._labels("ENUM_CUDA_DEV_MEM_EVENT_OPER")),
            "memory_kind": self.coder.labels(raw["memory_kind"], self._labels("ENUM_CUDA_MEM_KIND")),
        }
        return raw | named | {"end_ns": raw["start_ns"]}

    def metrics(self, raw: Raw, *_: object) -> Raw:
        columns, unnamed = metric_columns(self.export, self.coder, raw)
        self._add(counted("counters-unnamed", unnamed))
        return columns

    def syncs(self, raw: Raw, *_: object) -> Raw:
        return raw | {"kind": self.coder.labels(raw["kind"], self._labels("ENUM_CUPTI_SYNC_TYPE"))}


_TIED = (
    *(schema.KERNEL, schema.MEMCPY, schema.MEMSET, schema.GRAPH),
    *(schema.RUNTIME, schema.OSRT, schema.CUBLAS, schema.CUDNN, schema.NVTX, schema.SAMPLE),
    *(schema.PROFILER_OVERHEAD, schema.CUPTI_OVERHEAD),
)
_LOST_WITHOUT = {
    "correlation": say("which call launched which work is not known"),
    "pid": say("which process it belongs to is not known"),
    "tid": say("which thread it belongs to is not known"),
    **dict.fromkeys(schema.LAUNCH_SIZES, say("how much of the GPU a kernel fills is not known")),
}
_BOUNDS = dict.fromkeys(("device", "registers", *schema.LAUNCH_SIZES), (-(2**31), 2**31)) | {
    "bytes": (0, LARGEST_BYTES)
}
_NVTX_KINDS = {"push_pop": schema.NVTX_PUSH_POP, "start_end": schema.NVTX_START_END, "mark": schema.NVTX_MARK}
_FEEDS: Final[Mapping[Table, Mapping[schema.NsysTable, Callable[..., Raw | None]]]] = {
    Table.KERNELS: {schema.KERNEL: _ExportReading.kernels},
    Table.COPIES: {schema.MEMCPY: _ExportReading.memcpy, schema.MEMSET: _ExportReading.memset},
    Table.GRAPHS: {schema.GRAPH: _ExportReading.unchanged},
    Table.CALLS: {
        schema.RUNTIME: _ExportReading.cuda_calls,
        schema.OSRT: _ExportReading.os_calls,
        schema.CUBLAS: _ExportReading.cublas_calls,
        schema.CUDNN: _ExportReading.cudnn_calls,
    },
    Table.RANGES: {schema.NVTX: _ExportReading.nvtx},
    Table.SYNCS: {schema.SYNC: _ExportReading.syncs},
    Table.ALLOCS: {schema.ALLOC: _ExportReading.allocs},
    Table.OVERHEADS: dict.fromkeys((schema.PROFILER_OVERHEAD, schema.CUPTI_OVERHEAD), _ExportReading.unchanged),
    Table.SAMPLES: {schema.SAMPLE: _ExportReading.samples, schema.PYTHON_SAMPLE: _ExportReading.python_samples},
    Table.COLLECTIVES: {schema.NCCL: _ExportReading.collectives},
    Table.METRICS: {schema.METRIC: _ExportReading.metrics},
}
"""Which of nsys's tables make up each of ours, in this order, and what gives it our columns."""


def _null_impossible(columns: Raw, known: dict[str, ColumnRange]) -> int:
    """Set to NULL, in place, what cannot be: times of centuries, numbers beyond 32 bits, bytes that no memory holds.

    How many values that were, times aside: rows without a time are dropped, and counted as such.
    """
    for ours in columns.keys() & {"start_ns", "end_ns"}:
        if known[ours].most >= LARGEST or known[ours].least <= -LARGEST:
            columns[ours] = within_bounds(columns[ours])
            known[ours] = ColumnRange.of(columns[ours])
    unusable = 0
    for ours, (least, most) in _BOUNDS.items():
        if ours in columns and (known[ours].most >= most or known[ours].least < least):
            values = columns[ours]
            odd = (values != NULL) & ((values < least) | (values >= most))
            columns[ours] = np.where(odd, NULL, values)
            unusable += int(odd.sum())
    return unusable


_LEAST_APART_NS: Final = 1_000_000_000
"""A GPU that works for less may do so between two samples."""


def _doubts(tables: Mapping[Table, Rows]) -> list[Note]:
    notes = list[Note]()
    for table, rows in tables.items():
        backward = int(np.count_nonzero(rows["end_ns"] < rows["start_ns"]))
        notes += counted("nsys times-backward", backward, table=table.value)
    notes += counted("metrics-implausible", _implausible(tables.get(Table.METRICS)))
    notes += counted("samples-elsewhere", _elsewhere(tables))
    return notes + counted("graphs-opaque", len(tables.get(Table.GRAPHS, ())))


def _implausible(metrics: Rows | None) -> int:
    """How many samples in percent lie outside 0 to 100."""
    if metrics is None or "name" not in metrics or "value" not in metrics or not len(metrics):
        return 0
    is_share = metrics.strings.each(metrics.codes("name"), lambda name: "%" in name, np.bool_)
    return int(np.count_nonzero(is_share & ((metrics["value"] < 0) | (metrics["value"] > 100))))


def _elsewhere(tables: Mapping[Table, Rows]) -> int:
    """How many samples there are, if all of them lie before or after the work of the GPUs, of which there is some."""
    samples = tables.get(Table.METRICS)
    work = [tables[table] for table in (Table.KERNELS, Table.COPIES) if len(tables.get(table, ()))]
    if samples is None or not len(samples) or not work:
        return 0
    begin, end = min(int(rows["start_ns"].min()) for rows in work), max(int(rows["end_ns"].max()) for rows in work)
    at, apart_ns = samples["start_ns"], max(end - begin, _LEAST_APART_NS)
    return len(at) if not ((at >= begin - apart_ns) & (at <= end + apart_ns)).any() else 0

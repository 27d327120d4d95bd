"""The parts of a report -> the tables of its export, named and filled as `nsys export` does it, for `reader` to read.

Which numbers of fields mean what was found by holding report files against their exports, row by row. Only what feeds
our tables is taken. An event of a class that is in none of the lists here is counted, and the trace's health names it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.read.columns import NULL, ColumnRange, IntegerColumns, TextColumn
from gpuledger.read.nsys import schema
from gpuledger.read.nsys.report_events import CLASSES, ROW, DecodedEvents, EventTable, Path, texts_of
from gpuledger.read.nsys.report_file import ReportFile
from gpuledger.read.nsys.report_payloads import PayloadLayouts
from gpuledger.read.protobuf import readable_fields
from gpuledger.read.request import WantedColumns
from gpuledger.trace.keys import same, take
from gpuledger.trace.model import PID_BITS
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import Table

_ON_GPU: Final[dict[str, Path]] = {
    "start": (107, 1),
    "end": (107, 2),
    "correlationId": (107, 3),
    "deviceId": (107, 4),
    "contextId": (107, 5),
    "streamId": (107, 6),
    "globalPid": (107, 8),
}
_FRAME: Final[dict[str, Path]] = {"symbol": (1,)}
KERNELS, MEMORY, SYNCS, GRAPHS, CALLS, CALL_FRAMES = "kernels", "memory", "syncs", "graphs", "calls", "call frames"
NVTX, ALLOCS, SAMPLES, SAMPLE_FRAMES, GENERIC, SAID = "nvtx", "allocs", "samples", "sample frames", "generic", "said"
COMMANDS, PAYLOADS = "commands", "payloads"
EVENTS: Final = (
    EventTable(
        KERNELS,
        (79,),
        _ON_GPU
        | {
            "demangledName": (107, 101, 1),
            "shortName": (107, 101, 2),
            "mangledName": (107, 101, 3),
            **dict(zip(schema.LAUNCH_SIZES.values(), ((107, 101, number) for number in range(10, 16)), strict=True)),
            "staticSharedMemory": (107, 101, 16),
            "dynamicSharedMemory": (107, 101, 17),
            "registersPerThread": (107, 101, 21),
            "graphNodeId": (107, 101, 27),
        },
    ),
    EventTable(
        MEMORY,
        (80,),
        _ON_GPU
        | {
            "bytes": (107, 102, 1),
            "copyKind": (107, 102, 2),
            "srcKind": (107, 102, 4),
            "dstKind": (107, 102, 5),
            "graphNodeId": (107, 102, 11),
            "set bytes": (107, 103, 1),
            "set graphNodeId": (107, 103, 3),
            "memKind": (107, 103, 4),
        },
    ),
    EventTable(SYNCS, (106,), _ON_GPU | {"older syncType": (107, 105, 2), "syncType": (107, 105, 4)}),
    EventTable(GRAPHS, (130,), _ON_GPU | {"graphId": (107, 107, 1), "graphExecId": (107, 107, 2)}),
    EventTable(
        CALLS,
        (47, 48),
        {
            "start": (108, 1),
            "end": (108, 2),
            "correlationId": (108, 3),
            "eventClass": (108, 6),
            "nameId": (108, 7),
            "returnValue": (108, 8),
            "globalTid": (108, 13),
        },
    ),
    EventTable(CALL_FRAMES, columns=_FRAME, within=(CALLS, (108, 15))),
    EventTable(
        NVTX,
        (33, 34, 39, 59, 60, 75, 76),
        {
            "eventType": (102, 1),
            "start": (102, 2),
            "globalTid": (102, 9),
            "end": (102, 10),
            "endGlobalTid": (102, 11),
            "textId": (102, 12),
            "domainId": (102, 13),
        },
        text=("text", (102, 7)),
    ),
    EventTable(PAYLOADS, columns={"schemaId": (1,)}, text=("payload", (2,)), within=(NVTX, (102, 8, 9))),
    EventTable(
        ALLOCS,
        (117,),
        {
            "start": (123, 1),
            "deviceId": (123, 3),
            "contextId": (123, 4),
            "globalPid": (123, 5),
            "address": (123, 6),
            "bytes": (123, 8),
            "memKind": (123, 9),
            "memoryOperationType": (123, 10),
            "correlationId": (123, 12),
            "streamId": (123, 13),
        },
    ),
    EventTable(SAMPLES, (31,), {"start": (104, 1), "globalTid": (104, 11)}),
    EventTable(SAMPLE_FRAMES, columns=_FRAME, within=(SAMPLES, (104, 4))),
    EventTable(GENERIC, columns={"typeId": (1,), "timestamp": (2,)}, text=("data", (3,)), is_generic=True),
    EventTable(SAID, (49,), {"timestamp": (110, 1, 1), "severity": (110, 3)}, text=("text", (110, 4))),
    EventTable(COMMANDS, (27,), text=("command", (113,))),
)
"""What is taken of a report's events."""

_FEEDS: Final = {
    KERNELS: ((Table.KERNELS, schema.KERNEL),),
    MEMORY: ((Table.COPIES, schema.MEMCPY), (Table.COPIES, schema.MEMSET)),
    SYNCS: ((Table.SYNCS, schema.SYNC),),
    GRAPHS: ((Table.GRAPHS, schema.GRAPH),),
    CALLS: ((Table.CALLS, schema.RUNTIME), (Table.CALLS, schema.OSRT), (Table.OVERHEADS, schema.PROFILER_OVERHEAD)),
    NVTX: tuple((table, schema.NVTX) for table in (Table.RANGES, Table.COLLECTIVES, Table.SAMPLES)),
    ALLOCS: ((Table.ALLOCS, schema.ALLOC),),
    SAMPLES: ((Table.SAMPLES, schema.SAMPLE),),
    GENERIC: ((Table.METRICS, schema.METRIC),),
}
"""Which of our tables are made of events, and as which table of an export."""

_ALWAYS: Final = frozenset(
    (
        "start",
        "eventClass",
        "copyKind",
        "eventType",
        "domainId",
        "globalTid",
        "syncType",
        "older syncType",
        "typeId",
        "timestamp",
    )
)
"""Columns that tell rows apart: how many there are of each kind is said of every report."""


def event_tables(wanted: WantedColumns) -> list[EventTable]:
    """What to take of the events for these columns of ours; of the rest, only how many there are."""
    stacks = {CALL_FRAMES: Table.CALLS, SAMPLE_FRAMES: Table.SAMPLES}
    chosen = list[EventTable]()
    for table in EVENTS:
        if table.name in stacks and "stack" not in wanted.get(stacks[table.name], ()):
            continue
        if table.name == PAYLOADS and not wanted.keys() & {Table.COLLECTIVES, Table.SAMPLES}:
            continue
        columns = dict(table.columns)
        if table.name in _FEEDS:
            asked = [(of, feed) for of, feed in _FEEDS[table.name] if of in wanted]
            needed = {
                theirs
                for of, feed in asked
                for ours, theirs in {**feed.required, **feed.optional}.items()
                if ours in feed.required or ours in schema.needed(of, (feed,), wanted[of])
            }
            needed |= {f"set {name}" for name in needed} | _ALWAYS
            columns = {name: path for name, path in columns.items() if name in needed}
        text = None if table.name == GENERIC and Table.METRICS not in wanted else table.text
        chosen.append(EventTable(table.name, table.classes, columns, text, table.within, table.is_generic))
    return chosen


_KNOWN: Final = frozenset((28, 41, 113, 119, 120, 127, 131, 132, 133, 149))
"""Classes of events that nothing of ours is made of: code that was loaded, which thread ran where, faults of managed
memory, records of CUDA events, how graphs were made."""

_CALL_TABLES: Final = {
    schema.RUNTIME.name: (0, 1, 67),
    schema.OSRT.name: (27, 31, 32),
    schema.PROFILER_OVERHEAD.name: (3,),
    schema.CUDNN.name: (28, 33, 34),
    schema.CUBLAS.name: (29, 35, 36),
}
"""By the class of a traced function, which is not that of its event."""

_KNOWN_CALLS: Final = frozenset((6, 7, 8, 9, 10, 11, 12, 45, 46, 48, 68, 69, 102, 103))
"""Traced functions that are in no table of ours: where tracing began and ended, OpenACC, code that was loaded."""

_STRINGS: Final = "StringIds"
_MOST_SAMPLE_BYTES: Final = 1 << 16
_GPU_TEXTS: Final = {"name", "busLocation", "uuid"}
_GPU: Final = {
    "id": 1,
    "name": 2,
    "busLocation": 3,
    "uuid": 5,
    "l2CacheSize": 10,
    "totalMemory": 11,
    "memoryBandwidth": 12,
    "clockRate": 13,
    "smCount": 14,
    "cuDevice": 15,
    "computeMajor": 41,
    "computeMinor": 42,
}
_SYSTEM: Final = {205: "NvDriverVersion", 610: "DeviceEnvironment", 611: "CudaDriverVersion", 619: "Hostname"}
_ASKED: Final = {
    1: "CpuCycles",
    12: "NvtxEvents",
    123: "Cuda",
    124: "Graphics",
    127: "OSRuntime",
    128: "CuDNN",
    129: "CuBLAS",
    162: "OpenACC",
}
_MPI_DOMAIN: Final = b"MPI"
_METRICS: Final = b"GpuMetrics"


class _View(Struct, frozen=True):
    """A table of an export: some rows of a table of events. Columns go from NVIDIA's name to ours, or are made."""

    events: str | None
    columns: Mapping[str, str | Ints]
    rows: NDArray[np.bool_] | None = None
    texts: tuple[str, ...] = ()


Columns = Mapping[str, Sequence[Any]]
"""A small table: integers, or bytes, by column."""


class ReportExport:
    """The tables of one report, as the tables of its export."""

    container = "nsys-rep"
    decoding = None
    views: Mapping[str, frozenset[str]] = {}

    def __init__(self, file: ReportFile, events: DecodedEvents) -> None:
        self._file, self._events = file, events
        self._small = {name: rows for name, rows in _described(file, events).items() if any(rows.values())}
        self._views: dict[str, _View] = {}
        self.unknown: dict[str, int] = {}
        """Events of classes that are not known, by what they are called."""
        self._on_gpu()
        self._calls()
        self._nvtx()
        self._samples()
        self._metrics()
        self._count_unknown()
        have = {name: frozenset((*view.columns, *view.texts)) for name, view in self._views.items()}
        small = {name: frozenset(rows) for name, rows in self._small.items()}
        self.tables: Mapping[str, frozenset[str]] = {_STRINGS: frozenset(("id", "value"))} | small | have

    def count(self, table: str) -> int:
        if table == _STRINGS:
            return len(self._file.texts)
        if table in self._small:
            return len(next(iter(self._small[table].values())))
        view = self._views[table]
        return self._rows(view) if view.rows is None else int(view.rows.sum())

    def _rows(self, view: _View) -> int:
        return len(next(iter(view.columns.values()))) if view.events is None else self._events.count(view.events)

    def integers(self, table: str, columns: Sequence[str]) -> IntegerColumns:
        if table in self._small:
            rows = self._small[table]
            made = {name: np.array([_signed(value) for value in rows[name]], np.int64) for name in columns}
            return IntegerColumns(made, {})
        view, read, known = self._views[table], dict[str, Ints](), dict[str, ColumnRange]()
        stored = {name: source for name in columns if isinstance(source := view.columns[name], str)}
        taken = self._events.take(view.events, list(stored.values())) if view.events is not None else {}
        for name in dict.fromkeys(columns):
            source = view.columns[name]
            if isinstance(source, str):
                read[name], known[name] = taken[source]
            else:
                read[name] = np.asarray(source, np.int64)
            if view.rows is not None:
                read[name] = take(read[name], view.rows)
        return IntegerColumns(read, {}, known if view.rows is None else {})

    def texts(self, table: str, column: str) -> TextColumn:
        if table == _STRINGS:
            return TextColumn.of(self._file.texts)
        if table in self._small:
            return TextColumn.of(self._small[table][column])
        view = self._views[table]
        if column == "jsonText":
            return (
                self._json
                if view.rows is None
                else TextColumn(self._json.distinct, take(self._json.numbers, view.rows))
            )
        distinct, numbers = self._events.texts(view.events or "")
        return TextColumn(distinct, numbers if view.rows is None else take(numbers, view.rows))

    def texts_by_id(self, table: str, id_column: str, column: str, ids: Collection[int]) -> dict[int, bytes]:
        texts = self._file.texts
        return {number: texts[number] for number in ids if 0 <= number < len(texts)}

    def _show(self, table: str, view: _View) -> None:
        """nsys makes a table only where there is something to put in it."""
        if view.rows is not None and view.rows.all():
            view = _View(view.events, view.columns, None, view.texts)
        if self._rows(view) and (view.rows is None or view.rows.any()):
            self._views[table] = view

    def _own(self, events: str, *left_out: str) -> dict[str, str | Ints]:
        """Columns of events that are those of the export too."""
        return {name: name for name in self._events.columns(events) if name not in (ROW, *left_out)}

    def _on_gpu(self) -> None:
        self._show(schema.KERNEL.name, _View(KERNELS, self._own(KERNELS)))
        self._show(schema.GRAPH.name, _View(GRAPHS, self._own(GRAPHS)))
        is_copy = self._events.column(MEMORY, "copyKind")[0] != NULL
        memory = self._own(MEMORY)
        sets = {name.removeprefix("set "): name for name in memory if name.startswith("set ")}
        self._show(schema.MEMCPY.name, _View(MEMORY, self._own(MEMORY, "memKind", *sets.values()), is_copy))
        copied = ("bytes", "copyKind", "srcKind", "dstKind", "graphNodeId", *sets.values())
        self._show(schema.MEMSET.name, _View(MEMORY, self._own(MEMORY, *copied) | sets, ~is_copy))
        kind, older = (self._events.column(SYNCS, name)[0] for name in ("syncType", "older syncType"))
        synced = self._own(SYNCS, "older syncType") | {"syncType": np.where(kind == NULL, older, kind)}
        self._show(schema.SYNC.name, _View(SYNCS, synced))
        self._show(schema.ALLOC.name, _View(ALLOCS, self._own(ALLOCS)))
        self._show("DIAGNOSTIC_EVENT", _View(SAID, {name: name for name in ("timestamp", "severity")}, texts=("text",)))

    def _calls(self) -> None:
        kind = self._events.column(CALLS, "eventClass")[0]
        columns = self._own(CALLS)
        call = self._events.column(CALL_FRAMES, ROW)[0] if self._events.has(CALL_FRAMES) else np.empty(0, np.int64)
        if len(call):  # chains are numbered by the row of their call
            chain = np.full(len(kind), NULL, np.int64)
            chain[call] = call
            columns["callchainId"] = chain
        for table, classes in _CALL_TABLES.items():
            self._show(table, _View(CALLS, columns, np.isin(kind, classes)))
        for table, classes in (("CUDA_CALLCHAINS", (67,)), ("OSRT_CALLCHAINS", _CALL_TABLES[schema.OSRT.name])):
            if len(call):
                self._show_frames(table, CALL_FRAMES, call, np.isin(kind[call], classes))
        known = np.isin(kind, [*_KNOWN_CALLS, *(number for classes in _CALL_TABLES.values() for number in classes)])
        for number, count in zip(*np.unique(kind[~known], return_counts=True), strict=True):
            self.unknown[f"traced function {number}" if number != NULL else "traced function"] = int(count)

    def _show_frames(self, table: str, frames: str, of: Ints, rows: NDArray[np.bool_] | None) -> None:
        """One row per frame, from the innermost outwards; `of` is the row of the event each belongs to."""
        first = np.flatnonzero(np.diff(of, prepend=-1))
        depth = np.arange(len(of)) - np.repeat(first, np.diff(first, append=len(of)))
        self._show(table, _View(frames, {"id": of, "symbol": "symbol", "stackDepth": depth}, rows))

    def _nvtx(self) -> None:
        columns = self._own(NVTX, "text")
        rows = None
        distinct, text = self._events.texts(NVTX)
        if _MPI_DOMAIN in distinct:  # nsys puts what MPI says of its calls into tables of its own
            kind, domain, thread = (
                self._events.column(NVTX, name)[0] for name in ("eventType", "domainId", "globalTid")
            )
            created = (kind == schema.NVTX_DOMAIN) & (text == distinct.index(_MPI_DOMAIN))
            of_mpi = np.zeros(len(kind), np.bool_)
            for row in np.flatnonzero(created).tolist():
                of_mpi |= (domain == domain[row]) & (thread >> PID_BITS == thread[row] >> PID_BITS)
            rows = ~(of_mpi & np.isin(kind, (*schema.NVTX_PUSH_POP, *schema.NVTX_START_END)))
            self._show("MPI_EVENTS", _View(NVTX, columns, ~rows))
        self._json = self._payloads()
        texts = ("text", "jsonText") if self._json.distinct else ("text",)
        self._show(schema.NVTX.name, _View(NVTX, columns, rows, texts))
        if self._json.distinct:
            self._small["NVTX_PAYLOAD_SCHEMAS"] = {"schemaId": [number for _, _, number in self._layouts.layouts]}

    def _payloads(self) -> TextColumn:
        """The payload of each event as JSON."""
        self._layouts = PayloadLayouts(self._file.layouts)
        numbers = np.full(self._events.count(NVTX), -1, np.int64)
        if not self._layouts.layouts or not self._events.has(PAYLOADS):
            return TextColumn([], numbers)
        row, schema_id = (self._events.column(PAYLOADS, name)[0] for name in (ROW, "schemaId"))
        process = self._events.column(NVTX, "globalTid")[0][row] >> PID_BITS << PID_BITS
        domain = self._events.column(NVTX, "domainId")[0][row]
        payloads, number = self._events.texts(PAYLOADS)
        texts: dict[bytes, int] = {}
        made: dict[tuple[int, int, int, int], int] = {}
        columns = (values.tolist() for values in (row, process, domain, schema_id, number))
        for at, pid, within, layout, payload in zip(*columns, strict=True):
            key = (pid, within, layout, payload)
            if key not in made:
                text = self._layouts.text(pid, within, layout, payloads[payload]) if payload >= 0 else None
                made[key] = -1 if text is None else texts.setdefault(text, len(texts))
            numbers[at] = made[key]
        return TextColumn(list(texts), numbers)

    def _samples(self) -> None:
        count = self._events.count(SAMPLES)
        self._show(schema.SAMPLE.name, _View(SAMPLES, self._own(SAMPLES) | {"id": np.arange(count)}))
        if self._events.has(SAMPLE_FRAMES):
            self._show_frames("SAMPLING_CALLCHAINS", SAMPLE_FRAMES, self._events.column(SAMPLE_FRAMES, ROW)[0], None)

    def _metrics(self) -> None:
        """Each event is one look at all counters of one GPU: numbers of some bytes each, one behind another."""
        layouts = metric_layouts(self._file)
        if not layouts:
            return
        kinds, times = (self._events.column(GENERIC, name)[0] for name in ("typeId", "timestamp"))
        if "data" not in self._events.columns(GENERIC):  # only how many there are
            count = sum(int((kinds == kind).sum()) * len(layout) for kind, layout in layouts.items())
            self._show(schema.METRIC.name, _View(None, {"timestamp": same(0, count)}))
            return
        sizes = self._events.column(GENERIC, "data")[0]
        whole = np.frombuffer(self._events.whole_texts(GENERIC), np.uint8)
        ends = np.cumsum(np.maximum(sizes, 0))
        parts: dict[str, list[Ints]] = {name: [] for name in ("row", "timestamp", "typeId", "metricId", "value")}
        for kind, layout in layouts.items():
            rows = np.flatnonzero((kinds == kind) & (sizes >= max(offset + size for _, offset, size in layout)))
            for number, (_, offset, size) in enumerate(layout):
                value = np.zeros(len(rows), np.int64)
                for byte in range(size):
                    value |= whole[ends[rows] - sizes[rows] + offset + byte].astype(np.int64) << (8 * byte)
                made = (rows, times[rows], kinds[rows], np.full(len(rows), number, np.int64), value)
                for name, values in zip(parts, made, strict=True):
                    parts[name].append(values)
        columns = {name: np.concatenate(values) for name, values in parts.items()}
        order = np.lexsort((columns["metricId"], columns.pop("row")))
        self._show(schema.METRIC.name, _View(None, {name: values[order] for name, values in columns.items()}))

    def _count_unknown(self) -> None:
        known = {number for table in EVENTS for number in table.classes} | _KNOWN
        for number, count in sorted(self._events.seen.items()):
            if number not in known:
                self.unknown[f"class {number}" if number < CLASSES - 1 else "classes beyond"] = count


def _described(file: ReportFile, events: DecodedEvents) -> dict[str, Columns]:
    """The tables of an export that say what was recorded, and where."""
    gpus = [_fields(gpu) for gpu in _inside(file.gpus, 1, 2, 7)]
    devices = [_fields(device) for device in _inside(file.gpus, 1, 2, 9)]
    commands = [_fields(command) for command in events.texts(COMMANDS)[0]]
    listed = [(_signed(command.get(2)), command.get(6) or command.get(5)) for command in commands]
    processes = [(process, name) for process, name in listed if isinstance(name, bytes)]
    asked = [
        _ASKED.get(number, f"type {number}") for kinds in _inside(file.machine, 2, 2) for number in _numbers(kinds, 1)
    ]
    captured = [("CAPTURE_EVENT_TYPE", name.encode()) for name in asked]
    for number, command in enumerate(_inside(file.machine, 2, 26)):
        captured += [(f"PROCESS_{number}:COMMAND", text) for text in _inside(command, 10)]
        captured += [(f"PROCESS_{number}:ARGUMENT_{place}", text) for place, text in enumerate(_inside(command, 11))]
        captured += [
            (f"PROCESS_{number}:ENVIRONMENT_VARIABLE", b'%s="%s"' % (_text(pair, 1), _text(pair, 2)))
            for pair in _inside(command, 30)
        ]
    system = [_fields(pair) for pair in _inside(file.machine, 1, 2, 1)]
    known = [
        (_SYSTEM[key], pair.get(2, b"")) for pair in system if isinstance(key := pair.get(1), int) and key in _SYSTEM
    ]
    began = _began_ns(file)
    lasted = ((name, _numbers(file.machine, number)[:1]) for number, name in _SINCE_BOOT.items())
    times = {name: found[0] for name, found in lasted if found and found[0] < 2**62}
    versions = [] if file.version is None else [("EXPORT_PRODUCT_VERSION", file.version.encode())]
    return {
        "TARGET_INFO_GPU": {
            name: [_of_kind(gpu.get(number), bytes if name in _GPU_TEXTS else int) for gpu in gpus]
            for name, number in _GPU.items()
        },
        "TARGET_INFO_CUDA_DEVICE": {
            name: [_of_kind(device.get(number), int) for device in devices]
            for number, name in enumerate(("gpuId", "cudaId", "pid"), 1)
        },
        "TARGET_INFO_SYSTEM_ENV": _pairs(known),
        "META_DATA_CAPTURE": _pairs(captured),
        "META_DATA_EXPORT": _pairs(versions),
        "PROCESSES": {
            "globalPid": [process for process, _ in processes],
            "pid": [process >> PID_BITS & (1 << PID_BITS) - 1 for process, _ in processes],
            "name": [name for _, name in processes],
        },
        "TARGET_INFO_SESSION_START_TIME": {
            "utcEpochNs": [] if began is None else [began],
            "utcTime": []
            if began is None
            else [datetime.fromtimestamp(began // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S").encode()],
        },
        "ANALYSIS_DETAILS": {name: [times[name]] if len(times) == 2 else [] for name in _SINCE_BOOT.values()},
        "TARGET_INFO_GPU_METRICS": _metric_names(file),
    }


def _pairs(pairs: Sequence[tuple[str, Any]]) -> Columns:
    return {"name": [name.encode() for name, _ in pairs], "value": [_of_kind(value, bytes) for _, value in pairs]}


def _of_kind(value: Any, kind: type) -> Any:
    """A field; None where a damaged report has something else in its place."""
    return value if isinstance(value, kind) else None


_SINCE_BOOT: Final = {17: "startTime", 18: "stopTime"}
"""When the recording began and ended, on the clock of the host."""


def _began_ns(file: ReportFile) -> int | None:
    """When the capture began, since 1970: clocks are given as offsets from one to the next."""
    clocks = [_fields(clock) for clock in _inside(file.machine, 16, 1)]
    offsets = {(clock.get(1), clock.get(2)): _offset(clock.get(5, b"")) for clock in clocks}
    steps = [offsets.get(pair) for pair in ((3, 9), (1, 3), (7, 1))]
    began = -sum(step for step in steps if step is not None)
    return None if None in steps or not 0 < began < 2**62 else began


def _offset(text: int | bytes) -> int | None:
    if not isinstance(text, bytes) or not text.removeprefix(b"-").isdigit() or len(text) > 20:
        return None
    return _signed(int(text))


def metric_layouts(file: ReportFile) -> dict[int, list[tuple[int, int, int]]]:
    """The counters in each kind of generic event that samples a GPU: number of the name's text, offset, bytes."""
    sources = [_fields(source) for source in _inside(file.counts, 13)]
    sampled = {source.get(1) for source in sources if _stored(file, source.get(3)) == _METRICS}
    layouts = {}
    for kind in _inside(file.counts, 14):
        number = next(iter(_numbers(kind, 1)), 0)
        described = [_fields(counter) for counter in _inside(kind, 3)]
        counters = [(counter.get(1), counter.get(2, 0), counter.get(3, 0)) for counter in described]
        usable = [
            (name, offset, size)
            for name, offset, size in counters
            if isinstance(name, int) and isinstance(offset, int) and isinstance(size, int) and 0 < size <= 8
        ]
        if number & ~0xFFFFFFFF in sampled and usable and all(offset < _MOST_SAMPLE_BYTES for _, offset, _ in usable):
            layouts[_signed(number)] = usable
    return layouts


def _metric_names(file: ReportFile) -> Columns:
    listed = [
        (kind, number, _stored(file, name))
        for kind, layout in metric_layouts(file).items()
        for number, (name, _, _) in enumerate(layout)
    ]
    kinds, numbers, names = zip(*listed, strict=True) if listed else ((), (), ())
    return {"typeId": kinds, "metricId": numbers, "metricName": names}


def _stored(file: ReportFile, number: int | bytes | None) -> bytes | None:
    return file.texts[number] if isinstance(number, int) and number < len(file.texts) else None


def _inside(message: bytes, *path: int) -> list[bytes]:
    """The messages, or texts, at a path of fields; none where it is damaged."""
    found = [message]
    for number in path:
        found = [inner for outer in found for inner in texts_of(outer, number)]
    return found


def _fields(message: bytes) -> dict[int, int | bytes]:
    """The fields of a message, the last of each number."""
    return dict(readable_fields(message))


def _numbers(message: bytes, number: int) -> list[int]:
    return [value for key, value in readable_fields(message) if key == number and isinstance(value, int)]


def _text(message: bytes, number: int) -> bytes:
    return next(iter(texts_of(message, number)), b"")


def _signed(value: int | bytes | None) -> int:
    if not isinstance(value, int):
        return NULL
    return value - 2**64 if value >= 2**63 else value

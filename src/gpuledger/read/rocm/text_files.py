"""JSON and CSV of AMD's rocprofv3, and CSV of rocprof -> Trace.

The JSON of a process is one document; what is read of it is decoded into types of its own, the rest is skipped. CSV
comes as a file for each kind of event: those beside the one that was given, of the same run by their names, are read
with it.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Any, Final

import msgspec
import numpy as np

from gpuledger.errors import UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.read.assembled import Columns, RawTables, copy_columns, ints, recorded
from gpuledger.read.columns import NULL
from gpuledger.read.request import Format, Progress, WantedColumns, counted
from gpuledger.read.rocm.words import (
    add_allocations,
    agent_gpu,
    bare_symbol,
    call_numbers,
    finish,
    launch_columns,
    layer_of,
    range_columns,
    streams,
)
from gpuledger.read.source import Source, in_time, look_at, opened
from gpuledger.read.stream import ByteStream
from gpuledger.system.opening import entries_of, seen
from gpuledger.trace.model import Gpu, Private, Trace
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import NOT_RECORDED, Table


class _JsonPart(msgspec.Struct, gc=False):
    pass


class _Handle(_JsonPart):
    handle: int = -1


class _Correlation(_JsonPart):
    internal: int = -1


class _Size(_JsonPart):
    x: int = -1
    y: int = -1
    z: int = -1


class _Dispatch(_JsonPart):
    agent_id: _Handle = msgspec.field(default_factory=_Handle)
    queue_id: _Handle = msgspec.field(default_factory=_Handle)
    kernel_id: int = -1
    group_segment_size: int = -1
    workgroup_size: _Size = msgspec.field(default_factory=_Size)
    grid_size: _Size = msgspec.field(default_factory=_Size)


class _Record(_JsonPart):
    """One event of any kind."""

    kind: int = -1
    operation: int = -1
    thread_id: int = -1
    correlation_id: _Correlation = msgspec.field(default_factory=_Correlation)
    start_timestamp: int | None = None
    end_timestamp: int | None = None
    dispatch_info: _Dispatch = msgspec.field(default_factory=_Dispatch)
    stream_id: _Handle = msgspec.field(default_factory=_Handle)
    src_agent_id: _Handle = msgspec.field(default_factory=_Handle)
    dst_agent_id: _Handle = msgspec.field(default_factory=_Handle)
    bytes: int = -1
    agent_id: _Handle = msgspec.field(default_factory=_Handle)
    address: Any = -1
    allocation_size: int = -1


class _CounterValue(_JsonPart):
    counter_id: _Handle = msgspec.field(default_factory=_Handle)
    value: float = 0.0


class _DispatchData(_JsonPart):
    dispatch_info: _Dispatch = msgspec.field(default_factory=_Dispatch)
    end_timestamp: int | None = None


class _Counted(_JsonPart):
    dispatch_data: _DispatchData = msgspec.field(default_factory=_DispatchData)
    records: list[_CounterValue] = []


class _Callbacks(_JsonPart):
    counter_collection: list[_Counted] = []


class _Counter(_JsonPart):
    id: _Handle = msgspec.field(default_factory=_Handle)
    name: str = ""


class _Operations(_JsonPart):
    kind: str = ""
    operations: list[str] = []


class _Marker(_JsonPart):
    key: int = -1
    value: str = ""


class _RocprofStrings(_JsonPart):
    buffer_records: list[_Operations] = []
    callback_records: list[_Operations] = []
    marker_api: list[_Marker] = []


class _Symbol(_JsonPart):
    kernel_id: int = -1
    kernel_name: str = ""
    formatted_kernel_name: str = ""
    group_segment_size: int = -1
    arch_vgpr_count: int = 0
    accum_vgpr_count: int = 0


class _Metadata(_JsonPart):
    pid: int = -1
    command: list[str] = []


class _OneProcess(_JsonPart):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    agents: list[dict[str, Any]] = []
    counters: list[_Counter] = []
    strings: _RocprofStrings = msgspec.field(default_factory=_RocprofStrings)
    kernel_symbols: list[_Symbol] = []
    buffer_records: dict[str, list[_Record]] = {}
    callback_records: _Callbacks = msgspec.field(default_factory=_Callbacks)


class _RocprofDocument(_JsonPart):
    processes: list[_OneProcess] = msgspec.field(name="rocprofiler-sdk-tool")


def read_json(stream: ByteStream, name: str, container: str, wanted: WantedColumns, limits: Limits) -> Trace:
    """One JSON document, of one or several processes."""
    text = stream.read()
    try:
        processes = msgspec.json.decode(text, type=_RocprofDocument).processes
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableProfile(
            f"{name}: a result of rocprofv3 that is not whole, or is laid out in a way gpuledger does not know",
            found=stream.end_notes[0].sentence if stream.end_notes else str(error),
            hint="copy it again, or write it again with `rocprofv3 --output-format json` (or rocpd)",
        ) from None
    del text
    raw = RawTables(name, wanted, limits)
    raw.notes += stream.end_notes
    gpus: dict[int, Gpu] = {}
    rows: Counter[str] = Counter()
    for process in processes:
        _add_process(raw, process, gpus)
        rows.update({kind: len(records) for kind, records in process.buffer_records.items()})
    commands = {own.metadata.pid: PurePath(next(iter(own.metadata.command), "")).name or None for own in processes}
    private = Private(command=tuple(processes[0].metadata.command)) if processes else Private()
    origin = {"tool": "rocprofv3", "container": container, "private": private}
    return finish(raw, gpus, limits.gpus, origin, commands, rows)


def _add_process(raw: RawTables, process: _OneProcess, gpus: dict[int, Gpu]) -> None:
    gpu_of = dict[int, int]()
    for agent in process.agents:
        handle = agent.get("id")
        if agent.get("type") == 2 and isinstance(handle, dict) and type(handle.get("handle")) is int:
            index = agent.get("logical_node_type_id")
            number = index if type(index) is int and 0 <= index < 256 else len(gpu_of)
            gpu_of[handle["handle"]] = number
            gpus.setdefault(number, agent_gpu(agent))
    if raw.wants(Table.KERNELS):
        _add_kernels(raw, process, gpu_of)
    if raw.wants(Table.COPIES):
        _add_copies(raw, process, gpu_of)
    if raw.wants(Table.CALLS, Table.RANGES):
        _add_calls(raw, process)
    if raw.wants(Table.ALLOCS):
        events = process.buffer_records.get("memory_allocation", [])
        names = _operation_names(process, events)
        add_allocations(
            raw,
            (
                (
                    own.start_timestamp,
                    process.metadata.pid,
                    "FREE" in name,
                    _address(own.address),
                    own.allocation_size,
                    gpu_of.get(own.agent_id.handle, NOT_RECORDED),
                )
                for own, name in zip(events, names, strict=True)
                if own.start_timestamp is not None
            ),
        )
    if raw.wants(Table.METRICS):
        _add_counters(raw, process, gpu_of)


def _address(value: object) -> int:
    """An address is a number, or an object that holds one as text."""
    held = value.get("value", value.get("handle", -1)) if isinstance(value, dict) else value
    if isinstance(held, str):
        held = int(held, 16) if re.fullmatch(r"(0x)?[0-9a-fA-F]{1,15}", held) else -1
    return held if type(held) is int and -1 <= held < 2**62 else -1


def _common(process: _OneProcess, records: Sequence[_Record]) -> Columns:
    count = len(records)
    return {
        "start_ns": ints(own.start_timestamp for own in records),
        "end_ns": ints(own.end_timestamp for own in records),
        "pid": np.full(count, process.metadata.pid),
        "correlation": call_numbers(ints(own.correlation_id.internal for own in records)),
    }


def _add_kernels(raw: RawTables, process: _OneProcess, gpu_of: dict[int, int]) -> None:
    records = process.buffer_records.get("kernel_dispatch", [])
    symbols = {own.kernel_id: own for own in process.kernel_symbols}
    nothing = _Symbol()
    dispatches = [own.dispatch_info for own in records]
    used = [symbols.get(own.kernel_id, nothing) for own in dispatches]
    mangled = [own.kernel_name.removesuffix(".kd") for own in used]
    shown = (own.formatted_kernel_name or name for own, name in zip(used, mangled, strict=True))
    named = (name or f"kernel {own.kernel_id}" for name, own in zip(shown, dispatches, strict=True))
    grid, workgroup = (
        _sizes(sizes) for sizes in ([o.grid_size for o in dispatches], [o.workgroup_size for o in dispatches])
    )
    fixed = recorded(ints(own.group_segment_size for own in used))
    shared = recorded(ints(own.group_segment_size for own in dispatches))
    registers = ints(own.arch_vgpr_count + own.accum_vgpr_count for own in used)
    raw.add(
        Table.KERNELS,
        _common(process, records)
        | launch_columns(grid, workgroup, registers, fixed, shared)
        | {
            "device": ints(gpu_of.get(own.agent_id.handle, NOT_RECORDED) for own in dispatches),
            "stream": streams(
                ints(own.stream_id.handle for own in records), ints(own.queue_id.handle for own in dispatches)
            ),
            "name": raw.codes.column(named),
            "mangled_name": raw.codes.column(name or None for name in mangled),
        },
    )


def _sizes(sizes: Iterable[_Size]) -> Ints:
    return recorded(ints(number for size in sizes for number in (size.x, size.y, size.z))).reshape(-1, 3)


def _operation_names(process: _OneProcess, records: Iterable[_Record]) -> list[str]:
    """What each record's operation is called: older versions number those of calls among the callbacks."""
    known = process.strings.buffer_records or process.strings.callback_records
    names = {(kind, operation): name for kind, own in enumerate(known) for operation, name in enumerate(own.operations)}
    return [names.get((own.kind, own.operation), f"operation {own.operation}") for own in records]


def _add_copies(raw: RawTables, process: _OneProcess, gpu_of: dict[int, int]) -> None:
    records = process.buffer_records.get("memory_copy", [])
    number: dict[str, int] = {}
    numbers = [number.setdefault(name, len(number)) for name in _operation_names(process, records)]
    source, target = (
        ints(gpu_of.get(handle, NOT_RECORDED) for handle in handles)
        for handles in ([own.src_agent_id.handle for own in records], [own.dst_agent_id.handle for own in records])
    )
    raw.add(
        Table.COPIES,
        _common(process, records)
        | copy_columns(raw, np.array(numbers, np.int64), list(number))
        | {
            "device": np.where(target == NOT_RECORDED, source, target),
            "stream": recorded(ints(own.stream_id.handle for own in records)),
            "bytes": recorded(ints(own.bytes for own in records)),
        },
    )


def _add_calls(raw: RawTables, process: _OneProcess) -> None:
    """Calls, and annotations: roctx's markers by what they say, and the calls of libraries."""
    said = {own.key: own.value for own in process.strings.marker_api}
    for kind, records in process.buffer_records.items():
        if not kind.endswith("_api") or not records:
            continue
        columns = _common(process, records)
        columns["tid"] = recorded(ints(own.thread_id for own in records))
        names = _operation_names(process, records)
        if (layer := layer_of(kind.upper(), "")) is not None:
            columns |= {"name": raw.codes.column(names), "layer": np.full(len(records), raw.codes[layer])}
            raw.add(Table.CALLS, columns)
            continue
        is_roctx = kind == "marker_api"
        if is_roctx:
            names = [said.get(own.correlation_id.internal) or name for own, name in zip(records, names, strict=True)]
        columns["name"] = raw.codes.column(names)
        raw.add(Table.RANGES, range_columns(raw, columns, "" if is_roctx else kind.removesuffix("_api")))


def _add_counters(raw: RawTables, process: _OneProcess, gpu_of: dict[int, int]) -> None:
    """Counters of kernels: the sum over a counter's instances, at the kernel's end."""
    names = {own.id.handle: own.name for own in process.counters}
    rows = list[tuple[int | None, int, str, int]]()
    for own in process.callback_records.counter_collection:
        device = gpu_of.get(own.dispatch_data.dispatch_info.agent_id.handle, NOT_RECORDED)
        sums: Counter[str] = Counter()
        for value in own.records:  # a counter's number holds its instance above 16 bits
            counter = names.get(value.counter_id.handle) or names.get(value.counter_id.handle & 0xFFFF)
            sums[counter or f"counter {value.counter_id.handle}"] += value.value  # type: ignore[assignment]
        end = own.dispatch_data.end_timestamp
        rows += ((end, device, name, round(value)) for name, value in sums.items() if abs(value) < 2**62)
    if rows:
        ends, devices, counters, values = zip(*rows, strict=True)
        times = ints(ends)
        columns: Columns = {"device": ints(devices), "name": raw.codes.column(counters), "value": ints(values)}
        raw.add(Table.METRICS, columns | {"start_ns": times, "end_ns": times})


class RocprofCsvReader:
    """CSV files of rocprofv3's traces, and of rocprof's kernels -> Trace."""

    name = "rocprof csv"
    formats = (
        Format(
            "rocprofv3 CSV, `*_trace.csv`",
            "`rocprofv3 --output-format csv`; files of one run are read together",
            "of 2026",
            "as rocpd; bytes of copies, allocations, counters",
        ),
    )

    def recognises(self, source: Source) -> bool:
        return _kind_of(_header(source.head)) is not None

    def read(self, source: Source, wanted: WantedColumns, limits: Limits, progress: Progress) -> Trace:
        raw = RawTables(source.name, wanted, limits)
        pids: Counter[int] = Counter()
        counts: dict[str, int] = {}
        gpus: dict[int, Gpu] = {}
        with in_time(source.name, limits):
            for file in _of_one_run(source):
                kind = _kind_of(_header(file.head)) or ""
                table = _CsvTable(file)
                if kind == "agents":
                    gpus |= _csv_gpus(table)
                    continue
                counts[kind] = counts.get(kind, 0) + table.count
                _ADDERS[kind](raw, table)
                pids.update(table.numbers("Process_Id", "pid").tolist())
                raw.notes += counted("rows-dropped", table.ragged, table=file.name, columns="columns")
                progress(file.name, table.count)
        pids.pop(NULL, None)
        origin = {"tool": "rocprof" if "kernels of rocprof" in counts else "rocprofv3", "container": "csv"}
        commands: dict[int, str | None] = {pid: None for pid, _ in pids.most_common()}
        return finish(raw, gpus, 0, origin, commands, counts)


def _header(head: bytes) -> list[str]:
    line = head.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0]
    return [cell.strip().strip('"') for cell in line.decode(errors="replace").split(",")]


_KINDS: Final = (
    ("kernels", {"Kernel_Name", "Start_Timestamp", "End_Timestamp", "Dispatch_Id"}),
    ("copies", {"Direction", "Start_Timestamp", "End_Timestamp"}),
    ("calls", {"Domain", "Function", "Start_Timestamp", "End_Timestamp"}),
    ("agents", {"Node_Id", "Agent_Type", "Cu_Count"}),
    ("kernels of rocprof", {"KernelName", "BeginNs", "EndNs"}),
)


def _kind_of(header: Sequence[str]) -> str | None:
    held = set(header)
    if "Counter_Name" in held:
        return None
    return next((kind for kind, needed in _KINDS if needed <= held), None)


_RUN: Final = re.compile(r"(?P<run>.*?)_?(kernel|hip_api|hsa_api|hip|hsa|memory_copy|marker_api|rccl_api)_trace\.csv")


def _of_one_run(source: Source) -> Iterator[Source]:
    """The file, and those beside it that rocprofv3 wrote for the same process: `NAME_kernel_trace.csv` and so on."""
    yield source
    match = _RUN.fullmatch(source.path.name)
    if match is None:
        return
    for path in sorted(map(source.path.with_name, entries_of(source.path.parent))):
        other = _RUN.fullmatch(path.name)
        is_beside = other is not None and other["run"] == match["run"]
        is_agents = path.name == f"{match['run']}_agent_info.csv".lstrip("_")
        if path != source.path and (is_beside or is_agents) and seen(path).st_size:
            beside = look_at(path)
            if _kind_of(_header(beside.head)) is not None:
                yield beside


class _CsvTable:
    """The columns of one CSV file."""

    def __init__(self, source: Source) -> None:
        with opened(source) as file:
            text = file.read()
        try:
            lines = csv.reader(io.StringIO(text.decode("utf-8-sig", "backslashreplace"), newline=""), strict=False)
            header = next(lines)
            rows = list(lines)
        except csv.Error as error:
            raise UnreadableProfile(
                f"{source.name}: a damaged CSV file of rocprof", found=str(error), hint="copy or write it again"
            ) from None
        whole = [row for row in rows if len(row) == len(header)]
        self.ragged = sum(1 for row in rows if row) - len(whole)
        self.count = len(whole)
        self._columns = dict(zip(header, zip(*whole, strict=True) if whole else ((),) * len(header), strict=True))

    def texts(self, *names: str) -> Sequence[str]:
        """The first of these columns that there is."""
        return next((self._columns[name] for name in names if name in self._columns), ("",) * self.count)

    def numbers(self, *names: str) -> Ints:
        return ints(int(text) if _WHOLE.fullmatch(text) else None for text in self.texts(*names))

    def agents(self, *names: str) -> Ints:
        """Numbers of agents: `Agent 1`, or 1."""
        return ints(
            int(match[0]) if (match := _LAST_NUMBER.search(text)) else NOT_RECORDED for text in self.texts(*names)
        )

    def common(self) -> Columns:
        return {
            "start_ns": self.numbers("Start_Timestamp", "BeginNs"),
            "end_ns": self.numbers("End_Timestamp", "EndNs"),
            "pid": recorded(self.numbers("Process_Id", "pid")),
            "correlation": call_numbers(self.numbers("Correlation_Id")),
        }


_WHOLE: Final = re.compile(r"-?[0-9]{1,19}")
_LAST_NUMBER: Final = re.compile(r"[0-9]{1,9}$")


def _csv_kernels(raw: RawTables, table: _CsvTable) -> None:
    grid, workgroup = (
        recorded(np.stack([table.numbers(f"{size}_Size_{axis}") for axis in "XYZ"], axis=1))
        for size in ("Grid", "Workgroup")
    )
    registers = np.maximum(table.numbers("VGPR_Count", "arch_vgpr"), 0)
    registers = registers + np.maximum(table.numbers("Accum_VGPR_Count", "accum_vgpr"), 0)
    fixed, shared = np.full(table.count, NOT_RECORDED), recorded(table.numbers("LDS_Block_Size", "lds"))
    raw.add(
        Table.KERNELS,
        table.common()
        | launch_columns(grid, workgroup, registers, fixed, shared)
        | {
            "device": table.agents("Agent_Id", "gpu-id"),
            "stream": streams(table.numbers("Stream_Id"), table.numbers("Queue_Id", "queue-id")),
            "name": raw.codes.column(map(bare_symbol, table.texts("Kernel_Name", "KernelName"))),
        },
    )


def _csv_copies(raw: RawTables, table: _CsvTable) -> None:
    """rocprofv3 does not say how many bytes a copy has; of its two agents, the one that is not the host's is meant."""
    number: dict[str, int] = {}
    numbers = [number.setdefault(text, len(number)) for text in table.texts("Direction")]
    columns = copy_columns(raw, np.array(numbers, np.int64), list(number))
    is_to_device = columns["dst_kind"] == raw.codes["Device"]
    target, source = table.agents("Destination_Agent_Id"), table.agents("Source_Agent_Id")
    columns["device"] = np.where(is_to_device, target, source)
    columns["stream"] = recorded(table.numbers("Stream_Id"))
    raw.add(Table.COPIES, table.common() | columns)


def _csv_calls(raw: RawTables, table: _CsvTable) -> None:
    names, domains = table.texts("Function"), table.texts("Domain")
    columns = table.common() | {"tid": recorded(table.numbers("Thread_Id"))}
    layer = raw.codes.column(layer_of(*both) for both in zip(domains, names, strict=True))
    columns["name"] = raw.codes.column(names)
    is_call = layer >= 0
    raw.add(Table.CALLS, columns | {"layer": layer}, is_call)
    said = raw.codes.column("" if domain.startswith("MARKER") else domain for domain in domains)
    raw.add(Table.RANGES, range_columns(raw, columns, said), ~is_call)


def _csv_gpus(table: _CsvTable) -> dict[int, Gpu]:
    rows = zip(
        table.texts("Agent_Type"),
        table.numbers("Node_Id").tolist(),
        table.numbers("Cu_Count").tolist(),
        table.texts("Product_Name", "Name"),
        strict=True,
    )
    return {
        number: agent_gpu({"product_name": name, "cu_count": units})
        for kind, number, units, name in rows
        if kind == "GPU" and number >= 0
    }


_ADDERS: Final = {
    "kernels": _csv_kernels,
    "copies": _csv_copies,
    "calls": _csv_calls,
    "kernels of rocprof": _csv_kernels,
}

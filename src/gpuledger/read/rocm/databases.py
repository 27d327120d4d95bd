"""SQLite databases of AMD's profilers -> Trace: rocpd of rocprofv3, rpd of rocmProfileData, results.db of rocprof.

rocpd keeps a set of tables for each process, with its UUID in their names, and views over all of them; only tables are
read. An event's `stack_id` is what joins a kernel or a copy to the call that launched it. rpd has one set, in which
operations and calls are joined by a table of pairs. rocprof numbers calls, and operations carry their call's number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import PurePath
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.errors import UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.read.assembled import Columns, RawTables, copy_columns, ints, recorded, value_by_key
from gpuledger.read.columns import NULL, StoredTables
from gpuledger.read.request import WantedColumns, counted
from gpuledger.read.rocm.words import (
    OWN_WORK,
    add_allocations,
    agent_gpu,
    bare_symbol,
    blocks,
    call_numbers,
    finish,
    launch_columns,
    layer_of,
    range_columns,
    streams,
)
from gpuledger.trace.model import PID_BITS, Gpu, Private, Trace
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import NOT_RECORDED, Table

_AGENTS: Final = "rocpd_info_agent"
_V1: Final = ("HIP", "HSA", "OPS", "COPY", "KERN", "rocTX")
_TIMES: Final = {"BeginNs", "EndNs"}


def reader_of(tables: Mapping[str, Collection[str]]) -> Callable[..., Trace] | None:
    """What reads a database with these tables; None for what is not AMD's."""
    if any(name.startswith(_AGENTS) for name in tables):
        return _read_rocpd
    if {"rocpd_api", "rocpd_op", "rocpd_string"} <= tables.keys():
        return _read_rpd
    return _read_v1 if any(set(tables.get(name, ())) >= _TIMES for name in _V1) else None


class _Database:
    """The tables of one set, asked for by their names without the set's UUID; what is not there has no rows."""

    def __init__(self, export: StoredTables, name: str, suffix: str = "") -> None:
        self._export, self._name, self._suffix = export, name, suffix
        self._rows: dict[str, int] = {}

    def columns(self, table: str, *names: str) -> dict[str, Ints]:
        """Whole numbers; NULL in a column that the table lacks."""
        own = self._export.tables.get(table + self._suffix, frozenset())
        held = [name for name in names if name in own]
        read = dict(self._export.integers(table + self._suffix, held).columns) if held else {}
        count = self._same(table, len(next(iter(read.values()))) if held else self.count(table))
        return {name: read[name] if name in read else np.full(count, NULL) for name in names}

    def texts(self, table: str, column: str) -> tuple[list[str], NDArray[np.int64]]:
        """The distinct texts of a column, and the number of each row's; -1 for none."""
        if column not in self._export.tables.get(table + self._suffix, frozenset()):
            return [], np.full(self._same(table, self.count(table)), -1)
        read = self._export.texts(table + self._suffix, column)
        self._same(table, len(read.numbers))
        return [text.decode(errors="backslashreplace") for text in read.distinct], read.numbers

    def _same(self, table: str, count: int) -> int:
        """How many rows a table has: of a damaged file, two columns may have different ones."""
        if self._rows.setdefault(table, count) != count:
            raise UnreadableProfile(
                f"{self._name}: a damaged SQLite database",
                found=f"columns of {table} have {self._rows[table]:,} rows and {count:,}",
                hint="copy it again",
            )
        return count

    def each_text(self, table: str, column: str) -> list[str]:
        """The text of each row."""
        distinct, numbers = self.texts(table, column)
        held = (*distinct, "")
        return [held[number] for number in numbers.tolist()]

    def by_id(self, table: str, column: str, key: str = "id") -> dict[int, str]:
        """The texts of a table that is not large, by their ids."""
        ids = self.columns(table, key)[key].tolist()
        return dict(zip(ids, self.each_text(table, column), strict=True))

    def count(self, table: str) -> int:
        name = table + self._suffix
        return self._export.count(name) if name in self._export.tables else 0


def _by_dict(wanted: Ints, values: Mapping[int, int], missing: int = NOT_RECORDED) -> Ints:
    return value_by_key(wanted, ints(values.keys()), ints(values.values()), missing)


def _triple(columns: Mapping[str, Ints], *names: str) -> NDArray[np.int64]:
    return np.stack([recorded(columns[name]) for name in names], axis=1)


def _json(text: str) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return {}  # it only describes
    return said if isinstance(said, dict) else {}


def _program(command: str) -> str | None:
    return PurePath(command.split()[0]).name if command.split() else None


def _read_rocpd(export: StoredTables, name: str, wanted: WantedColumns, limits: Limits) -> Trace:
    raw = RawTables(name, wanted, limits)
    sets = [
        _RocpdSet(_Database(export, name, table.removeprefix(_AGENTS)), raw)
        for table in sorted(export.tables)
        if table.startswith(_AGENTS)
    ]
    nodes: dict[str, int] = {}
    gpus: dict[int, Gpu] = {}
    commands: dict[int, str | None] = {}
    rows: dict[str, int] = {}
    private = Private()
    for own in sets:
        own.read(nodes, gpus, commands)
        for table in _ROCPD_EVENTS:
            rows[table] = rows.get(table, 0) + own.database.count(table)
        command = next(iter(own.database.each_text("rocpd_info_process", "command")), "")
        private = private if private.command else Private(command=tuple(command.split()))
    version = sets[0].database.by_id("rocpd_metadata", "value").get(1)
    origin = {"tool": "rocprofv3", "container": "rocpd", "schema_version": version, "private": private}
    return finish(raw, gpus, limits.gpus, origin, commands, rows)


_ROCPD_EVENTS: Final = (
    "rocpd_kernel_dispatch",
    "rocpd_memory_copy",
    "rocpd_memory_allocate",
    "rocpd_region",
    "rocpd_pmc_event",
    "rocpd_sample",
)
_WHERE: Final = ("start", "end", "nid", "pid", "tid", "event_id", "queue_id", "stream_id")
_GRID: Final = tuple(f"grid_size_{axis}" for axis in "xyz")
_WORKGROUP: Final = tuple(f"workgroup_size_{axis}" for axis in "xyz")


class _RocpdSet:
    """The tables of one process."""

    def __init__(self, database: _Database, raw: RawTables) -> None:
        self.database, self._raw = database, raw
        self._events = database.columns("rocpd_event", "id", "stack_id", "category_id")
        self._strings = database.by_id("rocpd_string", "string")

    def read(self, nodes: dict[str, int], gpus: dict[int, Gpu], commands: dict[int, str | None]) -> None:
        """All tables; what is learnt of machines, GPUs and processes is added to what is known."""
        self._know_agents(nodes, gpus)
        self._know_processes(commands)
        if self._raw.wants(Table.KERNELS):
            self._kernels()
        if self._raw.wants(Table.COPIES):
            self._copies()
        if self._raw.wants(Table.CALLS, Table.RANGES):
            self._regions()
        if self._raw.wants(Table.ALLOCS):
            self._allocations()
        if self._raw.wants(Table.METRICS):
            self._counters()

    def _know_agents(self, nodes: dict[str, int], gpus: dict[int, Gpu]) -> None:
        """Which machine and GPU each of the set's numbers is: the same in every set of one machine."""
        hosts = self.database.by_id("rocpd_info_node", "machine_id")
        self._host = {number: nodes.setdefault(machine, len(nodes)) for number, machine in hosts.items()}
        agents = self.database.columns(_AGENTS, "id", "nid", "type_index")
        rows = (*(agents[key].tolist() for key in agents), self.database.each_text(_AGENTS, "type"))
        described = self.database.each_text(_AGENTS, "extdata")
        products = self.database.each_text(_AGENTS, "product_name")
        self._gpu_of: dict[int, int] = {}
        for (agent, node, index, kind), extdata, product in zip(
            zip(*rows, strict=True), described, products, strict=True
        ):
            if kind == "GPU":
                number = (self._host.get(node, 0) << 8) + index if 0 <= index < 256 else agent
                self._gpu_of[agent] = number
                gpus.setdefault(number, agent_gpu({"product_name": product} | _json(extdata)))

    def _know_processes(self, commands: dict[int, str | None]) -> None:
        processes = self.database.columns("rocpd_info_process", "id", "pid", "nid")
        pids = [
            (self._host.get(node, 0) << PID_BITS) + pid
            for _, pid, node in zip(*(column.tolist() for column in processes.values()), strict=True)
        ]
        self._pid_of = dict(zip(processes["id"].tolist(), pids, strict=True))
        for pid, command in zip(pids, self.database.each_text("rocpd_info_process", "command"), strict=True):
            commands.setdefault(pid, _program(command))
        threads = self.database.columns("rocpd_info_thread", "id", "tid")
        self._tid_of = dict(zip(threads["id"].tolist(), threads["tid"].tolist(), strict=True))

    def _common(self, columns: Mapping[str, Ints]) -> Columns:
        """Times, process, stream and the call's number."""
        stack = value_by_key(columns["event_id"], self._events["id"], recorded(self._events["stack_id"]))
        return {
            "start_ns": columns["start"],
            "end_ns": columns["end"],
            "pid": _by_dict(columns["pid"], self._pid_of),
            "correlation": call_numbers(stack),
        }

    def _devices(self, agents: Ints) -> Ints:
        return _by_dict(agents, self._gpu_of)

    def _kernels(self) -> None:
        sizes = (*_GRID, *_WORKGROUP)
        table = self.database.columns(
            "rocpd_kernel_dispatch", *_WHERE, "agent_id", "kernel_id", "group_segment_size", *sizes
        )
        symbols = self.database.columns(
            "rocpd_info_kernel_symbol", "id", "group_segment_size", "arch_vgpr_count", "accum_vgpr_count"
        )
        mangled = [
            text.removesuffix(".kd") for text in self.database.each_text("rocpd_info_kernel_symbol", "kernel_name")
        ]
        shown = self.database.each_text("rocpd_info_kernel_symbol", "display_name")
        names = self._raw.codes.column(text or other for text, other in zip(shown, mangled, strict=True))
        registers = np.maximum(symbols["arch_vgpr_count"], 0) + np.maximum(symbols["accum_vgpr_count"], 0)
        kernel, ids = table["kernel_id"], symbols["id"]
        registers_of = value_by_key(kernel, ids, registers)
        fixed = value_by_key(kernel, ids, recorded(symbols["group_segment_size"]))
        shared = recorded(table["group_segment_size"])
        self._raw.add(
            Table.KERNELS,
            self._common(table)
            | launch_columns(_triple(table, *_GRID), _triple(table, *_WORKGROUP), registers_of, fixed, shared)
            | {
                "device": self._devices(table["agent_id"]),
                "stream": streams(table["stream_id"], table["queue_id"]),
                "name": value_by_key(kernel, ids, names),
                "mangled_name": value_by_key(kernel, ids, self._raw.codes.column(mangled)),
            },
        )

    def _copies(self) -> None:
        table = self.database.columns("rocpd_memory_copy", *_WHERE, "src_agent_id", "dst_agent_id", "name_id", "size")
        texts, numbers = self._named(table["name_id"])
        target, source = self._devices(table["dst_agent_id"]), self._devices(table["src_agent_id"])
        self._raw.add(
            Table.COPIES,
            self._common(table)
            | copy_columns(self._raw, numbers, texts)
            | {
                "device": np.where(target == NOT_RECORDED, source, target),
                "stream": streams(table["stream_id"], table["queue_id"]),
                "bytes": recorded(table["size"]),
            },
        )

    def _named(self, ids: Ints) -> tuple[list[str], Ints]:
        """The distinct texts behind ids, and the number of each row's; -1 for what has none."""
        distinct, numbers = np.unique(ids, return_inverse=True)
        texts = [self._strings.get(number) for number in distinct.tolist()]
        held = [text or "" for text in texts]
        return held, np.where(np.array([text is None for text in texts], bool)[numbers], -1, numbers)

    def _regions(self) -> None:
        table = self.database.columns("rocpd_region", *_WHERE, "name_id")
        if not len(table["start"]):
            return
        category = value_by_key(table["event_id"], self._events["id"], self._events["category_id"])
        domains, domain = self._named(category)
        texts, name = self._named(table["name_id"])
        pairs, pair = np.unique(np.stack([domain, name]), axis=1, return_inverse=True)
        said = [(domains[d] if d >= 0 else "", texts[n] if n >= 0 else "") for d, n in pairs.T.tolist()]
        layers = [layer_of(*both) for both in said]
        columns = self._common(table) | {"tid": _by_dict(table["tid"], self._tid_of)}
        columns["name"] = self._raw.codes.column(text for _, text in said)[pair.reshape(-1)]
        layer = self._raw.codes.column(layers)[pair.reshape(-1)]
        is_call = layer >= 0
        self._raw.add(Table.CALLS, columns | {"layer": layer}, is_call)
        rows = np.flatnonzero(~is_call)
        if len(rows):
            named = self._messages(table["event_id"][rows])
            columns = {key: values[rows] for key, values in columns.items()}
            columns["name"] = np.where(named >= 0, named, columns["name"])
            is_roctx = np.array([place.startswith("MARKER") for place, _ in said], bool)[pair.reshape(-1)][rows]
            own_domains = self._raw.codes.column(
                "" if own else domains[domain[row]] for own, row in zip(is_roctx.tolist(), rows.tolist(), strict=True)
            )
            self._raw.add(Table.RANGES, range_columns(self._raw, columns, own_domains))

    def _messages(self, events: Ints) -> Ints:
        """What roctx's markers say, which their events hold as JSON; NO_TEXT where that is nothing."""
        texts, numbers = self.database.texts("rocpd_event", "extdata")
        codes = self._raw.codes.column(
            said if isinstance(said := _json(text).get("message"), str) and said else None for text in texts
        )
        of_event = np.append(codes, NOT_RECORDED)[numbers]
        return value_by_key(events, self._events["id"], of_event)

    def _allocations(self) -> None:
        table = self.database.columns("rocpd_memory_allocate", "start", "pid", "agent_id", "address", "size")
        kinds = self.database.each_text("rocpd_memory_allocate", "type")
        levels = self.database.each_text("rocpd_memory_allocate", "level")
        rows = zip(
            table["start"].tolist(),
            _by_dict(table["pid"], self._pid_of).tolist(),
            kinds,
            levels,
            table["address"].tolist(),
            table["size"].tolist(),
            self._devices(table["agent_id"]).tolist(),
            strict=True,
        )
        add_allocations(
            self._raw,
            (
                (start, pid, kind == "FREE", address, max(size, NOT_RECORDED), device)
                for start, pid, kind, level, address, size, device in rows
                if level == "REAL" and start != NULL
            ),
        )

    def _counters(self) -> None:
        """Counters of kernels: the sum over a counter's instances, at the kernel's end."""
        pmc = self.database.columns("rocpd_pmc_event", "event_id", "pmc_id")
        values = self.database.each_text("rocpd_pmc_event", "value")
        kernels = self.database.columns("rocpd_kernel_dispatch", "event_id", "start", "end", "agent_id")
        names = self.database.by_id("rocpd_info_pmc", "name")
        sums: dict[tuple[int, str], float] = {}
        for event, counter, value in zip(pmc["event_id"].tolist(), pmc["pmc_id"].tolist(), values, strict=True):
            key = (event, names.get(counter, f"counter {counter}"))
            sums[key] = sums.get(key, 0.0) + float(value or 0)
        events = ints(event for event, _ in sums)
        ends = value_by_key(events, kernels["event_id"], kernels["end"], NULL)
        self._raw.add(
            Table.METRICS,
            {
                "start_ns": ends,
                "end_ns": ends,
                "device": self._devices(value_by_key(events, kernels["event_id"], kernels["agent_id"])),
                "name": self._raw.codes.column(name for _, name in sums),
                "value": np.array([round(value) if abs(value) < 2**62 else -1 for value in sums.values()], np.int64),
            },
        )


def _read_rpd(export: StoredTables, name: str, wanted: WantedColumns, limits: Limits) -> Trace:
    raw, database = RawTables(name, wanted, limits), _Database(export, name)
    strings = database.by_id("rocpd_string", "string")
    api = database.columns("rocpd_api", "id", "pid", "tid", "start", "end", "apiName_id", "args_id")
    ops = database.columns("rocpd_op", "id", "gpuId", "queueId", "start", "end", "description_id", "opType_id")
    pairs = database.columns("rocpd_api_ops", "api_id", "op_id")
    call = value_by_key(ops["id"], pairs["op_id"], recorded(pairs["api_id"]))
    common = {
        "start_ns": ops["start"],
        "end_ns": ops["end"],
        "device": recorded(ops["gpuId"]),
        "stream": recorded(ops["queueId"]),
        "correlation": call,
        "pid": value_by_key(call, api["id"], recorded(api["pid"])),
    }
    kinds, kind = np.unique(ops["opType_id"], return_inverse=True)
    types = [strings.get(number, "") for number in kinds.tolist()]
    is_kernel = np.array([text == "KernelExecution" for text in types], bool)[kind]
    is_copy = np.array([text.startswith(("Copy", "Fill")) for text in types], bool)[kind]
    launches = database.columns("rocpd_kernelapi", "api_ptr_id", "groupSegmentSize", *_RPD_GRID, *_RPD_WORKGROUP)
    # newer ones call every kernel an operation of its own type: whatever says which kernel it was is one
    is_kernel |= ~is_copy & np.isin(call, launches["api_ptr_id"]) & (call != NOT_RECORDED)
    _rpd_kernels(raw, common, ops, strings, launches, is_kernel)
    _rpd_copies(raw, database, common, types, kind, is_copy)
    for place, text in enumerate(types):
        raw.notes += counted(
            "events-unknown", int(np.count_nonzero((kind == place) & ~is_kernel & ~is_copy)), kind=text
        )
    _rpd_calls(raw, api, strings)
    _rpd_monitors(raw, database)
    version = dict(
        zip(database.each_text("rocpd_metadata", "tag"), database.each_text("rocpd_metadata", "value"), strict=True)
    )
    origin = {"tool": "rocmProfileData", "container": "rpd", "schema_version": version.get("schema_version")}
    counts = {table: database.count(table) for table in ("rocpd_api", "rocpd_op", "rocpd_monitor")}
    return finish(raw, {}, 0, origin, _processes(api["pid"]), counts)


def _processes(pids: Ints) -> dict[int, str | None]:
    """The processes of calls, that of most first."""
    numbers, counts = np.unique(pids[pids != NULL], return_counts=True)
    return {int(numbers[place]): None for place in np.argsort(-counts, kind="stable")}


_RPD_GRID: Final = ("gridX", "gridY", "gridZ")
_RPD_WORKGROUP: Final = ("workgroupX", "workgroupY", "workgroupZ")


def _rpd_kernels(
    raw: RawTables,
    common: Columns,
    ops: Mapping[str, Ints],
    strings: Mapping[int, str],
    launches: Mapping[str, Ints],
    chosen: NDArray[np.bool_],
) -> None:
    columns = {key: values[chosen] for key, values in common.items()}
    call, keys = columns["correlation"], launches["api_ptr_id"]
    sizes = {key: value_by_key(call, keys, recorded(launches[key])) for key in launches}
    workgroup = _triple(sizes, *_RPD_WORKGROUP)
    distinct, numbers = np.unique(ops["description_id"][chosen], return_inverse=True)
    names = raw.codes.column(strings.get(number, "") or f"kernel {number}" for number in distinct.tolist())
    raw.add(
        Table.KERNELS,
        columns
        | {
            "name": names[numbers],
            "grid": blocks(_triple(sizes, *_RPD_GRID), workgroup),
            "block": workgroup,
            "smem_dynamic_bytes": sizes["groupSegmentSize"],
        },
    )


def _rpd_copies(
    raw: RawTables, database: _Database, common: Columns, types: list[str], kind: Ints, chosen: NDArray[np.bool_]
) -> None:
    columns = {key: values[chosen] for key, values in common.items()}
    copies = database.columns("rocpd_copyapi", "api_ptr_id", "size")
    amounts = value_by_key(columns["correlation"], copies["api_ptr_id"], recorded(copies["size"]))
    raw.add(Table.COPIES, columns | copy_columns(raw, kind[chosen], types) | {"bytes": amounts})


def _rpd_calls(raw: RawTables, api: Mapping[str, Ints], strings: Mapping[int, str]) -> None:
    """Calls of HIP and HSA by their names; the tracer's own work; all else are annotations, a marker's by its text."""
    ids, name = np.unique(api["apiName_id"], return_inverse=True)
    texts = [strings.get(number, "") for number in ids.tolist()]
    layer = raw.codes.column(layer_of("", text) for text in texts)[name]
    is_own = np.array([OWN_WORK.search(text) is not None for text in texts], bool)[name]
    columns: Columns = {
        "start_ns": api["start"],
        "end_ns": api["end"],
        "pid": recorded(api["pid"]),
        "tid": recorded(api["tid"]),
        "name": raw.codes.column(texts)[name],
    }
    chosen = layer >= 0
    raw.add(Table.CALLS, columns | {"correlation": recorded(api["id"]), "layer": layer}, chosen)
    raw.add(Table.OVERHEADS, columns, is_own & ~chosen)
    args, arg = np.unique(api["args_id"], return_inverse=True)
    is_marker = np.array([text == "UserMarker" for text in texts], bool)[name]
    said = raw.codes.column(strings.get(number) or None for number in args.tolist())[arg]
    columns["name"] = np.where(is_marker & (said >= 0), said, columns["name"])
    raw.add(Table.RANGES, range_columns(raw, columns, ""), ~is_own & ~chosen)


_UNITS: Final = {"sclk": " [MHz]", "mclk": " [MHz]", "power": " [W]", "temp": " [C]", "vram": " [%]"}


def _rpd_monitors(raw: RawTables, database: _Database) -> None:
    if not raw.wants(Table.METRICS):
        return
    table = database.columns("rocpd_monitor", "deviceId", "start", "end")
    kinds = database.each_text("rocpd_monitor", "monitorType")
    values = [_whole(text) for text in database.each_text("rocpd_monitor", "value")]
    raw.add(
        Table.METRICS,
        {
            "start_ns": table["start"],
            "end_ns": table["end"],
            "device": recorded(table["deviceId"]),
            "name": raw.codes.column(kind + _UNITS.get(kind, "") for kind in kinds),
            "value": np.array(values, np.int64),
        },
    )


def _whole(text: str) -> int:
    try:
        value = float(text)
    except ValueError:
        return NOT_RECORDED
    return round(value) if abs(value) < 2**62 else NOT_RECORDED


def _read_v1(export: StoredTables, name: str, wanted: WantedColumns, limits: Limits) -> Trace:
    raw, database = RawTables(name, wanted, limits), _Database(export, name)
    pids = [np.empty(0, np.int64)]
    own_pids = np.unique(database.columns("OPS", "proc-id")["proc-id"])  # where `pid` numbers a row of the picture
    own_pid = int(own_pids[0]) if len(own_pids) == 1 else NULL
    for table, into in (
        ("OPS", Table.KERNELS),
        ("COPY", Table.COPIES),
        ("HIP", Table.CALLS),
        ("HSA", Table.CALLS),
        ("rocTX", Table.RANGES),
    ):
        columns = database.columns(table, "BeginNs", "EndNs", "dev-id", "queue-id", "stream-id", "pid", "tid", "Index")
        texts, numbers = database.texts(table, "Name")
        if own_pid != NULL:
            columns["pid"] = np.full(len(numbers), own_pid)
        if into is Table.KERNELS:  # its word for events and barriers
            is_kernel = np.isin(numbers, [place for place, text in enumerate(texts) if text != "Unknown command type"])
            columns, numbers = {key: column[is_kernel] for key, column in columns.items()}, numbers[is_kernel]
        common: Columns = {"start_ns": columns["BeginNs"], "end_ns": columns["EndNs"], "pid": recorded(columns["pid"])}
        if into in (Table.KERNELS, Table.COPIES):
            common |= {
                "device": recorded(columns["dev-id"]),
                "stream": streams(columns["stream-id"], columns["queue-id"]),
                "correlation": recorded(columns["Index"]),
            }
        else:
            common["tid"] = recorded(columns["tid"])
            pids.append(columns["pid"])
        codes = np.append(raw.codes.column(texts), NOT_RECORDED)[numbers]
        if into is Table.COPIES:
            common |= copy_columns(raw, numbers, texts)
        elif into is Table.RANGES:
            common = range_columns(raw, common | {"name": codes}, "")
        else:
            common["name"] = codes
        if into is Table.CALLS:
            is_hip = table == "HIP"
            common["correlation"] = recorded(columns["Index"]) if is_hip else np.full(len(codes), NOT_RECORDED)
            common["layer"] = np.full(len(codes), raw.codes["runtime" if is_hip else "driver"])
        raw.add(into, common)
    if not database.count("OPS") and set(export.tables.get("KERN", ())) >= _TIMES:
        pids.append(_v1_kernels(raw, database))
    counts = {table: database.count(table) for table in _V1}
    origin = {"tool": "rocprof", "container": "sqlite"}
    return finish(raw, {}, 0, origin, _processes(np.concatenate(pids)), counts)


def _v1_kernels(raw: RawTables, database: _Database) -> Ints:
    """Kernels as rocprof writes them where it traced no calls; and their processes."""
    table = database.columns("KERN", "BeginNs", "EndNs", "gpu-id", "queue-id", "pid", "grd", "wgr", "lds")
    texts, numbers = database.texts("KERN", "KernelName")
    names = raw.codes.column(bare_symbol(text.strip('"')) for text in texts)
    raw.add(
        Table.KERNELS,
        {
            "start_ns": table["BeginNs"],
            "end_ns": table["EndNs"],
            "device": recorded(table["gpu-id"]),
            "stream": recorded(table["queue-id"]),
            "pid": recorded(table["pid"]),
            "name": np.append(names, NOT_RECORDED)[numbers],
            "smem_dynamic_bytes": recorded(table["lds"]),
        },
    )
    return recorded(table["pid"])

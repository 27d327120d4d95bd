"""XSpace of JAX's and TensorFlow's profiler (*.xplane.pb) -> Trace.

A plane is a device or the host, a line a stream or a thread, an event an offset from its line's time. Texts stand once
in a plane, as metadata that events and their stats name by number. Of a GPU's plane only the lines of streams are work:
the others, such as `XLA Ops`, show the same time again. What XLA ran a kernel for (`hlo_op`, `hlo_module`) becomes an
operator around the call that launched it; a step's number joins its name; Python's functions are ranges of their own
kind, named with their file and line. Planes of TPUs are not GPUs: they are counted, and a profile of nothing else is
refused.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.errors import UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.read.assembled import Columns, RawTables, copy_columns
from gpuledger.read.protobuf import Bytes, Damage, MessageColumns, WirePart, message_columns, parts
from gpuledger.read.request import Format, Progress, WantedColumns, counted
from gpuledger.read.rocm.words import bare_symbol
from gpuledger.read.source import Source, in_time, opened
from gpuledger.read.stream import too_large
from gpuledger.regex import regex
from gpuledger.trace.model import UNNAMED_GPU, Gpu, Origin, Process, Trace
from gpuledger.trace.spans import Ints
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import NOT_RECORDED, Table
from gpuledger.units import bytes_text

_GPU: Final = regex(r"/device:GPU:(?P<number>\d{1,6})")
_NAMED: Final = (b"/host:", b"/device:", b"Task Environment")
_STREAM: Final = regex(r"Stream #(?P<number>\d{1,18})")
_PYTHON: Final = regex(r"\$(?P<file>\S+?):(?P<line>\d+) (?P<function>.+)")
_CALL: Final = regex(r"^(cu[A-Z]|cuda[A-Z]|hip[A-Z]|hsa_)")
_COPY: Final = regex(r"^(Memcpy|Copy(Device|Host))")
_SET: Final = regex(r"^(Memset|FillBuffer)")
_PLACE: Final = regex(r"(?P<name>[a-z_]+):(?P<value>[\d,]+)")


class _XPlane(Struct, frozen=True):
    """One plane: its name, where its lines lie, and the texts and stats that they name by number."""

    name: str
    lines: list[WirePart]
    events: dict[int, str]
    stats: dict[int, str]
    own: dict[str, Any]
    """What the plane says of itself."""


class XplaneReader:
    """What `jax.profiler.trace` and TensorFlow's profiler write -> Trace."""

    name = "xplane"
    formats = (
        Format(
            ".xplane.pb",
            "`jax.profiler.trace`, TensorFlow's profiler",
            "JAX 0.8 and before, on AMD's GPUs",
            "processes, synchronizations, OS calls; on AMD the thread of calls is not that of ranges",
        ),
    )

    def recognises(self, source: Source) -> bool:
        return source.head[:1] == b"\n" and any(name in source.head[:128] for name in _NAMED)

    def read(self, source: Source, wanted: WantedColumns, limits: Limits, progress: Progress) -> Trace:
        if source.size > limits.unpacked_bytes:
            raise too_large(source.name, limits.unpacked_bytes)
        with in_time(source.name, limits), opened(source) as file:
            content = file.read()
            try:
                return _XspaceReading(content, source.name, wanted, limits, progress).trace()
            except Damage:
                raise UnreadableProfile(
                    f"{source.name}: a damaged profile of JAX or TensorFlow",
                    found=f"{bytes_text(source.size)}, whose messages do not end where they should",
                    hint="copy it again from where it was recorded",
                ) from None


class _XspaceReading:
    def __init__(self, content: bytes, name: str, wanted: WantedColumns, limits: Limits, progress: Progress) -> None:
        self._content, self._bytes = content, np.frombuffer(content, np.uint8)
        self._name, self._limits, self._progress = name, limits, progress
        self._raw = RawTables(name, wanted, limits)
        self._rows: Counter[str] = Counter()
        self._threads: dict[str, int] = {}
        self._calls: list[Columns] = []
        self._launched: list[tuple[Ints, Ints, Ints]] = []
        """Of GPU work: the call's number, and the codes of the operator and its module."""

    def trace(self) -> Trace:
        planes = [self._plane(part) for part in parts(self._content, 0, len(self._content)) if part.field == 1]
        gpus: dict[int, Gpu] = {}
        environment: dict[str, Any] = {}
        for plane in planes:
            if (match := _GPU.search(plane.name)) is not None:
                gpus[int(match["number"])] = _described(plane.own)
                self._device_plane(plane, int(match["number"]))
            elif plane.name == "/host:CPU":
                self._host_plane(plane)
            elif plane.name == "Task Environment":
                environment = plane.own
            else:
                self._rows[plane.name] += sum(self._count(line) for line in plane.lines)
        others = Counter({name: count for name, count in self._rows.items() if name.startswith("/device:") and count})
        if others and not self._rows.keys() & {"kernels and copies"}:
            self._refuse_without_gpu(others)
        for name, count in others.items():
            self._raw.notes += counted("planes-not-gpu", count, plane=name)
        self._add_operators()
        for columns in self._calls:
            self._raw.add(Table.CALLS, columns)
        described = self._raw.place_on_gpus(gpus, self._limits.gpus)
        return self._raw.trace(self._origin(described, environment), 0)

    def _origin(self, gpus: tuple[Gpu, ...], environment: dict[str, Any]) -> Origin:
        began = environment.get("profile_start_time")
        is_wall = isinstance(began, int) and 1_420_070_400 * 10**9 < began < 4_102_444_800 * 10**9
        when = datetime.datetime.fromtimestamp(began // 10**9, datetime.UTC) if is_wall and began else None
        return Origin(
            tool="XLA profiler",
            container="xplane",
            started_utc=when.strftime("%Y-%m-%d %H:%M:%S") if when else None,
            gpus=gpus,
            processes=(Process(0, None),),
            source_rows=tuple(sorted((name, count) for name, count in self._rows.items() if count)),
        )

    def _refuse_without_gpu(self, others: Counter[str]) -> None:
        name, count = others.most_common(1)[0]
        raise UnreadableProfile(
            f"{self._name}: a profile of JAX or TensorFlow, and what it recorded did not run on a GPU",
            found=f"{count:,} events of {name}",
            hint="only GPUs are supported",
        )

    def _plane(self, plane: WirePart) -> _XPlane:
        name, lines = "", list[WirePart]()
        events, stats, own = dict[int, str](), dict[int, str](), list[WirePart]()
        for part in parts(self._content, plane.start, plane.end):
            if part.field == 2:
                name = self._text(part)
            elif part.field == 3:
                lines.append(part)
            elif part.field in (4, 5):
                number, text = self._named(part)
                (events if part.field == 4 else stats)[number] = text
            elif part.field == 6:
                own.append(part)
        said = self._stats(np.array([(part.start, part.end) for part in own], np.int64).reshape(-1, 2), stats)
        return _XPlane(name, lines, events, stats, {key: values[-1][1] for key, values in said.items()})

    def _text(self, part: WirePart) -> str:
        return self._content[part.start : part.end].decode(errors="backslashreplace")

    def _named(self, entry: WirePart) -> tuple[int, str]:
        """One entry of the metadata of events or stats: its number and its name; a display name is worth more."""
        number, text = 0, ""
        for part in parts(self._content, entry.start, entry.end):
            if part.field == 1:
                number = part.value
            elif part.field == 2:
                for inner in parts(self._content, part.start, part.end):
                    if inner.field == 2 or (inner.field == 4 and inner.end > inner.start):
                        text = self._text(inner)
        return number, text

    def _stats(self, places: Ints, names: dict[int, str]) -> dict[str, list[tuple[int, Any]]]:
        """Stats at these places, by their names: whose each is, and its value."""
        said = dict[str, list[tuple[int, Any]]]()
        split = message_columns(self._bytes, places[:, 0], places[:, 1])
        numbers = split.column(1, len(places)).tolist()
        for owner, kind, value, start, end in zip(*(column.tolist() for column in split), strict=True):
            if kind > 1 and (name := names.get(numbers[owner])) is not None:
                said.setdefault(name, []).append((owner, _stat(self._bytes, names, kind, value, start, end)))
        return said

    def _count(self, line: WirePart) -> int:
        return sum(part.field == 4 for part in parts(self._content, line.start, line.end))

    def _line(self, line: WirePart, plane: _XPlane) -> _EventLine:
        name, at, number, places = "", 0, 0, list[tuple[int, int]]()
        for part in parts(self._content, line.start, line.end):
            if part.field == 4:
                places.append((part.start, part.end))
            elif part.field == 1:
                number = part.value
            elif part.field == 2:
                name = self._text(part)
            elif part.field == 3:
                at = part.value
        where = np.array(places, np.int64).reshape(-1, 2)
        self._progress(f"{plane.name} {name}", len(where))
        return _EventLine(self._bytes, name, number, at, where, plane)

    def _device_plane(self, plane: _XPlane, gpu: int) -> None:
        for part in plane.lines:
            line = self._line(part, plane)
            if (match := _STREAM.match(line.name)) is None:
                self._rows[f"{line.name} (shown again)"] += len(line)
                continue
            self._rows["kernels and copies"] += len(line)
            self._work(line, gpu, int(match["number"]))

    def _work(self, line: _EventLine, gpu: int, stream: int) -> None:
        codes, count = self._raw.codes, len(line)
        copied, kernel_said = line.texts("memcpy_details"), line.texts("kernel_details")
        is_copy = (line.matches(_COPY.search) | (copied.code >= 0)) & (kernel_said.code < 0)
        is_set = line.matches(_SET.search) | (line.texts("memset_details").code >= 0)
        correlation = line.numbers("correlation_id")
        common: Columns = {
            "start_ns": line.start_ns,
            "end_ns": line.end_ns,
            "device": np.full(count, gpu),
            "stream": np.full(count, stream),
            "correlation": np.where(correlation > 0, correlation, NOT_RECORDED),
        }
        moved = is_copy | is_set
        kernels = kernel_said.parsed()
        names = codes.column(map(bare_symbol, line.names))
        of_kernel: Columns = {
            "name": names[line.name_row],
            "grid": _triples(kernels.get("grid", {}), kernel_said.code),
            "block": _triples(kernels.get("block", {}), kernel_said.code),
            "registers": _number(kernels.get("regs", {}), kernel_said.code),
            "smem_static_bytes": _number(kernels.get("static_shared", {}), kernel_said.code),
            "smem_dynamic_bytes": _number(kernels.get("dynamic_shared", {}), kernel_said.code),
        }
        self._raw.add(Table.KERNELS, common | of_kernel, ~moved)
        copies = _number(copied.parsed().get("size", {}), copied.code)
        copies = np.where(
            is_set, _number(line.texts("memset_details").parsed().get("num_bytes", {}), copied.code), copies
        )
        of_copy = copy_columns(self._raw, line.name_row, line.names) | {"bytes": copies}
        self._raw.add(Table.COPIES, common | of_copy, moved)
        operator, module = line.texts("hlo_op"), line.texts("hlo_module")
        own = codes.column(operator.distinct)[operator.code] if operator.distinct else np.full(count, NO_TEXT)
        of_module = codes.column(module.distinct)[module.code] if module.distinct else np.full(count, NO_TEXT)
        known = (operator.code >= 0) & (correlation > 0)
        self._launched.append((correlation[known], own[known], np.where(module.code >= 0, of_module, NO_TEXT)[known]))

    def _host_plane(self, plane: _XPlane) -> None:
        for part in plane.lines:
            line = self._line(part, plane)
            if not len(line):
                continue
            self._rows["host events"] += len(line)
            tid = (
                line.number
                if 0 <= line.number < 2**31
                else 2**31 + self._threads.setdefault(line.name, len(self._threads))
            )
            common = {"start_ns": line.start_ns, "end_ns": line.end_ns, "tid": np.full(len(line), tid)}
            is_call = line.matches(_CALL.search)
            if is_call.any():
                self._add_calls(line, common, is_call)
            if self._raw.wants(Table.RANGES):
                self._add_ranges(line, common, ~is_call)

    def _add_calls(self, line: _EventLine, common: Columns, chosen: NDArray[np.bool_]) -> None:
        layers = ["driver" if re.match(r"cu[A-Z]|hsa_", name) else "runtime" for name in line.names]
        correlation = line.numbers("correlation_id")
        columns = common | {
            "name": self._raw.codes.column(line.names)[line.name_row],
            "layer": self._raw.codes.column(layers)[line.name_row],
            "correlation": np.where(correlation > 0, correlation, NOT_RECORDED),
        }
        self._calls.append({key: values[chosen] for key, values in columns.items()})

    def _add_ranges(self, line: _EventLine, common: Columns, chosen: NDArray[np.bool_]) -> None:
        codes = self._raw.codes
        python = [_PYTHON.fullmatch(name) for name in line.names]
        said = [
            f"{match['file']}({match['line']}): {match['function']}" if match else name
            for match, name in zip(python, line.names, strict=True)
        ]
        names = codes.column(said)[line.name_row].copy()
        for row, step in line.said("step_num"):
            names[row] = codes[f"{line.names[line.name_row[row]]} {step}"]
        kinds = codes.column("python" if match else "push_pop" for match in python)[line.name_row]
        kinds = np.where(line.start_ns == line.end_ns, codes["mark"], kinds)
        columns = common | {"name": names, "kind": kinds, "domain": np.full(len(line), codes[""])}
        self._raw.add(Table.RANGES, columns, chosen)

    def _add_operators(self) -> None:
        """What XLA ran GPU work for, around the calls that launched it: the first where a call launched several."""
        if not self._raw.wants(Table.RANGES) or not self._launched:
            return
        launched, operator, module = (np.concatenate(columns) for columns in zip(*self._launched, strict=True))
        numbers, first = np.unique(launched, return_index=True)
        for calls in self._calls:
            place = np.minimum(np.searchsorted(numbers, calls["correlation"]), max(len(numbers) - 1, 0))
            mine = np.flatnonzero(numbers[place] == calls["correlation"]) if len(numbers) else np.empty(0, np.int64)
            rows = first[place[mine]] if len(mine) else mine
            self._raw.add(
                Table.RANGES,
                {key: calls[key][mine] for key in ("start_ns", "end_ns", "tid")}
                | {"name": operator[rows], "domain": module[rows], "kind": np.full(len(mine), self._raw.codes["op"])},
            )


class _StatTexts:
    """A stat that is a text: its distinct texts, and the number of each event's; -1 where it has none."""

    def __init__(self, said: Iterable[tuple[int, Any]], count: int) -> None:
        number: dict[str, int] = {}
        self.code = np.full(count, -1)
        for row, text in said:
            self.code[row] = number.setdefault(str(text), len(number))
        self.distinct = list(number)

    def parsed(self) -> dict[str, dict[int, list[int]]]:
        """Of `grid:1,1,1 regs:32`: the numbers behind each name, by the number of the text."""
        found = dict[str, dict[int, list[int]]]()
        for number, text in enumerate(self.distinct):
            for match in _PLACE.finditer(text):
                values = [int(value) for value in match["value"].split(",") if value and len(value) < 16]
                found.setdefault(match["name"], {})[number] = values
        return found


def _stat(content: Bytes, names: dict[int, str], kind: int, value: int, start: int, end: int) -> Any:
    """The value of a stat: a number, or a text that stands there or among the names."""
    if kind == 7:
        return names.get(value, "")
    return content[start:end].tobytes().decode(errors="backslashreplace") if kind in (5, 6) else value


def _triples(values: dict[int, list[int]], code: Ints, width: int = 3) -> NDArray[np.int64]:
    """The numbers of each text, where it has so many."""
    by_code = np.full((max(values, default=-1) + 2, width), NOT_RECORDED, np.int64)
    for number, said in values.items():
        if len(said) == width:
            by_code[number] = said
    return by_code[np.where(code < len(by_code), code, -1)]


def _number(values: dict[int, list[int]], code: Ints) -> Ints:
    """The one number of each text."""
    return _triples(values, code, 1)[:, 0]


class _EventLine:
    """The events of one line, as columns; their stats are looked at when first asked for."""

    def __init__(self, content: Bytes, name: str, number: int, at_ns: int, where: Ints, plane: _XPlane) -> None:
        self.name, self.number, self._content, self._plane = name, number, content, plane
        count = len(where)
        self._fields = message_columns(content, where[:, 0], where[:, 1])
        offset, length = self._fields.column(2, count), self._fields.column(3, count)
        self.start_ns = at_ns + offset // 1000
        self.end_ns = at_ns + (offset + length) // 1000
        metadata, self.name_row = np.unique(self._fields.column(1, count), return_inverse=True)
        self.names = [plane.events.get(number, f"event {number}") for number in metadata.tolist()]

    def __len__(self) -> int:
        return len(self.start_ns)

    def matches(self, pattern: Callable[[str], object]) -> NDArray[np.bool_]:
        """Which events have a name that fits."""
        return np.array([pattern(name) is not None for name in self.names], bool)[self.name_row]

    def _stats(self, name: str) -> tuple[MessageColumns, Ints]:
        """The values of the stats of this name, and whose event each is."""
        numbers = [number for number, text in self._plane.stats.items() if text == name]
        if not hasattr(self, "_split"):
            held = self._fields.of(4)
            self._held_by = held.owner
            self._split = message_columns(self._content, held.start, held.end)
            self._kinds = self._split.column(1, len(held.owner))
        chosen = np.isin(self._kinds[self._split.owner], numbers) & (self._split.field > 1)
        values = MessageColumns(*(column[chosen] for column in self._split))
        return values, self._held_by[values.owner]

    def numbers(self, name: str) -> Ints:
        values, owner = self._stats(name)
        column = np.full(len(self), NOT_RECORDED)
        column[owner] = values.value
        return column

    def said(self, name: str) -> list[tuple[int, Any]]:
        """The values of a stat with the rows of their events."""
        values, owner = self._stats(name)
        content, names = self._content, self._plane.stats
        return [
            (row, _stat(content, names, *told))
            for row, *told in zip(owner.tolist(), *(column.tolist() for column in values[1:]), strict=True)
        ]

    def texts(self, name: str) -> _StatTexts:
        return _StatTexts(self.said(name), len(self))


def _described(own: dict[str, Any]) -> Gpu:
    """One GPU, from what its plane says of it. AMD's architecture is no compute capability."""

    def known(key: str) -> int | None:
        value = own.get(key)
        return value if type(value) is int and 0 < value < 2**60 else None

    vendor, clock = own.get("device_vendor"), known("clock_rate")
    major, minor = own.get("compute_cap_major"), own.get("compute_cap_minor", 0)
    is_nvidia = isinstance(vendor, str) and vendor.upper().startswith("NVIDIA")
    name = own.get("gpu_device_name") or own.get("device_type_string") or (f"{vendor} GPU" if vendor else None)
    return Gpu(
        name=name if isinstance(name, str) else UNNAMED_GPU,
        compute_capability=(major, minor) if is_nvidia and type(major) is int and type(minor) is int else None,
        sm_count=known("core_count"),
        memory_bytes=known("memory_size"),
        bandwidth_bytes_per_s=known("memory_bandwidth"),
        clock_hz=None if clock is None else clock * 1000,
    )

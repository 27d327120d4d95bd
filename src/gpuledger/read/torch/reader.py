"""torch.profiler (Kineto) trace -> Trace. NVIDIA and AMD, torch 1.9 to today.

Events become columns batch by batch: memory holds the columns and one batch, never the text. Operators and Python
functions are ranges of their own kinds beside the user's annotations. Kernels carry no process: they belong to the one
that launched the file's calls. Calls that may block get stacks, from the Python functions that torch recorded around
them. What torch 2.12 and later record of a graph's nodes while it is captured comes in a small JSON file of its own.
"""

from __future__ import annotations

import datetime
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from gpuledger.errors import NothingRecorded, UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.read.assembled import WORK, Columns, RawTables
from gpuledger.read.request import Format, Progress, WantedColumns, counted
from gpuledger.read.source import Source, in_time, look_at, opened, unrecognised
from gpuledger.read.stream import GZIP, ByteStream, PlainFile, read_ahead, unpacked
from gpuledger.read.torch.columns import CATEGORIES
from gpuledger.read.torch.events import other_trace
from gpuledger.read.torch.gather import GatheredEvents, by_table, gather, gather_in_parts
from gpuledger.system.opening import is_file
from gpuledger.trace.deadline import check
from gpuledger.trace.keys import distinct, occurrences
from gpuledger.trace.model import UNNAMED_GPU, Gpu, Note, Origin, Process, Trace, thread_number
from gpuledger.trace.spans import holds, parents, union
from gpuledger.trace.strings import Stacks, torch_frame
from gpuledger.trace.tables import NOT_RECORDED, Table
from gpuledger.units import bytes_text, count_text


def _described_gpus(metadata: Mapping[str, Any], numbers: Sequence[int]) -> dict[int, Gpu]:
    """What a trace says of the GPUs with these numbers."""
    listed = metadata.get("deviceProperties")
    known = [gpu for gpu in listed if isinstance(gpu, dict)] if isinstance(listed, list) else []
    by_id = {_int(gpu.get("id")): gpu for gpu in known}
    # AMD numbers agents, not devices: where the number says nothing, equal GPUs still say what they are
    same = known[0] if known and all(gpu.get("name") == known[0].get("name") for gpu in known) else {}
    return {number: _gpu(by_id.get(number, same)) for number in numbers}


def _gpu(properties: Mapping[str, Any]) -> Gpu:
    major, minor = (_int(properties.get(key)) for key in ("computeMajor", "computeMinor"))
    name = properties.get("name")
    return Gpu(
        name=name if isinstance(name, str) and name else UNNAMED_GPU,
        compute_capability=None if major is None or minor is None else (major, minor),
        sm_count=_int(properties.get("numSms")),
        memory_bytes=_int(properties.get("totalGlobalMem")),
    )


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _origin(
    whole: GatheredEvents, container: str, gpus: tuple[Gpu, ...], tables: Mapping[Table, Columns], wanted: WantedColumns
) -> Origin:
    metadata = whole.metadata
    distributed = metadata.get("distributedInfo")
    job = distributed if isinstance(distributed, dict) else {}
    of_processes = [columns["pid"] for table, columns in tables.items() if "pid" in wanted[table]]
    pids = sorted({int(pid) for column in of_processes for pid in distinct(column) if pid >= 0})
    schema, cuda = metadata.get("schemaVersion"), _int(metadata.get("cuda_runtime_version")) or 0
    # times count from a base that the trace names, in older ones from 1970, and in some on another clock
    base = _int(metadata.get("baseTimeNanoseconds")) or 0
    began = base + min((int(columns["start_ns"].min()) for columns in tables.values()), default=0)
    is_wall = 1_420_070_400 * 10**9 < began < 4_102_444_800 * 10**9  # from 2015 to 2100
    started = datetime.datetime.fromtimestamp(began // 10**9, datetime.UTC) if is_wall else None
    return Origin(
        tool="torch.autograd.profiler" if _is_of_autograd(whole) else "torch.profiler",
        container=container,
        schema_version=None if schema is None else str(schema)[:20],
        started_utc=started.strftime("%Y-%m-%d %H:%M:%S") if started else None,
        wall_zero_ns=base if is_wall else None,
        cuda_version=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda > 0 else None,
        gpus=gpus,
        processes=tuple(Process(pid, whole.process_names.get(pid)) for pid in pids),
        rank=_int(job.get("rank")),
        world_size=_int(job.get("world_size")),
        source_rows=tuple(sorted((category or "no category", count) for category, count in whole.seen.items())),
    )


def _is_of_autograd(whole: GatheredEvents) -> bool:
    """Whether a trace is of torch.autograd.profiler without Kineto."""
    return not whole.metadata and b'"CPU functions"' in whole.head


MAY_BLOCK: Final = re.compile(r"Synchronize|Memcpy|Malloc|Free|HostAlloc|HostRegister|ModuleLoad|Instantiate")
"""Calls whose place in the program is worth knowing; the others are too many."""

_DEEPEST_STACK: Final = 200


def call_stacks(raw: Mapping[Table, dict[str, NDArray[Any]]], codes: dict[str, int]) -> Stacks:
    """Sets the `stack` of such calls; gives the stacks."""
    if Table.CALLS not in raw or Table.RANGES not in raw:
        return Stacks()
    calls, ranges = raw[Table.CALLS], raw[Table.RANGES]
    python = np.flatnonzero(ranges["kind"] == codes.get("python", -2))
    texts = list(codes)
    wanted = [code for code in distinct(calls["name"]).tolist() if MAY_BLOCK.search(texts[code])]
    chosen = np.flatnonzero(np.isin(calls["name"], wanted))
    if not len(python) or not len(chosen):
        return Stacks()
    innermost = _innermost(ranges, python, calls, chosen)
    stack = np.full(len(calls["name"]), NOT_RECORDED)
    number: dict[int, int] = {}
    frames: list[int] = []
    offsets = [0]
    parent, names = ranges["parent"], ranges["name"]
    for call, row in zip(chosen.tolist(), innermost.tolist(), strict=True):
        if row < 0:
            continue
        if row not in number:
            number[row] = len(number)
            function = row
            for _ in range(_DEEPEST_STACK):
                if function < 0:
                    break
                frames.append(codes[torch_frame(texts[names[function]])])
                function = int(parent[function])
            offsets.append(len(frames))
        stack[call] = number[row]
    calls["stack"] = stack
    return Stacks(np.array(offsets, np.int64), np.array(frames, np.int32))


_ENDED_NS: Final = 2_000  # torch rounds times to a microsecond


def end_what_threw(ranges: dict[str, NDArray[Any]], codes: dict[str, int]) -> None:
    """Built-in functions that ended with an exception, which torch does not see, end where they began.

    They are told to last as long as the recording, though who called them had ended before.
    """
    python, texts = np.flatnonzero(ranges["kind"] == codes.get("python", -2)), list(codes)
    owner = thread_number(ranges["pid"][python], ranges["tid"][python])
    for thread in distinct(owner).tolist():
        mine = python[owner == thread]
        start, end = ranges["start_ns"][mine], ranges["end_ns"][mine]
        to_the_end = end >= end.max() - _ENDED_NS
        last = mine[to_the_end]
        last = last[[texts[code].startswith("<built-in") for code in ranges["name"][last].tolist()]]
        threw = last[holds(union(start[~to_the_end], end[~to_the_end]), ranges["start_ns"][last])]
        ranges["end_ns"][threw] = ranges["start_ns"][threw]


def _innermost(
    ranges: Mapping[str, NDArray[Any]],
    python: NDArray[np.intp],
    calls: Mapping[str, NDArray[Any]],
    chosen: NDArray[np.intp],
) -> NDArray[np.intp]:
    """The innermost Python function around each chosen call; -1 for none."""
    owner = thread_number(ranges["pid"], ranges["tid"])
    caller = thread_number(calls["pid"], calls["tid"])
    innermost = np.full(len(chosen), -1, np.intp)
    for thread in distinct(caller[chosen]).tolist():
        mine = python[owner[python] == thread]
        if not len(mine):
            continue
        mine = mine[np.lexsort((-ranges["end_ns"][mine], ranges["start_ns"][mine]))]
        here = np.flatnonzero(caller[chosen] == thread)
        before = np.searchsorted(ranges["start_ns"][mine], calls["start_ns"][chosen[here]], side="right") - 1
        row = np.where(before >= 0, mine[np.maximum(before, 0)], -1)
        for _ in range(_DEEPEST_STACK):
            outside = (row >= 0) & (ranges["end_ns"][row] < calls["start_ns"][chosen[here]])
            if not outside.any():
                break
            row[outside] = ranges["parent"][row[outside]]
        innermost[here] = row
    return innermost


def looks_like_json(head: bytes) -> bool:
    """Whether something that begins so may be a trace."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[") and bool(head)


def says_it_is_a_trace(source: Source, limits: Limits) -> bool:
    """Whether the first bytes of a JSON file, plain or gzipped, have keys of a trace: most JSON files are none."""
    with opened(source) as file:
        head, stream = unpacked(PlainFile(file), source.name, limits)
        stream.read(len(head))
        keys = rb'"(?:traceEvents|deviceProperties|distributedInfo|ph)"\s*:'
        return re.search(keys, head + stream.read(64 << 10)) is not None


class TorchReader:
    """torch.profiler trace -> Trace, plain or gzipped; and what rocprofv3 writes as JSON."""

    name = "json"
    formats = (
        Format(
            "torch.profiler trace, .json or .json.gz",
            "`export_chrome_trace`, `tensorboard_trace_handler`",
            "torch 1.9 to today",
            "OS calls; shapes, stacks and GPU counters unless asked for",
        ),
        Format("rocprofv3 JSON, `*_results.json`", "`rocprofv3 --output-format json`", "of 2025", "as rocpd"),
    )

    def recognises(self, source: Source) -> bool:
        return source.head.startswith(GZIP) or looks_like_json(source.head)

    def read(self, source: Source, wanted: WantedColumns, limits: Limits, progress: Progress) -> Trace:
        with in_time(source.name, limits), opened(source) as file:
            head, stream = unpacked(PlainFile(file), source.name, limits)
            is_packed = source.head.startswith(GZIP)
            if not looks_like_json(head):
                if (inner := replace(source, head=head)).head.startswith(b"\n"):
                    from gpuledger.read.perfetto.reader import PerfettoReader

                    if (reader := PerfettoReader()).recognises(inner):
                        return reader.read(source, wanted, limits, progress)
                raise unrecognised(replace(source, head=head or b"\0"))
            container = "json.gz" if is_packed else "json"
            if b'"rocprofiler-sdk-tool"' in head:
                from gpuledger.read.rocm.text_files import read_json

                return read_json(stream, source.name, container, wanted, limits)
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
    sys.setrecursionlimit(max(before, depth + min(levels, 5000)))  # no deeper than a thread's stack allows
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


_OF_TORCH: Final = frozenset({"schemaVersion", "deviceProperties", "distributedInfo", "traceName"})
"""What Kineto writes beside the events."""


def as_trace(whole: GatheredEvents, name: str, container: str, wanted: WantedColumns, limits: Limits) -> Trace:
    """Raw columns as tables: what Kineto does not say is worked out, text is coded."""
    if not whole.events:
        raise NothingRecorded(f"{name}: the trace holds no events", hint="the profiler was stopped before it started")
    if not (whole.seen.keys() & CATEGORIES.keys() or whole.metadata.keys() & _OF_TORCH):
        refusal = other_trace(name, whole.head + " ".join(whole.metadata).encode(), whole.seen)
        if refusal is not None:
            raise refusal
    check()
    tables, texts = by_table(whole)
    if _is_of_autograd(whole):
        whole.notes.append(_without_outer_operators(tables))
    if Table.METRICS in tables:
        _mark_counts(tables[Table.METRICS], texts)
    raw = RawTables.of(name, wanted, limits, tables, texts)
    raw.notes += whole.notes
    numbers = {table: columns["device"] for table, columns in tables.items() if "device" in columns}
    gpus = raw.place_on_gpus(_described_gpus(whole.metadata, raw.numbers_of_gpus(*_ON_GPU)), limits.gpus)
    for table, own in numbers.items():  # as torch has them
        tables[table]["device"] = own
    raw.notes += _losses(whole, limits)
    if Table.RANGES in tables:
        end_what_threw(tables[Table.RANGES], raw.codes)
    tables = raw.complete(_main_process(tables, whole.process_names))
    stacks = call_stacks(tables, raw.codes) if "stack" in wanted.get(Table.CALLS, ()) else Stacks()
    return raw.finish(_origin(whole, container, gpus, tables, wanted), stacks)


def _without_outer_operators(raw: dict[Table, Columns]) -> Note:
    """Of the autograd profiler's GPU times, which are those of operators, leaves the innermost ones."""
    work = raw.get(Table.KERNELS, {})
    outer = 0
    if work:
        around = parents(work["start_ns"], work["end_ns"], work["device"])
        inner = np.ones(len(around), np.bool_)
        inner[around[around >= 0]] = False
        outer = int(np.count_nonzero(~inner))
        raw[Table.KERNELS] = {name: values[inner] for name, values in work.items()}
    [note] = counted("times-of-operators", 1, outer=count_text(outer))
    return note


def _main_process(raw: Mapping[Table, Columns], names: Mapping[int, str]) -> int:
    """The process of most calls, else of most ranges, else the first that has a name."""
    for table in (Table.CALLS, Table.RANGES):
        if table in raw:
            pids, counts = occurrences(raw[table]["pid"])
            return int(pids[counts.argmax()])
    return min(names, default=0)


def _losses(whole: GatheredEvents, limits: Limits) -> list[Note]:
    mtia = sum(count for category, count in whole.seen.items() if category.startswith("mtia"))
    return [
        *counted("events-untimed", whole.untimed),
        *counted("events-begin-end", whole.begin_end),
        *counted("names-cut", whole.names_cut, longest=count_text(limits.text_bytes)),
        *counted("mtia", mtia),
        *counted("events-unknown", sum(whole.unknown.values()), kind=", ".join(_most_first(whole.unknown))),
    ]


def _most_first(counts: Mapping[str, int]) -> list[str]:
    """The few with the most events."""
    names = sorted(counts, key=lambda name: (-counts[name], name))
    return [*(name[:_LONGEST_KIND] for name in names[:_KINDS_NAMED]), *(["..."] if len(names) > _KINDS_NAMED else [])]


_KINDS_NAMED, _LONGEST_KIND = 4, 60
_ON_GPU: Final = (*WORK, Table.SYNCS, Table.ALLOCS, Table.METRICS)


def _mark_counts(columns: Columns, texts: list[str]) -> None:
    """Counters whose names have no unit are percentages, unless one of them is over 100: then they are counts."""
    for code in distinct(columns["name"]).tolist():
        name, marked = texts[code], f"{texts[code]} [count]"
        is_over = columns["value"][columns["name"] == code].max() > 100
        if is_over and "[" not in name and "." not in name and marked not in texts:
            texts[code] = marked


_BEGINS: Final = re.compile(rb'\s*\{\s*"\d{1,20}"\s*:\s*[\[{"]')


def is_kernel_annotations(path: Path) -> bool:
    """Whether a file begins as such a mapping does; a trace's first key is no number."""
    return is_file(path) and _BEGINS.match(look_at(path).head) is not None


def kernel_annotations(path: Path, limits: Limits) -> dict[int, tuple[str, ...]]:
    """The names of each node, the outermost first."""
    source = look_at(path)
    if source.size > limits.event_bytes:
        raise UnreadableProfile(
            f"{source.name}: {bytes_text(source.size)}, and no file of annotations is larger than "
            f"{bytes_text(limits.event_bytes)}",
            hint=f"if this is one: --limit=event-bytes={source.size}",
        )
    with opened(source) as file:
        content = file.read()
    try:
        by_node = msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableProfile(f"{source.name}: no whole mapping of nodes to names", found=str(error)) from None
    nodes = {int(node): _names(said) for node, said in by_node.items() if node.isascii() and node.isdigit()}
    return {node: names for node, names in nodes.items() if node < 1 << 63}


def _names(said: Any) -> tuple[str, ...]:
    """A text, a mapping, or a list of those from nested scopes, the outermost first."""
    if isinstance(said, str):  # a stack is one text, the innermost first
        return tuple(line for line in reversed(said.splitlines()) if line)
    if isinstance(said, list):
        return tuple(name for scope in said for name in (_names(scope) if not isinstance(scope, list) else ()))
    if not isinstance(said, dict):
        return ()
    name = next((said[key] for key in ("name", "str") if isinstance(said.get(key), str)), None)
    module = said.get("module_fqn")
    path = tuple(part for part in module.split(".") if part) if isinstance(module, str) else ()
    if name is not None or path:
        return (*path, *((name,) if name else ()))
    return tuple(f"{key}={value}" for key, value in said.items() if isinstance(value, str | int))

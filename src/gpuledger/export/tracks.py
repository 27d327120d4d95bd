"""The GPUs' side of a timeline: kernels, copies and whole graphs in, a track per stream and records out.

Where work on one stream overlaps, it is put onto several tracks of one name, which viewers show as one.

The host's side of a timeline: ranges, operators, calls and marks of each thread in, tracks and records out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.catalog.kernel_families import family
from gpuledger.catalog.kernel_names import label
from gpuledger.export.timeline import (
    LONGEST_TITLE,
    Argument,
    ArgumentColumn,
    Records,
    Track,
    TrackKind,
    UniqueNumbers,
    nested,
    shown,
    side_by_side,
)
from gpuledger.ledger.activity import shortened
from gpuledger.trace.keys import group
from gpuledger.trace.model import Trace, os_pid
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import NOT_RECORDED, Rows

_STACKED, _STARTED, _PROFILER = range(3)
_UNDER: Final = {
    _STACKED: "overlapping calls and ranges",
    _STARTED: "start/end ranges",
    _PROFILER: "profiler overhead",
}
"""What tracks under a thread are called."""


@dataclass(frozen=True, slots=True)
class HostRows:
    """The tables of the host's side. `cuda` are the calls that launch."""

    ranges: Rows
    cuda: Rows
    others: Rows
    overheads: Rows

    @property
    def tables(self) -> tuple[Rows, ...]:
        return (self.ranges, self.cuda, self.others, self.overheads)


@dataclass(frozen=True, slots=True, eq=False)
class Arrows:
    """Which arrows each CUDA call begins: the first one's number, 0 for none, and how many."""

    first: Ints
    count: Ints


def host_side(
    trace: Trace, rows: HostRows, arrows: Arrows, numbers: UniqueNumbers, prefix: str
) -> tuple[list[Track], Records]:
    """Tracks of all processes and threads, and what they did."""
    start = np.concatenate([table["start_ns"] for table in rows.tables])
    end = np.maximum(start, np.concatenate([table["end_ns"] for table in rows.tables]))
    pid, tid = (np.concatenate([table[name] for table in rows.tables]) for name in ("pid", "tid"))
    first, thread = group(pid, tid)
    kind = _kinds(rows)
    lane, rank = nested(start, end, thread * len(_UNDER) + kind)
    tracks, uuids = _threads(trace, pid[first].tolist(), tid[first].tolist(), numbers, prefix)
    place, of_place = group(thread, kind, lane)
    track = np.empty(len(place), np.int64)
    for index, row in enumerate(place.tolist()):
        own = tracks[uuids[int(thread[row])]]
        if kind[row] == _STACKED and lane[row] == 0:
            track[index] = own.uuid
        else:
            track[index] = numbers.uuid()
            under = _UNDER[int(kind[row])]
            tracks[int(track[index])] = Track(
                int(track[index]), TrackKind.SLICES, under, own.uuid, own.pid, numbers.like(0), int(kind[row])
            )
    titles, title = _host_tracks_titles(rows)
    categories, category = _host_tracks_categories(rows)
    mark = _is(rows.ranges, "mark") & (rows.ranges.duration_ns <= 0)
    without = tuple(len(table) for table in rows.tables)
    return list(tracks.values()), Records(
        start_ns=start,
        end_ns=end,
        track=track[of_place],
        rank=rank,
        titles=titles,
        title=title,
        categories=categories,
        category=category,
        instant=np.concatenate((mark, np.zeros(len(start) - len(mark), np.bool_))),
        arguments=_host_tracks_arguments(trace, rows),
        first_flow=ArgumentColumn((without[0], arrows.first, without[2], without[3]), absent=0),
        flows=ArgumentColumn((without[0], arrows.count, without[2], without[3]), absent=0),
        begins_arrows=True,
    )


def _is(ranges: Rows, kind: str) -> NDArray[np.bool_]:
    """Which ranges are of this kind; none where no text of the trace says so."""
    codes = ranges.codes("kind")
    is_kind: NDArray[np.bool_] = (codes == ranges.strings.code(kind)) & (codes >= 0)
    return is_kind


def _kinds(rows: HostRows) -> NDArray[np.int64]:
    """Which of a thread's tracks each record is for."""
    started = _is(rows.ranges, "start_end")
    counts = (len(rows.cuda) + len(rows.others), len(rows.overheads))
    return np.concatenate(
        (np.where(started, _STARTED, _STACKED), np.full(counts[0], _STACKED), np.full(counts[1], _PROFILER))
    )


def _threads(
    trace: Trace, pids: Sequence[int], tids: Sequence[int], numbers: UniqueNumbers, prefix: str
) -> tuple[dict[int, Track], list[int]]:
    """A track per process and per thread, by uuid; and the uuid of each thread given."""
    names = {process.pid: process.name for process in trace.origin.processes}
    tracks: dict[int, Track] = {}
    processes: dict[int, Track] = {}
    uuids = []
    for pid, tid in zip(pids, tids, strict=True):
        if pid not in processes:
            shown_pid = numbers.like(os_pid(pid))
            name = f"{prefix}{names.get(pid) or 'process'}"
            if shown_pid != os_pid(pid):
                name += f" (process {os_pid(pid)})" if pid >= 0 else ""
            uuid = numbers.uuid()
            processes[pid] = tracks[uuid] = Track(
                uuid, TrackKind.PROCESS, name, 0, shown_pid, shown_pid, len(processes)
            )
        above = processes[pid]
        main = tid == os_pid(pid)
        shown_tid = above.pid if main else numbers.like(tid)
        uuid = numbers.uuid()
        name = "main thread" if main else f"thread {tid}" if tid >= 0 else "unknown thread"
        tracks[uuid] = Track(uuid, TrackKind.THREAD, name, above.uuid, above.pid, shown_tid, 0 if main else len(tracks))
        uuids.append(uuid)
    return tracks, uuids


def _host_tracks_titles(rows: HostRows) -> tuple[list[str], Ints]:
    """Names as titles; a CUDA function without its version, as NVIDIA shows it."""
    parts = [(table, table.codes("name")) for table in rows.tables]
    titles: list[str] = []
    numbers = []
    for table, codes in parts:
        cut = shortened if table is rows.cuda else str
        names, number = table.strings.kinds(codes, cut)
        numbers.append(number + len(titles))
        titles += shown(names)
    return titles, np.concatenate(numbers)


def _host_tracks_categories(rows: HostRows) -> tuple[list[str], Ints]:
    """Where a record comes from: the kind of range, the layer of a call, the profiler."""
    categories: list[str] = []
    numbers = []
    columns = ((rows.ranges, "kind"), (rows.cuda, "layer"), (rows.others, "layer"))
    for table, column in columns:
        names, number = table.strings.kinds(table.codes(column), lambda text: text or "unknown")
        numbers.append(number + len(categories))
        categories += names
    numbers.append(np.full(len(rows.overheads), len(categories)))
    return [*categories, "profiler"], np.concatenate(numbers)


def _host_tracks_arguments(trace: Trace, rows: HostRows) -> tuple[Argument, ...]:
    ranges, cuda, others, _ = rows.tables
    texts = trace.strings.texts

    def column(*parts: NDArray[Any] | None, absent: int = -1) -> ArgumentColumn:
        sized = zip(parts, rows.tables, strict=True)
        return ArgumentColumn(tuple(len(table) if part is None else part for part, table in sized), absent)

    domain = np.where(ranges.codes("domain") == trace.strings.code(""), -1, ranges.codes("domain"))
    failed = [np.where(calls["result"] == -1, 0, calls["result"]) for calls in (cuda, others)]
    arguments = [
        Argument("domain", column(domain, None, None, None), texts),
        Argument("inputs", column(ranges.codes("inputs"), None, None, None), texts),
        Argument("end_not_recorded", column(ranges["open"].astype(np.int8), None, None, None, absent=0)),
        Argument("correlation", column(None, cuda["correlation"], others["correlation"], None)),
        Argument("result", column(None, failed[0], failed[1], None, absent=0)),
    ]
    long = np.array([*(len(text) > LONGEST_TITLE for text in texts), False])
    whole = [np.where(long[table.codes("name")], table.codes("name"), -1) for table in rows.tables]
    if long.any():
        arguments.append(Argument("whole_name", column(*whole), texts))
    return (*arguments, *backwards(rows.tables))


def backwards(tables: Sequence[Rows]) -> tuple[Argument, ...]:
    """For records that end before they begin, which are drawn without length: what was recorded."""
    lengths = [np.minimum(table.duration_ns, 0) for table in tables]
    if not any((length < 0).any() for length in lengths):
        return ()
    return (Argument("recorded_duration_ns", ArgumentColumn(tuple(lengths), absent=0)),)


_CATEGORIES = ("kernel", "copy", "memset", "graph")
FIRST_STREAM = 100  # streams come after everything else that is shown of a GPU


@dataclass(frozen=True, slots=True)
class GpuRows:
    """The tables of what ran on GPUs."""

    kernels: Rows
    copies: Rows
    graphs: Rows

    @property
    def tables(self) -> tuple[Rows, ...]:
        return (self.kernels, self.copies, self.graphs)

    def column(self, name: str) -> Ints:
        """One column of all tables."""
        return np.concatenate([table[name].astype(np.int64) for table in self.tables])


def gpu_groups(trace: Trace, gpus: Sequence[int], numbers: UniqueNumbers, prefix: str) -> dict[int, Track]:
    """A heading for each GPU."""
    groups = {}
    for order, gpu in enumerate(gpus):
        known = trace.origin.gpu(gpu)
        name = f"{prefix}GPU {gpu}" if gpu >= 0 else f"{prefix}unknown GPU"
        name += f" ({known.name})" if known and known.name else ""
        groups[gpu] = Track(numbers.uuid(), TrackKind.GROUP, name, 0, numbers.like(0), 0, order)
    return groups


def gpu_side(
    trace: Trace,
    rows: GpuRows,
    groups: dict[int, Track],
    around: Ints,
    arrow: Ints,
    numbers: UniqueNumbers,
    families: tuple[tuple[str, str], ...],
) -> tuple[list[Track], Records]:
    """Tracks of all streams, and what ran on them.

    `around` is the text of the range that each row was launched in, -1 for none; `arrow` the number of the arrow that
    leads to it, 0 for none.
    """
    start = rows.column("start_ns")
    end = np.maximum(start, rows.column("end_ns"))
    keys = [rows.column(name) for name in ("gpu", "pid", "context", "stream")]
    first, stream = group(*keys)
    lane, rank = side_by_side(start, end, stream)
    names = _stream_names([[int(value) for value in key[first]] for key in keys])
    place, of_place = group(stream, lane)
    tracks = []
    for row in place.tolist():
        above, index = groups[int(keys[0][row])], int(stream[row])
        order = FIRST_STREAM + index
        tracks.append(
            Track(numbers.uuid(), TrackKind.SLICES, names[index], above.uuid, above.pid, numbers.like(0), order)
        )
    titles, title = _titles(rows)
    return tracks, Records(
        start_ns=start,
        end_ns=end,
        track=np.array([track.uuid for track in tracks], np.int64)[of_place],
        rank=rank,
        titles=titles,
        title=title,
        categories=_CATEGORIES,
        category=_categories(rows),
        instant=np.zeros(len(start), np.bool_),
        arguments=_arguments(trace, rows, around, families),
        first_flow=ArgumentColumn((arrow,), absent=0),
        flows=ArgumentColumn(((arrow > 0).astype(np.int8),), absent=0),
    )


def _stream_names(keys: list[list[int]]) -> list[str]:
    """What streams are called: by more than their number only where two of a GPU have the same."""
    gpus, pids, contexts, streams = keys
    alike: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for gpu, pid, context, stream in zip(gpus, pids, contexts, streams, strict=True):
        alike.setdefault((gpu, stream), set()).add((pid, context))
    names = []
    for gpu, pid, context, stream in zip(gpus, pids, contexts, streams, strict=True):
        name = f"stream {stream}" if stream >= 0 else "unknown stream"
        others = alike[gpu, stream]
        if len({owner for owner, _ in others}) > 1:
            name += f" of process {os_pid(pid)}"
        if len({used for owner, used in others if owner == pid}) > 1:
            name += f" in context {context}"
        names.append(name)
    return names


def _titles(rows: GpuRows) -> tuple[list[str], Ints]:
    """Short names of kernels; what copies do; the numbers of graphs."""
    kernels, kernel = rows.kernels.strings.kinds(rows.kernels.codes("name"), label)
    copies, copy = rows.copies.strings.kinds(rows.copies.codes("kind"), lambda text: text or "Copy")
    numbers, graph = np.unique(rows.graphs["graph"], return_inverse=True)
    graphs = [f"graph {number}" for number in numbers.tolist()]
    titles = shown([*kernels, *copies, *graphs])
    return titles, np.concatenate((kernel, copy + len(kernels), graph.reshape(-1) + len(kernels) + len(copies)))


def _categories(rows: GpuRows) -> Ints:
    kinds = rows.copies.codes("kind")
    cleared = (kinds == rows.copies.strings.code("Memset")) & (kinds >= 0)
    return np.concatenate(
        (np.zeros(len(rows.kernels), np.int64), np.where(cleared, 2, 1), np.full(len(rows.graphs), 3))
    )


def _arguments(
    trace: Trace, rows: GpuRows, around: Ints, families: tuple[tuple[str, str], ...]
) -> tuple[Argument, ...]:
    kernels, copies, graphs = rows.tables
    texts = trace.strings.texts
    known, family_of = trace.strings.kinds(kernels.codes("name"), lambda name: family(name, families))

    def column(*parts: NDArray[Any] | None, absent: int = NOT_RECORDED) -> ArgumentColumn:
        sized = zip(parts, rows.tables, strict=True)
        return ArgumentColumn(tuple(len(table) if part is None else part for part, table in sized), absent)

    def of_kernels(name: str) -> ArgumentColumn:
        return column(kernels[name], None, None)

    shapes = [(name, *_triples(kernels[name])) for name in ("grid", "block")]
    return (
        Argument("kernel", of_kernels("name"), texts),
        Argument("family", column(family_of, None, None), known),
        *(Argument(name, column(number, None, None), words) for name, words, number in shapes),
        Argument("registers_per_thread", of_kernels("registers")),
        Argument("smem_static_bytes", of_kernels("smem_static_bytes")),
        Argument("smem_dynamic_bytes", of_kernels("smem_dynamic_bytes")),
        Argument("bytes", column(None, copies["bytes"], None)),
        Argument("bytes_per_s", column(None, _rates(copies), None)),
        Argument("from", column(None, copies.codes("src_kind"), None), texts),
        Argument("to", column(None, copies.codes("dst_kind"), None), texts),
        Argument("range", ArgumentColumn((around,)), texts),
        Argument("correlation", column(kernels["correlation"], copies["correlation"], graphs["correlation"])),
        Argument("graph", column(kernels["graph"], None, graphs["graph"])),
        Argument("graph_node", column(kernels["graph_node"], copies["graph_node"], None)),
        Argument("graph_exec", column(None, None, graphs["graph_exec"])),
        *backwards(rows.tables),
    )


def _triples(values: NDArray[np.int32]) -> tuple[list[str], Ints]:
    """Distinct shapes in words, and for each row the position of its own; -1 where none was recorded."""
    first, number = group(values[:, 0], values[:, 1], values[:, 2])
    shapes = values[first].tolist()
    unknown = np.array([shape == [NOT_RECORDED] * 3 for shape in shapes], np.bool_)
    return [f"{x} x {y} x {z}" for x, y, z in shapes], np.where(unknown[number], NOT_RECORDED, number)


def _rates(copies: Rows) -> Ints:
    """Bytes per second of each copy; -1 where there is no telling."""
    length, size = copies.duration_ns, copies["bytes"]
    known = (length > 0) & (size >= 0)
    return np.where(known, (size * 1e9 / np.where(known, length, 1)).astype(np.int64), NOT_RECORDED)

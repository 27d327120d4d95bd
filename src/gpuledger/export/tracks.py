"""Both sides of a timeline as tracks and records: each thread's ranges, operators, calls and marks; each GPU's streams.

Where work on one stream overlaps, it is put onto several tracks of one name, which viewers show as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

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
    as_titles,
    nested_lanes,
    separate_lanes,
)
from gpuledger.ledger.activity import short_function_name
from gpuledger.trace.keys import by_row, group, one_after_another, same
from gpuledger.trace.model import Trace, os_pid
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import NOT_RECORDED, Rows

_STACKED, _STARTED, _PROFILER = range(3)
_UNDER: Final = {_STACKED: "overlapping calls and ranges", _STARTED: "start/end ranges", _PROFILER: "profiler overhead"}
"""What tracks under a thread are called."""


class HostRows(NamedTuple):
    """The tables of the host's side. `cuda` are the calls that launch."""

    ranges: Rows
    cuda: Rows
    others: Rows
    overheads: Rows


class Arrows(NamedTuple):
    """Which arrows each CUDA call begins: the first one's number, 0 for none, and how many."""

    first: Ints
    counts: NDArray[np.int32]


def _argument_column(tables: Sequence[Rows], *parts: NDArray[Any] | None, absent: int = NOT_RECORDED) -> ArgumentColumn:
    """Values for the rows of each table; None for a table that has none of them."""
    sized = zip(parts, tables, strict=True)
    return ArgumentColumn(tuple(len(table) if part is None else part for part, table in sized), absent)


def host_side(
    trace: Trace, rows: HostRows, arrows: Arrows, numbers: UniqueNumbers, prefix: str
) -> tuple[list[Track], Records]:
    """Tracks of all processes and threads, and what they did."""
    start = np.concatenate([table["start_ns"] for table in rows])
    end = np.maximum(start, np.concatenate([table["end_ns"] for table in rows]))
    owners = [one_after_another([table[name] for table in rows]) for name in ("pid", "tid")]
    first, thread_of = group(*owners)
    pids, tids = (owner[first].tolist() for owner in owners)
    tracks, uuids = _threads(trace, pids, tids, numbers, prefix)
    thread = thread_of.astype(np.int32)
    del owners, thread_of
    kind = np.concatenate(  # which of a thread's tracks each record is for
        (
            np.where(_is_kind(rows.ranges, "start_end"), _STARTED, _STACKED).astype(np.int8),
            same(_STACKED, len(rows.cuda) + len(rows.others), np.int8),
            same(_PROFILER, len(rows.overheads), np.int8),
        )
    )
    lane, rank = nested_lanes(start, end, thread * np.int32(len(_UNDER)) + kind)
    place, of_place = group(thread, kind, lane)
    track = np.empty(len(place), np.int32)
    for index, row in enumerate(place.tolist()):
        own, kind_of_track = tracks[uuids[int(thread[row])]], int(kind[row])
        uuid = own.uuid
        if kind_of_track != _STACKED or lane[row]:
            lane_track = numbers.track_under(own, TrackKind.SLICES, _UNDER[kind_of_track], kind_of_track)
            uuid = lane_track.uuid
            tracks[uuid] = lane_track
        track[index] = uuid
    track_of = track[of_place]
    del thread, kind, lane, of_place
    names = [(table, "name", short_function_name if table is rows.cuda else str) for table in rows]
    titles, title = _kinds_of_all(names)  # a CUDA function without its version, as NVIDIA shows it
    origins = ((rows.ranges, "kind"), (rows.cuda, "layer"), (rows.others, "layer"))
    categories, category = _kinds_of_all([(table, column, lambda text: text or "unknown") for table, column in origins])
    category = np.concatenate((category, np.full(len(rows.overheads), len(categories), np.int32)))
    mark = _is_kind(rows.ranges, "mark") & (rows.ranges.duration_ns <= 0)
    return list(tracks.values()), Records(
        start_ns=start,
        end_ns=end,
        track=track_of,
        rank=rank,
        titles=as_titles(titles),
        title=title,
        categories=[*categories, "profiler"],
        category=category,
        instant=np.concatenate((mark, np.zeros(len(start) - len(mark), np.bool_))),
        arguments=_host_arguments(trace, rows),
        first_flow=_argument_column(rows, None, arrows.first, None, None, absent=0),
        flows=_argument_column(rows, None, arrows.counts, None, None, absent=0),
        begins_arrows=True,
    )


def _is_kind(ranges: Rows, kind: str) -> NDArray[np.bool_]:
    """Which ranges are of this kind; none where no text of the trace says so."""
    codes = ranges.codes("kind")
    is_kind: NDArray[np.bool_] = (codes == ranges.strings.code(kind)) & (codes >= 0)
    return is_kind


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
            name += f" (process {os_pid(pid)})" if shown_pid != os_pid(pid) and pid >= 0 else ""
            process = Track(numbers.uuid(), TrackKind.PROCESS, name, 0, shown_pid, shown_pid, len(processes))
            processes[pid] = tracks[process.uuid] = process
        above, main = processes[pid], tid == os_pid(pid)
        shown_tid = above.pid if main else numbers.like(tid)
        name = "main thread" if main else f"thread {tid}" if tid >= 0 else "unknown thread"
        order = 0 if main else len(tracks)
        thread = Track(numbers.uuid(), TrackKind.THREAD, name, above.uuid, above.pid, shown_tid, order)
        tracks[thread.uuid] = thread
        uuids.append(thread.uuid)
    return tracks, uuids


def _kinds_of_all(columns: Iterable[tuple[Rows, str, Callable[[str], str]]]) -> tuple[list[str], NDArray[np.int32]]:
    """The texts of several tables' columns, spelled by its function; and each row's position."""
    texts: list[str] = []
    numbers = []
    for table, column, spelled in columns:
        names, number = table.strings.kinds(table.codes(column), spelled)
        numbers.append(number.astype(np.int32) + np.int32(len(texts)))
        texts += names
    return texts, np.concatenate(numbers)


def _host_arguments(trace: Trace, rows: HostRows) -> tuple[Argument, ...]:
    ranges, cuda, others, _ = rows
    texts = trace.strings.texts
    column = partial(_argument_column, rows)
    domain = np.where(ranges.codes("domain") == trace.strings.code(""), -1, ranges.codes("domain"))
    failed = [
        by_row(lambda result: np.where(result == NOT_RECORDED, 0, result), calls["result"]) for calls in (cuda, others)
    ]
    arguments = [
        Argument("domain", column(domain, None, None, None), texts),
        Argument("inputs", column(ranges.codes("inputs"), None, None, None), texts),
        Argument("end_not_recorded", column(ranges["open"].astype(np.int8), None, None, None, absent=0)),
        Argument("correlation", column(None, cuda["correlation"], others["correlation"], None)),
        Argument("result", column(None, failed[0], failed[1], None, absent=0)),
    ]
    long = np.array([*(len(text) > LONGEST_TITLE for text in texts), False])
    if long.any():
        whole = (np.where(long[table.codes("name")], table.codes("name"), -1) for table in rows)
        arguments.append(Argument("whole_name", column(*whole), texts))
    return (*arguments, *_backward_lengths(rows))


def _backward_lengths(tables: Sequence[Rows]) -> tuple[Argument, ...]:
    """For records that end before they begin, which are drawn without length: what was recorded."""
    lengths = [np.minimum(table.duration_ns, 0) for table in tables]
    if not any((length < 0).any() for length in lengths):
        return ()
    return (Argument("recorded_duration_ns", ArgumentColumn(tuple(lengths), absent=0)),)


class GpuRows(NamedTuple):
    """The tables of what ran on GPUs."""

    kernels: Rows
    copies: Rows
    graphs: Rows

    def column(self, name: str) -> Ints:
        return one_after_another([by_row(lambda values: values.astype(np.int64), table[name]) for table in self])


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
    around: NDArray[np.int32],
    arrow: NDArray[np.signedinteger],
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
    first, stream_of = group(*keys)
    owners = list(zip(*(key[first].tolist() for key in keys), strict=True))
    stream = stream_of.astype(np.int32)
    del keys, stream_of
    lane, rank = separate_lanes(start, end, stream)
    names = _stream_names(owners)
    place, of_place = group(stream, lane)
    tracks = []
    for row in place.tolist():
        index = int(stream[row])
        above = groups[owners[index][0]]
        order = 100 + index  # streams come after everything else that is shown of a GPU
        tracks.append(numbers.track_under(above, TrackKind.SLICES, names[index], order))
    work = ((rows.kernels, "name", label), (rows.copies, "kind", lambda text: text or "Copy"))
    titles, title = _kinds_of_all(work)
    graphs, graph = np.unique(rows.graphs["graph"], return_inverse=True)
    kinds = rows.copies.codes("kind")
    cleared = (kinds == rows.copies.strings.code("Memset")) & (kinds >= 0)
    return tracks, Records(
        start_ns=start,
        end_ns=end,
        track=np.array([track.uuid for track in tracks], np.int32)[of_place],
        rank=rank,
        titles=as_titles([*titles, *(f"graph {number}" for number in graphs.tolist())]),
        title=np.concatenate((title, (graph.reshape(-1) + len(titles)).astype(np.int32))),
        categories=("kernel", "copy", "memset", "graph"),
        category=np.concatenate(
            (np.zeros(len(rows.kernels), np.int8), np.where(cleared, 2, 1), np.full(len(rows.graphs), 3)), dtype=np.int8
        ),
        instant=np.zeros(len(start), np.bool_),
        arguments=_gpu_arguments(trace, rows, around, families),
        first_flow=ArgumentColumn((arrow,), absent=0),
        flows=ArgumentColumn(((arrow > 0).astype(np.int8),), absent=0),
    )


def _stream_names(streams: Sequence[tuple[int, int, int, int]]) -> list[str]:
    """What streams, by GPU, process, context and number, are called: by more than a number only where two have it."""
    alike: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for gpu, pid, context, stream in streams:
        alike.setdefault((gpu, stream), set()).add((pid, context))
    names = []
    for gpu, pid, context, stream in streams:
        name = f"stream {stream}" if stream >= 0 else "unknown stream"
        others = alike[gpu, stream]
        if len({owner for owner, _ in others}) > 1:
            name += f" of process {os_pid(pid)}"
        if len({used for owner, used in others if owner == pid}) > 1:
            name += f" in context {context}"
        names.append(name)
    return names


def _gpu_arguments(
    trace: Trace, rows: GpuRows, around: NDArray[np.int32], families: tuple[tuple[str, str], ...]
) -> tuple[Argument, ...]:
    kernels, copies, graphs = rows
    texts = trace.strings.texts
    known, family_of = trace.strings.kinds(kernels.codes("name"), lambda name: family(name, families))
    column = partial(_argument_column, rows)

    def of_kernels(name: str) -> ArgumentColumn:
        return column(kernels.stored(name), None, None)

    shapes = [(name, *_triples(kernels.stored(name))) for name in ("grid", "block")]
    length, size = copies.duration_ns, copies["bytes"]
    has_rate = (length > 0) & (size >= 0)
    rate = np.where(has_rate, (size * 1e9 / np.where(has_rate, length, 1)).astype(np.int64), NOT_RECORDED)
    return (
        Argument("kernel", of_kernels("name"), texts),
        Argument("family", column(family_of, None, None), known),
        *(Argument(name, column(number, None, None), words) for name, words, number in shapes),
        Argument("registers_per_thread", of_kernels("registers")),
        Argument("smem_static_bytes", of_kernels("smem_static_bytes")),
        Argument("smem_dynamic_bytes", of_kernels("smem_dynamic_bytes")),
        Argument("bytes", column(None, copies["bytes"], None)),
        Argument("bytes_per_s", column(None, rate, None)),
        Argument("from", column(None, copies.codes("src_kind"), None), texts),
        Argument("to", column(None, copies.codes("dst_kind"), None), texts),
        Argument("range", ArgumentColumn((around,)), texts),
        Argument("correlation", column(kernels["correlation"], copies["correlation"], graphs["correlation"])),
        Argument("graph", column(kernels["graph"], None, graphs["graph"])),
        Argument("graph_node", column(kernels["graph_node"], copies["graph_node"], None)),
        Argument("graph_exec", column(None, None, graphs["graph_exec"])),
        *_backward_lengths(rows),
    )


def _triples(values: NDArray[np.signedinteger]) -> tuple[list[str], NDArray[np.signedinteger]]:
    """Distinct shapes in words, and for each row the position of its own; -1 where none was recorded."""
    first, number = group(values[:, 0], values[:, 1], values[:, 2])
    shapes = values[first].tolist()
    known = [NOT_RECORDED if shape == [NOT_RECORDED] * 3 else place for place, shape in enumerate(shapes)]
    narrow: DTypeLike = np.int16 if len(known) <= np.iinfo(np.int16).max else np.int32
    return [f"{x} x {y} x {z}" for x, y, z in shapes], np.array(known, narrow)[number]

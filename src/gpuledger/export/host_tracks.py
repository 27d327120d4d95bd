"""The host's side of a timeline: ranges, operators, calls and marks of each thread in, tracks and records out.

What a thread pushes, pops and calls nests, and is one track. Ranges that were started and ended, and the profiler's own
doings, may cross everything else: they have tracks of their own under the thread. So has whatever else does not nest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.export.overlap_lanes import nested
from gpuledger.export.timeline import (
    LONGEST_TITLE,
    Argument,
    ArgumentColumn,
    Records,
    Track,
    TrackKind,
    UniqueNumbers,
    shown,
)
from gpuledger.ledger.calls import shortened
from gpuledger.trace.keys import group
from gpuledger.trace.model import Trace, os_pid
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import Rows

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
    titles, title = _titles(rows)
    categories, category = _categories(rows)
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
        arguments=_arguments(trace, rows),
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


def _titles(rows: HostRows) -> tuple[list[str], Ints]:
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


def _categories(rows: HostRows) -> tuple[list[str], Ints]:
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


def _arguments(trace: Trace, rows: HostRows) -> tuple[Argument, ...]:
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

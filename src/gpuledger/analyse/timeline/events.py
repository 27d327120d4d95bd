"""Everything that happened in a stretch of time: a trace and a span in, ranges, calls and GPU work as columns out.

Records are in the order of their track, then of their start, the longer first, each in the lowest lane in which nothing
else is at that time. Where there is room for fewer, the shortest are left out; how many, and how short, is said, and
how much of the time each stream was busy. Also here: which stretches of a run a timeline shows, given places to look
at, and a stretch as it would be with a finding fixed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.ledger.activity import CUDA_LAYERS, Activities
from gpuledger.ledger.device import Device
from gpuledger.ledger.host import Host
from gpuledger.ledger.step_variation import variation
from gpuledger.replay.edits import Edit
from gpuledger.replay.replayed_trace import Replay
from gpuledger.replay.scenario import Scenario
from gpuledger.trace.keys import Positions, by_row, group, is_among
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, Span, Spans, clip, complement, covered, furthest, union
from gpuledger.trace.tables import NOT_RECORDED, Table


def lanes(start_ns: Ints, end_ns: Ints) -> Ints:
    """For records sorted by start, the longer first. Lists are short: a timeline holds some 50,000 records."""
    busy_until: list[int] = []
    chosen = []
    for start, end in zip(start_ns.tolist(), end_ns.tolist(), strict=True):
        lane = 0
        for until in busy_until:
            if until <= start:
                busy_until[lane] = end
                break
            lane += 1
        else:
            busy_until.append(end)
        chosen.append(lane)
    return np.array(chosen, np.int64)


class EventSource(IntEnum):
    """Where a record comes from."""

    RANGE = 0
    CUDA_CALL = 1
    OTHER_CALL = 2
    GPU_WORK = 3


class EventTrack(NamedTuple):
    """One thread of the host, or one stream of a GPU. Sorts as it is shown."""

    is_thread: bool
    gpu: int  # -1 for threads
    pid: int
    number: int  # the thread's id, or the stream's


class Events(Struct, frozen=True, eq=False):
    """What happened in a stretch. Columns of equal length."""

    span: Span
    tracks: tuple[EventTrack, ...]
    track: Ints  # position in `tracks`
    start_ns: Ints
    end_ns: Ints  # never before the start
    source: Ints
    row: Ints  # position in the table that it comes from
    launch: Ints  # of GPU work: the position of its launch call among these records; -1 where that is not here
    lane: Ints
    left_out: int
    least_ns: int  # those left out are no longer than this

    def __len__(self) -> int:
        return len(self.start_ns)

    def of(self, source: EventSource) -> NDArray[np.bool_]:
        here: NDArray[np.bool_] = self.source == source
        return here


class EventFinder:
    """The tables of a trace, ready to be asked for stretches again and again."""

    def __init__(self, trace: Trace, host: Host, work: Activities) -> None:
        ranges, calls = trace[Table.RANGES], trace[Table.CALLS]
        cuda = [calls.strings.code(layer) for layer in CUDA_LAYERS]
        is_other = by_row(lambda codes: ~is_among(codes, cuda), calls.codes("layer"))
        self.ranges: Final = ranges.where(ranges.codes("kind") != ranges.strings.code("mark"))
        self.cuda_calls: Final = host.calls
        self.call_kinds: Final = host.kinds  # of each of those, as `CALL_KINDS` numbers them
        self.other_calls: Final = calls.where(is_other)
        self.work: Final = work
        host_tables = (self.ranges, self.cuda_calls, self.other_calls)
        times = [(rows["start_ns"], rows["end_ns"]) for rows in host_tables]
        self._tables: Final = [_TableTimes(start, end) for start, end in (*times, (work.start_ns, work.end_ns))]
        """In the order of `EventSource`."""

    def count(self, span: Span) -> int:
        return sum(len(table.overlapping(span)) for table in self._tables)

    def overlapping(self, source: EventSource, span: Span) -> Positions:
        """Rows of a table that overlap a stretch."""
        return self._tables[source].overlapping(span)

    def events(self, span: Span, room: int) -> Events:
        """What overlaps a stretch: all of it, or the longest records that there is room for."""
        rows = [table.overlapping(span) for table in self._tables]
        source, row = np.repeat(np.arange(len(rows)), [len(part) for part in rows]), np.concatenate(rows)
        start, end = (
            np.concatenate([column[part] for column, part in zip(columns, rows, strict=True)])
            for columns in ([table.start_ns for table in self._tables], [table.end_ns for table in self._tables])
        )
        end = np.maximum(start, end)
        left_out, least_ns = max(len(row) - room, 0), 0
        if left_out:
            by_length = np.argsort(start - end, kind="stable")
            kept, least_ns = np.sort(by_length[:room]), int((end - start)[by_length[room]])
            source, row, start, end = source[kept], row[kept], start[kept], end[kept]
        tracks, track = self._tracks(source, row)
        order = np.lexsort((-end, start, track))
        source, row, start, end, track = (column[order] for column in (source, row, start, end, track))
        edges = np.searchsorted(track, np.arange(len(tracks) + 1)).tolist()
        by_track = [lanes(start[first:last], end[first:last]) for first, last in pairwise(edges)]
        lane = np.concatenate([np.empty(0, np.int64), *by_track])
        launch = self._launches(source, row)
        return Events(span, tracks, track, start, end, source, row, launch, lane, left_out, least_ns)

    def _tracks(self, source: Ints, row: Ints) -> tuple[tuple[EventTrack, ...], Ints]:
        """The tracks of these records in the order to be shown, and which each is on."""
        columns = [self._places(EventSource(number), row[source == number]) for number in range(len(EventSource))]
        keys = [np.concatenate(parts) for parts in zip(*columns, strict=True)]
        if not len(row):
            return (), np.empty(0, np.int64)
        first, number = group(*keys)  # records are in the order of their source, so these are in theirs
        tracks = [EventTrack(bool(keys[0][row]), *(int(key[row]) for key in keys[1:])) for row in first.tolist()]
        order = sorted(range(len(tracks)), key=tracks.__getitem__)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return tuple(tracks[position] for position in order), place[number]

    def _places(self, source: EventSource, rows: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Whether each is on a thread, and which GPU, process, and thread or stream it is of."""
        if source is EventSource.GPU_WORK:
            gpu, pid, stream = (self.work.gathered_at(name, rows).astype(np.int64) for name in ("gpu", "pid", "stream"))
            return np.zeros(len(rows), np.int64), gpu, pid, stream
        table = (self.ranges, self.cuda_calls, self.other_calls)[source]
        return (
            np.ones(len(rows), np.int64),
            np.full(len(rows), -1),
            table["pid"][rows],
            table.stored("tid")[rows].astype(np.int64),
        )

    def _launches(self, source: Ints, row: Ints) -> Ints:
        """For each record the position of its launch call among them."""
        calls = np.flatnonzero(source == EventSource.CUDA_CALL)
        work = np.flatnonzero(source == EventSource.GPU_WORK)
        launch = np.full(len(row), -1, np.int64)
        if len(calls) and len(work):
            by_row_number = calls[np.argsort(row[calls], kind="stable")]
            wanted = self.work.launch[row[work]]
            place = np.minimum(np.searchsorted(row[by_row_number], wanted), len(calls) - 1)
            here = row[by_row_number[place]] == wanted
            launch[work[here]] = by_row_number[place[here]]
        return launch


COVER_BINS: Final = 1_000
"""Parts of a stretch of which it is said how busy each stream was, where not all of its events are there."""


def stream_cover(finder: EventFinder, events: Events) -> dict[EventTrack, NDArray[np.float64]]:
    """How much of each part of a stretch each stream was busy, whichever of its events are among `events`."""
    edges, work = cover_edges(events.span), finder.work
    rows = finder.overlapping(EventSource.GPU_WORK, events.span)
    keys = [work.gathered_at(name, rows).astype(np.int64) for name in ("gpu", "pid", "stream")]
    shares = {}
    firsts, stream_of = group(*keys) if len(rows) else (rows, rows)
    for number, first in enumerate(firsts.tolist()):
        mine = rows[stream_of == number]
        gpu, pid, stream = (int(key[first]) for key in keys)
        track = EventTrack(is_thread=False, gpu=gpu, pid=pid, number=stream)
        shares[track] = cover(union(work.start_ns[mine], work.end_ns[mine]), edges)
    return shares


def cover_edges(span: Span) -> Ints:
    """Where those parts begin and end."""
    return span.start_ns + np.arange(COVER_BINS + 1, dtype=np.int64) * (span.end_ns - span.start_ns) // COVER_BINS


def cover(spans: Spans, edges_ns: Ints) -> NDArray[np.float64]:
    """Which share of each part spans fill."""
    shares: NDArray[np.float64] = covered(spans, edges_ns[:-1], edges_ns[1:]) / np.maximum(np.diff(edges_ns), 1)
    return shares


class FixedStretch(Struct, frozen=True, eq=False):
    """The events of a stretch as they would be with a finding fixed, from where its core began as recorded."""

    code: str
    core: Span
    start_ns: Ints
    end_ns: Ints  # of what is gone before its start
    lane: Ints
    idle: tuple[Spans, ...]  # of each of the devices

    def __len__(self) -> int:
        return len(self.start_ns)


def fixed_stretch(
    finder: EventFinder, stretch: Stretch, model: Scenario, devices: Sequence[Device], code: str, edit: Edit
) -> FixedStretch:
    """A replay of the whole run, looked at where the stretch is."""
    replay, events, work = Replay(model, edit), stretch.events, finder.work
    begin, end = (model.instant(replay.times, instant) for instant in stretch.core)
    shift = stretch.core.start_ns - begin
    core = Span(stretch.core.start_ns, max(end + shift, stretch.core.start_ns + 1))
    start, stop = np.empty(len(events), np.int64), np.empty(len(events), np.int64)
    for source, table in zip(EventSource, (finder.ranges, finder.cuda_calls, finder.other_calls), strict=False):
        here = events.of(source)
        moved = replay.clocks.move(table.at(events.row[here]))
        start[here], stop[here] = moved["start_ns"], np.maximum(moved["start_ns"], moved["end_ns"])
    ran = events.of(EventSource.GPU_WORK)
    rows = events.row[ran]
    gone = replay.is_gone[rows]
    start[ran], stop[ran] = (
        replay.times.start[rows],
        np.where(gone, replay.times.start[rows] - 1, replay.times.end[rows]),
    )
    start, stop = start + shift, stop + shift
    order = np.lexsort((-stop, start, events.track))
    lane = np.empty(len(events), np.int64)
    edges = np.searchsorted(events.track[order], np.arange(len(events.tracks) + 1)).tolist()
    for first, last in pairwise(edges):
        lane[order[first:last]] = lanes(start[order[first:last]], stop[order[first:last]])
    shown = Span(core.start_ns, core.end_ns)
    busy = [np.flatnonzero((work.gpu == device.gpu) & ~replay.is_gone) for device in devices]
    ran_then = [union(replay.times.start[mine] + shift, replay.times.end[mine] + shift) for mine in busy]
    return FixedStretch(
        code, core, start, stop, lane, tuple(complement(clip(spans, shown), shown) for spans in ran_then)
    )


class _TableTimes:
    """When the rows of one table began and ended, in which stretches are looked up."""

    def __init__(self, start_ns: Ints, end_ns: Ints) -> None:
        self.start_ns: Final = start_ns
        self.end_ns: Final = end_ns
        self._furthest: Ints | None = None  # the latest end up to the end of each block of rows
        if bool((start_ns[1:] >= start_ns[:-1]).all()):
            blocks = np.arange(0, len(end_ns), _BLOCK)
            self._furthest = furthest(np.maximum.reduceat(end_ns, blocks)) if len(end_ns) else end_ns

    def overlapping(self, span: Span) -> Positions:
        """The rows that overlap a stretch, or lie in it without taking time."""
        if self._furthest is None:
            first, last = 0, len(self.start_ns)
        else:  # in order of their start, so that most are never looked at
            last = int(np.searchsorted(self.start_ns, span.end_ns))
            first = min(int(np.searchsorted(self._furthest, span.start_ns)) * _BLOCK, last)
        start, end = self.start_ns[first:last], self.end_ns[first:last]
        inside = (start < span.end_ns) & ((end > span.start_ns) | (start >= span.start_ns))
        return first + np.flatnonzero(inside)


_BLOCK: Final = 1024


def lead_ns(work: Activities, host: Host, span: Span) -> int:
    """How long before a step its first launch call was made; at most as long as the step, 0 where nothing is known."""
    first, last = np.searchsorted(work.start_ns, span)
    call = work.launch[first:last]
    begun = host.calls["start_ns"][call[call != NOT_RECORDED]]
    ahead = span.start_ns - int(begun.min(initial=span.start_ns))
    return min(ahead, span.end_ns - span.start_ns)


MOST_EVENTS: Final = 50_000  # of all stretches together

MOST_STRETCHES: Final = 48

_FIRST_SHARE: Final = 0.6
_NEXT_SHARE: Final = 0.5  # of what room is left, the first stretch may take one share, each after it the other
_FEWEST: Final = 400  # with less room than this nothing more is shown
_MANY: Final = 8_000  # of a step with more events, only what is around a place is shown
_AROUND: Final = 4  # a place by itself is shown with so many times its length before and after it

_LEAST_AROUND_NS: Final = 500_000


class Stretch(Struct, frozen=True, eq=False):
    """One stretch of the run."""

    core: Span  # the step itself, or the place; the events begin with its first launch
    step: int | None  # its number; None: it is no step
    events: Events
    is_median: bool = False
    is_worst: bool = False

    @property
    def is_whole(self) -> bool:
        return not self.events.left_out


class _Wanted(NamedTuple):
    """A stretch that is to be shown, if there is room."""

    core: Span
    step: int | None = None
    is_extra: bool = False  # there for its own sake: not worth showing in part


def shown_stretches(
    finder: EventFinder, device: Device, places: Sequence[Span], room: int = MOST_EVENTS
) -> tuple[Stretch, ...]:
    """The first is the one to begin with."""
    varied, shown, median, worst = variation(device), list[Stretch](), -1, -1
    if varied is not None:
        median = varied.steps.warm_up + int(np.flatnonzero(varied.steps.steady_ns == varied.median_ns)[0])
        worst = varied.steps.warm_up + int(varied.steps.steady_ns.argmax())

    def wanted() -> Iterator[_Wanted]:
        """In the order of their worth."""
        steps = [] if varied is None else list(map(Span, varied.steps.start_ns.tolist(), varied.steps.end_ns.tolist()))
        if varied is None:
            yield _Wanted(device.ledger.window)
        else:
            yield from (_Wanted(steps[number], number) for number in dict.fromkeys((median, worst)))
        yield from _places(finder, device, places, shown)
        outliers = () if varied is None else (outlier.step for outlier in varied.outliers)
        for number in dict.fromkeys((*outliers, *range(len(steps)))):
            if all(stretch.step != number for stretch in shown):
                yield _Wanted(steps[number], number, is_extra=True)

    for core, step, is_extra in wanted():
        left = room - sum(len(stretch.events) for stretch in shown)
        share = _NEXT_SHARE if shown else _FIRST_SHARE
        if left < min(_FEWEST, room) or len(shown) >= MOST_STRETCHES:
            break
        start_ns = core.start_ns - (0 if step is None else lead_ns(device.work, device.host, core))
        events = finder.events(Span(start_ns, core.end_ns), left if is_extra else max(int(share * left), 1))
        if is_extra and events.left_out:
            break
        shown.append(Stretch(core, step, events, is_median=step == median, is_worst=step == worst))
    return (*shown[:2], *sorted(shown[2:], key=lambda stretch: stretch.core))


def _places(finder: EventFinder, device: Device, places: Sequence[Span], shown: Sequence[Stretch]) -> Iterator[_Wanted]:
    """The steps that places lie in; of places in no step, or in one with too much in it, what is around them."""
    steps = device.steps
    for place in places:
        if stretch_of(place, [stretch for stretch in shown if stretch.is_whole]) is not None:
            continue
        if steps is not None:
            number = int(np.searchsorted(steps.edges_ns, place.start_ns, side="right")) - 1
            if 0 <= number < len(steps):
                core = Span(int(steps.start_ns[number]), int(steps.end_ns[number]))
                if finder.count(core) <= _MANY:
                    yield _Wanted(core, number)
                    continue
        around = max(_AROUND * (place.end_ns - place.start_ns), _LEAST_AROUND_NS)
        yield _Wanted(Span(place.start_ns - around, place.end_ns + around))


def stretch_of(place: Span, shown: Sequence[Stretch]) -> int | None:
    """Which stretch shows a place best: the first that is whole and holds its start, else the first that holds it."""
    holding = [
        position
        for position, stretch in enumerate(shown)
        if stretch.core.start_ns <= place.start_ns < stretch.core.end_ns
    ]
    return next((position for position in holding if shown[position].is_whole), holding[0] if holding else None)

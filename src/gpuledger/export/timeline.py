"""What a timeline holds, whatever format it is written in: tracks, records on them, and counters.

A record is a slice or an instant, with a title and arguments. Records come in columns, and columns of different tables
lie behind each other without being copied: position 0 is the first row of the first table. Times are the trace's own;
a writer takes `offset_ns` off, so that several traces share one clock. Records that overlap are put onto lanes on which
they do not.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import chain, pairwise
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.trace.keys import is_among, take
from gpuledger.trace.spans import Ints, furthest
from gpuledger.trace.tables import NOT_RECORDED

Numbers = NDArray[np.signedinteger]
LONGEST_TITLE: Final = 500  # a longer title is cut; the whole text is then an argument
NAMELESS: Final = "(no name)"  # the title of what has none


class TrackKind(Enum):
    """What a track stands for; viewers show processes and threads in their own way."""

    PROCESS = "process"
    THREAD = "thread"
    GROUP = "group"
    SLICES = "slices"
    COUNTER = "counter"


class Track(Struct, frozen=True):
    """One row of the timeline, or a heading over several."""

    uuid: int
    kind: TrackKind
    name: str
    parent: int  # the uuid of the track that it is shown under; 0 for none
    pid: int
    tid: int  # unique in the file. A group and what is under it have numbers too: Chrome's format knows nothing else.
    order: int = 0  # the place among its siblings
    unit: str = ""  # of a counter


class ArgumentColumn(Struct, frozen=True, eq=False):
    """Values for records, table behind table; a table that has none of them gives only its number of rows."""

    parts: tuple[NDArray[Any] | int, ...]
    absent: int = NOT_RECORDED  # stands where a record has no value

    def take(self, positions: NDArray[np.intp]) -> Ints:
        values = np.full(len(positions), self.absent, np.int64)
        first = 0
        for part in self.parts:
            if isinstance(part, int):
                first += part
                continue
            if len(self.parts) == 1:
                return part[positions].astype(np.int64)
            inside = (positions >= first) & (positions < first + len(part))
            values[inside] = part[positions[inside] - first]
            first += len(part)
        return values


class Argument(Struct, frozen=True, eq=False):
    """One argument of records: a number, or where there are texts, a position among them."""

    name: str
    values: ArgumentColumn
    texts: Sequence[str] | None = None


class Records(Struct, frozen=True, eq=False):
    """Slices and instants, each on a track on which all of them nest."""

    start_ns: Ints
    end_ns: Ints  # never before the start
    track: Numbers  # the uuid of each one's track
    rank: Numbers  # the order on its track of what begins at one instant: the outer before the inner
    titles: Sequence[str]
    title: Numbers
    categories: Sequence[str]
    category: Numbers
    instant: NDArray[np.bool_]
    arguments: tuple[Argument, ...] = ()
    first_flow: ArgumentColumn | None = None
    """The first of the arrows that a record begins or ends; its others follow. 0: none. Unique in the file."""
    flows: ArgumentColumn | None = None  # how many arrows
    begins_arrows: bool = False  # whether arrows begin here, rather than end

    def __len__(self) -> int:
        return len(self.start_ns)


class Levels(Struct, frozen=True, eq=False):
    """A counter: from each time on it has this value."""

    track: int
    at_ns: Ints
    value: NDArray[Any]  # integers, or floats


class TimelineSection(Struct, frozen=True, eq=False):
    """Some tracks of one trace, with what is on them. Tracks under others come after those."""

    tracks: tuple[Track, ...]
    records: Records | None = None
    levels: tuple[Levels, ...] = ()
    offset_ns: int = 0  # what to take off its times


class UniqueNumbers:
    """Hands out numbers that are unique in one file: of tracks, processes, threads and arrows."""

    _FIRST_MADE_UP: Final = 1 << 24  # above what operating systems number processes with

    def __init__(self) -> None:
        self._uuid = 0
        self._taken: set[int] = set()
        self._made_up = self._FIRST_MADE_UP
        self._arrows = 0

    def uuid(self) -> int:
        self._uuid += 1
        return self._uuid

    def like(self, wanted: int) -> int:
        """For a process or thread: its own number if nobody has it, else one that is made up."""
        if not 0 < wanted < self._FIRST_MADE_UP or wanted in self._taken:
            self._made_up += 1
            wanted = self._made_up
        self._taken.add(wanted)
        return wanted

    def track_under(self, above: Track, kind: TrackKind, name: str, order: int, unit: str = "") -> Track:
        return Track(self.uuid(), kind, name, above.uuid, above.pid, self.like(0), order, unit)

    def arrows(self, count: int) -> int:
        first = self._arrows + 1
        self._arrows += count
        return first


def text_argument(name: str, texts: Sequence[str], codes: NDArray[Any]) -> Argument:
    """An argument of one table alone."""
    return Argument(name, ArgumentColumn((codes,)), texts)


def as_titles(texts: Sequence[str]) -> list[str]:
    """Texts as titles: never empty, and not endless."""
    return [
        NAMELESS if not text else text if len(text) <= LONGEST_TITLE else text[: LONGEST_TITLE - 1] + "…"
        for text in texts
    ]


FEW_LANES: Final = 8
"""So many lanes are tried one after the other, and may nest; from there on records lie side by side, which is quicker
to decide where lanes are many."""

_AT_ONCE: Final = 65_536
_NEVER: Final = 1 << 64


def separate_lanes(start_ns: Ints, end_ns: Ints, group: Numbers) -> tuple[Numbers, Numbers]:
    """For each record the lane among those of its group, on which nothing overlaps, and its rank in time."""
    order = np.lexsort((end_ns, start_ns, group)).astype(np.int32)
    lane, rank = (np.zeros(len(order), np.int32) for _ in range(2))  # one of them stays
    rank[order] = np.arange(len(order), dtype=np.int32)
    for run in _runs(group[order]):
        members = order[run]
        begin, reach = start_ns[members], furthest(end_ns[members])
        crosses = np.append(False, begin[1:] < reach[:-1])
        if crosses.any():
            cluster = np.cumsum(~crosses)
            crowded = np.isin(cluster, cluster[crosses])
            lane[members[crowded]] = _first_free(begin[crowded], end_ns[members[crowded]])
    return lane, rank


def _runs(sorted_group: Numbers) -> Iterator[slice]:
    edges = np.flatnonzero(np.diff(sorted_group)) + 1
    bounds = [0, *edges.tolist(), len(sorted_group)]
    return (slice(first, last) for first, last in pairwise(bounds) if last > first)


def _first_free(start: Ints, end: Ints) -> Ints:
    """The first lane that is free, for records in the order of their starts."""
    chosen = np.zeros(len(start), np.int64)
    reach = [np.iinfo(np.int64).min] * FEW_LANES
    overflow: list[int] = []
    for index, (begin, finish) in enumerate(_pairs(start, end)):
        for lane, until in enumerate(reach):
            if until <= begin:
                reach[lane] = finish
                chosen[index] = lane
                break
        else:
            overflow.append(index)
    if overflow:
        chosen[overflow] = FEW_LANES + np.array(_lowest_free(start[overflow], end[overflow]))
    return chosen


def _lowest_free(start: Ints, end: Ints) -> list[int]:
    """The same where there may be a great many lanes."""
    taken: list[tuple[int, int]] = []
    free: list[int] = []
    chosen = []
    for begin, finish in _pairs(start, end):
        while taken and taken[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(taken)[1])
        lane = heapq.heappop(free) if free else len(taken)
        heapq.heappush(taken, (finish, lane))
        chosen.append(lane)
    return chosen


def _pairs(start: Ints, end: Ints) -> Iterator[tuple[int, int]]:
    """Pairs of Python's integers, a part at a time: they take ten times the memory."""
    parts = (slice(first, first + _AT_ONCE) for first in range(0, len(start), _AT_ONCE))
    return chain.from_iterable(zip(start[part].tolist(), end[part].tolist(), strict=True) for part in parts)


def nested_lanes(start_ns: Ints, end_ns: Ints, group: Numbers) -> tuple[Numbers, Numbers]:
    """For each record the lane among those of its group, and its rank: of what begins at once, the longer one first.

    Records with the same bounds keep their order, the first outermost.
    """
    order = np.lexsort((-end_ns, start_ns, group)).astype(np.int32)
    lane, rank = (np.zeros(len(order), np.int32) for _ in range(2))  # one of them stays
    rank[order] = np.arange(len(order), dtype=np.int32)
    crosses = _crossing(start_ns, end_ns, group, rank)
    order = order[is_among(group[order], group[crosses])]
    for run in _runs(group[order]):
        members = order[run]
        begin, reach = start_ns[members], furthest(end_ns[members])
        cluster = np.cumsum(np.append(True, begin[1:] >= reach[:-1])) - 1  # what touches nothing before it begins anew
        tangled = np.zeros(int(cluster[-1]) + 1, np.bool_)
        tangled[cluster[crosses[members]]] = True
        members = members[tangled[cluster]]
        lane[members] = _nesting_lanes(start_ns[members], end_ns[members])
    return lane, rank


def _crossing(start_ns: Ints, end_ns: Ints, group: Numbers, rank: Numbers) -> NDArray[np.bool_]:
    """Records that cross others: of those that touch one another some, where any does.

    Told one after the other, what nests ends at the depth that it began at: the first that crosses another does not.
    """
    position, is_end = events(start_ns, end_ns, group, rank, np.zeros(len(group), np.bool_))
    change = np.where(is_end, np.int8(-1), np.int8(1))
    before = np.cumsum(change, dtype=np.int32)
    before -= change
    depth = np.empty(len(group), np.int32)
    depth[position[~is_end]] = before[~is_end]
    ended = position[is_end]
    crosses = np.zeros(len(group), np.bool_)
    crosses[ended[before[is_end] != depth[ended] + 1]] = True
    return crosses


def _nesting_lanes(start: Ints, end: Ints) -> NDArray[np.int64]:
    """The first lane in which a record crosses nothing, for records sorted by start, the longer first."""
    stacks = [[_NEVER] for _ in range(FEW_LANES)]  # the ends of what is open; the lowest never ends
    main = stacks[0]
    chosen = np.zeros(len(start), np.int64)
    overflow: list[int] = []
    for index, (begin, finish) in enumerate(_pairs(start, end)):
        while main[-1] <= begin:
            main.pop()
        if main[-1] >= finish:  # nearly always
            main.append(finish)
            continue
        for lane in range(1, FEW_LANES):
            stack = stacks[lane]
            while stack[-1] <= begin:
                stack.pop()
            if stack[-1] >= finish:
                stack.append(finish)
                chosen[index] = lane
                break
        else:
            overflow.append(index)
    if overflow:
        chosen[overflow] = FEW_LANES + np.array(_lowest_free(start[overflow], end[overflow]))
    return chosen


def events(
    start_ns: Ints, end_ns: Ints, track: Numbers, rank: Numbers, instant: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """The order in which beginnings and ends of records are written, track by track: positions, and which are ends.

    At one instant come first the ends of what began earlier, the inner before the outer; then what begins, the outer
    before the inner, and a record of no length ends at once. An instant has no end.
    """
    position = np.empty(2 * len(track) - int(np.count_nonzero(instant)), np.int32)
    is_end = np.empty(len(position), np.bool_)
    order = np.argsort(track, kind="stable").astype(np.int32)
    done = 0
    for run in _runs(take(track, order)):
        for rows, ended in _events_of_track(order[run], start_ns, end_ns, rank, instant):
            part = slice(done, done := done + len(rows))
            position[part], is_end[part] = rows, ended
    return position, is_end


def _events_of_track(
    rows: NDArray[np.int32], start_ns: Ints, end_ns: Ints, rank: Numbers, instant: NDArray[np.bool_]
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.bool_]]]:
    """The same for these records of one track, a stretch of time after the other: sorted whole, they take much room."""
    begins = take(start_ns, rows)
    if (begins[1:] < begins[:-1]).any():
        rows = rows[np.argsort(begins, kind="stable")]
        begins = take(start_ns, rows)
    first, is_open = 0, rows[:0]
    while first < len(rows):
        last = min(first + max(_AT_ONCE, len(is_open)), len(rows)) - 1  # what is open is gone through each time
        last = int(np.searchsorted(begins, begins[last], side="right"))  # what begins at one instant stays together
        until = int(begins[last]) if last < len(rows) else _NEVER
        new = rows[first:last]
        start, end, place = take(start_ns, new), take(end_ns, new), 2 * take(rank, new).astype(np.int64)
        brief, lasts = (~instant[new] & condition for condition in (end <= start, end > start))
        is_open = np.concatenate((is_open, new[lasts]))
        over = end_ns[is_open] < until
        ended = is_open[over]
        is_open = is_open[~over]
        position = np.concatenate((new, ended, new[brief]))
        time = np.concatenate((start, end_ns[ended], start[brief]))
        order = np.lexsort((np.concatenate((place, -2 * (rank[ended].astype(np.int64) + 1), place[brief] + 1)), time))
        yield position[order], order >= len(new)
        first = last

"""Whether a recording can be true: tables in; the same with clocks put right where that is sure, and notes, out.

No program breaks these laws, and every recording that we have keeps them:

- work starts after the call that launched it began, and a synchronize call returns after what it waits for has ended;
- work of one stream starts in the order of its launch calls, and not before the one ahead of it has ended (branches of
  a graph and programmatic dependent launch may overlap);
- of the work that finds its GPU idle, some starts as soon as it is launched;
- a launch call starts one kernel, and work between two whose launch calls are there has one too;
- work takes time, and lies in the time that the host was recorded.

The first two bound what must be added to a GPU's times, from both sides, at every moment. Where the bounds exclude 0,
and leave room for one line that is little wide, the times are moved by it. Where they leave none, or too much, times of
host and GPU cannot be held against each other, and no cause of idle time is believed (`DAMAGE` in `trace/model.py`).

The laws hold for any part of the rows, so that of a large table blocks are looked at: the time is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.catalog.calls import DeviceOperation, operation_number
from gpuledger.messages import say
from gpuledger.read.request import counted
from gpuledger.regex import regex
from gpuledger.trace.keys import (
    KeyPositions,
    Positions,
    RowsByKey,
    distinct,
    group,
    last_match,
    one_after_another,
    take,
)
from gpuledger.trace.model import Note
from gpuledger.trace.spans import Ints, furthest
from gpuledger.trace.statistics import nearest_percentiles
from gpuledger.trace.tables import NOT_RECORDED, Rows, Table
from gpuledger.units import count_text, time_text

EARLY_NS: Final = 5_000
"""Clocks of host and GPU are matched to a few us; no launch reached a GPU in less than 2 us."""

LATE_NS: Final = 20_000
"""A synchronize call was seen to return 8 us before its work ended, on the recorded clocks."""

LARGE_NS: Final = 200_000
"""What is off by more is told, were it a single row."""

SMALLEST_SHARE: Final = 0.005
_A_FEW: Final = 3
_FEW_SYNCS: Final = 2
"""What is off by less is told from this share and this number of rows on; many programs synchronize but twice."""

SHORTEST_NS: Final = 100_000
"""A recording in which the host did less is an example that somebody wrote down."""

LAUNCH_NS: Final = 4_500
"""What a launch takes to reach an idle GPU, at least: where the clock is put right to."""

IDLE_NS: Final = 50_000
"""What a launch takes to reach an idle GPU, at most, where it need not wait: 5 to 20 us were seen."""

_FEWEST_IDLE: Final = 20
"""Of so many that find their GPU idle, one need not wait for other streams, other GPUs, or the host."""

SURE_NS: Final = 100_000
"""Bounds that leave no more room than this say where the clock is."""

STEEPEST: Final = 0.01
"""No clock runs faster or slower by more."""

SLACK_NS: Final = 1_000_000_000
"""So long after the last event of the host, and after all work was done, none can run."""

ROUNDED_ZERO: Final = 0.2
"""Of kernels, where times are whole microseconds, as many may take 0: 3 % were seen."""

_HALVINGS: Final = 60
_MOST_ROWS: Final = 1 << 15
_BLOCK: Final = 1 << 10
_MOST_SYNCS: Final = 1 << 12
_MOST_STREAMS: Final = 8
_MOST_PROCESSES: Final = 64

_WORK: Final = (Table.KERNELS, Table.COPIES, Table.GRAPHS)
_NEEDED: Final = {
    Table.KERNELS: ("pid", "gpu", "stream", "correlation", "graph_node", "name"),
    Table.COPIES: ("pid", "gpu", "stream", "correlation", "graph_node"),
    Table.GRAPHS: ("pid", "gpu", "stream", "correlation"),
    Table.CALLS: ("pid", "correlation", "name"),
}

_SYNCS_ALL, _SYNCS_STREAM, _MAY_OVERLAP, _GRAPH_LAUNCH = 1, 2, 3, 4
"""What matters of a call here."""

_OF_ALL: Final = regex(r"(Device|Thread|Ctx|Context)Synchronize")
_OF_STREAM: Final = regex(r"StreamSynchronize")
_PROGRAMMATIC: Final = regex(r"LaunchKernelEx")


def _role(function: str) -> int:
    if _OF_ALL.search(function):
        return _SYNCS_ALL
    if _OF_STREAM.search(function):
        return _SYNCS_STREAM
    if _PROGRAMMATIC.search(function):
        return _MAY_OVERLAP
    return _GRAPH_LAUNCH if operation_number(function.partition("_v")[0]) == DeviceOperation.GRAPH.number else 0


class WorkClock(Struct, frozen=True):
    """The times of work on one GPU: what must be added to them, by launches and synchronize calls."""

    gpu: int
    copies: bool | None
    """Whether it is that of the copies, or of all but those; None for both."""
    low: tuple[Ints, Ints]
    """When a work was, and what must at least be added to its time."""
    high: tuple[Ints, Ints]
    """The same for what may at most be added."""

    @property
    def is_off(self) -> bool:
        """Whether the bounds exclude 0."""
        early = _is_told(self.low[1] > EARLY_NS, self.low[1])
        return early or _is_told(self.high[1] < -LATE_NS, -self.high[1], _FEW_SYNCS)

    def fit(self) -> ClockFit | None:
        """The line between the bounds; None where there is none, or it may as well be another."""
        (low_at, low), (high_at, high) = self.low, self.high
        if not len(low) or not len(high) or not self._is_bound_throughout:
            return None
        begin, zero = int(low_at.min()), int(low.max())
        lows, highs = (low - zero).astype(np.float64), (high - zero).astype(np.float64)
        low_since, high_since = (low_at - begin).astype(np.float64), (high_at - begin).astype(np.float64)

        def room(slope: float) -> tuple[float, float]:
            bottom = float((lows - slope * low_since).max())
            return float((highs - slope * high_since).min()) - bottom, bottom

        slope = 0.0
        if room(0.0)[0] < -LATE_NS:
            left, right = -STEEPEST, STEEPEST
            for _ in range(_HALVINGS):  # the room is concave in the slope
                third = (right - left) / 3
                if room(left + third)[0] < room(right - third)[0]:
                    left += third
                else:
                    right -= third
            slope = (left + right) / 2
        width, bottom = room(slope)
        if not -LATE_NS <= width <= SURE_NS:
            return None
        above = min(float(LAUNCH_NS), width) if width > 0 else width / 2
        return ClockFit(begin, zero + round(bottom + above), slope, len(low), len(high))

    @property
    def _is_bound_throughout(self) -> bool:
        """Whether both ends of the time are bound closely, so that a drift would be seen."""
        (low_at, low), (high_at, _) = self.low, self.high
        begin, end = int(low_at.min()), int(low_at.max())
        third = (end - begin) // 3
        first, last = low[low_at <= begin + third], low[low_at >= end - third]
        by_launches = abs(int(first.max()) - int(last.max())) < LATE_NS
        return by_launches or bool((high_at < begin + third).any() and (high_at > end - third).any())


class ClockFit(Struct, frozen=True):
    """What is added to the times of one clock: so much at one instant, and a part of the time since."""

    at_ns: int
    offset_ns: int
    slope: float
    launches: int
    syncs: int

    def moved(self, times: Ints) -> Ints:
        """These times on the host's clock."""
        moved: Ints = times + self.offset_ns + np.rint(self.slope * (times - self.at_ns)).astype(np.int64)
        return moved


class _Work(NamedTuple):
    """Rows of the GPU that are looked at, of all tables."""

    start: Ints
    end: Ints
    pid: Ints
    gpu: NDArray[np.int32]
    stream: Ints
    correlation: Ints
    in_graph: NDArray[np.bool_]
    is_copy: NDArray[np.bool_]
    name: NDArray[np.int32]

    def at(self, positions: NDArray[np.intp] | NDArray[np.bool_]) -> _Work:
        return _Work(*(take(column, positions) for column in self))


def with_true_times(tables: Mapping[Table, Rows]) -> tuple[dict[Table, Rows], list[Note]]:
    """The tables, times of GPUs moved where their clock was off and it is sure by how much; and what is wrong."""
    calls = tables.get(Table.CALLS)
    present = [table for table in _WORK if len(tables.get(table, ()))]
    if (
        calls is None
        or not present
        or any(name not in tables[t] for t in (*present, Table.CALLS) for name in _NEEDED[t])
    ):
        return dict(tables), []
    launching = calls.only("pid", "correlation", "name", *(("result",) if "result" in calls else ()))
    launching = launching.where(launching.stored("correlation") != NOT_RECORDED)
    if not len(launching) or int(calls["end_ns"].max()) - int(calls["start_ns"].min()) < SHORTEST_NS:
        return dict(tables), []
    laws, notes, moved = _Laws(launching, _sample(tables, present)), list[Note](), dict(tables)
    for clock, fit in laws.fits():
        notes += _corrected(clock, fit)
        for table in present:
            if clock.copies is None or (table is Table.COPIES) == clock.copies:
                moved[table] = _moved(moved[table], clock.gpu, fit)
    return moved, [*notes, *_outside(moved, present), *laws.broken()]


def _sample(tables: Mapping[Table, Rows], present: list[Table]) -> _Work:
    """All rows, or of a large table blocks of neighbours, as far apart from each other."""
    parts = list[tuple[NDArray[np.generic], ...]]()
    for table in present:
        rows = tables[table]
        chosen = rows.only(*_NEEDED[table], *(("context",) if "context" in rows else ()))
        if len(rows) > _MOST_ROWS:
            firsts = np.linspace(0, len(rows) - _BLOCK, _MOST_ROWS // _BLOCK).astype(np.intp)
            chosen = chosen.at((firsts[:, None] + np.arange(_BLOCK)).reshape(-1))
        stream = chosen["stream"] + (chosen["context"] << 32 if "context" in chosen else 0)
        in_graph = np.ones(len(chosen), np.bool_) if table is Table.GRAPHS else chosen["graph_node"] > 0
        parts.append(
            (
                *(chosen[name] for name in ("start_ns", "end_ns", "pid", "gpu")),
                stream,
                chosen["correlation"],
                in_graph,
                np.full(len(chosen), table is Table.COPIES),
                chosen.codes("name") if table is Table.KERNELS else np.full(len(chosen), -1, np.int32),
            )
        )
    return _Work(*(one_after_another(columns) for columns in zip(*parts, strict=True)))


def _moved(rows: Rows, gpu: int, fit: ClockFit) -> Rows:
    mine = rows["gpu"] == gpu
    for name in ("start_ns", "end_ns"):
        rows = rows.replaced(name, np.where(mine, fit.moved(rows[name]), rows[name]))
    return rows


class _Waits(NamedTuple):
    """Synchronize calls: when the work that each waits for ends, and how long after that it returns."""

    gpu: int
    copies: bool
    done: Ints
    after: Ints


class _Laws:
    """The work that is looked at, by stream and start, with the call that launched each; and what holds of it."""

    def __init__(self, calls: Rows, work: _Work) -> None:
        self.calls = calls
        role = calls.strings.each(calls.codes("name"), _role, np.int8)
        succeeded = calls["result"] <= 0 if "result" in calls else np.ones(len(calls), np.bool_)
        self.syncs = np.flatnonzero(((role == _SYNCS_ALL) | (role == _SYNCS_STREAM)) & succeeded)
        self.role, self.is_off = role, False
        self.places = KeyPositions.of(calls["pid"], calls.stored("correlation"))
        self._order(work)

    def _order(self, work: _Work) -> None:
        """Take the work in the order of each stream."""
        first, number = group(work.pid, work.gpu, work.stream)
        order = np.argsort(work.start, kind="stable") if len(first) == 1 else np.lexsort((work.start, number))
        self.work, self.stream = work.at(order), take(number, order)
        self.launch = self._launching_call(self.work)
        self.is_launched = self.launch >= 0
        self.called = np.where(self.is_launched, self.calls["start_ns"][self.launch], 0)

    def _launching_call(self, work: _Work) -> Positions:
        """The first call that carries the id of each, as the ledger takes it; -1 for none."""
        if self.places is not None:
            call = self.places.look_up(work.pid, work.correlation)
        else:
            latest_first = np.argsort(-self.calls["start_ns"], kind="stable")
            keys = self.calls["pid"][latest_first], self.calls["correlation"][latest_first]
            call = last_match(work.pid, work.correlation, *keys)
            call = np.where(call >= 0, latest_first[call], -1)
        return np.where(work.correlation != NOT_RECORDED, call, -1)

    def fits(self) -> Iterator[tuple[WorkClock, ClockFit]]:
        """The clocks that are off and can be put right, which is done: of a GPU as a whole, else its copies apart."""
        for gpu in distinct(self.work.gpu).tolist():
            whole = self._clock(gpu, None)
            if not whole.is_off:
                continue
            self.is_off = True
            clocks = [whole] if whole.fit() is not None else [self._clock(gpu, copies) for copies in (False, True)]
            for clock in clocks:
                fit = clock.fit() if clock.is_off else None
                if fit is not None:
                    yield clock, fit
                    mine = self._of_clock(gpu, clock.copies)
                    moved = (np.where(mine, fit.moved(times), times) for times in (self.work.start, self.work.end))
                    start, end = moved
                    self._order(self.work._replace(start=start, end=end))

    def _of_clock(self, gpu: int, copies: bool | None) -> NDArray[np.bool_]:
        mine: NDArray[np.bool_] = self.work.gpu == gpu
        return mine if copies is None else mine & (self.work.is_copy == copies)

    def _clock(self, gpu: int, copies: bool | None) -> WorkClock:
        rows = self._of_clock(gpu, copies) & self.is_launched
        start = self.work.start[rows]
        waits = [wait for wait in self._waits() if wait.gpu == gpu and copies in (None, wait.copies)]
        at = np.concatenate([np.empty(0, np.int64), *(wait.done for wait in waits)])
        most = np.concatenate([np.empty(0, np.int64), *(wait.after for wait in waits)])
        return WorkClock(gpu, copies, (start, self.called[rows] - start), (at, most))

    def _waits(self) -> Iterator[_Waits]:
        """What synchronize calls wait for.

        Which stream is waited for is not recorded: it is at least the one of a process that is done first.
        """
        calls, work = self.calls, self.work
        if not len(self.syncs):
            return
        syncs = self.syncs[:: 1 + len(self.syncs) // _MOST_SYNCS]
        of_process = RowsByKey.of(calls["pid"][syncs])
        rows_of = RowsByKey.of(np.where(self.is_launched, work.pid, NOT_RECORDED))
        for pid, own in list(of_process)[:_MOST_PROCESSES]:
            rows = rows_of.rows(pid)
            rows = rows[np.argsort(calls["end_ns"][self.launch[rows]], kind="stable")]
            gpus, streams = distinct(work.gpu[rows]), RowsByKey.of(self.stream[rows])
            if not len(rows) or len(gpus) > 1:  # which GPU is waited for is not recorded either
                continue
            for is_copies in (False, True):
                for role in (_SYNCS_ALL, _SYNCS_STREAM):
                    waiting = syncs[own][self.role[syncs[own]] == role]
                    parts = [rows] if role == _SYNCS_ALL else [rows[part] for _, part in streams]
                    if not len(waiting) or len(parts) > _MOST_STREAMS:
                        continue
                    done = np.minimum.reduce([self._done(part, waiting, copies=is_copies) for part in parts])
                    known = done != _NEVER
                    yield _Waits(int(gpus[0]), is_copies, done[known], calls["end_ns"][waiting[known]] - done[known])

    def _done(self, rows: Positions, waiting: Positions, *, copies: bool) -> Ints:
        """When all of these that were launched before each waiting call are done; never where there are none."""
        rows = rows[self.work.is_copy[rows] == copies]
        before = np.searchsorted(self.calls["end_ns"][self.launch[rows]], self.calls["start_ns"][waiting], side="right")
        if not len(rows):
            return np.full(len(waiting), _NEVER)
        return np.where(before > 0, furthest(self.work.end[rows])[np.maximum(before - 1, 0)], _NEVER)

    def broken(self) -> Iterator[Note]:
        """What cannot be, first what says the most."""
        yield from self._repeated()
        yield from self._without_launch()
        yield from self._without_time()
        yield from self._on_streams()
        if not self.is_off:
            yield from self._late()
            return
        early = np.where(self.is_launched, self.called - self.work.start, 0)
        for copies, name in ((False, say("kernels")), (True, say("copies"))):
            yield from _told("starts-before-launch", early[self.work.is_copy == copies], EARLY_NS, what=name)
        if late := [wait.after for wait in self._waits()]:
            yield from _told("sync-before-end", -np.concatenate(late), LATE_NS, _FEW_SYNCS)

    @cached_property
    def _is_twice(self) -> NDArray[np.bool_]:
        """Which rows are like the one before them in all that they say."""
        work = self.work
        is_twice: NDArray[np.bool_] = (self.stream[1:] == self.stream[:-1]) & (work.end[1:] > work.start[1:])
        for column in (work.start, work.end, work.correlation, work.name):
            is_twice &= column[1:] == column[:-1]
        return is_twice

    def _repeated(self) -> Iterator[Note]:
        """Rows that are there twice; else kernels that one call is said to have launched."""
        work, launch = self.work, self.launch
        twice = int(np.count_nonzero(self._is_twice))
        if _are_many(twice, len(launch)):
            yield from counted("rows-twice", twice, of=count_text(len(launch)))
            return
        alone = self.is_launched & ~work.in_graph & ~work.is_copy & (self.role[launch] != _GRAPH_LAUNCH)
        count = int(np.count_nonzero(alone))
        repeated = count - len(distinct(launch[alone])) if count else 0
        if _are_many(repeated, count):
            yield from counted("ids-repeated", repeated, of=count_text(count))

    def _on_streams(self) -> Iterator[Note]:
        """Neighbours on a stream that overlap, or come in another order than their launches."""
        work, launch = self.work, self.launch
        same = (self.stream[1:] == self.stream[:-1]) & ~self._is_twice
        in_graph = work.in_graph[1:] | work.in_graph[:-1]
        over = np.where(same, work.end[:-1] - work.start[1:], 0)
        may = in_graph | ((self.role[launch[1:]] == _MAY_OVERLAP) & (launch[1:] >= 0))
        over[may & (over < LARGE_NS)] = 0
        yield from _told("stream-overlap", over, EARLY_NS)
        both = same & ~in_graph & (launch[1:] >= 0) & (launch[:-1] >= 0) & (launch[1:] != launch[:-1])
        turned = np.where(both, self.called[:-1] - self.calls["end_ns"][launch[1:]], 0)
        yield from _told("stream-order", turned, 0)

    def _late(self) -> Iterator[Note]:
        """Work that finds its GPU idle, and starts long after its launch, all of it equally long: a late clock.

        Work that waits for other streams, or for other processes on the GPU, does so for now this, now that long: where
        two take turns, the middle half of 765 waits of 0.3 ms spans 11 us, and where a clock is late, 0.6 us.
        """
        work = self.work
        if len(work.start) > _MOST_ROWS:  # what kept the GPU busy may not be among those that are looked at
            return
        for gpu in distinct(work.gpu).tolist():
            rows = np.flatnonzero(work.gpu == gpu)
            rows = rows[np.argsort(work.start[rows], kind="stable")]
            idle = np.append(0, work.start[rows[1:]] - furthest(work.end[rows])[:-1])
            rows = rows[(idle > IDLE_NS) & self.is_launched[rows] & ~work.in_graph[rows]]
            if len(rows) < _FEWEST_IDLE:
                continue
            waited = work.start[rows] - self.calls["end_ns"][self.launch[rows]]
            soonest, early, late = nearest_percentiles(waited, 0, 25, 75)
            if soonest > IDLE_NS and late - early < EARLY_NS and len(distinct(work.pid[rows])) == 1:
                yield from counted("starts-late", len(rows), time=time_text(soonest))

    def _without_launch(self) -> Iterator[Note]:
        """Work whose launch call is missing, where work ahead of it on its stream has one, and so has its kernel."""
        work, launched = self.work, self.is_launched
        lacking = ~launched & ~work.is_copy & (work.correlation > 0) & (work.name >= 0)
        if not lacking.any():
            return
        first = np.full(int(self.stream.max()) + 1, np.iinfo(np.int64).max)
        np.minimum.at(first, self.stream[launched], work.start[launched])
        named = np.zeros(int(work.name.max()) + 1, np.bool_)
        named[work.name[launched & (work.name >= 0)]] = True
        lacking &= (work.start > first[self.stream]) & named[np.maximum(work.name, 0)]
        count = int(np.count_nonzero(lacking))
        if _are_many(count, len(work.start)):
            yield from counted("launches-lost", count, of=count_text(len(work.start)))

    def _without_time(self) -> Iterator[Note]:
        """Kernels that end when they begin, or before."""
        kernels = ~self.work.is_copy
        none = int(np.count_nonzero(kernels & (self.work.end <= self.work.start)))
        of = int(np.count_nonzero(kernels))
        is_rounded = not (self.work.start % 1000).any()
        if _are_many(none, of) and (not is_rounded or none > ROUNDED_ZERO * of):
            yield from counted("kernels-timeless", none, of=count_text(of))


_NEVER: Final = np.iinfo(np.int64).min


def _are_many(count: int, of: int, few: int = _A_FEW) -> bool:
    return count >= max(few, SMALLEST_SHARE * of)


def _is_told(is_off: NDArray[np.bool_], by_ns: Ints, few: int = _A_FEW) -> bool:
    """Whether so many are off, or one by so much, that it must be told."""
    count = int(np.count_nonzero(is_off))
    return count > 0 and (_are_many(count, len(is_off), few) or int(by_ns[is_off].max()) > LARGE_NS)


def _told(code: str, by_ns: Ints, tolerance_ns: int, few: int = _A_FEW, **parts: str) -> list[Note]:
    """The note on how many are off, and by how much at most; none where too few are to be told."""
    is_off = by_ns > tolerance_ns
    if not _is_told(is_off, by_ns, few):
        return []
    parts |= {"of": count_text(len(is_off)), "time": time_text(int(by_ns.max()))}
    return counted(code, int(np.count_nonzero(is_off)), **parts)


def _corrected(clock: WorkClock, fit: ClockFit) -> list[Note]:
    """How the times of one clock were moved."""
    drift = round(abs(fit.slope) * 1e6)
    how = "drift" if drift else "late" if fit.offset_ns < 0 else "early"
    return counted(
        f"clock-{how}-corrected",
        fit.launches,
        what={None: say("work"), False: say("kernels"), True: say("copies")}[clock.copies],
        gpu=str(clock.gpu),
        time=time_text(abs(fit.offset_ns)),
        drift=count_text(drift),
        syncs=count_text(fit.syncs),
    )


def _outside(tables: Mapping[Table, Rows], present: list[Table]) -> list[Note]:
    """Work that lies where nothing of the host does, and no work that was queued can be left."""
    hosts = [tables[table] for table in (Table.CALLS, Table.RANGES) if len(tables.get(table, ()))]
    first = min(int(rows["start_ns"].min()) for rows in hosts)
    last = max(int(rows["end_ns"].max()) for rows in hosts)
    outside, furthest_off = 0, 0
    for table in present:
        rows = tables[table]
        if int(rows["end_ns"].max()) <= last + SLACK_NS and int(rows["start_ns"].min()) >= first - SLACK_NS:
            continue
        lengths = np.sort(np.maximum(rows.duration_ns, 0))
        likely = lengths[: -max(1, len(lengths) // 100)]  # but the longest, which may be what is wrong
        queued = int(likely.sum()) + SLACK_NS
        off = np.maximum(rows["end_ns"] - last, first - rows["start_ns"])
        outside += int(np.count_nonzero(off > queued))
        furthest_off = max(furthest_off, int(off.max()) if outside else 0)
    return counted("outside-recording", outside, time=time_text(furthest_off))

"""Why a GPU was idle: gaps in, causes out, and for each gap what set it off.

A gap is a stretch of the window in which nothing ran on the device. Its time is booked to causes, clipped to the gap,
and they sum to it. Time says where the host was; the trigger says what to fix. Of a gap that the window cuts, the part
inside counts; what set it off, and what its time is due to, is decided for the whole of it.

Let A be the activity that ends the gap and L its launch call. If L had returned when the gap began, the device itself
is the reason (`graph`, `context_switch`, `turnaround`, `page_migration`, `device_wait`). If not, the host was late:
after L `launch_latency`, inside it `launch` or `load`, before it whatever L's thread was doing (see `host`).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.catalog.calls import CallKind
from gpuledger.errors import BooksDoNotBalance
from gpuledger.ledger.activity import Activities, short_function_name
from gpuledger.ledger.busy import Busy
from gpuledger.ledger.causes import CAUSES, TRIGGERS, ByCause, Cause, QueueTrigger
from gpuledger.ledger.compilations import ANEW, compilations
from gpuledger.ledger.host import Host
from gpuledger.ledger.lost_work import LEAST_NS, NOTHING_LOST, LostWork, waits_for_unrecorded
from gpuledger.messages import say
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, RowsByKey, distinct, group, is_among, is_same, take
from gpuledger.trace.spans import Ints, covered, cut_at
from gpuledger.trace.statistics import largest as largest_of
from gpuledger.trace.statistics import median
from gpuledger.trace.tables import Rows

LAUNCH_LATENCY_NS: Final = 10_000
"""From a launch call's return to the kernel's start, and from one kernel to the next queued one: longer is a wait."""

SLOW_FIRST_LAUNCH: Final = 20
"""A kernel's first launch that takes this many times the median of its API loads code: lazy loading shows only so."""

FEW_LAUNCHES: Final = 10
SLOW_LAUNCH_NS: Final = 1_000_000
"""Where an API was called fewer times than this, its median says little, and a first launch this slow loads code."""

FAULT_NS: Final = 100_000
"""Up to here the pause before a migration is a page fault's; in a longer one the host did something else."""

PAGE_WALK_NS: Final = 1_000_000
"""Up to here the pause between two migrations is part of a walk over pages that are fetched one after the other."""

COLD_START_NS: Final = 1_000_000
"""A GPU whose first work takes this long to start is cold: its context, its code or its process is not there yet."""

MOST_FIRST_CALLS: Final = 20
"""So many gaps are held against the operators around them."""

LAUNCHES_TO_GET_AHEAD: Final = 8
"""Up to so many launches after a wait, a late launch is the wait's fault: the queue has not filled again."""

FED_NS: Final = 1_000_000
"""A thread that hands launches over one by one takes less for each; in a longer wait it does something else."""

_AT: Final = {cause: position for position, cause in enumerate(CAUSES)}
_BEHIND_AT: Final = TRIGGERS.index(QueueTrigger.BEHIND)
_DRAINED_AT: Final = TRIGGERS.index(QueueTrigger.DRAINED)
_COLD_AT: Final = TRIGGERS.index(QueueTrigger.COLD)
_COMPILE_AT: Final = TRIGGERS.index(QueueTrigger.COMPILE)

_NEVER_NS: Final = np.iinfo(np.int64).max

_LARGEST_WINS: Final = (
    *(Cause.ALLOC, Cause.OS, Cause.WAIT_THREAD, Cause.PROFILER, Cause.PAGE_MIGRATION, Cause.UNRECORDED),
)
_WAITS_FOR_PAGES: Final = (Cause.SYNC, Cause.COPY_CALL)
"""A host that waits, or asks for pages, while nothing but a migration comes next, waits for that migration."""

_HOST_BEHIND: Final = (Cause.DISPATCH, Cause.LAUNCH, Cause.CALL, Cause.LAUNCH_LATENCY)


class Gaps(Struct, frozen=True):
    """The gaps of one GPU, in order of time. Columns of equal length; -1 where there is none."""

    start_ns: Ints
    end_ns: Ints
    by_cause: ByCause
    """One row per gap."""
    before: Ints
    """Position of the activity that ended last before the gap."""
    after: Ints
    """Position of the activity that ends the gap."""
    call: Ints
    """Position of its launch call among the CUDA calls; before a migration, of the host's next one."""
    trigger: Positions
    """What set each gap off, as a position in TRIGGERS."""
    drained_by: Positions
    """The blocking call that let the queue run dry, as a position in `draining`; 0, the empty name, where none did."""
    draining: tuple[str, ...]
    drainer: Positions
    """That call, as a position among the CUDA calls; one call may leave many gaps behind."""
    by_tile_ns: NDArray[np.int64]
    """The same time for each tile of the window, which instants that somebody asked for bound; a column per cause."""

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def length_ns(self) -> Ints:
        return self.end_ns - self.start_ns


def gaps(work: Activities, host: Host, split: Busy, cuts: Ints, lost: LostWork = NOTHING_LOST) -> Gaps:
    """The gaps of one GPU with their causes, also by the tiles between the instants `cuts`.

    In gaps where `lost` work may have run, nothing is known of the host either.
    """
    start, end = split.idle.start_ns, split.idle.end_ns
    before, after = _neighbours(work, split)
    call = np.full(len(start), -1, np.intp)
    call[after >= 0] = work.launch[after[after >= 0]]
    # where gaps begin and end when no window cuts them: with an activity, or the first with a launch
    whole_start, whole_end = start.copy(), end.copy()
    whole_start[before >= 0] = work.end_ns[before[before >= 0]]
    first = (before < 0) & (call >= 0)
    whole_start[first] = np.minimum(whole_start[first], host.calls["start_ns"][call[first]])
    whole_end[after >= 0] = work.start_ns[after[after >= 0]]
    is_lost = lost.overlaps(split.gpu, whole_start, whole_end)
    booking = _Booking(work, host, whole_start, whole_end, before, after, call, is_lost)
    causes = whole = booking.book(whole_start, whole_end, np.arange(len(start)))
    if not (np.array_equal(whole_start, start) and np.array_equal(whole_end, end)):
        causes = booking.book(start, end, np.arange(len(start)))
    if not np.array_equal(causes.total(), end - start):
        raise BooksDoNotBalance(f"causes of {len(start)} gaps on GPU {split.gpu} do not sum to the gaps")
    trigger, drainer = booking.triggers(whole, cuts)
    drained_by, draining = _drainer_names(host.calls, drainer)
    by_tile = _by_tile(booking, start, end, causes, cuts)
    return Gaps(start, end, causes, before, after, call, trigger, drained_by, draining, drainer, by_tile)


def _neighbours(work: Activities, split: Busy) -> tuple[Positions, Positions]:
    """The activity that ended last before each gap, and the one that ends it or would if the window did not.

    -1 where there is none. All that began before a gap have ended by then.
    """
    own = work.of(split.gpu)
    after = sweep.search(own.start_ns, split.idle.end_ns)
    after = np.where(after < len(own), after, -1)
    begun = sweep.search(own.start_ns, split.idle.start_ns) - 1
    before = np.where(begun >= 0, sweep.last_to_end(own.end_ns)[np.maximum(begun, 0)], -1)
    if own is work:
        return before, after
    here = np.append(work.on(split.gpu), -1)
    return here[before], here[after]


def _drainer_names(calls: Rows, drainer: Positions) -> tuple[Positions, tuple[str, ...]]:
    """For each gap the position of its draining call's name, 0 for none; and the names, the empty one first."""
    drains = drainer >= 0
    codes = distinct(calls.codes("name")[drainer[drains]])
    number = np.zeros(len(drainer), np.intp)
    number[drains] = np.searchsorted(codes, calls.codes("name")[drainer[drains]]) + 1
    return number, ("", *(short_function_name(name or "") for name in calls.strings.decode(codes)))


def _by_tile(booking: _Booking, begin: Ints, finish: Ints, causes: ByCause, cuts: Ints) -> NDArray[np.int64]:
    """The time of gaps by tile and cause. Most gaps lie in one tile; the others are booked again, piece by piece."""
    sums = np.zeros((len(cuts) + 1, len(CAUSES)), np.int64)
    if not len(causes):
        return sums
    tile = sweep.search(cuts, begin, "right")
    first = np.flatnonzero(np.append(True, tile[1:] != tile[:-1]))
    crossing = np.flatnonzero(tile != sweep.search(cuts, finish, "left"))
    start, end, whose = cut_at(begin[crossing], finish[crossing], cuts)
    piece, pieces = sweep.search(cuts, start, "right"), booking.book(start, end, crossing[whose])
    for cause in causes.used:
        column = sums[:, _AT[cause]]
        column[tile[first]] = np.add.reduceat(causes.of(cause), first)
        np.subtract.at(column, tile[crossing], causes.of(cause)[crossing])
    for cause in pieces.used:
        np.add.at(sums[:, _AT[cause]], piece, pieces.of(cause))
    return sums


class _Booking:
    """Books time to causes. What a gap's time is due to is decided for the whole gap, then booked piece by piece."""

    def __init__(
        self,
        work: Activities,
        host: Host,
        start: Ints,
        end: Ints,
        before: Ints,
        after: Ints,
        call: Ints,
        is_lost: NDArray[np.bool_],
    ) -> None:
        self.work, self.host, self.is_lost = work, host, is_lost
        self.start, self.end, self.before, self.after, self.call = start, end, before, after, call
        self._follows_pages = self._moves_pages(before)
        self._ends_in_pages = self._moves_pages(after)
        self.whole = np.full(len(start), -1, np.intp)
        self._decide()

    def _decide(self) -> None:
        """Which gaps go to one cause as a whole; -1 stays for those in which the host was late."""
        has_call = self.call >= 0
        self._assign(self.after < 0, Cause.TAIL)
        self._assign(self.is_lost, Cause.LOST)
        if self._ends_in_pages.any():
            self._decide_migrations()
        early = ~has_call & (self.whole < 0) & ~self._ends_in_pages
        if early.any():
            early &= self._launched_before_capture()
        self._assign((self.call < 0) & ~early, Cause.UNATTRIBUTED)
        self._assign(self._inside_graph(), Cause.GRAPH)
        returned = np.zeros(len(has_call), np.int64)
        returned[has_call] = self.host.calls["end_ns"][self.call[has_call]]
        ahead = early | (has_call & (returned <= self.start))
        pid_before = _at_or_none(self.work.pid, self.before)
        other_process = (pid_before >= 0) & (pid_before != _at_or_none(self.work.pid, self.after))
        self._assign(ahead & other_process, Cause.CONTEXT_SWITCH)
        self._assign(ahead & (self.end - self.start <= LAUNCH_LATENCY_NS), Cause.TURNAROUND)
        self._assign(ahead & self._follows_pages, Cause.PAGE_MIGRATION)
        self._assign(ahead & self._for_unrecorded, Cause.UNRECORDED)
        self._assign(ahead, Cause.DEVICE_WAIT)

    def _moves_pages(self, activity: Ints) -> NDArray[np.bool_]:
        """Which of these activities are migrations of unified memory."""
        if not self.work.migrates.any():
            return np.zeros(len(activity), np.bool_)
        return np.append(self.work.migrates, False)[activity]

    def _decide_migrations(self) -> None:
        """Gaps that a migration ends: the pause of a page fault, or of a walk over pages; else whatever the host did.

        No call launches a migration. Its host is taken to be the process's thread that calls CUDA most, and stands
        before its next call.
        """
        length = self.end - self.start
        pause = (length <= FAULT_NS) | (self._follows_pages & (length <= PAGE_WALK_NS))
        self._assign(self._ends_in_pages & pause, Cause.PAGE_MIGRATION)
        calls = self.host.calls
        longer = np.flatnonzero(self._ends_in_pages & (self.whole < 0))
        owner = _at_or_none(self.work.pid, self.after[longer])
        by_process = RowsByKey.of(calls["pid"])
        for process, of_owner in RowsByKey.of(owner):
            own = by_process.rows(process)
            if len(own):
                threads = self.host.thread_of_call[own]
                own = own[threads == np.bincount(threads).argmax()]
                own = own[np.argsort(calls["start_ns"][own], kind="stable")]
                gap = longer[of_owner]
                following = sweep.search(calls["start_ns"][own], self.end[gap])
                self.whole[gap[following == len(own)]] = _AT[Cause.HOST_CODE]
                self.call[gap] = own[np.minimum(following, len(own) - 1)]

    def _assign(self, mask: NDArray[np.bool_], cause: Cause) -> None:
        self.whole[mask & (self.whole < 0)] = _AT[cause]

    def book(self, start: Ints, end: Ints, gap: Positions) -> ByCause:
        """Book pieces [start, end) of gaps."""
        books = ByCause(len(start), CAUSES)
        cause = self.whole[gap]
        for number in distinct(cause).tolist():
            if number >= 0:
                rows = np.flatnonzero(cause == number)
                books.add(CAUSES[number], rows, end[rows] - start[rows])
        self._host_was_late(books, np.flatnonzero(cause < 0), start, end, gap)
        return books

    def _launched_before_capture(self) -> NDArray[np.bool_]:
        """The activity's id is lower than any that its process recorded a call for."""
        pid, correlation = (_at_or_none(column, self.after) for column in (self.work.pid, self.work.correlation))
        lowest, limit = self.host.once(_lowest_ids, self.host.calls), np.full(len(pid), -1)
        for process, rows in RowsByKey.of(pid):
            limit[rows] = lowest.get(process, -1)
        return (correlation >= 0) & (correlation < limit)

    def _inside_graph(self) -> NDArray[np.bool_]:
        """The activity is a node of a graph of which another node had begun before the gap."""
        work = self.work
        if is_same(work.graph_node) and work.graph_node[0] < 0:
            return np.zeros(len(self.after), np.bool_)
        began = np.full(len(work) + 1, _NEVER_NS)  # the last is for no activity
        nodes = np.flatnonzero((work.graph_node >= 0) & (work.correlation >= 0))
        first, number = group(work.pid[nodes], work.correlation[nodes])
        first_ns = sweep.fold("least", number, work.start_ns[nodes], np.full(len(first), _NEVER_NS))
        began[nodes] = first_ns[number]
        earlier: NDArray[np.bool_] = began[self.after] < self.start
        return earlier

    @cached_property
    def _for_unrecorded(self) -> NDArray[np.bool_]:
        """The activity had been queued for long, and is the first that is known of its stream."""
        long = np.flatnonzero((self.after >= 0) & (self.end - self.start > LEAST_NS))
        waits = np.zeros(len(self.start), np.bool_)
        waits[long] = waits_for_unrecorded(self.work, self.host, self.after[long])
        return waits

    def _host_was_late(self, books: ByCause, late: Positions, start: Ints, end: Ints, gap: Positions) -> None:
        """L had not returned when the gap began: split at L's start and end, and before L by what its thread did."""
        if not len(late):
            return
        start, end, gap = start[late], end[late], gap[late]
        call = self.call[gap]
        launch_start, launch_end = self.host.calls["start_ns"][call], self.host.calls["end_ns"][call]
        waits = self.end[gap] - launch_end > LAUNCH_LATENCY_NS
        unrecorded = waits & self._for_unrecorded[gap]
        after_ns = end - np.clip(launch_end, start, end)
        inside_ns = np.clip(launch_end, start, end) - np.clip(launch_start, start, end)
        for cause, mask, amount in (
            (Cause.UNRECORDED, unrecorded, after_ns),
            (Cause.DEVICE_WAIT, waits & ~unrecorded & ~self._follows_pages[gap], after_ns),
            (Cause.PAGE_MIGRATION, waits & ~unrecorded & self._follows_pages[gap], after_ns),
            (Cause.LAUNCH_LATENCY, ~waits, after_ns),
            (Cause.CONTEXT, creates := self.host.kinds[call] == CallKind.CONTEXT.number, inside_ns),
            (Cause.LOAD, loads := ~creates & self._loads_code(gap), inside_ns),
            (Cause.LAUNCH, ~creates & ~loads, inside_ns),
        ):
            books.add(cause, late[mask], amount[mask])
        threads = self.host.thread_of_call[call]
        for number, of_thread in RowsByKey.of(threads):
            before = np.clip(launch_start[of_thread], start[of_thread], end[of_thread])
            rows = late[of_thread]
            pages = self._ends_in_pages[gap[of_thread]]
            for label, amount in self.host.thread(number).split(start[of_thread], before).items():
                if label in _WAITS_FOR_PAGES and pages.any():
                    books.add(Cause.PAGE_MIGRATION, rows[pages], amount[pages])
                    books.add(label, rows[~pages], amount[~pages])
                else:
                    books.add(label, rows, amount)

    def _loads_code(self, gap: Positions) -> NDArray[np.bool_]:
        """Whether L is its kernel's first launch in the process, and far slower than that API's usual call.

        Or slower than any launch is, where there are too few to say what is usual.
        """
        calls, call = self.host.calls, self.call[gap]
        took = calls["end_ns"][call] - calls["start_ns"][call]
        loads: NDArray[np.bool_] = took > SLOW_FIRST_LAUNCH * _usual_ns(calls, call)
        slow_launch = (took >= SLOW_LAUNCH_NS) & (self.host.kinds[call] == CallKind.LAUNCH.number)
        if slow_launch.any():
            names = calls.codes("name") + 1  # NO_TEXT is -1
            loads |= slow_launch & (np.bincount(names)[names[call]] < FEW_LAUNCHES)
        loads &= ~self._ends_in_pages[gap]
        work, slow = self.work, self.after[gap[loads]]
        alike = np.flatnonzero(is_among(work.name, distinct(work.name[slow])))
        first, number = group(work.pid[alike], work.name[alike])
        first_ns = sweep.fold("least", number, work.start_ns[alike], np.full(len(first), _NEVER_NS))
        loads[loads] = work.start_ns[slow] == first_ns[number[np.searchsorted(alike, slow)]]
        return loads

    def triggers(self, causes: ByCause, cuts: Ints) -> tuple[Positions, Positions]:
        """What set each gap off, first match wins; and for those drained, by which call. `cuts` are between steps."""
        length = self.end - self.start
        largest = causes.largest()
        loading = self._loads(causes)
        behind = 2 * causes.total(*_HOST_BEHIND) > length
        drainer = np.where(self.before >= 0, self._drainer(behind), -1)  # where nothing ran before, nothing ran dry
        by_itself = is_among(largest, [_AT[cause] for cause in _LARGEST_WINS]) | (
            2 * causes.of(Cause.HOST_CODE) > length  # a wait may have come first, but this is what took long
        )
        is_first = (self.before < 0) & (self.whole < 0) & (length >= COLD_START_NS)
        is_first &= largest != _AT[Cause.UNRECORDED]  # the GPU was busy
        is_first &= 2 * causes.of(Cause.HOST_CODE) <= length  # what a step does before it launches, it does each time
        sets_up = 2 * causes.total(Cause.CONTEXT, Cause.LOAD) > length
        cold = is_first | (largest == _AT[Cause.CONTEXT]) | (sets_up & (causes.of(Cause.CONTEXT) > 0))
        cold |= self._captures_graphs() | self._sets_up_libraries()
        was_queued = is_among(largest, [_AT[Cause.UNRECORDED], _AT[Cause.DEVICE_WAIT]])  # the host was not late
        may_be = ~cold & (self.whole < 0) & (length >= COLD_START_NS) & ~was_queued
        cold |= self._in_first_calls(np.flatnonzero(may_be))
        fed = self._fed(np.flatnonzero((largest == _AT[Cause.WAIT_THREAD]) & (length < FED_NS)))
        compiling = self._compiles()
        again = len(distinct(sweep.search(cuts, self.start[compiling]) if len(cuts) else np.flatnonzero(compiling))) > 1
        kinds: list[Any] = [_COLD_AT, _COMPILE_AT if again else _COLD_AT, _AT[Cause.LOAD], _BEHIND_AT]
        kinds += [largest, _DRAINED_AT, _BEHIND_AT]
        conditions = [cold, compiling, loading, fed, by_itself, drainer >= 0, behind]
        trigger: Positions = np.select(conditions, kinds, largest)
        return trigger, np.where(trigger == _DRAINED_AT, drainer, -1)

    def _loads(self, causes: ByCause) -> NDArray[np.bool_]:
        """Gaps in which the host was late and loaded code for the most of them, or did what led to that."""
        loading, length = 2 * causes.of(Cause.LOAD) > self.end - self.start, self.end - self.start
        around = causes.total(Cause.LOAD, Cause.HOST_CODE, Cause.WAIT_THREAD, Cause.OS)
        may_lead = np.flatnonzero(~loading & (causes.of(Cause.LOAD) > 0) & (2 * around > length))
        for number, of_thread in RowsByKey.of(self.host.thread_of_call[self.call[may_lead]]):
            gap = may_lead[of_thread]
            led = covered(self.host.leads_to_loads(number), self.start[gap], self.end[gap])
            loading[gap] = 2 * (led + causes.of(Cause.LOAD)[gap]) > length[gap]
        return loading

    def _compiles(self) -> NDArray[np.bool_]:
        """Gaps in which the host was late and compiled, or recorded a graph anew, for the most of them."""
        compiling, length = np.zeros(len(self.start), np.bool_), self.end - self.start
        late = self.whole < 0
        if not 0 < self.host.launches_per_capture <= ANEW:  # to record a graph takes less than to compile
            late &= length >= COLD_START_NS
        if late.any():
            stretches = compilations(self.host, self.work)
            for number, of_thread in RowsByKey.of(self.host.thread_of_call[self.call[late]]):
                gap = np.flatnonzero(late)[of_thread]
                spans = stretches.of(int(self.host.threads[number]))
                compiling[gap] = 2 * covered(spans, self.start[gap], self.end[gap]) > length[gap]
        return compiling

    def _captures_graphs(self) -> NDArray[np.bool_]:
        """Gaps in which the host was late and captured graphs for the most of them; not anew for each launch."""
        capturing = np.zeros(len(self.start), np.bool_)
        if not 0 < self.host.launches_per_capture <= ANEW:
            pid = np.where(self.whole < 0, _at_or_none(self.work.pid, self.after), -1)
            for process, captures in self.host.captures.items():
                mine = np.flatnonzero(pid == process)
                start, end = self.start[mine], self.end[mine]
                capturing[mine] = 2 * covered(captures, start, end) > end - start
        return capturing

    def _sets_up_libraries(self) -> NDArray[np.bool_]:
        """Gaps in which the host was late and set a library up for the most of them."""
        setting_up, late = np.zeros(len(self.start), np.bool_), np.flatnonzero(self.whole < 0)
        for number, of_thread in RowsByKey.of(self.host.thread_of_call[self.call[late]]):
            spans = self.host.sets_up_library(number)
            if len(spans):
                start, end = self.start[late[of_thread]], self.end[late[of_thread]]
                setting_up[late[of_thread]] = 2 * covered(spans, start, end) > end - start
        return setting_up

    def _in_first_calls(self, long: Positions) -> NDArray[np.bool_]:
        """Of long gaps, those that the first call of an operator holds; the longest are looked at."""
        inside = np.zeros(len(self.start), np.bool_)
        long = long[largest_of((self.end - self.start)[long], MOST_FIRST_CALLS)]
        for number, of_thread in RowsByKey.of(self.host.thread_of_call[self.call[long]]):
            gap = long[of_thread]
            inside[gap] = self.host.in_first_calls(number, self.start[gap], self.end[gap])
        return inside

    def _fed(self, waits: Positions) -> NDArray[np.bool_]:
        """Of these gaps, in which L's thread waited for another, those where that one hands over a few launches a time.

        Its pace is that of launching, then. A thread that is the process's own is not fed: it waits for results.
        """
        fed = np.zeros(len(self.start), np.bool_)
        for number, of_thread in RowsByKey.of(self.host.thread_of_call[self.call[waits]]):
            rows = waits[of_thread]
            identity, launched = int(self.host.threads[number]), self.host.launch_times(number)
            first, last = sweep.search(launched, np.array([self.start[rows[0]], self.end[rows[-1]]]))
            is_main = identity >> 32 == identity & 0xFFFF_FFFF
            fed[rows] = not is_main and len(rows) >= FEW_LAUNCHES and last - first <= LAUNCHES_TO_GET_AHEAD * len(rows)
        return fed

    def _drainer(self, behind: NDArray[np.bool_]) -> Positions:
        """L's thread's last blocking call before L, if it returned at or after the gap's beginning.

        Or if it returned a few launches before L: a host that is `behind` then had no chance yet to get ahead.
        """
        calls, blocking = self.host.calls, self.host.blocking
        drainer = np.full(len(self.start), -1, np.intp)
        by_thread = RowsByKey.of(self.host.thread_of_call[blocking])
        late = np.flatnonzero(self.whole < 0)
        threads = self.host.thread_of_call[self.call[late]]
        for number, of_thread in RowsByKey.of(threads):
            rows = late[of_thread]
            waits = blocking[by_thread.rows(number)]
            waits = waits[np.argsort(calls["end_ns"][waits], kind="stable")]
            last = sweep.search(calls["end_ns"][waits], calls["start_ns"][self.call[rows]], "right") - 1
            rows, last = rows[last >= 0], last[last >= 0]
            returned = calls["end_ns"][waits[last]]
            launched = self.host.launch_times(number)
            since = sweep.search(launched, calls["start_ns"][self.call[rows]]) - sweep.search(launched, returned)
            inside = (returned >= self.start[rows]) | (behind[rows] & (since <= LAUNCHES_TO_GET_AHEAD))
            drainer[rows[inside]] = waits[last[inside]]
        return drainer


def _lowest_ids(calls: Rows) -> dict[int, int]:
    """The lowest correlation id of each process's calls, where they have any."""
    lowest = dict[int, int]()
    for process, rows in RowsByKey.of(calls["pid"]):
        ids = take(calls.stored("correlation"), rows)
        if ids.max(initial=-1) >= 0:
            lowest[process] = int(ids[ids >= 0].min() if ids.min() < 0 else ids.min())
    return lowest


def _at_or_none(column: Ints, activity: Positions) -> Ints:
    """The values of these activities; -1 where there is none."""
    return np.where(activity >= 0, column[np.maximum(activity, 0)], -1)


def _usual_ns(calls: Rows, wanted: Positions) -> NDArray[np.float64]:
    """For each wanted call the median duration of all calls of its name; infinite where none of those is slow."""
    names, start, end = calls.codes("name"), calls["start_ns"], calls["end_ns"]
    medians = np.zeros(int(names.max(initial=-1)) + 2)  # the last one is for NO_TEXT
    for code in distinct(names[wanted]).tolist():
        own = wanted[names[wanted] == code]
        longest = (end[own] - start[own]).max()
        counts = 0
        for part in sweep.parts(len(names)):
            took = (end[part] - start[part])[names[part] == code]
            counts += 2 * int(np.count_nonzero(took < longest // SLOW_FIRST_LAUNCH)) - len(took)
        # mostly fewer than half are so short that the longest could count as slow; then how long is usual is no matter
        medians[code] = np.inf if counts < 0 else median(calls.duration_ns[names == code])
    return medians[names[wanted]]


BUCKETS: Final = (
    (say("under 1 us"), 1_000),
    ("1-5 us", 5_000),
    ("5-10 us", 10_000),
    ("10-50 us", 50_000),
    ("50-100 us", 100_000),
    ("0.1-1 ms", 1_000_000),
    (say("over 1 ms"), None),
)
"""Lengths of gaps, each bucket up to but not including its bound."""


def histogram(gaps: Gaps) -> tuple[tuple[str, int, int], ...]:
    """For each bucket its name, how many gaps fall into it, and their time."""
    bounds = [bound for _, bound in BUCKETS if bound is not None]
    bucket = np.searchsorted(bounds, gaps.length_ns, side="right")
    counts = np.bincount(bucket, minlength=len(BUCKETS)).tolist()
    times = [int(gaps.length_ns[bucket == number].sum()) for number in range(len(BUCKETS))]
    return tuple((name, counts[number], times[number]) for number, (name, _) in enumerate(BUCKETS))

"""Why a GPU was idle: gaps in, causes out, and for each gap what set it off.

A gap is a stretch of the window in which nothing ran on the device. Its time is booked to causes, clipped to the gap,
and they sum to it. Time says where the host was; the trigger says what to fix. Of a gap that the window cuts, the part
inside counts; what set it off, and what its time is due to, is decided for the whole of it.

Let A be the activity that ends the gap and L its launch call. If L had returned when the gap began, the device itself
is the reason (`graph`, `context_switch`, `turnaround`, `page_migration`, `device_wait`). If not, the host was late:
after L `launch_latency`, inside it `launch` or `load`, before it whatever L's thread was doing (see `host`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.catalog.calls import CallKind
from gpuledger.errors import BooksDoNotBalance
from gpuledger.ledger.activity import Activities, short_function_name
from gpuledger.ledger.causes import CAUSES, TRIGGERS, ByCause, Cause, QueueTrigger, Trigger
from gpuledger.ledger.compilations import ANEW, compilations
from gpuledger.ledger.host import Host
from gpuledger.ledger.lost_work import LEAST_NS, NOTHING_LOST, LostWork, waits_for_unrecorded
from gpuledger.ledger.window import Busy
from gpuledger.messages import say
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, RowsByKey, distinct, group, is_among, is_same, take
from gpuledger.trace.spans import Ints, Spans, covered, cut_at
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

MOST_FIRST_CALLS: Final = 20  # gaps held against the operators around them

LAUNCHES_TO_GET_AHEAD: Final = 8
"""Up to so many launches after a wait, a late launch is the wait's fault: the queue has not filled again."""

MAX_HAND_OVER_WAIT_NS: Final = 1_000_000
"""A thread that hands launches over one by one takes less for each; in a longer wait it does something else."""

_AT: Final = {cause: position for position, cause in enumerate(CAUSES)}
_NEVER_NS: Final = np.iinfo(np.int64).max

_LARGEST_WINS: Final = (
    *(Cause.ALLOC, Cause.OS, Cause.WAIT_THREAD, Cause.PROFILER),
    *(Cause.PAGE_MIGRATION, Cause.UNRECORDED),
)
_WAITS_FOR_PAGES: Final = (Cause.SYNC, Cause.COPY_CALL)
"""A host that waits, or asks for pages, while nothing but a migration comes next, waits for that migration."""

_HOST_BEHIND: Final = (Cause.DISPATCH, Cause.LAUNCH, Cause.CALL, Cause.LAUNCH_LATENCY)


class Gaps(Struct, frozen=True):
    """The gaps of one GPU, in order of time. Columns of equal length; -1 where there is none."""

    start_ns: Ints
    end_ns: Ints
    by_cause: ByCause  # one row per gap
    before: Ints  # position of the activity that ended last before the gap
    after: Ints  # position of the activity that ends the gap
    call: Ints  # position of its launch call among the CUDA calls; before a migration, of the host's next one
    trigger: Positions  # what set each gap off, as a position in TRIGGERS
    drained_by: Positions
    """The blocking call that let the queue run dry, as a position in `draining`; 0, the empty name, where none did."""
    draining: tuple[str, ...]
    drainer: Positions  # that call, as a position among the CUDA calls; one call may leave many gaps behind
    by_tile_ns: NDArray[np.int64]
    """The same time for each tile of the window, which instants that somebody asked for bound; a column per cause."""

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def length_ns(self) -> Ints:
        return self.end_ns - self.start_ns


def gaps(work: Activities, host: Host, split: Busy, cuts: Ints, lost: LostWork = NOTHING_LOST) -> Gaps:
    """The gaps of one GPU with their causes, also by the tiles between the instants `cuts`. In gaps where `lost` work
    may have run, nothing is known of the host either."""
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
    booker = GapBooker(work, host, whole_start, whole_end, before, after, call, is_lost)
    causes = whole = booker.book(whole_start, whole_end, np.arange(len(start)))
    if not (np.array_equal(whole_start, start) and np.array_equal(whole_end, end)):
        causes = booker.book(start, end, np.arange(len(start)))
    if not np.array_equal(causes.total(), end - start):
        raise BooksDoNotBalance(f"causes of {len(start)} gaps on GPU {split.gpu} do not sum to the gaps")
    trigger, drainer = booker.triggers(whole, cuts)
    drained_by, draining = _drainer_names(host.calls, drainer)
    by_tile = _by_tile(booker, start, end, causes, cuts)
    return Gaps(start, end, causes, before, after, call, trigger, drained_by, draining, drainer, by_tile)


def _neighbours(work: Activities, split: Busy) -> tuple[Positions, Positions]:
    """The activity that ended last before each gap, and the one that ends it or would if the window did not. -1 where
    there is none. All that began before a gap have ended by then."""
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


def _by_tile(booker: GapBooker, begin: Ints, finish: Ints, causes: ByCause, cuts: Ints) -> NDArray[np.int64]:
    """The time of gaps by tile and cause. Most gaps lie in one tile; the others are booked again, piece by piece."""
    sums = np.zeros((len(cuts) + 1, len(CAUSES)), np.int64)
    if not len(causes):
        return sums
    tile = sweep.search(cuts, begin, "right")
    first = np.flatnonzero(np.append(True, tile[1:] != tile[:-1]))
    crossing = np.flatnonzero(tile != sweep.search(cuts, finish, "left"))
    start, end, whose = cut_at(begin[crossing], finish[crossing], cuts)
    piece, pieces = sweep.search(cuts, start, "right"), booker.book(start, end, crossing[whose])
    for cause in causes.used:
        column = sums[:, _AT[cause]]
        column[tile[first]] = np.add.reduceat(causes.of(cause), first)
        np.subtract.at(column, tile[crossing], causes.of(cause)[crossing])
    for cause in pieces.used:
        np.add.at(sums[:, _AT[cause]], piece, pieces.of(cause))
    return sums


class GapBooker(Struct, dict=True):
    """Books time to causes. What a gap's time is due to is decided for the whole gap, then booked piece by piece."""

    work: Activities
    host: Host
    start: Ints
    end: Ints
    before: Ints
    after: Ints
    call: Ints
    is_lost: NDArray[np.bool_]

    def __post_init__(self) -> None:
        self.single_cause = np.full(len(self.start), -1, np.intp)
        """The cause of gaps that go to one as a whole; -1 for those in which the host was late."""
        migrates = np.append(self.work.migrates, False)  # the last is for no activity
        self._follows_pages, self._ends_in_pages = migrates[self.before], migrates[self.after]
        has_call = self.call >= 0
        self._assign(self.after < 0, Cause.TAIL)
        self._assign(self.is_lost, Cause.LOST)
        if self._ends_in_pages.any():
            self._decide_migrations()
        early = ~has_call & (self.single_cause < 0) & ~self._ends_in_pages
        if early.any():
            early &= self._launched_before_capture()
        returned = np.zeros(len(has_call), np.int64)
        returned[has_call] = self.host.calls["end_ns"][self.call[has_call]]
        ahead = early | (has_call & (returned <= self.start))
        pid_before = _at_or_none(self.work.pid, self.before)
        other_process = (pid_before >= 0) & (pid_before != _at_or_none(self.work.pid, self.after))
        for mask, cause in (
            ((self.call < 0) & ~early, Cause.UNATTRIBUTED),
            (self._inside_graph(), Cause.GRAPH),
            (ahead & other_process, Cause.CONTEXT_SWITCH),
            (ahead & (self.end - self.start <= LAUNCH_LATENCY_NS), Cause.TURNAROUND),
            (ahead & self._follows_pages, Cause.PAGE_MIGRATION),
            (ahead & self._for_unrecorded, Cause.UNRECORDED),
            (ahead, Cause.DEVICE_WAIT),
        ):
            self._assign(mask, cause)

    def _assign(self, mask: NDArray[np.bool_], cause: Cause) -> None:
        self.single_cause[mask & (self.single_cause < 0)] = _AT[cause]

    def _decide_migrations(self) -> None:
        """Gaps that a migration ends: the pause of a page fault, or of a walk over pages; else whatever the host did.

        No call launches a migration. Its host is taken to be the process's thread that calls CUDA most, and stands
        before its next call.
        """
        length = self.end - self.start
        pause = (length <= FAULT_NS) | (self._follows_pages & (length <= PAGE_WALK_NS))
        self._assign(self._ends_in_pages & pause, Cause.PAGE_MIGRATION)
        calls = self.host.calls
        longer = np.flatnonzero(self._ends_in_pages & (self.single_cause < 0))
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
                self.single_cause[gap[following == len(own)]] = _AT[Cause.HOST_CODE]
                self.call[gap] = own[np.minimum(following, len(own) - 1)]

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

    def book(self, start: Ints, end: Ints, gap: Positions) -> ByCause:
        """Book pieces [start, end) of gaps."""
        books = ByCause(len(start), CAUSES)
        cause = self.single_cause[gap]
        for number in distinct(cause).tolist():
            if number >= 0:
                rows = np.flatnonzero(cause == number)
                books.add(CAUSES[number], rows, end[rows] - start[rows])
        self._host_was_late(books, np.flatnonzero(cause < 0), start, end, gap)
        return books

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
        for number, of_thread in RowsByKey.of(self.host.thread_of_call[call]):
            before = np.clip(launch_start[of_thread], start[of_thread], end[of_thread])
            rows, pages = late[of_thread], self._ends_in_pages[gap[of_thread]]
            for label, amount in self.host.thread(number).split(start[of_thread], before).items():
                if label in _WAITS_FOR_PAGES and pages.any():
                    books.add(Cause.PAGE_MIGRATION, rows[pages], amount[pages])
                    books.add(label, rows[~pages], amount[~pages])
                else:
                    books.add(label, rows, amount)

    def _loads_code(self, gap: Positions) -> NDArray[np.bool_]:
        """Whether L is its kernel's first launch in the process, and far slower than that API's usual call; or slower
        than any launch is, where there are too few to say what is usual."""
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
        length, largest, late = self.end - self.start, causes.largest(), self.single_cause < 0
        behind = 2 * causes.total(*_HOST_BEHIND) > length
        drainer = np.where(self.before >= 0, self._drainer(behind), -1)  # where nothing ran before, nothing ran dry
        is_own_code = 2 * causes.of(Cause.HOST_CODE) > length
        may_be_fed = (largest == _AT[Cause.WAIT_THREAD]) & (length < MAX_HAND_OVER_WAIT_NS)
        is_fed = self._where(np.flatnonzero(may_be_fed), self._is_fed_by_other_thread)
        compiling = self._compiles()
        again = len(distinct(sweep.search(cuts, self.start[compiling]) if len(cuts) else np.flatnonzero(compiling))) > 1
        table: tuple[tuple[Trigger | None, NDArray[np.bool_]], ...] = (  # None: the largest cause
            (QueueTrigger.COLD, self._is_cold(causes, largest, late & (length >= COLD_START_NS), is_own_code)),
            (QueueTrigger.COMPILE if again else QueueTrigger.COLD, compiling),
            (Cause.LOAD, self._loads(causes)),
            (QueueTrigger.BEHIND, is_fed),
            (None, is_among(largest, [_AT[cause] for cause in _LARGEST_WINS])),
            (None, is_own_code),  # a wait may have come first, but this is what took long
            (QueueTrigger.DRAINED, drainer >= 0),
            (QueueTrigger.BEHIND, behind),
        )
        kinds: list[Any] = [largest if trigger is None else TRIGGERS.index(trigger) for trigger, _ in table]
        trigger: Positions = np.select([condition for _, condition in table], kinds, largest)
        return trigger, np.where(trigger == TRIGGERS.index(QueueTrigger.DRAINED), drainer, -1)

    def _is_cold(
        self, causes: ByCause, largest: Positions, is_long: NDArray[np.bool_], is_own_code: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """The GPU's first work, context creation, capturing, a library's set-up, an operator's first call."""
        late = np.flatnonzero(self.single_cause < 0)
        sets_up = 2 * causes.total(Cause.CONTEXT, Cause.LOAD) > self.end - self.start
        cold = (largest == _AT[Cause.CONTEXT]) | (sets_up & (causes.of(Cause.CONTEXT) > 0))
        # where the largest is UNRECORDED the GPU was busy; what a step does before it launches, it does each time
        cold |= is_long & (self.before < 0) & (largest != _AT[Cause.UNRECORDED]) & ~is_own_code
        if not 0 < self.host.launches_per_capture <= ANEW:  # else graphs are captured anew for each launch
            pid = np.where(self.single_cause < 0, _at_or_none(self.work.pid, self.after), -1)
            for process, captures in self.host.captures.items():
                mine = np.flatnonzero(pid == process)
                cold[mine] |= self._are_mostly(captures, mine)
        cold |= self._where(late, lambda number, gap: self._are_mostly(self.host.sets_up_library(number), gap))
        was_queued = is_among(largest, [_AT[Cause.UNRECORDED], _AT[Cause.DEVICE_WAIT]])  # the host was not late
        long = np.flatnonzero(~cold & is_long & ~was_queued)
        long = long[largest_of((self.end - self.start)[long], MOST_FIRST_CALLS)]
        first_calls = self.host.in_first_calls
        is_cold: NDArray[np.bool_] = cold | self._where(
            long, lambda number, gap: first_calls(number, self.start[gap], self.end[gap])
        )
        return is_cold

    def _where(self, gap: Positions, test: Callable[[int, Positions], NDArray[np.bool_]]) -> NDArray[np.bool_]:
        """Which of all gaps are among these, and pass a test of L's thread and its gaps."""
        passed = np.zeros(len(self.start), np.bool_)
        for number, of_thread in RowsByKey.of(self.host.thread_of_call[self.call[gap]]):
            passed[gap[of_thread]] = test(number, gap[of_thread])
        return passed

    def _are_mostly(self, spans: Spans, gap: Positions) -> NDArray[np.bool_]:
        """Which of these gaps the spans hold more than half of."""
        start, end = self.start[gap], self.end[gap]
        mostly: NDArray[np.bool_] = 2 * covered(spans, start, end) > end - start
        return mostly

    def _loads(self, causes: ByCause) -> NDArray[np.bool_]:
        """Gaps in which the host was late and loaded code for the most of them, or did what led to that."""
        loads_ns, length = causes.of(Cause.LOAD), self.end - self.start
        around = causes.total(Cause.LOAD, Cause.HOST_CODE, Cause.WAIT_THREAD, Cause.OS)
        loading = 2 * loads_ns > length

        def leads(number: int, gap: Positions) -> NDArray[np.bool_]:
            led = covered(self.host.leads_to_loads(number), self.start[gap], self.end[gap])
            mostly: NDArray[np.bool_] = 2 * (led + loads_ns[gap]) > length[gap]
            return mostly

        return loading | self._where(np.flatnonzero(~loading & (loads_ns > 0) & (2 * around > length)), leads)

    def _compiles(self) -> NDArray[np.bool_]:
        """Gaps in which the host was late and compiled, or recorded a graph anew, for the most of them."""
        late = self.single_cause < 0
        if not 0 < self.host.launches_per_capture <= ANEW:  # to record a graph takes less than to compile
            late &= self.end - self.start >= COLD_START_NS
        if not late.any():
            return late
        stretches, threads = compilations(self.host, self.work), self.host.threads
        return self._where(
            np.flatnonzero(late), lambda number, gap: self._are_mostly(stretches.of(int(threads[number])), gap)
        )

    def _is_fed_by_other_thread(self, number: int, gap: Positions) -> NDArray[np.bool_]:
        """Whether L's thread, in these gaps that it waited in, is handed a few launches a time by another one, whose
        pace is that of launching, then. A thread that is the process's own is not fed: it waits for results."""
        identity, launched = int(self.host.threads[number]), self.host.launch_times(number)
        first, last = sweep.search(launched, np.array([self.start[gap[0]], self.end[gap[-1]]]))
        is_main = identity >> 32 == identity & 0xFFFF_FFFF
        is_fed = not is_main and len(gap) >= FEW_LAUNCHES and last - first <= LAUNCHES_TO_GET_AHEAD * len(gap)
        return np.full(len(gap), is_fed)

    def _drainer(self, behind: NDArray[np.bool_]) -> Positions:
        """L's thread's last blocking call before L, if it returned at or after the gap's beginning; or if it returned a
        few launches before L: a host that is `behind` then had no chance yet to get ahead."""
        calls, blocking = self.host.calls, self.host.blocking
        drainer = np.full(len(self.start), -1, np.intp)
        by_thread = RowsByKey.of(self.host.thread_of_call[blocking])
        late = np.flatnonzero(self.single_cause < 0)
        for number, of_thread in RowsByKey.of(self.host.thread_of_call[self.call[late]]):
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

"""What a host thread was doing at each instant: calls in, one label per instant out.

The outermost CUDA call wins; between CUDA calls, the profiler's own overhead, then operating-system calls. What is left
is the program's own code: `dispatch` where the stretch between two CUDA calls is short, `host_code` where it is long.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial, reduce
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpuledger.catalog.calls import (
    CALL_KINDS,
    CAPTURE_BEGINS,
    CAPTURE_ENDS,
    WAITS_FOR_THREAD,
    CallKind,
    DeviceOperation,
    call_kind,
    operation_number,
)
from gpuledger.catalog.range_names import LIBRARIES, sounds_like_set_up
from gpuledger.ledger.activity import (
    Activities,
    CallsByKey,
    activities,
    calls_in_layers,
    cuda_calls,
    launches,
    launching_call,
    short_function_name,
)
from gpuledger.ledger.causes import Cause
from gpuledger.ledger.ranges import Nesting, innermost, spans_of_time, thread
from gpuledger.trace import sweep
from gpuledger.trace.keys import KeyPositions, Positions, RowsByKey, distinct, equal, is_among, same, take
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import (
    Ints,
    Span,
    Spans,
    complement,
    covered,
    difference,
    either,
    furthest,
    intersection,
    union,
    union_of,
)
from gpuledger.trace.statistics import median
from gpuledger.trace.sweep import own_calls, side_by_side, split
from gpuledger.trace.tables import Rows, Table

DISPATCH_NS: Final = 100_000
"""Up to here a stretch between two CUDA calls is the framework's path to the next call; beyond, it is host code."""

CONTEXT_NS: Final = 20_000_000
"""Creating a context takes 50 to 500 ms, and what else comes before the first work of a process under a few."""

FAR_LONGER: Final = 20
"""A first call that takes this many times what is usual sets something up: it loads, compiles or tunes."""

_MOST_LONG_CALLS: Final = 100  # a start has a few dozen
_MOST_SET_UPS: Final = 8  # what a library does more often under one name is not to set itself up
_LATER_CALLS: Final = 3  # after so many others of its name, how long one usually takes is known

_WORK: Final = (Table.KERNELS, Table.COPIES, Table.GRAPHS)

_PINS: Final = re.compile(r"Host|Register|Managed", re.IGNORECASE)
"""Calls that pin or page memory on the host, page by page."""

_BUSY_THREADS: Final = 4
"""Most programs call CUDA from no more threads than this; what those did is found out beforehand."""

_NEVER_NS: Final = np.iinfo(np.int64).max

_CALL_CAUSES: Final = tuple(Cause[kind.name] for kind in CALL_KINDS)  # what time in a call of each kind is booked to


_OwnCalls = tuple[Ints, Ints, NDArray[np.int8]]

Figure = TypeVar("Figure")

_OF_LIBRARIES: Final = ("cuLibrary", "cuKernel")
"""How calls begin that load code for the runtime, where it launches, or for whoever compiled it and launches it."""


class HostThread:
    """One thread's time by cause: the kind of its CUDA call, `dispatch`, or what counts only outside calls. Causes are
    disjoint. What lies outside all of them is the program's own code."""

    def __init__(self, find_calls: Callable[[], _OwnCalls], outside: Mapping[Cause, Spans]) -> None:
        self._find_calls: Final = find_calls
        self._outside: Final = outside
        """Spans that no call overlaps."""

    @cached_property
    def calls(self) -> _OwnCalls:
        """What each call owns, and its kind, as a position in `CALL_KINDS`."""
        return self._find_calls()

    @cached_property
    def _dispatch(self) -> Spans:
        """Short stretches between two calls, less what else is known of them."""
        calls = union(*self.calls[:2])
        if not len(calls):
            return calls
        between = complement(calls, Span(int(calls.start_ns[0]), int(calls.end_ns[-1])))
        short = between.end_ns - between.start_ns < DISPATCH_NS
        return _less(Spans(between.start_ns[short], between.end_ns[short]), self._outside.values())

    def own_code(self, spans: Spans) -> Spans:
        """The part of these in which the thread ran the program's own code: no call, no dispatch, nothing known."""
        return _less(spans, (union(*self.calls[:2]), self._dispatch, *self._outside.values()))

    def waits_for_thread(self, spans: Spans) -> Spans:
        """The part of these in which the thread waited for another one, as far as calls of the system say so."""
        return intersection(spans, self._outside[Cause.WAIT_THREAD])

    def split(self, start_ns: Ints, end_ns: Ints) -> dict[Cause, Ints]:
        """For each window, how much of it falls under each cause; the causes sum to the window."""
        plain = not any(map(len, self._outside.values()))
        books = split(self.calls, len(CALL_KINDS), DISPATCH_NS, start_ns, end_ns) if plain else None
        if books is not None:
            amounts = {cause: books[:, column] for column, cause in enumerate((*_CALL_CAUSES, Cause.DISPATCH))}
            known = np.einsum("ij->i", books)  # a row is short, which `sum` takes six times as long for
        else:
            spans = {Cause[kind.name]: union_of(*self.calls, kind.number) for kind in CALL_KINDS}
            spans |= {Cause.DISPATCH: self._dispatch, **self._outside}
            amounts = {cause: covered(held, start_ns, end_ns) for cause, held in spans.items()}
            known = sum(amounts.values(), np.zeros(len(start_ns), np.int64))
        amounts[Cause.HOST_CODE] = np.maximum(end_ns - start_ns, 0) - known
        return amounts


def _less(spans: Spans, others: Iterable[Spans]) -> Spans:
    return reduce(difference, others, spans)


class Host:
    """The host side of a trace: its CUDA calls, what each thread did, and which calls block."""

    def __init__(self, trace: Trace, calls: Rows, kinds: NDArray[np.int8]) -> None:
        self.trace: Final = trace
        self.calls: Final = calls
        """The CUDA calls, runtime and driver."""
        self.kinds: Final = kinds
        """The kind of each call, as `CallKind.number`; a copy call that waits for its copy is `sync`."""
        self.threads, self.thread_of_call = _number_threads(thread(calls))
        """The threads that make CUDA calls, by `thread()`'s number, and for each call the position of its own."""
        self._threads: Final[dict[int, HostThread]] = {}
        self._launch_times: Final[dict[int, Ints]] = {}
        self._kept: Final[dict[Callable[..., Any], Any]] = {}

    def once(self, figure: Callable[..., Figure], *arguments: object) -> Figure:
        """`figure` of these arguments, computed once: every GPU must pass the same ones."""
        if figure not in self._kept:
            self._kept[figure] = figure(*arguments)
        found: Figure = self._kept[figure]
        return found

    def are(self, kind: CallKind) -> NDArray[np.bool_]:
        """Which calls are of this kind."""
        of_kind: NDArray[np.bool_] = self.kinds == kind.number
        return of_kind

    @cached_property
    def recorded_from_ns(self) -> int:
        """When the recording began, as far as it tells."""
        recorded = self.trace.span
        return recorded.start_ns if isinstance(recorded, Span) else int(self.calls["start_ns"].min(initial=_NEVER_NS))

    @cached_property
    def ranges(self) -> Rows:
        """The ranges that calls may lie in; see `range_of_call`."""
        return spans_of_time(self.trace)

    @cached_property
    def nesting(self) -> Nesting | None:
        """Those ranges as a forest; None where some overlap without nesting."""
        return Nesting.of(self.ranges)

    @cached_property
    def range_of_call(self) -> NDArray[np.int32]:
        """For each call the innermost of `ranges` that it lies in, by position; -1 for none. Several questions ask."""
        return innermost(self.ranges, self.calls, nesting=self.nesting).astype(np.int32)

    @cached_property
    def operations(self) -> NDArray[np.int8]:
        """What each call puts on the device, as a number; NO_OPERATION for most."""
        calls = self.calls
        return calls.strings.each(
            calls.codes("name"), lambda name: operation_number(short_function_name(name)), np.int8
        )

    @cached_property
    def capture_edges(self) -> NDArray[np.int8]:
        """1 for calls that begin to capture a stream, -1 for those that end it."""
        calls = self.calls
        return calls.strings.each(
            calls.codes("name"),
            lambda name: bool(CAPTURE_BEGINS.search(name)) - bool(CAPTURE_ENDS.search(name)),
            np.int8,
        )

    @cached_property
    def captures(self) -> Mapping[int, Spans]:
        """When streams of each process were being captured: what is launched then goes into a graph, and runs nothing.
        Another thread may launch into the same graph."""
        calls, edge = self.calls, self.capture_edges
        edges, captures = np.flatnonzero(edge), dict[int, Spans]()
        for process, of_process in RowsByKey.of(calls["pid"][edges]):
            own = edges[of_process]
            own = own[np.argsort(calls["start_ns"][own], kind="stable")]
            depth = np.append(0, np.cumsum(edge[own], dtype=np.int64))
            is_open = depth > min(0, int(depth.min()))  # some may have begun before the recording
            when = np.concatenate((calls["start_ns"][:1], calls["start_ns"][own], calls["end_ns"][-1:]))
            when[0], when[-1] = calls["start_ns"].min(), calls["end_ns"].max()
            captures[process] = union(when[:-1][is_open], when[1:][is_open])
        return captures

    @cached_property
    def launches_per_capture(self) -> float:
        """How often graphs are launched for each time that one is captured; 0 where none is captured."""
        captured = int(np.count_nonzero(self.capture_edges)) / 2
        return float(np.count_nonzero(self.operations == DeviceOperation.GRAPH.number) / captured) if captured else 0.0

    def in_first_calls(self, number: int, start_ns: Ints, end_ns: Ints) -> NDArray[np.bool_]:
        """Which stretches of a thread lie for the most in the first call of an operator, far longer than later ones."""
        ranges = self.trace[Table.RANGES]
        begin, end, names = ranges["start_ns"], ranges["end_ns"], ranges.codes("name")
        unnamed = [ranges.strings.code(kind) for kind in ("mark", "python")]
        own = (thread(ranges) == self.threads[number]) & ~is_among(ranges.codes("kind"), unnamed)
        inside = np.zeros(len(start_ns), np.bool_)
        for stretch, (since, until) in enumerate(zip(start_ns.tolist(), end_ns.tolist(), strict=True)):
            held = np.minimum(end, until) - np.maximum(begin, since)
            for row in np.flatnonzero(own & (2 * held > until - since)).tolist():
                alike = np.flatnonzero(own & (names == names[row]))
                took = (end - begin)[alike]
                is_first = begin[row] == begin[alike].min() and len(alike) > _LATER_CALLS
                inside[stretch] |= is_first and end[row] - begin[row] >= FAR_LONGER * median(took)
        return inside

    @cached_property
    def _library_set_ups(self) -> Rows:
        """Ranges in which a library sets itself up, as `ncclCommInitRank`; what comes often is work."""
        ranges, strings = self.ranges, self.trace.strings
        of_library = strings.each(ranges.codes("domain"), lambda domain: domain.lower() in LIBRARIES, np.bool_)
        own = np.flatnonzero(of_library)
        own = own[strings.each(ranges.codes("name")[own], sounds_like_set_up, np.bool_)]
        _, kind, often = np.unique(ranges.codes("name")[own], return_inverse=True, return_counts=True)
        return ranges.at(own[often[kind] <= _MOST_SET_UPS])

    def sets_up_library(self, number: int) -> Spans:
        """When a thread sets a library up."""
        ranges = self._library_set_ups
        own = np.flatnonzero(thread(ranges) == self.threads[number]) if len(ranges) else np.empty(0, np.intp)
        return union(ranges["start_ns"][own], ranges["end_ns"][own])

    def are_by_driver(self, rows: Positions) -> NDArray[np.bool_]:
        """Which of these calls launch through the driver, as whoever has loaded the code himself does."""
        names = self.calls.codes("name")[rows]
        return self.calls.strings.each(names, lambda name: name.startswith("cuLaunch"), np.bool_)

    def leads_to_loads(self, number: int) -> Spans:
        """The stretches between a thread's calls that end as it loads code, whatever it then calls first.

        What compiles does so outside of CUDA, in its own code or in another thread's that it waits for, and loads the
        result as soon as it is there. Code that comes long before a load has nothing to do with it. Nor has what comes
        before the runtime loads a library that was compiled with the program, as it does on a first launch of its own.
        """
        own = self.calls_of(number)
        start, until = self.calls["start_ns"][own], furthest(self.calls["end_ns"][own])
        strings, names = self.calls.strings, self.calls.codes("name")[own]
        launches = np.flatnonzero(self.kinds[own] == CallKind.LAUNCH.number)
        by_driver = np.append(self.are_by_driver(own[launches]), np.False_)
        following = by_driver[np.searchsorted(launches, np.arange(len(own)))]
        made_now = following | ~strings.each(names, lambda name: name.startswith(_OF_LIBRARIES), np.bool_)
        loads = np.append(start[(self.kinds[own] == CallKind.LOAD.number) & made_now], _NEVER_NS)
        begins, ends = until[:-1], start[1:]
        leads = (ends - begins >= DISPATCH_NS) & (loads[sweep.search(loads, ends)] - ends < DISPATCH_NS)
        return Spans(begins[leads], ends[leads])

    @cached_property
    def blocking(self) -> Ints:
        """Positions of the calls in which the host waits for the device."""
        return np.flatnonzero(self.are(CallKind.SYNC))

    def calls_of(self, number: int) -> Positions:
        """The calls of a thread, in order of time."""
        own = self._rows_of_thread.rows(number)
        ordered: Positions = own[np.argsort(self.calls["start_ns"][own], kind="stable")]
        return ordered

    def launch_times(self, number: int) -> Ints:
        """When each launch call of a thread returned, sorted."""
        if number not in self._launch_times:
            if len(self.threads) <= _BUSY_THREADS:
                own = np.flatnonzero(self.are(CallKind.LAUNCH) & equal(self.thread_of_call, number))
            else:
                own = self._rows_of_thread.rows(number)
                own = own[self.kinds[own] == CallKind.LAUNCH.number]
            self._launch_times[number] = np.sort(self.calls["end_ns"][own], kind="stable")
        return self._launch_times[number]

    def release_order(self) -> None:
        """When launches returned, and where each thread's calls lie: asked while gaps are booked, seldom after that."""
        self._launch_times.clear()
        self.__dict__.pop("_rows_of_thread", None)

    def release_threads(self) -> None:
        """What each thread did."""
        self._threads.clear()

    def precompute_threads(self) -> None:
        """Find out what the busiest threads did, and when their launches returned: booking gaps asks for both."""
        busiest: Iterable[int] = range(len(self.threads))
        if len(self.threads) > _BUSY_THREADS:
            counts = np.bincount(self.thread_of_call, minlength=len(self.threads))
            busiest = np.argsort(-counts, kind="stable")[:_BUSY_THREADS].tolist()
        for number in busiest:
            _ = self.thread(number).calls, self.launch_times(number)

    def thread(self, number: int) -> HostThread:
        """One thread, by its position in `threads`."""
        if number not in self._threads:
            outside, identity = dict[Cause, Spans](), int(self.threads[number])
            for cause, rows, by_thread in self._outside:
                own = by_thread.rows(identity)
                outside[cause] = union(rows["start_ns"][own], rows["end_ns"][own])
            # a pass over all calls for each of many threads would be too many
            mine = None if len(self.threads) <= _BUSY_THREADS else self._rows_of_thread.rows(number)
            held = HostThread(partial(_own_calls, self.calls, self.kinds, self.thread_of_call, number, mine), outside)
            if any(map(len, outside.values())):
                taken = union(*held.calls[:2])
                for cause, spans in outside.items():
                    outside[cause], taken = difference(spans, taken), either(taken, spans)
            self._threads[number] = held
        return self._threads[number]

    @cached_property
    def _rows_of_thread(self) -> RowsByKey:
        return RowsByKey.of(self.thread_of_call)

    @cached_property
    def _outside(self) -> tuple[tuple[Cause, Rows, RowsByKey], ...]:
        """What counts only outside CUDA calls, first the most important, and where the rows of each thread lie."""
        system = calls_in_layers(self.trace, "os")
        waits = system.strings.each(system.codes("name"), lambda name: bool(WAITS_FOR_THREAD.search(name)), np.bool_)
        chosen = (
            (Cause.PROFILER, self.trace[Table.OVERHEADS]),
            (Cause.WAIT_THREAD, system.where(waits)),
            (Cause.OS, system.where(~waits)),
        )
        return tuple((cause, rows, RowsByKey.of(thread(rows))) for cause, rows in chosen)


def _own_calls(
    calls: Rows, kinds: NDArray[np.int8], owner: NDArray[np.int32], number: int, rows: Positions | None
) -> _OwnCalls:
    """What each call of one thread owns; its calls are these rows, or to be looked for among all."""
    if rows is None:
        return own_calls(calls["start_ns"], calls["end_ns"], kinds, owner, number)
    start, end = calls["start_ns"][rows], calls["end_ns"][rows]
    return own_calls(start, end, take(kinds, rows), take(owner, rows), number)


def host_and_activities(trace: Trace, families: tuple[tuple[str, str], ...] = ()) -> tuple[Host, Activities]:
    """Both sides of a trace, and which call launched what; `families` are the user's own (family, pattern)."""
    (host, places), work = side_by_side(
        sum(map(len, trace.tables.values())), lambda: _host(trace), lambda: activities(trace, families)
    )
    launch = launching_call(work.pid, work.gathered("correlation"), host.calls, places)
    return host, work.launched_by(launch.astype(np.int32))


def _host(trace: Trace) -> tuple[Host, KeyPositions | None]:
    """The host, and where each of its calls lies by its id."""
    calls = cuda_calls(trace)
    places = KeyPositions.of(calls["pid"], calls.stored("correlation"))
    return Host(trace, calls, _kinds(trace, calls, places)), places


def _kinds(trace: Trace, calls: Rows, places: KeyPositions | None) -> NDArray[np.int8]:
    """The kind of each call, by its name; by time where a copy call returns at or after the end of its copy. A pageable
    asynchronous copy waits too, and its name does not say so."""
    kinds = calls.strings.each(calls.codes("name"), lambda name: call_kind(short_function_name(name)).number, np.int8)
    copies = trace[Table.COPIES]
    if places is not None:
        copy, call = launches(copies, calls, places)
        outlasting = call[calls["end_ns"][call] >= copies["end_ns"][copy]]
    else:
        keys = CallsByKey.of(calls)
        over_ns = sweep.fold("least", keys.launched(copies), copies["end_ns"], np.full(len(keys.first), _NEVER_NS))
        outlasting = np.flatnonzero(calls["end_ns"] >= over_ns[keys.number])
    # a graph launch may hold a copy that ends before the launch returns: it still does not wait
    waiting = outlasting[kinds[outlasting] == CallKind.COPY_CALL.number]
    creating = _context_creators(trace, calls, kinds)
    if len(waiting) or creating:
        kinds = kinds.copy()  # all calls may share one kind
        kinds[waiting] = CallKind.SYNC.number
        kinds[creating] = CallKind.CONTEXT.number
    return kinds


def _context_creators(trace: Trace, calls: Rows, kinds: NDArray[np.int8]) -> list[int]:
    """Of each process the first long call, if nothing ran before it: whatever it is for, it creates the context.

    `cudaFree(0)` and the first `cudaMalloc` are the usual ones. And later ones that take as long, far longer than such
    calls do and than the device works meanwhile: a library sets itself up in them, unless the function's other calls
    take longer together: then it is what it does anyway. Pinned memory takes long by itself, and is left out. A first
    copy that begins late in its call had nothing to wait for: it sets up, too.
    """
    may_create = (CallKind.ALLOC.number, CallKind.CALL.number)
    long = np.flatnonzero(calls.duration_ns >= CONTEXT_NS)
    long = long[np.argsort(calls["start_ns"][long], kind="stable")]
    first = {int(calls["pid"][row]): row for row in reversed(long.tolist())}
    long = long[is_among(kinds[long], (*may_create, CallKind.COPY_CALL.number))]
    if not len(long):
        return []
    usual = calls.duration_ns[is_among(kinds, may_create)]
    creating, usual_ns = [], median(usual) if len(usual) else 0
    for row in long[:_MOST_LONG_CALLS].tolist():
        name, pid = int(calls.codes("name")[row]), int(calls["pid"][row])
        start_ns, end_ns = int(calls["start_ns"][row]), int(calls["end_ns"][row])
        if _PINS.search(calls.strings.text(name) or ""):
            continue
        work = [rows.where(rows["pid"] == pid) for rows in map(trace.__getitem__, _WORK)]
        begun_ns = min(int(rows["start_ns"].min(initial=_NEVER_NS)) for rows in work)
        if kinds[row] == CallKind.COPY_CALL.number:
            if begun_ns - start_ns >= max(CONTEXT_NS, (end_ns - start_ns) // 2):
                creating.append(row)
            continue
        if first[pid] == row and start_ns < begun_ns:
            creating.append(row)
            continue
        ran_ns = sum(
            int(np.maximum(np.minimum(rows["end_ns"], end_ns) - np.maximum(rows["start_ns"], start_ns), 0).sum())
            for rows in work
        )
        alike_ns = calls.duration_ns[calls.codes("name") == name]
        is_most = 2 * alike_ns[alike_ns >= CONTEXT_NS].sum() > alike_ns.sum()
        if is_most and end_ns - start_ns >= FAR_LONGER * max(usual_ns, ran_ns):
            creating.append(row)
    return creating


def _number_threads(threads: Ints) -> tuple[Ints, NDArray[np.int32]]:
    """The different threads, and for each row the position of its own among them."""
    different = distinct(threads)
    if len(different) == 1:
        return different, same(0, len(threads), np.int32)
    if len(different) > _BUSY_THREADS:
        return different, sweep.search(different, threads).astype(np.int32)
    number = np.zeros(len(threads), np.int32)
    for thread_id in different[1:].tolist():
        number += threads >= thread_id
    return different, number

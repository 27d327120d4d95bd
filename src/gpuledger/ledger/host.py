"""What a host thread was doing at each instant: calls in, one label per instant out.

The outermost CUDA call wins; between CUDA calls, the profiler's own overhead, then operating-system calls. What is left
is the program's own code: `dispatch` where the stretch between two CUDA calls is short, `host_code` where it is long.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.ledger.activity import Activities
from gpuledger.ledger.calls import cuda_calls, of_layers, shortened
from gpuledger.ledger.launches import launches, launching_call, places_of
from gpuledger.ledger.ranges import thread
from gpuledger.trace import sweep
from gpuledger.trace.columns import distinct, same
from gpuledger.trace.keys import Places, Positions
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import (
    Ints,
    Span,
    Spans,
    complement,
    covered,
    difference,
    either,
    union,
    union_of,
)
from gpuledger.trace.sweep import own_calls, split
from gpuledger.trace.tables import Rows, Table

DISPATCH_NS: Final = 100_000
"""Up to here a stretch between two CUDA calls is the framework's path to the next call; beyond, it is host code."""

CALL_KINDS: Final = (
    ("sync", r"(Device|Stream|Event|Ctx|Context)Synchronize"),
    ("launch", r"Launch(?!HostFunc)"),
    (
        "alloc",
        r"(Malloc|MemAlloc|MemFree|MemPool|HostAlloc|HostRegister|HostUnregister|FreeHost|FreeAsync|MemCreate|MemMap)|^cudaFree",
    ),
    ("copy_call", r"Mem(cpy|set)"),
    (
        "load",
        r"Module|Library|Link(Create|Add|Complete)|GraphInstantiate|GraphExecUpdate|SetAttribute|FuncGetAttributes",
    ),
)
"""What kind a CUDA call is, by its name, first match wins; whatever matches nothing is a plain `call`."""

KIND_NAMES: Final = (*(kind for kind, _ in CALL_KINDS), "call")

WAITS_FOR_THREAD: Final = re.compile(
    r"cond_(timed)?wait|sem_(timed)?wait|^poll|^ppoll|epoll|^select|futex|join|mutex_lock"
)
"""Operating-system calls in which a thread waits for another one."""

_BUSY_THREADS: Final = 4
"""Most programs call CUDA from no more threads than this; what those did is found out beforehand."""

_PATTERNS = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in CALL_KINDS)


def call_kind(function: str) -> str:
    """What kind of CUDA call a function is."""
    return next((kind for kind, pattern in _PATTERNS if pattern.search(function)), "call")


class HostThread:
    """One thread's time by label: a kind of CUDA call, `dispatch`, or what counts only outside calls.

    Labels are disjoint. What lies outside all of them is `host_code`.
    """

    def __init__(self, calls: tuple[Ints, Ints, NDArray[np.int8]], outside: Mapping[str, Spans]) -> None:
        self._calls: Final = calls
        """What each call owns, and its kind, as a position in `KIND_NAMES`."""
        self._outside: Final = outside
        """Spans that no call overlaps."""

    def spans(self, label: str) -> Spans:
        """When the thread was under one label."""
        if label in self._outside:
            return self._outside[label]
        return self._dispatch if label == "dispatch" else union_of(*self._calls, KIND_NAMES.index(label))

    @cached_property
    def _dispatch(self) -> Spans:
        """Short stretches between two calls, less what else is known of them."""
        calls = union(*self._calls[:2])
        if not len(calls):
            return calls
        between = complement(calls, Span(int(calls.start_ns[0]), int(calls.end_ns[-1])))
        short = between.end_ns - between.start_ns < DISPATCH_NS
        left = Spans(between.start_ns[short], between.end_ns[short])
        for spans in self._outside.values():
            left = difference(left, spans)
        return left

    def split(self, start_ns: Ints, end_ns: Ints) -> dict[str, Ints]:
        """For each window, how much of it falls under each label; the labels sum to the window."""
        labels = (*KIND_NAMES, "dispatch")
        plain = not any(map(len, self._outside.values()))
        books = split(self._calls, len(KIND_NAMES), DISPATCH_NS, start_ns, end_ns) if plain else None
        if books is not None:
            amounts = {label: books[:, at] for at, label in enumerate(labels)}
        else:
            amounts = {label: covered(self.spans(label), start_ns, end_ns) for label in (*labels, *self._outside)}
        known = sum(amounts.values(), np.zeros(len(start_ns), np.int64))
        amounts["host_code"] = np.maximum(end_ns - start_ns, 0) - known
        return amounts


class Host:
    """The host side of a trace: threads on demand, and which calls block."""

    kind_names: Final = KIND_NAMES

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.calls: Final = cuda_calls(trace)
        self.threads, self.thread_of_call = _numbered(thread(self.calls))
        """The threads that make CUDA calls, by `thread()`'s number, and for each call the position of its own."""
        self._threads: dict[int, HostThread] = {}
        self._launch_times: dict[int, Ints] = {}
        self._launching: dict[int, tuple[Activities, Positions]] = {}

    def prepare(self) -> None:
        """Find out beforehand what will be asked for: the kinds of calls, and what the threads that call most did."""
        counts = np.bincount(self.thread_of_call, minlength=len(self.threads))
        for number in np.argsort(-counts, kind="stable")[:_BUSY_THREADS].tolist():
            self.thread(number)
            self.launch_times(number)

    def launching(self, found: Activities) -> Positions:
        """The call that launched each activity, as a position in `calls`; -1 for none. Looked up once."""
        if id(found) not in self._launching:
            call = launching_call(found.pid, found.gathered("correlation"), self.calls, self._places)
            self._launching[id(found)] = (found, call)  # held, so that no other gets its id
            self.__dict__.pop("_places", None)  # as large as a column, and hardly asked for again
        return self._launching[id(found)][1]

    @cached_property
    def _places(self) -> Places | None:
        """Where each call lies by its id."""
        return places_of(self.calls)

    @cached_property
    def kinds(self) -> NDArray[np.int8]:
        """The kind of each CUDA call, as a position in `kind_names`; a copy call that waits for its copy is `sync`."""
        kinds = self.calls.strings.each(
            self.calls.codes("name"), lambda name: KIND_NAMES.index(call_kind(shortened(name))), np.int8
        )
        # a graph launch may hold a copy that ends before the launch returns: it still does not wait
        waiting = self._blocking_copies[kinds[self._blocking_copies] == KIND_NAMES.index("copy_call")]
        if len(waiting):
            kinds = kinds.copy()  # all calls may share one kind
            kinds[waiting] = KIND_NAMES.index("sync")
        return kinds

    @cached_property
    def _blocking_copies(self) -> Ints:
        """Copy calls that return at or after the end of their copy: by time, as a pageable async copy blocks too."""
        copies = self._trace[Table.COPIES]
        copy, call = launches(copies, self.calls, self._places)
        return call[self.calls["end_ns"][call] >= copies["end_ns"][copy]]

    @cached_property
    def blocking(self) -> Ints:
        """Positions of the calls in which the host waits for the device."""
        return np.flatnonzero(self.kinds == KIND_NAMES.index("sync"))

    def launch_times(self, number: int) -> Ints:
        """When each launch call of a thread returned, sorted."""
        if number not in self._launch_times:
            mine = (self.thread_of_call == number) & (self.kinds == KIND_NAMES.index("launch"))
            times = self.calls["end_ns"][mine]
            times.sort(kind="stable")
            self._launch_times[number] = times
        return self._launch_times[number]

    def waits(self, number: int) -> tuple[Ints, Ints]:
        """What a thread does in order to wait: from its last launch before a blocking call to that call's return."""
        waiting = self.blocking[self.thread_of_call[self.blocking] == number]
        launched = self.launch_times(number)
        end = np.sort(self.calls["end_ns"][waiting])
        start = self.calls["start_ns"][waiting[np.argsort(self.calls["end_ns"][waiting], kind="stable")]]
        at = np.searchsorted(launched, start, side="right") - 1
        began = np.where(at >= 0, launched[np.maximum(at, 0)], start) if len(launched) else start
        return np.maximum(began, np.append(start[:1], end[:-1])), end

    def thread(self, number: int) -> HostThread:
        """One thread, by its position in `threads`."""
        if number not in self._threads:
            self._threads[number] = self._timeline(number)
        return self._threads[number]

    def _timeline(self, number: int) -> HostThread:
        calls = own_calls(self.calls["start_ns"], self.calls["end_ns"], self.kinds, self.thread_of_call, number)
        outside = dict(self._outside_calls(number))
        if any(map(len, outside.values())):
            taken = union(*calls[:2])
            for label, spans in outside.items():
                outside[label], taken = difference(spans, taken), either(taken, spans)
        return HostThread(calls, outside)

    def _outside_calls(self, number: int) -> list[tuple[str, Spans]]:
        """What counts only outside CUDA calls, first the most important."""
        overheads = _of_thread(self._trace[Table.OVERHEADS], int(self.threads[number]))
        system = _of_thread(of_layers(self._trace, "os"), int(self.threads[number]))
        waiting = np.array([bool(WAITS_FOR_THREAD.search(name or "")) for name in system.texts("name")], np.bool_)
        return [
            ("profiler", union(overheads["start_ns"], overheads["end_ns"])),
            ("wait_thread", union(system["start_ns"][waiting], system["end_ns"][waiting])),
            ("os", union(system["start_ns"][~waiting], system["end_ns"][~waiting])),
        ]


def _numbered(threads: Ints) -> tuple[Ints, NDArray[np.int32]]:
    """The different threads, and for each row the position of its own among them."""
    found = distinct(threads)
    if len(found) == 1:
        return found, same(0, len(threads), np.int32)
    if len(found) > _BUSY_THREADS:
        return found, sweep.search(found, threads).astype(np.int32)
    number = np.zeros(len(threads), np.int32)
    for each in found[1:].tolist():
        number += threads >= each
    return found, number


def _of_thread(rows: Rows, number: int) -> Rows:
    return rows.where(thread(rows) == number)

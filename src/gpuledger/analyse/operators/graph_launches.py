"""What a trace launched, in order: work that ran by itself, graphs as sequences of nodes, and captures.

A symbol is equal for equal work: a kernel by its name and shape, a copy by its kind and bytes. Symbols of two files can
be compared, if both were made together. Names are compared as they stand where one tool wrote both files, else in
the form that profilers agree on; shapes only where all graph kernels have one, as ROCm's have none. `Runs` finds the
stretches of such sequences that also occur in a long one.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import compress
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple
from numpy.typing import NDArray

from gpuledger.catalog.calls import CallKind
from gpuledger.catalog.kernel_names import parse
from gpuledger.ledger.activity import Activities, launching_call
from gpuledger.ledger.host import Host, host_and_activities
from gpuledger.trace.keys import Positions, distinct, group
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints
from gpuledger.trace.strings import NO_TEXT, Codes
from gpuledger.trace.tables import Rows, Table

Flags = NDArray[np.bool_]
_LAUNCH, _BEGIN, _END = (re.compile(name) for name in ("GraphLaunch", "StreamBeginCapture", "StreamEndCapture"))


class LaunchedRows(Struct, frozen=True):
    """Kernels, then copies and memsets, that took time."""

    row: Positions  # in the kernels, or behind them in the copies
    start_ns: Ints
    end_ns: Ints
    gpu: Ints
    stream: Ints
    symbol: Positions
    is_copy: Flags
    call: Positions
    launch: Positions  # a number for each triple of process, correlation and GPU
    in_graph: Flags

    def __len__(self) -> int:
        return len(self.row)

    def at(self, rows: Positions) -> LaunchedRows:
        return LaunchedRows(*(column[rows] for column in astuple(self)))


class GraphSequences(Struct, frozen=True):
    """Graph launches in order, and the distinct sequences of nodes that they run."""

    ordered: LaunchedRows  # the nodes, launch by launch, stream by stream, in order of execution
    distinct: list[LaunchedRows]
    which: list[int]  # for each stream of each launch the position of its sequence in `distinct`


class LaunchSide:
    """One trace, seen as what it launched."""

    def __init__(self, trace: Trace, host: Host, work: Activities) -> None:
        self.trace, self.host, self.calls = trace, host, host.calls
        self._launching = work.launch

    @classmethod
    def of(cls, trace: Trace) -> LaunchSide:
        return cls(trace, *host_and_activities(trace))

    @cached_property
    def _took_time(self) -> tuple[Rows, Rows, Positions]:
        """The kernels and copies that took time, and which rows they are."""
        kernels, copies = (self.trace[table] for table in (Table.KERNELS, Table.COPIES))
        real = kernels.duration_ns > 0, copies.duration_ns > 0
        rows = np.concatenate((np.flatnonzero(real[0]), len(kernels) + np.flatnonzero(real[1])))
        return kernels.where(real[0]), copies.where(real[1]), rows

    def column(self, name: str) -> Ints:
        kernels, copies, _ = self._took_time
        return np.concatenate((kernels[name], copies[name]))

    @cached_property
    def call(self) -> Positions:
        return launching_call(self.column("pid"), self.column("correlation"), self.calls)

    @cached_property
    def in_graph(self) -> Flags:
        by_graph = np.append(_matching(self.calls, _LAUNCH), [False])[self.call]
        inside: Flags = by_graph | (self.column("graph_node") > 0)
        return inside

    @property
    def may_have_graphs(self) -> bool:
        """Whether a graph was launched or any work is a graph's node; without that, nothing is in a graph."""
        nodes = (self.trace[table]["graph_node"] for table in (Table.KERNELS, Table.COPIES))
        return bool(_matching(self.calls, _LAUNCH).any()) or any(bool((node > 0).any()) for node in nodes)

    @property
    def has_shapes(self) -> bool:
        kernels, _, _ = self._took_time
        return bool((kernels["grid"][self.in_graph[: len(kernels)], 0] > 0).all())

    def keys(self, numbers: dict[str, int], *, spelled: bool, shaped: bool) -> tuple[Ints, ...]:
        """What tells work apart: names by `numbers`, as they are `spelled` or in canonical form; and its shape."""
        kernels, copies, _ = self._took_time
        shapes = np.concatenate((kernels["grid"], kernels["block"]), axis=1) * shaped
        sizes = np.zeros((len(copies), shapes.shape[1]), np.int64)
        sizes[:, 0] = copies["bytes"]
        names = _name_numbers(kernels.codes("name"), self.trace, numbers, spelled=spelled)
        kinds = copies.strings.each(copies.codes("kind"), lambda kind: numbers.setdefault(f"copy {kind}", len(numbers)))
        return np.concatenate((names, kinds)), *np.concatenate((shapes, sizes)).T

    def rows(self, symbol: Positions) -> LaunchedRows:
        kernels, copies, row = self._took_time
        start, end, gpu, stream = (self.column(name) for name in ("start_ns", "end_ns", "gpu", "stream"))
        is_copy = np.repeat((False, True), (len(kernels), len(copies)))
        launch = group(self.column("pid"), self.column("correlation"), gpu)[1]
        return LaunchedRows(row, start, end, gpu, stream, symbol, is_copy, self.call, launch, self.in_graph)

    def captures(self) -> Iterator[Positions]:
        """For each capture the calls that put work into the graph, in order: those in it that ran nothing."""
        calls, start = self.calls, self.calls["start_ns"]
        makes = self.host.are(CallKind.LAUNCH) | self.host.are(CallKind.COPY_CALL)
        makes[self._launching[self._launching >= 0]] = False
        makes &= ~_matching(calls, _LAUNCH)
        candidates, begins, ends = (
            chosen[np.argsort(start[chosen], kind="stable")]
            for chosen in map(np.flatnonzero, (makes, _matching(calls, _BEGIN), _matching(calls, _END)))
        )
        for begin in begins.tolist():
            later = ends[(start[ends] > start[begin]) & (calls["pid"][ends] == calls["pid"][begin])]
            if len(later):
                inside = candidates[slice(*np.searchsorted(start[candidates], (start[begin], start[later[0]])))]
                yield inside[calls["pid"][inside] == calls["pid"][begin]]


def _name_numbers(codes: Codes, trace: Trace, numbers: dict[str, int], *, spelled: bool) -> Ints:
    """A number for each name; equal names have equal ones, whichever trace they are of."""

    def number(name: str) -> int:
        return numbers.setdefault(name if spelled else parse(name).bare, len(numbers))

    return trace.strings.each(codes, number)


def _matching(calls: Rows, pattern: re.Pattern[str]) -> Flags:
    return calls.strings.each(calls.codes("name"), lambda name: bool(pattern.search(name)), np.bool_)


def _graph_sequences(work: LaunchedRows) -> GraphSequences:
    mine = np.flatnonzero(work.in_graph)
    ordered = work.at(mine[np.lexsort((work.start_ns[mine], work.stream[mine], work.launch[mine]))])
    cuts = np.flatnonzero((np.diff(ordered.launch) != 0) | (np.diff(ordered.stream) != 0)) + 1
    known: dict[bytes, int] = {}
    distinct: list[LaunchedRows] = []
    which = []
    for rows in np.split(np.arange(len(ordered)), cuts) if len(ordered) else []:
        key = ordered.symbol[rows].tobytes()
        if key not in known:
            known[key] = len(distinct)
            distinct.append(ordered.at(rows))
        which.append(known[key])
    return GraphSequences(ordered, distinct, which)


class ComparedSides(Struct, frozen=True):
    """The graphs of one trace and the launches of another, or of the same, with symbols that can be compared."""

    graphs: GraphSequences
    call: Positions  # launches whose work is known, in order: what ran by itself, then what was only captured
    symbol: Positions  # of what each launched
    ran: int  # how many of them ran by themselves
    captures: list[Positions]  # the captures whose calls do not say what they launch


def compare_sides(target: LaunchSide, source: LaunchSide) -> ComparedSides:
    """The graphs of `target` and the launches of `source`."""
    numbers: dict[str, int] = {}
    spelled = target.trace.origin.tool == source.trace.origin.tool
    shaped = target.has_shapes
    captures, calls = list(source.captures()), source.calls
    kernel = calls.codes("kernel") if "kernel" in calls else np.full(len(calls), NO_TEXT)  # a report reads none
    is_named = [not shaped and len(calls) > 0 and bool((kernel[calls] != NO_TEXT).all()) for calls in captures]
    captured = np.concatenate((np.empty(0, np.intp), *compress(captures, is_named)))
    of_target, of_source = (side.keys(numbers, spelled=spelled, shaped=shaped) for side in (target, source))
    of_calls = _name_numbers(kernel[captured], source.trace, numbers, spelled=spelled)
    nothing = np.zeros(len(captured), np.int64)
    keys = [
        np.concatenate((one, other, of_calls if place == 0 else nothing))
        for place, (one, other) in enumerate(zip(of_target, of_source, strict=True))
    ]
    symbol = group(*keys)[1]
    ours, theirs, of_captured = np.split(symbol, np.cumsum((len(of_target[0]), len(of_source[0]))))
    work = source.rows(theirs)
    ran = np.flatnonzero(~work.in_graph & (work.call >= 0))
    process, start = (source.calls[column][work.call[ran]] for column in ("pid", "start_ns"))
    streams = distinct(target.column("stream")[target.in_graph])
    stream = work.stream[ran] * (len(streams) > 1)  # of one, in the order of calls
    ran = ran[np.lexsort((work.start_ns[ran], start, stream, work.gpu[ran], process))]
    return ComparedSides(
        _graph_sequences(target.rows(ours)),
        np.concatenate((work.call[ran], captured)),
        np.concatenate((work.symbol[ran], of_captured)),
        len(ran),
        [calls for calls, named in zip(captures, is_named, strict=True) if not named],
    )


MOST_TRIED: Final = 32  # equal runs on either side compared for what they agree on
_MOST_PLACES: Final = 10_000  # what occurs more often says nothing of where one is
_MOST_COMPARED: Final = 1_000_000_000  # pairs of a place and a sequence compared


class Run(Struct, frozen=True):
    """A stretch of a sequence that also occurs in the eager work, as long as it gets."""

    start: int
    length: int
    equal: Positions  # where it begins in the eager work: each place, up to a limit


class Runs:
    """For each of some sequences, its longest runs that also occur in `eager`. Ranks of all stretches of 1, 2, 4, ...
    symbols sort the places by what follows them, so that the best partner of a place is a neighbour."""

    def __init__(self, eager: Positions, sequences: Sequence[Positions]) -> None:
        self._count = len(eager)
        self._lengths = [len(sequence) for sequence in sequences]
        # where each sequence begins among all symbols, a separator after each
        self._begins = np.cumsum([self._count + 1, *(length + 1 for length in self._lengths)])[:-1].tolist()
        parts = [
            part for number, symbols in enumerate((eager, *sequences)) for part in (symbols, np.array([-1 - number]))
        ]
        rank = np.unique(np.concatenate(parts), return_inverse=True)[1]  # no two separators are equal
        self._ranks = [rank]
        reach = 1
        while reach < max(self._lengths, default=0):
            following = np.append(rank[reach:], np.full(min(reach, len(rank)), -1)) + 1
            rank = np.unique(rank * (len(rank) + 1) + following, return_inverse=True)[1]
            self._ranks.append(rank)
            reach *= 2
        self._sorted = np.argsort(rank[: self._count], kind="stable")

    def __iter__(self) -> Iterator[list[Run]]:
        for begin, length in zip(self._begins, self._lengths, strict=True):
            yield list(self._longest_runs(np.arange(begin, begin + length)))

    def occurrences(self) -> Iterator[Positions]:
        """For each sequence every place where the whole of it occurs in `eager`, in order; none if there are many."""
        is_much = len(self._lengths) * self._count > _MOST_COMPARED
        for begin, length in zip(self._begins, self._lengths, strict=True):
            if is_much:
                yield np.empty(0, np.intp)
                continue
            level = length.bit_length() - 1
            rank, last = self._ranks[level], length - (1 << level)
            possible = max(self._count - length + 1, 0)
            equal = rank[:possible] == rank[begin]
            places = np.flatnonzero(equal & (rank[last : last + possible] == rank[begin + last]))
            yield places if len(places) <= _MOST_PLACES else places[:0]

    def _longest_runs(self, places: Positions) -> Iterator[Run]:
        if not self._count:
            return
        ranks = self._ranks[-1]
        after = np.searchsorted(ranks[self._sorted], ranks[places])
        neighbours = [self._sorted[np.clip(rank, 0, self._count - 1)] for rank in (after - 1, after)]
        longest = np.maximum(*(self._common(places, neighbour) for neighbour in neighbours))
        for start in np.flatnonzero((longest > 0) & (np.append(0, longest[:-1]) <= longest)).tolist():
            tried = self._sorted[max(int(after[start]) - MOST_TRIED, 0) : int(after[start]) + MOST_TRIED]
            equal = tried[self._common(np.full(len(tried), places[start]), tried) >= longest[start]]
            yield Run(start, int(longest[start]), equal)

    def _common(self, left: Positions, right: Positions) -> Positions:
        """How many symbols are equal from each two places on."""
        length = np.zeros(len(left), np.intp)
        for level in range(len(self._ranks) - 1, -1, -1):
            rank = self._ranks[level]
            equal = rank[left + length] == rank[right + length]
            length[equal] += 1 << level
        return length


def in_order(
    which: Sequence[int],
    occurrences: Sequence[Positions],
    lengths: Sequence[int],
    is_again: Callable[[int, list[int]], bool],
) -> list[int]:
    """For sequences that follow each other, which of its occurrences each is; -1 where that is ambiguous.

    Layers of a model are often equal, and each of them a graph of its own: what comes before and after tells them
    apart. Sequences that occur once are known; those between are known where counting on from the one before and
    counting back from the one after say the same. Where all occur several times, as in two warm-ups, one round counts:
    `is_again` says of a sequence whether it means the same at all these places.
    """
    rounds = _one_round([places.tolist() for places in occurrences], is_again)
    mirrored = [[-place - length for place in reversed(own)] for own, length in zip(rounds, lengths, strict=True)]
    forward, backward = _counted_on(which, rounds, lengths), _counted_on(which[::-1], mirrored, lengths)[::-1]
    return [
        place if place is not None and back is not None and back == -place - lengths[number] else -1
        for number, place, back in zip(which, forward, backward, strict=True)
    ]


def _counted_on(which: Sequence[int], places: Sequence[list[int]], lengths: Sequence[int]) -> list[int | None]:
    """For each the only place it has, or the first one at or after the end of the one before it."""
    chosen: list[int | None] = []
    end: int | None = None
    for number in which:
        own = places[number]
        here = own[0] if len(own) == 1 else None
        if len(own) > 1 and end is not None:
            following = bisect_left(own, end)
            here = own[following] if following < len(own) else None
        if own:
            end = None if here is None else here + lengths[number]
        chosen.append(here)
    return chosen


def _one_round(places: list[list[int]], is_again: Callable[[int, list[int]], bool]) -> list[list[int]]:
    """The places from one to the next of what occurs the least often, where that is the same thing again."""
    least = min((len(own) for own in places if own), default=0)
    if least < 2:
        return places
    rarest = next((number for number, own in enumerate(places) if len(own) == least and is_again(number, own)), None)
    if rarest is None:
        return places
    first, last = places[rarest][:2]
    in_round = [[place for place in own if first <= place < last] for own in places]
    return [inside or own for inside, own in zip(in_round, places, strict=True)]

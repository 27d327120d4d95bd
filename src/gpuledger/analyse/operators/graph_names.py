"""Names for the work inside CUDA graphs: where it comes from in the program, as far as the profile can tell.

A graph's kernels carry no operator: they were launched long ago. Two things may tell. Where the same kernels also ran
without a graph, as in a warm-up, a graph's work takes the annotations and operators of the equal run: same kernels and
grids in the same order. Where the capture itself was recorded, its launch calls are the graph's nodes in order, if
there are as many. Where several runs or captures fit and differ, only what they agree on is a name, counted from the
innermost; where nothing fits there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.operators.operators import ANNOTATION, OPERATOR, Flags, Paths, nest
from gpuledger.catalog.call_kinds import CallKind
from gpuledger.ledger.device import Device
from gpuledger.ledger.launches import launching_call
from gpuledger.ledger.ranges import innermost
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import Rows, Table

SHORTEST_RUN: Final = 4
"""Fewer kernels in a row say too little, unless they are the whole graph."""

MOST_TRIED: Final = 32
"""So many equal runs on either side are compared for what they agree on."""

EAGER, CAPTURE = "equal run", "capture"
_LAUNCH, _BEGIN, _END = (re.compile(name) for name in ("GraphLaunch", "StreamBeginCapture", "StreamEndCapture"))
Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GraphWork:
    """What one place in the program does inside graphs."""

    path: Names | None
    """Annotations, then operators, the outermost first; None: not known."""
    source: str | None
    """How it is known: EAGER or CAPTURE."""
    count: int
    device_ns: int


@dataclass(frozen=True, slots=True)
class GraphNames:
    """The work of the graphs launched in the steady stretch of one GPU."""

    launches: int
    work: tuple[GraphWork, ...]
    """By GPU time, the longest first."""

    @property
    def device_ns(self) -> int:
        return sum(work.device_ns for work in self.work)

    @property
    def named_ns(self) -> int:
        return sum(work.device_ns for work in self.work if work.path is not None)

    @property
    def named_share(self) -> float | None:
        """Coverage: the share of the graphs' GPU time that has a name."""
        return self.named_ns / self.device_ns if self.device_ns else None


@dataclass(frozen=True, slots=True)
class _Work:
    """Kernels, copies and memsets of one GPU. `symbol` is equal for equal name and grid, or equal kind and bytes."""

    start_ns: Ints
    end_ns: Ints
    stream: Ints
    symbol: Positions
    call: Positions
    launch: Positions
    """A number for each pair of process and correlation."""
    in_graph: Flags

    def at(self, rows: Positions) -> _Work:
        return _Work(
            self.start_ns[rows],
            self.end_ns[rows],
            self.stream[rows],
            self.symbol[rows],
            self.call[rows],
            self.launch[rows],
            self.in_graph[rows],
        )


def graph_names(trace: Trace, device: Device) -> GraphNames:
    """The work inside graphs by its place in the program."""
    work = _work(trace, device)
    ordered, sequences, which = _launches(work, device)
    by_place = _named_work(trace, device, work, ordered, sequences, which) if which else []
    opaque = trace[Table.GRAPHS]
    opaque = opaque.where((opaque["gpu"] == device.gpu) & device.begins_steady(opaque["start_ns"]))
    if len(opaque):
        by_place.append(GraphWork(None, None, len(opaque), int(np.maximum(opaque.duration_ns, 0).sum())))
    by_place.sort(key=lambda place: (-place.device_ns, place.path or (), place.source or ""))
    return GraphNames(len(which) + len(opaque), tuple(by_place))


def _named_work(
    trace: Trace, device: Device, work: _Work, ordered: _Work, sequences: list[_Work], which: list[int]
) -> list[GraphWork]:
    eager = work.at(np.flatnonzero(~work.in_graph & (work.call >= 0)))
    eager = eager.at(np.lexsort((eager.start_ns, device.host.calls["start_ns"][eager.call])))
    namer = _Namer(trace, device.host.calls, eager.call, list(_captures(device)))
    runs = Runs(eager.symbol, [sequence.symbol for sequence in sequences])
    names = [namer.sequence(nodes, equal) for nodes, equal in zip(sequences, runs, strict=True)]
    number = np.concatenate([names[sequence] for sequence in which])
    first, name_of = group(number)
    sums = np.zeros(len(first), np.int64)
    np.add.at(sums, name_of, ordered.end_ns - ordered.start_ns)
    counts = np.bincount(name_of, minlength=len(first)).tolist()
    return [
        GraphWork(path, source, count, total)
        for (path, source), count, total in zip(
            map(namer.names.__getitem__, number[first]), counts, sums.tolist(), strict=True
        )
    ]


def _work(trace: Trace, device: Device) -> _Work:
    kernels, copies = (trace[table] for table in (Table.KERNELS, Table.COPIES))
    kernels, copies = (rows.where((rows["gpu"] == device.gpu) & (rows.duration_ns > 0)) for rows in (kernels, copies))
    zeros = np.zeros(len(copies), np.int64)
    shape = zip(kernels["grid"].T, (copies["bytes"], zeros, zeros), strict=True)
    keys = [
        np.repeat((0, 1), (len(kernels), len(copies))),
        np.concatenate((kernels.codes("name"), copies.codes("kind"))),
        *(np.concatenate(pair) for pair in shape),
    ]

    def column(name: str) -> Ints:
        return np.concatenate((kernels[name], copies[name]))

    calls = device.host.calls
    pid, correlation = column("pid"), column("correlation")
    call = launching_call(pid, correlation, calls)
    by_graph = np.append(_named(calls, _LAUNCH), [False])[call]
    return _Work(
        column("start_ns"),
        column("end_ns"),
        column("stream"),
        group(*keys)[1],
        call,
        group(pid, correlation)[1],
        by_graph | (column("graph_node") > 0),
    )


def _named(calls: Rows, pattern: re.Pattern[str]) -> Flags:
    """Which calls are of functions whose name matches."""
    codes = [code for code in np.unique(calls.codes("name")).tolist() if pattern.search(calls.strings.text(code) or "")]
    matching: Flags = np.isin(calls.codes("name"), codes)
    return matching


def _launches(work: _Work, device: Device) -> tuple[_Work, list[_Work], list[int]]:
    """Graph work launch by launch in order of execution, the distinct sequences, and the sequence of each launch."""
    mine = np.flatnonzero(work.in_graph)
    ordered = work.at(mine[np.lexsort((work.stream[mine], work.start_ns[mine], work.launch[mine]))])
    first = np.flatnonzero(np.diff(ordered.launch, prepend=-1))
    steady = device.begins_steady(ordered.start_ns[first])
    ordered = ordered.at(np.flatnonzero(np.repeat(steady, np.diff(first, append=len(mine)))))
    cuts = np.flatnonzero(np.diff(ordered.launch)) + 1
    known: dict[bytes, int] = {}
    sequences: list[_Work] = []
    which = []
    for rows in np.split(np.arange(len(ordered.launch)), cuts) if len(ordered.launch) else []:
        key = ordered.symbol[rows].tobytes()
        if key not in known:
            known[key] = len(sequences)
            sequences.append(ordered.at(rows))
        which.append(known[key])
    return ordered, sequences, which


def _captures(device: Device) -> Iterator[Positions]:
    """For each capture the calls that put work into the graph, in order: those in it that ran nothing."""
    host, calls = device.host, device.host.calls
    makes = host.are(CallKind.LAUNCH) | host.are(CallKind.COPY_CALL)
    launching = device.work.launch
    makes[launching[launching >= 0]] = False
    makes &= ~_named(calls, _LAUNCH)
    candidates, ends = (
        chosen[np.argsort(calls["start_ns"][chosen], kind="stable")]
        for chosen in (np.flatnonzero(makes), np.flatnonzero(_named(calls, _END)))
    )
    for begin in np.flatnonzero(_named(calls, _BEGIN)).tolist():
        began, pid = calls["start_ns"][begin], calls["pid"][begin]
        later = ends[(calls["start_ns"][ends] > began) & (calls["pid"][ends] == pid)]
        if len(later):
            ended = calls["start_ns"][later[0]]
            inside = candidates[slice(*np.searchsorted(calls["start_ns"][candidates], (began, ended)))]
            yield inside[calls["pid"][inside] == pid]


class _Namer:
    """Numbers the names of places: `names[number]` is a path and its source."""

    def __init__(self, trace: Trace, calls: Rows, eager: Positions, captures: Sequence[Positions]) -> None:
        used = np.unique(np.concatenate((eager, *captures)))
        nests = nest(trace, ANNOTATION), nest(trace, OPERATOR)
        self._paths: Final = tuple(Paths(ranges) for ranges in nests)
        around = np.full((len(nests), len(calls)), -1, np.intp)
        for kind, ranges in enumerate(nests):
            around[kind, used] = innermost(ranges.rows, calls.at(used))
        self._place = np.stack([paths.of_row[rows] for paths, rows in zip(self._paths, around, strict=True)], axis=1)
        self._eager, self._captures = eager, captures
        outermost = np.append(nests[0].outermost(), -1)[around[0, eager]]
        self._crossed = np.cumsum(np.diff(outermost, prepend=-1) != 0)
        self._agreed: dict[tuple[frozenset[tuple[int, ...]], str], int] = {}
        self.names: Final[list[tuple[Names | None, str | None]]] = [(None, None)]

    def sequence(self, nodes: _Work, runs: Sequence[Run]) -> Positions:
        """For each node of one graph the number of its name: that of its capture, unless an equal run denies it."""
        by_run, by_capture = self._by_run(len(nodes.symbol), runs), self._by_capture(nodes)
        fits = [
            _ends_with(self.names[capture][0] or (), self.names[run][0] or ())
            for capture, run in zip(by_capture.tolist(), by_run.tolist(), strict=True)
        ]
        return np.where(fits, by_capture, by_run)

    def _by_run(self, length: int, runs: Sequence[Run]) -> Positions:
        """By the longest run around each node; of equal ones, those that cross the fewest outermost annotations."""
        number = np.zeros(length, np.intp)
        for run in sorted(runs, key=lambda run: (-run.length, run.start)):
            if run.length >= min(SHORTEST_RUN, length):
                crossed = self._crossed[run.equal + run.length - 1] - self._crossed[run.equal]
                best = run.equal[crossed == crossed.min()]
                free = np.flatnonzero(number[run.start : run.start + run.length] == 0)
                number[run.start + free] = self._common(self._eager[best[:, None] + free], EAGER)
        return number

    def _by_capture(self, nodes: _Work) -> Positions:
        """By the captures with as many calls, if the order of execution is that of the capture: on one stream."""
        fitting = [capture for capture in self._captures if len(capture) == len(nodes.symbol)]
        if not fitting or (nodes.stream != nodes.stream[0]).any():
            return np.zeros(len(nodes.symbol), np.intp)
        return np.array(self._common(np.stack(fitting), CAPTURE), np.intp)

    def _common(self, calls: NDArray[np.intp], source: str) -> list[int]:
        """For each column of `calls`, the number of what their places have in common."""
        columns = self._place[calls].transpose(1, 0, 2).tolist()
        return [self._agreed_name(frozenset(map(tuple, column)), source) for column in columns]

    def _agreed_name(self, places: frozenset[tuple[int, ...]], source: str) -> int:
        if (places, source) not in self._agreed:
            whole = [self._names_at(place) for place in places]
            length = 0
            while all(len(names) > length for names in whole) and len({names[-length - 1] for names in whole}) == 1:
                length += 1
            name = (whole[0][len(whole[0]) - length :], source) if length else (None, None)
            if name not in self.names:
                self.names.append(name)
            self._agreed[places, source] = self.names.index(name)
        return self._agreed[places, source]

    def _names_at(self, place: tuple[int, ...]) -> Names:
        return tuple(name for paths, path in zip(self._paths, place, strict=True) for name in paths.names(path))


def _ends_with(names: Names, ending: Names) -> bool:
    return len(names) >= len(ending) and names[len(names) - len(ending) :] == ending


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of a sequence that also occurs in the eager work, as long as it gets."""

    start: int
    length: int
    equal: Positions
    """Where it begins in the eager work: each place, up to a limit."""


class Runs:
    """For each of some sequences, its longest runs that also occur in `eager`.

    Ranks of all stretches of 1, 2, 4, ... symbols sort the places by what follows them, so that the best partner of a
    place is a neighbour.
    """

    def __init__(self, eager: Positions, sequences: Sequence[Positions]) -> None:
        self._count = len(eager)
        self._lengths = [len(sequence) for sequence in sequences]
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

    def __len__(self) -> int:
        return len(self._lengths)

    def __iter__(self) -> Iterator[list[Run]]:
        begin = self._count + 1
        for length in self._lengths:
            yield list(self._of(np.arange(begin, begin + length)))
            begin += length + 1

    def _of(self, places: Positions) -> Iterator[Run]:
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

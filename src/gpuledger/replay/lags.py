"""How long each edge takes: what is usual for its kind, and, where the trace shows that an edge bound, what it took.

*Without residuals* every edge has the usual lag of its kind, which tests the model. *With* them, the edge that bound
keeps the lag that was recorded, and no other edge has more than was recorded, so that the graph as it is replays
exactly, and an edit changes only what it touches.

Operations and calls are of so few kinds that a table holds the usual lags of all pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.ledger.activity import Activities, State
from gpuledger.ledger.host import Host
from gpuledger.replay.passes import is_compiled, native
from gpuledger.replay.program_order import OuterCalls, StreamOrder
from gpuledger.trace.keys import Positions, distinct, group, is_same, take
from gpuledger.trace.spans import Ints
from gpuledger.trace.statistics import median

SAMPLE: Final = 20_000  # so many of a kind are enough to know what is usual
TRIMMED_SHARE: Final = 0.1  # this share of the lowest and of the highest is left out of a mean
FEWEST: Final = 4  # fewer of a pair of names say less than all of their kind


def trimmed_mean(values: NDArray[Any]) -> int:
    """The mean without the extremes."""
    ordered = np.sort(sample(values))
    cut = int(len(ordered) * TRIMMED_SHARE)
    return round(float(ordered[cut : len(ordered) - cut].mean()))


def middle(values: NDArray[Any]) -> int:
    """The median."""
    return round(median(sample(values)))


def sample(values: NDArray[Any]) -> NDArray[Any]:
    """No more than are needed, from the whole length."""
    return values[:: max(len(values) // SAMPLE, 1)]


def usual_by_key(
    values: Ints, keys: NDArray[Any], usual: Callable[[NDArray[Any]], int], fewest: int = 1
) -> dict[int, int]:
    """The usual value of each key that has enough of them."""
    if not len(values):
        return {}
    first, number = group(keys)
    order = np.argsort(number, kind="stable")
    edges = np.searchsorted(number[order], np.arange(len(first) + 1)).tolist()
    return {
        int(keys[row]): usual(values[order[low:high]])
        for row, low, high in zip(first.tolist(), edges[:-1], edges[1:], strict=True)
        if high - low >= fewest
    }


def look_up_lags(keys: NDArray[Any], usual: dict[int, int], default: int) -> Ints:
    """The usual value of each row's key."""
    if not usual:
        return np.full(len(keys), default, np.int64)
    known = np.array(sorted(usual), np.int64)
    values = np.array([usual[key] for key in known.tolist()], np.int64)
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where(known[place] == keys, values[place], default)


class ObservedLags(Struct, frozen=True, eq=False):
    """Columns as long as the operations."""

    from_begin: NDArray[np.bool_]  # which begin inside a call that holds them: their lag counts from where it begins
    same_launch: NDArray[np.bool_]
    """Which were launched together with the one before them in their stream, as a graph's nodes are."""
    since_call: Ints
    since_stream: Ints  # from the end of the one before it in its stream; 0 without one


def observed_lags(
    outer: OuterCalls, work: Activities, launch: Ints, streams: StreamOrder, holds: NDArray[np.bool_]
) -> ObservedLags:
    """`holds`: which calls wait for what they launched, or take long by themselves."""
    start, end, before, count = work.start_ns, work.end_ns, streams.before, len(work)
    inside, same_launch = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    since_call, since_stream = np.zeros(count, np.int64), np.zeros(count, np.int64)
    if is_compiled():
        native.lags(
            *(launch, before, np.ascontiguousarray(start), np.ascontiguousarray(end)),
            *(outer.begin_ns, outer.end_ns, holds.view(np.int8)),
            *(inside.view(np.int8), same_launch.view(np.int8), since_call, since_stream),
        )
        return ObservedLags(inside, same_launch, since_call, since_stream)
    if count:
        since_stream = np.where(before >= 0, start - end[before], 0)
    if len(outer):
        same_launch = (before >= 0) & (launch >= 0) & (launch[before] == launch)
        inside = (launch >= 0) & (start < outer.end_ns[launch]) & (holds[launch] | same_launch)
        counted_from = np.where(inside, outer.begin_ns[launch], outer.end_ns[launch])
        since_call = np.where(launch >= 0, start - counted_from, 0)
    return ObservedLags(inside, same_launch, since_call, since_stream)


Key = TypeVar("Key", int, Ints)

IN_GRAPH: Final = "kernel in a graph"
KINDS: Final = ("kernel", "collective", IN_GRAPH, "collective in a graph")
"""Of operations; copies are of the kind that NVIDIA gives them, in numbers behind these."""

_SIZE_BITS: Final = 6
_SMALL_COPY_NS: Final = 4_096  # copies that take less are all alike


def launch_key(call: Key, kind: Key, from_begin: Key) -> Key:
    """Of an operation's launch."""
    return (call << 32) + (kind << 1) + from_begin


def pair_key(before: Key, kind: Key) -> Key:
    """Of an operation's turn after another one."""
    return (before << 31) + kind


def wake_up_key(name: Ints, copy_ns: Ints) -> Ints:
    """Of calls that wait: by name, and, if it is for their own copy, how long that takes. What comes after the device's
    part of a copy from or to pageable memory grows with its size."""
    size = np.where(copy_ns > 0, np.log2(np.maximum(copy_ns, _SMALL_COPY_NS)).astype(np.int64), 0)
    return (name << _SIZE_BITS) + size


class TraceLags:
    """The usual lags of a trace, as it shows them itself; those of another one may be put in their place."""

    is_own = True

    def usual(
        self,
        what: str,
        keys: Callable[[Positions | slice], Ints],
        lag_ns: Ints,
        shown: Positions,
        usual: Callable[[NDArray[Any]], int],
        fewest: int = 1,
    ) -> dict[int, int]:
        """The usual lag of each key, from the rows that show it; `keys` says those of some rows."""
        return usual_by_key(lag_ns[shown], keys(shown), usual, fewest)


class OperationKinds:
    """What each operation and its call are, in small numbers."""

    def __init__(self, host: Host, outer: OuterCalls, work: Activities, launch: Ints, before: Ints) -> None:
        self._host, self._outer, self._work = host, outer, work
        self._launch, self._before = launch, before

    @cached_property
    def _kind(self) -> tuple[list[int], NDArray[np.int32]]:
        """The kinds that occur, and for each operation the place of its own: kernels, those in graphs, copies."""
        work = self._work
        kind = work.state.astype(np.int32)
        if not is_same(work.graph_node) or (len(work) and work.graph_node[0] >= 0):
            kind[work.graph_node >= 0] += 2
        copies = np.flatnonzero(work.state == State.COPY)
        names = distinct(work.name[copies]).tolist() if len(copies) else []
        for place, name in enumerate(names):
            kind[copies[work.name[copies] == name]] = len(KINDS) + place
        return [*range(len(KINDS)), *(len(KINDS) + name for name in names)], kind

    @cached_property
    def _name(self) -> tuple[list[int], NDArray[np.int32]]:
        """The names that occur, and for each outer call the place of its own."""
        codes = self._host.calls.codes("name")
        names = distinct(codes) if len(codes) else codes
        place = np.zeros(int(names.max(initial=0)) + 2, np.int32)
        place[names] = np.arange(len(names))
        return names.tolist(), take(place[codes], self._outer.row)

    def launch_lags(self, from_begin: NDArray[np.bool_], lag_of: Callable[[int], int]) -> Ints:
        """The lag of each operation's launch, by the key of its call and kind."""
        (kinds, kind), (names, name) = self._kind, self._name
        if not len(self._outer):
            return np.zeros(len(self._work), np.int64)
        table = [lag_of(launch_key(call, of, inside)) for call in names for of in kinds for inside in (0, 1)]
        place = name[self._launch]
        place *= len(kinds)
        place += kind
        place *= 2
        place += from_begin
        return np.array(table, np.int64)[place]

    def turnarounds(self, lag_of: Callable[[int], int]) -> Ints:
        """The lag of each operation after the one before it in its stream, by the key of their kinds."""
        kinds, kind = self._kind
        if not len(kind):
            return np.empty(0, np.int64)
        table = [lag_of(pair_key(before, after)) for before in kinds for after in kinds]
        place = kind[self._before]
        place *= len(kinds)
        place += kind
        return np.array(table, np.int64)[place]

    def launch_keys(self, rows: NDArray[np.intp] | slice, from_begin: NDArray[np.bool_]) -> Ints:
        """The key of some operations' launches."""
        (kinds, kind), (names, name) = self._kind, self._name
        if not len(self._outer):
            return np.zeros(len(kind[rows]), np.int64)
        calls = np.array(names, np.int64)[name[self._launch[rows]]]
        return launch_key(calls, np.array(kinds, np.int64)[kind[rows]], from_begin[rows].astype(np.int64))

    def pair_keys(self, rows: NDArray[np.intp] | slice) -> Ints:
        """The key of some operations and those before them."""
        kinds, kind = self._kind
        values = np.array(kinds, np.int64)
        return pair_key(values[kind[self._before[rows]]], values[kind[rows]])

    def names(self, calls: NDArray[np.intp]) -> Ints:
        """The code of the name of each of these outer calls."""
        return self._host.calls.codes("name")[self._outer.row[calls]].astype(np.int64)

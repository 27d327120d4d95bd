"""Kinds of operations and of calls: so few that a table holds the usual lags of all pairs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gpuledger.ledger.activity import Activities, State
from gpuledger.ledger.host import Host
from gpuledger.replay.lag_words import KINDS, launch_key, pair_key
from gpuledger.replay.outer_calls import OuterCalls
from gpuledger.trace.columns import distinct, is_same, take
from gpuledger.trace.spans import Ints


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

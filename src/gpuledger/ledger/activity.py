"""Everything that ran on a GPU in one table: kernels, copies, memsets and whole-graph records.

An activity is of one state: `compute` (a compute kernel, or a graph traced whole), `comm` (a communication kernel) or
`copy`. Rows that end before or when they begin occupied no time and are left out.

Calls on the host: those of CUDA, those of other layers, and what their functions are called.

GPU work joined with the calls that launched it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.catalog.kernel_families import COMMUNICATION, family
from gpuledger.trace.keys import (
    KeyPositions,
    Positions,
    by_row,
    equal,
    group,
    join,
    last_match,
    one_after_another,
    same,
    take,
)
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints
from gpuledger.trace.strings import NO_TEXT, Codes
from gpuledger.trace.sweep import in_order
from gpuledger.trace.tables import NOT_RECORDED, Rows, Table

GRAPH_FAMILY = "graph"
"""The family of graphs traced whole: which kernels ran inside is not known."""


UNIFIED: Final = "Unified "
"""How NVIDIA's labels of copies begin where pages of unified memory migrate. No call launches those."""


class State(IntEnum):
    """What a device is doing, the first match wins."""

    COMPUTE = 0
    COMM = 1
    COPY = 2
    IDLE = 3


class Activities:
    """Columns of equal length, sorted by start, then stream.

    Those that every analysis needs are there; the others are gathered from the tables when first asked for.
    """

    def __init__(self, tables: Sequence[Rows], times: _Times, families: tuple[str, ...], own: _Own) -> None:
        self._tables, self._times, self._own = tables, times, own
        self._of_gpu: dict[int, Activities] = {}
        self.families: Final = families
        self.start_ns: Final = times.start_ns
        self.end_ns: Final = times.end_ns

    def __len__(self) -> int:
        return len(self.start_ns)

    def gathered(self, column: str) -> NDArray[Any]:
        """A column of the tables, in our order, to look at once."""
        return take(one_after_another([rows[column] for rows in self._tables]), self._times.order)

    def gathered_at(self, column: str, positions: Positions) -> NDArray[Any]:
        """A column of the tables for some of the activities: not gathered whole, so that nothing of it stays."""
        row, first = self._times.order[positions], 0
        gathered = np.empty(len(row), self._tables[0][column].dtype)
        for values in (rows[column] for rows in self._tables):
            here = (row >= first) & (row < first + len(values))
            gathered[here] = values[row[here] - first]
            first += len(values)
        return gathered

    def row_at(self, positions: Positions) -> Positions:
        """Where some of the activities lie in the tables that they came from, which is not kept."""
        starts = np.cumsum([0, *(len(rows) for rows in self._tables[:-1])])
        row: Positions = self._times.order[positions].astype(np.intp)
        row -= starts[np.searchsorted(starts, row, side="right") - 1]
        return row

    def with_correlation(self, correlation: int) -> Positions:
        """Positions of the activities that carry this id, in whichever process."""
        ends = np.cumsum([len(rows) for rows in self._tables])
        carrying = [
            end - len(rows) + np.flatnonzero(equal(rows["correlation"], correlation))
            for rows, end in zip(self._tables, ends, strict=True)
        ]
        return np.flatnonzero(np.isin(self._times.order, np.concatenate(carrying)))

    @cached_property
    def gpu(self) -> NDArray[np.int32]:
        return self.gathered("gpu")

    @cached_property
    def stream(self) -> Ints:
        return self.gathered("stream")

    @cached_property
    def pid(self) -> Ints:
        return self.gathered("pid")

    @cached_property
    def correlation(self) -> Ints:
        return self.gathered("correlation")

    @property
    def state(self) -> NDArray[np.int8]:
        return self._own.state

    @property
    def family(self) -> NDArray[np.int16]:
        """Position in `families`; -1 for copies."""
        return self._own.family

    @property
    def name(self) -> Codes:
        """Code of the kernel's name or the copy's kind; NO_TEXT for graphs."""
        return self._own.name

    @property
    def graph_node(self) -> Ints:
        return self._own.graph_node

    @property
    def launch(self) -> Positions:
        """The call that launched it, as a position among the host's CUDA calls; -1 for none."""
        return self._own.launch

    def launched_by(self, launch: Positions) -> Activities:
        """The same, with the calls that launched them."""
        return Activities(self._tables, self._times, self.families, replace(self._own, launch=launch))

    @cached_property
    def row(self) -> Ints:
        """Position in the table that it came from."""
        return take(np.concatenate([np.arange(len(rows)) for rows in self._tables]), self._times.order)

    @cached_property
    def migrates(self) -> NDArray[np.bool_]:
        """Which are pages of unified memory that move because somebody touched them, or asked for them beforehand."""
        kernels, copies, graphs = self._tables
        moved = copies.strings.each(copies.codes("kind"), lambda kind: kind.startswith(UNIFIED), np.bool_)
        if not moved.any():  # as in nearly all programs
            return same(0, len(self), np.bool_)
        unmoved = [same(0, len(rows), np.bool_) for rows in (kernels, graphs)]
        return take(one_after_another([unmoved[0], moved, unmoved[1]]), self._times.order)

    def on(self, gpu: int) -> Positions:
        """Positions of the activities of one GPU."""
        return np.flatnonzero(self.gpu == gpu)

    def of(self, gpu: int) -> Activities:
        """The activities of one GPU alone."""
        if gpu not in self._of_gpu:
            self._of_gpu[gpu] = self.where(equal(self.gpu, gpu))
        return self._of_gpu[gpu]

    def where(self, mask: NDArray[np.bool_]) -> Activities:
        """Those for which `mask` is true."""
        return self if mask.all() else self.at(mask)

    def at(self, positions: NDArray[Any]) -> Activities:
        """Those at these positions, or under this mask."""
        return Activities(self._tables, self._times.at(positions), self.families, self._own.at(positions))


@dataclass(frozen=True, slots=True)
class _Own:
    """Columns that the tables do not have as they are."""

    state: NDArray[np.int8]
    family: NDArray[np.int16]
    name: Codes
    graph_node: Ints
    launch: Positions

    def at(self, positions: NDArray[Any]) -> _Own:
        columns = (self.state, self.family, self.name, self.graph_node, self.launch)
        return _Own(*(take(column, positions) for column in columns))


def activities(trace: Trace, extra: tuple[tuple[str, str], ...] = ()) -> Activities:
    """Gather them from the tables, not yet joined with calls; `extra` are the user's own (family, pattern)."""
    kernels, copies, graphs = tables = tuple(trace[table] for table in (Table.KERNELS, Table.COPIES, Table.GRAPHS))
    families, kernel_family = _families(trace, extra)
    is_comm = kernel_family == families.index(COMMUNICATION)
    whole = families.index(GRAPH_FAMILY)
    state = (
        is_comm.astype(np.int8),  # State.COMM where it is one, else State.COMPUTE
        same(State.COPY, len(copies), np.int8),
        same(State.COMPUTE, len(graphs), np.int8),
    )
    family_at = (kernel_family, same(-1, len(copies), np.int16), same(whole, len(graphs), np.int16))
    name = (kernels.codes("name"), copies.codes("kind"), same(NO_TEXT, len(graphs), np.int32))
    node = (kernels["graph_node"], copies["graph_node"], same(-1, len(graphs)))
    times = _in_order(tables)
    own = _Own(
        state=one_after_another(state),
        family=one_after_another(family_at),
        name=one_after_another(name),
        graph_node=one_after_another(node),
        launch=same(-1, sum(map(len, tables)), np.intp),
    ).at(times.order)
    return Activities(tables, times, families, own)


@dataclass(frozen=True, slots=True)
class _Times:
    """When each began and ended, and which row of the tables, taken one after another, it is."""

    order: NDArray[np.signedinteger]
    start_ns: Ints
    end_ns: Ints

    def at(self, positions: NDArray[Any]) -> _Times:
        return _Times(self.order[positions], self.start_ns[positions], self.end_ns[positions])


def _in_order(tables: Sequence[Rows]) -> _Times:
    """The rows that took time, by start, then stream."""
    times = _Times(*in_order([(rows["start_ns"], rows["end_ns"], rows["stream"]) for rows in tables]))
    is_real = times.end_ns > times.start_ns
    return times if is_real.all() else times.at(is_real)


def _families(trace: Trace, extra: tuple[tuple[str, str], ...]) -> tuple[tuple[str, ...], NDArray[np.int16]]:
    """The families that occur, and for each kernel the position of its own."""
    codes = trace[Table.KERNELS].codes("name")
    numbers: dict[str, int] = {COMMUNICATION: 0, GRAPH_FAMILY: 1}
    of_kernel = trace.strings.each(codes, lambda name: numbers.setdefault(family(name, extra), len(numbers)), np.int16)
    return tuple(numbers), of_kernel


CUDA_LAYERS = ("runtime", "driver")
"""Calls of these layers launch GPU work; the others are of libraries and the operating system."""


def of_layers(trace: Trace, *layers: str) -> Rows:
    """The calls that belong to these layers."""
    calls = trace[Table.CALLS]
    wanted = [calls.strings.code(layer) for layer in layers]
    return calls.where(by_row(lambda codes: np.isin(codes, wanted), calls.codes("layer")))


def cuda_calls(trace: Trace) -> Rows:
    """The CUDA runtime and driver calls."""
    return of_layers(trace, *CUDA_LAYERS)


def shortened(function: str) -> str:
    """NVIDIA's display name: a version suffix of `_v` and exactly four characters is cut, once."""
    return function[:-6] if function[-6:-4] == "_v" else function


def short_names(calls: Rows) -> tuple[list[str], Ints]:
    """The display names of functions, and for each call the position of its own."""
    return calls.strings.kinds(calls.codes("name"), shortened)


def places_of(calls: Rows) -> KeyPositions | None:
    """Where each call lies by its process and id; None where only a join can tell."""
    return KeyPositions.of(calls["pid"], calls["correlation"])


def launches(work: Rows, calls: Rows, places: KeyPositions | None = None) -> tuple[Positions, Positions]:
    """All pairs (row of `work`, row of `calls`) where the call launched the work, in the order of `work`.

    As many as both have rows, if ids repeat on one side only; if on both, as NVIDIA's tables need them, up to a bound.
    """
    known = np.flatnonzero((work["correlation"] != NOT_RECORDED) & (work["pid"] != NOT_RECORDED))
    keys = work["pid"][known], work["correlation"][known]
    row, call = join(*keys, calls["pid"], calls["correlation"], places)
    return known[row], call


def launching_call(pid: Ints, correlation: Ints, calls: Rows, places: KeyPositions | None = None) -> Positions:
    """The row of `calls` that launched each activity, the first in time where several carry its id; -1 for none."""
    places = places or places_of(calls)
    is_known = (correlation != NOT_RECORDED) & by_row(lambda values: values != NOT_RECORDED, pid)
    if places is not None:
        straight = places.look_up(pid, correlation)
        return straight if is_known.all() else np.where(is_known, straight, -1)
    latest_first = np.argsort(-calls["start_ns"], kind="stable")
    call = last_match(pid, correlation, calls["pid"][latest_first], calls["correlation"][latest_first])
    return np.where(is_known & (call >= 0), np.append(latest_first, -1)[call], -1)


@dataclass(frozen=True, slots=True)
class CallsByKey:
    """Calls that carry the same process and id, together: what is said of one is said of all."""

    calls: Rows
    first: Positions
    """One call of each key."""
    number: Positions
    """The key of each call."""

    @classmethod
    def of(cls, calls: Rows) -> CallsByKey:
        return cls(calls, *group(calls["pid"], calls["correlation"]))

    def launched(self, work: Rows) -> Positions:
        """The key that launched each row of work; -1 for none."""
        keys = self.calls["pid"][self.first], self.calls["correlation"][self.first]
        key = last_match(work["pid"], work["correlation"], *keys)
        return np.where((work["correlation"] != NOT_RECORDED) & (work["pid"] != NOT_RECORDED), key, -1)


def recorded_by(calls: Rows, records: Rows) -> Positions:
    """The row of `records`, of which each is of one call, that is of each of these; -1 for none."""
    record = last_match(calls["pid"], calls["correlation"], records["pid"], records["correlation"])
    return np.where((calls["correlation"] != NOT_RECORDED) & (calls["pid"] != NOT_RECORDED), record, -1)

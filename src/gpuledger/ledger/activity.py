"""Everything that ran on a GPU in one table, and the calls that launched it.

Kernels, copies, memsets and whole-graph records of a trace in, columns sorted by start out. An activity is of one
state: `compute` (a compute kernel, or a graph traced whole), `comm` (a communication kernel) or `copy`. Rows that end
before or when they begin occupied no time and are left out. GPU work and its launch call carry the same process and
correlation id.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.catalog.kernel_families import COMMUNICATION, family
from gpuledger.trace.keys import (
    KeyPositions,
    Positions,
    by_row,
    equal,
    group,
    is_among,
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

GRAPH_FAMILY = "graph"  # the family of graphs traced whole: which kernels ran inside is not known


UNIFIED: Final = "Unified "
"""How NVIDIA's labels of copies begin where pages of unified memory migrate. No call launches those."""


class State(IntEnum):
    """What a device is doing, the first match wins."""

    COMPUTE = 0
    COMM = 1
    COPY = 2
    IDLE = 3


class Activities:
    """Columns of equal length, sorted by start, then stream. Those that every analysis needs are there; the others are
    gathered from the tables when first asked for."""

    def __init__(self, tables: Sequence[Rows], columns: _ActivityColumns, families: tuple[str, ...]) -> None:
        self._tables, self._columns, self._of_gpu = tables, columns, dict[int, Activities | None]()
        self.families: Final = families
        self.start_ns: Final = columns.start_ns
        self.end_ns: Final = columns.end_ns
        self.state: Final = columns.state
        self.family: Final = columns.family
        """Position in `families`; -1 for copies."""
        self.name: Final = columns.name
        """Code of the kernel's name or the copy's kind; NO_TEXT for graphs."""
        self.graph_node: Final = columns.graph_node
        self.launch: Final = columns.launch
        """The call that launched it, as a position among the host's CUDA calls; -1 for none."""

    def __len__(self) -> int:
        return len(self.start_ns)

    def gathered(self, column: str) -> NDArray[Any]:
        """A column of the tables, in our order, to look at once."""
        return take(one_after_another([rows.stored(column) for rows in self._tables]), self._columns.order)

    def gathered_at(self, column: str, positions: Positions) -> NDArray[Any]:
        """A column of the tables for some of the activities: not gathered whole, so that nothing of it stays."""
        row, first = self._columns.order[positions], 0
        gathered = np.empty(len(row), self._tables[0].schema[column].kind.dtype)
        for values in (rows.stored(column) for rows in self._tables):
            here = (row >= first) & (row < first + len(values))
            gathered[here] = values[row[here] - first]
            first += len(values)
        return gathered

    def row_at(self, positions: Positions | slice) -> Positions:
        """Where some of the activities lie in the tables that they came from, which is not kept."""
        ends = np.cumsum([len(rows) for rows in self._tables]).tolist()
        row: Positions = self._columns.order[positions].astype(np.intp)
        for first, end in pairwise(ends):  # what an earlier table had taken off lies below
            np.subtract(row, first, out=row, where=(row >= first) & (row < end))
        return row

    def with_correlation(self, correlation: int) -> Positions:
        """Positions of the activities that carry this id, in whichever process."""
        ends = np.cumsum([len(rows) for rows in self._tables])
        carrying = [
            end - len(rows) + np.flatnonzero(equal(rows.stored("correlation"), correlation))
            for rows, end in zip(self._tables, ends, strict=True)
        ]
        return np.flatnonzero(is_among(self._columns.order, np.concatenate(carrying)))

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

    @cached_property
    def row(self) -> Positions:
        """Position in the table that it came from."""
        return self.row_at(slice(None))

    @cached_property
    def migrates(self) -> NDArray[np.bool_]:
        """Which are pages of unified memory that move because somebody touched them, or asked for them beforehand."""
        kernels, copies, graphs = self._tables
        moved = copies.strings.each(copies.codes("kind"), lambda kind: kind.startswith(UNIFIED), np.bool_)
        if not moved.any():  # as in nearly all programs
            return same(0, len(self), np.bool_)
        unmoved = [same(0, len(rows), np.bool_) for rows in (kernels, graphs)]
        return take(one_after_another([unmoved[0], moved, unmoved[1]]), self._columns.order)

    def on(self, gpu: int) -> Positions:
        """Positions of the activities of one GPU."""
        return np.flatnonzero(self.gpu == gpu)

    def of(self, gpu: int) -> Activities:
        """The activities of one GPU alone."""
        if gpu not in self._of_gpu:
            alone = self.where(equal(self.gpu, gpu))
            self._of_gpu[gpu] = None if alone is self else alone  # what refers to itself stays in memory
        known = self._of_gpu[gpu]
        return self if known is None else known

    def where(self, mask: NDArray[np.bool_]) -> Activities:
        return self if mask.all() else self.at(mask)

    def at(self, positions: NDArray[Any]) -> Activities:
        """Those at these positions, or under this mask."""
        return Activities(self._tables, self._columns.at(positions), self.families)

    def launched_by(self, launch: Positions) -> Activities:
        return Activities(self._tables, self._columns._replace(launch=launch), self.families)


class _ActivityColumns(NamedTuple):
    """`order`: which row of the tables, one after another, each activity is. The others are as in `Activities`."""

    order: NDArray[np.signedinteger]
    start_ns: Ints
    end_ns: Ints
    state: NDArray[np.int8]
    family: NDArray[np.int16]
    name: Codes
    graph_node: Ints
    launch: Positions

    def at(self, positions: NDArray[Any]) -> _ActivityColumns:
        return _ActivityColumns(*(take(column, positions) for column in self))


def activities(trace: Trace, extra: tuple[tuple[str, str], ...] = ()) -> Activities:
    """Gather them from the tables, not yet joined with calls; `extra` are the user's own (family, pattern)."""
    kernels, copies, graphs = tables = tuple(trace[table] for table in (Table.KERNELS, Table.COPIES, Table.GRAPHS))
    families = {COMMUNICATION: 0, GRAPH_FAMILY: 1}
    kernel_family = trace.strings.each(
        kernels.codes("name"), lambda name: families.setdefault(family(name, extra), len(families)), np.int16
    )
    order, start, end = in_order([(rows["start_ns"], rows["end_ns"], rows.stored("stream")) for rows in tables])

    def by_start(*parts: NDArray[Any]) -> NDArray[Any]:
        return take(one_after_another(parts), order)

    is_comm = kernel_family == families[COMMUNICATION]
    columns = _ActivityColumns(
        order,
        start,
        end,
        state=by_start(
            is_comm.astype(np.int8),  # State.COMM where it is one, else State.COMPUTE
            same(State.COPY, len(copies), np.int8),
            same(State.COMPUTE, len(graphs), np.int8),
        ),
        family=by_start(
            kernel_family, same(-1, len(copies), np.int16), same(families[GRAPH_FAMILY], len(graphs), np.int16)
        ),
        name=by_start(kernels.codes("name"), copies.codes("kind"), same(NO_TEXT, len(graphs), np.int32)),
        graph_node=by_start(kernels["graph_node"], copies["graph_node"], same(-1, len(graphs))),
        launch=same(-1, len(order), np.intp),
    )
    takes_time = end > start
    return Activities(tables, columns if takes_time.all() else columns.at(takes_time), tuple(families))


CUDA_LAYERS = ("runtime", "driver")
"""Calls of these layers launch GPU work; the others are of libraries and the operating system."""


def calls_in_layers(trace: Trace, *layers: str) -> Rows:
    """The calls that belong to these layers."""
    calls = trace[Table.CALLS]
    wanted = [calls.strings.code(layer) for layer in layers]
    return calls.where(by_row(lambda codes: is_among(codes, wanted), calls.codes("layer")))


def cuda_calls(trace: Trace) -> Rows:
    """The CUDA runtime and driver calls."""
    return calls_in_layers(trace, *CUDA_LAYERS)


def short_function_name(function: str) -> str:
    """NVIDIA's display name: a version suffix of `_v` and exactly four characters is cut, once."""
    return function[:-6] if function[-6:-4] == "_v" else function


def short_names(calls: Rows) -> tuple[list[str], Ints]:
    """The display names of functions, and for each call the position of its own."""
    return calls.strings.kinds(calls.codes("name"), short_function_name)


def _has_key(rows: Rows) -> NDArray[np.bool_]:
    known: NDArray[np.bool_] = (rows.stored("correlation") != NOT_RECORDED) & (rows["pid"] != NOT_RECORDED)
    return known


def launches(work: Rows, calls: Rows, places: KeyPositions | None = None) -> tuple[Positions, Positions]:
    """All pairs (row of `work`, row of `calls`) where the call launched the work, in the order of `work`. As many as
    both have rows, if ids repeat on one side only; if on both, as NVIDIA's tables need them, up to a bound."""
    known = np.flatnonzero(_has_key(work))
    keys = work["pid"][known], work["correlation"][known]
    row, call = join(*keys, calls["pid"], calls.stored("correlation"), places)
    return known[row], call


def launching_call(pid: Ints, correlation: Ints, calls: Rows, places: KeyPositions | None = None) -> Positions:
    """The row of `calls` that launched each activity, the first in time where several carry its id; -1 for none."""
    places = places or KeyPositions.of(calls["pid"], calls.stored("correlation"))
    is_known = (correlation != NOT_RECORDED) & by_row(lambda values: values != NOT_RECORDED, pid)
    if places is not None:
        straight = places.look_up(pid, correlation)
        return straight if is_known.all() else np.where(is_known, straight, -1)
    latest_first = np.argsort(-calls["start_ns"], kind="stable")
    call = last_match(pid, correlation, calls["pid"][latest_first], calls["correlation"][latest_first])
    return np.where(is_known & (call >= 0), np.append(latest_first, -1)[call], -1)


class CallsByKey(Struct, frozen=True):
    """Calls that carry the same process and id, together: what is said of one is said of all."""

    calls: Rows
    first: Positions  # one call of each key
    number: Positions  # the key of each call

    @classmethod
    def of(cls, calls: Rows) -> CallsByKey:
        return cls(calls, *group(calls["pid"], calls["correlation"]))

    def launched(self, work: Rows) -> Positions:
        """The key that launched each row of work; -1 for none."""
        keys = self.calls["pid"][self.first], self.calls["correlation"][self.first]
        return np.where(_has_key(work), last_match(work["pid"], work["correlation"], *keys), -1)


def record_of_call(calls: Rows, records: Rows) -> Positions:
    """The row of `records`, of which each is of one call, that is of each of these; -1 for none."""
    record = last_match(calls["pid"], calls["correlation"], records["pid"], records["correlation"])
    return np.where(_has_key(calls), record, -1)

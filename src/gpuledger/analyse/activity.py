"""Everything that ran on a GPU in one table: kernels, copies, memsets and whole-graph records.

An activity is of one state: `compute` (a compute kernel, or a graph traced whole), `comm` (a communication kernel) or
`copy`. Rows that end before or when they begin occupied no time and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuledger.model.columns import at, one_after_another, same
from gpuledger.model.families import COMMUNICATION, family
from gpuledger.model.spans import Ints
from gpuledger.model.strings import NO_TEXT, Codes
from gpuledger.model.tables import Table
from gpuledger.model.trace import Trace

GRAPH_FAMILY = "graph"
"""The family of graphs traced whole: which kernels ran inside is not known."""


class State(IntEnum):
    """What a device is doing, the first match wins."""

    COMPUTE = 0
    COMM = 1
    COPY = 2
    IDLE = 3


@dataclass(frozen=True, slots=True)
class Activities:
    """Columns of equal length, sorted by start, then stream."""

    start_ns: Ints
    end_ns: Ints
    gpu: NDArray[np.int32]
    stream: Ints
    pid: Ints
    correlation: Ints
    state: NDArray[np.int8]
    family: NDArray[np.int16]
    """Position in `families`; -1 for copies."""
    graph_node: Ints
    name: Codes
    """Code of the kernel's name or the copy's kind; NO_TEXT for graphs."""
    families: tuple[str, ...]
    row: Ints
    """Position in the table that it came from."""
    position: Ints
    """Its own position; in a part that `of` gives, that in the whole."""
    _parts: dict[int, Activities] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.start_ns)

    def on(self, gpu: int) -> NDArray[np.intp]:
        """Positions of the activities of one GPU."""
        return self.of(gpu).position

    def of(self, gpu: int) -> Activities:
        """The activities of one GPU alone."""
        if gpu not in self._parts:
            mine = self.gpu == gpu
            self._parts[gpu] = self if mine.all() else self._where(mine)
        return self._parts[gpu]

    def _where(self, mask: NDArray[np.bool_]) -> Activities:
        columns = [each.name for each in fields(self) if isinstance(getattr(self, each.name), np.ndarray)]
        chosen: dict[str, Any] = {name: at(getattr(self, name), mask) for name in columns}
        return replace(self, **chosen, _parts={})


def activities(trace: Trace, extra: tuple[tuple[str, str], ...] = ()) -> Activities:
    """Gather them from the tables; `extra` are families of the user's own, (family, pattern)."""
    kernels, copies, graphs = (trace[table] for table in (Table.KERNELS, Table.COPIES, Table.GRAPHS))
    families, kernel_family = _families(trace, extra)
    is_comm = kernel_family == families.index(COMMUNICATION)
    tables = (kernels, copies, graphs)
    whole = families.index(GRAPH_FAMILY)
    state = (
        is_comm.astype(np.int8),  # State.COMM where it is one, else State.COMPUTE
        same(State.COPY, len(copies), np.int8),
        same(State.COMPUTE, len(graphs), np.int8),
    )
    family_at = (kernel_family, same(-1, len(copies), np.int16), same(whole, len(graphs), np.int16))
    node = (kernels["graph_node"], copies["graph_node"], same(-1, len(graphs)))
    name = (kernels.codes("name"), copies.codes("kind"), same(NO_TEXT, len(graphs), np.int32))

    def together(name: str) -> Ints:
        return one_after_another([rows[name] for rows in tables])

    start, end, stream = together("start_ns"), together("end_ns"), together("stream")
    order = np.argsort(start, kind="stable")
    begin, streams = start[order], at(stream, order)
    if ((begin[1:] == begin[:-1]) & (streams[1:] < streams[:-1])).any():
        order = np.lexsort((stream, start))
    is_real = end > start
    if not is_real.all():
        order = order[is_real[order]]
    del begin, streams, is_real

    def ordered(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return at(one_after_another(parts), order)

    def column(name: str) -> NDArray[Any]:
        return ordered([together(name)])

    return Activities(
        column("start_ns"),
        column("end_ns"),
        column("gpu"),
        column("stream"),
        column("pid"),
        column("correlation"),
        ordered(state),
        ordered(family_at),
        ordered(node),
        ordered(name),
        families,
        ordered([np.arange(len(rows)) for rows in tables]),
        np.arange(len(order)),
    )


def _families(trace: Trace, extra: tuple[tuple[str, str], ...]) -> tuple[tuple[str, ...], NDArray[np.int16]]:
    """The families that occur, and for each kernel the position of its own."""
    codes = trace[Table.KERNELS].codes("name")
    found: dict[str, int] = {COMMUNICATION: 0, GRAPH_FAMILY: 1}
    numbers = trace.strings.each(codes, lambda name: found.setdefault(family(name, extra), len(found)), np.int16)
    return tuple(found), numbers

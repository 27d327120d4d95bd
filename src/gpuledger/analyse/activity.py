"""Everything that ran on a GPU in one table: kernels, copies, memsets and whole-graph records.

An activity is of one state: `compute` (a compute kernel, or a graph traced whole), `comm` (a communication kernel) or
`copy`. Rows that end before or when they begin occupied no time and are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from gpuledger.model.families import COMMUNICATION, family
from gpuledger.model.spans import Ints
from gpuledger.model.strings import NO_TEXT
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
    gpu: Ints
    stream: Ints
    pid: Ints
    correlation: Ints
    state: Ints
    family: Ints
    """Position in `families`; -1 for copies."""
    graph_node: Ints
    name: Ints
    """Code of the kernel's name or the copy's kind; NO_TEXT for graphs."""
    families: tuple[str, ...]
    row: Ints
    """Position in the table that it came from."""

    def __len__(self) -> int:
        return len(self.start_ns)

    def on(self, gpu: int) -> NDArray[np.intp]:
        """Positions of the activities of one GPU."""
        return np.flatnonzero(self.gpu == gpu)


def activities(trace: Trace, extra: tuple[tuple[str, str], ...] = ()) -> Activities:
    """Gather them from the tables; `extra` are families of the user's own, (family, pattern)."""
    kernels, copies, graphs = (trace[table] for table in (Table.KERNELS, Table.COPIES, Table.GRAPHS))
    families, kernel_family = _families(trace, extra)
    is_comm = kernel_family == families.index(COMMUNICATION)
    parts = (
        (kernels, np.where(is_comm, State.COMM, State.COMPUTE), kernel_family, kernels.codes("name")),
        (copies, np.full(len(copies), State.COPY), np.full(len(copies), -1), copies.codes("kind")),
        (
            graphs,
            np.full(len(graphs), State.COMPUTE),
            np.full(len(graphs), families.index(GRAPH_FAMILY)),
            np.full(len(graphs), NO_TEXT),
        ),
    )
    tables = [rows for rows, *_ in parts]

    def column(name: str) -> Ints:
        return np.concatenate([rows[name].astype(np.int64) for rows in tables])

    node = np.concatenate([kernels["graph_node"], copies["graph_node"], np.full(len(graphs), -1)])
    state, family_at, name = (np.concatenate([part[at] for part in parts]).astype(np.int64) for at in (1, 2, 3))
    start, end, stream = column("start_ns"), column("end_ns"), column("stream")
    order = np.lexsort((stream, start))
    order = order[end[order] > start[order]]
    return Activities(
        start[order],
        end[order],
        column("gpu")[order],
        stream[order],
        column("pid")[order],
        column("correlation")[order],
        state[order],
        family_at[order],
        node[order],
        name[order],
        families,
        np.concatenate([np.arange(len(rows)) for rows in tables])[order],
    )


def _families(trace: Trace, extra: tuple[tuple[str, str], ...]) -> tuple[tuple[str, ...], Ints]:
    """The families that occur, and for each kernel the position of its own."""
    codes = trace[Table.KERNELS].codes("name")
    found: dict[str, int] = {COMMUNICATION: 0, GRAPH_FAMILY: 1}
    numbers = trace.strings.each(codes, lambda name: found.setdefault(family(name, extra), len(found)))
    return tuple(found), numbers

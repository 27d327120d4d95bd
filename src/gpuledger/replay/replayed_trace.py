"""A trace as it would be with changes: the scenario of a whole run and its edits in, a trace of the same kind out.

Kernels, copies, graphs and calls happen when the replay says. Whatever else a thread did moves with its calls: between
two of them time is stretched or shrunk evenly, and a thread without calls follows the busiest one of its process. What
is gone is left out: operations, and calls that take no time and launch nothing that is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuledger.ledger.activity import CUDA_LAYERS, GRAPH_FAMILY, Activities, State
from gpuledger.ledger.host import Host
from gpuledger.ledger.ranges import thread
from gpuledger.replay.edits import Edit, edited
from gpuledger.replay.graph import DependencyGraph, OperationFlag, Times
from gpuledger.replay.passes import replayed
from gpuledger.replay.scenario import Scenario
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, furthest
from gpuledger.trace.tables import Rows, Table


def replayed_trace(model: Scenario, *edits: Edit) -> Trace:
    """What would have been recorded with these changes; for a scenario of the whole run."""
    if not model.is_whole:
        raise ValueError("only some steps are replayed")
    trace, graph = model.trace, edited(model.graph, edits)
    times = replayed(graph)
    clocks = _Clocks(model.part.host, graph, times)
    tables = {table: clocks.moved(rows) for table, rows in trace.tables.items()}
    tables |= _operations(trace, model.part.work, graph, times)
    if Table.CALLS in tables:
        tables[Table.CALLS] = tables[Table.CALLS].where(~_gone_calls(trace, graph, times))
    return replace(trace, tables=tables, places=None)  # rows may be gone


def _with_times(rows: Rows, start_ns: Ints, end_ns: Ints) -> Rows:
    columns = {column.name: rows[column.name] for column in rows.schema.columns if column.name in rows}
    return Rows(rows.schema, {**columns, "start_ns": start_ns, "end_ns": end_ns}, rows.strings)


def _operations(trace: Trace, work: Activities, graph: DependencyGraph, times: Times) -> dict[Table, Rows]:
    """Those that are left, at their new times; rows that took no time are left out, as in the books."""
    is_copy = work.state == State.COPY
    is_graph = ~is_copy & (work.family == work.families.index(GRAPH_FAMILY))
    there = graph.operations.flags & OperationFlag.GONE == 0
    moved = {}
    of_table: Mapping[Table, NDArray[np.bool_]] = {
        Table.KERNELS: ~is_copy & ~is_graph,
        Table.COPIES: is_copy,
        Table.GRAPHS: is_graph,
    }
    for table, mine in of_table.items():
        if table in trace.tables:
            rows = np.flatnonzero(mine & there)
            rows = rows[np.argsort(work.row[rows], kind="stable")]
            moved[table] = _with_times(trace[table].at(work.row[rows]), times.start[rows], times.end[rows])
    return moved


@dataclass(frozen=True, slots=True, eq=False)
class _Clock:
    """From the instants of a thread's calls as recorded to those of the replay."""

    recorded_ns: Ints
    replayed_ns: Ints

    def told(self, instants: NDArray[Any]) -> Ints:
        """Instants of the recording in the replay; outside all calls by as much as the next one."""
        first, last = int(self.recorded_ns[0]), int(self.recorded_ns[-1])
        inside = np.clip(instants, first, last)
        base = int(self.replayed_ns[0])  # floats hold months of nanoseconds, not the time since 1970
        between = np.interp(inside - first, self.recorded_ns - first, self.replayed_ns - base)
        told: Ints = np.rint(between).astype(np.int64) + base + (instants - inside)
        return told


class _Clocks:
    """The clock of each thread that calls CUDA, and of each process that of its busiest thread."""

    def __init__(self, host: Host, graph: DependencyGraph, times: Times) -> None:
        self.of_thread: dict[int, _Clock] = {}
        self.of_process: dict[int, _Clock] = {}
        by_calls = np.argsort(np.bincount(graph.calls.thread, minlength=graph.threads), kind="stable")
        for number in by_calls.tolist():  # the busiest comes last
            mine = np.flatnonzero(graph.calls.thread == number)
            if len(mine):
                recorded, replayed = (
                    np.column_stack((of.call_begin[mine], of.call_end[mine])).reshape(-1)
                    for of in (graph.recorded, times)
                )
                clock = _Clock(recorded, furthest(replayed))
                self.of_thread[int(host.threads[number])] = clock
                self.of_process[int(host.calls["pid"][graph.call_row[mine[0]]])] = clock

    def moved(self, rows: Rows) -> Rows:
        """The same rows, each at the times of its thread or process."""
        start, end, pids = rows["start_ns"].copy(), rows["end_ns"].copy(), rows["pid"]
        owner = thread(rows) if "tid" in rows else pids
        known = self.of_thread if "tid" in rows else self.of_process
        first, number = np.unique(owner, return_index=True, return_inverse=True)[1:]
        for position, row in enumerate(first.tolist()):
            clock = known.get(int(owner[row])) or self.of_process.get(int(pids[row]))
            if clock is not None:
                mine = np.flatnonzero(number.reshape(-1) == position)
                start[mine], end[mine] = clock.told(start[mine]), clock.told(end[mine])
        return _with_times(rows, start, end)


def _gone_calls(trace: Trace, graph: DependencyGraph, times: Times) -> NDArray[np.bool_]:
    """Which of all calls are not made any more: CUDA calls without time, and without work that is left."""
    there = graph.operations.flags & OperationFlag.GONE == 0
    launches = np.zeros(len(graph.calls) + 1, np.bool_)
    launches[graph.operations.call[there]] = True
    was = graph.recorded.call_end > graph.recorded.call_begin
    gone = was & (times.call_end == times.call_begin) & ~launches[:-1]
    calls = trace[Table.CALLS]
    is_cuda = np.isin(calls.codes("layer"), [calls.strings.code(layer) for layer in CUDA_LAYERS])
    of_all = np.zeros(len(calls), np.bool_)
    of_all[np.flatnonzero(is_cuda)] = gone[graph.node_of_call]
    return of_all

"""A trace as it would be with changes: the scenario of a whole run and its edits in, a trace of the same kind out.

Kernels, copies, graphs and calls happen when the replay says. Whatever else a thread did moves with its calls: between
two of them time is stretched or shrunk evenly, and a thread without calls follows the busiest one of its process. What
is gone is left out: operations, and calls that take no time and launch nothing that is left.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from gpuledger.ledger.activity import CUDA_LAYERS, GRAPH_FAMILY, Activities, State
from gpuledger.ledger.host import Host
from gpuledger.ledger.ranges import thread
from gpuledger.replay.edits import Edit, apply_edits
from gpuledger.replay.graph import DependencyGraph, OperationFlag, Times
from gpuledger.replay.passes import replay_times
from gpuledger.replay.scenario import Scenario
from gpuledger.trace.keys import RowsByKey, is_among
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, furthest
from gpuledger.trace.tables import Rows, Table


def replayed_trace(model: Scenario, *edits: Edit) -> Trace:
    """What would have been recorded with these changes; for a scenario of the whole run."""
    replay, trace = Replay(model, *edits), model.trace
    tables = {table: replay.clocks.move(rows) for table, rows in trace.tables.items()}
    tables |= _operations(trace, model.part.work, replay.graph, replay.times)
    if Table.CALLS in tables:
        tables[Table.CALLS] = tables[Table.CALLS].where(~_gone_calls(trace, replay.graph, replay.times))
    return replace(trace, tables=tables, places=None)  # rows may be gone


class Replay:
    """A whole run with changes: its graph, when everything happens, and where host threads are then."""

    def __init__(self, model: Scenario, *edits: Edit) -> None:
        if not model.is_whole:
            raise ValueError("only some steps are replayed")
        self.graph = apply_edits(model.graph, edits)
        self.times = replay_times(self.graph)
        self.clocks = _Clocks(model.part.host, self.graph, self.times)
        self.is_gone = self.graph.operations.flags & OperationFlag.GONE != 0


def _operations(trace: Trace, work: Activities, graph: DependencyGraph, times: Times) -> dict[Table, Rows]:
    """Those that are left, at their new times; rows that took no time are left out, as in the books."""
    is_copy = work.state == State.COPY
    is_graph = ~is_copy & (work.family == work.families.index(GRAPH_FAMILY))
    runs = graph.operations.flags & OperationFlag.GONE == 0
    moved = {}
    of_table: Mapping[Table, NDArray[np.bool_]] = {
        Table.KERNELS: ~is_copy & ~is_graph,
        Table.COPIES: is_copy,
        Table.GRAPHS: is_graph,
    }
    for table, mine in of_table.items():
        if table in trace.tables:
            rows = np.flatnonzero(mine & runs)
            rows = rows[np.argsort(work.row[rows], kind="stable")]
            there = trace[table].at(work.row[rows])
            moved[table] = there.replaced("start_ns", times.start[rows]).replaced("end_ns", times.end[rows])
    return moved


class _Clocks:
    """From recorded instants to those of the replay: of each thread that calls CUDA, of each process by its busiest. A
    clock is the instants of a thread's calls, as recorded and in the replay."""

    def __init__(self, host: Host, graph: DependencyGraph, times: Times) -> None:
        self.of_thread: dict[int, tuple[Ints, Ints]] = {}
        self.of_process: dict[int, tuple[Ints, Ints]] = {}
        by_calls = np.argsort(np.bincount(graph.calls.thread, minlength=graph.threads), kind="stable")
        for number in by_calls.tolist():  # the busiest comes last
            mine = np.flatnonzero(graph.calls.thread == number)
            if len(mine):
                recorded, replayed = (
                    np.column_stack((of.call_begin[mine], of.call_end[mine])).reshape(-1)
                    for of in (graph.recorded, times)
                )
                clock = recorded, furthest(replayed)
                self.of_thread[int(host.threads[number])] = clock
                self.of_process[int(host.calls["pid"][graph.call_row[mine[0]]])] = clock

    def move(self, rows: Rows) -> Rows:
        """The same rows of any table, each at the times of its thread or process."""
        start, end, pids = rows["start_ns"].copy(), rows["end_ns"].copy(), rows["pid"]
        owner = thread(rows) if "tid" in rows else pids
        known = self.of_thread if "tid" in rows else self.of_process
        for identity, mine in RowsByKey.of(owner):
            clock = known.get(identity) or self.of_process.get(int(pids[mine[0]]))
            if clock is not None:
                start[mine], end[mine] = _in_replay(*clock, start[mine]), _in_replay(*clock, end[mine])
        return rows.replaced("start_ns", start).replaced("end_ns", end)


def _in_replay(recorded_ns: Ints, replayed_ns: Ints, instants: Ints) -> Ints:
    """Instants of the recording in the replay; outside all calls by as much as the next one."""
    inside = np.clip(instants, recorded_ns[0], recorded_ns[-1])
    base = int(replayed_ns[0])  # floats hold months of nanoseconds, not the time since 1970
    between = np.interp(inside - recorded_ns[0], recorded_ns - recorded_ns[0], replayed_ns - base)
    moved: Ints = np.rint(between).astype(np.int64) + base + (instants - inside)
    return moved


def _gone_calls(trace: Trace, graph: DependencyGraph, times: Times) -> NDArray[np.bool_]:
    """Which of all calls are not made any more: CUDA calls without time, and without work that is left."""
    there = graph.operations.flags & OperationFlag.GONE == 0
    launches = np.zeros(len(graph.calls) + 1, np.bool_)
    launches[graph.operations.call[there]] = True
    was = graph.recorded.call_end > graph.recorded.call_begin
    gone = was & (times.call_end == times.call_begin) & ~launches[:-1]
    calls = trace[Table.CALLS]
    is_cuda = is_among(calls.codes("layer"), [calls.strings.code(layer) for layer in CUDA_LAYERS])
    of_all = np.zeros(len(calls), np.bool_)
    of_all[np.flatnonzero(is_cuda)] = gone[graph.node_of_call]
    return of_all

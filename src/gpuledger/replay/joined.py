"""Several graphs as one: those of a job's ranks, each with what its clock is ahead, in; one graph on one clock out.

Nothing of one depends on the others yet: `rendezvous` says where they meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate

import numpy as np

from gpuledger.replay.graph import (
    NEVER,
    CallNodes,
    DependencyGraph,
    GraphEvent,
    OperationNodes,
    Times,
)
from gpuledger.trace.spans import Ints


@dataclass(frozen=True, slots=True, eq=False)
class JoinedGraphs:
    """One graph, and which of those that were given each of its calls and operations is from."""

    graph: DependencyGraph
    of_call: Ints
    of_operation: Ints
    first_call: tuple[int, ...]
    first_operation: tuple[int, ...]
    """Where those of each graph begin."""


def joined(graphs: Sequence[DependencyGraph], ahead_ns: Sequence[int]) -> JoinedGraphs:
    """All of them, on the clock that the others are ahead of."""
    first_call = _starts([len(graph.calls) for graph in graphs])
    first_operation = _starts([len(graph.operations) for graph in graphs])
    first_thread = _starts([graph.threads for graph in graphs])
    first_stream = _starts([graph.streams for graph in graphs])
    first_wait = _starts([len(graph.wait) for graph in graphs])
    moved = [
        _moved(graph, ahead, *numbers)
        for graph, ahead, *numbers in zip(
            graphs, ahead_ns, first_call, first_operation, first_thread, first_stream, first_wait, strict=False
        )
    ]

    def column(values: Callable[[DependencyGraph], Ints]) -> Ints:
        return np.concatenate([values(graph) for graph in moved])

    calls, operations, recorded = (
        {
            field.name: np.concatenate([getattr(getattr(graph, part), field.name) for graph in moved])
            for field in fields(table)
        }
        for part, table in (("calls", CallNodes), ("operations", OperationNodes), ("recorded", Times))
    )
    calls["first_wait"] = np.append(
        np.concatenate([graph.calls.first_wait[:-1] for graph in moved]), first_wait[-1]
    ).astype(np.int64)
    order = column(lambda graph: graph.order)
    instant = np.concatenate(
        [_instants(graph, begin, at) for graph, begin, at in zip(moved, first_call, first_operation, strict=False)]
    )
    whole = DependencyGraph(
        order=order[np.argsort(instant, kind="stable")],
        calls=CallNodes(**calls),
        wait=column(lambda graph: graph.wait),
        wait_ns=column(lambda graph: graph.wait_ns),
        operations=OperationNodes(**operations),
        recorded=Times(**recorded),
        call_row=column(lambda graph: graph.call_row),
        node_of_call=column(lambda graph: graph.node_of_call),
        threads=first_thread[-1],
        streams=first_stream[-1],
        groups=0,
    )
    return JoinedGraphs(
        whole,
        np.repeat(np.arange(len(graphs)), np.diff(first_call)),
        np.repeat(np.arange(len(graphs)), np.diff(first_operation)),
        tuple(first_call[:-1]),
        tuple(first_operation[:-1]),
    )


def _starts(counts: Sequence[int]) -> list[int]:
    """Where each part begins if they are put one after another, and where the last ends."""
    return list(accumulate(counts, initial=0))


def _moved(
    graph: DependencyGraph, ahead_ns: int, call: int, operation: int, thread: int, stream: int, wait: int
) -> DependencyGraph:
    """The same by the numbers and the clock of the whole."""
    calls, work, recorded = graph.calls, graph.operations, graph.recorded
    first = np.unique(calls.thread, return_index=True)[1]
    code = calls.code_ns.copy()
    code[first] -= ahead_ns  # before a thread's first call stands the time at which it begins
    has_its_time = (work.call < 0) & (work.call_ns != NEVER)
    kind = graph.order & 3
    return replace(
        graph,
        order=graph.order + 4 * np.where(kind == GraphEvent.OPERATION, operation, call),
        calls=replace(
            calls,
            thread=calls.thread + np.int32(thread),
            code_ns=code,
            after=_shifted(calls.after, call),
            queue=_shifted(calls.queue, operation),
            first_wait=calls.first_wait + wait,
        ),
        wait=graph.wait + operation,
        operations=replace(
            work,
            call=_shifted(work.call, call),
            call_ns=np.where(has_its_time, work.call_ns - ahead_ns, work.call_ns),
            stream=work.stream + np.int32(stream),
            other=_shifted(work.other, operation),
        ),
        recorded=replace(
            recorded,
            call_begin=recorded.call_begin - ahead_ns,
            call_end=recorded.call_end - ahead_ns,
            start=recorded.start - ahead_ns,
            end=recorded.end - ahead_ns,
            past=recorded.past + operation,
        ),
        node_of_call=graph.node_of_call + call,
    )


def _shifted(position: Ints, by: int) -> Ints:
    return np.where(position >= 0, position + by, position)


def _instants(graph: DependencyGraph, first_call: int, first_operation: int) -> Ints:
    """When each event of a moved graph's order was."""
    kind, place = graph.order & 3, graph.order >> 2
    columns = {
        GraphEvent.CALL_ENDS: (graph.recorded.call_end, first_call),
        GraphEvent.CALL_BEGINS: (graph.recorded.call_begin, first_call),
        GraphEvent.OPERATION: (graph.recorded.start, first_operation),
    }
    instant = np.empty(len(kind), np.int64)
    for event, (times, first) in columns.items():
        rows = np.flatnonzero(kind == event)
        instant[rows] = times[place[rows] - first]
    return instant

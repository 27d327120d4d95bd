"""The dependency graph of a trace: calls and operations as columns, and what each of them waits for, with its lag.

Calls are the outermost CUDA calls of each thread; between them lies the host's own code. Operations are all that ran on
GPUs. An edge says that one begins, or ends, no sooner than some time after another has ended. Edits replace columns;
`forward_pass` says when everything would then happen.

Several graphs as one: those of a job's ranks, each with what its clock is ahead, in; one graph on one clock out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum, IntFlag
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.trace.keys import Positions
from gpuledger.trace.spans import Ints

NEVER: Final = -(1 << 60)
"""A lag with which an edge holds nothing up."""


class GraphEvent(IntEnum):
    """What `order` consists of: an event is its position times four plus this."""

    CALL_ENDS = 0
    CALL_BEGINS = 1
    OPERATION = 2


class OperationFlag(IntFlag):
    """How an operation is replayed."""

    NONE = 0
    FROM_BEGIN = 1
    """Its lag counts from where its call begins, as the call waits for it."""
    ASIDE = 2
    """It runs on a stream of its own, and nothing in its old one waits for it."""
    GONE = 4
    """It is not there; whoever waits for it waits for what came before it."""


@dataclass(frozen=True, slots=True, eq=False)
class CallNodes:
    """The host's side. Columns of equal length, but for `first_wait`, which has one more; -1 for no position."""

    thread: NDArray[np.int32]
    code_ns: Ints
    """The host's own code since the thread's last call; of a thread's first call the time at which it begins."""
    duration_ns: Ints
    """What it takes by itself, without waiting."""
    after: Ints
    """The call of another thread that hands over to it."""
    after_ns: Ints
    queue: Ints
    """The operation that must have ended for its own to have room in the queue."""
    queue_ns: Ints
    first_wait: Ints
    """Where its waits begin; they end where the next call's begin."""
    blocks: NDArray[np.int8]
    """Whether it may wait, so that its end is an event of its own."""

    def __len__(self) -> int:
        return len(self.thread)


@dataclass(frozen=True, slots=True, eq=False)
class OperationNodes:
    """The devices' side. Columns of equal length, in the order of the trace's activities."""

    call: Ints
    """The call that puts it into its stream; -1: it begins at `call_ns`."""
    call_ns: Ints
    stream: NDArray[np.int32]
    stream_ns: Ints
    """From when its stream has come past all before it."""
    duration_ns: Ints
    other: Ints
    """An operation elsewhere that it waits for."""
    other_ns: Ints
    group: NDArray[np.int32]
    """Those that meet, and end their durations after the last has begun."""
    flags: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.call)


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """When everything happens, and what it is due to."""

    call_begin: Ints
    call_end: Ints
    begin_by: Ints
    """The call after which it begins: its thread's last one, or one that handed over."""
    end_by: Ints
    """The operation for which it waited; -1: none."""
    start: Ints
    end: Ints
    past: Ints
    """Up to each operation, the one of its stream that ends last."""
    by: Ints
    """What its start is due to: a call or an operation, as `bound` says."""
    bound: NDArray[np.int8]


class Bound(IntEnum):
    """What an operation's start is due to."""

    AT_ITS_TIME = 0
    BY_CALL = 1
    BY_STREAM = 2
    BY_OPERATION = 3
    BY_RENDEZVOUS = 4


@dataclass(frozen=True, slots=True, eq=False)
class DependencyGraph:
    """All of it. Every event comes in `order` after those that it depends on."""

    order: Ints
    calls: CallNodes
    wait: Ints
    """The operations that calls wait for, call by call."""
    wait_ns: Ints
    operations: OperationNodes
    recorded: Times
    """As it was; only the times are filled in."""
    call_row: Positions
    """Each call's position among the host's CUDA calls."""
    node_of_call: Positions
    """For each of the host's CUDA calls the outermost call around it."""
    threads: int
    streams: int
    groups: int

    def launched_by(self, calls: Positions) -> NDArray[np.bool_]:
        """Which operations these calls put on a device."""
        chosen = np.zeros(len(self.calls) + 1, np.bool_)
        chosen[calls] = True
        chosen[-1] = False  # what no call launched
        launched: NDArray[np.bool_] = chosen[self.operations.call]
        return launched

    def calls_of(self, operations: Positions) -> Positions:
        """The calls that put these operations on a device, each once."""
        calls = np.unique(self.operations.call[operations])
        return calls[calls >= 0]


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

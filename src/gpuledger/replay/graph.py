"""The dependency graph of a trace: calls and operations as columns, and what each of them waits for, with its lag.

Calls are the outermost CUDA calls of each thread; between them lies the host's own code. Operations are all that ran on
GPUs. An edge says that one begins, or ends, no sooner than some time after another has ended. Edits replace columns;
`passes` says when everything would then happen. `joined` makes one graph of those of a job's ranks, on one clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum, IntFlag
from typing import Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from gpuledger.trace.keys import Positions, distinct, group, same
from gpuledger.trace.spans import Ints

NEVER: Final = -(1 << 60)  # a lag with which an edge holds nothing up


class GraphEvent(IntEnum):
    """What `order` consists of: an event is its position times four plus this."""

    CALL_ENDS = 0
    CALL_BEGINS = 1
    OPERATION = 2


class OperationFlag(IntFlag):
    """How an operation is replayed."""

    NONE = 0
    FROM_BEGIN = 1  # its lag counts from where its call begins, as the call waits for it
    ASIDE = 2  # it runs on a stream of its own, and nothing in its old one waits for it
    GONE = 4  # it is not there; whoever waits for it waits for what came before it


class CallNodes(Struct, frozen=True, eq=False):
    """The host's side. Columns of equal length, but for `first_wait`, which has one more; -1 for no position."""

    thread: NDArray[np.int32]
    code_ns: Ints
    """The host's own code since the thread's last call; of a thread's first call the time at which it begins."""
    duration_ns: Ints  # what it takes by itself, without waiting
    after: Ints  # the call of another thread that hands over to it
    after_ns: Ints
    queue: Ints  # the operation that must have ended for its own to have room in the queue
    queue_ns: Ints
    first_wait: Ints  # where its waits begin; they end where the next call's begin
    blocks: NDArray[np.int8]  # whether it may wait, so that its end is an event of its own

    def __len__(self) -> int:
        return len(self.thread)


class OperationNodes(Struct, frozen=True, eq=False):
    """The devices' side. Columns of equal length, in the order of the trace's activities."""

    call: Ints  # the call that puts it into its stream; -1: it begins at `call_ns`
    call_ns: Ints
    stream: NDArray[np.int32]
    stream_ns: Ints  # from when its stream has come past all before it
    duration_ns: Ints
    other: Ints  # an operation elsewhere that it waits for
    other_ns: Ints
    group: NDArray[np.int32]  # those that meet, and end their durations after the last has begun
    flags: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.call)


class Times(Struct, frozen=True, eq=False):
    """When everything happens, and what it is due to."""

    call_begin: Ints
    call_end: Ints
    begin_by: Ints  # the call after which it begins: its thread's last one, or one that handed over
    end_by: Ints  # the operation for which it waited; -1: none
    start: Ints
    end: Ints
    past: Ints  # up to each operation, the one of its stream that ends last
    by: Ints  # what its start is due to: a call or an operation, as `bound` says
    bound: NDArray[np.int8]


class Bound(IntEnum):
    """What an operation's start is due to."""

    AT_ITS_TIME = 0
    BY_CALL = 1
    BY_STREAM = 2
    BY_OPERATION = 3
    BY_RENDEZVOUS = 4


class DependencyGraph(Struct, frozen=True, eq=False):
    """All of it. Every event comes in `order` after those that it depends on."""

    order: Ints
    calls: CallNodes
    wait: Ints  # the operations that calls wait for, call by call
    wait_ns: Ints
    operations: OperationNodes
    recorded: Times  # as it was; only the times are filled in
    call_row: Positions  # each call's position among the host's CUDA calls
    node_of_call: Positions  # for each of the host's CUDA calls the outermost call around it
    threads: int
    streams: int
    groups: int
    opens_ns: int | None = None
    """Where the first step opens on the host, where a step may hold code before anything is called; else None."""

    def code_before(self, calls: Positions) -> Ints:
        """The host's own code before these calls. Before a thread's first lies none that is known of. But for the first
        of all, where the step that it belongs to opened before it."""
        first = np.full(self.threads, len(self.calls))
        np.minimum.at(first, self.calls.thread, np.arange(len(self.calls)))
        code: Ints = np.where(first[self.calls.thread[calls]] == calls, 0, self.calls.code_ns[calls])
        if self.opens_ns is not None and len(self.calls):
            earliest = int(self.recorded.call_begin.argmin())
            since_ns = max(int(self.calls.code_ns[earliest]) - self.opens_ns, 0)
            code = np.where(calls == earliest, since_ns, code)
        return code

    def launched_by(self, calls: Positions) -> NDArray[np.bool_]:
        """Which operations these calls put on a device."""
        chosen = np.zeros(len(self.calls) + 1, np.bool_)
        chosen[calls] = True
        chosen[-1] = False  # what no call launched
        launched: NDArray[np.bool_] = chosen[self.operations.call]
        return launched

    def calls_of(self, operations: Positions) -> Positions:
        """The calls that put these operations on a device, each once."""
        calls: Positions = distinct(self.operations.call[operations])
        return calls[calls >= 0]


class JoinedGraphs(Struct, frozen=True, eq=False):
    """One graph, and which of those that were given each of its calls and operations is from."""

    graph: DependencyGraph
    of_call: Ints
    of_operation: Ints
    first_call: tuple[int, ...]
    first_operation: tuple[int, ...]  # where those of each graph begin


_OF_ONE: Final = ("call_row", "node_of_call", "begin_by", "end_by", "past", "by", "bound")
"""Columns of a graph that one of several has no use for, or that are not filled in before it is replayed."""


def join_graphs(graphs: Iterable[DependencyGraph], ahead_ns: Sequence[int]) -> JoinedGraphs:
    """All of them, on the clock that the others are ahead of. None is asked for before the last has been taken over."""
    columns: dict[tuple[str, str], list[NDArray[Any]]] = {}
    before = [np.zeros(5, np.int64)]
    for graph, ahead in zip(graphs, ahead_ns, strict=True):
        moved = _move(graph, ahead, *before[-1].tolist())
        tables: dict[str, Any] = {
            "": moved,
            "calls": moved.calls,
            "operations": moved.operations,
            "recorded": moved.recorded,
        }
        for part, table in {"": moved, **tables}.items():
            for name in type(table).__struct_fields__:
                if name not in _OF_ONE and isinstance(getattr(table, name), np.ndarray):
                    columns.setdefault((part, name), []).append(getattr(table, name))
        sizes = len(graph.calls), len(graph.operations), graph.threads, graph.streams, len(graph.wait)
        before.append(before[-1] + np.array(sizes))
    firsts = np.array(before)
    columns["calls", "first_wait"] = [first[:-1] for first in columns["calls", "first_wait"]] + [firsts[-1:, 4]]

    def column(name: str, part: str = "") -> NDArray[Any]:
        return np.concatenate(columns.pop((part, name)))  # the parts go as the whole comes

    calls, operations = (
        {name: column(name, part) for name in table.__struct_fields__}
        for part, table in (("calls", CallNodes), ("operations", OperationNodes))
    )
    recorded = {name: column(name, "recorded") for name in ("call_begin", "call_end", "start", "end")}
    order = column("order")
    instant = np.empty(len(order), np.int64)
    for event, times in (
        (GraphEvent.CALL_ENDS, recorded["call_end"]),
        (GraphEvent.CALL_BEGINS, recorded["call_begin"]),
        (GraphEvent.OPERATION, recorded["start"]),
    ):
        rows = np.flatnonzero(order & 3 == event)
        instant[rows] = times[order[rows] >> 2]
    nothing, no_call = same(-1, len(operations["call"])), same(-1, len(calls["thread"]))
    due_to = {"begin_by": no_call, "end_by": no_call, "by": nothing, "bound": same(0, len(nothing), np.int8)}
    whole = DependencyGraph(
        order=order[np.argsort(instant, kind="stable")],
        calls=CallNodes(**calls),
        wait=column("wait"),
        wait_ns=column("wait_ns"),
        operations=OperationNodes(**operations),
        recorded=Times(**recorded, **due_to, past=np.arange(len(nothing))),
        call_row=np.empty(0, np.intp),  # these are of several hosts
        node_of_call=np.empty(0, np.intp),
        threads=int(firsts[-1, 2]),
        streams=int(firsts[-1, 3]),
        groups=0,
    )
    of_call, of_operation = (np.repeat(np.arange(len(firsts) - 1), np.diff(firsts[:, part])) for part in (0, 1))
    first_call, first_operation = (tuple(firsts[:-1, part].tolist()) for part in (0, 1))
    return JoinedGraphs(whole, of_call, of_operation, first_call, first_operation)


def _move(
    graph: DependencyGraph, ahead_ns: int, call: int, operation: int, thread: int, stream: int, wait: int
) -> DependencyGraph:
    """The same by the numbers and the clock of the whole."""
    calls, work, recorded = graph.calls, graph.operations, graph.recorded
    first = group(calls.thread)[0]
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
            after=_shift(calls.after, call),
            queue=_shift(calls.queue, operation),
            first_wait=calls.first_wait + wait,
        ),
        wait=graph.wait + operation,
        operations=replace(
            work,
            call=_shift(work.call, call),
            call_ns=np.where(has_its_time, work.call_ns - ahead_ns, work.call_ns),
            stream=work.stream + np.int32(stream),
            other=_shift(work.other, operation),
        ),
        recorded=replace(
            recorded,
            call_begin=recorded.call_begin - ahead_ns,
            call_end=recorded.call_end - ahead_ns,
            start=recorded.start - ahead_ns,
            end=recorded.end - ahead_ns,
        ),
    )


def _shift(position: Ints, by: int) -> Ints:
    return np.where(position >= 0, position + by, position)

"""Dependency graphs drawn at random: of random exports, and of columns that fit together but come from no trace."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gpuledger import open_trace
from gpuledger.ledger.host import host_and_activities
from gpuledger.replay.build import dependency_graph
from gpuledger.replay.graph import NEVER, CallNodes, DependencyGraph, GraphEvent, OperationNodes, Times
from gpuledger.trace.model import Trace
from support.profiles.random_export import write


def graph_of(trace: Trace, *, residuals: bool = True) -> DependencyGraph:
    """The graph of a trace."""
    return dependency_graph(trace, *host_and_activities(trace), residuals=residuals)


def graph_of_export(folder: Path, number: int) -> DependencyGraph:
    """The graph of a random export."""
    path = folder / "random.sqlite"
    write(path, number)
    return graph_of(open_trace(path))


def random_graph(seed: int) -> DependencyGraph:
    """Any columns that fit together: every kind of edge, flag and meeting, many ties, in an order of its own."""
    draw = np.random.default_rng(seed)
    calls, operations = (int(count) for count in draw.integers(0, 12, 2))
    threads, streams, groups = (int(count) for count in draw.integers(1, 4, 3))

    def lags(count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.where(draw.random(count) < 0.15, NEVER, draw.integers(-3, 10, count))

    def positions(count: int, among: int, absent: float = 0.5) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        drawn = draw.integers(0, max(among, 1), count)
        return np.where((draw.random(count) < absent) | (among == 0), -1, drawn)

    waits = draw.integers(0, 3, calls) * (operations > 0)
    first_wait = np.append(0, np.cumsum(waits)).astype(np.int64)
    nodes = CallNodes(
        thread=draw.integers(0, threads, calls).astype(np.int32),
        code_ns=draw.integers(0, 10, calls),
        duration_ns=draw.integers(0, 10, calls),
        after=positions(calls, calls, absent=0.8),
        after_ns=lags(calls),
        queue=positions(calls, operations, absent=0.8),
        queue_ns=lags(calls),
        first_wait=first_wait,
        blocks=(waits > 0).astype(np.int8),
    )
    work = OperationNodes(
        call=positions(operations, calls, absent=0.3),
        call_ns=draw.integers(-3, 20, operations),
        stream=draw.integers(0, streams, operations).astype(np.int32),
        stream_ns=lags(operations),
        duration_ns=draw.integers(0, 10, operations),
        other=positions(operations, operations, absent=0.7),
        other_ns=lags(operations),
        group=positions(operations, groups, absent=0.6).astype(np.int32),
        flags=draw.integers(0, 8, operations).astype(np.int8),
    )
    events = np.concatenate(
        (
            np.flatnonzero(waits) * 4 + GraphEvent.CALL_ENDS,
            np.arange(calls) * 4 + GraphEvent.CALL_BEGINS,
            np.arange(operations) * 4 + GraphEvent.OPERATION,
        )
    )
    recorded = Times(
        call_begin=draw.integers(0, 50, calls),
        call_end=draw.integers(0, 50, calls),
        begin_by=np.full(calls, -1),
        end_by=np.full(calls, -1),
        start=draw.integers(0, 50, operations),
        end=draw.integers(0, 50, operations),
        past=np.arange(operations),
        by=np.full(operations, -1),
        bound=np.zeros(operations, np.int8),
    )
    return DependencyGraph(
        order=draw.permutation(events),
        calls=nodes,
        wait=draw.integers(0, max(operations, 1), int(first_wait[-1])),
        wait_ns=lags(int(first_wait[-1])),
        operations=work,
        recorded=recorded,
        call_row=np.arange(calls),
        node_of_call=np.arange(calls),
        threads=threads,
        streams=streams,
        groups=groups,
    )

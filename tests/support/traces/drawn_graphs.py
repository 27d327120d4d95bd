"""Small dependency graphs of every shape, for laws: events in an order in which each depends on earlier ones alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gpuledger.replay.graph import (
    NEVER,
    CallNodes,
    DependencyGraph,
    GraphEvent,
    OperationFlag,
    OperationNodes,
    Times,
)

THREADS, STREAMS = 2, 2


@dataclass
class _Growing:
    order: list[int] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    waits: list[list[tuple[int, int]]] = field(default_factory=list)
    operations: list[dict[str, Any]] = field(default_factory=list)
    groups: int = 0

    def graph(self) -> DependencyGraph:
        calls, operations = len(self.calls), len(self.operations)
        waits = [wait for of_call in self.waits for wait in of_call]
        first = np.cumsum([0, *map(len, self.waits)])
        none, absent = np.full(calls, -1), np.full(operations, -1)
        zero, nothing = np.zeros(calls, np.int64), np.zeros(operations, np.int64)
        return DependencyGraph(
            order=np.array(self.order, np.int64),
            calls=CallNodes(
                thread=_column(self.calls, "thread", np.int32),
                code_ns=_column(self.calls, "code_ns"),
                duration_ns=_column(self.calls, "duration_ns"),
                after=_column(self.calls, "after"),
                after_ns=_column(self.calls, "after_ns"),
                queue=_column(self.calls, "queue"),
                queue_ns=_column(self.calls, "queue_ns"),
                first_wait=first.astype(np.int64),
                blocks=_column(self.calls, "blocks", np.int8),
            ),
            wait=np.array([operation for operation, _ in waits], np.int64),
            wait_ns=np.array([lag for _, lag in waits], np.int64),
            operations=OperationNodes(
                call=_column(self.operations, "call"),
                call_ns=_column(self.operations, "call_ns"),
                stream=_column(self.operations, "stream", np.int32),
                stream_ns=_column(self.operations, "stream_ns"),
                duration_ns=_column(self.operations, "duration_ns"),
                other=_column(self.operations, "other"),
                other_ns=_column(self.operations, "other_ns"),
                group=_column(self.operations, "group", np.int32),
                flags=_column(self.operations, "flags", np.int8),
            ),
            recorded=Times(
                zero, zero, none, none, nothing, nothing, np.arange(operations), absent, np.zeros(operations, np.int8)
            ),
            call_row=np.arange(calls),
            node_of_call=np.arange(calls),
            threads=THREADS,
            streams=STREAMS,
            groups=self.groups,
        )


def _column(rows: list[dict[str, Any]], name: str, dtype: type = np.int64) -> Any:
    return np.array([row[name] for row in rows], dtype)


@st.composite
def graphs(draw: st.DrawFn) -> DependencyGraph:
    """A graph with at least one operation that runs."""
    growing, lags = _Growing(), st.integers(-2, 6)

    def earlier(count: int) -> int:
        return draw(st.integers(-1, count - 1)) if count else -1

    def operation(stream: int, group: int = -1, *, of_call: int | None = None) -> None:
        call = earlier(len(growing.calls)) if of_call is None else of_call
        flags = OperationFlag.NONE if of_call is None else OperationFlag.FROM_BEGIN
        both = OperationFlag.ASIDE | OperationFlag.GONE
        changed = (OperationFlag.ASIDE,) if group >= 0 else (OperationFlag.ASIDE, OperationFlag.GONE, both)
        flags |= draw(st.sampled_from((OperationFlag.NONE,) * 4 + changed))
        growing.order.append(len(growing.operations) * 4 + GraphEvent.OPERATION)
        growing.operations.append(
            {
                "call": call,
                "call_ns": draw(lags if call >= 0 else st.integers(0, 30)),
                "stream": stream,
                "stream_ns": draw(st.one_of(lags, st.just(NEVER))),
                "duration_ns": draw(st.integers(1, 9)),
                "other": -1 if group >= 0 else earlier(len(growing.operations)),
                "other_ns": draw(lags),
                "group": group,
                "flags": flags,
            }
        )

    def call() -> None:
        at, blocks = len(growing.calls), draw(st.booleans()) and len(growing.operations) > 0
        thread = draw(st.integers(0, THREADS - 1))
        growing.order.append(at * 4 + GraphEvent.CALL_BEGINS)
        growing.calls.append(
            {
                "thread": thread,
                "code_ns": draw(st.integers(0, 9)),
                "duration_ns": draw(st.integers(0, 9)),
                "after": earlier(at),
                "after_ns": draw(st.integers(0, 6)),
                "queue": -1 if blocks else earlier(len(growing.operations)),
                "queue_ns": draw(st.integers(0, 3)),
                "blocks": int(blocks),
            }
        )
        growing.waits.append([])
        if blocks:
            if draw(st.booleans()):
                operation(draw(st.integers(0, STREAMS - 1)), of_call=at)
            waited = st.tuples(st.integers(0, len(growing.operations) - 1), lags)
            growing.waits[at] = draw(st.lists(waited, min_size=1, max_size=2))
            growing.order.append(at * 4 + GraphEvent.CALL_ENDS)

    def meeting(streams: int = STREAMS) -> None:
        for stream in range(streams):
            operation(stream, growing.groups)
        growing.groups += 1

    def alone() -> None:
        operation(draw(st.integers(0, STREAMS - 1)))

    for add in draw(st.lists(st.sampled_from((call, call, alone, alone, meeting)), max_size=14)):
        add()
    meeting(1)
    return growing.graph()

"""What lies in ranges: calls on their threads, the code between those, and what they launched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuledger.ledger.ranges import thread
from gpuledger.replay.scenario import Scenario
from gpuledger.trace.keys import Positions
from gpuledger.trace.spans import Ints, covered, holds, union
from gpuledger.trace.tables import Rows


@dataclass(frozen=True, slots=True, eq=False)
class RangeParts:
    """Positions among a graph's calls and operations."""

    calls: Positions
    """Those that begin inside."""
    code_ns: Ints
    """For each of the graph's calls, how much of the code before it lies inside."""
    operations: Positions
    """What the calls launched."""


def range_parts(scenario: Scenario, ranges: Rows) -> RangeParts:
    """What of the graph lies in these ranges, each on its own thread."""
    graph, threads = scenario.graph, thread(ranges)
    recorded = graph.recorded
    inside = np.zeros(len(graph.calls) + 1, np.bool_)  # the last is for what no call launched
    code = np.zeros(len(graph.calls), np.int64)
    for number, thread_id in enumerate(scenario.part.host.threads.tolist()):
        own = ranges.where(threads == thread_id)
        mine = np.flatnonzero(graph.calls.thread == number)
        if not len(own) or not len(mine):
            continue
        opened, begin = union(own["start_ns"], own["end_ns"]), recorded.call_begin[mine]
        inside[mine] = holds(opened, begin)
        code[mine] = covered(opened, np.append(begin[:1], recorded.call_end[mine][:-1]), begin)
    return RangeParts(np.flatnonzero(inside[:-1]), code, np.flatnonzero(inside[graph.operations.call]))

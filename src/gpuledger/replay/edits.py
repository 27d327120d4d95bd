"""Changes to a dependency graph: the graph in, the graph with other columns out. None of them moves anything itself.

Calls are positions among the graph's calls, operations among its operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final

import numpy as np
from msgspec.structs import replace

from gpuledger.replay.graph import NEVER, DependencyGraph, OperationFlag
from gpuledger.trace.keys import Positions
from gpuledger.trace.spans import Ints
from gpuledger.trace.sweep import expand

Edit = Callable[[DependencyGraph], DependencyGraph]

GRAPH_TURNAROUND_NS: Final = 500  # what a device needs from one kernel to the next inside a CUDA graph


def apply_edits(graph: DependencyGraph, edits: Sequence[Edit]) -> DependencyGraph:
    """The graph with several changes, one after the other."""
    return reduce(lambda changed, edit: edit(changed), edits, graph)


def without_waits(graph: DependencyGraph, calls: Positions) -> DependencyGraph:
    """These calls return at once; what they put on the device stays."""
    _, position = expand(graph.calls.first_wait[calls], graph.calls.first_wait[calls + 1])
    lag = graph.wait_ns.copy()
    lag[position] = NEVER
    return replace(graph, wait_ns=lag)


def without_calls(graph: DependencyGraph, calls: Positions, code_ns: Ints | None = None) -> DependencyGraph:
    """These calls go, with what they put on the device, and with the code before them, or as much as is given."""
    duration, code, queue = graph.calls.duration_ns.copy(), graph.calls.code_ns.copy(), graph.calls.queue.copy()
    duration[calls], queue[calls] = 0, -1
    before = graph.code_before(calls)
    code[calls] -= before if code_ns is None else np.minimum(code_ns, before)
    nodes = replace(graph.calls, duration_ns=duration, code_ns=code, queue=queue)
    changed = without_waits(replace(graph, calls=nodes), calls)
    return without_operations(changed, np.flatnonzero(graph.launched_by(calls)))


def without_operations(graph: DependencyGraph, operations: Positions) -> DependencyGraph:
    """These do not run; the calls that launched them stay."""
    flags = graph.operations.flags.copy()
    flags[operations] |= OperationFlag.GONE
    return replace(graph, operations=replace(graph.operations, flags=flags))


def with_durations(graph: DependencyGraph, operations: Positions, duration_ns: Ints) -> DependencyGraph:
    """These operations take as long as is given."""
    duration = graph.operations.duration_ns.copy()
    duration[operations] = duration_ns
    return replace(graph, operations=replace(graph.operations, duration_ns=duration))


def with_call_durations(graph: DependencyGraph, calls: Positions, duration_ns: Ints) -> DependencyGraph:
    """These calls take as long as is given, where they do not wait."""
    duration = graph.calls.duration_ns.copy()
    duration[calls] = duration_ns
    return replace(graph, calls=replace(graph.calls, duration_ns=duration))


def run_aside(graph: DependencyGraph, operations: Positions) -> DependencyGraph:
    """These run on a stream of their own: what waited for their end waits for their beginning."""
    work = graph.operations
    flags = work.flags.copy()
    flags[operations] |= OperationFlag.ASIDE
    moved = np.zeros(len(work) + 1, np.bool_)
    moved[operations] = True
    moved[-1] = False  # what waits for none
    lag = np.where(moved[work.other], work.other_ns - work.duration_ns[work.other], work.other_ns)
    return replace(graph, operations=replace(work, flags=flags, other_ns=lag))


def without_code(graph: DependencyGraph, calls: Positions, code_ns: Ints) -> DependencyGraph:
    """The host's own code before these calls takes so much less, as far as there is any."""
    code = graph.calls.code_ns.copy()
    less = np.minimum(code_ns, graph.code_before(calls))
    code[calls] -= less
    after = graph.calls.after_ns.copy()
    after[calls] = np.maximum(after[calls] - less, 0)
    return replace(graph, calls=replace(graph.calls, code_ns=code, after_ns=after))


def one_after_another(graph: DependencyGraph, operations: Positions, before: Positions) -> DependencyGraph:
    """Each begins no sooner than the one given ends, unless it waits for another one already."""
    free = graph.operations.other[operations] < 0
    other, lag = graph.operations.other.copy(), graph.operations.other_ns.copy()
    other[operations[free]], lag[operations[free]] = before[free], 0
    return replace(graph, operations=replace(graph.operations, other=other, other_ns=lag))


def handed_over_sooner(graph: DependencyGraph, calls: Positions, less_ns: Ints) -> DependencyGraph:
    """Other threads hand over to these calls so much sooner."""
    after_ns = graph.calls.after_ns.copy()
    after_ns[calls] -= less_ns
    return replace(graph, calls=replace(graph.calls, after_ns=after_ns))


def without_lags(graph: DependencyGraph, operations: Positions, less_ns: Ints) -> DependencyGraph:
    """These operations begin so much sooner after whatever they wait for, but not before they are launched."""
    work = graph.operations
    call, stream, other = work.call_ns.copy(), work.stream_ns.copy(), work.other_ns.copy()
    stream[operations] -= less_ns
    other[operations] -= less_ns
    since = call[operations]
    is_late = (work.call[operations] >= 0) & (since > 0)
    call[operations] = np.where(is_late, np.maximum(since - less_ns, 0), since)
    return replace(graph, operations=replace(work, call_ns=call, stream_ns=stream, other_ns=other))


def with_free_launches(graph: DependencyGraph, calls: Positions, code_ns: Ints) -> DependencyGraph:
    """These launches cost the host nothing, nor does so much of the code before them, as in a CUDA graph."""
    duration, queue = graph.calls.duration_ns.copy(), graph.calls.queue.copy()
    duration[calls], queue[calls] = 0, -1
    mine = graph.launched_by(calls)
    turnaround = np.where(
        mine & (graph.operations.stream_ns > 0),
        np.minimum(graph.operations.stream_ns, GRAPH_TURNAROUND_NS),
        graph.operations.stream_ns,
    )
    nodes = replace(graph.calls, duration_ns=duration, queue=queue)
    operations = replace(graph.operations, stream_ns=turnaround)
    return without_code(replace(graph, calls=nodes, operations=operations), calls, code_ns)


def without_events(recorded: DependencyGraph, events: Ints, cost_ns: float) -> Edit:
    """Recording costs nothing: so much less for each of the events in the code before a call, and in the call itself.
    `events` has their number for each call; a stretch without any takes as long as it did, and one that is changed too
    keeps the share of it that was no recording."""
    every = np.arange(len(recorded.calls))
    before, less = recorded.code_before(every), np.rint(events * cost_ns).astype(np.int64)
    code_less = np.minimum(less, before)
    call_less = np.minimum(less - code_less, recorded.calls.duration_ns)

    def changed(graph: DependencyGraph) -> DependencyGraph:
        calls = graph.calls
        code = graph.code_before(every) * code_less // np.maximum(before, 1)
        duration = calls.duration_ns - calls.duration_ns * call_less // np.maximum(recorded.calls.duration_ns, 1)
        after = np.where(calls.after_ns > 0, np.maximum(calls.after_ns - code, 0), calls.after_ns)
        shorter = replace(calls, code_ns=calls.code_ns - code, after_ns=after, duration_ns=duration)
        return replace(graph, calls=shorter)

    return changed


def scale_operations(graph: DependencyGraph, operations: Positions, scale: float) -> DependencyGraph:
    """These operations take this many times as long."""
    now = graph.operations.duration_ns[operations]
    return with_durations(graph, operations, np.rint(now * scale).astype(np.int64))


def scale_calls(graph: DependencyGraph, calls: Positions, scale: float) -> DependencyGraph:
    """These calls take this many times as long, where they do not wait."""
    now = graph.calls.duration_ns[calls]
    return with_call_durations(graph, calls, np.rint(now * scale).astype(np.int64))


def with_launch_cost(graph: DependencyGraph, calls: Positions, cost_ns: int) -> DependencyGraph:
    """These launches cost the host so much; those that cost nothing, as in a graph, or are gone, stay so."""
    return with_call_durations(graph, calls, np.where(graph.calls.duration_ns[calls] > 0, cost_ns, 0))


def without_latency(graph: DependencyGraph, operations: Positions, less_ns: Ints) -> DependencyGraph:
    """These operations begin so much sooner after their call, but not before it has returned."""
    latency = graph.operations.call_ns.copy()
    latency[operations] -= np.minimum(less_ns, np.maximum(latency[operations], 0))
    return replace(graph, operations=replace(graph.operations, call_ns=latency))

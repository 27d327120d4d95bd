"""What is kept of one rank to replay it with the others: a device in; the graph of some of its steps out.

Ranks of a job run the same steps. All keep those from the middle of their run, as many as their share of the job's
operations allows, so that a job of many ranks stays small. What a rank's host did is kept by the causes of the ledger,
and garbage collection of Python, which profilers mark with a range, apart from them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.catalog.call_kinds import CallKind
from gpuledger.ledger.activity import State
from gpuledger.ledger.causes import Cause
from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import thread
from gpuledger.messages import say
from gpuledger.replay.build import dependency_graph
from gpuledger.replay.excerpt import Excerpt, excerpt
from gpuledger.replay.graph import DependencyGraph
from gpuledger.replay.scenario import Anchor, Scenario
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, Spans, covered, union
from gpuledger.trace.tables import Table

LONGEST: Final = 25
"""What has no steps, or long ones, is replayed if it has no more than so many times its share of operations."""

_STEPS_AND_LEAD: Final = ((2, 1), (1, 1), (1, 0))
"""How many steps are measured at least, and how many lead up to them: the first that are not too long."""

_COLLECTS: Final = re.compile(r"^(python )?gc\b|garbage.?collect|\bgc\.collect\b", re.IGNORECASE)
"""What ranges around a garbage collection are called: `Python GC` by torch.profiler."""


_NEVER: Final = union((), ())


class WorkPart(IntEnum):
    """What a rank's time between two collectives consists of."""

    COMPUTE = 0
    COMM = 1
    COPY = 2
    HOST = 3
    """Calls, and the code between them, but for what follows."""
    GARBAGE = 4
    SYSTEM = 5
    """Calls of the operating system."""
    THREAD = 6
    """Waiting for another thread, such as a loader's."""


OF_STATE: Final = {State.COMPUTE: WorkPart.COMPUTE, State.COMM: WorkPart.COMM, State.COPY: WorkPart.COPY}
OF_CODE: Final = (WorkPart.GARBAGE, WorkPart.SYSTEM, WorkPart.THREAD)
"""What is known of the code before a call; the rest of it is the host's own."""


@dataclass(frozen=True, slots=True, eq=False)
class RankWork:
    """Some steps of a rank, with one step before them where there is one. Times are on the profile's own clock."""

    graph: DependencyGraph
    part: NDArray[np.int8]
    """The `WorkPart` of each operation."""
    step: NDArray[np.int32]
    """The number of the step that each operation begins in; -1: in none that was kept."""
    first_step: int
    edges: tuple[Anchor, ...]
    """Where the steps that were kept begin and end, one more than there are."""
    code_ns: Ints
    """Of the code before each call, a column for each of `OF_CODE`."""
    synchronises: NDArray[np.bool_]
    """Which calls wait for the device: what they take is no work of the host's."""


def rank_work(trace: Trace, device: Device, operations: int) -> RankWork | NotMeasured:
    """About so many operations of a rank, in whole steps."""
    if len(device.steady_stretches) > 1:
        return NotMeasured(say("only parts of the run are selected, which are not replayed"))
    steps = 1 if device.steps is None else len(device.steps)
    most = LONGEST * operations * steps // max(len(device.work), 1)
    fewest, lead = next((pair for pair in _STEPS_AND_LEAD if sum(pair) <= most), _STEPS_AND_LEAD[-1])
    kept = excerpt(trace, device, enough=operations, fewest=fewest, lead=lead)
    if len(kept.work) > LONGEST * operations:
        return NotMeasured(say("steps are too long to replay all ranks together; --time=FROM:TO looks at less"))
    graph = dependency_graph(trace, kept.host, kept.work)
    first, edges_ns = _edges(device, kept, lead)
    replayable = Scenario(trace, device, kept, graph)
    step = np.searchsorted(edges_ns, kept.work.start_ns, side="right") - 1
    is_kept = (step >= 0) & (step < len(edges_ns) - 1)
    part = np.array([OF_STATE[state] for state in sorted(OF_STATE)], np.int8)
    return RankWork(
        graph=graph,
        part=part[kept.work.state],
        step=np.where(is_kept, step + first, -1).astype(np.int32),
        first_step=first,
        edges=tuple(replayable.anchor(int(instant)) for instant in edges_ns),
        code_ns=_code_ns(trace, kept, graph),
        synchronises=kept.host.are(CallKind.SYNC)[graph.call_row],
    )


def _edges(device: Device, kept: Excerpt, lead: int) -> tuple[int, Ints]:
    """The number of the first step that was kept, and where the steps begin and end."""
    if device.steps is None:
        return 0, np.array(device.steady, np.int64)
    edges = device.steps.edges_ns
    if kept.rows is None:
        return 0, edges
    begin, end = np.searchsorted(edges, (kept.measured.start_ns[0], kept.measured.end_ns[-1])).tolist()
    return begin - lead, edges[begin - lead : end + 1]


def _code_ns(trace: Trace, kept: Excerpt, graph: DependencyGraph) -> Ints:
    """How much of the code before each call each of `OF_CODE` takes; nothing of what comes before a thread's first."""
    calls, recorded = graph.calls, graph.recorded
    amounts = np.zeros((len(calls), len(OF_CODE)), np.int64)
    garbage = _collections(trace)
    for number, identity in enumerate(kept.host.threads.tolist()):
        own = np.flatnonzero(calls.thread == number)
        begin, end = recorded.call_end[own[:-1]], recorded.call_begin[own[1:]]
        by_cause = kept.host.thread(number).split(begin, end)
        collected = covered(garbage.get(identity, _NEVER), begin, end)
        columns = (collected, *(by_cause.get(cause, 0) for cause in (Cause.OS, Cause.WAIT_THREAD)))
        left = calls.code_ns[own[1:]].copy()  # where another thread hands over, less than lies between the calls
        for column, amount in enumerate(columns):
            amounts[own[1:], column] = np.minimum(amount, left)
            left -= amounts[own[1:], column]
    return amounts


def _collections(trace: Trace) -> dict[int, Spans]:
    """When each thread collected garbage, as far as the profile says so."""
    ranges = trace[Table.RANGES]
    collects = trace.strings.each(ranges.codes("name"), lambda name: bool(_COLLECTS.search(name)), np.bool_)
    if not collects.any():
        return {}
    ranges = ranges.where(collects)
    owner = thread(ranges)
    return {
        int(number): union(ranges["start_ns"][owner == number], ranges["end_ns"][owner == number])
        for number in np.unique(owner)
    }

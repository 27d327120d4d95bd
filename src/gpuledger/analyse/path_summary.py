"""The critical path of one GPU in a few figures: what it consists of, what is on it, and what lies beside it.

What lies beside the path has slack, and making it faster saves nothing; the replay says what it buys to make a kernel
twice as fast wherever it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.catalog.kernel_names import without_ids
from gpuledger.ledger.activity import State, short_function_name
from gpuledger.ledger.books import Line
from gpuledger.ledger.causes import Cause, Trigger
from gpuledger.ledger.ranges import innermost
from gpuledger.replay.critical_path import FREE_NS, CriticalPath, PathPart, critical_path, slack
from gpuledger.replay.edits import with_durations
from gpuledger.replay.graph import DependencyGraph
from gpuledger.replay.scenario import Scenario
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, distinct, group, is_among
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, holds
from gpuledger.trace.statistics import median
from gpuledger.trace.strings import NO_TEXT

MOST_ROWS: Final = 10  # so many kernels, calls and ranges are named, those with the most time
MOST_BESIDE: Final = 5  # so many kernels beside the path are tried twice as fast
LEAST_BESIDE: Final = 0.001  # kernels that run beside the path for a smaller share of the stretch are not worth a word


class PathSide(StrEnum):
    """Who is busy in a segment."""

    HOST = "host"
    GPU = "gpu"
    BETWEEN = "between"  # neither: a launch is on its way, or one operation makes room for the next
    OUTSIDE = "outside"  # nobody knows


_SIDES: Final[Mapping[Trigger, PathSide]] = {
    **dict.fromkeys((Cause.LAUNCH_LATENCY, Cause.TURNAROUND, Cause.GRAPH, Cause.DEVICE_WAIT), PathSide.BETWEEN),
    **dict.fromkeys((Cause.UNATTRIBUTED, Cause.TAIL), PathSide.OUTSIDE),
}


class OperationOnPath(Struct, frozen=True):
    """Kernels of one name, copies of one kind, or graphs traced whole."""

    name: str  # empty for graphs
    line: Line
    path_ns: int
    times: int
    gpu_ns: int  # what all of them take in the same stretch, on the path or beside it


class CallOnPath(Struct, frozen=True):
    """Calls of one name: the time inside them, the host's own code before them, and how many of them waited."""

    name: str
    call_ns: int
    code_ns: int
    times: int
    waits: int  # how often the path goes from the return of the call to what it waited for


class RangeOnPath(Struct, frozen=True):
    """What is launched or called in ranges of one name, with the host's code before it; the innermost range counts."""

    name: str
    host_ns: int
    gpu_ns: int


class BesidePath(Struct, frozen=True):
    """Kernels of one name that run beside the path."""

    name: str
    beside_ns: int
    beside: int
    launches: int  # all of the name, on the path or beside it
    slack_ns: int | None
    """Half of those beside it have less; None: the end of the stretch depends on fewer than half of them."""
    least_slack_ns: int | None
    saved_ns: int  # if all of the name were twice as fast


class PathSummary(Struct, frozen=True):
    """What the length of one GPU's steady stretch is due to, or of the part of it that is replayed."""

    gpu: int
    steps: int | None  # how many are looked at; None: there are none
    whole_ns: int
    lines: tuple[tuple[Line, int, int], ...]
    """Each with its time and its number of segments, longest first; they sum to the whole."""
    operations: tuple[OperationOnPath, ...]
    calls: tuple[CallOnPath, ...]
    ranges: tuple[RangeOnPath, ...]
    beside: tuple[BesidePath, ...]
    steady_steps: int | None = None  # how many steady steps there are, where not all of them are looked at

    def side_ns(self, side: PathSide) -> int:
        return sum(time for line, time, _ in self.lines if side_of(line) == side)


def side_of(line: Line) -> PathSide:
    """Whose time a segment of this line is."""
    if line.cause is None:
        return PathSide.GPU
    return _SIDES.get(line.cause, PathSide.HOST)


def path_summary(trace: Trace, model: Scenario) -> PathSummary:
    """Of the steady stretch as it was recorded, as far as the scenario holds it."""
    device, path = model.device, critical_path(model)
    return PathSummary(
        gpu=device.gpu,
        steps=None if device.steps is None else model.part.steps,
        whole_ns=int(path.length_ns.sum()),
        lines=tuple((line, time, count) for line, (time, count) in path.by_line().items()),
        operations=_operations(trace, model, path),
        calls=_calls(trace, model, path),
        ranges=_ranges(trace, model, path),
        beside=_beside(trace, model, path),
        steady_steps=None if model.is_whole else device.step_count,
    )


def _measured_work(model: Scenario) -> Positions:
    work = model.part.work
    return np.flatnonzero((work.gpu == model.device.gpu) & holds(model.part.measured, work.start_ns))


def _sums(codes: NDArray[np.integer], time: Ints) -> list[tuple[int, int, int, int]]:
    """For each code its first row, time and number of rows, the most time first."""
    first, number = group(codes)
    sums = sweep.sums(number, time, len(first))
    order = np.argsort(-sums, kind="stable")
    columns = (codes[first], first, sums, np.bincount(number, minlength=len(first)))
    return list(zip(*(column[order].tolist() for column in columns), strict=True))


def _operations(trace: Trace, model: Scenario, path: CriticalPath) -> tuple[OperationOnPath, ...]:
    work = model.part.work
    segments = np.flatnonzero(path.are(PathPart.RUNNING))
    measured = _measured_work(model)
    rows = []
    for code, first, time, count in _sums(work.name[path.operation[segments]], path.length_ns[segments])[:MOST_ROWS]:
        own = measured[work.name[measured] == code]
        line = path.lines[path.line[segments[first]]]
        gpu_ns = int((work.end_ns[own] - work.start_ns[own]).sum())
        rows.append(OperationOnPath(trace.strings.text(code) or "", line, time, count, max(gpu_ns, time)))
    return tuple(rows)


def _calls(trace: Trace, model: Scenario, path: CriticalPath) -> tuple[CallOnPath, ...]:
    segments = np.flatnonzero(is_among(path.part, (PathPart.CALL, PathPart.CODE, PathPart.WAKE_UP)))
    row, part, length = model.graph.call_row[path.call[segments]], path.part[segments], path.length_ns[segments]
    codes = model.part.host.calls.codes("name")[row]
    names, name = trace.strings.kinds(codes, lambda text: short_function_name(text or ""))
    rows = []
    for code, _, whole_ns, _ in _sums(name, length)[:MOST_ROWS]:
        own = name == code
        code_ns = int(length[own & (part == PathPart.CODE)].sum())
        waits = int(np.count_nonzero(own & (part == PathPart.WAKE_UP)))
        rows.append(CallOnPath(names[code], whole_ns - code_ns, code_ns, len(distinct(row[own])), waits))
    return tuple(rows)


def _ranges(trace: Trace, model: Scenario, path: CriticalPath) -> tuple[RangeOnPath, ...]:
    host, ranges = model.part.host, model.part.host.ranges
    if not len(ranges):
        return ()
    launched = np.append(model.graph.operations.call, -1)[path.operation]
    call = np.where(path.call >= 0, path.call, launched)
    segments = np.flatnonzero(call >= 0)
    first, number = group(call[segments])
    calls = host.calls.at(model.graph.call_row[call[segments[first]]])
    inner = innermost(ranges, calls, nesting=host.nesting)
    around = np.append(ranges.codes("name"), NO_TEXT)[inner].astype(np.int64)[number]
    in_range = around != NO_TEXT
    segments, around = segments[in_range], around[in_range]
    length, on_gpu = path.length_ns[segments], path.operation[segments] >= 0
    bare = trace.strings.rewritten(around, without_ids)
    names, name = bare.strings.kinds(bare.codes, str)
    rows = []
    for code, _, time, _ in _sums(name, length)[:MOST_ROWS]:
        gpu_ns = int(length[(name == code) & on_gpu].sum())
        rows.append(RangeOnPath(names[code], time - gpu_ns, gpu_ns))
    return tuple(rows)


def _beside(trace: Trace, model: Scenario, path: CriticalPath) -> tuple[BesidePath, ...]:
    work, part = model.part.work, model.part
    kernels = _measured_work(model)
    kernels = kernels[work.state[kernels] != State.COPY]
    runs = path.runs(len(work))
    beside = kernels[~runs[kernels]]
    if not len(beside):
        return ()
    late = slack(model).operation_ns
    rows = []
    for code, _, time, count in _sums(work.name[beside], (work.end_ns - work.start_ns)[beside])[:MOST_BESIDE]:
        if time < LEAST_BESIDE * part.measured_ns:
            break
        own = kernels[work.name[kernels] == code]
        spare = late[own[~runs[own]]]
        half, least = float(median(spare)), int(spare.min())

        def twice_as_fast(graph: DependencyGraph, own: Positions = own) -> DependencyGraph:
            return with_durations(graph, own, graph.operations.duration_ns[own] // 2)

        rows.append(
            BesidePath(
                name=trace.strings.text(code) or "",
                beside_ns=time,
                beside=count,
                launches=len(own),
                slack_ns=round(half) if half < FREE_NS else None,
                least_slack_ns=least if least < FREE_NS else None,
                saved_ns=max(part.measured_ns - model.measured_ns(model.times(twice_as_fast)), 0),
            )
        )
    return tuple(rows)

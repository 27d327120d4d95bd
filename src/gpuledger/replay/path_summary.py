"""The critical path of one GPU in a few figures: what it consists of, what is on it, and what lies beside it.

What lies beside the path has slack, and making it faster saves nothing; the replay says what it buys to make a kernel
twice as fast wherever it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.catalog.kernel_names import label, without_ids
from gpuledger.ledger.activity import State, short_function_name
from gpuledger.ledger.books import Line
from gpuledger.ledger.causes import Cause, Trigger
from gpuledger.ledger.ranges import innermost
from gpuledger.messages import say
from gpuledger.replay.critical_path import FREE_NS, CriticalPath, PathPart, critical_path, slack
from gpuledger.replay.edits import with_durations
from gpuledger.replay.graph import DependencyGraph
from gpuledger.replay.scenario import Scenario
from gpuledger.rows import Gpu, Label, Row, Unit, share
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, distinct, group, is_among
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, holds
from gpuledger.trace.statistics import median
from gpuledger.trace.strings import NO_TEXT

MOST_ROWS: Final = 10  # so many kernels, calls and ranges are named, those with the most time
MOST_BESIDE: Final = 5  # kernels beside the path tried twice as fast
WHOLE_GRAPHS: Final = say("graphs traced whole")  # what has no name
LEAST_BESIDE: Final = 0.001  # kernels that run beside the path for a smaller share of the stretch are not worth a word


class PathSide(StrEnum):
    """Who is busy in a segment."""

    HOST = "host"
    GPU = "gpu"
    BETWEEN = "between"  # neither: a launch is on its way, or one operation makes room for the next
    OUTSIDE = "outside"  # nobody knows

    @property
    def label(self) -> str:
        words = {"host": say("host"), "gpu": "GPU", "between": say("between them"), "outside": say("unknown")}
        return words[self]


_SIDES: Final[Mapping[Trigger, PathSide]] = {
    **dict.fromkeys((Cause.LAUNCH_LATENCY, Cause.TURNAROUND, Cause.GRAPH, Cause.DEVICE_WAIT), PathSide.BETWEEN),
    **dict.fromkeys((Cause.UNATTRIBUTED, Cause.TAIL), PathSide.OUTSIDE),
}


class PathLine(Line):
    """A line as a part of the path: other work may run beside it, so that it is not called exposed."""

    __slots__ = ()

    @property
    def label(self) -> str:
        return super().label if self.is_compute else self.brief_label


def path_part(line: Line) -> Cause | PathLine:
    """A line as a part of the path; of the host and of latencies the cause, as the GPU need not be idle meanwhile."""
    return line.cause if isinstance(line.cause, Cause) else PathLine(str(line))


class PathPartRow(Row, frozen=True):
    """A kind of time on the critical path; the parts of a GPU sum to its step."""

    gpu: Gpu
    part: Annotated[Cause | PathLine, Label(say("Part"), meaning="a line of work, or what the host or the device did")]
    side: Annotated[PathSide, Label(say("Side"), meaning="who is busy meanwhile")]
    time_ns: Annotated[float, Label(say("Time"), Unit.MEAN_NS, is_summed=True)]
    share: Annotated[float | None, Label(say("Share"), Unit.SHARE, is_summed=True)]
    times: Annotated[int, Label(say("Times"), Unit.COUNT, is_summed=True)]
    total_ns: Annotated[
        int | None, Label(say("All steps"), Unit.NS, detail=1, meaning="null: there are no steps", is_summed=True)
    ]

    @property
    def line(self) -> Line:
        return self.part if isinstance(self.part, Line) else Line.of_cause(self.part)


class PathOperationRow(Row, frozen=True):
    """Kernels of one name, copies of one kind, or graphs traced whole: what of them is on the path."""

    gpu: Gpu
    name: Annotated[str, Label(say("On the path"), shorten=label)]
    line: Annotated[PathLine, Label(say("Line"), detail=1)]
    time_ns: Annotated[float, Label(say("Time"), Unit.MEAN_NS)]
    share: Annotated[float | None, Label(say("Share"), Unit.SHARE)]
    times: Annotated[int, Label(say("Times"), Unit.COUNT)]
    gpu_share: Annotated[float | None, Label(say("of its GPU time"), Unit.SHARE)]


class PathCallRow(Row, frozen=True):
    """Calls of one name: the time inside them, the host's own code before them, and how many of them waited."""

    gpu: Gpu
    name: Annotated[str, Label(say("Call"))]
    call_ns: Annotated[float, Label(say("In the call"), Unit.MEAN_NS)]
    code_ns: Annotated[float, Label(say("Code before it"), Unit.MEAN_NS)]
    share: Annotated[float | None, Label(say("Share"), Unit.SHARE)]
    times: Annotated[int, Label(say("Times"), Unit.COUNT)]
    waits: Annotated[int, Label(say("Waits"), Unit.COUNT, meaning="how often the path goes on in what it waited for")]


class PathRangeRow(Row, frozen=True):
    """What is launched or called in ranges of one name, with the host's code before it; the innermost range counts."""

    gpu: Gpu
    name: Annotated[str, Label(say("Range"))]
    host_ns: Annotated[float, Label(say("Host"), Unit.MEAN_NS)]
    gpu_ns: Annotated[float, Label(say("GPU time"), Unit.MEAN_NS)]
    share: Annotated[float | None, Label(say("Share"), Unit.SHARE)]


class OffPathRow(Row, frozen=True):
    """Kernels of one name that run beside the path."""

    gpu: Gpu
    name: Annotated[str, Label(say("Off the path"), shorten=label)]
    time_ns: Annotated[float, Label(say("Time"), Unit.MEAN_NS)]
    times: Annotated[int, Label(say("Times"), Unit.COUNT)]
    launches: Annotated[int, Label(say("of launches"), Unit.COUNT, detail=1, meaning="on the path or beside it")]
    slack_ns: Annotated[
        int | None,
        Label(
            say("Slack, median"),
            Unit.NS,
            meaning="half of them could end so much later for nothing; null: the end depends on fewer than half",
        ),
    ]
    least_slack_ns: Annotated[int | None, Label(say("Slack, least"), Unit.NS, detail=1)]
    saving_ns: Annotated[float, Label(say("Saves at 2x"), Unit.MEAN_NS, meaning="with all of the name twice as fast")]


class PathSummary(Struct, frozen=True):
    """What the length of one GPU's steady stretch is due to, or of the part of it that is replayed."""

    gpu: int
    steps: int | None  # how many are looked at; None: there are none
    whole_ns: int
    parts: tuple[PathPartRow, ...]
    """Longest first. Times of all rows are per step, their mean; of the whole window where there are no steps."""
    operations: tuple[PathOperationRow, ...]
    calls: tuple[PathCallRow, ...]
    ranges: tuple[PathRangeRow, ...]
    off_path: tuple[OffPathRow, ...]
    steady_steps: int | None = None  # how many steady steps there are, where not all of them are looked at

    @property
    def step_ns(self) -> float:
        """Of all steps, for one of them; of the window where there are none."""
        return self.whole_ns / (self.steps or 1)

    def side_share(self, side: PathSide) -> float:
        return sum(part.share or 0.0 for part in self.parts if part.side == side)


def side_of(line: Line) -> PathSide:
    """Whose time a segment of this line is."""
    if line.cause is None:
        return PathSide.GPU
    return _SIDES.get(line.cause, PathSide.HOST)


def path_summary(trace: Trace, model: Scenario) -> PathSummary:
    """Of the steady stretch as it was recorded, as far as the scenario holds it."""
    device, path = model.device, critical_path(model)
    steps, whole_ns = None if device.steps is None else model.part.steps, int(path.length_ns.sum())
    scale = PathScale(device.gpu, steps or 1, whole_ns)
    return PathSummary(
        gpu=device.gpu,
        steps=steps,
        whole_ns=whole_ns,
        parts=tuple(
            PathPartRow(
                gpu=device.gpu,
                part=path_part(line),
                side=side_of(line),
                time_ns=scale.per_step(time),
                share=scale.share(time),
                times=count,
                total_ns=None if steps is None else time,
            )
            for line, (time, count) in path.by_line().items()
        ),
        operations=_operations(trace, model, path, scale),
        calls=_calls(trace, model, path, scale),
        ranges=_ranges(trace, model, path, scale),
        off_path=_off_path(trace, model, path, scale),
        steady_steps=None if model.is_whole else device.step_count,
    )


class PathScale(NamedTuple):
    """What a time on the path is told by: one step, and the whole path."""

    gpu: int
    steps: int
    whole_ns: int

    def per_step(self, time_ns: int) -> float:
        return time_ns / self.steps

    def share(self, time_ns: int) -> float | None:
        return share(time_ns, self.whole_ns)


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


def _operations(trace: Trace, model: Scenario, path: CriticalPath, scale: PathScale) -> tuple[PathOperationRow, ...]:
    work = model.part.work
    segments = np.flatnonzero(path.are(PathPart.RUNNING))
    measured = _measured_work(model)
    rows = []
    for code, first, time, count in _sums(work.name[path.operation[segments]], path.length_ns[segments])[:MOST_ROWS]:
        own = measured[work.name[measured] == code]
        line = path.lines[path.line[segments[first]]]
        gpu_ns = int((work.end_ns[own] - work.start_ns[own]).sum())
        name, of_gpu = trace.strings.text(code) or WHOLE_GRAPHS, share(time, max(gpu_ns, time))
        amounts = scale.per_step(time), scale.share(time), count, of_gpu
        rows.append(PathOperationRow(scale.gpu, name, PathLine(str(line)), *amounts))
    return tuple(rows)


def _calls(trace: Trace, model: Scenario, path: CriticalPath, scale: PathScale) -> tuple[PathCallRow, ...]:
    segments = np.flatnonzero(is_among(path.part, (PathPart.CALL, PathPart.CODE, PathPart.WAKE_UP)))
    row, part, length = model.graph.call_row[path.call[segments]], path.part[segments], path.length_ns[segments]
    codes = model.part.host.calls.codes("name")[row]
    names, name = trace.strings.kinds(codes, lambda text: short_function_name(text or ""))
    rows = []
    for code, _, whole_ns, _ in _sums(name, length)[:MOST_ROWS]:
        own = name == code
        code_ns = int(length[own & (part == PathPart.CODE)].sum())
        waits = int(np.count_nonzero(own & (part == PathPart.WAKE_UP)))
        amounts = scale.per_step(whole_ns - code_ns), scale.per_step(code_ns), scale.share(whole_ns)
        rows.append(PathCallRow(scale.gpu, names[code], *amounts, len(distinct(row[own])), waits))
    return tuple(rows)


def _ranges(trace: Trace, model: Scenario, path: CriticalPath, scale: PathScale) -> tuple[PathRangeRow, ...]:
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
        amounts = scale.per_step(time - gpu_ns), scale.per_step(gpu_ns), scale.share(time)
        rows.append(PathRangeRow(scale.gpu, names[code], *amounts))
    return tuple(rows)


def _off_path(trace: Trace, model: Scenario, path: CriticalPath, scale: PathScale) -> tuple[OffPathRow, ...]:
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

        saved_ns = max(part.measured_ns - model.measured_ns(model.times(twice_as_fast)), 0)
        rows.append(
            OffPathRow(
                gpu=scale.gpu,
                name=trace.strings.text(code) or WHOLE_GRAPHS,
                time_ns=scale.per_step(time),
                times=count,
                launches=len(own),
                slack_ns=round(half) if half < FREE_NS else None,
                least_slack_ns=least if least < FREE_NS else None,
                saving_ns=scale.per_step(saved_ns),
            )
        )
    return tuple(rows)

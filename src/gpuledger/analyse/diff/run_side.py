"""One side of a comparison: what a run, or several of the same, say per step, in a form that can be compared and saved.

Sums are over all steps of the side, so that they stay whole numbers; divide by `steps` for one step. Books and lengths
are kept step by step, because that is where the noise shows. Where a profile has no steps its window is the one step;
tables of `nsys stats` have not even that, and their whole is the time of the kernels. `baseline` saves a side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, TypeVar

import msgspec
import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from gpuledger.analyse.utilization.kernel_use import UseFigure
from gpuledger.catalog.calls import CallKind
from gpuledger.errors import GpuledgerError
from gpuledger.ledger.books import UNCLASSIFIED, Line, LineKind
from gpuledger.selection import Selection
from gpuledger.timing.timed_operations import CALL, TimedOperation
from gpuledger.trace.measured import Dim3
from gpuledger.trace.spans import Ints
from gpuledger.trace.statistics import nearest_percentiles

STEP, WINDOW, KERNEL_TIME = WHOLES = ("step", "window", "kernel time")  # what the difference is a difference of

NO_SHAPE: Final[Dim3] = (0, 0, 0)  # stands for a grid or block that is not known, or that there is none of


class RunKernel(Struct, frozen=True):
    """Like kernels: of one name, launch shape and place in the program."""

    name: str
    bare: str
    grid: Dim3
    block: Dim3
    place: tuple[str, ...]
    family: str
    calls: int
    time_ns: int  # how long they ran, whatever ran beside them
    operator: str = ""  # the innermost operator that launched the first of them; empty where none was recorded
    inputs: str = ""  # the shapes that the operator was given, as recorded


class RunUse(Struct, frozen=True):
    """What kernels of one name and launch shape use of the GPU, from samples."""

    name: str
    grid: Dim3
    block: Dim3
    time_ns: int
    figures: dict[str, UseFigure]  # by `GpuMetric`; those that were sampled


class Call(Struct, frozen=True):
    """The calls of one CUDA function on the host."""

    name: str
    kind: CallKind
    calls: int
    time_ns: int


class RunRange(Struct, frozen=True):
    """The ranges of one name, ids left out. None: not known, as from a table."""

    name: str
    instances: int
    host_ns: int
    gpu_ns: int | None = None  # of the work launched inside, ranges below included
    wait_ns: int | None = None  # host time in calls that wait for the device
    inside: tuple[str, ...] = ()  # the ranges around it, by name
    calls: dict[str, int] | None = None  # calls made inside, by function
    work: dict[str, int] | None = None  # kernels and copies launched inside, by name


class Copied(Struct, frozen=True):
    """The copies of one kind, or the memsets."""

    kind: str
    count: int
    bytes: int | None
    time_ns: int


class StepLaunches(Struct, frozen=True):
    """The calls that launched the steps' kernels."""

    per_step: tuple[int, ...]
    functions: tuple[Call, ...]  # the same calls by function; a graph launch is none of a kernel

    @property
    def calls(self) -> int:
        return sum(self.per_step)

    @property
    def time_ns(self) -> int:
        return sum(function.time_ns for function in self.functions)


class RunSide(Struct, frozen=True, tag_field="schema", tag="gpuledger.baseline/1"):
    """All that is compared of one side, sums over all its steps; None: the profile does not say.

    `gpuledger diff --save-baseline` saves it as it is.
    """

    name: str
    tool: str
    whole: str  # one of WHOLES
    source: str | None  # in words: what the steps were found by
    run_steps: tuple[int, ...]  # how many steps each run has; `length_ns` holds them run by run
    length_ns: tuple[int, ...]
    gpu: int = 0
    gpu_name: str | None = None
    clock_hz: int | None = None
    gpus: dict[int, int] = field(default_factory=dict)  # the usual step of every GPU at work
    ranks: int | None = None
    lines: tuple[Line, ...] = ()
    books_ns: tuple[tuple[int, ...], ...] = ()  # one row per step, one column per line; a row sums to the step's length
    idle_ns: dict[str, int] = field(default_factory=dict)
    """Idle time of all steps by what set it off, as reports show it first; empty where only causes are known."""
    kernels: tuple[RunKernel, ...] = ()  # compute, in the order in which each kernel first runs
    comm: tuple[RunKernel, ...] = ()
    calls: tuple[Call, ...] | None = None
    launches: StepLaunches | None = None
    ranges: tuple[RunRange, ...] | None = None
    copies: tuple[Copied, ...] = ()
    peak_bytes: int | None = None  # the most device memory in use
    kernel_steps: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Time by bare name and step, of the kernels with the most time."""
    range_steps: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Host time by range and step, of the ranges with the most time."""
    losses: tuple[str, ...] = ()  # what was lost on reading, in sentences without a full stop
    use: tuple[RunUse, ...] = ()  # of the kernels of the steady steps; none where nothing was sampled
    busy_clock_hz: float | None = None  # the mean clock of the multiprocessors while kernels ran
    busy_ns: tuple[int, int, int, int] | None = None
    """Compute of all steps as light, lost, avoidable and unknown; None where little of it is known."""
    overlap_ns: int = 0
    """What compute kernels run beside others: the sum of their times less the time in which any of them ran."""
    phases_ns: dict[str, int] = field(default_factory=dict)
    """All steps by phase of a layer, idle time and other work with them; empty where no layers are known."""

    @property
    def steps(self) -> int:
        return len(self.length_ns)

    @property
    def median_ns(self) -> int:
        """The usual step, as `steps` and `report` give it."""
        return median_of(np.array(self.length_ns, np.int64))

    @property
    def mean_ns(self) -> float:
        return sum(self.length_ns) / self.steps

    @property
    def runs(self) -> list[Ints]:
        return np.split(np.array(self.length_ns, np.int64), np.cumsum(self.run_steps)[:-1])

    def line_steps(self, belongs: Callable[[Line], bool]) -> Ints:
        """For each step the time of the lines that belong."""
        chosen = [index for index, line in enumerate(self.lines) if belongs(line)]
        books = np.array(self.books_ns, np.int64).reshape(self.steps, len(self.lines))
        return np.asarray(books[:, chosen].sum(axis=1), np.int64)

    def line_mean_ns(self, line: Line) -> float:
        index = self.lines.index(line) if line in self.lines else None
        return 0.0 if index is None else sum(row[index] for row in self.books_ns) / self.steps

    @property
    def knows_triggers(self) -> bool:
        return bool(self.idle_ns) or not any(line.is_idle for line in self.lines)

    @property
    def shown_mean_ns(self) -> dict[Line, float]:
        """Lines per step as reports show them: idle time by what set it off, where that is known."""
        if not self.idle_ns:
            return {line: self.line_mean_ns(line) for line in self.lines}
        work = {line: self.line_mean_ns(line) for line in self.lines if not line.is_idle}
        return work | {Line(f"{LineKind.IDLE}.{trigger}"): ns / self.steps for trigger, ns in self.idle_ns.items()}


def median_of(length_ns: Ints) -> int:
    """The usual length."""
    return nearest_percentiles(length_ns, 50)[0]


def pool_runs(sides: Sequence[RunSide], name: str) -> RunSide:
    """Several runs of the same as one side."""
    first = sides[0]
    if len(sides) == 1:
        return first
    for key, what in (("whole", "steps"), ("gpu_name", "the GPU")):
        if len({getattr(side, key) for side in sides}) > 1:
            states = "\n".join(f"{side.name}: {getattr(side, key)}" for side in sides[:6])
            raise GpuledgerError(f"{name}: {what} of these runs differ, so they are not runs of the same", found=states)
    lines = tuple(dict.fromkeys(line for side in sides for line in side.lines))
    books = [dict(zip(side.lines, row, strict=False)) for side in sides for row in side.books_ns]
    idle = Counter[str]()
    for side in sides:
        idle.update(side.idle_ns)
    launches = [side.launches for side in sides if side.launches is not None]
    peaks = [side.peak_bytes for side in sides if side.peak_bytes is not None]
    return replace(
        first,
        name=name,
        run_steps=tuple(count for side in sides for count in side.run_steps),
        length_ns=tuple(length for side in sides for length in side.length_ns),
        lines=lines,
        books_ns=tuple(tuple(row.get(line, 0) for line in lines) for row in books),
        idle_ns=dict(idle) if all(side.knows_triggers for side in sides) else {},
        kernels=sum_alike(kernel for side in sides for kernel in side.kernels),
        comm=sum_alike(kernel for side in sides for kernel in side.comm),
        calls=_if_all([side.calls for side in sides], lambda runs: sum_alike(chain(*runs))),
        launches=StepLaunches(
            tuple(count for run in launches for count in run.per_step),
            sum_alike(call for run in launches for call in run.functions),
        )
        if len(launches) == len(sides)
        else None,
        ranges=_if_all([side.ranges for side in sides], lambda runs: _sum_by(chain(*runs), _like, added_ranges)),
        copies=_sum_by((copied for side in sides for copied in side.copies), lambda copied: copied.kind, added_copies),
        peak_bytes=max(peaks) if peaks else None,
        kernel_steps=_in_all([side.kernel_steps for side in sides]),
        range_steps=_in_all([side.range_steps for side in sides]),
        losses=tuple(dict.fromkeys(loss for side in sides for loss in side.losses)),
        use=_sum_by(
            (kernel for side in sides for kernel in side.use),
            lambda kernel: (kernel.name, kernel.grid, kernel.block),
            _use_mean,
        )
        if all(side.use for side in sides)
        else (),
        busy_clock_hz=_if_all([side.busy_clock_hz for side in sides], lambda clocks: sum(clocks) / len(clocks)),
        busy_ns=_if_all([side.busy_ns for side in sides], _added_busy),
        overlap_ns=sum(side.overlap_ns for side in sides),
        phases_ns=dict(sum((Counter(side.phases_ns) for side in sides), Counter[str]()))
        if all(side.phases_ns for side in sides)
        else {},
    )


_T = TypeVar("_T")
_R = TypeVar("_R")


_Counted = TypeVar("_Counted", RunKernel, Call)


def sum_alike(items: Iterable[_Counted], *, as_last: bool = False) -> tuple[_Counted, ...]:
    """Calls and time of like kernels, or of calls of one function, together; what else there is, from first or last."""
    return _sum_by(
        items,
        _like,
        lambda one, other: replace(
            other if as_last else one, calls=one.calls + other.calls, time_ns=one.time_ns + other.time_ns
        ),
    )


def _like(item: RunKernel | Call | RunRange) -> object:
    return (item.bare, item.grid, item.block, item.place) if isinstance(item, RunKernel) else item.name


def _sum_by(items: Iterable[_T], key: Callable[[_T], object], add: Callable[[_T, _T], _T]) -> tuple[_T, ...]:
    """Like things together, in the order in which each first comes."""
    sums: dict[object, _T] = {}
    for item in items:
        like = key(item)
        sums[like] = add(sums[like], item) if like in sums else item
    return tuple(sums.values())


def _if_all(parts: Sequence[_T | None], add: Callable[[list[_T]], _R]) -> _R | None:
    """Their sum, where every run knows its part."""
    known = [part for part in parts if part is not None]
    return add(known) if len(known) == len(parts) else None


def _in_all(parts: Sequence[Mapping[str, tuple[int, ...]]]) -> dict[str, tuple[int, ...]]:
    """Step by step, one run after the other, for what every run has."""
    return {
        name: tuple(amount for part in parts for amount in part[name])
        for name in parts[0]
        if all(name in part for part in parts)
    }


def _use_mean(first: RunUse, second: RunUse) -> RunUse:
    """By time; so is the interval, as what runs have in common does not shrink with their number."""
    time_ns = first.time_ns + second.time_ns
    share = second.time_ns / time_ns if time_ns else 0.0

    def between(metric: str, side: str) -> float:
        one, other = (getattr(use.figures[metric], side) for use in (first, second))
        return float((1 - share) * one + share * other)

    figures = {
        metric: UseFigure(*(between(metric, side) for side in ("percent", "low", "high")))
        for metric in first.figures
        if metric in second.figures
    }
    return replace(first, time_ns=time_ns, figures=figures)


def _added_busy(parts: Sequence[tuple[int, int, int, int]]) -> tuple[int, int, int, int]:
    light, lost, avoidable, unknown = (sum(side) for side in zip(*parts, strict=True))
    return light, lost, avoidable, unknown


def added_copies(first: Copied, second: Copied) -> Copied:
    """Copies of two kinds as one, by the name of the first."""
    size = _if_all((first.bytes, second.bytes), sum)
    return Copied(first.kind, first.count + second.count, size, first.time_ns + second.time_ns)


def added_ranges(first: RunRange, second: RunRange) -> RunRange:
    """Two kinds of range as one, by the name of the first."""
    return RunRange(
        first.name,
        first.instances + second.instances,
        first.host_ns + second.host_ns,
        _if_all((first.gpu_ns, second.gpu_ns), sum),
        _if_all((first.wait_ns, second.wait_ns), sum),
        tuple(dict.fromkeys((*first.inside, *second.inside))),
        _if_all((first.calls, second.calls), _added_counts),
        _if_all((first.work, second.work), _added_counts),
    )


def _added_counts(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return {name: sum(part.get(name, 0) for part in parts) for name in dict.fromkeys(chain(*parts))}


def side_of_timing(timed: TimedOperation, name: str) -> RunSide:
    """The calls of one operation, in comparable form."""
    lengths = tuple(round(sample) for sample in timed.samples_ns)
    call = RunKernel(CALL, CALL, NO_SHAPE, NO_SHAPE, (), UNCLASSIFIED.family, len(lengths), sum(lengths))
    return RunSide(
        name=name,
        tool="gpuledger time",
        whole=STEP,
        source="timed calls",
        run_steps=(len(lengths),),
        length_ns=lengths,
        gpu_name=timed.device_name,
        lines=(UNCLASSIFIED,),
        books_ns=tuple((length,) for length in lengths),
        kernels=(call,),
    )


def sides_of_pair(first: TimedOperation, second: TimedOperation) -> tuple[RunSide, RunSide]:
    """Both operations of a pair; as many samples of each."""
    usual_ns = first.median_ns
    rounds = zip(first.samples_ns, second.samples_ns, strict=True)
    after = tuple(max(usual_ns + other_ns - one_ns, 0.0) for one_ns, other_ns in rounds)
    before = (usual_ns,) * len(after)
    return (
        side_of_timing(msgspec.structs.replace(first, samples_ns=before), first.operation),
        side_of_timing(msgspec.structs.replace(second, samples_ns=after), second.operation),
    )


def like_sides(read: Callable[[Selection], tuple[RunSide, RunSide]], wanted: Selection) -> tuple[RunSide, RunSide]:
    """Two sides; where neither has steps, by what repeats in both, if anything does."""
    sides = read(wanted)
    if any(side.whole != WINDOW for side in sides):
        return sides
    repeated = read(replace(wanted, any_level=True))
    return repeated if all(side.whole == STEP for side in repeated) else sides

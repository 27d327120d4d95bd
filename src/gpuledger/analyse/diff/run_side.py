"""One side of a comparison: what a run, or several of the same, say per step, in a form that can be compared and saved.

Sums are over all steps of the side, so that they stay whole numbers; divide by `steps` for one step. Books and lengths
are kept step by step, because that is where the noise shows. Where a profile has no steps its window is the one step;
tables of `nsys stats` have not even that, and their whole is the time of the kernels. `baseline` saves a side.
`range_shares` says how much of the whole each range of one run is, set-up left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Annotated, Any, Final, TypeVar

import msgspec
import numpy as np
from msgspec import Meta, Struct, field
from msgspec.structs import astuple, replace

from gpuledger.analyse.utilization.kernel_use import UseFigure
from gpuledger.catalog.calls import CallKind
from gpuledger.catalog.range_names import is_of_library, sounds_like_a_round, sounds_like_set_up
from gpuledger.errors import GpuledgerError
from gpuledger.ledger.books import UNCLASSIFIED, Line, LineKind
from gpuledger.messages import say
from gpuledger.rows import LabelledCode
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
    busy_ns: Annotated[tuple[int, ...], Meta(min_length=4, max_length=4)] | None = None
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
    idle, phases = Counter[str](), Counter[str]()
    for side in sides:
        idle.update(side.idle_ns)
        phases.update(side.phases_ns)
    use: dict[object, RunUse] = {}
    for kernel in (kernel for side in sides for kernel in side.use):
        like = kernel.name, kernel.grid, kernel.block
        use[like] = _mean_use(use[like], kernel) if like in use else kernel
    return replace(
        first,
        name=name,
        run_steps=tuple(count for side in sides for count in side.run_steps),
        length_ns=tuple(length for side in sides for length in side.length_ns),
        lines=lines,
        books_ns=tuple(tuple(row.get(line, 0) for line in lines) for row in books),
        idle_ns=dict(idle) if all(side.knows_triggers for side in sides) else {},
        kernels=pooled((kernel for side in sides for kernel in side.kernels), kernel_key),
        comm=pooled((kernel for side in sides for kernel in side.comm), kernel_key),
        calls=_if_all([side.calls for side in sides], lambda runs: pooled(chain(*runs), by_name)),
        launches=_if_all(
            [side.launches for side in sides],
            lambda runs: StepLaunches(
                tuple(count for run in runs for count in run.per_step),
                pooled((call for run in runs for call in run.functions), by_name),
            ),
        ),
        ranges=_if_all([side.ranges for side in sides], lambda runs: pooled(chain(*runs), by_name)),
        copies=pooled((copied for side in sides for copied in side.copies), lambda copied: copied.kind),
        peak_bytes=max((side.peak_bytes for side in sides if side.peak_bytes is not None), default=None),
        kernel_steps=_in_all([side.kernel_steps for side in sides]),
        range_steps=_in_all([side.range_steps for side in sides]),
        losses=tuple(dict.fromkeys(loss for side in sides for loss in side.losses)),
        use=tuple(use.values()) if all(side.use for side in sides) else (),
        busy_clock_hz=_if_all([side.busy_clock_hz for side in sides], lambda clocks: sum(clocks) / len(clocks)),
        busy_ns=_if_all([side.busy_ns for side in sides], lambda runs: tuple(map(sum, zip(*runs, strict=True)))),
        overlap_ns=sum(side.overlap_ns for side in sides),
        phases_ns=dict(phases) if all(side.phases_ns for side in sides) else {},
    )


_Item = TypeVar("_Item", bound=Struct)

_T = TypeVar("_T")

_R = TypeVar("_R")


def pooled(items: Iterable[_Item], key: Callable[[_Item], object]) -> tuple[_Item, ...]:
    """Like things added up, in the order in which each first comes."""
    sums: dict[object, _Item] = {}
    for item in items:
        like = key(item)
        sums[like] = added(sums[like], item) if like in sums else item
    return tuple(sums.values())


def added(first: _Item, second: _Item) -> _Item:
    """Two kinds as one: numbers are summed, None where either is not known; it is called as the first."""
    sums = {name: _sum(getattr(first, name), getattr(second, name)) for name in first.__struct_fields__}
    return replace(first, **sums)


def _sum(first: Any, second: Any) -> Any:
    if first is None or second is None:
        return None
    if isinstance(first, int):
        return first + second
    if isinstance(first, dict):
        return {name: first.get(name, 0) + second.get(name, 0) for name in first | second}
    return tuple(dict.fromkeys((*first, *second))) if isinstance(first, tuple) and first != second else first


def kernel_key(kernel: RunKernel) -> object:
    """Equal for like kernels."""
    return kernel.bare, kernel.grid, kernel.block, kernel.place


by_name: Final = attrgetter("name")


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


def _mean_use(first: RunUse, second: RunUse) -> RunUse:
    """By time; so is the interval, as what runs have in common does not shrink with their number."""
    time_ns = first.time_ns + second.time_ns
    share = second.time_ns / time_ns if time_ns else 0.0
    both = {name: (figure, second.figures[name]) for name, figure in first.figures.items() if name in second.figures}
    figures = {
        name: UseFigure(*((1 - share) * old + share * new for old, new in zip(*map(astuple, pair), strict=True)))
        for name, pair in both.items()
    }
    return replace(first, time_ns=time_ns, figures=figures)


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


HELD: Final = 0.9  # a range holds the others if they fill this share of it, and no more than all of it


class RangeRole(LabelledCode):
    """What a range of a table is to the whole."""

    PART = "part of the whole", say("part of the whole")
    HOLDS = "holds the others", say("holds the others")
    LIBRARY = "a library's", say("a library's")
    SET_UP = "set-up", say("set-up")


class RangeShares(Struct, frozen=True):
    """The ranges of a side against the whole."""

    whole_ns: int
    roles: dict[str, RangeRole]  # by name; empty where the whole is that of the steps

    def share(self, run_range: RunRange) -> float | None:
        """Of the whole; None for what is not counted, and where there is no whole."""
        if self.roles.get(run_range.name) in (RangeRole.LIBRARY, RangeRole.SET_UP) or not self.whole_ns:
            return None
        return run_range.host_ns / self.whole_ns

    def names(self, role: RangeRole) -> list[str]:
        return [name for name, own in self.roles.items() if own is role]


def range_shares(side: RunSide) -> RangeShares:
    """The whole that a side's ranges are shares of, and which of them make it up."""
    if side.whole != KERNEL_TIME:
        return RangeShares(sum(side.length_ns), {})
    ranges = side.ranges or ()
    own = [run_range for run_range in ranges if not is_of_library(run_range.name)] or list(ranges)
    most = max((run_range.instances for run_range in own), default=0)
    working = [one for one in own if 2 * one.instances > most or not sounds_like_set_up(one.name)]
    holding, whole_ns = _holding(sorted(working, key=lambda run_range: -run_range.host_ns))
    roles = {run_range.name: RangeRole.LIBRARY for run_range in ranges}
    roles |= {run_range.name: RangeRole.SET_UP for run_range in own}
    roles |= {run_range.name: RangeRole.PART for run_range in working}
    roles |= dict.fromkeys(holding, RangeRole.HOLDS)
    return RangeShares(whole_ns, roles)


def _holding(longest_first: Sequence[RunRange]) -> tuple[list[str], int]:
    """Which ranges hold all that are shorter, and the time of those that lie in no other."""
    holding: list[str] = []
    whole_ns = 0
    for run_range in reversed(longest_first):
        if sounds_like_a_round(run_range.name) and HELD * run_range.host_ns <= whole_ns <= run_range.host_ns:
            holding.append(run_range.name)
            whole_ns = run_range.host_ns
        else:
            whole_ns += run_range.host_ns
    return holding, whole_ns

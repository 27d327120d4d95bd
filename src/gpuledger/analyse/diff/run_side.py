"""One side of a comparison: what a run, or several of the same, say per step, in a form that can be compared and saved.

Sums are over all steps of the side, so that they stay whole numbers; divide by `steps` for one step. Books and lengths
are kept step by step, because that is where the noise shows. Where a profile has no steps its window is the one step;
tables of `nsys stats` have not even that, and their whole is the time of the kernels.

A side as a JSON document, to be compared with later: a baseline for CI, without the profile it came from.

A side from what `gpuledger time` measured: each sample is a step, and the call the one thing that runs in it.

Two sides that can be compared step by step: how to read them in, both by steps or by what repeats out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.timed_operations import CALL, TimedOperation
from gpuledger.analyse.utilization.kernel_use import UseFigure
from gpuledger.catalog.calls import CallKind
from gpuledger.errors import GpuledgerError, UnreadableProfile
from gpuledger.ledger.books import UNCLASSIFIED, Line
from gpuledger.ledger.steps import Wanted
from gpuledger.trace.measured import Dim3
from gpuledger.trace.spans import Ints
from gpuledger.trace.statistics import nearest_percentiles

STEP, WINDOW, KERNEL_TIME = WHOLES = ("step", "window", "kernel time")  # what the difference is a difference of

NO_SHAPE: Final[Dim3] = (0, 0, 0)  # stands for a grid or block that is not known, or that there is none of


@dataclass(frozen=True, slots=True)
class RunKernel:
    """Like kernels: of one name, launch shape and place in the program."""

    name: str
    bare: str
    grid: Dim3
    block: Dim3
    place: tuple[str, ...]
    family: str
    calls: int
    time_ns: int
    """Of compute kernels their own time, which sums to compute; of others how long they ran."""


@dataclass(frozen=True, slots=True)
class RunUse:
    """What kernels of one name and launch shape use of the GPU, from samples."""

    name: str
    grid: Dim3
    block: Dim3
    time_ns: int
    figures: dict[str, UseFigure]
    """By `GpuMetric`; those that were sampled."""


@dataclass(frozen=True, slots=True)
class Call:
    """The calls of one CUDA function on the host."""

    name: str
    kind: CallKind
    calls: int
    time_ns: int


@dataclass(frozen=True, slots=True)
class RunRange:
    """The ranges of one name, ids left out. None: not known, as from a table."""

    name: str
    instances: int
    host_ns: int
    gpu_ns: int | None = None
    """Of the work launched inside, ranges below included."""
    wait_ns: int | None = None
    """Host time in calls that wait for the device."""
    inside: tuple[str, ...] = ()
    """The ranges around it, by name."""
    calls: dict[str, int] | None = None
    """Calls made inside, by function."""
    work: dict[str, int] | None = None
    """Kernels and copies launched inside, by name."""


@dataclass(frozen=True, slots=True)
class Copied:
    """The copies of one kind, or the memsets."""

    kind: str
    count: int
    bytes: int | None
    time_ns: int


@dataclass(frozen=True, slots=True)
class StepLaunches:
    """The calls that launched the steps' kernels."""

    per_step: tuple[int, ...]
    functions: tuple[Call, ...]
    """The same calls by function; a graph launch is none of a kernel."""

    @property
    def calls(self) -> int:
        return sum(self.per_step)

    @property
    def time_ns(self) -> int:
        return sum(function.time_ns for function in self.functions)


@dataclass(frozen=True, slots=True)
class RunSide:
    """All that is compared. None: the profile does not say."""

    name: str
    tool: str
    whole: str
    """One of WHOLES."""
    source: str | None
    """In words: what the steps were found by."""
    run_steps: tuple[int, ...]
    """How many steps each run has; `length_ns` holds them run by run."""
    length_ns: tuple[int, ...]
    gpu: int = 0
    gpu_name: str | None = None
    clock_hz: int | None = None
    gpus: dict[int, int] = field(default_factory=dict)
    """The usual step of every GPU at work."""
    ranks: int | None = None
    lines: tuple[Line, ...] = ()
    books_ns: tuple[tuple[int, ...], ...] = ()
    """One row per step, one column per line; a row sums to the step's length."""
    kernels: tuple[RunKernel, ...] = ()
    """Compute, in the order in which each kernel first runs."""
    comm: tuple[RunKernel, ...] = ()
    calls: tuple[Call, ...] | None = None
    launches: StepLaunches | None = None
    ranges: tuple[RunRange, ...] | None = None
    copies: tuple[Copied, ...] = ()
    peak_bytes: int | None = None
    """The most device memory in use."""
    kernel_steps: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Time by bare name and step, of the kernels with the most time."""
    range_steps: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Host time by range and step, of the ranges with the most time."""
    losses: tuple[str, ...] = ()
    """What was lost on reading, in sentences without a full stop."""
    use: tuple[RunUse, ...] = ()
    """Of the kernels of the steady steps; none where nothing was sampled."""
    busy_clock_hz: float | None = None
    """The mean clock of the multiprocessors while kernels ran."""

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
        """The lengths of each run's steps."""
        return np.split(np.array(self.length_ns, np.int64), np.cumsum(self.run_steps)[:-1])

    def line_steps(self, belongs: Callable[[Line], bool]) -> NDArray[np.int64]:
        """For each step the time of the lines that belong."""
        chosen = [index for index, line in enumerate(self.lines) if belongs(line)]
        books = np.array(self.books_ns, np.int64).reshape(self.steps, len(self.lines))
        total: NDArray[np.int64] = books[:, chosen].sum(axis=1)
        return total

    def line_mean_ns(self, line: Line) -> float:
        """One line, per step."""
        if line not in self.lines:
            return 0.0
        index = self.lines.index(line)
        return sum(row[index] for row in self.books_ns) / self.steps


def median_of(length_ns: Ints) -> int:
    """The usual length."""
    return nearest_percentiles(length_ns, 50)[0]


def pooled(sides: Sequence[RunSide], name: str) -> RunSide:
    """Several runs of the same as one side."""
    first = sides[0]
    if len(sides) == 1:
        return first
    for key, what in (("whole", "steps"), ("gpu_name", "the GPU")):
        if len({getattr(side, key) for side in sides}) > 1:
            states = "\n".join(f"{side.name}: {getattr(side, key)}" for side in sides[:6])
            raise GpuledgerError(f"{name}: {what} of these runs differ, so they are not runs of the same", found=states)
    lines = tuple(dict.fromkeys(line for side in sides for line in side.lines))
    peaks = [side.peak_bytes for side in sides if side.peak_bytes is not None]
    return replace(
        first,
        name=name,
        run_steps=tuple(count for side in sides for count in side.run_steps),
        length_ns=tuple(length for side in sides for length in side.length_ns),
        lines=lines,
        books_ns=tuple(row for side in sides for row in _on_lines(side, lines)),
        kernels=_added([side.kernels for side in sides], _kernel_key, _kernel_sum),
        comm=_added([side.comm for side in sides], _kernel_key, _kernel_sum),
        calls=_if_all([side.calls for side in sides], lambda runs: _added(runs, lambda call: call.name, _call_sum)),
        launches=_if_all([side.launches for side in sides], _launches_sum),
        ranges=_if_all([side.ranges for side in sides], lambda runs: _added(runs, lambda part: part.name, _range_sum)),
        copies=_added([side.copies for side in sides], lambda copied: copied.kind, _copied_sum),
        peak_bytes=max(peaks) if peaks else None,
        kernel_steps=_in_all([side.kernel_steps for side in sides]),
        range_steps=_in_all([side.range_steps for side in sides]),
        losses=tuple(dict.fromkeys(loss for side in sides for loss in side.losses)),
        use=_added([side.use for side in sides], lambda kernel: (kernel.name, kernel.grid, kernel.block), _use_mean)
        if all(side.use for side in sides)
        else (),
        busy_clock_hz=_if_all([side.busy_clock_hz for side in sides], lambda clocks: sum(clocks) / len(clocks)),
    )


_T = TypeVar("_T")
_R = TypeVar("_R")


def _added(parts: Iterable[Iterable[_T]], key: Callable[[_T], object], add: Callable[[_T, _T], _T]) -> tuple[_T, ...]:
    """Like things together, in the order in which each first comes."""
    sums: dict[object, _T] = {}
    for part in parts:
        for item in part:
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


def _on_lines(side: RunSide, lines: Sequence[Line]) -> list[tuple[int, ...]]:
    place = {line: index for index, line in enumerate(side.lines)}
    return [tuple(row[place[line]] if line in place else 0 for line in lines) for row in side.books_ns]


def _kernel_key(kernel: RunKernel) -> object:
    return (kernel.bare, kernel.grid, kernel.block, kernel.place)


def _kernel_sum(first: RunKernel, second: RunKernel) -> RunKernel:
    return replace(first, calls=first.calls + second.calls, time_ns=first.time_ns + second.time_ns)


def _use_mean(first: RunUse, second: RunUse) -> RunUse:
    """By time; so is the interval, as what runs have in common does not shrink with their number."""
    time_ns = first.time_ns + second.time_ns
    share = second.time_ns / time_ns if time_ns else 0.0
    figures = {
        metric: UseFigure(
            *(
                (1 - share) * getattr(one, side) + share * getattr(second.figures[metric], side)
                for side in ("percent", "low", "high")
            )
        )
        for metric, one in first.figures.items()
        if metric in second.figures
    }
    return replace(first, time_ns=time_ns, figures=figures)


def _call_sum(first: Call, second: Call) -> Call:
    return replace(first, calls=first.calls + second.calls, time_ns=first.time_ns + second.time_ns)


def _launches_sum(parts: Sequence[StepLaunches]) -> StepLaunches:
    functions = _added([part.functions for part in parts], lambda call: call.name, _call_sum)
    return StepLaunches(tuple(count for part in parts for count in part.per_step), functions)


def _copied_sum(first: Copied, second: Copied) -> Copied:
    size = None if first.bytes is None or second.bytes is None else first.bytes + second.bytes
    return Copied(first.kind, first.count + second.count, size, first.time_ns + second.time_ns)


def _range_sum(first: RunRange, second: RunRange) -> RunRange:
    return added_ranges(first, second, first.name)


def added_ranges(first: RunRange, second: RunRange, name: str) -> RunRange:
    """Two kinds of range as one."""
    return RunRange(
        name,
        first.instances + second.instances,
        first.host_ns + second.host_ns,
        _if_all((first.gpu_ns, second.gpu_ns), sum),
        _if_all((first.wait_ns, second.wait_ns), sum),
        tuple(dict.fromkeys((*first.inside, *second.inside))),
        _if_all((first.calls, second.calls), _counted),
        _if_all((first.work, second.work), _counted),
    )


def _counted(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return total


SCHEMA: Final = "gpuledger.baseline/1"

_MOST: Final = 2**56  # two years in nanoseconds: the sum of some steps of that still has room in 64 bits


def is_baseline(head: bytes) -> bool:
    """Whether a file that begins so is a baseline."""
    return SCHEMA.encode() in head[:200]


def to_document(side: RunSide) -> dict[str, Any]:
    """The document; `from_document` gives an equal side back."""
    content: dict[str, Any] = msgspec.to_builtins(side, str_keys=True, enc_hook=str)  # a sentence is just its text
    return {"schema": SCHEMA, **content}


def from_document(content: bytes, name: str) -> RunSide:
    """The side that was saved; `name` is what a refusal calls it."""
    try:
        raw = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        schema = msgspec.json.decode(raw.pop("schema", b'""'), type=str)
        if schema != SCHEMA:
            raise UnreadableProfile(f"{name}: a document {schema or 'without a schema'}, not {SCHEMA}")
        side = msgspec.json.decode(msgspec.json.encode(raw), type=RunSide, dec_hook=_line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _unusable(name, str(error)) from None
    return _checked(side, name)


def _line(kind: type[Line], name: str) -> Line:
    """A line of the books by its name; what is none is a ValueError, which msgspec turns into its own."""
    return kind(name)


def _checked(side: RunSide, name: str) -> RunSide:
    """Refuse what no side can be: later arithmetic relies on it."""
    if any(abs(number) >= _MOST for number in _numbers(msgspec.to_builtins(side, str_keys=True, enc_hook=str))):
        raise _unusable(name, "a number in it is beyond what 64 bits hold")
    steps = side.steps
    by_step = [*side.kernel_steps.values(), *side.range_steps.values()]
    if side.launches is not None:
        by_step.append(side.launches.per_step)
    wrong = {
        "it has no steps": not steps or min(side.length_ns) < 0,
        "its runs do not have its steps": sum(side.run_steps) != steps or min(side.run_steps) < 1,
        f"whole is none of {', '.join(WHOLES)}": side.whole not in WHOLES,
        "its books do not balance": bool(side.lines)
        and [sum(row) for row in side.books_ns if len(row) == len(side.lines)] != list(side.length_ns),
        "a figure by step has other steps": any(len(amounts) != steps for amounts in by_step),
        "a range has no instance": any(run_range.instances < 1 for run_range in side.ranges or ()),
        "a kernel has no call": any(kernel.calls < 1 for kernel in (*side.kernels, *side.comm)),
    }
    for reason, holds in wrong.items():
        if holds:
            raise _unusable(name, reason)
    return side


def _numbers(content: object) -> Iterator[int | float]:
    """All numbers of a document."""
    pending = [content]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            pending += part.values()
        elif isinstance(part, list | tuple):
            pending += part
        elif isinstance(part, int | float):
            yield part


def _unusable(name: str, why: str) -> UnreadableProfile:
    return UnreadableProfile(
        f"{name}: not a whole baseline: {why}", hint="save it again with `gpuledger diff --save-baseline FILE PROFILE`"
    )


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


def like_sides(read: Callable[[Wanted], tuple[RunSide, RunSide]], wanted: Wanted) -> tuple[RunSide, RunSide]:
    """Two sides; where neither has steps, by what repeats in both, if anything does."""
    sides = read(wanted)
    if any(side.whole != WINDOW for side in sides):
        return sides
    repeated = read(replace(wanted, any_level=True))
    return repeated if all(side.whole == STEP for side in repeated) else sides

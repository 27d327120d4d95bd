"""Two sides compared: the verdict, how sure it is, the parts of the difference, and what changed.

before, after = side_of(...), side_of(...)
diff = compare(before, after)
assert sum(part.ns for part in diff.parts) == diff.delta_ns

The parts are whole nanoseconds and sum to the difference exactly.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.analyse.diff.noise import (
    FEWEST_STEPS,
    NO_CHANGE,
    Controls,
    Interval,
    controls,
    host_idle_ns,
    median_interval,
    verdict,
)
from gpuledger.analyse.diff.pairs import (
    ABOUT_AS_OFTEN,
    RENAMED,
    SAME_SHAPE,
    KernelPair,
    Overlap,
    RangePair,
    check_kinds,
    overlap,
    pair_kernels,
    pair_ranges,
    remarks,
    unlike,
)
from gpuledger.analyse.diff.run_side import KERNEL_TIME, STEP, RunSide, RunUse
from gpuledger.analyse.utilization.kernel_use import UseFigure
from gpuledger.catalog.gpu_metrics import OF_KERNELS, GpuMetric
from gpuledger.catalog.kernel_names import parse
from gpuledger.errors import GpuledgerError
from gpuledger.ledger.books import Line
from gpuledger.messages import say
from gpuledger.rows import Label, LabelledCode, Row, Unit
from gpuledger.trace.model import NotMeasured
from gpuledger.units import count_text, time_text


class StepPart(LabelledCode):
    """A part of the difference that is no line of the books."""

    CALLS = "calls", say("calls{per}", per="")
    PER_CALL = "time per call", say("time per call")
    MIX = "mix", say("mix")
    OVERLAP = "overlap", say("overlap")
    OTHER_COMPUTE = "other compute", say("other compute")
    UNLIKE = "unlike steps", say("unlike steps")


CALLS, PER_CALL, MIX, OVERLAP, OTHER_COMPUTE, UNLIKE = StepPart
COMPUTE_PARTS: Final = (CALLS, PER_CALL, MIX, OVERLAP, OTHER_COMPUTE)


class BusyPart(LabelledCode):
    """What compute is good for."""

    LIGHT = "light", say("light: the work itself")
    LOST = "lost", say("lost: time beyond that")
    AVOIDABLE = "avoidable", say("avoidable work")
    UNKNOWN = "unknown", say("unknown")


class DiffPart(Struct, frozen=True):
    """One reason why a step takes longer (or less, below zero)."""

    name: StepPart | Line
    ns: int


class TimeChange(Struct, frozen=True):
    """How the time of one pair changed, per step."""

    pair: KernelPair
    calls: tuple[float, float]  # per step, before and after
    each_ns: tuple[float, float]  # how long one call runs
    by_calls_ns: float
    by_time_ns: float
    by_mix_ns: float

    @property
    def ns(self) -> tuple[float, float]:
        """Per step, before and after."""
        return (self.calls[0] * self.each_ns[0], self.calls[1] * self.each_ns[1])

    @property
    def delta_ns(self) -> float:
        return self.by_calls_ns + self.by_time_ns + self.by_mix_ns


def changes(pairs: Iterable[KernelPair], steps_before: int, steps_after: int) -> tuple[TimeChange, ...]:
    """Each pair's change, split."""
    changed = []
    for pair in pairs:
        old, new = (
            _rates(sum(kernel.calls for kernel in kernels), sum(kernel.time_ns for kernel in kernels), steps)
            for kernels, steps in ((pair.before, steps_before), (pair.after, steps_after))
        )
        calls, each_ns = (old[0], new[0]), (old[1], new[1])
        split = (0.0, 0.0, new[0] * new[1] - old[0] * old[1])
        if all(calls):
            # of another launch shape, few large kernels may do what many small ones did, or the reverse
            fewer, longer = calls[0] / calls[1], (each_ns[1] + 1) / (each_ns[0] + 1)
            is_another = min(fewer, longer) > ABOUT_AS_OFTEN or max(fewer, longer) * ABOUT_AS_OFTEN < 1
            if pair.level in SAME_SHAPE or not is_another:
                split = (*_by_calls_and_time(old, new), 0.0)
        changed.append(TimeChange(pair, calls, each_ns, *split))
    return tuple(changed)


def _rates(calls: int, time_ns: int, steps: int) -> tuple[float, float]:
    """Calls a step, and the time of one call."""
    return (calls / steps, time_ns / calls) if calls else (0.0, 0.0)


def _by_calls_and_time(old: tuple[float, float], new: tuple[float, float]) -> tuple[float, float]:
    """The change of a product, by each of its factors: the other is taken at its mean."""
    return (new[0] - old[0]) * (old[1] + new[1]) / 2, (new[1] - old[1]) * (old[0] + new[0]) / 2


def parts(before: RunSide, after: RunSide, changed: Sequence[TimeChange]) -> tuple[DiffPart, ...]:
    """The parts of the difference of the usual steps, those that are always there and those that are not zero."""
    split: dict[StepPart | Line, float] = {
        CALLS: math.fsum(change.by_calls_ns for change in changed),
        PER_CALL: math.fsum(change.by_time_ns for change in changed),
        MIX: math.fsum(change.by_mix_ns for change in changed),
        # what runs at the same time counts once in a step
        OVERLAP: before.overlap_ns / before.steps - after.overlap_ns / after.steps,
        # compute that is in no kernel: what began before the steady steps
        OTHER_COMPUTE: _outside_kernels(after) - _outside_kernels(before),
    }
    old, new = before.shown_mean_ns, after.shown_mean_ns
    split |= {line: new.get(line, 0.0) - old.get(line, 0.0) for line in old | new if not line.is_compute}
    delta = after.median_ns - before.median_ns
    split[UNLIKE] = delta - (after.mean_ns - before.mean_ns)
    for name in (OVERLAP, OTHER_COMPUTE):
        if not round(split[name]):
            del split[name]
    return tuple(map(DiffPart, split, round_to_sum(list(split.values()), delta)))


_BeforeNs = Annotated[int, Label(say("Before"), Unit.NS, is_summed=True)]
_AfterNs = Annotated[int, Label(say("After"), Unit.NS, is_summed=True)]
_DeltaNs = Annotated[int, Label(say("Change"), Unit.CHANGE_NS, is_summed=True)]


class LineChangeRow(Row, frozen=True):
    """Time on a line of the ledger per step, a mean."""

    line: Annotated[str, Label(say("What"))]
    before_ns: _BeforeNs
    after_ns: _AfterNs
    delta_ns: _DeltaNs


class FamilyChangeRow(Row, frozen=True):
    """Time in kernels of a family per step, a mean."""

    family: Annotated[str, Label(say("What"))]
    before_ns: _BeforeNs
    after_ns: _AfterNs
    delta_ns: _DeltaNs


class PhaseChangeRow(Row, frozen=True):
    """Time in a phase of a layer, in other work or idle, per step, a mean."""

    phase: Annotated[str, Label(say("What"))]
    before_ns: _BeforeNs
    after_ns: _AfterNs
    delta_ns: _DeltaNs


class BusyChangeRow(Row, frozen=True):
    """Compute by what it was good for per step, a mean."""

    part: Annotated[str, Label(say("What"))]
    before_ns: _BeforeNs
    after_ns: _AfterNs
    delta_ns: _DeltaNs


_ChangeRow = TypeVar("_ChangeRow")


def change_rows(
    row: Callable[[Any, int, int, int], _ChangeRow], before: Mapping[Any, float], after: Mapping[Any, float]
) -> tuple[_ChangeRow, ...]:
    """A row of each name on both sides, what changed most first."""
    both = {name: (round(before.get(name, 0.0)), round(after.get(name, 0.0))) for name in (*before, *after)}
    most_first = sorted(both.items(), key=lambda item: -abs(item[1][1] - item[1][0]))
    return tuple(row(name, old_ns, new_ns, new_ns - old_ns) for name, (old_ns, new_ns) in most_first)


def busy_changes(before: RunSide, after: RunSide, split: Sequence[DiffPart]) -> tuple[BusyChangeRow, ...]:
    """The change in compute by what it was good for, summing to its parts; none where a side does not tell."""
    if before.busy_ns is None or after.busy_ns is None:
        return ()
    old, new = ([ns / side.steps for ns in side.busy_ns or ()] for side in (before, after))
    changed_ns = sum(part.ns for part in split if part.name in COMPUTE_PARTS)
    moved = [then - now for now, then in zip(old, new, strict=True)]
    moved[list(BusyPart).index(BusyPart.LOST)] += changed_ns - math.fsum(
        moved
    )  # what the parts of compute were rounded by
    return tuple(map(BusyChangeRow, BusyPart, map(round, old), map(round, new), round_to_sum(moved, changed_ns)))


def round_to_sum(amounts: Sequence[float], total: int) -> list[int]:
    """Whole numbers near the amounts that sum to `total`: rounded down, then up where the most was cut off."""
    floors = [math.floor(amount) for amount in amounts]
    missing = total - sum(floors)
    if not 0 <= missing <= len(floors):  # beyond what rounding explains: numbers too large for a double
        floors[-1] += missing
        return floors
    by_remainder = sorted(range(len(floors)), key=lambda index: (floors[index] - amounts[index], index))
    for index in by_remainder[:missing]:
        floors[index] += 1
    return floors


def _outside_kernels(side: RunSide) -> float:
    """Compute per step that no kernel accounts for; where there are no books, the kernels are all there is."""
    compute = int(side.line_steps(lambda line: line.is_compute).sum()) if side.lines else sum(side.length_ns)
    return (compute + side.overlap_ns - sum(kernel.time_ns for kernel in side.kernels)) / side.steps


def launch_split(before: RunSide, after: RunSide) -> tuple[float, float] | None:
    """The change of launch time per step, by number and kind of call and by what one takes; None: not recorded.

    Functions are taken one by one, as in the parts of compute: a graph launch is no dearer kernel launch.
    """
    if before.launches is None or after.launches is None:
        return None
    olds, news = ({call.name: call for call in launches.functions} for launches in (before.launches, after.launches))
    by_number = by_cost = 0.0
    for name in dict.fromkeys((*olds, *news)):
        old, new = (
            _rates(calls[name].calls, calls[name].time_ns, side.steps) if name in calls else (0.0, 0.0)
            for calls, side in ((olds, before), (news, after))
        )
        both = old[0] and new[0]
        number, cost = _by_calls_and_time(old, new) if both else (new[0] * new[1] - old[0] * old[1], 0.0)
        by_number += number
        by_cost += cost
    return by_number, by_cost


CLOCKS_ALIKE: Final = 0.03  # clocks that differ by less of the higher one are the same


class UseChange(Struct, frozen=True):
    """One counter of one kernel."""

    before_kernel: RunUse
    after_kernel: RunUse
    metric: GpuMetric
    before: UseFigure
    after: UseFigure

    @property
    def points(self) -> float:
        return self.after.percent - self.before.percent


def use_changes(before: RunSide, after: RunSide) -> tuple[UseChange, ...] | None:
    """What the same kernels surely use more or less of the GPU, most time first; None where a side was not sampled."""
    if not before.use or not after.use:
        return None
    changed, pairs, olds, news = list[UseChange](), list[tuple[RunUse, RunUse]](), before.use, after.use
    for spelling in ("canonical", "bare"):
        old_by_key, new_by_key = _alone(olds, spelling), _alone(news, spelling)
        pairs += [(old_by_key[key], new_by_key[key]) for key in new_by_key if key in old_by_key]
        olds = tuple(kernel for key, kernel in old_by_key.items() if key not in new_by_key)
        news = tuple(kernel for key, kernel in new_by_key.items() if key not in old_by_key)
    for old, new in sorted(pairs, key=lambda pair: -pair[1].time_ns):
        for metric in OF_KERNELS:
            one, other = (kernel.figures.get(metric.value) for kernel in (old, new))
            if one is not None and other is not None and not one.holds(other.percent) and not other.holds(one.percent):
                changed.append(UseChange(old, new, metric, one, other))
    return tuple(changed)


def _alone(kernels: Sequence[RunUse], spelling: str) -> dict[object, RunUse]:
    """By name and shape, those that share them with no other."""
    keys = [(getattr(parse(kernel.name), spelling), kernel.grid, kernel.block) for kernel in kernels]
    often = Counter(keys)
    return {key: kernel for key, kernel in zip(keys, kernels, strict=True) if often[key] == 1}


def phase_changes(before: RunSide, after: RunSide) -> tuple[PhaseChangeRow, ...]:
    """The phases of a layer, idle time and other work, per step; none where a side does not know phases."""
    if not (before.phases_ns and after.phases_ns):
        return ()
    old, new = ({name: ns / side.steps for name, ns in side.phases_ns.items()} for side in (before, after))
    return change_rows(PhaseChangeRow, old, new)


ALIKE: Final = 0.01  # numbers of calls that differ by less than this share are the same
HOST_ALONE: Final = 0.1  # if all but this share of a change is idle time that the host causes, only the host changed


class Diff(Struct, frozen=True):
    """What changed from one side to the other."""

    before: RunSide
    after: RunSide
    delta_ns: int  # after less before: of the usual step, of the window, or of the kernels' time (see `RunSide.whole`)
    interval: Interval | NotMeasured
    verdict: str | None  # one of `noise.VERDICTS`; None where how long a step takes is not known
    changes: tuple[TimeChange, ...]  # of compute kernels; the parts are made of these
    comm: tuple[TimeChange, ...]
    parts: tuple[DiffPart, ...]
    ranges: tuple[RangePair, ...]
    controls: Controls | NotMeasured
    overlap: Overlap
    notes: tuple[str, ...]
    use: tuple[UseChange, ...] | None
    """What the same kernels use of the GPU, where that surely changed; None where a side was not sampled."""
    busy: tuple[BusyChangeRow, ...] = ()
    """The change in compute, a change in work told apart from one in pace; none where a side does not tell."""
    phases: tuple[PhaseChangeRow, ...] = ()

    @property
    def is_host_alone(self) -> bool:
        """Whether the GPU does the same on both sides and only the pace of the host differs, by one run of each.

        It may be the program's; it may as well be a machine that was busier: eager decode on one host took 5 to 9 ms
        a step from run to run, while the same steps as CUDA graphs stayed within 0.4 %.
        """
        if self.verdict in (None, NO_CHANGE) or len(self.before.run_steps) > 1 or len(self.after.run_steps) > 1:
            return False
        calls = [change.calls for change in self.changes]
        launches = self.before.launches, self.after.launches
        if launches[0] is not None and launches[1] is not None:
            calls.append((launches[0].calls / self.before.steps, launches[1].calls / self.after.steps))
        same_work = all(abs(old - new) <= ALIKE * old for old, new in calls)
        of_host = host_idle_ns(self.after) - host_idle_ns(self.before)
        means = sum(part.ns for part in self.parts if part.name != UNLIKE)
        return same_work and abs(of_host - means) <= HOST_ALONE * abs(of_host)

    @property
    def share(self) -> float | None:
        """The change as a share of before; None where there was nothing before."""
        before_ns = self.before.median_ns
        return self.delta_ns / before_ns if before_ns else None if self.delta_ns else 0.0


def compare(before: RunSide, after: RunSide, *, anyway: bool = False, control: str | None = None) -> Diff:
    """The difference; refuses sides that are unlike, unless they are to be compared anyway."""
    check_kinds(before, after)
    if not (before.knows_triggers and after.knows_triggers):  # a baseline of an older version has causes alone
        before, after = replace(before, idle_ns={}), replace(after, idle_ns={})
    pairs = pair_kernels(before.kernels, after.kernels, before.steps, after.steps)
    reasons = unlike(before, after, pairs)
    if reasons and not anyway:
        raise GpuledgerError(
            f"{before.name} and {after.name} cannot be compared: {reasons[0]}",
            found="\n".join(reasons[1:]),
            hint="--anyway compares them all the same",
        )
    said: list[str] = [say("Compared anyway, though {reason}.", reason=reason) for reason in reasons]
    said += remarks(before, after, pairs)
    changed = changes(pairs, before.steps, after.steps)
    delta = after.median_ns - before.median_ns
    interval = _interval(before, after)
    ranges = pair_ranges(before.ranges or (), after.ranges or (), before.steps, after.steps)
    guards = controls(before, after, ranges, delta, control)
    if control is not None and isinstance(guards, NotMeasured):
        names = ", ".join(pair.name for pair in ranges[:8]) or "there are no ranges"
        raise GpuledgerError(f"--control: {guards.reason}", found=f"ranges: {names}")
    comm = changes(pair_kernels(before.comm, after.comm, before.steps, after.steps), before.steps, after.steps)
    split = parts(before, after, changed)
    return Diff(
        before,
        after,
        delta,
        interval,
        None if before.whole == KERNEL_TIME else verdict(before.median_ns, delta, interval),
        changed,
        comm,
        split,
        ranges,
        guards,
        overlap(pairs),
        tuple(said + _notes(before, after, interval, ranges, guards)),
        use_changes(before, after),
        busy_changes(before, after, split),
        phase_changes(before, after),
    )


def _interval(before: RunSide, after: RunSide) -> Interval | NotMeasured:
    if KERNEL_TIME in (before.whole, after.whole):
        return NotMeasured(say("`nsys stats` tables hold sums, which say nothing about noise"))
    interval = median_interval(before.runs, after.runs)
    if isinstance(interval, NotMeasured) and before.whole != STEP:
        return NotMeasured(
            say("no steps were found; {count} or more runs per side would show the noise", count=FEWEST_STEPS)
        )
    return interval


def _of_interval(before: RunSide, after: RunSide, interval: Interval) -> list[str]:
    notes = list[str]()
    if interval.follows:
        notes.append(
            say(
                "Step times are autocorrelated ({follows}: drift or throttling), so they carry less "
                "information than independent ones; the interval is wider for it.",
                follows=f"{interval.follows:.2f}",
            )
        )
    if interval.runs_ns:
        notes.append(
            say(
                "Runs on one side differ by {time} (standard deviation) beyond what their steps explain; the "
                "interval is wider for it.",
                time=time_text(interval.runs_ns),
            )
        )
    if len(before.run_steps) == len(after.run_steps) == 1:
        notes.append(say("One run per side: the interval leaves out run-to-run variation; give a folder of runs."))
    return notes


def _notes(
    before: RunSide,
    after: RunSide,
    interval: Interval | NotMeasured,
    ranges: tuple[RangePair, ...],
    guards: Controls | NotMeasured,
) -> list[str]:
    notes = _of_interval(before, after, interval) if isinstance(interval, Interval) else []
    notes += [
        say("Ranges matched because they were the only ones left: {ranges}.", ranges=pair.name)
        for pair in ranges
        if pair.level == RENAMED
    ]
    if isinstance(guards, NotMeasured) and ranges:
        notes.append(say("No controls: {reason}.", reason=guards.reason))
    if before.whole == KERNEL_TIME:
        notes.append(say("`nsys stats` tables have no steps, idle time, intervals or kernels by range."))
        own = say(
            "Shares of ranges are of the time in the program's own ranges; those of libraries and setup are left out."
        )
        notes += [own] if ranges else []
    one, other = before.busy_clock_hz, after.busy_clock_hz
    if one is not None and other is not None and abs(one - other) > CLOCKS_ALIKE * max(one, other):
        clocks = {"before": count_text(round(one / 1e6)), "after": count_text(round(other / 1e6))}
        notes.append(
            say(
                "The SM clock while kernels ran differs: {before} MHz before, {after} MHz after (from samples).",
                **clocks,
            )
        )
    if before.gpu != after.gpu:
        notes.append(say("GPU {before} before is compared with GPU {after} after.", before=before.gpu, after=after.gpu))
    for gpu in sorted(before.gpus.keys() & after.gpus.keys() - {before.gpu}):
        steps = {"before": time_text(before.gpus[gpu]), "after": time_text(after.gpus[gpu])}
        notes.append(
            say("GPU {gpu}, not shown: {before} -> {after} per step; --device={gpu} shows it.", gpu=gpu, **steps)
        )
    return notes

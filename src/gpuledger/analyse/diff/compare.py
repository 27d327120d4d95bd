"""Two sides compared: the verdict, how sure it is, the parts of the difference, and what changed.

before, after = side_of(...), side_of(...)
found = compare(before, after)
assert sum(part.ns for part in found.parts) == found.delta_ns

The difference of two sides taken apart: the parts are whole nanoseconds and sum to the difference exactly.

Why the time in launch calls changed: by how many there are, or by what one takes.

What the same kernels use of the GPU before and after: two sides with samples in, what surely changed out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

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
    paired,
    paired_ranges,
    remarks,
    unlike,
)
from gpuledger.analyse.diff.run_side import KERNEL_TIME, STEP, RunKernel, RunSide, RunUse
from gpuledger.analyse.utilization.kernel_use import UseFigure
from gpuledger.catalog.gpu_metrics import OF_KERNELS, GpuMetric
from gpuledger.catalog.kernel_names import parse
from gpuledger.errors import GpuledgerError
from gpuledger.messages import say
from gpuledger.trace.model import NotMeasured
from gpuledger.units import count_text, time_text

CALLS, PER_CALL, MIX, OTHER_COMPUTE = COMPUTE_PARTS = ("calls", "time per call", "mix", "other compute")
UNLIKE = "unlike steps"


@dataclass(frozen=True, slots=True)
class DiffPart:
    """One reason why a step takes longer (or less, below zero)."""

    name: str
    ns: int


@dataclass(frozen=True, slots=True)
class TimeChange:
    """How the time of one pair changed, per step."""

    pair: KernelPair
    calls: tuple[float, float]
    """Per step, before and after."""
    each_ns: tuple[float, float]
    """Own time of one call."""
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
    split_changes = []
    for pair in pairs:
        (n1, t1), (n2, t2) = _rates(pair.before, steps_before), _rates(pair.after, steps_after)
        if n1 and n2 and not _is_restructured(pair, (n1, n2), (t1, t2)):
            split = ((n2 - n1) * (t1 + t2) / 2, (t2 - t1) * (n1 + n2) / 2, 0.0)
        else:
            split = (0.0, 0.0, n2 * t2 - n1 * t1)
        split_changes.append(TimeChange(pair, (n1, n2), (t1, t2), *split))
    return tuple(split_changes)


def _is_restructured(pair: KernelPair, calls: tuple[float, float], each_ns: tuple[float, float]) -> bool:
    """Whether launch shapes are not the same, and few large kernels do what many small ones did, or the reverse."""
    if pair.level in SAME_SHAPE:
        return False
    fewer, longer = calls[0] / calls[1], (each_ns[1] + 1) / (each_ns[0] + 1)
    return (fewer > ABOUT_AS_OFTEN and longer > ABOUT_AS_OFTEN) or (
        fewer * ABOUT_AS_OFTEN < 1 and longer * ABOUT_AS_OFTEN < 1
    )


def _rates(kernels: Sequence[RunKernel], steps: int) -> tuple[float, float]:
    """Calls a step, and the time of one call."""
    calls, time = sum(kernel.calls for kernel in kernels), sum(kernel.time_ns for kernel in kernels)
    return (calls / steps, time / calls) if calls else (0.0, 0.0)


def parts(before: RunSide, after: RunSide, changed: Sequence[TimeChange]) -> tuple[DiffPart, ...]:
    """The parts of the difference of the usual steps, those that are always there and those that are not zero."""
    split = {
        CALLS: math.fsum(change.by_calls_ns for change in changed),
        PER_CALL: math.fsum(change.by_time_ns for change in changed),
        MIX: math.fsum(change.by_mix_ns for change in changed),
        # compute that is in no kernel: what began before the steady steps
        OTHER_COMPUTE: _outside_kernels(after) - _outside_kernels(before),
    }
    for line in dict.fromkeys((*before.lines, *after.lines)):
        if not line.is_compute:
            split[line] = after.line_mean_ns(line) - before.line_mean_ns(line)
    delta = after.median_ns - before.median_ns
    split[UNLIKE] = delta - (after.mean_ns - before.mean_ns)
    kept = [name for name in split if name != OTHER_COMPUTE or round(split[name])]
    whole = rounded([split[name] for name in kept], delta)
    return tuple(DiffPart(name, ns) for name, ns in zip(kept, whole, strict=True))


def rounded(amounts: Sequence[float], total: int) -> list[int]:
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
    kernels = sum(kernel.time_ns for kernel in side.kernels)
    if not side.lines:
        return (sum(side.length_ns) - kernels) / side.steps
    compute = int(side.line_steps(lambda line: line.is_compute).sum())
    return (compute - kernels) / side.steps


def launch_split(before: RunSide, after: RunSide) -> tuple[float, float] | None:
    """The change per step, by number and kind of call and by what one takes; None where calls are not recorded.

    Functions are taken one by one, as in the parts of compute: a graph launch is no dearer kernel launch.
    """
    if before.launches is None or after.launches is None:
        return None
    calls_before = {call.name: call for call in before.launches.functions}
    calls_after = {call.name: call for call in after.launches.functions}
    by_number = by_cost = 0.0
    for name in dict.fromkeys((*calls_before, *calls_after)):
        old, new = calls_before.get(name), calls_after.get(name)
        n1, t1 = (old.calls / before.steps, old.time_ns / old.calls) if old is not None and old.calls else (0.0, 0.0)
        n2, t2 = (new.calls / after.steps, new.time_ns / new.calls) if new is not None and new.calls else (0.0, 0.0)
        if n1 and n2:
            by_number += (n2 - n1) * (t1 + t2) / 2
            by_cost += (t2 - t1) * (n1 + n2) / 2
        else:
            by_number += n2 * t2 - n1 * t1
    return by_number, by_cost


CLOCKS_ALIKE: Final = 0.03  # clocks that differ by less of the higher one are the same


@dataclass(frozen=True, slots=True)
class UseChange:
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
    """What changed, the kernel with the most time first; None where a side was not sampled."""
    if not before.use or not after.use:
        return None
    changed = []
    for same, kernel in _same(before.use, after.use):
        for metric in OF_KERNELS:
            one, other = (each.figures.get(metric.value) for each in (same, kernel))
            if one is not None and other is not None and not one.holds(other.percent) and not other.holds(one.percent):
                changed.append(UseChange(same, kernel, metric, one, other))
    return tuple(changed)


def _same(before: Sequence[RunUse], after: Sequence[RunUse]) -> list[tuple[RunUse, RunUse]]:
    """Kernels that are on both sides, the most time first."""
    pairs = list[tuple[RunUse, RunUse]]()
    for name_of in (_canonical, _bare):
        old, new = _alone(before, name_of), _alone(after, name_of)
        pairs += [(old[key], new[key]) for key in new if key in old]
        before, after = ([one[key] for key in one if key not in other] for one, other in ((old, new), (new, old)))
    return sorted(pairs, key=lambda pair: -pair[1].time_ns)


def _canonical(name: str) -> str:
    return parse(name).canonical


def _bare(name: str) -> str:
    return parse(name).bare


def _alone(kernels: Sequence[RunUse], name_of: Callable[[str], str]) -> dict[object, RunUse]:
    """By name and shape, those that share them with no other."""
    keys = [(name_of(kernel.name), kernel.grid, kernel.block) for kernel in kernels]
    often = Counter(keys)
    return {key: kernel for key, kernel in zip(keys, kernels, strict=True) if often[key] == 1}


def clocks_differ(before: RunSide, after: RunSide) -> tuple[float, float] | None:
    """The clocks while kernels ran, where both are known and differ."""
    one, other = before.busy_clock_hz, after.busy_clock_hz
    if one is None or other is None or abs(one - other) <= CLOCKS_ALIKE * max(one, other):
        return None
    return one, other


ALIKE: Final = 0.01  # numbers of calls that differ by less than this share are the same
HOST_ALONE: Final = 0.1  # if all but this share of a change is idle time that the host causes, only the host changed


@dataclass(frozen=True, slots=True)
class Diff:
    """What changed from one side to the other."""

    before: RunSide
    after: RunSide
    delta_ns: int
    """After less before: of the usual step, of the window, or of the kernels' time (see `RunSide.whole`)."""
    interval: Interval | NotMeasured
    verdict: str | None
    """One of `noise.VERDICTS`; None where how long a step takes is not known."""
    changes: tuple[TimeChange, ...]
    """Of compute kernels; the parts are made of these."""
    comm: tuple[TimeChange, ...]
    parts: tuple[DiffPart, ...]
    ranges: tuple[RangePair, ...]
    controls: Controls | NotMeasured
    overlap: Overlap
    notes: tuple[str, ...]
    use: tuple[UseChange, ...] | None
    """What the same kernels use of the GPU, where that surely changed; None where a side was not sampled."""

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
    def share(self) -> float:
        """The change as a share of before; infinite where there was nothing before."""
        if not self.before.median_ns:
            return 0.0 if not self.delta_ns else float("inf")
        return self.delta_ns / self.before.median_ns


def compare(before: RunSide, after: RunSide, *, anyway: bool = False, control: str | None = None) -> Diff:
    """The difference; refuses sides that are unlike, unless they are to be compared anyway."""
    check_kinds(before, after)
    pairs = paired(before.kernels, after.kernels, before.steps, after.steps)
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
    ranges = paired_ranges(before.ranges or (), after.ranges or (), before.steps, after.steps)
    guards = controls(before, after, ranges, delta, control)
    if control is not None and isinstance(guards, NotMeasured):
        names = ", ".join(pair.name for pair in ranges[:8]) or "there are no ranges"
        raise GpuledgerError(f"--control: {guards.reason}", found=f"ranges: {names}")
    comm = changes(paired(before.comm, after.comm, before.steps, after.steps), before.steps, after.steps)
    return Diff(
        before,
        after,
        delta,
        interval,
        None if before.whole == KERNEL_TIME else verdict(before.median_ns, delta, interval),
        changed,
        comm,
        parts(before, after, changed),
        ranges,
        guards,
        overlap(pairs),
        tuple(said + _notes(before, after, interval, ranges, guards)),
        use_changes(before, after),
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


def _notes(
    before: RunSide,
    after: RunSide,
    interval: Interval | NotMeasured,
    ranges: tuple[RangePair, ...],
    guards: Controls | NotMeasured,
) -> list[str]:
    said = list[str]()
    if isinstance(interval, Interval) and interval.follows:
        said.append(
            say(
                "Step times are autocorrelated ({follows}: drift or throttling), so they carry less "
                "information than independent ones; the interval is wider for it.",
                follows=f"{interval.follows:.2f}",
            )
        )
    if isinstance(interval, Interval) and interval.runs_ns:
        said.append(
            say(
                "Runs on one side differ by {time} (standard deviation) beyond what their steps explain; the "
                "interval is wider for it.",
                time=time_text(interval.runs_ns),
            )
        )
    if isinstance(interval, Interval) and len(before.run_steps) == len(after.run_steps) == 1:
        said.append(say("One run per side: the interval leaves out run-to-run variation; give a folder of runs."))
    said += [
        say("Ranges matched because they were the only ones left: {ranges}.", ranges=pair.name)
        for pair in ranges
        if pair.level == RENAMED
    ]
    if isinstance(guards, NotMeasured) and ranges:
        said.append(say("No controls: {reason}.", reason=guards.reason))
    if before.whole == KERNEL_TIME:
        said.append(say("`nsys stats` tables have no steps, idle time, intervals or kernels by range."))
        if ranges:
            said.append(
                say(
                    "Shares of ranges are of the time in the program's own ranges; those of libraries and setup "
                    "are left out."
                )
            )
    if (clocks := clocks_differ(before, after)) is not None:
        one, other = (count_text(round(clock / 1e6)) for clock in clocks)
        said.append(
            say(
                "The SM clock while kernels ran differs: {before} MHz before, {after} MHz after (from samples).",
                before=one,
                after=other,
            )
        )
    return said + _other_gpus(before, after)


def _other_gpus(before: RunSide, after: RunSide) -> list[str]:
    said = list[str]()
    if before.gpu != after.gpu:
        said.append(say("GPU {before} before is compared with GPU {after} after.", before=before.gpu, after=after.gpu))
    for gpu in sorted(before.gpus.keys() & after.gpus.keys() - {before.gpu}):
        old, new = before.gpus[gpu], after.gpus[gpu]
        said.append(
            say(
                "GPU {gpu}, not shown: {before} -> {after} per step; --device={gpu} shows it.",
                gpu=gpu,
                before=time_text(old),
                after=time_text(new),
            )
        )
    return said

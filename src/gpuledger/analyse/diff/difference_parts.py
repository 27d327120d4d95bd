"""The difference of two sides taken apart: the parts are whole nanoseconds and sum to the difference exactly.

Parts of compute, over all pairs of kernels, with n calls a step of t each: `calls` (n2 - n1) * (t1 + t2) / 2, `time per
call` (t2 - t1) * (n1 + n2) / 2, and `mix`, other kernels for the same work: those that only one side has, and those
that were restructured, of which few large ones do what many small ones did (to call that fewer calls and longer ones
would show two large parts that mean nothing). Then exposed communication, exposed copies, and each cause of idle time.
Those are differences of means over the steps, which is what lines sum up to; the difference itself is one of medians.
What lies between the two is `unlike steps`: few long steps move the mean only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuledger.analyse.diff.kernel_pairs import ABOUT_AS_OFTEN, SAME_SHAPE, KernelPair
from gpuledger.analyse.diff.run_side import RunKernel, RunSide

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

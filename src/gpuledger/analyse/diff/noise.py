"""How sure a difference is: the steps of two sides in, an interval and a verdict out.

The median of each side is resampled (a bootstrap, 10,000 times, with a fixed seed). The median of a resample of n steps
is an order statistic, whose place is Beta distributed, so it is drawn directly, whatever the number of steps.

The interval is drawn wide, so that at least 95 of 100 hold the truth: it is the middle 97 % of the resamples, made
wider as Student's t is for few steps, where steps follow their neighbours in length (drift, throttling: they tell less
than as many independent ones), and where several runs differ by more than their steps explain.

Controls are ranges whose code did not change: they say how fast the machine itself was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.analyse.diff.pairs import RangePair
from gpuledger.analyse.diff.run_side import KERNEL_TIME, RunRange, RunSide
from gpuledger.ledger.books import Line
from gpuledger.ledger.causes import HOST_PACED
from gpuledger.messages import say
from gpuledger.regex import NamePattern
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.spans import Ints
from gpuledger.trace.statistics import median

RESAMPLES: Final = 10_000
SEED: Final = 20_251_114
TAIL: Final = 0.015  # what is left out at each end
LEAST_SHARE: Final = 0.005  # a change by less than this share of the step is no change, however sure

UNSURE_SHARE: Final = 0.05
"""Where no interval is known, a change has to be this large: runs of the same differ by some per cent."""

FEWEST_STEPS: Final = 3  # fewer steps on a side say nothing about noise
_Z: Final = 2.17009037758456  # the normal distribution's quantile at 1 - TAIL

_SURELY_FOLLOWS: Final = 1.645
"""Neighbours count as alike in length from so many standard errors of the autocorrelation on."""

_MOST_ALIKE: Final = 0.95
FASTER, SLOWER, NO_CHANGE = VERDICTS = ("faster", "slower", "no change")


class Interval(Struct, frozen=True):
    """Where the true difference lies, in at least 95 of 100 cases."""

    low_ns: float  # whole for a difference of medians. Where steps are counted or weighed, in their unit.
    high_ns: float
    follows: float = 0.0
    """How much steps follow their neighbours, from 0 to 1 (the larger autocorrelation), where that made it wider."""
    runs_ns: int = 0  # how much runs of one side differ beyond what their steps explain (a standard deviation)

    @property
    def holds_zero(self) -> bool:
        return self.low_ns <= 0 <= self.high_ns


class _Resampled(Struct, frozen=True):
    """One side's median, resampled."""

    centre: float
    medians: NDArray[np.float64]
    follows: float
    between: float  # variance between runs, beyond that of their steps; -1 where there is one run


def median_interval(before: Sequence[Ints], after: Sequence[Ints]) -> Interval | NotMeasured:
    """The interval of the difference of medians; each side is a sequence of runs, each of steps in order."""
    counts = [sum(len(run) for run in side) for side in (before, after)]
    if min(counts) < FEWEST_STEPS:
        return NotMeasured(
            say("{steps} on one side; an interval needs {least}", steps=_only(min(counts)), least=FEWEST_STEPS)
        )
    random = np.random.default_rng(SEED)
    old, new = (_resampled(side, random) for side in (before, after))
    centre, drawn = new.centre - old.centre, new.medians - old.medians
    low, high = np.percentile(drawn, (100 * TAIL, 100 * (1 - TAIL)))
    # the variance that runs add to the difference; a side with one run is taken to vary as the other does
    known = max(old.between, new.between)
    sides = ((old, before), (new, after))
    between = (
        sum((side.between if side.between >= 0 else known) / len(runs) for side, runs in sides) if known > 0 else 0.0
    )
    # degrees of freedom of a sum of two variances, after Satterthwaite
    of_steps = float(drawn.var())
    parts = of_steps**2 / max(sum(counts) - 2, 1) + between**2 / max(len(before) + len(after) - 2, 1)
    quantile = student((of_steps + between) ** 2 / parts if parts else math.inf)
    of_runs, wider = quantile * math.sqrt(between), quantile / _Z
    return Interval(
        math.floor(centre - math.hypot(max(centre - low, 0.0) * wider, of_runs)),
        math.ceil(centre + math.hypot(max(high - centre, 0.0) * wider, of_runs)),
        max(old.follows, new.follows),
        round(math.sqrt(max(known, 0.0))),
    )


def mean_interval(before: Sequence[int], after: Sequence[int]) -> Interval | NotMeasured:
    """The interval of the difference of means, step by step, as Welch gives it."""
    if min(len(before), len(after)) < FEWEST_STEPS:
        return NotMeasured(say("{steps} on one side", steps=_only(min(len(before), len(after)))))
    sides = [np.array(side, np.float64) for side in (before, after)]
    follows = [autocorrelation(steps) for steps in sides]
    variances = [
        float(steps.var(ddof=1)) / len(steps) * _inflation(own) for steps, own in zip(sides, follows, strict=True)
    ]
    whole = sum(variances)
    parts = sum(part**2 / (len(steps) - 1) for part, steps in zip(variances, sides, strict=True))
    reach = student(whole**2 / parts if parts else math.inf) * math.sqrt(whole)
    delta = float(sides[1].mean() - sides[0].mean())
    return Interval(delta - reach, delta + reach, max(follows))


def verdict(before_ns: int, delta_ns: int, interval: Interval | NotMeasured) -> str:
    """One of VERDICTS."""
    least = UNSURE_SHARE if isinstance(interval, NotMeasured) else LEAST_SHARE
    small = abs(delta_ns) < least * before_ns or delta_ns == 0
    if small or (isinstance(interval, Interval) and interval.holds_zero):
        return NO_CHANGE
    return FASTER if delta_ns < 0 else SLOWER


def autocorrelation(length_ns: NDArray[np.float64]) -> float:
    """How much each step follows the one before: the autocorrelation, outliers clipped; 0 where it may be chance."""
    count = len(length_ns)
    away = length_ns - median(length_ns)
    usual = 3 * 1.4826 * median(np.abs(away))
    away = np.clip(away, -usual, usual)
    away = away - away.mean()
    squares = float((away**2).sum())
    if count < 4 or not squares:
        return 0.0
    correlation = float((away[1:] * away[:-1]).sum()) / squares
    correlation += (1 + 3 * correlation) / count  # few steps make it come out too low
    return min(correlation, _MOST_ALIKE) if correlation > _SURELY_FOLLOWS / math.sqrt(count) else 0.0


def student(freedom: float) -> float:
    """The quantile of Student's t at 1 - TAIL: the expansion of Cornish and Fisher; exact for 1 and 2."""
    if freedom <= 1:
        return 1 / math.tan(math.pi * TAIL)
    if freedom <= 2:
        return (1 - 2 * TAIL) * math.sqrt(2 / (4 * TAIL * (1 - TAIL)))
    z, d = _Z, freedom
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    fourth = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
    return z + first / d + second / d**2 + third / d**3 + fourth / d**4


def _resampled(runs: Sequence[Ints], random: np.random.Generator) -> _Resampled:
    steps = np.sort(np.concatenate(runs)).astype(np.float64)
    centre = median(steps)
    follows = max(autocorrelation(run.astype(np.float64)) for run in runs)
    medians = _medians(steps, random)
    if follows:  # however steps wander, where they usually are lies between the shortest and the longest
        medians = np.clip(centre + (medians - centre) * math.sqrt(_inflation(follows)), steps[0], steps[-1])
    between = -1.0
    if len(runs) > 1:
        own = np.array([median(run) for run in runs])
        between = max(0.0, float(own.var(ddof=1)) - len(runs) * float(medians.var()))
    return _Resampled(centre, medians, follows, between)


def _medians(ordered: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
    """The medians of resamples of sorted steps: the places of the middle order statistics, drawn directly."""
    count, half = len(ordered), len(ordered) // 2
    if count % 2:
        places = [random.beta(half + 1, half + 1, RESAMPLES)]
    else:
        lower = random.beta(half, half + 1, RESAMPLES)
        places = [lower, lower + (1 - lower) * (1 - random.random(RESAMPLES) ** (1 / half))]  # the next one above it
    drawn = [ordered[np.minimum((place * count).astype(np.intp), count - 1)] for place in places]
    return drawn[0] if count % 2 else (drawn[0] + drawn[1]) / 2


def _inflation(follows: float) -> float:
    """By how much the variance of an average grows where steps follow one another."""
    return (1 + follows) / (1 - follows)


def _only(steps: int) -> str:
    return say("only one step") if steps == 1 else say("only {count} steps", count=steps)


MOST_WAITING: Final = 0.5
"""A range in which the host waits for more than this share of the time says little about the host."""

MOST_APART: Final = 0.05  # ranges of tables are controls if their changes are no further apart than this share


class Controls(Struct, frozen=True):
    """What ran the same code, and how long it took."""

    names: tuple[str, ...]
    before_ns: int  # host time per step
    after_ns: int  # the same, as often as before
    interval: Interval | NotMeasured
    corrected_delta_ns: int | None
    """The difference if the host had been as fast as before; None where the step is not known."""
    known: bool  # whether the calls inside were seen to be the same, rather than the names alone, or the user said so

    @property
    def ratio(self) -> float:
        """Above 1: the machine was slower."""
        return self.after_ns / self.before_ns

    def corrects(self, pair: RangePair) -> bool:
        """Whether a range's host time can be corrected: the controls are no noise, and it does not mostly wait."""
        return not (self.is_noise or pair.before is None or pair.after is None or _mostly_waits(pair))

    @property
    def is_noise(self) -> bool:
        """Whether the change of the controls may be chance."""
        return isinstance(self.interval, Interval) and self.interval.holds_zero


def controls(
    before: RunSide, after: RunSide, pairs: Sequence[RangePair], delta_ns: int, wanted: str | None = None
) -> Controls | NotMeasured:
    """The controls among these ranges: those whose name matches `wanted`, or those that did not change."""
    both = [pair for pair in pairs if pair.before is not None and pair.after is not None]
    if wanted is None:
        chosen = _unchanged(pairs, both)
    elif not (chosen := [pair for pair in both if NamePattern(wanted).search(pair.name)]):
        chosen = NotMeasured(say("no range on both sides matches '{pattern}'", pattern=wanted))
    if isinstance(chosen, NotMeasured):
        return chosen
    # those that are not inside one another, so that no time counts twice
    names = {_both(pair)[0].name for pair in chosen}
    chosen = [pair for pair in chosen if names.isdisjoint(_both(pair)[0].inside)] or chosen[:1]
    old_ns = sum(old.host_ns for old, _ in map(_both, chosen))
    new_ns = sum(
        (new.host_ns / new.instances * old.instances for old, new in map(_both, chosen) if new.instances), start=0.0
    )
    if not old_ns or not new_ns:
        return NotMeasured(say("the ranges that did not change took no time"))
    ratio = new_ns / old_ns
    known = all(old.calls is not None for old, _ in map(_both, chosen))
    return Controls(
        tuple(pair.name for pair in chosen),
        round(old_ns / before.steps),
        round(new_ns / before.steps),
        _interval(before, after, chosen),
        None if before.whole == KERNEL_TIME else round(delta_ns - host_idle_ns(after) * (1 - 1 / ratio)),
        known or wanted is not None,
    )


def _unchanged(pairs: Sequence[RangePair], both: Sequence[RangePair]) -> list[RangePair] | NotMeasured:
    if not both:
        return NotMeasured(say("no range is on both sides"))
    if all(pair.unchanged for pair in pairs):
        return NotMeasured(say("every range does the same on both sides, so none can serve as a control for another"))
    unchanged = [pair for pair in both if pair.unchanged and not _mostly_waits(pair)]
    if not unchanged:
        return NotMeasured(say("no range does the same on both sides without waiting for the GPU"))
    if any(old.calls is not None for old, _ in map(_both, unchanged)):
        return unchanged
    # of tables, if they all changed alike: one that holds a range that did change would not
    shares = sorted(
        new.host_ns / new.instances / old.host_ns * old.instances - 1
        for old, new in map(_both, unchanged)
        if old.host_ns
    )
    if len(shares) < 2:
        return NotMeasured(say("tables do not show what runs in a range; --control names those that did not change"))
    if shares[-1] - shares[0] > MOST_APART:
        return NotMeasured(
            say(
                "ranges of the same name changed by {least} to {most} %, so not all of them can be "
                "unchanged; --control names those that are",
                least=f"{100 * shares[0]:+.1f}",
                most=f"{100 * shares[-1]:+.1f}",
            )
        )
    return unchanged


def _both(pair: RangePair) -> tuple[RunRange, RunRange]:
    if pair.before is None or pair.after is None:
        raise ValueError(f"{pair.name} is on one side alone")
    return pair.before, pair.after


def _mostly_waits(pair: RangePair) -> bool:
    return any(
        run_range.wait_ns is not None and run_range.wait_ns > MOST_WAITING * run_range.host_ns
        for run_range in _both(pair)
    )


def host_idle_ns(side: RunSide) -> float:
    """Idle time per step that the host caused."""
    return math.fsum(side.line_mean_ns(Line.of_cause(cause)) for cause in HOST_PACED)


def _interval(before: RunSide, after: RunSide, chosen: Sequence[RangePair]) -> Interval | NotMeasured:
    """Of the controls' time per step, where it is known step by step."""
    sides: list[list[int]] = []
    for index, side in enumerate((before, after)):
        by_step = [side.range_steps.get(_both(pair)[index].name, ()) for pair in chosen]
        if not all(by_step) or side.steps < 2:
            return NotMeasured(say("their times per step are unknown"))
        sides.append([sum(step) for step in zip(*by_step, strict=True)])
    return mean_interval(*sides)

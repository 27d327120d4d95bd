"""A history of runs: which figures changed for good, at which commit, and whether code, method or hardware did it.

Runs on the same GPU, at the same clock, by the same method form a series; within one, only code and noise differ. The
best fit of levels is looked for, and a change stays if shuffled residuals of all series rarely differ by as much
anywhere. So noise may have any distribution. docs/concepts/history.md tells it in full, and how often it is wrong.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.typing import NDArray

from gpuledger.analyse.diff.compare import CLOCKS_ALIKE, Diff
from gpuledger.analyse.diff.noise import LEAST_SHARE
from gpuledger.analyse.diff.run_side import RunSide
from gpuledger.timing.settle import spread
from gpuledger.trace.statistics import median

CODE, METHOD, HARDWARE, NOISE = "code", "method", "hardware", "noise"
NEAREST: Final = 5  # runs on each side that a change is told by
SHUFFLES: Final = 499
SEED: Final = 20_261_118
CHANCE: Final = 0.01  # a change is one if shuffled runs differ by as much no more often
_WORTH_TELLING: Final = 0.1  # up to this chance it is listed as noise that more runs may show to be a change
FEWEST: Final = 2  # runs of a window: one alone says nothing
_STANDS_OUT: Final = 3.0  # standard deviations beyond both neighbours
_FURTHEST: Final = 5.0  # standard deviations that a residual may be out, where chances are counted
_PENALTY: Final = 3.0  # of a level, in logarithms of the number of runs: it has a place and a height
_DRIFT_SAVES: Final = 2.0  # levels that a drift must save, as steps are what commits make
_TRIES: Final = 3
_KEPT, _OF_KEPT = 0.8, 1.5115  # the smaller differences of a normal distribution, and what their deviation lacks
_LEAST_NOISE: Final = 0.0005  # no two runs are more alike than this share
_AS_LIKELY: Final = 3.0  # usual residuals by which another place of a change may fit worse and be it all the same
_OTHER_LEVEL: Final = 4.0  # standard errors between two series
_MOST_RANGES: Final = 40

Floats = NDArray[np.float64]


class RunFigure(Struct, frozen=True):
    """One figure of one run; the ends are of its 95 % interval, where there is one."""

    value: float
    unit: str
    low: float | None = None
    high: float | None = None


class StoredRun(Struct, frozen=True):
    """One run, as docs/concepts/history.md describes its columns. '': not known."""

    run: str
    date_utc: str
    commit: str
    commit_utc: str
    subject: str
    is_dirty: bool
    machine: str
    gpu: str
    driver: str
    clock_hz: float | None
    tool: str
    method: str
    steps: int
    gpuledger: str
    figures: dict[str, RunFigure] = field(default_factory=dict)

    @property
    def short(self) -> str:
        return f"{self.commit[:10]}{'+' if self.is_dirty else ''}" or self.run

    @property
    def place(self) -> tuple[str, str, str]:
        return self.commit_utc, self.date_utc, self.run


def side_figures(side: RunSide, phases: Mapping[str, float]) -> dict[str, RunFigure]:
    """What is kept of a run, per step: the step, each line, `phases`, ranges on the host, launches, memory."""
    figures = {side.whole: RunFigure(side.median_ns, "ns", *(spread(side.length_ns).interval_ns or ()))}
    times = {f"line:{line}": ns for line, ns in side.shown_mean_ns.items()}
    times |= {f"phase:{name}": ns for name, ns in phases.items()}
    times |= {f"range:{part.name}": part.host_ns / side.steps for part in (side.ranges or ())[:_MOST_RANGES]}
    figures |= {name: RunFigure(ns, "ns") for name, ns in times.items()}
    if side.launches is not None:
        figures["launches"] = RunFigure(side.launches.calls / side.steps, "count")
    if side.peak_bytes is not None:
        figures["memory"] = RunFigure(side.peak_bytes, "bytes")
    return figures


class LevelChange(Struct, frozen=True):
    """A figure that is another from a run on: the runs of the levels before and after, next to the change inside."""

    verdict: str
    before: tuple[StoredRun, ...]
    after: tuple[StoredRun, ...]
    before_value: float
    after_value: float
    last_before: StoredRun  # the last run that is surely of the level before, and the first that is surely of the other
    first_after: StoredRun
    chance: float | None = None  # how often shuffled runs differ by as much; None where that was not asked
    what: str = ""  # of method and hardware: what is another

    @property
    def share(self) -> float:
        return self.after_value / self.before_value - 1

    @property
    def moved_ns(self) -> dict[str, tuple[float | None, float | None]]:
        """Times before and after, medians of the nearest runs, the largest change first; None where no run has it."""
        sides = self.before[-NEAREST:], self.after[:NEAREST]
        times = {name: figure for run in (*sides[0], *sides[1]) for name, figure in run.figures.items()}
        moved = {name: (_middle(sides[0], name), _middle(sides[1], name)) for name in times if times[name].unit == "ns"}
        return dict(sorted(moved.items(), key=lambda both: -abs((both[1][1] or 0) - (both[1][0] or 0))))


def _middle(runs: Sequence[StoredRun], name: str) -> float | None:
    values = [run.figures[name].value for run in runs if name in run.figures]
    return median(np.array(values)) if values else None


class BlamedChange(NamedTuple):
    """A change, the commits that may have made it, the newest first, and the comparison of the runs on both sides."""

    change: LevelChange
    commits: Sequence[str]
    diff: Diff


class Trend(Struct, frozen=True):
    """One figure over all runs that have it. Changes are in the order of runs, noise included."""

    figure: str
    unit: str
    runs: tuple[StoredRun, ...]
    changes: tuple[LevelChange, ...]
    drift_share: float  # by how much it grows from the first run to the last without a step; 0 where it does not
    noise_share: float  # the standard deviation from run to run around the levels


def trend(runs: Sequence[StoredRun], figure: str) -> Trend:
    """The levels of one figure, and what changed them."""
    having = sorted((run for run in runs if figure in run.figures), key=lambda run: run.place)
    unit = having[0].figures[figure].unit if having else ""
    series = _series([run for run in having if 0 < run.figures[figure].value < math.inf])
    if not series:
        return Trend(figure, unit, tuple(having), (), 0.0, 0.0)
    ordered = [run for members in series for run in members]
    edges = [0, *np.cumsum([len(members) for members in series]).tolist()]
    values = np.log([run.figures[figure].value for run in ordered])
    when = np.concatenate([np.arange(len(members), dtype=np.float64) for members in series])
    slope = _drift(values, when, edges)
    levels = _Levels(ordered, values - slope * when, edges)
    return Trend(figure, unit, tuple(having), levels.changes(), math.expm1(slope * (len(having) - 1)), levels.sigma)


def _series(runs: Sequence[StoredRun]) -> list[list[StoredRun]]:
    """Runs that differ in code alone, each series in order; the series in the order of their first runs."""
    series, recorded_alike = list[list[StoredRun]](), dict[tuple[str, ...], list[list[StoredRun]]]()
    for run in runs:
        alike = recorded_alike.setdefault((run.gpu, run.driver, run.tool, run.method), [])  # clocks are left
        like = next((members for members in alike if not differences(members[0], run)), None)
        if like is None:
            like = []
            alike.append(like)
            series.append(like)
        like.append(run)
    return series


def differences(before: StoredRun, after: StoredRun) -> dict[str, str]:
    """What is another between two runs besides the code, by verdict: from what to what."""
    pairs = {HARDWARE: [("GPU ", "gpu"), ("driver ", "driver")], METHOD: [("", "tool"), ("", "method")]}
    said = {
        verdict: [
            f"{name}{getattr(before, key) or '?'} -> {getattr(after, key) or '?'}"
            for name, key in keys
            if getattr(before, key) != getattr(after, key)
        ]
        for verdict, keys in pairs.items()
    }
    one, other = before.clock_hz, after.clock_hz
    if one is not None and other is not None and abs(one - other) > CLOCKS_ALIKE * max(one, other):
        said[HARDWARE].append(f"SM clock {one / 1e6:.0f} -> {other / 1e6:.0f} MHz")
    return {verdict: ", ".join(what) for verdict, what in said.items() if what}


class _Levels:
    """Runs, series after series, cut into levels: the cuts of the best fit that shuffled residuals could not make."""

    def __init__(self, runs: Sequence[StoredRun], values: Floats, edges: Sequence[int]) -> None:
        self.runs, self.values, self.edges = runs, values, edges
        self.by_place = sorted(range(len(runs)), key=lambda run: runs[run].place)
        self.cuts, self.chances = _best_cuts(values, edges)[0], dict[int, float]()
        self.doubtful = dict[int, float]()
        random = np.random.default_rng(SEED)
        while doubted := [cut for cut in self.cuts if cut not in edges]:
            self.chances = {cut: _chance(values, self.cuts, cut, random) for cut in doubted}
            worst = max(doubted, key=lambda cut: self.chances[cut])
            if self.chances[worst] <= CHANCE:
                break
            self.cuts.remove(worst)  # the least sure goes first, and the others are looked at again
            self.doubtful |= {worst: self.chances[worst]} if self.chances[worst] <= _WORTH_TELLING else {}
        self.rest = _residuals(values, self.cuts)
        self.sigma = 1.4826 * median(np.abs(self.rest))

    def changes(self) -> tuple[LevelChange, ...]:
        found = [self._within(cut) for cut in self.cuts if cut not in self.edges]
        out = np.flatnonzero(np.abs(self.rest) > 2 * _STANDS_OUT * max(self.sigma, LEAST_SHARE / _OTHER_LEVEL))
        found += [
            replace(self._change(NOISE, self._level(run), slice(run, run + 1)), last_before=self.runs[run])
            for run in out.tolist()  # single runs that are far from their level
            if len(self.rest[self._level(run)]) > FEWEST
        ]
        found += [change for edge in self.edges[1:-1] if (change := self._between(edge)) is not None]
        for cut, chance in self.doubtful.items():
            level = self._level(cut)
            found.append(self._change(NOISE, slice(level.start, cut), slice(cut, level.stop), chance))
        return tuple(sorted(found, key=lambda change: change.first_after.place))

    def _level(self, run: int) -> slice:
        after = bisect_right(self.cuts, run)
        return slice(self.cuts[after - 1], self.cuts[after])

    def _change(self, verdict: str, old: slice, new: slice, chance: float | None = None, what: str = "") -> LevelChange:
        one, other = (math.exp(median(self.values[level])) for level in (old, new))
        before, after = tuple(self.runs[old]), tuple(self.runs[new])
        return LevelChange(verdict, before, after, one, other, before[-1], after[0], chance, what)

    def _within(self, cut: int) -> LevelChange:
        """A change inside a series: of the code, unless it is small, the commit is the same, or the machine is not."""
        old, new = self._level(cut - 1), self._level(cut)
        around = self.values[old.start : new.stop]
        splits = range(FEWEST, len(around) - FEWEST + 1)
        losses = np.array([np.abs(_residuals(around, (0, split, len(around)))).sum() for split in splits])
        likely = np.flatnonzero(losses - losses.min() <= _AS_LIKELY * 0.8 * self.sigma) + old.start + FEWEST
        first, last = self.runs[min(likely.min(), cut) - 1], self.runs[max(likely.max(), cut)]
        change = replace(self._change(CODE, old, new, self.chances[cut]), last_before=first, first_after=last)
        if abs(change.share) < LEAST_SHARE or (first.commit == last.commit != "" and not last.is_dirty):
            return replace(change, verdict=NOISE)
        machines = [sorted({run.machine for run in side}) for side in (change.before, change.after)]
        if machines[0] != machines[1] and len(machines[0]) == len(machines[1]) == 1:
            named = " -> ".join(machine or "?" for (machine,) in machines)
            return replace(change, verdict=HARDWARE, what=f"machine {named}")
        return change

    def _between(self, edge: int) -> LevelChange | None:
        """Where another series begins: its first level against that of the run before it, of whichever series."""
        first = self.runs[edge]
        before = self.by_place[bisect_left(self.by_place, first.place, key=lambda run: self.runs[run].place) - 1]
        last, old, new = self.runs[before], self._level(before), self._level(edge)
        what = differences(last, first)
        change = self._change(HARDWARE if HARDWARE in what else METHOD, old, new, what="; ".join(what.values()))
        error = self.sigma * math.sqrt(1 / len(change.before) + 1 / len(change.after))
        return replace(change, last_before=last) if abs(change.share) > max(LEAST_SHARE, _OTHER_LEVEL * error) else None


def _best_cuts(values: Floats, edges: Sequence[int]) -> tuple[list[int], float]:
    """The levels of least cost: squared residuals in variances, and a penalty for each cut; and that cost."""
    sigma = _step_deviation(values, edges)
    penalty = _PENALTY * math.log(max(len(values), 2))
    cuts, cost = [0], 0.0
    for start, end in pairwise(edges):
        part = _clipped(values[start:end], sigma) / sigma
        sums, squares = (np.concatenate(([0.0], column.cumsum())) for column in (part, part**2))
        costs, came = np.full(len(part) + 1, -penalty), np.zeros(len(part) + 1, np.intp)
        for last in range(1, len(part) + 1):
            first = np.arange(0, max(last - FEWEST, 0) + 1)
            of_level = squares[last] - squares[first] - (sums[last] - sums[first]) ** 2 / (last - first)
            total = costs[first] + of_level + penalty
            came[last] = int(total.argmin())
            costs[last] = total[came[last]]
        cost += float(costs[-1])
        own, place = list[int](), len(part)
        while place:
            own.append(start + place)
            place = int(came[place])
        cuts += own[::-1]
    return cuts, cost


def _drift(values: Floats, when: Floats, edges: Sequence[int]) -> float:
    """What runs grow by from one to the next, if that costs far less than the steps that it saves; else 0."""
    cuts, cost = _best_cuts(values, edges)
    best, least = 0.0, cost - _DRIFT_SAVES * _PENALTY * math.log(max(len(values), 2))
    for levels in (cuts, list(edges)):  # the slope inside the levels that were found, and that over all
        for _ in range(_TRIES):
            time = np.concatenate([when[start:end] - when[start:end].mean() for start, end in pairwise(levels)])
            slope = float((time * values).sum()) / max(float((time**2).sum()), 1.0)
            levels, sloped = _best_cuts(values - slope * when, edges)
            if sloped < least:
                best, least = slope, sloped
    return best


def _chance(values: Floats, cuts: Sequence[int], cut: int, random: np.random.Generator) -> float:
    """How often shuffled residuals differ by as much anywhere as the runs do around this cut, if it is none."""
    others = [other for other in cuts if other != cut]
    rest = _residuals(values, others)
    most = _FURTHEST * _step_deviation(rest, others)
    rest = np.clip(rest, -most, most)  # so that one run that is far out does not stand for all
    around = [max(other for other in others if other < cut), min(other for other in others if other > cut)]
    shuffled = random.permuted(np.broadcast_to(rest, (SHUFFLES, len(rest))), axis=1)
    as_large = _largest(shuffled, others) >= _largest(rest[np.newaxis], around)
    return float((1 + as_large.sum()) / (SHUFFLES + 1))


def _largest(rows: Floats, cuts: Sequence[int]) -> Floats:
    """For each row the largest difference of the means of two windows side by side inside one level."""
    sums = np.concatenate((np.zeros((len(rows), 1)), rows.cumsum(axis=1)), axis=1)
    largest = np.zeros(len(rows))
    for start, end in pairwise(cuts):
        meet = np.arange(start + FEWEST, end - FEWEST + 1)
        sizes = [2, 3, 5, *(round(8 * 1.6**power) for power in range(24) if 5 * 1.6**power < end - start)]
        for before in sizes if len(meet) else ():
            left = np.minimum(before, meet - start)
            low = (sums[:, meet] - sums[:, meet - left]) / left
            for after in sizes:
                right = np.minimum(after, end - meet)
                high = (sums[:, meet + right] - sums[:, meet]) / right
                apart = np.abs(high - low) * np.sqrt(left * right / (left + right))
                np.maximum(largest, apart.max(axis=1), out=largest)
    return largest


def _residuals(values: Floats, cuts: Sequence[int]) -> Floats:
    """What is left of each value without its level; widened where few runs made the level."""
    parts = [values[start:end] for start, end in pairwise(cuts)]
    return np.concatenate([(part - median(part)) * math.sqrt(len(part) / max(len(part) - 1, 1)) for part in parts])


def _step_deviation(values: Floats, cuts: Sequence[int]) -> float:
    """From run to run, by the smaller four fifths of the differences: the others may be changes."""
    steps = np.sort(np.abs(np.concatenate([np.diff(values[start:end]) for start, end in pairwise(cuts)])))
    kept = steps[: math.ceil(_KEPT * len(steps))]
    return max(_OF_KEPT * math.sqrt(float((kept**2).sum()) / max(2 * len(kept), 1)), _LEAST_NOISE)


def _clipped(values: Floats, sigma: float) -> Floats:
    """A run that stands out from both neighbours is as far out as noise may be; at the ends, from the two beside it."""
    if len(values) <= FEWEST:
        return values
    left, right = np.concatenate((values[2:3], values[:-1])), np.concatenate((values[1:], values[-3:-2]))
    reach = _STANDS_OUT * sigma
    return np.clip(values, np.minimum(left, right) - reach, np.maximum(left, right) + reach)

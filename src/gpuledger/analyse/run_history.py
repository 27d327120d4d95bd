"""A history of runs: which figures changed for good, at which commit, and whether code, method or hardware did it.

Runs come in the order of their commits. Those on the same GPU, at the same clock, by the same method form a series;
within one, only code and noise differ. Changes of a series are found one after the other: the two windows beside each
other whose means differ most, if shuffled residuals of all series give as large a difference in less than one of a
hundred shuffles. So the noise may have any distribution, with two modes as well; a single run that stands out is
clipped first, in the shuffles too. docs/concepts/history.md tells it in full.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.diff.compare import CLOCKS_ALIKE, Diff
from gpuledger.analyse.diff.noise import LEAST_SHARE
from gpuledger.analyse.diff.run_side import STEP, RunSide
from gpuledger.records import dataclass
from gpuledger.timing.settle import spread
from gpuledger.trace.statistics import median

NEAREST: Final = 5  # runs on each side that a change is told by

CODE, METHOD, HARDWARE, NOISE = CHANGE_VERDICTS = ("code", "method", "hardware", "noise")

SHUFFLES: Final = 499
SEED: Final = 20_261_118
CHANCE: Final = 0.01
"""A change is one if shuffled runs show as large a difference less often."""
FEWEST: Final = 2  # runs of a window: one alone says nothing
_STANDS_OUT: Final = 3.0  # standard deviations beyond both neighbours
_FURTHEST: Final = 5.0  # standard deviations that a residual may be out, where chances are counted
_PENALTY: Final = 3.0  # of a level, in logarithms of the number of runs: it has a place and a height
_KEPT: Final = 0.8
_OF_KEPT: Final = 1.5115  # what the smaller four fifths of a normal distribution's deviations are short of the whole
_DRIFT_SAVES: Final = 2.0  # levels that a drift must save, as steps are what commits make
_TRIES: Final = 3
_LEAST_NOISE: Final = 0.0005  # no two runs are more alike than this share
_AS_LIKELY: Final = 3.0
"""Other places of a change that leave residuals larger by less than so many usual ones may as well be the place."""
_OTHER_LEVEL: Final = 4.0  # standard errors between two series

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RunFigure:
    """One figure of one run; the ends are of its 95 % interval, where there is one."""

    value: float
    unit: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class StoredRun:
    """One run: where it stands in the history, what it ran on, how it was recorded, and its figures."""

    run: str
    date_utc: str
    commit: str
    """As git names it; '' where it is not known."""
    commit_utc: str
    """What runs are ordered by: when the commit was made; where that is not known, when it ran."""
    subject: str
    is_dirty: bool
    machine: str
    gpu: str
    driver: str
    clock_hz: float | None
    """The SM clock while kernels ran, where it was sampled or given; else the highest that the GPU says it has."""
    tool: str
    method: str
    steps: int
    gpuledger: str
    figures: dict[str, RunFigure] = field(compare=False, default_factory=dict)

    @property
    def short(self) -> str:
        """What a reader calls it."""
        return f"{self.commit[:10]}{'+' if self.is_dirty else ''}" or self.run

    @property
    def place(self) -> tuple[str, str, str]:
        return self.commit_utc, self.date_utc, self.run


_MOST_RANGES: Final = 40


def side_figures(side: RunSide, phases: Mapping[str, float]) -> dict[str, RunFigure]:
    """What is kept of a run, per step: the step, each line, `phases`, ranges on the host, launches, memory."""
    middle = spread(side.length_ns)
    low, high = middle.interval_ns or (None, None)
    figures = {STEP if side.whole == STEP else side.whole: RunFigure(side.median_ns, "ns", low, high)}
    figures |= {f"line:{line}": RunFigure(ns, "ns") for line, ns in side.shown_mean_ns.items()}
    figures |= {f"phase:{name}": RunFigure(ns, "ns") for name, ns in phases.items()}
    ranges = (side.ranges or ())[:_MOST_RANGES]
    figures |= {f"range:{part.name}": RunFigure(part.host_ns / side.steps, "ns") for part in ranges}
    if side.launches is not None:
        figures["launches"] = RunFigure(side.launches.calls / side.steps, "count")
    if side.peak_bytes is not None:
        figures["memory"] = RunFigure(side.peak_bytes, "bytes")
    return figures


@dataclass(frozen=True, slots=True)
class MovedFigure:
    """A figure before and after a change: the medians of the runs on each side that have it; None where none has."""

    figure: str
    unit: str
    before: float | None
    after: float | None

    @property
    def delta(self) -> float:
        return (self.after or 0.0) - (self.before or 0.0)


@dataclass(frozen=True, slots=True)
class LevelChange:
    """A figure that is another from a run on. `first` and `last` are the runs between which it may have changed."""

    verdict: str
    """One of CHANGE_VERDICTS."""
    before: tuple[StoredRun, ...]
    """The runs of the level before it, the last of them next to the change; those after it likewise."""
    after: tuple[StoredRun, ...]
    last_before: StoredRun
    """The last run that is surely of the level before."""
    first_after: StoredRun
    """The first run that is surely of the level after."""
    before_value: float
    after_value: float
    chance: float | None
    """How often shuffled runs differ by as much; None where two series are told apart by their levels."""
    what: str = ""
    """Of method and hardware: what is another."""

    @property
    def share(self) -> float:
        return self.after_value / self.before_value - 1

    @property
    def moved(self) -> tuple[MovedFigure, ...]:
        """All times that this moved, the most first: lines, phases and ranges."""
        sides = self.before[-NEAREST:], self.after[:NEAREST]
        names = dict.fromkeys(name for runs in sides for run in runs for name in run.figures)
        figures = [_moved(name, *sides) for name in names]
        times = [figure for figure in figures if figure.unit == "ns"]
        return tuple(sorted(times, key=lambda figure: -abs(figure.delta)))


@dataclass(frozen=True, slots=True)
class BlamedChange:
    """A change with the commits that may have made it, and the comparison of the runs on both sides."""

    change: LevelChange
    commits: tuple[str, ...]
    """Name and first line of each, the newest first; none where git does not know them here."""
    diff: Diff


def _moved(name: str, *sides: Sequence[StoredRun]) -> MovedFigure:
    held = [[run.figures[name] for run in runs if name in run.figures] for runs in sides]
    middle = [median(np.array([figure.value for figure in side])) if side else None for side in held]
    return MovedFigure(name, (held[0] or held[1])[0].unit, *middle)


@dataclass(frozen=True, slots=True)
class Trend:
    """One figure over all runs that have it."""

    figure: str
    unit: str
    runs: tuple[StoredRun, ...]
    missing: int
    """Runs that do not have the figure."""
    changes: tuple[LevelChange, ...]
    """In the order of runs, noise included."""
    drift_share: float
    """By how much it grows from the first run to the last without a step; 0 where it does not."""
    noise_share: float
    """The standard deviation from run to run around the levels."""


def trend(runs: Sequence[StoredRun], figure: str) -> Trend:
    """The levels of one figure, and what changed them."""
    having = sorted((run for run in runs if figure in run.figures), key=lambda run: run.place)
    if not having:
        return Trend(figure, "", (), len(runs), (), 0.0, 0.0)
    series = _series([run for run in having if run.figures[figure].value > 0])
    ordered = [run for members in series for run in members]
    edges = [0, *np.cumsum([len(members) for members in series]).tolist()]
    values = np.log([run.figures[figure].value for run in ordered])
    when = np.array([position for members in series for position in range(len(members))], np.float64)
    slope = _drift(values, when, edges)
    flat = values - slope * when
    levels = _levels(flat, edges)
    sigma = _deviation(_residuals(flat, levels.cuts))
    found = [_within(ordered, flat, levels, cut, sigma) for cut in levels.cuts[1:-1] if cut not in edges]
    found += [_alone(ordered, flat, levels, run) for run in _single(_residuals(flat, levels.cuts), levels.cuts)]
    for members in series[1:]:
        found += _between(ordered, flat, levels, members, sigma)
    return Trend(
        figure,
        having[0].figures[figure].unit,
        tuple(having),
        len(runs) - len(having),
        tuple(sorted(found, key=lambda change: change.first_after.place)),
        math.expm1(slope * (len(having) - 1)),
        sigma,
    )


def _series(runs: Sequence[StoredRun]) -> list[list[StoredRun]]:
    """Runs that differ in code alone, each series in order; the series in the order of their first runs."""
    series: list[list[StoredRun]] = []
    for run in runs:
        like = next((members for members in series if not differences(members[0], run)), None)
        if like is None:
            series.append([run])
        else:
            like.append(run)
    return series


def differences(before: StoredRun, after: StoredRun) -> dict[str, str]:
    """What is another between two runs besides the code, by verdict: in words, from what to what."""
    hardware = [
        f"{name} {old or '?'} -> {new or '?'}"
        for name, old, new in (("GPU", before.gpu, after.gpu), ("driver", before.driver, after.driver))
        if old != new
    ]
    one, other = before.clock_hz, after.clock_hz
    if one is not None and other is not None and abs(one - other) > CLOCKS_ALIKE * max(one, other):
        hardware.append(f"SM clock {one / 1e6:.0f} -> {other / 1e6:.0f} MHz")
    method = [
        f"{old or '?'} -> {new or '?'}"
        for old, new in ((before.tool, after.tool), (before.method, after.method))
        if old != new
    ]
    return {verdict: ", ".join(what) for verdict, what in ((HARDWARE, hardware), (METHOD, method)) if what}


@dataclass(frozen=True, slots=True, eq=False)
class _Levels:
    """Where levels begin, with the end of all; and the chance of each that was found."""

    cuts: list[int]
    chances: dict[int, float]


def _levels(values: Floats, edges: Sequence[int]) -> _Levels:
    """The cuts of the best fit, less those that shuffled residuals could make, the least sure first."""
    cuts, chances = _best_cuts(values, edges)[0], dict[int, float]()
    random = np.random.default_rng(SEED)
    while doubted := [cut for cut in cuts if cut not in edges]:
        chances = {cut: _chance(values, cuts, cut, random) for cut in doubted}
        worst = max(doubted, key=lambda cut: chances[cut])
        if chances[worst] < CHANCE:
            break
        cuts = [cut for cut in cuts if cut != worst]
    return _Levels(cuts, chances)


def _best_cuts(values: Floats, edges: Sequence[int]) -> tuple[list[int], float]:
    """The levels of least cost: squared residuals in variances, and a penalty for each cut; and that cost."""
    sigma = max(_step_deviation(values, edges), _LEAST_NOISE)
    penalty = _PENALTY * math.log(max(len(values), 2))
    cuts, cost = [0], 0.0
    for start, end in pairwise(edges):
        part = _clipped(values[start:end], sigma) / sigma
        sums, squares = (np.concatenate(([0.0], column.cumsum())) for column in (part, part**2))
        costs, came = np.full(len(part) + 1, np.inf), np.zeros(len(part) + 1, np.intp)
        costs[0] = -penalty
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


def _chance(values: Floats, cuts: Sequence[int], cut: int, random: np.random.Generator) -> float:
    """How often shuffled residuals differ by as much anywhere as the runs do around this cut, if it is none."""
    others = [other for other in cuts if other != cut]
    rest = _residuals(values, others)
    most = _FURTHEST * max(_step_deviation(rest, others), _LEAST_NOISE)
    rest = np.clip(rest, -most, most)  # so that one run that is far out does not stand for all
    around = [max(other for other in others if other < cut), min(other for other in others if other > cut)]
    observed = _largest(rest[np.newaxis], around)[0]
    shuffled = random.permuted(np.broadcast_to(rest, (SHUFFLES, len(rest))), axis=1)
    return float((1 + (_largest(shuffled, others) >= observed).sum()) / (SHUFFLES + 1))


def _losses(values: Floats) -> Floats:
    """What two levels leave, for each place where the second may begin: the sum of absolute residuals."""
    return np.array(
        [
            sum(float(np.abs(part - median(part)).sum()) for part in (values[:place], values[place:]))
            for place in range(FEWEST, len(values) - FEWEST + 1)
        ]
    )


def _residuals(values: Floats, cuts: Sequence[int]) -> Floats:
    """What is left of each value without its level; widened where few runs made the level."""
    rest = np.empty_like(values)
    for start, end in pairwise(cuts):
        part = values[start:end]
        rest[start:end] = (part - median(part)) * math.sqrt(len(part) / max(len(part) - 1, 1))
    return rest


def _deviation(rest: Floats) -> float:
    """The robust standard deviation."""
    return 1.4826 * median(np.abs(rest)) if len(rest) else 0.0


def _step_deviation(values: Floats, cuts: Sequence[int]) -> float:
    """From run to run, by the smaller four fifths of the differences: the others may be changes."""
    inside = np.ones(len(values), np.bool_)
    inside[[cut for cut in cuts if cut < len(values)]] = False
    steps = np.sort(np.abs(np.diff(values)[inside[1:]]))
    kept = steps[: math.ceil(_KEPT * len(steps))]
    return _OF_KEPT * math.sqrt(float((kept**2).mean()) / 2) if len(kept) else 0.0


def _clipped(values: Floats, sigma: float) -> Floats:
    """A run that stands out from both neighbours is as far out as noise may be; at the ends, from the two beside it."""
    if len(values) <= FEWEST:
        return values
    left = np.concatenate((values[2:3], values[:-1]))
    right = np.concatenate((values[1:], values[-3:-2]))
    reach = _STANDS_OUT * sigma
    return np.clip(values, np.minimum(left, right) - reach, np.maximum(left, right) + reach)


def _largest(rows: Floats, cuts: Sequence[int]) -> Floats:
    """For each row the largest difference of the means of two windows side by side inside one level."""
    sums = np.concatenate((np.zeros((len(rows), 1)), rows.cumsum(axis=1)), axis=1)
    largest = np.zeros(len(rows))
    for start, end in pairwise(cuts):
        meet = np.arange(start + FEWEST, end - FEWEST + 1)
        sizes = _window_sizes(end - start) if len(meet) else ()
        for before in sizes:
            left = np.minimum(before, meet - start)
            low = (sums[:, meet] - sums[:, meet - left]) / left
            for after in sizes:
                right = np.minimum(after, end - meet)
                high = (sums[:, meet + right] - sums[:, meet]) / right
                apart = np.abs(high - low) * np.sqrt(left * right / (left + right))
                np.maximum(largest, apart.max(axis=1), out=largest)
    return largest


def _window_sizes(most: int) -> tuple[int, ...]:
    sizes = [FEWEST]
    while sizes[-1] < most:
        sizes.append(max(sizes[-1] + 1, round(1.6 * sizes[-1])))
    return tuple(sizes)


def _drift(values: Floats, when: Floats, edges: Sequence[int]) -> float:
    """What runs grow by from one to the next, if that costs far less than the steps that it saves; else 0."""
    cuts, cost = _best_cuts(values, edges)
    best, least = 0.0, cost - _DRIFT_SAVES * _PENALTY * math.log(max(len(values), 2))
    for levels in (cuts, list(edges)):  # the slope inside the levels that were found, and that over all
        for _ in range(_TRIES):
            parts = [slice(start, end) for start, end in pairwise(levels)]
            time = np.concatenate([when[part] - when[part].mean() for part in parts])
            spread = float((time**2).sum())
            slope = float((time * values).sum()) / spread if spread else 0.0
            levels, sloped = _best_cuts(values - slope * when, edges)
            if sloped < least:
                best, least = slope, sloped
    return best


def _within(runs: Sequence[StoredRun], values: Floats, levels: _Levels, cut: int, sigma: float) -> LevelChange:
    """A change inside a series: of the code, unless it is small or the commit is the same."""
    at = levels.cuts.index(cut)
    start, end = levels.cuts[at - 1], levels.cuts[at + 1]
    losses = _losses(values[start:end])
    likely = np.flatnonzero(losses - losses.min() <= _AS_LIKELY * 0.8 * sigma) + start + FEWEST
    earliest, latest = min(int(likely[0]), cut), max(int(likely[-1]), cut)
    change = _change(CODE, runs, values, (start, cut, end), levels.chances[cut])
    change = replace(change, last_before=runs[earliest - 1], first_after=runs[latest])
    same = runs[earliest - 1].commit == runs[latest].commit != "" and not runs[latest].is_dirty
    if same or abs(change.share) < LEAST_SHARE:
        return replace(change, verdict=NOISE)
    old, new = ({run.machine for run in side} for side in (change.before, change.after))
    if len(old) == len(new) == 1 and old != new and min(len(change.before), len(change.after)) >= FEWEST:
        return replace(change, verdict=HARDWARE, what=f"machine {old.pop() or '?'} -> {new.pop() or '?'}")
    return change


def _change(
    verdict: str, runs: Sequence[StoredRun], values: Floats, place: tuple[int, int, int], chance: float | None
) -> LevelChange:
    start, cut, end = place
    before, after = (math.exp(median(part)) for part in (values[start:cut], values[cut:end]))
    ends = runs[cut - 1], runs[cut]
    return LevelChange(verdict, tuple(runs[start:cut]), tuple(runs[cut:end]), *ends, before, after, chance)


def _level_of(cuts: Sequence[int], run: int) -> slice:
    """The runs of the same level."""
    return next(slice(start, end) for start, end in pairwise(cuts) if start <= run < end)


def _single(rest: Floats, cuts: Sequence[int]) -> list[int]:
    """Runs that stand out from their level alone, far beyond the others."""
    sigma = max(_deviation(rest), LEAST_SHARE / _OTHER_LEVEL)
    out = np.flatnonzero(np.abs(rest) > 2 * _STANDS_OUT * sigma).tolist()
    return [run for run in out if len(rest[_level_of(cuts, run)]) > FEWEST]


def _alone(runs: Sequence[StoredRun], values: Floats, levels: _Levels, run: int) -> LevelChange:
    level = _level_of(levels.cuts, run)
    others = np.delete(values[level], run - level.start)
    kept = tuple(other for other in runs[level] if other is not runs[run])
    ends = runs[run], runs[run]
    return LevelChange(NOISE, kept, (runs[run],), *ends, math.exp(median(others)), math.exp(float(values[run])), None)


def _between(
    runs: Sequence[StoredRun], values: Floats, levels: _Levels, members: Sequence[StoredRun], sigma: float
) -> list[LevelChange]:
    """Where another series begins: its first level against that of the run before it, whichever series that is of."""
    first = runs.index(members[0])
    earlier = [position for position, run in enumerate(runs) if run.place < members[0].place]
    last = max(earlier, key=lambda position: runs[position].place)
    parts = [_level_of(levels.cuts, position) for position in (last, first)]
    old, new = (values[part] for part in parts)
    before, after = median(old), median(new)
    if abs(after - before) < max(LEAST_SHARE, _OTHER_LEVEL * sigma * math.sqrt(1 / len(old) + 1 / len(new))):
        return []
    what = differences(runs[last], members[0])
    verdict = HARDWARE if HARDWARE in what else METHOD
    return [
        LevelChange(
            verdict,
            tuple(runs[parts[0]]),
            tuple(runs[parts[1]]),
            runs[last],
            members[0],
            math.exp(before),
            math.exp(after),
            None,
            "; ".join(what.values()),
        )
    ]

"""How steps vary: the usual length, what every so many steps do more, outliers with their line, and drift."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.ledger.books import Line
from gpuledger.ledger.device import Device
from gpuledger.ledger.levels import FEWEST
from gpuledger.ledger.steps import Steps
from gpuledger.trace.keys import distinct, is_among, occurrences
from gpuledger.trace.spans import Ints
from gpuledger.trace.statistics import median, nearest_percentiles

OUTLIER_RATIO: Final = 1.2
"""A step is an outlier at this many times its phase's median, and three times the usual deviation away from it."""

TREND: Final = 0.9
"""Steps whose order by length is so much that of time become longer or shorter by design: the first are no outliers."""

NEIGHBOURS: Final = 2  # so many steps on each side say what is usual of a step where steps have a trend
DRIFT_SHARE: Final = 0.1  # steps drift when the last third's median differs from the first third's by this share


PERIODIC_RATIO: Final = 1.05  # steps at equal distances need not be outliers to be told from the others

_DISTANCES_TRIED: Final = 20

MOST_OF_PERIOD: Final = 0.8
"""So many of the steps at equal distances must be slow, and hold so much of what all slow ones take more."""


class Periodic(Struct, frozen=True):
    """What a step does more every so many steps: a checkpoint, an evaluation, a log."""

    every: int
    steps: tuple[int, ...]  # the steps in which it begins
    is_slow: NDArray[np.bool_]  # of all steps, those that it makes longer: it may go on in the next one
    usual_ns: int  # the median step
    more_ns: int  # what all of these take more than it


class Outlier(Struct, frozen=True):
    """A step that took unusually long, and the line whose excess over the usual explains the most of it."""

    step: int
    length_ns: int
    usual_ns: int
    """The median of the steps of its phase; of its neighbours, where steps become longer or shorter all the time."""
    line: Line
    excess_ns: int


class Drift(Struct, frozen=True):
    """The first and the last third of the steps, and the line that changes most from one to the other."""

    early_ns: int
    late_ns: int
    line: Line

    @property
    def share(self) -> float:
        return self.late_ns / self.early_ns - 1


class Variation(Struct, frozen=True):
    """The steady steps of one device."""

    steps: Steps
    median_ns: int
    p10_ns: int
    p90_ns: int
    outliers: tuple[Outlier, ...]
    drift: Drift | None  # None with fewer than nine steps
    periodic: Periodic | None = None  # None where nothing comes at equal distances

    @property
    def drift_share(self) -> float | None:
        """Change from the first to the last third."""
        return None if self.drift is None else self.drift.share

    @property
    def drifts(self) -> bool:
        return self.drift is not None and abs(self.drift.share) >= DRIFT_SHARE


def variation(device: Device) -> Variation | None:
    """None where no steps were found."""
    if device.steps is None:
        return None
    steady = device.steps.steady_ns
    low, middle, high = nearest_percentiles(steady, 10, 50, 90)
    return Variation(
        device.steps,
        middle,
        low,
        high,
        _outliers(device, device.steps),
        _drift(device, device.steps),
        _periodic(device, device.steps),
    )


def _periodic(device: Device, steps: Steps) -> Periodic | None:
    """What comes at equal distances, FEWEST times or more; of several such things the rarest that takes the most."""
    lengths = steps.steady_ns
    if len(lengths) < 2 * FEWEST or len(set(device.phases.of_step[steps.warm_up :])) > 1:
        return None
    usual = median(lengths)
    slow = lengths > max(PERIODIC_RATIO * usual, usual + 3 * median(np.abs(lengths - usual)))
    begins = np.flatnonzero(slow & ~np.append(False, slow[:-1]))
    if len(begins) < FEWEST:
        return None
    run = np.cumsum(slow & ~np.append(False, slow[:-1])) - 1  # which of them each slow step goes on with
    more = np.zeros(len(begins))
    np.add.at(more, run[slow], (lengths - usual)[slow])
    distances, counts = occurrences(np.concatenate((np.diff(begins), begins[2:] - begins[:-2])))
    often = distances[np.argsort(-counts, kind="stable")[:_DISTANCES_TRIED]]
    for every in sorted(often[often > 1].tolist(), reverse=True):
        chosen = np.flatnonzero(begins % every == np.bincount(begins % every, more).argmax())
        could_be = len(range(int(begins[chosen[0]]), len(lengths), every))
        if len(chosen) >= max(FEWEST, MOST_OF_PERIOD * could_be) and more[chosen].sum() >= MOST_OF_PERIOD * more.sum():
            break
    else:
        return None
    is_slow = np.zeros(len(steps), np.bool_)
    is_slow[steps.warm_up :] = slow & is_among(run, chosen)
    numbers = (steps.warm_up + begins[chosen]).tolist()
    return Periodic(every, tuple(numbers), is_slow, int(usual), int(more[chosen].sum()))


def _drift(device: Device, steps: Steps) -> Drift | None:
    third = len(steps.steady_ns) // 3
    if third < 3:
        return None
    early, late = (int(median(part)) for part in (steps.steady_ns[:third], steps.steady_ns[-third:]))
    lines, tiles = device.shown_tiles
    books = tiles[np.searchsorted(device.ledger.tiles_ns, steps.edges_ns[:-1])][steps.warm_up :]
    change = np.array(
        [median(after) - median(before) for before, after in zip(books[:third].T, books[-third:].T, strict=True)]
    )
    return Drift(early, late, lines[int((change * np.sign(late - early)).argmax())])


def _outliers(device: Device, steps: Steps) -> tuple[Outlier, ...]:
    """The steps that are unusual for their phase, the longest first."""
    tile = np.searchsorted(device.ledger.tiles_ns, steps.edges_ns[:-1])
    phase = np.array(device.phases.of_step)[steps.warm_up :]
    lines, tiles = device.shown_tiles
    outliers = []
    for number in distinct(phase).tolist():
        alike = steps.warm_up + np.flatnonzero(phase == number)
        lengths, books = steps.length_ns[alike], tiles[tile[alike]]
        typical = _typical(lengths)
        deviation = np.abs(lengths - typical)
        slow = (lengths > OUTLIER_RATIO * typical) & (lengths > typical + 3 * median(deviation))
        usual = np.array([median(line) for line in books.T])
        for index in np.flatnonzero(slow).tolist():
            excess = books[index] - usual
            line = int(excess.argmax())
            by = int(excess[line])
            outliers.append(Outlier(int(alike[index]), int(lengths[index]), int(typical[index]), lines[line], by))
    return tuple(sorted(outliers, key=lambda outlier: (-outlier.length_ns, outlier.step)))


def _typical(lengths: Ints) -> NDArray[np.float64]:
    """What is usual for each of these steps: their median, or where they have a trend that of their neighbours. The
    first and the last few of a trend are what it makes them."""
    typical = np.full(len(lengths), float(median(lengths)))
    by_length = np.sort(lengths)
    rank = sum(np.searchsorted(by_length, lengths, side=side) for side in ("left", "right")) - len(lengths)
    time = 2 * np.arange(len(lengths)) - (len(lengths) - 1)
    trend = abs(int((rank * time).sum())) / max(int((time * time).sum()), 1)
    if len(lengths) <= 2 * NEIGHBOURS or trend < TREND:
        return typical
    around = np.lib.stride_tricks.sliding_window_view(lengths, 2 * NEIGHBOURS + 1)
    local = lengths.astype(np.float64)
    local[NEIGHBOURS:-NEIGHBOURS] = np.sort(around, axis=1)[:, NEIGHBOURS]
    return local

"""How steps vary: the usual length, outliers with the line that makes them so, and drift."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.ledger.books import Line
from gpuledger.ledger.device import Device
from gpuledger.ledger.steps import Steps
from gpuledger.records import dataclass
from gpuledger.trace.keys import distinct
from gpuledger.trace.spans import Ints
from gpuledger.trace.statistics import median, nearest_percentiles

OUTLIER_RATIO: Final = 1.2
"""A step is an outlier at this many times its phase's median, and three times the usual deviation away from it."""

TREND: Final = 0.9
"""Steps whose order by length is so much that of time become longer or shorter by design: the first are no outliers."""

NEIGHBOURS: Final = 2
"""So many steps on each side say what is usual of a step where steps have a trend."""

DRIFT_SHARE: Final = 0.1
"""Steps drift when the last third's median differs from the first third's by this share."""


@dataclass(frozen=True, slots=True)
class Outlier:
    """A step that took unusually long, and the line whose excess over the usual explains the most of it."""

    step: int
    length_ns: int
    usual_ns: int
    """The median of the steps of its phase; of its neighbours, where steps become longer or shorter all the time."""
    line: Line
    excess_ns: int


@dataclass(frozen=True, slots=True)
class Drift:
    """The first and the last third of the steps, and the line that changes most from one to the other."""

    early_ns: int
    late_ns: int
    line: Line

    @property
    def share(self) -> float:
        return self.late_ns / self.early_ns - 1


@dataclass(frozen=True, slots=True)
class Variation:
    """The steady steps of one device."""

    steps: Steps
    median_ns: int
    p10_ns: int
    p90_ns: int
    outliers: tuple[Outlier, ...]
    drift: Drift | None
    """None with fewer than nine steps."""

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
    return Variation(device.steps, middle, low, high, _outliers(device, device.steps), _drift(device, device.steps))


def _drift(device: Device, steps: Steps) -> Drift | None:
    third = len(steps.steady_ns) // 3
    if third < 3:
        return None
    early, late = (int(median(part)) for part in (steps.steady_ns[:third], steps.steady_ns[-third:]))
    books = device.ledger.books[np.searchsorted(device.ledger.tiles_ns, steps.edges_ns[:-1])][steps.warm_up :]
    change = np.array(
        [median(after) - median(before) for before, after in zip(books[:third].T, books[-third:].T, strict=True)]
    )
    return Drift(early, late, device.ledger.lines[int((change * np.sign(late - early)).argmax())])


def _outliers(device: Device, steps: Steps) -> tuple[Outlier, ...]:
    """The steps that are unusual for their phase, the longest first."""
    tile = np.searchsorted(device.ledger.tiles_ns, steps.edges_ns[:-1])
    phase = np.array(device.phases.of_step)[steps.warm_up :]
    outliers = []
    for number in distinct(phase).tolist():
        alike = steps.warm_up + np.flatnonzero(phase == number)
        lengths, books = steps.length_ns[alike], device.ledger.books[tile[alike]]
        typical = _typical(lengths)
        deviation = np.abs(lengths - typical)
        slow = (lengths > OUTLIER_RATIO * typical) & (lengths > typical + 3 * median(deviation))
        usual = np.array([median(line) for line in books.T])
        for index in np.flatnonzero(slow).tolist():
            excess = books[index] - usual
            line = int(excess.argmax())
            name, by = device.ledger.lines[line], int(excess[line])
            outliers.append(Outlier(int(alike[index]), int(lengths[index]), int(typical[index]), name, by))
    return tuple(sorted(outliers, key=lambda outlier: (-outlier.length_ns, outlier.step)))


def _typical(lengths: Ints) -> NDArray[np.float64]:
    """What is usual for each of these steps: their median, or where they have a trend that of their neighbours.

    The first and the last few of a trend are what it makes them.
    """
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

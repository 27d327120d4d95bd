"""How steps vary: the usual length, outliers with the line that makes them so, and drift."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpuledger.ledger.books import Line
from gpuledger.ledger.device import Device
from gpuledger.ledger.steps import Steps
from gpuledger.records import dataclass
from gpuledger.trace.keys import distinct
from gpuledger.trace.statistics import median, nearest_percentiles

OUTLIER_RATIO: Final = 1.2
"""A step is an outlier at this many times its phase's median, and three times the usual deviation away from it."""

DRIFT_SHARE: Final = 0.1
"""Steps drift when the last third's median differs from the first third's by this share."""


@dataclass(frozen=True, slots=True)
class Outlier:
    """A step that took unusually long, and the line whose excess over the usual explains the most of it."""

    step: int
    length_ns: int
    usual_ns: int
    """The median of the steps of its phase."""
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
    change = books[-third:].sum(axis=0) - books[:third].sum(axis=0)
    return Drift(early, late, device.ledger.lines[int((change * np.sign(late - early)).argmax())])


def _outliers(device: Device, steps: Steps) -> tuple[Outlier, ...]:
    """The steps that are unusual for their phase, the longest first."""
    tile = np.searchsorted(device.ledger.tiles_ns, steps.edges_ns[:-1])
    phase = np.array(device.phases.of_step)[steps.warm_up :]
    outliers = []
    for number in distinct(phase).tolist():
        alike = steps.warm_up + np.flatnonzero(phase == number)
        lengths, books = steps.length_ns[alike], device.ledger.books[tile[alike]]
        typical, usual = median(lengths), np.array([median(line) for line in books.T])
        usual_deviation = median(np.abs(lengths - typical))
        slow = (lengths > OUTLIER_RATIO * typical) & (lengths > typical + 3 * usual_deviation)
        for index in np.flatnonzero(slow).tolist():
            excess = books[index] - usual
            line = int(excess.argmax())
            name, by = device.ledger.lines[line], int(excess[line])
            outliers.append(Outlier(int(alike[index]), int(lengths[index]), int(typical), name, by))
    return tuple(sorted(outliers, key=lambda outlier: (-outlier.length_ns, outlier.step)))

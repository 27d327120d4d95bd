"""What a counter is while something runs: samples and their shares in, a level per column and how sure it is out.

Least squares with bounds. A prior keeps what the samples do not tell apart from taking any value: a level is about as
likely anywhere between 0 and what the launch shape allows. Samples that follow one another err alike (a kernel has
phases, a launch is not like the next), so the spread of a level comes from how stretches of time disagree, and from the
residuals as if they were independent, whichever is more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.use.shares import SampleShares
from gpuledger.trace.spans import Ints

Floats = NDArray[Any]

_ROUGHLY: Final = 1e-2
"""Keeps columns that the samples do not tell apart from taking any value, where only the noise is asked for."""
_FAINT: Final = 0.15
"""What a sample of 1 % is taken for at first: it was rounded up, and is mostly next to nothing."""
_FAINT_ROUNDS: Final = 4
"""Then it is what the levels say, and they are found again."""
_MOST_BOUNDS: Final = 60
"""How often levels are set to a bound before the rest is taken as it is."""
_LEAST_NOISE: Final = 0.1
"""Samples are whole percents: a twelfth, and a little."""
_STRETCHES: Final = 100
_SAMPLES_PER_STRETCH: Final = 20


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """What is known of levels before looking: a mean and a bound per column, and the inverse of their covariance."""

    mean: Floats
    ceiling: Floats
    precision: Floats


@dataclass(frozen=True, slots=True, eq=False)
class FittedLevels:
    """Levels of the groups, with the standard deviation of each."""

    level: Floats
    deviation: Floats
    idle: float
    noise: float
    """Standard deviation of what the levels leave unexplained of a sample."""


@dataclass(frozen=True, slots=True, eq=False)
class Mixtures:
    """Samples as mixtures, with what all counters need of them."""

    shares: SampleShares
    squared: Floats
    weights: Floats
    """A row per mix of columns that a level is the mean of."""
    row: Ints
    """Of each group: its mix."""
    rough: Floats
    """The inverse of `squared`, or nearly."""

    @classmethod
    def of(cls, shares: SampleShares, weights: Floats, row: Ints) -> Mixtures:
        squared = shares.squared()
        return cls(shares, squared, weights, row, np.linalg.inv(squared + _ROUGHLY * np.eye(len(squared))))


def fitted(mixtures: Mixtures, values: NDArray[Any], prior: Prior) -> FittedLevels:
    """The levels of one counter."""
    shares, squared, weights = mixtures.shares, mixtures.squared, mixtures.weights
    seen, faint = before_rounding(values), values == 1
    for _ in range(_FAINT_ROUNDS if faint.any() else 1):
        target = shares.times(seen)
        expected = shares.mixed(np.clip(mixtures.rough @ target, 0.0, prior.ceiling))
        noise = _noise(seen - expected, len(target))
        seen[faint] = np.clip(expected[faint], 0.0, 1.0)
    target = shares.times(seen)
    system = squared + noise * prior.precision
    levels = _bounded(system, target + noise * (prior.precision @ prior.mean), prior.ceiling)
    left = seen - shares.mixed(levels)
    noise = _noise(left, len(target))
    solved = np.linalg.solve(system, weights.T).T
    alone = noise * np.einsum("gc,gc->g", solved, weights)
    together = ((solved @ _pulls(shares, left).T) ** 2).sum(1)
    level, deviation = weights @ levels, np.sqrt(np.maximum(alone, together))
    return FittedLevels(level[mixtures.row], deviation[mixtures.row], float(levels[-1]), noise**0.5)


def before_rounding(values: NDArray[Any]) -> Floats:
    """What nsys most likely measured: it rounds up to whole percents, and 100 is 100."""
    return np.where(values == 1, _FAINT, np.where((values > 1) & (values < 100), values - 0.5, values))


def _noise(left: Floats, columns: int) -> float:
    """The variance of what is left of a sample."""
    return max(float(left @ left) / max(len(left) - columns, 1), _LEAST_NOISE)


def _pulls(shares: SampleShares, left: Floats) -> Floats:
    """For stretches of the samples, how far each alone would pull every column."""
    stretches = max(min(len(left) // _SAMPLES_PER_STRETCH, _STRETCHES), 2)
    stretch: Ints = shares.sample * stretches // max(len(left), 1)
    place = stretch * shares.columns + shares.column
    pulls = np.bincount(place, shares.share * left[shares.sample], minlength=stretches * shares.columns)
    by_stretch: Floats = pulls.reshape(stretches, shares.columns) * (stretches / (stretches - 1)) ** 0.5
    return by_stretch


def _bounded(system: Floats, target: Floats, ceiling: Floats) -> Floats:
    """The least squares between 0 and a ceiling: what lies outside is set to the bound, and the rest solved again."""
    bound, levels = np.full(len(target), np.nan), target
    for _ in range(_MOST_BOUNDS):
        free = np.isnan(bound)
        levels = np.where(free, 0.0, bound)
        rest = target[free] - system[np.ix_(free, ~free)] @ bound[~free]
        levels[free] = np.linalg.solve(system[np.ix_(free, free)], rest)
        outside = (levels < 0) | (levels > ceiling)
        if not outside.any():
            break
        bound = np.where(outside, np.where(levels < 0, 0.0, ceiling), bound)
    return np.clip(levels, 0.0, ceiling)

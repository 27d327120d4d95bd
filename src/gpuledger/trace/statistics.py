"""Statistics of groups: integer values and group numbers in, one `Statistics` per group out.

The standard deviation is the sample's (n - 1), 0 for a single value. The median of an even number of values is the
mean of the middle two. Totals are exact; the others are doubles.

Three medians are needed, and this is where each is defined: `median` of a distribution; `nearest_percentiles` where
the answer must be one of the values, as a step that a reader can look at; `lower_median` of instants, which must be
exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.trace.keys import Positions
from gpuledger.trace.spans import Ints
from gpuledger.trace.sweep import parts


class Statistics(Struct, frozen=True):
    """One group's statistics, in the unit of its values."""

    count: int
    total: int
    average: float
    median: float
    least: int
    most: int
    deviation: float


def median(values: NDArray[Any]) -> float:
    """The middle value, or the mean of the middle two. `np.median` does more, and imports numpy.ma to do it."""
    middle = len(values) // 2
    if len(values) % 2:
        return float(np.partition(values, middle)[middle])
    parted = np.partition(values, (middle - 1, middle))
    return float((parted[middle - 1] + parted[middle]) / 2)


def largest(values: NDArray[Any], count: int) -> Positions:
    """Positions of so many of the largest values, the largest first, of equal ones the first: not all are sorted."""
    if not 0 < count < len(values):
        return np.argsort(-values, kind="stable")[:count]
    best = np.empty(0, np.intp)
    for part in parts(len(values)):
        some = values[part]
        if len(best) == count:
            candidates = np.flatnonzero(some > values[best[-1]])
        else:
            least = max(len(some) - count, 0)
            candidates = np.flatnonzero(some >= np.partition(some, least)[least])
        if len(candidates):
            best = np.concatenate((best, part.start + candidates))
            best = best[np.argsort(-values[best], kind="stable")[:count]]
    return best


def nearest_percentiles(values: Ints, *percents: int) -> list[int]:
    """Values that occur, each the nearest to a percentile: the median step is a step that was recorded."""
    ranks = [round((len(values) - 1) * percent / 100) for percent in percents]
    return [int(value) for value in np.partition(values, ranks)[ranks]]


def percentile_in_order(ordered: Ints, percent: int) -> float:
    """The value so far along sorted values, between the nearest two; at 50 it is the median."""
    low, above = divmod(percent * (len(ordered) - 1), 100)
    least, most = int(ordered[low]), int(ordered[min(low + 1, len(ordered) - 1)])
    return least + (most - least) * above / 100


def lower_median(values: Ints) -> int:
    """The lower middle value, exactly: a float64 does not hold the nanoseconds since 1970."""
    return int(np.sort(values, axis=None)[(values.size - 1) // 2])


def summarise(values: Ints, number: Positions) -> list[Statistics]:
    """The statistics of each group; `number` holds each value's group, none of 0..max left out."""
    if not len(values):
        return []
    ordered, first = _by_group(values, number)
    count = np.diff(np.append(first, len(ordered)))
    total = np.add.reduceat(ordered, first)
    average = total / count
    low, high = ordered[first + (count - 1) // 2], ordered[first + count // 2]
    median = (low + high) / 2
    least, most = ordered[first], ordered[first + count - 1]
    # centred on a whole number near the average, so that the sum of the offsets is exact and their squares stay small
    centre, edges = np.rint(average).astype(np.int64), np.append(first, len(ordered))
    for part in parts(len(ordered)):
        ordered[part] -= np.repeat(centre, np.diff(np.clip(edges, part.start, part.stop)))
    offset_sum, squares = np.add.reduceat(ordered, first), ordered.view(np.float64)  # in the same place
    for part in parts(len(ordered)):
        squares[part] = ordered[part].astype(np.float64) ** 2
    around_mean = np.add.reduceat(squares, first) - offset_sum.astype(np.float64) ** 2 / count
    deviation = np.sqrt(np.maximum(around_mean, 0) / np.maximum(count - 1, 1))
    columns = (count, total, average, median, least, most, deviation)
    return [Statistics(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _by_group(values: Ints, number: Positions) -> tuple[Ints, Positions]:
    """Values by group, then value, and where each group begins: a new column, and few others on the way.

    Group and value are sorted as one number where they fit into it, as that is far faster.
    """
    least, groups = int(values.min()), int(number.max()) + 1
    bits = (int(values.max()) - least).bit_length()
    if (groups - 1).bit_length() + bits > 62:
        order = np.lexsort((values, number))
        return values[order], np.searchsorted(number[order], np.arange(groups))
    both = number.astype(np.int64)
    both <<= bits
    both += values
    both -= least
    both.sort()
    first = np.searchsorted(both, np.arange(groups) << bits)
    both &= (1 << bits) - 1
    both += least
    return both, first


def shares(totals: Sequence[int]) -> list[float | None]:
    """Each total as a percentage of their sum; None if that is zero."""
    whole = sum(totals)
    return [100 * total / whole if whole else None for total in totals]

"""Of which kernels a sample is the mean: spans with a column each in, the share of a sample that each covers out.

The samples are those whose period lies in the time that was traced; others may have seen work that the profile lacks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.trace import sweep
from gpuledger.trace.spans import Ints, covered, cut_at, union

Floats = NDArray[Any]

_MOST_PAIRS: Final = 4_000_000
"""Pairs of entries that are multiplied at once."""


@dataclass(frozen=True, slots=True, eq=False)
class ColumnSpans:
    """When what a column stands for ran, by start; columns are counted from 0."""

    start_ns: Ints
    end_ns: Ints
    column: Ints
    columns: int

    @classmethod
    def by_start(cls, parts: list[tuple[Ints, Ints, Ints]], columns: int) -> ColumnSpans:
        """From parts in any order."""
        start, end, column = (np.concatenate(side) for side in zip(*parts, strict=True))
        if (start[1:] < start[:-1]).any():
            order = np.argsort(start, kind="stable")
            start, end, column = start[order], end[order], column[order]
        return cls(start, end, column, columns)

    def within(self, begin_ns: int, end_ns: int) -> ColumnSpans:
        """Those that begin in a stretch of time."""
        first, last = np.searchsorted(self.start_ns, (begin_ns, end_ns))
        chosen = slice(int(first), int(last))
        return ColumnSpans(self.start_ns[chosen], self.end_ns[chosen], self.column[chosen], self.columns)


@dataclass(frozen=True, slots=True, eq=False)
class SampleShares:
    """Entries of a sparse matrix, by sample: rows are samples, columns what ran, and the last column is nothing."""

    used: Ints
    """The samples, as positions among all of them."""
    sample: Ints
    """Of each entry: the row."""
    column: Ints
    share: Floats
    columns: int

    def times(self, values: NDArray[np.floating]) -> Floats:
        """The transposed matrix times a value per sample."""
        return np.bincount(self.column, self.share * values[self.sample], minlength=self.columns)

    def mixed(self, levels: Floats) -> Floats:
        """The matrix times a level per column: what each sample would be."""
        return np.bincount(self.sample, self.share * levels[self.column], minlength=len(self.used))

    def squared(self) -> Floats:
        """The transposed matrix times the matrix."""
        after = np.searchsorted(self.sample, self.sample, side="right")
        here = np.arange(len(self.sample))
        total = np.zeros(self.columns**2)
        ends = np.searchsorted(np.cumsum(after - here), np.arange(_MOST_PAIRS, int((after - here).sum()), _MOST_PAIRS))
        for first, last in zip((0, *ends.tolist()), (*ends.tolist(), len(here)), strict=True):
            left, right = sweep.expand(here[first:last], after[first:last])
            left += first
            place = self.column[left] * self.columns + self.column[right]
            total += np.bincount(place, self.share[left] * self.share[right], minlength=len(total))
        upper = total.reshape(self.columns, self.columns)
        own = np.bincount(self.column, self.share**2, minlength=self.columns)
        return upper + upper.T - np.diag(own)


def sample_shares(stamp_ns: Ints, period_ns: int, lag_ns: int, spans: ColumnSpans) -> SampleShares:
    """Periods end `lag_ns` after their stamps; samples outside the time that the spans fill are left out."""
    ends = stamp_ns + lag_ns
    begins = ends - period_ns
    begins[1:] = np.maximum(begins[1:], ends[:-1])
    first, last = int(spans.start_ns.min(initial=0)), int(spans.end_ns.max(initial=0))
    used = np.flatnonzero((begins >= first) & (ends <= last) & (ends > begins))
    ends, begins = ends[used], begins[used]
    begin, end, whose = cut_at(spans.start_ns, spans.end_ns, ends)
    sample = sweep.search(ends, begin, "right")
    inside = sample < len(used)
    if not inside.all():
        begin, end, whose, sample = begin[inside], end[inside], whose[inside], sample[inside]
    length = end - np.maximum(begin, begins[sample])
    busy = union(spans.start_ns, spans.end_ns)
    idle = (ends - begins) - covered(busy, begins, ends)
    sample = np.concatenate((sample, np.arange(len(used))))
    column = np.concatenate((spans.column[whose], np.full(len(used), spans.columns)))
    length = np.concatenate((length, idle))
    kept = length > 0
    sample, column = sample[kept], column[kept]
    share = length[kept] / (ends - begins)[sample]
    return _merged(used, sample, column, share, spans.columns + 1)


def _merged(used: Ints, sample: Ints, column: Ints, share: Floats, columns: int) -> SampleShares:
    """Entries by sample; what one has of one column is one entry, as thousands of launches may lie in a sample."""
    number = sample * columns + column
    order = np.argsort(number, kind="stable")
    opens = np.flatnonzero(np.append(True, np.diff(number[order]) != 0)[: len(number)])
    first = order[opens]
    total = np.add.reduceat(share[order], opens) if len(opens) else share
    return SampleShares(used, sample[first], column[first], total, columns)

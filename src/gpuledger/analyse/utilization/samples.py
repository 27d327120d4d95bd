"""The samples of one GPU as columns on one clock: the table `metrics` in, a value per sample and counter out.

A sample is the mean over one period. Values are as recorded: percent, and hertz for the clock. Also here, for the fit
of what kernels use: which samples of a long capture are taken (`SampleSubset`), how late samples are stamped (`lag_ns`:
the lag at which kernels explain them best), and the share of each sample that each kernel covers (`sample_shares`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.catalog.gpu_metrics import OF_KERNELS, GpuMetric, gpu_metric
from gpuledger.messages import say
from gpuledger.trace import sweep
from gpuledger.trace.keys import distinct, equal
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.trace.spans import Ints, covered, cut_at, union
from gpuledger.trace.tables import Rows, Table

Floats = NDArray[Any]

NEEDS: Final = (Table.METRICS,)

_MOST_COUNTERS: Final = 200  # of a sample, where rows are taken by their place
_LARGEST: Final = 2**40  # hertz, which are not negative either: nsys lets some counters overflow
_WHOLE: Final = 100  # percent

MetricColumns = Mapping[GpuMetric, Ints]


class GpuSamples(Struct, frozen=True, eq=False):
    """What was sampled on one GPU, by time."""

    gpu: int
    stamp_ns: Ints  # sorted, each once
    period_ns: int
    values: MetricColumns

    def __len__(self) -> int:
        return len(self.stamp_ns)

    def among(self, chosen: NDArray[np.bool_]) -> GpuSamples:
        values = {metric: column[chosen] for metric, column in self.values.items()}
        return GpuSamples(self.gpu, self.stamp_ns[chosen], self.period_ns, values)


def gpu_samples(trace: Trace, gpu: int) -> GpuSamples | NotMeasured:
    """The samples of one GPU; instants that lack one of the counters are left out."""
    if missing := trace.missing(*NEEDS):
        return missing
    rows = trace[Table.METRICS]
    here, codes = equal(rows["gpu"], gpu), dict[GpuMetric, int]()
    for code in trace.strings.distinct(rows.codes("name")):
        metric = gpu_metric(trace.strings.text(code) or "") if code >= 0 else None
        if metric is not None:
            codes.setdefault(metric, code)
    if {GpuMetric.DRAM_READ, GpuMetric.DRAM_WRITE} & codes.keys():
        codes.pop(GpuMetric.DRAM, None)
    stamp, values = (here.all() and _regular_columns(rows, codes)) or _aligned_columns(rows, codes, here)
    if not values and codes and here.any():
        return NotMeasured(say("no sample of GPU {gpu} holds a value that can be", gpu=gpu))
    if not values:
        return NotMeasured(say("no known counter of GPU {gpu} was sampled", gpu=gpu))
    if len(stamp) < 2:
        return NotMeasured(say("GPU {gpu} was sampled less than twice", gpu=gpu))
    apart = np.diff(stamp)
    usual = apart[apart <= 1.5 * np.median(apart)]  # without those after a gap
    return GpuSamples(gpu, stamp, max(round(float(usual.mean())), 1), values)


def _most(metric: GpuMetric) -> int:
    return _LARGEST if metric is GpuMetric.SM_CLOCK else _WHOLE


def _regular_columns(rows: Rows, codes: Mapping[GpuMetric, int]) -> tuple[Ints, MetricColumns] | None:
    """Where every sample has the same counters in the same order, as is usual, each counter's rows without looking."""
    name, stamp, value = rows.codes("name"), rows["start_ns"], rows["value"]
    count = len(distinct(name[:_MOST_COUNTERS]))
    order = name[:count].tolist()
    if not count or len(set(order)) < count or len(name) % count or not (name[count:] == name[:-count]).all():
        return None
    stamps = stamp[::count].copy()
    if (stamp[count - 1 :: count] != stamps).any() or (stamps[1:] <= stamps[:-1]).any():
        return None
    values = {metric: value[order.index(code) :: count].copy() for metric, code in codes.items()}
    real = all(column.min() >= 0 and column.max() <= _most(metric) for metric, column in values.items())
    return (stamps, values) if real else None


def _aligned_columns(rows: Rows, codes: Mapping[GpuMetric, int], here: NDArray[np.bool_]) -> tuple[Ints, MetricColumns]:
    """Each counter's rows by time; of several values at one instant the last recorded one."""
    columns = dict[GpuMetric, tuple[Ints, Ints]]()
    for metric, code in codes.items():
        chosen = np.flatnonzero(equal(rows.codes("name"), code) & here)
        chosen = chosen[(rows["value"][chosen] >= 0) & (rows["value"][chosen] <= _most(metric))]
        chosen = chosen[np.argsort(rows["start_ns"][chosen], kind="stable")]
        stamp = rows["start_ns"][chosen]
        last = np.append(stamp[1:] != stamp[:-1], True)[: len(stamp)]
        if len(stamp):
            columns[metric] = stamp[last], rows["value"][chosen[last]]
    clock = columns.pop(GpuMetric.SM_CLOCK, None) if len(columns) > 1 else None
    common = reduce(np.intersect1d, (stamp for stamp, _ in columns.values())) if columns else np.empty(0, np.int64)
    values = {metric: value[np.searchsorted(stamp, common)] for metric, (stamp, value) in columns.items()}
    if clock is not None:  # torch reads it less often: it is what it was last
        values[GpuMetric.SM_CLOCK] = clock[1][np.maximum(np.searchsorted(clock[0], common, side="right") - 1, 0)]
    return common, values


_MOST_PAIRS: Final = 4_000_000  # pairs of entries that are multiplied at once


class ColumnSpans(Struct, frozen=True, eq=False):
    """When what a column stands for ran, by start; columns are counted from 0."""

    start_ns: Ints
    end_ns: Ints
    column: Ints
    columns: int

    @classmethod
    def by_start(cls, parts: list[tuple[Ints, Ints, Ints]], columns: int) -> ColumnSpans:
        start, end, column = (np.concatenate(side) for side in zip(*parts, strict=True))
        if (start[1:] < start[:-1]).any():
            order = np.argsort(start, kind="stable")
            start, end, column = start[order], end[order], column[order]
        return cls(start, end, column, columns)

    def within(self, begin_ns: int, end_ns: int) -> ColumnSpans:
        first, last = np.searchsorted(self.start_ns, (begin_ns, end_ns))
        chosen = slice(int(first), int(last))
        return ColumnSpans(self.start_ns[chosen], self.end_ns[chosen], self.column[chosen], self.columns)


class SampleShares(Struct, frozen=True, eq=False):
    """Entries of a sparse matrix, by sample: rows are samples, columns what ran, and the last column is nothing."""

    used: Ints  # the samples, as positions among all of them
    sample: Ints  # of each entry: the row
    column: Ints
    share: Floats
    columns: int

    def times(self, values: NDArray[np.floating]) -> Floats:
        """The transposed matrix times a value per sample."""
        return np.bincount(self.column, self.share * values[self.sample], minlength=self.columns)

    def predicted(self, levels: Floats) -> Floats:
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


def sample_periods(stamp_ns: Ints, period_ns: int, lag_ns: int) -> tuple[Ints, Ints]:
    """Where each sample's period begins and ends, `lag_ns` after its stamp; they do not overlap."""
    ends = stamp_ns + lag_ns
    begins = ends - period_ns
    begins[1:] = np.maximum(begins[1:], ends[:-1])
    return begins, ends


def sample_shares(stamp_ns: Ints, period_ns: int, lag_ns: int, spans: ColumnSpans) -> SampleShares:
    """Periods end `lag_ns` after their stamps; samples outside the time that the spans fill are left out."""
    begins, ends = sample_periods(stamp_ns, period_ns, lag_ns)
    first, last = int(spans.start_ns.min(initial=0)), int(spans.end_ns.max(initial=0))
    used = np.flatnonzero((begins >= first) & (ends <= last) & (ends > begins))
    ends, begins = ends[used], begins[used]
    begin, end, whose = cut_at(spans.start_ns, spans.end_ns, ends)
    sample = sweep.search(ends, begin, "right")
    inside = sample < len(used)
    if not inside.all():
        begin, end, whose, sample = begin[inside], end[inside], whose[inside], sample[inside]
    length = end - np.maximum(begin, begins[sample])
    idle = (ends - begins) - covered(union(spans.start_ns, spans.end_ns), begins, ends)
    sample = np.concatenate((sample, np.arange(len(used))))
    column = np.concatenate((spans.column[whose], np.full(len(used), spans.columns)))
    length = np.concatenate((length, idle))
    kept = length > 0
    sample, column = sample[kept], column[kept]
    share = length[kept] / (ends - begins)[sample]
    # by sample; what one has of one column is one entry, as thousands of launches may lie in a sample
    number = sample * (spans.columns + 1) + column
    order = np.argsort(number, kind="stable")
    opens = np.flatnonzero(np.append(True, np.diff(number[order]) != 0)[: len(number)])
    share = np.add.reduceat(share[order], opens) if len(opens) else share
    return SampleShares(used, sample[order[opens]], column[order[opens]], share, spans.columns + 1)


MOST_SAMPLES: Final = 120_000
_STRETCH: Final = 64  # samples
_RARE: Final = 100  # the samples of a column that ran no more often than this are all taken


class SampleSubset(Struct, frozen=True, eq=False):
    """Stretches of some samples each, and which of them are taken: all, or of a long capture some."""

    edges_ns: Ints  # where each stretch begins
    taken: NDArray[np.bool_]
    reach_ns: int  # how far from a stretch something may lie and still be in its samples

    @classmethod
    def choose(cls, stamp_ns: Ints, period_ns: int, spans: ColumnSpans) -> SampleSubset:
        """Every so many stretches, and those in which something rare ran."""
        edges = stamp_ns[::_STRETCH]
        every = max(len(stamp_ns) // MOST_SAMPLES, 1)
        subset = cls(edges, np.arange(len(edges)) % every == 0, 3 * period_ns)
        if every > 1:
            rare = np.bincount(spans.column, minlength=spans.columns) <= _RARE
            first, last = subset._stretches(spans.start_ns, spans.end_ns)
            subset.taken[np.concatenate((first, last))[np.tile(rare[spans.column], 2)]] = True
        return subset

    def samples(self, count: int) -> NDArray[np.bool_]:
        return np.repeat(self.taken, _STRETCH)[:count]

    def near(self, start_ns: Ints, end_ns: Ints) -> NDArray[np.bool_]:
        first, last = self._stretches(start_ns, end_ns)
        so_far = np.append(0, np.cumsum(self.taken))
        return so_far[last + 1] > so_far[first]

    def _stretches(self, start_ns: Ints, end_ns: Ints) -> tuple[Ints, Ints]:
        first, last = (
            np.clip(sweep.search(self.edges_ns, instant, "right") - 1, 0, len(self.edges_ns) - 1)
            for instant in (start_ns - self.reach_ns, end_ns + self.reach_ns)
        )
        return first, last


_LAG_SAMPLES: Final = 3000  # samples by which the lag is found: the first ones in which something runs
_FEWEST_LAG_SAMPLES: Final = 200  # with fewer samples the lag is taken to be one period
_LAG_COLUMNS: Final = 60  # columns that are told apart, those with the most time; the rest is one
_USUAL_LAG: Final = 1.0
_COARSE_LAGS: Final = tuple(_USUAL_LAG + eighth / 8 for eighth in range(-12, 13))
_LAG_STEPS: Final = (0.0625, 0.03125)  # in periods: how far the next lags to be tried are from the best so far
_NOTICEABLE: Final = 0.2  # a lag other than one period is taken where it leaves so much less unexplained, as a share
_ROUNDING: Final = 1 / 12  # samples are whole percents: so much is always left


def lag_ns(samples: GpuSamples, *views: ColumnSpans) -> int:
    """How long after its stamp a sample's period ends, by several ways to tell apart what ran: it must suit all. With
    one column per kernel, slow beginnings look like a lag; with columns for phases, a lag looks like phases."""
    period = samples.period_ns
    metrics = [samples.values[metric] for metric in (*OF_KERNELS, GpuMetric.DRAM) if metric in samples.values]
    begin, end = int(views[0].start_ns[0]) - 3 * period, int(views[0].end_ns.max())
    looked = slice(*np.searchsorted(samples.stamp_ns, (begin, end)))
    stamps = samples.stamp_ns[looked][:_LAG_SAMPLES]
    if len(stamps) < _FEWEST_LAG_SAMPLES or not metrics:
        return period
    values = [column[looked][:_LAG_SAMPLES].astype(np.float64) for column in metrics]
    near = [_largest_columns(view.within(int(stamps[0]) - 3 * period, int(stamps[-1]) + 3 * period)) for view in views]
    if not all(len(view.start_ns) for view in near):
        return period

    def left(periods: float) -> list[float]:
        return [_unexplained(stamps, values, period, round(periods * period), view) for view in near]

    usual = left(_USUAL_LAG)

    def worst(periods: float) -> float:
        """How much more is left than with the usual lag, in the way of telling apart that it suits least."""
        return max(here - there for here, there in zip(left(periods), usual, strict=True))

    tried = {_USUAL_LAG: 0.0} | {periods: worst(periods) for periods in _COARSE_LAGS if periods != _USUAL_LAG}
    for step in _LAG_STEPS:
        best = min(tried, key=tried.__getitem__)
        tried |= {best + more: worst(best + more) for more in (-step, step) if best + more not in tried}
    best = min(tried, key=tried.__getitem__)
    return round(best * period) if tried[best] < -_NOTICEABLE else period


def _largest_columns(spans: ColumnSpans) -> ColumnSpans:
    """The columns with the most time; the rest is one."""
    time = np.bincount(spans.column, spans.end_ns - spans.start_ns, minlength=spans.columns)
    rank = np.empty(spans.columns, np.int64)
    rank[np.argsort(-time, kind="stable")] = np.arange(spans.columns)
    return ColumnSpans(spans.start_ns, spans.end_ns, np.minimum(rank, _LAG_COLUMNS)[spans.column], _LAG_COLUMNS + 1)


def _unexplained(
    stamps: Ints, values: Sequence[NDArray[np.float64]], period_ns: int, lag_ns: int, spans: ColumnSpans
) -> float:
    """How much is left of the counters: the mean of the logarithms, so that no counter outweighs the others."""
    shares = sample_shares(stamps, period_ns, lag_ns, spans)
    if len(shares.used) < _FEWEST_LAG_SAMPLES // 2:
        return np.inf
    squared = shares.squared() + 1e-3 * np.eye(shares.columns)
    left = []
    for column in values:
        seen = column[shares.used]
        if seen.var() > 0:
            levels = np.linalg.solve(squared, shares.times(seen))
            left.append(np.log(((seen - shares.predicted(levels)) ** 2).mean() + _ROUNDING))
    return float(np.mean(left)) if left else 0.0

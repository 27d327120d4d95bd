"""How late samples are stamped: the lag at which kernels explain them best.

nsys stamps a sample near the start of its period, which is a period before its end: a lag of one period. Clocks of
tracing and of sampling differ by a little more, which differs from file to file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.use.samples import GpuSamples
from gpuledger.analyse.use.shares import ColumnSpans, sample_shares
from gpuledger.catalog.gpu_metrics import OF_KERNELS
from gpuledger.trace.spans import Ints

_LOOKED_AT: Final = 3000
"""Samples that are looked at: the first ones in which something runs."""
_FEWEST: Final = 200
"""With fewer samples the lag is taken to be one period."""
_COLUMNS: Final = 60
"""Columns that are told apart, those with the most time; the rest is one."""
_USUAL: Final = 1.0
_COARSE: Final = tuple(_USUAL + eighth / 8 for eighth in range(-12, 13))
_STEPS: Final = (0.0625, 0.03125)
"""In periods: how far the next lags to be tried are from the best so far."""
_NOTICEABLE: Final = 0.2
"""A lag other than one period is taken where it leaves so much less unexplained, as a share."""
_ROUNDING: Final = 1 / 12
"""Samples are whole percents: so much is always left."""


def lag_ns(samples: GpuSamples, *views: ColumnSpans) -> int:
    """How long after its stamp a sample's period ends, by several ways to tell apart what ran: it must suit all.

    With one column per kernel, slow beginnings look like a lag; with columns for phases, a lag looks like phases.
    """
    period = samples.period_ns
    metrics = [samples.values[metric] for metric in OF_KERNELS if metric in samples.values]
    begin, end = int(views[0].start_ns[0]) - 3 * period, int(views[0].end_ns.max())
    looked = slice(*np.searchsorted(samples.stamp_ns, (begin, end)))
    stamps = samples.stamp_ns[looked][:_LOOKED_AT]
    if len(stamps) < _FEWEST or not metrics:
        return period
    values = [column[looked][:_LOOKED_AT].astype(np.float64) for column in metrics]
    near = [_few(view.within(int(stamps[0]) - 3 * period, int(stamps[-1]) + 3 * period)) for view in views]
    if not all(len(view.start_ns) for view in near):
        return period

    def left(periods: float) -> list[float]:
        return [_unexplained(stamps, values, period, round(periods * period), view) for view in near]

    usual = left(_USUAL)

    def worst(periods: float) -> float:
        """How much more is left than with the usual lag, in the way of telling apart that it suits least."""
        return max(here - there for here, there in zip(left(periods), usual, strict=True))

    tried = {_USUAL: 0.0} | {periods: worst(periods) for periods in _COARSE if periods != _USUAL}
    for step in _STEPS:
        best = min(tried, key=tried.__getitem__)
        tried |= {best + more: worst(best + more) for more in (-step, step) if best + more not in tried}
    best = min(tried, key=tried.__getitem__)
    return round(best * period) if tried[best] < -_NOTICEABLE else period


def _few(spans: ColumnSpans) -> ColumnSpans:
    """The columns with the most time; the rest is one."""
    time = np.bincount(spans.column, spans.end_ns - spans.start_ns, minlength=spans.columns)
    rank = np.empty(spans.columns, np.int64)
    rank[np.argsort(-time, kind="stable")] = np.arange(spans.columns)
    return ColumnSpans(spans.start_ns, spans.end_ns, np.minimum(rank, _COLUMNS)[spans.column], _COLUMNS + 1)


def _unexplained(
    stamps: Ints, values: Sequence[NDArray[np.float64]], period_ns: int, lag_ns: int, spans: ColumnSpans
) -> float:
    """How much is left of the counters: the mean of the logarithms, so that no counter outweighs the others."""
    shares = sample_shares(stamps, period_ns, lag_ns, spans)
    if len(shares.used) < _FEWEST // 2:
        return np.inf
    squared = shares.squared() + 1e-3 * np.eye(shares.columns)
    left = []
    for column in values:
        seen = column[shares.used]
        if seen.var() > 0:
            levels = np.linalg.solve(squared, shares.times(seen))
            left.append(np.log(((seen - shares.mixed(levels)) ** 2).mean() + _ROUNDING))
    return float(np.mean(left)) if left else 0.0

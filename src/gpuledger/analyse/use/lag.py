"""How late samples are stamped: the lag at which kernels explain them best.

nsys stamps a sample near the start of its period, which is a period before its end: a lag of one period. Clocks of
tracing and of sampling differ by a little more, which differs from file to file.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpuledger.analyse.use.samples import GpuSamples
from gpuledger.analyse.use.shares import ColumnSpans, sample_shares
from gpuledger.catalog.gpu_metrics import OF_KERNELS

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


def lag_ns(samples: GpuSamples, spans: ColumnSpans) -> int:
    """How long after its stamp a sample's period ends."""
    period = samples.period_ns
    metrics = [samples.values[metric] for metric in OF_KERNELS if metric in samples.values]
    looked = slice(*np.searchsorted(samples.stamp_ns, (spans.start_ns[0] - 3 * period, spans.end_ns.max())))
    stamps = samples.stamp_ns[looked][:_LOOKED_AT]
    if len(stamps) < _FEWEST or not metrics:
        return period
    part = spans.within(int(stamps[0]) - 3 * period, int(stamps[-1]) + 3 * period)
    if not len(part.start_ns):
        return period
    time = np.bincount(part.column, part.end_ns - part.start_ns, minlength=part.columns)
    rank = np.empty(part.columns, np.int64)
    rank[np.argsort(-time, kind="stable")] = np.arange(part.columns)
    few = ColumnSpans(part.start_ns, part.end_ns, np.minimum(rank, _COLUMNS)[part.column], _COLUMNS + 1)
    values = [column[looked][:_LOOKED_AT].astype(np.float64) for column in metrics]

    def unexplained(periods: float) -> float:
        """How much is left of the counters: the mean of the logarithms, so that no counter outweighs the others."""
        shares = sample_shares(stamps, period, round(periods * period), few)
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

    tried = {float(periods): unexplained(float(periods)) for periods in _COARSE}
    for step in _STEPS:
        best = min(tried, key=tried.__getitem__)
        tried |= {best + more: unexplained(best + more) for more in (-step, step) if best + more not in tried}
    best = min(tried, key=tried.__getitem__)
    return round(best * period) if tried[best] < tried[_USUAL] - _NOTICEABLE else period

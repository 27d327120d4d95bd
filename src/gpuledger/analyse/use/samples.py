"""The samples of one GPU as columns on one clock: the table `metrics` in, a value per sample and counter out.

A sample is the mean over one period. Values are as recorded: percent, and hertz for the clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.catalog.gpu_metrics import GpuMetric, gpu_metric
from gpuledger.messages import say
from gpuledger.trace.columns import distinct, equal
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import Rows, Table

NEEDS: Final = (Table.METRICS,)

_MOST_COUNTERS: Final = 200
"""Of a sample, where rows are taken by their place."""
_LARGEST: Final = 2**40
"""Of a measurement, which is not negative either: nsys lets some counters overflow."""

MetricColumns = Mapping[GpuMetric, Ints]


@dataclass(frozen=True, slots=True, eq=False)
class GpuSamples:
    """What was sampled on one GPU, by time."""

    gpu: int
    stamp_ns: Ints
    """Sorted, each once."""
    period_ns: int
    values: MetricColumns

    def __len__(self) -> int:
        return len(self.stamp_ns)

    def among(self, chosen: NDArray[np.bool_]) -> GpuSamples:
        """Some of the samples."""
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
    found = _in_turn(rows, codes) if here.all() else None
    stamp, values = _one_by_one(rows, codes, here) if found is None else found
    if not values:
        return NotMeasured(say("no known counter of GPU {gpu} was sampled", gpu=gpu))
    if len(stamp) < 2:
        return NotMeasured(say("GPU {gpu} was sampled less than twice", gpu=gpu))
    return GpuSamples(gpu, stamp, _period_ns(stamp), values)


def _period_ns(stamp: Ints) -> int:
    """The mean distance of samples, those after a gap left out."""
    apart = np.diff(stamp)
    usual = apart[apart <= 1.5 * np.median(apart)]
    return max(round(float(usual.mean())), 1)


def _in_turn(rows: Rows, codes: Mapping[GpuMetric, int]) -> tuple[Ints, MetricColumns] | None:
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
    real = all(column.min() >= 0 and column.max() < _LARGEST for column in values.values())
    return (stamps, values) if real else None


def _one_by_one(rows: Rows, codes: Mapping[GpuMetric, int], here: NDArray[np.bool_]) -> tuple[Ints, MetricColumns]:
    """Each counter's rows by time; of several values at one instant the last recorded one."""
    columns = dict[GpuMetric, tuple[Ints, Ints]]()
    for metric, code in codes.items():
        chosen = np.flatnonzero(equal(rows.codes("name"), code) & here)
        chosen = chosen[(rows["value"][chosen] >= 0) & (rows["value"][chosen] < _LARGEST)]
        chosen = chosen[np.argsort(rows["start_ns"][chosen], kind="stable")]
        stamp = rows["start_ns"][chosen]
        last = np.append(stamp[1:] != stamp[:-1], True)[: len(stamp)]
        if len(stamp):
            columns[metric] = stamp[last], rows["value"][chosen[last]]
    common = reduce(np.intersect1d, (stamp for stamp, _ in columns.values())) if columns else np.empty(0, np.int64)
    return common, {metric: value[np.searchsorted(stamp, common)] for metric, (stamp, value) in columns.items()}

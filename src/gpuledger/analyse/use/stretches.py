"""How a GPU was used in stretches of time: means of its samples, less what they were rounded up by; no fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.use.kernel_use import UseOfKernels, use_of_kernels
from gpuledger.analyse.use.levels import before_rounding
from gpuledger.analyse.use.samples import GpuSamples, gpu_samples
from gpuledger.catalog.gpu_metrics import GpuMetric
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.trace.columns import equal
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, Span, Spans, covered, intersection, union
from gpuledger.trace.tables import Table

Floats = NDArray[Any]

_FULL_CLOCK: Final = 0.9
"""Of a sample, the share in which kernels ran, for its clock to be one of a busy GPU."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of the multiprocessors while kernels ran."""

    mean_hz: float
    lowest_hz: float
    """Of a hundred samples one is lower."""
    most_hz: float
    """Of a hundred samples one is higher."""
    late_hz: float
    """The mean in the last third of the samples."""
    highest_hz: int | None
    """That the GPU can have; None: the profile does not say."""
    samples: int
    busy_ns: int
    """How long those samples are."""

    @classmethod
    def of(cls, hertz: Ints, highest_hz: int | None, period_ns: int) -> Clock:
        """From the samples in which kernels ran, by time; one at least."""
        lowest, most = np.percentile(hertz, (1, 99))
        late = hertz[-max(len(hertz) // 3, 1) :]
        return cls(
            float(hertz.mean()),
            float(lowest),
            float(most),
            float(late.mean()),
            highest_hz,
            len(hertz),
            len(hertz) * period_ns,
        )

    @property
    def top_hz(self) -> float:
        """The highest clock that is known of: what the GPU can have, or what it had."""
        return max(self.most_hz, self.highest_hz or 0)

    def varies_by(self, share: float) -> bool:
        """Whether it was now higher, now lower, by more than this share of its mean."""
        return self.most_hz - self.lowest_hz > share * self.mean_hz


@dataclass(frozen=True, slots=True)
class UseOfStretches:
    """Means of counters over a window, its steady part, and the time in it in which kernels ran.

    Percent, and hertz for the clock.
    """

    window: Mapping[GpuMetric, float]
    steady: Mapping[GpuMetric, float]
    busy: Mapping[GpuMetric, float]
    clock: Clock | None
    steps: tuple[tuple[Span, Mapping[GpuMetric, float]], ...]
    """Each step and its means; none where there are no steps."""


SampledUse = tuple[UseOfKernels, UseOfStretches]


def use_of_device(trace: Trace, device: Device, kernels_in: Spans | None = None) -> SampledUse | NotMeasured:
    """All that samples say of one GPU, its window and its steps; kernels of the window, or of some of its stretches.

    The trace may have been read without samples: then they are not measured.
    """
    if Table.METRICS not in trace.tables:
        return trace.missing(Table.METRICS) or NotMeasured(say("the GPU samples were not read"))
    window, edges = device.ledger.busy.stretches, None if device.steps is None else device.steps.edges_ns
    kernels = use_of_kernels(trace, device.gpu, window if kernels_in is None else kernels_in)
    if isinstance(kernels, NotMeasured):
        return kernels
    stretches = use_of_stretches(trace, kernels, window, edges, device.steady_stretches)
    return stretches if isinstance(stretches, NotMeasured) else (kernels, stretches)


def use_of_stretches(
    trace: Trace, use: UseOfKernels, window: Spans, step_edges_ns: Ints | None = None, steady: Spans | None = None
) -> UseOfStretches | NotMeasured:
    """The use of one GPU in a window, its steps, and its steady part if that is not all of it."""
    samples = gpu_samples(trace, use.gpu)
    if isinstance(samples, NotMeasured):
        return samples
    kernels = trace[Table.KERNELS]
    here = equal(kernels["gpu"], use.gpu)
    busy = intersection(union(kernels["start_ns"][here], kernels["end_ns"][here]), window)
    ends = samples.stamp_ns + use.lag_ns
    within = covered(busy, ends - samples.period_ns, ends) >= _FULL_CLOCK * samples.period_ns
    clock, gpu = samples.values.get(GpuMetric.SM_CLOCK), trace.origin.gpu(use.gpu)
    return UseOfStretches(
        _mean(samples, use.lag_ns, window),
        _mean(samples, use.lag_ns, window if steady is None else steady),
        _mean(samples, use.lag_ns, busy),
        None
        if clock is None or not within.any()
        else Clock.of(clock[within], None if gpu is None else gpu.clock_hz, samples.period_ns),
        _steps(samples, use.lag_ns, step_edges_ns),
    )


def _steps(
    samples: GpuSamples, lag_ns: int, edges_ns: Ints | None
) -> tuple[tuple[Span, Mapping[GpuMetric, float]], ...]:
    if edges_ns is None:
        return ()
    means = mean_use(samples, lag_ns, edges_ns[:-1], edges_ns[1:])
    return tuple(
        (
            Span(start, end),
            {metric: float(values[step]) for metric, values in means.items() if not np.isnan(values[step])},
        )
        for step, (start, end) in enumerate(pairwise(edges_ns.tolist()))
    )


def _mean(samples: GpuSamples, lag_ns: int, spans: Spans) -> dict[GpuMetric, float]:
    """The mean over all spans together, as far as samples cover them."""
    begins, ends = _periods(samples, lag_ns)
    time = covered(spans, begins, ends)
    if not time.any():
        return {}
    return {metric: float(np.average(values, weights=time)) for metric, values in _values(samples)}


def _periods(samples: GpuSamples, lag_ns: int) -> tuple[Ints, Ints]:
    """Where each sample's period begins and ends; they do not overlap."""
    ends = samples.stamp_ns + lag_ns
    begins = ends - samples.period_ns
    begins[1:] = np.maximum(begins[1:], ends[:-1])
    return begins, ends


def _values(samples: GpuSamples) -> Iterator[tuple[GpuMetric, Floats]]:
    """Each counter before its samples were rounded up."""
    for metric, recorded in samples.values.items():
        yield metric, recorded if metric is GpuMetric.SM_CLOCK else before_rounding(recorded)


def mean_use(samples: GpuSamples, lag_ns: int, start_ns: Ints, end_ns: Ints) -> dict[GpuMetric, Floats]:
    """The mean of each counter from each start to its end; not a number where no sample covers it."""
    begins, ends = _periods(samples, lag_ns)
    length = (ends - begins).astype(np.float64)
    knots = np.stack((begins, ends), 1).reshape(-1)

    def up_to(values: Floats, instants: Ints) -> Floats:
        """The integral from the first sample to each instant."""
        before = np.repeat(np.append(0.0, np.cumsum(values * length)), 2)[1:-1]
        total: Floats = np.interp(instants, knots, before)
        return total

    time = up_to(np.ones(len(ends)), end_ns) - up_to(np.ones(len(ends)), start_ns)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            metric: np.where(time > 0, (up_to(values, end_ns) - up_to(values, start_ns)) / time, np.nan)
            for metric, values in _values(samples)
        }

"""How a GPU was used in stretches of time: means of its samples, less what they were rounded up by; no fit.

Also from samples: the compute lines of the books split by use (`compute_split`), and where kernels stand under the
roofs, in operations and bytes per second (`sampled_roofline`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.analyse.utilization.fit import before_rounding
from gpuledger.analyse.utilization.kernel_use import CLASSES, UNKNOWN, KernelUse, UseClass, UseOfKernels, use_of_kernels
from gpuledger.analyse.utilization.samples import Floats, GpuSamples, gpu_samples, sample_periods
from gpuledger.catalog.gpu_metrics import GpuMetric
from gpuledger.catalog.gpus import Peaks, peak_bytes_per_s, peaks_of
from gpuledger.catalog.kernel_types import matrix_type
from gpuledger.ledger.activity import GRAPH_FAMILY, State
from gpuledger.ledger.books import Line, compute_by
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.trace.keys import distinct, equal
from gpuledger.trace.model import Gpu, NotMeasured, Trace
from gpuledger.trace.spans import Ints, Span, Spans, covered, intersection, union
from gpuledger.trace.tables import Table

_FULL_CLOCK: Final = 0.9  # of a sample, the share in which kernels ran, for its clock to be one of a busy GPU


class Clock(Struct, frozen=True):
    """The clock of the multiprocessors while kernels ran."""

    mean_hz: float
    lowest_hz: float  # of a hundred samples one is lower
    most_hz: float  # of a hundred samples one is higher
    late_hz: float  # the mean in the last third of the samples
    highest_hz: int | None  # that the GPU can have; None: the profile does not say
    samples: int
    busy_ns: int  # how long those samples are

    @classmethod
    def of(cls, hertz: Ints, highest_hz: int | None, period_ns: int) -> Clock:
        """From the samples in which kernels ran, by time; one at least."""
        lowest, most = np.percentile(hertz, (1, 99))
        late = hertz[-max(len(hertz) // 3, 1) :]
        mean_hz, late_hz = float(hertz.mean()), float(late.mean())
        return cls(mean_hz, float(lowest), float(most), late_hz, highest_hz, len(hertz), len(hertz) * period_ns)

    @property
    def top_hz(self) -> float:
        """The highest clock that is known of: what the GPU can have, or what it had."""
        return max(self.most_hz, self.highest_hz or 0)

    def varies_by(self, share: float) -> bool:
        """Whether it was now higher, now lower, by more than this share of its mean."""
        return self.most_hz - self.lowest_hz > share * self.mean_hz


class UseOfStretches(Struct, frozen=True):
    """Means of counters over a window, its steady part, and the time in it in which kernels ran. Percent, and hertz for
    the clock."""

    window: Mapping[GpuMetric, float]
    steady: Mapping[GpuMetric, float]
    busy: Mapping[GpuMetric, float]
    clock: Clock | None
    steps: tuple[tuple[Span, Mapping[GpuMetric, float]], ...]  # each step and its means; none where there are no steps


SampledUse = tuple[UseOfKernels, UseOfStretches]


def use_of_device(trace: Trace, device: Device, kernels_in: Spans | None = None) -> SampledUse | NotMeasured:
    """All that samples say of one GPU, its window and its steps; kernels of the window, or of some of its stretches.
    The trace may have been read without samples: then they are not measured."""
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
    hertz, gpu, clock = samples.values.get(GpuMetric.SM_CLOCK), trace.origin.gpu(use.gpu), None
    if hertz is not None and within.any():
        clock = Clock.of(hertz[within], None if gpu is None else gpu.clock_hz, samples.period_ns)
    window_use, steady_use, busy_use = (
        _mean(samples, use.lag_ns, spans) for spans in (window, window if steady is None else steady, busy)
    )
    steps: tuple[tuple[Span, Mapping[GpuMetric, float]], ...] = ()
    if step_edges_ns is not None:
        means = mean_use(samples, use.lag_ns, step_edges_ns[:-1], step_edges_ns[1:])
        steps = tuple(
            (
                Span(start, end),
                {metric: float(values[step]) for metric, values in means.items() if not np.isnan(values[step])},
            )
            for step, (start, end) in enumerate(pairwise(step_edges_ns.tolist()))
        )
    return UseOfStretches(window_use, steady_use, busy_use, clock, steps)


def _mean(samples: GpuSamples, lag_ns: int, spans: Spans) -> dict[GpuMetric, float]:
    time = covered(spans, *sample_periods(samples.stamp_ns, samples.period_ns, lag_ns))
    if not time.any():
        return {}
    return {metric: float(np.average(values, weights=time)) for metric, values in _values(samples)}


def _values(samples: GpuSamples) -> Iterator[tuple[GpuMetric, Floats]]:
    """Each counter before its samples were rounded up."""
    for metric, recorded in samples.values.items():
        yield metric, recorded if metric is GpuMetric.SM_CLOCK else before_rounding(recorded)


def mean_use(samples: GpuSamples, lag_ns: int, start_ns: Ints, end_ns: Ints) -> dict[GpuMetric, Floats]:
    """The mean of each counter from each start to its end; not a number where no sample covers it."""
    begins, ends = sample_periods(samples.stamp_ns, samples.period_ns, lag_ns)
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


TimeByClass = Mapping[UseClass, int]


class ComputeSplit(Struct, frozen=True):
    """Compute by line of the books, and within each by class; every class is there."""

    window: Mapping[Line, TimeByClass]
    steady: Mapping[Line, TimeByClass]  # of the steady stretch, as `Device.line_ns`

    @property
    def steady_total(self) -> TimeByClass:
        return {name: sum(times[name] for times in self.steady.values()) for name in CLASSES}


def compute_split(device: Device, class_of_row: NDArray[np.int8] | None) -> ComputeSplit:
    """One GPU's compute, by the classes that `UseOfKernels` has; None: nothing was sampled."""
    books = device.ledger
    if class_of_row is None:
        nothing = dict.fromkeys(CLASSES, 0)
        window, steady_lines = (
            {line: nothing | {UseClass.UNKNOWN: ns} for line, ns in lines.items() if line.is_compute}
            for lines in (books.total(), device.line_ns)
        )
        return ComputeSplit(window, steady_lines)
    own = device.work.of(device.gpu)
    families = len(own.families)
    is_kernel = (own.state == State.COMPUTE) & (own.family != own.families.index(GRAPH_FAMILY))
    number = np.full(len(own), UNKNOWN)
    number[is_kernel] = class_of_row[own.row[is_kernel]]
    label = np.where(own.state == State.COMPUTE, own.family * len(CLASSES) + number, -1)
    edges = distinct(np.array([*books.window, *np.clip(device.steady, *books.window)]))
    times = compute_by(own, books.busy, edges, label, families * len(CLASSES)).reshape(-1, families, len(CLASSES))
    steady = (edges[:-1] >= device.steady.start_ns) & (edges[:-1] < device.steady.end_ns)
    whole, of_steady = (
        {
            Line.of_family(family): dict(zip(CLASSES, of_family, strict=True))
            for family, of_family in zip(own.families, part.sum(axis=0).tolist(), strict=True)
            if any(of_family)  # families without time are left out, as in the books
        }
        for part in (times, times[steady])
    )
    return ComputeSplit(whole, of_steady)


USES_TENSOR: Final = 5.0  # percent of the tensor cores' cycles, from which on a kernel is taken to compute with them

_EIGHT_BITS: Final = re.compile(r"e4m3|e5m2|fp8|float8|_f8", re.IGNORECASE)
_HALF: Final = ("bf16", "fp16")
_PLAIN: Final = "fp32"


class SampledPoint(Struct, frozen=True):
    """One kernel at DRAM."""

    name: str
    time_ns: int
    use_class: UseClass
    kind: str  # what it is taken to compute in: `tensor bf16`, …, or `fp32`
    operations_per_byte: float
    operations_per_s: float
    share: float  # of the nearer of its two roofs


class SampledRoofline(Struct, frozen=True):
    """The kernels of one GPU, the most time first, and the roofs over them."""

    points: tuple[SampledPoint, ...]
    compute_per_s: Mapping[str, float]  # the roofs of what the points compute in
    bytes_per_s: float


def sampled_roofline(use: SampledUse, gpu: Gpu | None) -> SampledRoofline | NotMeasured:
    """Kernels whose tensor cores or issue slots, and DRAM, were sampled, on a GPU whose peaks are known."""
    kernels, stretches = use
    if gpu is None:
        return NotMeasured(say("the profile does not describe the GPU"))
    peaks = peaks_of(gpu)
    if isinstance(peaks, NotMeasured):
        return peaks
    bandwidth = gpu.bandwidth_bytes_per_s or peak_bytes_per_s(gpu)
    if isinstance(bandwidth, NotMeasured):
        return bandwidth
    clock = stretches.clock
    pace = clock.mean_hz / clock.highest_hz if clock is not None and clock.highest_hz else 1.0
    points, roofs = list[SampledPoint](), dict[str, float]()
    for kernel in kernels.kernels:
        arithmetic, dram = _arithmetic(kernel, peaks), kernel.dram
        if arithmetic is None or dram is None or not dram.percent or not arithmetic[1]:
            continue
        kind, percent, tera = arithmetic
        roofs[kind] = tera * 1e12 * pace
        per_s = percent / 100 * roofs[kind]
        moved = dram.percent / 100 * bandwidth
        of_kernel = kernel.full_name, kernel.time_ns, kernel.use_class
        points.append(SampledPoint(*of_kernel, kind, per_s / moved, per_s, max(percent, dram.percent) / 100))
    if not points:
        return NotMeasured(say("no kernel has both its arithmetic and its DRAM traffic sampled"))
    return SampledRoofline(tuple(points), roofs, float(bandwidth))


def _arithmetic(kernel: KernelUse, peaks: Peaks) -> tuple[str, float, float] | None:
    """What a kernel computes in, how much of that peak it uses in percent, and the peak in 1e12 a second."""
    tensor, issue = (kernel.figures.get(metric) for metric in (GpuMetric.TENSOR, GpuMetric.SM_ISSUE))
    if tensor is not None and tensor.percent >= USES_TENSOR:
        named = "fp8" if _EIGHT_BITS.search(kernel.full_name) else matrix_type(kernel.full_name)
        for kind in (named, *_HALF):
            if kind is not None and peaks.tera.get(kind, 0.0) > peaks.plain.get(kind, 0.0):
                return f"tensor {kind}", tensor.percent, peaks.tera[kind]
    if issue is not None and _PLAIN in peaks.plain:
        return _PLAIN, issue.percent, peaks.plain[_PLAIN]
    return None

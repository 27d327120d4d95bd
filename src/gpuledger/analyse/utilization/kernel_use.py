"""How well each kernel uses the GPU, from samples: a trace in, percent with an interval per kernel and counter out.

A sample is the mean over one period, so it is a mixture of what ran in it. The level of each kernel is what explains
all samples best. A kernel that lasts long beside a period has two or three levels, as it begins and ends differently;
its figure is their mean by time. In one word (`UseClass`) a kernel is at a roof, under-filled or stalled. See
docs/concepts/use.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from math import hypot, prod
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.analyse.roofline.verdict import ALIKE, BUSY, UNEVEN
from gpuledger.analyse.utilization.fit import (
    FitColumns,
    FittedLevels,
    Mixtures,
    fit_levels,
    launch_groups,
)
from gpuledger.analyse.utilization.samples import NEEDS as SAMPLES_NEED
from gpuledger.analyse.utilization.samples import Floats, SampleShares, SampleSubset, gpu_samples, lag_ns, sample_shares
from gpuledger.catalog.gpu_metrics import MEMORY, OF_KERNELS, VAGUE, GpuMetric
from gpuledger.catalog.gpus import OccupancyLimit, occupancy_limit
from gpuledger.messages import say
from gpuledger.trace.measured import Dim3
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.trace.spans import Ints, Spans
from gpuledger.trace.tables import Table


class UseClass(StrEnum):
    """How compute time uses the GPU; each instant is of one class."""

    COMPUTE_ROOF = "compute_roof"  # tensor cores or issue slots are near their peak
    MEMORY_ROOF = "memory_roof"  # DRAM is near its peak
    UNDER_FILLED = "under_filled"
    """Neither is, and multiprocessors have no warp: too few blocks, a tail, or too short a kernel."""
    STALLED = "stalled"  # neither is, though multiprocessors have warps: they wait, or use a unit that is not sampled
    UNKNOWN = "unknown"  # not sampled, or not known well enough


CLASSES: Final = tuple(UseClass)
AT_A_ROOF: Final = (UseClass.COMPUTE_ROOF, UseClass.MEMORY_ROOF)
UNKNOWN: Final = CLASSES.index(UseClass.UNKNOWN)

_COMPUTE: Final = (GpuMetric.TENSOR, GpuMetric.SM_ISSUE)

FigureColumns = tuple[Floats, Floats, Floats]  # percent, low and high of each kernel


def use_classes(figures: Mapping[GpuMetric, FigureColumns], count: int) -> NDArray[np.int8]:
    """Of each of so many kernels: the position of its class in `CLASSES`."""
    percent = {metric: sides[0] for metric, sides in figures.items()}
    classes = _classes(percent, count)
    known = np.ones(count, np.bool_)
    for metric, (_, low, high) in figures.items():
        for side in (low, high):
            known &= (high - low <= VAGUE) | (_classes(percent | {metric: side}, count) == classes)
    return np.where(known, classes, np.int8(UNKNOWN))


def _classes(percent: Mapping[GpuMetric, Floats], count: int) -> NDArray[np.int8]:
    """By the numbers alone. Without a roof nearby, all that could be one must have been sampled."""
    nothing = np.zeros(count)
    compute = np.maximum.reduce([nothing, *(percent[metric] for metric in _COMPUTE if metric in percent)])
    memory = sum((percent[metric] for metric in MEMORY if metric in percent), nothing)
    memory_sampled = GpuMetric.DRAM in percent or {*MEMORY[:2]} <= percent.keys()
    all_sampled = memory_sampled and {GpuMetric.SM_ISSUE, GpuMetric.SM_ACTIVE} <= percent.keys()
    idle = percent.get(GpuMetric.SM_ACTIVE, nothing) <= 100 * UNEVEN
    number = {name: np.int8(place) for place, name in enumerate(CLASSES)}
    beneath = np.where(idle, number[UseClass.UNDER_FILLED], number[UseClass.STALLED])
    of_roof = np.where(compute >= memory - 100 * ALIKE, number[UseClass.COMPUTE_ROOF], number[UseClass.MEMORY_ROOF])
    is_near = np.maximum(compute, memory) >= 100 * BUSY
    return np.where(is_near, of_roof, beneath if all_sampled else number[UseClass.UNKNOWN])


class UseFigure(Struct, frozen=True):
    """One counter of one kernel, in percent of the time that Nsight Compute would give the kernel."""

    percent: float
    low: float
    high: float

    def holds(self, percent: float) -> bool:
        return self.low <= percent <= self.high


NEEDS: Final = (Table.KERNELS, *SAMPLES_NEED)

LAUNCH_NS: Final = 1000
"""Nsight Compute counts from before the first block starts until after the last has ended: so much longer than the
times of a timeline, in which a kernel of 1.1 us is one of 2.1 us there (H200, kernels of 1 to 30 us)."""
ALONE: Final = 0.4
"""Of that, what is missing in a timeline where a kernel follows no other: more of its launch lies in its own time."""

COVERAGE: Final = 0.9
_DEVIATIONS: Final = 1.645  # of a normal distribution on each side of the mean, for that coverage

_FEWEST_SAMPLES: Final = 20
_FEWEST_ACTIVE: Final = 5.0  # percent of multiprocessors active, below which nothing is said of how many warps each has
_EXPECTED: Final = {GpuMetric.SM_ACTIVE: 0.25, GpuMetric.WARPS: 0.25}
"""Of what the launch shape allows, where samples tell nothing: every kernel has warps on multiprocessors."""
_SHARED_DIFFER: Final = 15.0  # points by which kernels that share a column differ
_POINTS: Final = 1.0
_SHARE, _ISSUE_SHARE = 0.05, 0.08
_EDGE_NS: Final = 400
_ROUNDED: Final = 0.35
_NEIGHBOUR_NS, _MOST_OF_NEIGHBOURS = 600, 30.0
_CARRIED_POINTS_NS, _MOST_CARRIED = 60_000.0, 6.0
"""How numbers of Nsight Compute differ from those of a run, as standard deviations: points; a share of the number, more
for issue slots; what lies in a stretch at its edges; a part of a whole percent, of the sample that the kernel fills;
what lies in a stretch of the kernels beside it; and for DRAM, points that fall with its length. Measured on ten
programs: docs/concepts/use.md."""


class KernelUse(Struct, frozen=True):
    """Kernels of one name and launch shape. A counter that was not sampled is not in `figures`."""

    name: str  # the canonical one
    full_name: str
    grid: Dim3
    block: Dim3
    launches: int
    time_ns: int
    figures: Mapping[GpuMetric, UseFigure]
    use_class: UseClass
    occupancy_limit: OccupancyLimit | None = None
    """What its launch allows; None where registers were not read, or the GPU is not known."""
    clock_hz: float | None = None  # the mean while it ran; None where it was not sampled

    @property
    def occupancy(self) -> float | None:
        """Resident warps of those that the active multiprocessors have room for, 0 to 1; None where not sampled."""
        warps, active = (self.figures.get(metric) for metric in (GpuMetric.WARPS, GpuMetric.SM_ACTIVE))
        if warps is None or active is None or active.percent < _FEWEST_ACTIVE:
            return None
        most = 1.0 if self.occupancy_limit is None else self.occupancy_limit.share
        return min(warps.percent / active.percent, most)

    @property
    def dram(self) -> UseFigure | None:
        """Read and written together; None where one of them was not sampled."""
        if (both := self.figures.get(GpuMetric.DRAM)) is not None:
            return both
        read, written = (self.figures.get(metric) for metric in (GpuMetric.DRAM_READ, GpuMetric.DRAM_WRITE))
        if read is None or written is None:
            return None
        percent = min(read.percent + written.percent, 100.0)
        below = hypot(read.percent - read.low, written.percent - written.low)
        above = hypot(read.high - read.percent, written.high - written.percent)
        return UseFigure(percent, max(percent - below, 0.0), min(percent + above, 100.0))


class UseOfKernels(Struct, frozen=True, eq=False):
    """All kernels of one GPU, the most time first."""

    gpu: int
    kernels: tuple[KernelUse, ...]
    samples: int  # that the levels come from
    period_ns: int
    lag_ns: int
    idle: Mapping[GpuMetric, float]  # what the counters are while nothing of the profile runs
    unexplained: Mapping[GpuMetric, float]  # points by which a sample usually differs from what the levels give
    class_of_row: NDArray[np.int8]
    """Of each row of the table of kernels: its class, as a position in `CLASSES`; other GPUs' rows are unknown."""
    kernel_of_row: Ints
    """Of each row: its position in `kernels`; -1 for other GPUs' rows, and where none of its kind is in the window."""


def use_of_kernels(trace: Trace, gpu: int, window: Spans | None = None) -> UseOfKernels | NotMeasured:
    """What every kernel of a GPU makes of it; with a window, of those launches that begin in it. Levels come from all
    samples in either case: the more, the surer."""
    if missing := trace.missing(*NEEDS):
        return missing
    samples = gpu_samples(trace, gpu)
    if isinstance(samples, NotMeasured):
        return samples
    metrics = [metric for metric in (*OF_KERNELS, GpuMetric.DRAM) if metric in samples.values]
    groups = launch_groups(trace, gpu)
    if not metrics or not len(groups):
        return NotMeasured(say("no kernel of GPU {gpu} was sampled", gpu=gpu))
    columns = FitColumns.of(groups, samples.period_ns)
    undivided = columns.with_parts(1).spans(trace, gpu)
    subset = SampleSubset.choose(samples.stamp_ns, samples.period_ns, undivided)
    samples = samples.among(subset.samples(len(samples)))
    near = np.flatnonzero(subset.near(groups.start_ns, groups.end_ns))
    lag = lag_ns(samples, undivided, columns.with_parts(3).spans(trace, gpu, near))
    shares = sample_shares(samples.stamp_ns, samples.period_ns, lag, columns.spans(trace, gpu, near))
    if len(shares.used) < _FEWEST_SAMPLES:
        return NotMeasured(
            say("GPU {gpu} was sampled {count} times while its kernels ran", gpu=gpu, count=len(shares.used))
        )
    mixtures = Mixtures.of(shares, *columns.mixes())
    ceilings = {metric: groups.ceiling(metric, trace.origin.gpu(gpu)) for metric in metrics}
    fits = {}
    for metric in metrics:
        prior = columns.prior(ceilings[metric], _EXPECTED.get(metric, 0.0), groups.usual_spread(metric))
        fits[metric] = fit_levels(mixtures, samples.values[metric][shares.used], prior)
    figures = {
        metric: _figures(metric, columns, ceilings[metric], fit, samples.period_ns) for metric, fit in fits.items()
    }
    classes, clocks = use_classes(figures, len(groups)), _clocks(samples.values, shares, columns)
    launches, total_ns = groups.within(window)
    order = np.argsort(-total_ns, kind="stable")
    order = order[launches[order] > 0]
    place = np.full(len(groups), -1)
    place[order] = np.arange(len(order))
    device = trace.origin.gpu(gpu)
    capability = None if device is None else device.compute_capability
    rows = len(trace[Table.KERNELS])
    class_of_row, kernel_of_row = np.full(rows, UNKNOWN, np.int8), np.full(rows, -1)
    class_of_row[groups.row], kernel_of_row[groups.row] = classes[groups.group], place[groups.group]
    return UseOfKernels(
        gpu,
        tuple(
            KernelUse(
                groups.names[row],
                groups.full_names[row],
                groups.grids[row],
                groups.blocks[row],
                int(launches[row]),
                int(total_ns[row]),
                {metric: UseFigure(*(float(side[row]) for side in sides)) for metric, sides in figures.items()},
                CLASSES[classes[row]],
                occupancy_limit(
                    capability, prod(groups.blocks[row]), int(groups.registers[row]), int(groups.shared_bytes[row])
                ),
                None if np.isnan(clocks[row]) else float(clocks[row]),
            )
            for row in order.tolist()
        ),
        len(shares.used),
        samples.period_ns,
        lag,
        {metric: fit.idle for metric, fit in fits.items()},
        {metric: fit.noise for metric, fit in fits.items()},
        class_of_row,
        kernel_of_row,
    )


def _clocks(values: Mapping[GpuMetric, Floats], shares: SampleShares, columns: FitColumns) -> Floats:
    """Of each group the mean clock in Hz while it ran: products hold it down within 100 us, and only while they run."""
    if GpuMetric.SM_CLOCK not in values:
        return np.full(len(columns.groups), np.nan)
    clock = values[GpuMetric.SM_CLOCK][shares.used]
    sums = [np.append(0.0, np.cumsum(shares.times(one))) for one in (clock, np.ones(len(clock)))]
    hertz, covered = (sides[columns.first + columns.parts] - sides[columns.first] for sides in sums)
    clocks: Floats = np.where(covered > 0, hertz / np.where(covered > 0, covered, 1.0), np.nan)
    return clocks


def _figures(
    metric: GpuMetric, columns: FitColumns, ceiling: Floats, fit: FittedLevels, period_ns: int
) -> FigureColumns:
    """Percent, low and high of each group, of the time that Nsight Compute would give it."""
    groups = columns.groups
    mean_ns = groups.mean_ns
    counted = mean_ns / (mean_ns + LAUNCH_NS * (ALONE + (1 - ALONE) * groups.close_share))
    percent = fit.level * counted
    memory = metric in MEMORY
    parts = (
        fit.deviation * counted,
        _POINTS,
        (_ISSUE_SHARE if metric is GpuMetric.SM_ISSUE else _SHARE) * percent,
        _EDGE_NS / mean_ns * percent,
        _ROUNDED * np.maximum(period_ns / mean_ns, 1.0),
        np.minimum(_NEIGHBOUR_NS / mean_ns * groups.of_neighbours(fit.level), _MOST_OF_NEIGHBOURS),
        np.minimum(_CARRIED_POINTS_NS / mean_ns, _MOST_CARRIED) if memory else 0.0,
        np.where(columns.shared, _SHARED_DIFFER, 0.0),
    )
    spread = _DEVIATIONS * np.sqrt(sum(part**2 for part in parts))
    low, high = np.maximum(percent - spread, 0.0), np.minimum(percent + spread, ceiling)
    return percent, low, np.maximum(high, percent)

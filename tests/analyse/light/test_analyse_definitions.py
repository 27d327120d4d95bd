"""The analyses' definitions at their bounds: the last value that counts as one thing, and the first that does not.

Numbers stand here as documents tell them, never as the constants of the source.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from gpuledger.analyse.light.steady_kernels import kernel_loops
from gpuledger.analyse.memory.figures import CopyFlow
from gpuledger.analyse.utilization.kernel_use import (
    CLASSES,
    KernelUse,
    UseClass,
    UseFigure,
    UseOfKernels,
    use_classes,
    use_of_kernels,
)
from gpuledger.analyse.utilization.stretches import UseOfStretches, use_of_stretches
from gpuledger.catalog.gpu_metrics import OF_KERNELS, GpuMetric
from gpuledger.trace.spans import Span, one_span
from support.traces.sampled_traces import SM_ACTIVE, in_turn, sampled

QUIET = {metric: 100.0 if metric is GpuMetric.SM_ACTIVE else 5.0 for metric in OF_KERNELS}
"""A kernel that keeps nothing busy, though all multiprocessors have warps."""


def use_class(percent: Mapping[GpuMetric, float], width: float = 0.0) -> UseClass:
    """The class of one kernel whose counters are known to so many points."""
    figures = {
        metric: (np.array([value]), np.array([value - width / 2]), np.array([value + width / 2]))
        for metric, value in percent.items()
    }
    return CLASSES[int(use_classes(figures, 1)[0])]


# how kernels use the GPU


@pytest.mark.parametrize(("percent", "expected"), [(59.9, UseClass.STALLED), (60.0, UseClass.COMPUTE_ROOF)])
@pytest.mark.parametrize("counter", [GpuMetric.TENSOR, GpuMetric.SM_ISSUE])
def test_a_unit_at_60_percent_is_at_its_roof(counter: GpuMetric, percent: float, expected: UseClass) -> None:
    assert use_class(QUIET | {counter: percent}) is expected


@pytest.mark.parametrize(("percent", "expected"), [(80.0, UseClass.UNDER_FILLED), (80.1, UseClass.STALLED)])
def test_a_gpu_of_which_80_percent_have_warps_is_under_filled(percent: float, expected: UseClass) -> None:
    assert use_class(QUIET | {GpuMetric.SM_ACTIVE: percent}) is expected


@pytest.mark.parametrize(("width", "expected"), [(20.0, UseClass.UNDER_FILLED), (20.1, UseClass.UNKNOWN)])
def test_a_counter_known_to_more_than_20_points_decides_nothing(width: float, expected: UseClass) -> None:
    assert use_class(QUIET | {GpuMetric.SM_ACTIVE: 75.0}, width) is expected


@pytest.mark.parametrize(("read", "written", "expected"), [(60.0, 30.0, 90.0), (80.0, 30.0, 100.0)])
def test_dram_is_read_and_written_at_100_percent_at_most(read: float, written: float, expected: float) -> None:
    figures = {
        GpuMetric.DRAM_READ: UseFigure(read, read, read),
        GpuMetric.DRAM_WRITE: UseFigure(written, written, written),
    }
    kernel = KernelUse("k", "k", (1, 1, 1), (1, 1, 1), 1, 1_000, figures, UseClass.UNKNOWN)
    assert kernel.dram is not None
    assert (kernel.dram.percent, kernel.dram.high) == (expected, expected)


def test_a_kernel_is_counted_for_1_us_longer_than_it_shows() -> None:
    """Kernels of 9 us that follow each other closely, at 50 %: 9 of 10 us of them are counted at that level."""
    use = use_of_kernels(sampled(in_turn(["a"], [9_000], 4_000, gap_ns=1_000), {SM_ACTIVE: {"a": 50}}), 0)
    assert isinstance(use, UseOfKernels)
    [kernel] = use.kernels
    assert kernel.figures[GpuMetric.SM_ACTIVE].percent == pytest.approx(45, abs=0.6)


@pytest.mark.parametrize(("busy_ns", "is_told"), [(44_000, False), (46_000, True)])
def test_a_clock_counts_where_kernels_run_for_nine_tenths_of_a_sample(busy_ns: int, is_told: bool) -> None:
    """Of each period of 50 us."""
    launches = in_turn(["a"], [busy_ns], 400, gap_ns=50_000 - busy_ns)
    trace = sampled(launches, {SM_ACTIVE: {"a": 80}, "GPC Clock Frequency [MHz]": {"a": 1_600_000_000}})
    use = use_of_kernels(trace, 0)
    assert isinstance(use, UseOfKernels)
    stretches = use_of_stretches(trace, use, one_span(Span(10_000, launches[-1].end_ns)))
    assert isinstance(stretches, UseOfStretches)
    assert (stretches.clock is not None) is is_told


# loops and copies


@pytest.mark.parametrize(("times", "found"), [(15, []), (16, [(0, 32, 2)])])
def test_a_loop_has_16_rounds(times: int, found: list[tuple[int, int, int]]) -> None:
    loops = kernel_loops(np.array([1, 2] * times, np.int32), np.zeros(2 * times, np.int64))
    assert [(loop.start, loop.end, loop.period) for loop in loops] == found


@pytest.mark.parametrize(("moved", "is_at_rate", "slow_ns"), [(79, False, 210), (80, True, 0)])
def test_a_copy_at_80_percent_of_its_way_is_as_fast_as_it_gets(moved: int, is_at_rate: bool, slow_ns: int) -> None:
    """Of 100 bytes in 1,000 ns, which is what the way allows."""
    flow = CopyFlow(
        kind="Host-to-Device",
        memory="Pinned",
        count=1,
        total_bytes=moved,
        running_ns=1_000,
        exposed_ns=1_000,
        way_bytes_per_s=100_000_000,
        is_own_rate=False,
        longest=Span(0, 1_000),
        pid=0,
        correlations=(),
    )
    assert (flow.is_at_rate, flow.slow_ns) == (is_at_rate, slow_ns)

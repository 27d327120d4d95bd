"""Roofline from samples: percent of a known GPU's peaks, at the clock that was sampled."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from gpuledger.analyse.utilization.kernel_use import KernelUse, UseClass, UseFigure, UseOfKernels
from gpuledger.analyse.utilization.stretches import Clock, SampledRoofline, SampledUse, UseOfStretches, sampled_roofline
from gpuledger.catalog.gpu_metrics import GpuMetric
from gpuledger.trace.model import Gpu, NotMeasured
from support.traces.sampled_traces import H200

FULL = Clock(1.98e9, 1.98e9, 1.98e9, 1.98e9, 1_980_000_000, 100, 5_000_000)


def used(name: str, **percent: float) -> KernelUse:
    figures = {GpuMetric(metric): UseFigure(value, value, value) for metric, value in percent.items()}
    return KernelUse(name, name, (1, 1, 1), (1, 1, 1), 1, 1_000, figures, UseClass.UNKNOWN)


def use_of(*kernels: KernelUse, clock: Clock | None = FULL) -> SampledUse:
    whole = UseOfKernels(0, kernels, 100, 50_000, 50_000, {}, {}, np.zeros(0, np.int8), np.zeros(0, np.int64))
    return whole, UseOfStretches({}, {}, {}, clock, ())


def roofline_of(*kernels: KernelUse, clock: Clock | None = FULL) -> SampledRoofline:
    found = sampled_roofline(use_of(*kernels, clock=clock), H200)
    assert not isinstance(found, NotMeasured), found
    return found


def test_operations_and_bytes_are_shares_of_the_peaks() -> None:
    gemm = used("nvjet_bf16", tensor=50, sm_issue=10, dram_read=10, dram_write=10)
    plain = used("elementwise", tensor=1, sm_issue=20, dram_read=30, dram_write=50)
    found = roofline_of(gemm, plain)
    [first, second] = found.points
    assert (first.kind, second.kind) == ("tensor bf16", "fp32")
    assert first.operations_per_s == pytest.approx(0.5 * 989.4e12)
    assert first.operations_per_byte == pytest.approx(0.5 * 989.4e12 / (0.2 * 4.814304e12))
    assert second.operations_per_s == pytest.approx(0.2 * 66.9e12)
    assert (first.share, second.share) == (0.5, 0.8)
    assert set(found.compute_per_s) == {"tensor bf16", "fp32"}


@pytest.mark.parametrize(
    ("name", "kind"), [("nvjet_e4m3", "tensor fp8"), ("sm80_xmma_gemm_tf32f32", "tensor tf32"), ("own", "tensor bf16")]
)
def test_the_type_comes_from_the_name(name: str, kind: str) -> None:
    assert roofline_of(used(name, tensor=50, dram_read=10, dram_write=10)).points[0].kind == kind


def test_a_lower_clock_lowers_the_roof_and_the_rate() -> None:
    gemm = used("own", tensor=50, dram_read=10, dram_write=10)
    half = roofline_of(gemm, clock=replace(FULL, mean_hz=0.99e9))
    assert half.compute_per_s["tensor bf16"] == pytest.approx(989.4e12 / 2)
    assert half.points[0].share == 0.5


def test_what_is_not_known_is_not_drawn() -> None:
    use = use_of(used("own", tensor=50))
    assert isinstance(sampled_roofline(use, H200), NotMeasured)  # no traffic
    assert isinstance(sampled_roofline(use, Gpu("a GPU of 2040")), NotMeasured)
    assert isinstance(sampled_roofline(use, None), NotMeasured)

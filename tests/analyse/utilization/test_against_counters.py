"""Which kernels of a timeline and of Nsight Compute are the same, whose names one of them shortens."""

from __future__ import annotations

import numpy as np
import pytest

from gpuledger.analyse.utilization.against_counters import held_against
from gpuledger.analyse.utilization.kernel_use import KernelUse, UseClass, UseFigure, UseOfKernels
from gpuledger.catalog.gpu_metrics import GpuMetric
from gpuledger.catalog.ncu_metrics import DURATION, USE
from gpuledger.trace.measured import KernelReport, Profiled

SHAPE = (1, 1, 1)
ADD, EXP = (
    "void at::native::run<at::native::add::{lambda(float)#1}, true>",
    "void at::native::run<at::native::exp::{lambda(float)#1}, true>",
)


def sampled(*names: str) -> UseOfKernels:
    kernels = tuple(
        KernelUse(name, name, SHAPE, SHAPE, 1, 1_000, {GpuMetric.TENSOR: UseFigure(50, 45, 55)}, UseClass.UNKNOWN)
        for name in names
    )
    return UseOfKernels(0, kernels, 100, 50_000, 50_000, {}, {}, np.zeros(0, np.int8), np.zeros(0, np.int64))


def counted(**percent: float) -> KernelReport:
    """Launches by name with the share of tensor cores that was counted."""
    return KernelReport(
        tuple(
            Profiled(
                order,
                name,
                SHAPE,
                SHAPE,
                metrics={USE[GpuMetric.TENSOR][0]: share / 100, DURATION[0]: 1_000.0},
            )
            for order, (name, share) in enumerate(percent.items())
        )
    )


def held(use: UseOfKernels, report: KernelReport) -> dict[str, float]:
    return {each.kernel.name: each.counted for each in held_against(use, report)}


def test_names_agree_though_ncu_prints_the_last_namespace_only() -> None:
    short = {name.replace("at::", "").replace("true", "1"): share for name, share in ((ADD, 40.0), (EXP, 60.0))}
    assert held(sampled(ADD, EXP), counted(**short)) == {ADD: pytest.approx(40), EXP: pytest.approx(60)}


def test_a_name_without_namespaces_is_enough_where_one_kernel_has_it() -> None:
    assert held(sampled("cudnn::engines::copy"), counted(copy=30.0)) == {"cudnn::engines::copy": pytest.approx(30)}
    assert held(sampled("a::b::copy", "c::d::copy"), counted(copy=30.0)) == {}

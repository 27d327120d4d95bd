"""Compute by use: a kernel has the class that its counters give it, and what they do not say is unknown.

That the classes sum to the lines of compute is a law of the books: `support.traces.book_checks`, for every profile.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.analyse.utilization.kernel_use import CLASSES, UseClass, use_classes, use_of_kernels
from gpuledger.analyse.utilization.stretches import compute_split
from gpuledger.catalog.gpu_metrics import OF_KERNELS, VAGUE, GpuMetric
from gpuledger.findings.profiled_run import diagnose
from gpuledger.ledger.books import Line
from gpuledger.ledger.device import analyse_devices
from gpuledger.selection import Selection
from gpuledger.trace.model import NotMeasured
from support.traces.sampled_traces import SM_ACTIVE, TENSOR, in_turn, sampled
from support.traces.trace_notation import trace

ISSUE, READ, WRITE = (
    "SM Issue [Throughput %]",
    "DRAM Read Bandwidth [Throughput %]",
    "DRAM Write Bandwidth [Throughput %]",
)
ACTIVE = {metric: 100.0 if metric is GpuMetric.SM_ACTIVE else 5.0 for metric in OF_KERNELS}


def use_class(percent: Mapping[GpuMetric, float], width: float = 1.0) -> UseClass:
    """The class of one kernel whose counters are known to so many points."""
    figures = {
        metric: (np.array([value]), np.array([value - width / 2]), np.array([value + width / 2]))
        for metric, value in percent.items()
    }
    return CLASSES[int(use_classes(figures, 1)[0])]


@pytest.mark.parametrize(
    ("counters", "expected"),
    [
        ({GpuMetric.TENSOR: 85.0}, UseClass.COMPUTE_ROOF),
        ({GpuMetric.SM_ISSUE: 75.0}, UseClass.COMPUTE_ROOF),
        ({GpuMetric.DRAM_READ: 45.0, GpuMetric.DRAM_WRITE: 30.0}, UseClass.MEMORY_ROOF),  # together near the peak
        ({GpuMetric.DRAM_READ: 90.0, GpuMetric.TENSOR: 65.0}, UseClass.MEMORY_ROOF),  # the nearer one
        ({GpuMetric.DRAM_READ: 65.0, GpuMetric.TENSOR: 65.0}, UseClass.COMPUTE_ROOF),  # alike: as the verdicts have it
        ({GpuMetric.SM_ACTIVE: 40.0}, UseClass.UNDER_FILLED),
        ({}, UseClass.STALLED),
    ],
)
def test_each_class(counters: dict[GpuMetric, float], expected: UseClass) -> None:
    assert use_class(ACTIVE | counters) is expected


def test_a_class_that_a_wide_interval_decides_is_unknown() -> None:
    assert use_class(ACTIVE | {GpuMetric.SM_ACTIVE: 75.0}, VAGUE) is UseClass.UNDER_FILLED
    assert use_class(ACTIVE | {GpuMetric.SM_ACTIVE: 75.0}, VAGUE + 1) is UseClass.UNKNOWN
    assert use_class(ACTIVE | {GpuMetric.SM_ACTIVE: 20.0}, VAGUE + 1) is UseClass.UNDER_FILLED  # either end is


def test_without_a_roof_nearby_all_that_could_be_one_must_be_sampled() -> None:
    lacking = dict(ACTIVE)
    del lacking[GpuMetric.DRAM_WRITE]
    assert use_class(lacking) is UseClass.UNKNOWN
    assert use_class(lacking | {GpuMetric.TENSOR: 80.0}) is UseClass.COMPUTE_ROOF
    assert use_class({}) is UseClass.UNKNOWN


@given(st.lists(st.floats(0, 100), min_size=6, max_size=6), st.floats(0, 60))
def test_knowing_less_never_changes_a_class_but_to_unknown(levels: list[float], width: float) -> None:
    percent = dict(zip(OF_KERNELS, levels, strict=True))
    assert use_class(percent, width) in (use_class(percent, 0.0), UseClass.UNKNOWN)


def test_the_books_are_split_by_what_was_planted() -> None:
    launches = in_turn(["gemm", "softmax"], [131_000, 80_000], 150)
    levels = {
        SM_ACTIVE: {"gemm": 98, "softmax": 97},
        ISSUE: {"gemm": 15, "softmax": 10},
        TENSOR: {"gemm": 88},
        READ: {"gemm": 10, "softmax": 42},
        WRITE: {"gemm": 4, "softmax": 41},
    }
    run = sampled(launches, levels)
    use = use_of_kernels(run, 0)
    assert not isinstance(use, NotMeasured)
    [device] = analyse_devices(run, "run", Selection())
    split = compute_split(device, use.class_of_row)
    whole = device.line_ns
    gemm, copy = (next(line for line in whole if line.family == name) for name in ("gemm", "softmax"))
    assert split.steady[gemm][UseClass.COMPUTE_ROOF] == whole[gemm]
    assert split.steady[copy][UseClass.MEMORY_ROOF] == whole[copy]
    report = diagnose(run, "run", Selection())
    assert set(report.use) == {0}


def test_where_kernels_overlap_an_instant_is_of_the_first() -> None:
    [device] = analyse_devices(trace("s0: 0-10 gemm", "s1: 5-15 softmax"), "run", Selection())
    memory, compute = (CLASSES.index(name) for name in (UseClass.MEMORY_ROOF, UseClass.COMPUTE_ROOF))
    split = compute_split(device, np.array([compute, memory], np.int8))
    assert split.window[Line.of_family("gemm")][UseClass.COMPUTE_ROOF] == 10
    assert split.window[Line.of_family("softmax")][UseClass.MEMORY_ROOF] == 5


def test_without_samples_all_compute_is_unknown() -> None:
    [device] = analyse_devices(trace("s0: 0-10 gemm"), "run", Selection())
    assert compute_split(device, None).steady_total == dict.fromkeys(CLASSES, 0) | {UseClass.UNKNOWN: 10}
    assert diagnose(trace("s0: 0-10 gemm"), "run", Selection()).use == {}

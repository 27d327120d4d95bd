"""A published report of one layer, typed in with the units that its generator had dropped.

Its author's tool printed 2.565 TB/s as "2.565 GB/s" and so called the best kernels of the layer its worst.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuledger.analyse.kernels.step_kernels import HITS, kernels_tally
from gpuledger.analyse.roofline.judgement import JudgedLaunch, judged, kernels
from gpuledger.read.ncu.reader import open_kernels
from gpuledger.trace.model import NotMeasured
from support.command import gpuledger

LAYER = (
    # name, us, SM busy %, bandwidth, unit, L2 hit %, L1 hit %, occupancy efficiency %
    ("void flashinfer::norm::RMSNormKernel<8, __half>(T2 *, T2 *)", 3, 23.54, 204.89, "Gbyte/s", 67.67, 25.0, 24.3),
    ("nvjet_hsh_96x128_64x7_2x1_v_bz_TNN", 46, 50.505, 2.565, "Tbyte/s", 31.96, 0.0, None),
    ("void flashinfer::BatchQKApplyRotary<0, 128>(T5 *)", 4, 25.59, 387.2, "Gbyte/s", 60.745, 71.38, 58.5),
    ("void at::native::index_elementwise_kernel<128, 4>(long)", 6, 38.0325, 141.28, "Gbyte/s", 67.11, 36.3, 60.5),
    ("void at::native::index_elementwise_kernel<128, 4>(long)", 6, 38.0125, 139.61, "Gbyte/s", 67.03, 36.34, 60.2),
    ("void at::native::elementwise_kernel<128, 4>(int, T3)", 4, 24.275, 173.52, "Gbyte/s", 66.27, 22.0, 43.6),
    ("flash::prepare_varlen_num_blocks_kernel(int, int)", 3, 21.82, 1.195, "Gbyte/s", 100.355, 25.0, 46.2),
    ("void cutlass::device_kernel<flash::FlashAttnFwdSm90>(T1)", 11, 15.19, 232.24, "Gbyte/s", 42.745, 2.1, None),
    ("nvjet_hsh_64x64_64x13_1x2_h_bz_TNT", 17, 42.9625, 2.265, "Tbyte/s", 39.1375, 0.0, None),
    ("void flashinfer::norm::FusedAddRMSNormKernel<8>(T2 *)", 4, 20.52, 333.86, "Gbyte/s", 61.3775, 40.0, 24.3),
    ("nvjet_hsh_168x128_64x5_2x1_v_bz_TNN", 74, 49.91, 2.56, "Tbyte/s", 22.57, 0.0, None),
    (
        "void flashinfer::activation::act_and_mul_kernel<__half>(T1 *)",
        4,
        34.645,
        814.815,
        "Gbyte/s",
        44.165,
        21.64,
        43.8,
    ),
    ("nvjet_hsh_64x64_64x13_1x2_h_bz_TNT", 40, 43.1975, 2.2475, "Tbyte/s", 37.6625, 0.0, None),
)
PEAK = 3.35  # TB/s: an H100 of the kind that runs such kernels
HEAD = '"ID","Kernel Name","Context","Stream","Section Name","Metric Name","Metric Unit","Metric Value"'


@pytest.fixture
def details(tmp_path: Path) -> Path:
    lines = [HEAD]
    for at, (name, us, sm, rate, unit, l2, l1, occupancy) in enumerate(LAYER):
        tera = rate if unit == "Tbyte/s" else rate / 1000
        rows = [
            ("GPU Speed Of Light Throughput", "Duration", "us", us),
            ("GPU Speed Of Light Throughput", "Compute (SM) Throughput", "%", sm),
            ("GPU Speed Of Light Throughput", "DRAM Throughput", "%", round(100 * tera / PEAK, 2)),
            ("Compute Workload Analysis", "SM Busy", "%", sm),
            ("Memory Workload Analysis", "Memory Throughput", unit, rate),
            ("Memory Workload Analysis", "L2 Hit Rate", "%", l2),
            ("Memory Workload Analysis", "L1/TEX Hit Rate", "%", l1),
        ]
        if occupancy is not None:
            rows += [
                ("Occupancy", "Achieved Occupancy", "%", occupancy),
                ("Occupancy", "Theoretical Occupancy", "%", 100),
            ]
        lines += [",".join(f'"{cell}"' for cell in (at, name, 1, 7, *row)) for row in rows]
    path = tmp_path / "details.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def launches(details: Path) -> list[JudgedLaunch]:
    return [judged(each) for each in open_kernels([details]).launches]


def test_all_thirteen_are_there_in_their_order(launches: list[JudgedLaunch]) -> None:
    assert [each.launch.name for each in launches] == [row[0] for row in LAYER]
    assert sum(each.duration_ns for each in launches) == 222_000


def test_bandwidth_is_read_with_its_unit(launches: list[JudgedLaunch]) -> None:
    rates = [each.figures.dram_bytes_per_s for each in launches]
    assert rates[1] == pytest.approx(2.565e12)
    assert rates[0] == pytest.approx(204.89e9)
    assert rates[6] == pytest.approx(1.195e9)


def test_the_best_kernels_are_no_longer_called_the_worst(launches: list[JudgedLaunch]) -> None:
    gemms = [each for each in launches if "nvjet" in each.launch.name]
    assert [(each.verdict.bound, each.verdict.limiter) for each in gemms] == [("memory", "DRAM")] * 4
    shares = [each.verdict.roof_share for each in launches]
    known = sorted(
        (share, each.launch.order) for share, each in zip(shares, launches, strict=True) if isinstance(share, float)
    )
    assert [order for _, order in known[-4:]] == [12, 8, 10, 1]  # the four GEMMs are nearest to a roof
    for each in gemms:
        assert not any("low" in said for said in each.verdict.because)


def test_a_hit_rate_over_a_hundred_is_marked(launches: list[JudgedLaunch]) -> None:
    marked = [each.launch.order for each in launches if each.figures.unreliable]
    assert marked == [6]
    assert launches[6].figures.shares["l2_hit_share"] == pytest.approx(1.00355)


def test_kernels_of_one_name_and_other_size_are_apart(details: Path) -> None:
    told = json.loads(gpuledger("kernels", details, "--format=json").stdout)
    kernels = [kernel for kernel in told["kernels"] if "64x64" in kernel["name"]]
    assert [(kernel["launches"], kernel["orders"]) for kernel in kernels] == [(1, [12]), (1, [8])]
    assert len(told["launches"]) == 13


def test_without_a_peak_or_a_device_nothing_is_claimed(tmp_path: Path) -> None:
    path = tmp_path / "bare.csv"
    rows = ['"0","nvjet","1","7","Memory Workload Analysis","Memory Throughput","Tbyte/s","2.565"']
    rows += ['"0","nvjet","1","7","Compute Workload Analysis","SM Busy","%","50.5"']
    path.write_text("\n".join([HEAD, *rows]) + "\n")
    (found,) = (judged(each) for each in open_kernels([path]).launches)
    assert found.verdict.bound == "unknown"
    assert isinstance(found.verdict.headroom, NotMeasured)


def test_its_counts_are_those_that_the_author_printed(details: Path) -> None:
    """SM efficiency, L2 and L1 hit rate below half: 12, 6 and 12 of 13 launches, two of which are one kernel."""
    counts = kernels_tally(kernels([judged(launch) for launch in open_kernels([details]).launches]))
    assert counts.kernels == 12
    assert {key: (counts.low[key].low, counts.low[key].of) for key in ("sm_busy_share", *HITS)} == {
        "sm_busy_share": (11, 12),
        "l2_hit_share": (6, 12),
        "l1_hit_share": (11, 12),
    }
    assert sum(sum(limits.values()) for limits in counts.limits.values()) == counts.kernels


def test_the_published_layer_is_told_whole(details: Path) -> None:
    shown = gpuledger("kernels", details).stdout
    assert shown.count("  - try: ") == 12
    assert "below 50.0 %: L2 hit rate 6 of 12, L1 hit rate 11 of 12" in shown
    assert "Made 2025-12-17 00:00 UTC." in shown

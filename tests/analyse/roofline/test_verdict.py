"""What limits a kernel: by example, by law, and on our own report against NVIDIA's rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.analyse.roofline.judgement import ADVICE, COALESCE, FLOOR_NS, judged, kernels, saving, severity
from gpuledger.analyse.roofline.verdict import REACHABLE, UNITS, figures, verdict
from gpuledger.trace.measured import Advice, KernelReport
from gpuledger.trace.model import NotMeasured
from support.traces.profiled_launches import NAMES, launch, made


def test_a_gemm_near_the_tensor_peak_is_compute_bound_however_low_its_bandwidth() -> None:
    answer = verdict(launch(sm=0.89, tensor=0.89, dram=0.34, l2=0.6, l1=0.7))
    assert (answer.bound, answer.limiter, answer.roof_share) == ("compute", "tensor", 0.89)
    assert answer.because[0] == "the tensor pipeline runs at 89.0 % of its peak"


def test_a_streaming_kernel_is_memory_bound_and_its_low_hit_rate_is_no_fault() -> None:
    answer = verdict(launch(sm=0.2, dram=0.91, l2=0.5, l2_hit=0.02))
    assert (answer.bound, answer.limiter) == ("memory", "DRAM")
    assert "L2 hit rate 2.0 %: data that is read once cannot hit" in answer.because
    assert answer.headroom == 0  # 91 % is as much as a kernel sustains


def test_caches_that_feed_the_tensor_cores_do_not_make_it_memory_bound() -> None:
    assert verdict(launch(sm=0.78, tensor=0.78, l1=0.80)).bound == "compute"
    assert verdict(launch(sm=0.60, tensor=0.60, l1=0.80)).bound == "memory"


@pytest.mark.parametrize(
    ("numbers", "limiter", "said"),
    [
        ({"grid": (66, 1, 1), "processors": 132}, "too few blocks", "66 blocks for 132 SMs"),
        ({"waves": 0.24}, "too few blocks", "the grid is 0.24 waves"),
        (
            {"waves": 1.29},
            "tail",
            "1.29 waves take as long as 2: 35.5 % of SM time is lost in the last one",
        ),
        (
            {"waves": 8.0, "occupancy": 0.15, "possible": 0.19, "registers_limit": 1, "shared_limit": 2},
            "occupancy",
            "occupancy is 15.0 %; its registers allow no more than 19.0 %",
        ),
        ({"waves": 8.0, "occupancy": 0.2, "possible": 1.0}, "occupancy", "occupancy is only 20.0 %"),
        ({"time": 4000}, "short", "it runs for only 4.00 us"),
        ({}, "unexplained", "the collected metrics do not show what it waits for"),
    ],
)
def test_a_kernel_that_keeps_nothing_busy_waits_for_something(
    numbers: dict[str, object], limiter: str, said: str
) -> None:
    answer = verdict(launch(sm=0.1, dram=0.2, **numbers))  # type: ignore[arg-type]
    assert (answer.bound, answer.limiter, answer.because[0]) == ("latency", limiter, said)
    assert "compute reaches 10.0 % and memory 20.0 % of their peaks" in answer.because


def test_a_persistent_kernel_with_almost_one_wave_is_not_called_small() -> None:
    assert verdict(launch(sm=0.1, waves=0.97, grid=(128, 1, 1), processors=132)).limiter != "too few blocks"


def test_what_was_not_collected_is_not_guessed() -> None:
    answer = verdict(launch(time=5000))
    assert (answer.bound, answer.limiter) == ("unknown", "unmeasured")
    assert isinstance(answer.roof_share, NotMeasured)
    assert isinstance(answer.headroom, NotMeasured)
    assert severity(saving(10_000, 1, answer.headroom), 20_000) == "unknown"


def test_a_share_over_the_whole_is_kept_and_named() -> None:
    measured = figures(launch(l2_hit=1.00355))
    assert measured.shares["l2_hit_share"] == 1.00355
    assert measured.unreliable == (
        "L2 hit rate reads 100.4 %, over 100 %: on a kernel this short the replay passes do not add up",
    )


def test_severity_is_time_share_times_headroom() -> None:
    times = (500_000, 100_000, 20_000, 5_000)
    assert [severity(saving(time, 1, 0.5), 1_000_000) for time in times] == ["high", "medium", "low", "none"]
    assert severity(saving(1_000_000, 1, 0.0), 1_000_000) == "none"


def test_no_kernel_becomes_shorter_than_starting_one_takes() -> None:
    assert saving(30_000, 10, 0.99) == 30_000 - 10 * FLOOR_NS
    assert saving(1_000, 1, 0.99) == 0
    assert isinstance(saving(0, 1, 0.5), NotMeasured)


def test_without_pipelines_none_is_named() -> None:
    answer = verdict(launch(sm=0.8, dram=0.3))
    assert (answer.bound, answer.limiter) == ("compute", "sm")


def test_launches_of_one_shape_but_other_size_are_other_kernels() -> None:
    by_size = kernels([made(time=t, order=order) for order, t in enumerate((25_000, 68_000, 26_000))])
    assert [(len(kernel.launches), kernel.duration_ns) for kernel in by_size] == [(1, 68_000), (2, 51_000)]


def test_averages_are_weighted_by_time() -> None:
    (kernel,) = kernels([made(time=10_000, sm=0.1), made(time=14_000, sm=0.5, order=1)])
    spread = kernel.spread("sm_share")
    assert not isinstance(spread, NotMeasured)
    assert spread.mean == pytest.approx((0.1 * 10 + 0.5 * 14) / 24)
    assert (spread.least, spread.most) == (0.1, 0.5)


def test_nvidias_rules_are_passed_on_as_nvidias() -> None:
    rules = tuple(Advice(f"rule {number}", "", "", number / 10, "global") for number in range(1, 6))
    assert judged(launch(sm=0.9, advice=rules)).advice[1:] == (
        "NVIDIA: rule 5 (estimate: 50.0 % of the kernel's time)",
        "NVIDIA: rule 4 (estimate: 40.0 % of the kernel's time)",
        "NVIDIA: rule 3 (estimate: 30.0 % of the kernel's time)",
    )


NUMBERS = st.dictionaries(st.sampled_from(sorted(NAMES)), st.floats(0, 3, allow_nan=False), max_size=len(NAMES))


@given(NUMBERS)
def test_any_figures_give_a_verdict_with_reasons_and_advice(numbers: dict[str, float]) -> None:
    answer = judged(launch(**numbers))  # type: ignore[arg-type]
    assert answer.verdict.bound in ("memory", "compute", "latency", "unknown")
    assert answer.verdict.because
    assert answer.advice[0] == (ADVICE[answer.verdict.limiter] if answer.verdict.wasted is None else COALESCE)
    if not isinstance(answer.verdict.headroom, NotMeasured):
        assert 0 <= answer.verdict.headroom <= 1


def test_every_unit_has_advice() -> None:
    assert set(UNITS) <= set(ADVICE)


def test_the_layers_gemms_are_not_called_low_bandwidth(layer: KernelReport) -> None:
    gemms = [gemm for gemm in layer.launches if gemm.name.startswith("nvjet")]
    assert len(gemms) == 4
    for gemm in gemms:
        answer = verdict(gemm)
        assert (answer.bound, answer.limiter) == ("compute", "tensor")
        rate = figures(gemm).dram_bytes_per_s
        assert not isinstance(rate, NotMeasured)
        assert 1.5e12 < rate < 1.7e12  # TB/s, not GB/s


def test_the_layers_small_kernels_are_bound_by_latency_with_the_reason(layer: KernelReport) -> None:
    small = [kernel for kernel in layer.launches if kernel.metrics["gpu__time_duration.sum"] < 10_000]
    assert len(small) == 6
    for kernel in small:
        answer = verdict(kernel)
        assert answer.bound == "latency"
        assert answer.limiter in ("too few blocks", "tail")


def test_our_line_between_latency_and_throughput_is_nvidias(layer: KernelReport) -> None:
    """NVIDIA's rule SOLBottleneck says of each launch what kind it is; an oracle that we did not write."""
    for profiled in layer.launches:
        (title,) = {rule.title for rule in profiled.advice if rule.rule == "SOLBottleneck"}
        slow = title in ("Small Grid", "Latency Issue")
        assert (verdict(profiled).bound == "latency") == slow, (profiled.order, title)


def test_headroom_is_measured_to_what_can_be_reached() -> None:
    assert verdict(launch(sm=REACHABLE / 2, dram=0.1)).headroom == pytest.approx(0.5)

"""GPU utilization from samples: levels that were planted are found, and what cannot be known is not claimed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple, replace

from gpuledger.analyse.utilization import samples
from gpuledger.analyse.utilization.kernel_use import ALONE, LAUNCH_NS, UseFigure, UseOfKernels, use_of_kernels
from gpuledger.analyse.utilization.samples import ColumnSpans, GpuSamples, gpu_samples, sample_shares
from gpuledger.analyse.utilization.stretches import mean_use, use_of_stretches
from gpuledger.catalog.gpu_metrics import GpuMetric, gpu_metric
from gpuledger.read import open_trace
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.trace.spans import Span, one_span
from gpuledger.trace.tables import EVENTS, Table
from support.traces.sampled_traces import PERIOD_NS, SM_ACTIVE, TENSOR, Ran, in_turn, sampled, with_samples


def use_of(trace: Trace) -> UseOfKernels:
    use = use_of_kernels(trace, 0)
    assert not isinstance(use, NotMeasured), use
    return use


def figures(trace: Trace, metric: GpuMetric = GpuMetric.SM_ACTIVE) -> dict[str, UseFigure]:
    return {kernel.name: kernel.figures[metric] for kernel in use_of(trace).kernels}


def counted(level: float, length_ns: int, gap_ns: int = 0) -> float:
    """A level as Nsight Compute would tell it."""
    return level * length_ns / (length_ns + LAUNCH_NS * (1 if gap_ns < 3_000 else ALONE))


def test_planted_levels_are_found() -> None:
    launches = in_turn(["gemm", "copy"], [131_000, 23_000], 200)
    trace = sampled(launches, {SM_ACTIVE: {"gemm": 90, "copy": 60}, TENSOR: {"gemm": 75, "copy": 0}})
    active, tensor = figures(trace), figures(trace, GpuMetric.TENSOR)
    for found, level, length in (
        (active["gemm"], 90, 131_000),
        (active["copy"], 60, 23_000),
        (tensor["gemm"], 75, 131_000),
        (tensor["copy"], 0, 23_000),
    ):
        assert found.percent == pytest.approx(counted(level, length), abs=1)
        assert found.low <= counted(level, length) <= found.high
    [gemm, copy] = use_of(trace).kernels
    assert (gemm.launches, gemm.time_ns, copy.grid) == (200, 200 * 131_000, (1024, 1, 1))
    assert GpuMetric.DRAM_READ not in gemm.figures  # was not sampled, so is not told


def test_nine_of_ten_intervals_hold_what_was_planted() -> None:
    """Kernels from two microseconds up, of any level, in programs of any gap."""
    chance, held, short = np.random.default_rng(3), list[bool](), list[bool]()
    for _ in range(25):
        count = int(chance.integers(2, 6))
        names = [f"k{number}" for number in range(count)]
        lengths = np.exp(chance.uniform(np.log(2_000), np.log(150_000), count)).astype(int).tolist()
        levels = dict(zip(names, chance.uniform(0, 100, count).tolist(), strict=True))
        rounds = 6_000_000 // sum(lengths) + 40
        gap_ns = int(chance.integers(500, 9_000))
        launches = in_turn(names, lengths, rounds, gap_ns)
        found = figures(sampled(launches, {SM_ACTIVE: levels}))
        for name, length in zip(names, lengths, strict=True):
            held.append(found[name].low <= counted(levels[name], length, gap_ns) <= found[name].high)
            short.append(length < 5_000)
    assert np.mean(held) >= 0.9
    assert np.mean(np.array(held)[short]) >= 0.9
    assert sum(short) > 5


def test_a_kernel_that_never_runs_without_its_neighbour_is_not_told_from_it() -> None:
    launches = in_turn(["a", "b"], [4_000, 4_000], 3_000, gap_ns=1_000)  # five pairs in each period, always the same
    found = figures(sampled(launches, {SM_ACTIVE: {"a": 80, "b": 20}}))
    assert found["a"].low <= counted(80, 4_000) <= found["a"].high
    assert found["b"].low <= counted(20, 4_000) <= found["b"].high
    assert min(each.high - each.low for each in found.values()) > 30


def test_a_launch_that_begins_slowly_has_the_mean_of_its_phases() -> None:
    """Twelve microseconds of nothing, then everything: the samples inside weigh no more than those at the edge."""
    launches = in_turn(["gemm", "other"], [120_000, 31_000], 300)
    halves = [
        part
        for ran in launches
        for part in (
            (Ran(ran.start_ns, ran.start_ns + 12_000, "slow"), Ran(ran.start_ns + 12_000, ran.end_ns, "fast"))
            if ran.name == "gemm"
            else (ran,)
        )
    ]
    levels = {SM_ACTIVE: {"slow": 0, "fast": 100, "other": 50}, TENSOR: {"slow": 70, "fast": 70, "other": 5}}
    rows = sampled(halves, levels)["metrics"]
    told = zip(rows["start_ns"].tolist(), rows.texts("name"), rows["value"].tolist(), strict=True)
    mixed = with_samples(launches, list(told))  # type: ignore[arg-type]
    found = figures(mixed)["gemm"]
    assert found.percent == pytest.approx(counted(90, 120_000), abs=3)
    assert found.low <= counted(90, 120_000) <= found.high


def test_short_kernels_that_begin_slowly_keep_what_is_theirs() -> None:
    """What a kernel of a CUDA graph uses in its last microseconds is not its next neighbour's, always the same one."""
    launches = in_turn(["joint", "norm", "out", "long"], [9_000, 2_500, 6_000, 21_000], 900, gap_ns=100)
    quiet = {"joint": 4_000, "out": 3_000}
    halves = [
        part
        for ran in launches
        for begins in [ran.start_ns + quiet.get(ran.name, 0)]
        for part in (Ran(ran.start_ns, begins, "quiet"), Ran(begins, ran.end_ns, ran.name))
        if part.end_ns > part.start_ns
    ]
    rows = sampled(halves, {SM_ACTIVE: {"joint": 90, "norm": 0, "out": 60, "long": 70}})["metrics"]
    told = zip(rows["start_ns"].tolist(), rows.texts("name"), rows["value"].tolist(), strict=True)
    found = figures(with_samples(launches, list(told)))  # type: ignore[arg-type]
    assert found["joint"].percent == pytest.approx(counted(50, 9_000), abs=3)
    assert found["out"].percent == pytest.approx(counted(30, 6_000), abs=4)
    assert found["long"].percent == pytest.approx(counted(70, 21_000), abs=2)


@pytest.mark.parametrize("lag_ns", [0, 20_000, 50_000, 80_000, 120_000])
def test_the_lag_of_a_file_is_found(lag_ns: int) -> None:
    launches = in_turn(["gemm", "copy", "tail"], [131_000, 23_000, 44_000], 150)
    trace = sampled(launches, {SM_ACTIVE: {"gemm": 90, "copy": 30, "tail": 60}}, lag_ns=lag_ns)
    assert use_of(trace).lag_ns == pytest.approx(lag_ns, abs=2_500)


def test_one_block_uses_one_multiprocessor() -> None:
    launches = [
        replace(ran, blocks=1 if ran.name == "tiny" else 1024) for ran in in_turn(["tiny", "b"], [3000] * 2, 300)
    ]
    found = figures(sampled(launches, {SM_ACTIVE: {"tiny": 0.7, "b": 50}}))
    assert found["tiny"].high <= 100 / 132


def test_thousands_of_launch_shapes_share_what_cannot_be_told_of_each() -> None:
    """Every launch has another grid: the fit has as many unknowns as it has columns, not as there are launches."""
    launches = [Ran(at * 20_000, at * 20_000 + 15_000, "rare", blocks=1_000 + at) for at in range(3_000)]
    use = use_of_kernels(sampled(launches, {SM_ACTIVE: {"rare": 60.0}}), 0)
    assert not isinstance(use, NotMeasured)
    assert len(use.kernels) == len({kernel.grid for kernel in use.kernels}) == 3_000
    levels = [kernel.figures[GpuMetric.SM_ACTIVE] for kernel in use.kernels]
    assert sum(level.low <= 60 <= level.high for level in levels) >= 2_700


def test_the_order_of_rows_and_rows_told_twice_change_nothing() -> None:
    launches = in_turn(["a", "b"], [70_000, 21_000], 100)
    trace = sampled(launches, {SM_ACTIVE: {"a": 90, "b": 30}, TENSOR: {"a": 50}})
    rows = trace["metrics"]
    told = list(zip(rows["start_ns"].tolist(), rows.texts("name"), rows["value"].tolist(), strict=True))
    shuffled = [told[place] for place in np.random.default_rng(0).permutation(len(told))]
    again = with_samples(launches, [*shuffled, *shuffled[:50]])
    for ours, theirs in zip(astuple(use_of(again)), astuple(use_of(trace)), strict=True):
        np.testing.assert_equal(ours, theirs)


def test_values_that_are_no_measurement_are_left_out() -> None:
    launches = in_turn(["a", "b"], [70_000, 21_000], 100)
    trace = sampled(launches, {SM_ACTIVE: {"a": 90, "b": 30}})
    rows = trace["metrics"]
    told = list(zip(rows["start_ns"].tolist(), rows.texts("name"), rows["value"].tolist(), strict=True))
    told[10:12] = [
        (stamp, name, value) for (stamp, name, _), value in zip(told[10:12], (-8_388_608, 2**60), strict=True)
    ]
    again = with_samples(launches, told)  # type: ignore[arg-type]
    assert figures(again)["a"].percent == pytest.approx(figures(trace)["a"].percent, abs=0.2)


@pytest.mark.parametrize("value", [1_000, 3_159_572, -5])
def test_percent_beyond_a_hundred_are_no_measurement(value: int) -> None:
    launches = in_turn(["a"], [70_000], 100)
    rows = sampled(launches, {SM_ACTIVE: {"a": 90}})["metrics"]
    told = [(stamp, SM_ACTIVE, value) for stamp in rows["start_ns"].tolist()]
    assert use_of_kernels(with_samples(launches, told), 0) == NotMeasured(
        "no sample of GPU 0 holds a value that can be"
    )


def test_work_that_was_not_traced_is_not_booked_to_idle() -> None:
    launches = in_turn(["a"], [70_000], 200)
    trace = sampled(launches, {SM_ACTIVE: {"a": 50}})
    rows = trace["metrics"]
    told = list(zip(rows["start_ns"].tolist(), rows.texts("name"), rows["value"].tolist(), strict=True))
    last = told[-1][0]
    told += [(last + PERIOD_NS * more, SM_ACTIVE, 100) for more in range(1, 400)]
    use = use_of(with_samples(launches, told))  # type: ignore[arg-type]
    assert use.idle[GpuMetric.SM_ACTIVE] < 10


def test_no_samples_are_not_zero() -> None:
    launches = in_turn(["a"], [70_000], 3)
    trace = with_samples(launches, [])
    assert isinstance(use_of_kernels(trace, 0), NotMeasured)
    few = sampled(launches, {SM_ACTIVE: {"a": 50}})
    assert use_of_kernels(few, 0) == NotMeasured("GPU 0 was sampled 4 times while its kernels ran")
    assert use_of_kernels(few, 1) == NotMeasured("no known counter of GPU 1 was sampled")


def test_of_a_long_capture_some_stretches_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    launches = in_turn(["a", "b", "c"], [70_000, 21_000, 33_000], 400)
    rare = [replace(ran, name="rare") if number in (31, 901) else ran for number, ran in enumerate(launches)]
    trace = sampled(rare, {SM_ACTIVE: {"a": 90, "b": 30, "c": 60, "rare": 10}})
    whole = use_of(trace)
    monkeypatch.setattr(samples, "MOST_SAMPLES", 300)
    some = use_of(trace)
    assert some.samples < whole.samples / 2
    for kernel, other in zip(whole.kernels, some.kernels, strict=True):
        assert other.figures[GpuMetric.SM_ACTIVE].percent == pytest.approx(
            kernel.figures[GpuMetric.SM_ACTIVE].percent, abs=2
        )


@given(st.lists(st.tuples(st.integers(0, 900), st.integers(1, 300), st.integers(0, 3)), min_size=1, max_size=20))
def test_shares_are_those_of_a_dense_matrix(spans: list[tuple[int, int, int]]) -> None:
    parts = [(np.array([start]), np.array([start + length]), np.array([column])) for start, length, column in spans]
    shares = sample_shares(np.arange(0, 1500, 100), 100, 100, ColumnSpans.by_start(parts, 4))
    dense = np.zeros((len(shares.used), 5))
    np.add.at(dense, (shares.sample, shares.column), shares.share)
    for row, sample in enumerate(shares.used.tolist()):
        for column in range(4):
            inside = [
                max(min(start + length, 100 * sample + 100) - max(start, 100 * sample), 0)
                for start, length, which in spans
                if which == column
            ]
            assert dense[row, column] == pytest.approx(sum(inside) / 100)
    assert np.allclose(shares.squared(), dense.T @ dense)
    assert (dense[:, :4].sum(1) + dense[:, 4] >= 0.999).all()  # a sample is all of what ran, and nothing


@given(st.lists(st.integers(0, 100), min_size=3, max_size=30), st.integers(0, 3000), st.integers(1, 2000))
def test_the_mean_over_parts_is_that_over_the_whole(values: list[int], start: int, length: int) -> None:
    stamps = np.arange(len(values), dtype=np.int64) * 100
    samples = GpuSamples(0, stamps, 100, {GpuMetric.TENSOR: np.array(values)})
    end = start + length
    cuts = np.linspace(start, end, 5).astype(np.int64)
    whole = mean_use(samples, 100, np.array([start]), np.array([end]))[GpuMetric.TENSOR][0]
    parts = mean_use(samples, 100, cuts[:-1], cuts[1:])[GpuMetric.TENSOR]
    seen = [max(min(int(b), 100 * len(values)) - min(int(a), 100 * len(values)), 0) for a, b in pairwise(cuts)]
    if sum(seen):
        known = [(mean, time) for mean, time in zip(parts, seen, strict=True) if time]
        assert whole == pytest.approx(sum(mean * time for mean, time in known) / sum(seen), abs=1e-6)
    else:
        assert np.isnan(whole)


def test_a_window_has_its_means_and_clock() -> None:
    launches = in_turn(["a"], [90_000], 200, gap_ns=10_000)
    trace = sampled(launches, {SM_ACTIVE: {"a": 80}, "GPC Clock Frequency [MHz]": {"a": 1_600_000_000}})
    stretches = use_of_stretches(trace, use_of(trace), one_span(Span(10_000, 20_000_000)))
    assert not isinstance(stretches, NotMeasured)
    assert stretches.window[GpuMetric.SM_ACTIVE] == pytest.approx(72, abs=1)
    assert stretches.busy[GpuMetric.SM_ACTIVE] == pytest.approx(74, abs=2)  # a sample is not cut in two
    assert stretches.clock is not None
    assert stretches.clock.highest_hz == 1_980_000_000
    assert 1.4e9 < stretches.clock.mean_hz <= 1.6e9


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("SMs Active [Throughput %]", GpuMetric.SM_ACTIVE),
        ("SM Active", GpuMetric.SM_ACTIVE),
        ("Tensor Active / FP16 Active [Throughput %]", GpuMetric.TENSOR),
        ("Compute Warps in Flight [Throughput %]", GpuMetric.WARPS),
        ("Compute Warps in Flight [Avg]", None),
        ("DRAM Read Bandwidth [Throughput %]", GpuMetric.DRAM_READ),
        ("GPU Active [Throughput %]", GpuMetric.GPU_ACTIVE),
        ("GPC Clock Frequency [MHz]", GpuMetric.SM_CLOCK),
        ("Async Copy Engine Active 0 [Throughput %]", None),
        ("metric 17", None),
        ("", None),
        ("[[", None),
    ],
)
def test_counters_are_known_by_name_in_any_generation(name: str, metric: GpuMetric | None) -> None:
    assert gpu_metric(name) is metric


def test_a_capture_is_read_by_place_as_row_by_row(unpacked: Callable[[str], Path]) -> None:
    trace = open_trace(unpacked("metrics_llama.sqlite"), only=(*EVENTS, Table.METRICS))
    samples = gpu_samples(trace, 0)
    assert not isinstance(samples, NotMeasured)
    rows = trace["metrics"]
    code = trace.strings.code("Tensor Active [Throughput %]")
    assert samples.values[GpuMetric.TENSOR].tolist() == rows["value"][rows["name"] == code].tolist()
    assert samples.period_ns == pytest.approx(50_000, abs=50)

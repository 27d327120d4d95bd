"""The definitions of a comparison at their bounds: the last value that is one thing, and the first that is another.

Numbers stand here as documents tell them, never as the constants of the source.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from gpuledger.analyse.diff.compare import (
    BusyPart,
    StepPart,
    busy_changes,
    changes,
    compare,
    launch_split,
    phase_changes,
    round_to_sum,
    use_changes,
)
from gpuledger.analyse.diff.from_tables import side_of_tables
from gpuledger.analyse.diff.from_trace import side_of
from gpuledger.analyse.diff.noise import (
    Controls,
    Interval,
    autocorrelation,
    controls,
    host_idle_ns,
    mean_interval,
    median_interval,
    student,
    verdict,
)
from gpuledger.analyse.diff.pairs import RangePair, pair_kernels, pair_ranges, remarks, unlike
from gpuledger.analyse.diff.run_side import (
    KERNEL_TIME,
    STEP,
    WINDOW,
    Call,
    Copied,
    RunRange,
    RunSide,
    RunUse,
    StepLaunches,
    pool_runs,
)
from gpuledger.analyse.utilization.kernel_use import UseFigure
from gpuledger.catalog.calls import CallKind
from gpuledger.ledger.books import Line
from gpuledger.ledger.device import analyse_devices
from gpuledger.selection import Selection
from gpuledger.trace.measured import PrintedTable, PrintedTables, SummaryRow
from gpuledger.trace.model import NotMeasured
from support.traces.diff_sides import kernel, side
from support.traces.trace_notation import trace

# How sure a difference is


@pytest.mark.parametrize(("freedom", "near"), [(5, 3e-4), (10, 1e-5), (30, 1e-7)])
def test_students_quantile_is_that_of_the_distribution(freedom: int, near: float) -> None:
    """Integrated step by step."""
    quantile = {5: 3.0028749738, 10: 2.5274842440, 30: 2.2782623269}[freedom]
    assert student(freedom) == pytest.approx(quantile, rel=near)


def test_students_quantile_is_exact_for_one_and_two_degrees() -> None:
    assert student(0.5) == student(1) == pytest.approx(math.tan(math.pi * 0.485), rel=1e-9)
    assert student(1.5) == student(2) == pytest.approx(5.64276, abs=1e-4)


@pytest.mark.parametrize(("delta", "expected"), [(4, "no change"), (5, "slower"), (-4, "no change"), (-5, "faster")])
def test_a_sure_change_is_one_from_half_a_per_cent_on(delta: int, expected: str) -> None:
    assert verdict(1_000, delta, Interval(delta - 0.5, delta + 0.5)) == expected


@pytest.mark.parametrize(("delta", "expected"), [(49, "no change"), (50, "slower"), (-50, "faster")])
def test_without_an_interval_a_change_is_one_from_5_per_cent_on(delta: int, expected: str) -> None:
    assert verdict(1_000, delta, NotMeasured("two steps")) == expected


@pytest.mark.parametrize(("low", "high"), [(0, 90), (-90, 0), (-1, 90)])
def test_an_interval_that_touches_zero_is_no_change(low: float, high: float) -> None:
    assert verdict(1_000, 50, Interval(low, high)) == "no change"


def test_three_steps_a_side_have_an_interval_and_two_have_none() -> None:
    two, three = np.array([10, 12]), np.array([10, 12, 14])
    assert isinstance(median_interval([three], [three]), Interval)
    for sides in (([two], [three]), ([three], [two])):
        assert isinstance(found := median_interval(*sides), NotMeasured)
        assert str(found.reason) == "only 2 steps on one side; an interval needs 3"
    assert isinstance(mean_interval([1, 2, 3], [1, 2, 3]), Interval)
    assert isinstance(mean_interval([1, 2, 3], [1, 2]), NotMeasured)


def test_the_interval_of_means_is_welchs() -> None:
    """Variances 1 and 4, each over 3 steps: 5/3 together, with 2 * 25/17 degrees of freedom."""
    found = mean_interval([1, 2, 3], [10, 12, 14])
    assert isinstance(found, Interval)
    reach = student(2 * (5 / 3) ** 2 / ((1 / 3) ** 2 + (4 / 3) ** 2)) * math.sqrt(5 / 3)
    assert [found.low_ns, found.high_ns, found.follows] == [pytest.approx(10 - reach), pytest.approx(10 + reach), 0]


def test_a_drift_follows_itself_and_three_steps_tell_nothing() -> None:
    ramp = np.arange(6.0)
    away = ramp - ramp.mean()  # nothing is further out than 3 * 1.4826 times the median distance
    plain = float((away[1:] * away[:-1]).sum() / (away**2).sum())
    assert autocorrelation(ramp) == pytest.approx(plain + (1 + 3 * plain) / 6)
    assert autocorrelation(np.arange(3.0)) == autocorrelation(np.ones(9)) == 0
    assert autocorrelation(np.arange(200.0)) == 0.95  # no more than that, however alike
    assert autocorrelation(np.tile([0.0, 1.0], 10)) == 0  # steps that alternate do not follow


def test_what_runs_differ_by_beyond_their_steps_is_told_and_divided_by_their_number() -> None:
    """Steps without noise in three runs of 100, 110 and 120: a standard deviation of 10."""
    runs = [np.full(4, length) for length in (100, 110, 120)]
    found = median_interval(runs, runs)
    assert isinstance(found, Interval)
    medians_vary = found.runs_ns  # less what resampled steps of all runs together vary by
    assert 5 <= medians_vary <= 10
    assert found.low_ns == -found.high_ns < -5


# Controls


def held(name: str, host_ns: int, instances: int = 4, **more: Any) -> RunRange:
    known = RunRange(name, instances, host_ns, 0, 0, (), {"launch": instances}, {"k": instances})
    return replace(known, **more)


TABLES: Any = {"gpu_ns": None, "wait_ns": None, "calls": None, "work": None}
"""What tables do not tell of a range."""


def controlled(before: Sequence[RunRange], after: Sequence[RunRange], whole: str = STEP) -> Controls | NotMeasured:
    old, new = (replace(side([1_000] * 4, ranges=list(ranges)), whole=whole) for ranges in (before, after))
    return controls(old, new, pair_ranges(before, after, 4, 4), 200)


@pytest.mark.parametrize(("wait_ns", "is_control"), [(2_000, True), (2_001, False)])
def test_a_range_that_waits_for_half_of_the_time_is_a_control(wait_ns: int, is_control: bool) -> None:
    before, after = (held("a", host_ns, wait_ns=wait_ns) for host_ns in (4_000, 5_000))
    found = controlled([before, held("x", 1)], [after, held("y", 1)])
    assert isinstance(found, Controls) == is_control


@pytest.mark.parametrize(("second", "is_control"), [(10_490, True), (10_510, False)])
def test_ranges_of_tables_are_controls_if_their_changes_are_5_points_apart(second: int, is_control: bool) -> None:
    before = [held("a", 10_000, **TABLES), held("b", 10_000, **TABLES), held("gone", 5, **TABLES)]
    after = [held("a", 10_000, **TABLES), held("b", second, **TABLES), held("new", 5, **TABLES), held("z", 5, **TABLES)]
    assert isinstance(controlled(before, after, KERNEL_TIME), Controls) == is_control


def test_one_range_of_a_table_is_no_control() -> None:
    alone = [held("a", 10, **TABLES), held("x", 5, **TABLES), held("y", 5, **TABLES)]
    assert isinstance(controlled(alone, [held("a", 10, **TABLES), held("z", 5, **TABLES)], KERNEL_TIME), NotMeasured)


def test_a_controls_time_is_that_of_as_many_instances_as_before_and_not_counted_inside_another() -> None:
    before = [held("outer", 4_000), held("inner", 1_000, inside=("outer",)), held("x", 1)]
    after = [held("outer", 6_000, 6), held("inner", 3_000, 6, inside=("outer",)), held("y", 1)]
    old, new = (side([1_000] * steps, ranges=ranges) for steps, ranges in ((4, before), (6, after)))
    found = controls(old, new, pair_ranges(before, after, 4, 6), 200)
    assert isinstance(found, Controls)
    assert (found.names, found.before_ns, found.after_ns, found.ratio, found.known) == (
        ("outer",),
        1_000,
        1_000,
        1,
        True,
    )
    assert found.corrected_delta_ns == 200
    assert not found.corrects(RangePair("new", None, held("y", 1)))


def test_the_hosts_idle_time_is_what_it_was_slow_at() -> None:
    lines = {"idle.sync": [40, 80], "idle.tail": [70, 90], "idle.launch": [10, 20], "comm": [5, 5]}
    assert host_idle_ns(side([1_000, 1_000], lines=lines)) == 1_000 - 80 - 5


# What is the same on both sides


@pytest.mark.parametrize(("calls", "level"), [(8, "family"), (9, "new")])
def test_kernels_of_one_family_are_the_same_if_one_comes_twice_as_often(calls: int, level: str) -> None:
    pairs = pair_kernels([kernel("ampere_sgemm_64x32_tn", 4)], [kernel("nvjet_sm90_tst_64x8_v", calls)])
    assert pairs[0].level == level
    twice_the_steps = pair_kernels([kernel("ampere_sgemm_64x32_tn", 4)], [kernel("nvjet_sm90_tst_64x8_v", calls)], 1, 2)
    assert twice_the_steps[0].level == "family"


@pytest.mark.parametrize(("calls", "same"), [(98, True), (97, False), (100, True)])
def test_a_range_is_unchanged_if_its_calls_differ_by_2_per_cent(calls: int, same: bool) -> None:
    before, after = (held("a", 9, calls={"launch": count}, work=None) for count in (400, 4 * calls))
    [pair] = pair_ranges([before], [after], 4, 4)
    assert pair.unchanged == same


@pytest.mark.parametrize(("instances", "same"), [(98, True), (97, False)])
def test_a_range_is_unchanged_if_it_comes_as_often(instances: int, same: bool) -> None:
    known: Any = {"calls": {}, "work": {}}
    assert pair_ranges([held("a", 9, 100, **known)], [held("a", 9, instances, **known)], 4, 4)[0].unchanged == same


def test_the_only_outermost_ranges_left_are_one_that_was_renamed() -> None:
    before = [held("loop", 9), held("part", 4, inside=("loop",))]
    assert [pair.level for pair in pair_ranges(before, [held("batched", 9)], 4, 4)] == ["renamed", "vanished"]
    both = pair_ranges([held("a", 9), held("b", 9)], [held("c", 9)], 4, 4)
    assert [pair.level for pair in both] == ["new", "vanished", "vanished"]


@pytest.mark.parametrize(("shared_ns", "refused"), [(200, False), (199, True)])
def test_sides_of_which_a_fifth_is_shared_are_of_one_program(shared_ns: int, refused: bool) -> None:
    before, after = (
        side([1_000], [kernel("k", 1, shared_ns), kernel(name, 1, 1_000 - shared_ns)]) for name in ("relu_a", "sort_b")
    )
    pairs = pair_kernels(before.kernels, after.kernels)
    assert bool(unlike(before, after, pairs)) == refused


@pytest.mark.parametrize(
    ("before", "after", "marked"),
    [("a b", "a b", True), ("a", "a", False), ("a b c d", "a b x y", True), ("a b c d e", "a b x y z", False)],
)
def test_two_ranges_and_half_of_all_in_common_mark_one_program(before: str, after: str, marked: bool) -> None:
    sides = [
        side([100], [kernel(name)], ranges=[held(part, 9) for part in ranges.split()])
        for name, ranges in (("relu_a", before), ("sort_b", after))
    ]
    reasons = unlike(sides[0], sides[1], pair_kernels(sides[0].kernels, sides[1].kernels))
    assert (not reasons) == marked


def test_why_sides_should_not_be_compared() -> None:
    plain = side([100] * 4, [kernel("k", 4)])
    pairs = pair_kernels(plain.kernels, plain.kernels)
    other = {
        "has steps (a test), side has none": replace(plain, whole=WINDOW),
        "they used 1 GPU and 2 GPUs": replace(plain, gpus={0: 1, 1: 1}),
        "their jobs have 2 and 4 ranks": replace(plain, ranks=4),
    }
    assert unlike(plain, plain, pairs) == []
    for reason, after in other.items():
        [said] = unlike(replace(plain, ranks=2), after, pairs)
        assert said.endswith(reason)


def test_what_a_reader_of_a_comparison_should_know() -> None:
    plain = replace(side([100] * 4, [kernel("k", 4)]), clock_hz=1_980_000_000, losses=("x",))
    other = replace(plain, source="b", tool="torch", clock_hz=1_500_000_000, gpu_name=None, ranks=2, run_steps=(2, 2))
    pairs = pair_kernels(plain.kernels, plain.kernels)
    assert list(map(str, remarks(plain, plain, pairs))) == ["Lost before: x.", "Lost after: x."]
    words = (
        "Steps are",
        "different profilers",
        "1980 and 1500 MHz",
        "GPU model",
        "several ranks",
        "before: x",
        "after: x",
    )
    said = remarks(plain, other, pairs)
    assert len(said) == len(words)
    assert all(word in sentence for word, sentence in zip(words, said, strict=True))


# The parts of a difference


@pytest.mark.parametrize(
    ("calls", "each_ns", "is_mix"),
    [(50, 200, False), (49, 300, True), (49, 150, False), (201, 40, True), (200, 40, False)],
)
def test_half_the_calls_of_kernels_twice_as_long_are_other_kernels(calls: int, each_ns: int, is_mix: bool) -> None:
    pairs = pair_kernels([kernel("gemm<1>", 100, 10_000)], [kernel("gemm<2>", calls, calls * each_ns)])
    [change] = changes(pairs, 1, 1)
    assert change.pair.level == "function"
    assert bool(change.by_mix_ns) == is_mix
    assert change.delta_ns == calls * each_ns - 10_000
    if not is_mix:
        assert change.by_calls_ns == (calls - 100) * (each_ns + 100) / 2
        assert change.by_time_ns == (each_ns - 100) * (calls + 100) / 2


def test_rounded_amounts_sum_to_what_they_should() -> None:
    assert round_to_sum([0.5, 0.5, 2.25], 3) == [1, 0, 2]
    assert round_to_sum([-0.5, 1.75], 1) == [-1, 2]
    assert round_to_sum([1.0, 2.0], 9) == [1, 8]  # beyond what rounding explains: the last one


def test_compute_by_what_it_was_good_for_sums_to_its_parts() -> None:
    before, after = (
        replace(side([1_000] * 2, [kernel("k", 2, ns)]), busy_ns=busy)
        for ns, busy in ((1_000, (600, 300, 80, 20)), (1_400, (900, 400, 80, 20)))
    )
    diff = compare(before, after)
    assert [(row.part, row.before_ns, row.after_ns, row.delta_ns) for row in diff.busy] == [
        (BusyPart.LIGHT, 300, 450, 150),
        (BusyPart.LOST, 150, 200, 50),
        (BusyPart.AVOIDABLE, 40, 40, 0),
        (BusyPart.UNKNOWN, 10, 10, 0),
    ]
    assert busy_changes(replace(before, busy_ns=None), after, diff.parts) == ()
    assert {part.name for part in diff.parts if part.ns} == {StepPart.PER_CALL, Line("idle.host_code")}


def test_launches_are_split_function_by_function() -> None:
    """Two launches of 10 ns become one graph of 12; another function is called as often and takes 3 ns longer."""

    def launched(*calls: Call) -> RunSide:
        return replace(side([1_000]), launches=StepLaunches((1,), calls))

    before = launched(Call("launch", CallKind.LAUNCH, 2, 20), Call("other", CallKind.LAUNCH, 4, 40))
    after = launched(Call("graph", CallKind.LAUNCH, 1, 12), Call("other", CallKind.LAUNCH, 4, 52))
    assert launch_split(before, after) == (12 - 20, 12)
    assert launch_split(replace(before, launches=None), after) is None


def test_phases_are_compared_where_both_sides_know_them() -> None:
    one, other = (replace(side([100, 100]), phases_ns=ns) for ns in ({"norm": 40, "idle": 10}, {"norm": 20, "mlp": 60}))
    rows = phase_changes(one, other)
    assert [(row.phase, row.before_ns, row.after_ns, row.delta_ns) for row in rows] == [
        ("mlp", 0, 30, 30),
        ("norm", 20, 10, -10),
        ("idle", 5, 0, -5),
    ]
    assert phase_changes(one, side([100])) == ()


def use(name: str, low: float, percent: float, high: float, time_ns: int = 10) -> RunUse:
    return RunUse(name, (1, 1, 1), (1, 1, 1), time_ns, {"tensor": UseFigure(percent, low, high)})


@pytest.mark.parametrize(("other", "is_told"), [((30, 40, 50), False), ((51, 60, 69), True), ((25, 61, 80), False)])
def test_use_that_surely_differs_is_told(other: tuple[float, float, float], is_told: bool) -> None:
    before, after = (replace(side([100]), use=(use("k", *known),)) for known in ((20, 30, 45), other))
    found = use_changes(before, after)
    assert found is not None
    assert [change.points for change in found] == ([other[1] - 30] if is_told else [])
    assert use_changes(side([100]), after) is None


# Runs together, and the ranges of tables


def test_runs_are_added_up_thing_by_thing() -> None:
    def run(length: int, **more: Any) -> RunSide:
        return replace(side([length], [kernel("k", 2, 50)], peak_bytes=length), **more)

    copies = (Copied("H2D", 1, 4, 10), Copied("D2D", 1, None, 1))
    first = run(100, copies=copies, busy_ns=(1, 2, 3, 4), busy_clock_hz=1e9, overlap_ns=3, use=(use("k", 0, 10, 20),))
    second = run(
        300,
        copies=(Copied("D2D", 2, 8, 2), Copied("H2D", 2, 6, 20)),
        busy_ns=(10, 20, 30, 40),
        busy_clock_hz=2e9,
        overlap_ns=4,
        use=(use("k", 30, 50, 60, 30),),
    )
    both = pool_runs([first, second], "both")
    assert (both.name, both.run_steps, both.length_ns, both.peak_bytes) == ("both", (1, 1), (100, 300), 300)
    assert [(one.calls, one.time_ns) for one in both.kernels] == [(4, 100)]
    assert both.copies == (Copied("H2D", 3, 10, 30), Copied("D2D", 3, None, 3))
    assert (both.busy_ns, both.busy_clock_hz, both.overlap_ns) == ((11, 22, 33, 44), 1.5e9, 7)
    assert both.use == (use("k", 22.5, 40, 50, 40),)
    assert both.launches is not None
    assert (both.launches.per_step, both.launches.calls, both.launches.time_ns) == ((10, 10), 20, 20_000)
    blind = pool_runs([first, replace(second, busy_ns=None, launches=None, use=(), calls=None)], "x")
    assert (blind.busy_ns, blind.launches, blind.use, blind.calls) == (None, None, (), None)


def test_ranges_of_one_name_are_added_up_and_what_one_run_does_not_know_is_not_known() -> None:
    one = held("a", 10, inside=("x",), gpu_ns=5, calls={"launch": 1, "sync": 2})
    other = held("a", 30, 6, inside=("y", "x"), gpu_ns=None, calls={"launch": 3})
    [added] = pool_runs([side([1], ranges=[one]), side([1], ranges=[other])], "x").ranges or ()
    assert added == RunRange("a", 10, 40, None, 0, ("x", "y"), {"launch": 4, "sync": 2}, {"k": 10})


def test_tables_become_a_side() -> None:
    """Names of one kind are one; a range that never ran is none; bytes and times may come apart."""
    rows = {
        "cuda_gpu_kern_sum": [("k", 2, 30), ("k", 1, 5), ("nccl", 1, 7)],
        "cuda_api_sum": [("cudaLaunchKernel_v7000", 3, 9), ("cudaFree", 1, 4)],
        "nvtx_sum": [(":a", 2, 8), ("a", 1, 2), ("never", 0, 0)],
        "cuda_gpu_mem_time_sum": [("H2D", 2, 6)],
    }
    tables = {name: PrintedTable(name, tuple(SummaryRow(*row) for row in listed)) for name, listed in rows.items()}
    run = side_of_tables(PrintedTables("x", tables), "x")
    assert [(one.name, one.calls, one.time_ns) for one in run.kernels] == [("k", 3, 35), ("nccl", 1, 7)]
    assert (run.whole, run.length_ns, run.median_ns, run.steps) == (KERNEL_TIME, (42,), 42, 1)
    assert run.launches is not None
    assert (run.launches.calls, run.launches.time_ns) == (3, 9)
    assert run.ranges == (RunRange("a", 3, 10),)
    assert run.copies == (Copied("H2D", 2, None, 6),)


# A side of a trace


def test_a_trace_becomes_a_side() -> None:
    """Two steps of 100 ns: a launch of two kernels each, a copy, and what the ranges hold."""
    lines = []
    for step in range(6):
        at = 1_000 * step
        lines += [
            f"ranges t0: {at}-{at + 900} step {step}; {at}-{at + 400} part",
            f"t0: {at + 10}-{at + 30} launch -> s7: {at + 100}-{at + 300} gemm",
            f"t0: {at + 40}-{at + 60} launch -> s7: {at + 350}-{at + 400} relu_kernel",
            f"t0: {at + 500}-{at + 520} cudaMemcpyAsync -> s7: {at + 600}-{at + 620} Host-to-Device bytes=64",
            f"t0: {at + 700}-{at + 800} sync",
        ]
    recorded = trace(*lines)
    devices = analyse_devices(recorded, "x", Selection(range_pattern="step"))
    run = side_of(recorded, devices, devices[0], "x")
    steps = run.steps
    assert run.whole == STEP
    assert run.launches is not None
    assert (set(run.launches.per_step), run.launches.time_ns) == ({2}, 40 * steps)
    assert {one.name: (one.calls, one.time_ns) for one in run.kernels} == {
        "gemm": (steps, 200 * steps),
        "relu_kernel": (steps, 50 * steps),
    }
    assert run.kernel_steps == {"gemm": (200,) * steps, "relu_kernel": (50,) * steps}
    assert run.copies == (Copied("Host-to-Device", steps, 64 * steps, 20 * steps),)
    part = next(held for held in run.ranges or () if held.name == "part")
    assert (part.host_ns, part.gpu_ns, part.wait_ns, part.instances) == (400 * steps, 250 * steps, 0, steps)
    assert part.work == {"gemm": steps, "relu_kernel": steps}
    whole = next(held for held in run.ranges or () if held.name.startswith("step"))
    assert (whole.wait_ns, run.range_steps["part"]) == (100 * steps, (400,) * steps)
    assert {call.name: call.calls for call in run.calls or ()}["cudaMemcpyAsync"] == steps
    assert [sum(row) for row in run.books_ns] == list(run.length_ns)

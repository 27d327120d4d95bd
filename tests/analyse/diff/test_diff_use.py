"""GPU utilization before and after: only what lies outside both intervals, of the same kernels, is a change."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuledger import Trace
from gpuledger.analyse.diff.baseline import baseline_content, read_baseline
from gpuledger.analyse.diff.compare import use_changes
from gpuledger.analyse.diff.from_trace import side_of
from gpuledger.analyse.diff.run_side import RunSide, RunUse, pool_runs
from gpuledger.analyse.utilization.kernel_use import UseFigure
from gpuledger.ledger.device import analyse_devices
from gpuledger.selection import Selection
from support.traces.diff_sides import kernel, side
from support.traces.sampled_traces import SM_ACTIVE, TENSOR, in_turn, sampled

SHAPE = (1, 1, 1)


def used(percent: float, width: float = 4.0, *, name: str = "gemm") -> RunUse:
    """A kernel with so much of the tensor cores, known to so many points."""
    figure = UseFigure(percent, percent - width / 2, percent + width / 2)
    return RunUse(name, SHAPE, SHAPE, 100, {"tensor": figure})


def with_use(*kernels: RunUse, clock_hz: float | None = None) -> RunSide:
    return replace(side([100] * 8, [kernel("gemm", 8, 800)]), use=kernels, busy_clock_hz=clock_hz)


def changed(before: RunSide, after: RunSide) -> list[float]:
    return [round(change.points) for change in use_changes(before, after) or ()]


def test_kernels_that_share_a_name_are_not_compared() -> None:
    """Two lambdas whose namespaces were left out: which is which nobody knows."""
    twice = with_use(used(50), used(90))
    assert changed(twice, twice) == []
    qualified = with_use(used(70, name="at::native::gemm"))
    assert changed(with_use(used(50)), qualified) == [20]  # by the name without its namespaces


@given(st.floats(0, 100), st.floats(0, 100), st.floats(0, 50), st.floats(0, 50))
def test_swapping_the_sides_turns_the_change_around(one: float, other: float, width: float, second: float) -> None:
    before, after = with_use(used(one, width)), with_use(used(other, second))
    forth, back = (use_changes(*sides) or () for sides in ((before, after), (after, before)))
    assert [change.points for change in forth] == [-change.points for change in back]


def test_runs_of_one_side_are_taken_together_and_baselines_keep_it() -> None:
    both = pool_runs([with_use(used(50), clock_hz=1.5e9), with_use(used(54), clock_hz=1.7e9)], "both")
    assert both.use[0].figures["tensor"] == UseFigure(52, 50, 54)
    assert both.busy_clock_hz == 1.6e9
    again = read_baseline(baseline_content(both), "both")
    assert again.use == both.use


def test_a_trace_with_samples_brings_its_use() -> None:
    def side_from(level: float) -> RunSide:
        launches = in_turn(["gemm", "copy"], [131_000, 23_000], 150)
        trace: Trace = sampled(launches, {SM_ACTIVE: {"gemm": 90, "copy": 60}, TENSOR: {"gemm": level}})
        devices = analyse_devices(trace, "run", Selection())
        return side_of(trace, devices, devices[0], "run")

    [change] = use_changes(side_from(75), side_from(40)) or ()
    assert (change.after_kernel.name, change.metric.value) == ("gemm", "tensor")
    assert use_changes(side_from(75), side_from(75)) == ()

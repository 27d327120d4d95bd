"""What a change buys, by replay: as much as the changed program saves, and laws that hold whatever is changed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuledger import open_trace, report
from gpuledger.changes.answer import ReplayedChanges, answer
from gpuledger.changes.changes import Changes, ProgramChange
from gpuledger.errors import GpuledgerError, NothingRecorded
from gpuledger.findings.rules import EDIT_OF
from gpuledger.ledger.books import LineKind
from gpuledger.ledger.causes import Cause
from gpuledger.replay import scenario
from gpuledger.replay.scenario import replay_window
from gpuledger.trace.model import Trace
from support.thorough import tries
from support.traces.book_checks import analysed
from support.traces.program import Program

Asked = Callable[[Changes], ProgramChange]

STEPS = 12


def program(gemm_us: int, norm_us: int = 4, *, host_us: int = 3, reads: bool = False) -> Trace:
    """Steps of ten products and norms, and a little code of the host before each launch."""
    run = Program()
    for _ in range(STEPS):
        with run.range("step"):
            for _ in range(10):
                with run.range("products"):
                    run.host(host_us)
                    run.kernel("gemm_tn", gemm_us)
                run.host(host_us)
                run.kernel("layer_norm_kernel", norm_us)
            if reads:
                run.read()
    return run.trace()


def changes_of(trace: Trace) -> Changes:
    [device] = analysed(trace)
    return Changes(trace, device, (), sampled=True)


def asked(trace: Trace, *wanted: Asked) -> ReplayedChanges:
    changes = changes_of(trace)
    return answer(changes.scenario, [ask(changes) for ask in wanted], changes.every_fix())


def saved_ns(trace: Trace, *wanted: Asked) -> int:
    told = asked(trace, *wanted)
    return told.now.steady_ns - told.then.steady_ns


def faster(name: str, factor: float) -> Asked:
    return lambda changes: changes.speed_up(name, factor)


def fixed(code: str) -> Asked:
    return lambda changes: changes.fix(code)


def step_ns(trace: Trace) -> float:
    [device] = analysed(trace)
    return device.steady_ns / device.step_count


def test_where_the_gpu_is_the_limit_faster_kernels_save_what_amdahl_says() -> None:
    trace = program(gemm_us=100)
    told = asked(trace, faster("gemm", 2))
    saving = (told.now.steady_ns - told.then.steady_ns) / told.steps
    assert saving == pytest.approx(10 * 50_000, rel=0.01)
    assert told.alone[0].note == ""


def test_where_the_host_is_the_limit_they_save_next_to_nothing_and_it_is_said() -> None:
    told = asked(program(gemm_us=4), faster("gemm", 4))
    assert told.now.steady_ns - told.then.steady_ns < 0.01 * told.now.steady_ns
    assert told.then.idle_ns > told.now.idle_ns
    assert "busy 30.0 us less" in told.alone[0].note
    assert "idle 30.0 us longer" in told.alone[0].note


def test_faster_kernels_stop_where_the_host_becomes_the_limit() -> None:
    """The program with such kernels, run on paper, takes as long as the replay says."""
    told = asked(program(gemm_us=40), faster("gemm", 10))
    assert told.then.steady_ns / told.steps == pytest.approx(step_ns(program(gemm_us=4)), rel=0.01)


def test_a_faster_host_is_the_program_with_a_faster_host() -> None:
    slow = program(gemm_us=4, host_us=35)
    told = asked(slow, lambda changes: changes.remove("dispatch"))
    assert told.then.steady_ns / told.steps == pytest.approx(
        step_ns(program(gemm_us=4, host_us=0)), rel=0.08
    )  # code before the first call is no dispatch
    halved = asked(slow, lambda changes: changes.host(2))
    assert halved.then.steady_ns == pytest.approx(halved.now.steady_ns / 2, rel=0.02)


def test_a_range_takes_its_code_calls_and_kernels_along() -> None:
    """Half of all launches and of the code lie in `products`."""
    told = asked(program(gemm_us=4, host_us=35), faster("products", 2))
    assert told.now.steady_ns - told.then.steady_ns == pytest.approx(told.now.steady_ns / 4, rel=0.02)


def test_what_is_removed_is_not_launched() -> None:
    gone = asked(program(gemm_us=4, host_us=35), lambda changes: changes.remove("gemm"))
    assert gone.then.steady_ns == pytest.approx(gone.now.steady_ns / 2, rel=0.05)


def test_another_launch_cost_may_be_dearer() -> None:
    told = asked(program(gemm_us=2, norm_us=2), lambda changes: changes.launch_cost(10_000))
    assert (told.then.steady_ns - told.now.steady_ns) / told.steps == pytest.approx(20 * 5_000, rel=0.02)


def test_a_range_in_a_graph_is_a_bound_and_keeps_what_is_outside() -> None:
    trace = program(gemm_us=4, host_us=35)
    some, every = (asked(trace, lambda changes, name=name: changes.graph(name)) for name in ("products", "step"))  # type: ignore[misc]
    assert some.alone[0].change.is_bound
    assert every.then.steady_ns < some.then.steady_ns < some.now.steady_ns
    assert some.then.steady_ns == pytest.approx(some.now.steady_ns / 2, rel=0.05)


def test_the_parts_are_those_of_the_books_and_sum() -> None:
    trace = program(gemm_us=20, reads=True)
    [device] = analysed(trace)
    told = asked(trace, fixed("HOST-SYNC"))
    assert told.now.steady_ns == device.steady_ns
    assert told.now.compute_ns == device.compute_ns
    assert told.now.copy_ns == device.exposed_ns(LineKind.COPY)
    for part in (told.now, told.then):
        assert part.compute_ns + part.comm_ns + part.copy_ns + part.idle_ns == part.steady_ns
    assert sum(told.chain_now.values()) == told.now.steady_ns
    assert sum(told.chain_then.values()) == told.then.steady_ns


def test_what_is_left_is_what_the_next_fix_saves() -> None:
    trace = program(gemm_us=4, host_us=35, reads=True)
    told = asked(trace, fixed("HOST-SYNC"))
    assert told.left[0].code == "LAUNCH-BOUND"
    assert told.left[0].is_bound
    both = asked(trace, fixed("HOST-SYNC"), fixed("LAUNCH-BOUND"))
    assert told.left[0].then == both.then
    assert "LAUNCH-BOUND" not in {left.code for left in both.left}


def test_without_the_profiler_where_that_run_is_known() -> None:
    """The host takes half as long there, and the device as long: of a host that launches, half is saved."""
    trace, plain = program(gemm_us=4, host_us=35), program(gemm_us=4, host_us=15)
    assert asked(trace, faster("products", 2)).plain is None
    [as_profiled], [as_plain] = analysed(trace), analysed(plain)
    both = replace(trace, plain_window_ns=as_plain.ledger.window_ns)
    told = asked(both, faster("products", 2))
    assert told.plain_ns == pytest.approx(as_profiled.steady_ns / 2, rel=0.02)
    truth = saved_ns(plain, faster("products", 2))
    assert told.plain is not None
    assert told.plain.ns == pytest.approx(truth, rel=0.1)
    assert told.plain.low_ns <= truth <= told.plain.high_ns


@pytest.mark.parametrize(
    "ask",
    [faster("kernel:gemm_tn", 2), faster("gemm", 2), faster("products", 2), lambda changes: changes.remove("dispatch")]
    + [lambda changes: changes.graph("products"), lambda changes: changes.remove("launch_latency")],
)
def test_some_steps_of_many_say_the_same(monkeypatch: pytest.MonkeyPatch, ask: Asked) -> None:
    trace = program(gemm_us=7, host_us=35, reads=True)
    whole = asked(trace, ask)
    monkeypatch.setattr(scenario, "replay_window", partial(replay_window, enough=1, fewest=3))
    some = asked(trace, ask)
    assert not changes_of(trace).scenario.is_whole
    assert some.now.steady_ns == whole.now.steady_ns
    assert some.then.steady_ns == pytest.approx(whole.then.steady_ns, rel=0.02)
    assert sum(some.chain_then.values()) == pytest.approx(some.then.steady_ns, rel=0.001)


CHOICES: tuple[Asked, ...] = (
    *(fixed(code) for code in EDIT_OF),
    faster("gemm", 3),
    faster("kernel:gemm_tn", 0.5),
    faster("products", 2),
    faster("compute", 1.5),
    lambda changes: changes.remove("launch"),
    lambda changes: changes.remove("norm"),
    lambda changes: changes.host(1.7),
    lambda changes: changes.launch_cost(1_000),
    lambda changes: changes.hide(LineKind.COPY),
    lambda changes: changes.graph("products"),
)


@settings(max_examples=tries(8))
@given(
    st.integers(1, 60),
    st.integers(0, 40),
    st.booleans(),
    st.lists(st.sampled_from(CHOICES), min_size=1, max_size=3, unique=True),
    st.randoms(use_true_random=False),
)
def test_laws_of_any_combination(gemm_us: int, host_us: int, reads: bool, wanted: list[Asked], shuffle: object) -> None:
    trace = program(gemm_us, host_us=host_us, reads=reads)
    told = asked(trace, *wanted)
    step = told.now.steady_ns
    for stretch in (told.now, *told.in_order, *(effect.then for effect in told.alone)):
        parts = (stretch.compute_ns, stretch.comm_ns, stretch.copy_ns, stretch.idle_ns)
        assert min(parts) >= 0  # so nothing saves more than the step
        assert sum(parts) == stretch.steady_ns
    shuffle.shuffle(wanted)  # type: ignore[attr-defined]
    assert abs(asked(trace, *wanted).then.steady_ns - told.then.steady_ns) <= 0.005 * step


@settings(max_examples=tries(6))
@given(st.integers(1, 60), st.integers(0, 40), st.booleans(), st.floats(1.1, 100))
def test_a_line_saves_no_more_than_amdahl_and_the_idle_time_around_it(
    gemm_us: int, host_us: int, reads: bool, factor: float
) -> None:
    trace = program(gemm_us, host_us=host_us, reads=reads)
    told = asked(trace, faster("gemm", factor))
    about = told.alone[0].change.about_ns
    assert about is not None
    saved = told.now.steady_ns - told.then.steady_ns
    assert 0 <= saved <= about * (1 - 1 / factor) + told.now.idle_ns + told.steps
    limit = told.alone[0].utmost
    assert limit is not None
    assert limit.steady_ns <= told.then.steady_ns


@pytest.mark.parametrize(
    "name", ["gemm", "products", "compute", "kernel:gemm_tn", "idle: framework overhead", "launch"]
)
def test_a_speed_up_of_one_saves_nothing(name: str) -> None:
    assert saved_ns(program(gemm_us=9, host_us=12), faster(name, 1)) == 0


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (fixed("HOST-SINC"), "names that come near: HOST-SYNC"),
        (fixed("CAPTURE-SHORT"), "HOST-SYNC"),
        (faster("gem", 2), "names that come near: gemm"),
        (lambda changes: changes.graph("product$"), "names that come near: products"),
        (lambda changes: changes.remove("tail"), "tail"),
    ],
)
def test_what_cannot_be_changed_is_refused_with_what_comes_near(ask: Asked, said: str) -> None:
    with pytest.raises(NothingRecorded) as refused:
        asked(program(gemm_us=9), ask)
    assert said in f"{refused.value.claim} {refused.value.found} {refused.value.hint}"


def test_waiting_cannot_be_made_faster(unpacked: Callable[[str], Path]) -> None:
    trace = open_trace(unpacked("experts_loop.sqlite"))
    with pytest.raises(NothingRecorded, match="waiting cannot be made faster"):
        asked(trace, faster("sync", 2))
    told = asked(trace, lambda changes: changes.remove("sync"))
    assert told.then.steady_ns < told.now.steady_ns


def test_a_row_of_the_first_screen_is_removed_as_its_finding_is_fixed(decode: Path) -> None:
    """`idle: module load` is all that loading sets off, 41.7 ms; `module load` is what was booked to it, 1.63 ms."""
    run = report(decode)
    changes = Changes(run.trace, run.main_device, run.findings)
    loading = next(finding for finding in run.findings if finding.code == "HOST-LOAD")
    removed = changes.remove("idle: module load")
    assert (removed.code, removed.about_ns) == ("HOST-LOAD", run.main_device.idle_by_trigger[Cause.LOAD])
    assert changes.scenario.saved_ns(removed.edit) == pytest.approx(loading.saving_ns, rel=0.01)
    assert changes.scenario.saved_ns(changes.remove("module load").edit) < 0.1 * loading.saving_ns
    assert "the report's row 'idle: module load', 41.7 ms, is all" in changes.remove("module load").note
    assert not removed.note
    with pytest.raises(NothingRecorded, match="has no pace"):
        changes.speed_up("idle: module load", 2)


def test_a_row_that_no_finding_is_about_goes_by_what_it_was_booked_to(decode: Path) -> None:
    run = report(decode)
    between = Changes(run.trace, run.main_device, run.findings).remove("idle: kernel-to-kernel gaps")
    assert between.code == ""
    assert between.about_ns == run.main_device.idle_by_trigger[Cause.TURNAROUND]


@pytest.mark.parametrize("factor", [0.0, -1.0, 1e-13, 1e300, float("nan"), float("inf")])
def test_factors_have_bounds(factor: float) -> None:
    changes = changes_of(program(20))
    with pytest.raises(GpuledgerError, match="times as fast"):
        changes.host(factor)
    with pytest.raises(GpuledgerError, match="times as fast"):
        changes.speed_up("gemm", factor)

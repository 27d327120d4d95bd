"""What every so many steps do more is one finding, with its period, its cost and its place; the step is the update."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.findings.profiled_run import ProfiledRun, diagnose
from gpuledger.ledger.step_variation import variation
from gpuledger.present.views.report_parts import verdict
from gpuledger.selection import Selection
from support.program import Program

LONGER_US = 30 * (500 + 7) + 20_000
"""Thirty copies with the pause between two of them, and the file."""


def update(program: Program) -> None:
    program.write(8)
    for kernel in ("gemm_fwd", "relu", "gemm_bwd", "gemm_wgrad", "relu_bwd") * 8:
        program.kernel(kernel, 60)
    for _ in range(4):
        program.kernel("multi_tensor_apply_kernel<FusedAdamFunctor>", 60)


def save(program: Program) -> None:
    for _ in range(30):
        program.read(500)
    program.host(20_000)


def told(program: Program) -> ProfiledRun:
    return diagnose(program.trace(), "run", Selection())


def steps_of(run: ProfiledRun) -> int:
    [device] = run.devices
    assert device.steps is not None
    return len(device.steps)


def updates_with_checkpoints() -> Program:
    program = Program()
    for step in range(40):
        update(program)
        if step % 10 == 9:
            save(program)
    return program


def updates_in_epochs() -> Program:
    program = Program()
    for epoch in range(4):
        with program.range(f"epoch {epoch}"):
            for _ in range(10):
                update(program)
            save(program)
    return program


def marked_updates() -> Program:
    program = Program()
    for step in range(40):
        with program.range(f"step {step}"):
            update(program)
        if step % 10 == 9:
            with program.range("save_checkpoint"):
                save(program)
    return program


@pytest.mark.parametrize("made", [updates_with_checkpoints, updates_in_epochs, marked_updates])
def test_a_checkpoint_after_every_tenth_update_is_one_finding(made: Callable[[], Program]) -> None:
    """The fourth comes after the last update, and is in no step."""
    run = told(made())
    assert steps_of(run) == 40
    [finding] = run.findings
    assert finding.code == "STEP-PERIODIC"
    assert str(finding.claim).startswith("every 10 steps one takes 35.")
    assert abs(finding.saving_ns - 3_000 * LONGER_US) < 3 * 200_000
    assert "Every 10 steps one takes 35." in str(verdict(run))
    assert "step 10 and 2 more" in finding.sentences[0]


def test_its_place_is_the_range_that_opens_each_time() -> None:
    [finding] = told(marked_updates()).findings
    assert str(finding.claim).endswith("mainly in save_checkpoint")
    assert finding.evidence[1].ranges == ("save_checkpoint",)


def test_time_steps_of_a_simulation_that_writes_its_state() -> None:
    program = Program()
    for step in range(200):
        for kernel in ("flux_x", "flux_y", "integrate"):
            program.kernel(kernel, 90)
        if step % 20 == 19:
            program.read(3_000)
            program.host(8_000)
    run = told(program)
    assert steps_of(run) == 199
    assert [finding.code for finding in run.findings] == ["STEP-PERIODIC"]
    assert str(run.findings[0].claim) == "every 20 steps one takes 11.0 ms longer, mainly idle: host code"


def test_what_is_evaluated_is_told_and_not_saved() -> None:
    program = Program()
    for step in range(40):
        update(program)
        if step % 10 == 9:
            for _ in range(10):
                for _ in range(8):
                    program.kernel("gemm_fwd", 60)
                program.read()
    run = told(program)
    assert steps_of(run) == 40
    [periodic] = [finding for finding in run.findings if finding.code == "STEP-PERIODIC"]
    assert str(periodic.claim).endswith("mainly compute: gemm")
    assert periodic.saving_ns < 0.1 * periodic.explains_ns
    assert "Every 10 steps one takes" in str(verdict(run))


def test_steps_that_are_slow_now_and_then_are_unusual_and_not_periodic() -> None:
    program = Program()
    for step in range(40):
        update(program)
        if step in (7, 12, 31):
            program.host(9_000)
    codes = [finding.code for finding in told(program).findings]
    assert "STEP-OUTLIERS" in codes
    assert "STEP-PERIODIC" not in codes


def test_a_wait_in_every_step_stays_a_finding_of_its_own() -> None:
    program = Program()
    for step in range(40):
        update(program)
        program.read()
        program.host(400)
        if step % 10 == 9:
            save(program)
    codes = [finding.code for finding in told(program).findings]
    assert codes[0] == "STEP-PERIODIC"
    assert {"HOST-CODE", "HOST-SYNC"} & set(codes)


def test_tokens_of_many_layers_are_no_periodic_layers() -> None:
    program = Program()
    for _ in range(12):
        for kernel in ("norm", "qkv", "flash", "out", "norm", "up", "silu", "down") * 24:
            program.kernel(kernel, 20)
        program.kernel("head", 60)
        program.read()
        program.host(300)
    assert steps_of(told(program)) == 12


@given(every=st.integers(3, 9), times=st.integers(3, 5), more=st.integers(500, 20_000), ahead=st.integers(0, 1))
def test_period_and_cost_are_those_of_the_program(every: int, times: int, more: int, ahead: int) -> None:
    program, often = Program(), 0
    for step in range(every * times + 2):
        with program.range("step"):
            program.kernel("gemm", 900)
            program.kernel("norm", 90)
            program.read()
            if step % every == every - 1 - ahead:
                often += 1
                program.host(more)
                program.read()
    [device] = told(program).devices
    varies = variation(device)
    assert varies is not None
    assert varies.periodic is not None
    assert varies.periodic.every == every
    assert len(varies.periodic.steps) == often
    assert abs(varies.periodic.more_ns - 1_000 * more * often) < 1_000 * 50 * often


@pytest.mark.parametrize("captures", [True, False])
def test_graphs_captured_every_so_many_steps_are_told_as_that(captures: bool) -> None:
    """Each ten launches are of another graph, as a benchmark of several sizes has them: no run that slows down."""
    program = Program()
    for step in range(40):
        if step % 10 == 0 and captures:
            program._call("cudaStreamBeginCapture", 5)
            program.host(500)
            program._call("cudaStreamEndCapture", 5)
        if step % 10 == 0:
            program.host(20_000)
        for kernel in ("gemm_fwd", "relu", "gemm_bwd", "gemm_wgrad", "relu_bwd") * 8:
            program.kernel(kernel, 60 + 5 * (step // 10))
        program.kernel("multi_tensor_apply_kernel<FusedAdamFunctor>", 60)
        program.wait()
    run = told(program)
    found = {finding.code: finding for finding in run.findings}
    assert ("in which CUDA graphs are captured" in str(verdict(run))) is captures
    assert str(found["STEP-PERIODIC"].fix).startswith("capture each graph once" if captures else "do it beside")
    assert ("STEP-DRIFT" in found) is not captures

"""Small kernels in a loop: what one kernel for all tensors would save."""

from __future__ import annotations

import pytest

from gpuledger.findings.finding import Finding
from gpuledger.findings.rules import findings
from gpuledger.ledger.device import Device
from gpuledger.trace.model import Trace
from support.book_checks import analysed
from support.program import Program

MUL, LERP = "at::native::vectorized_elementwise_kernel<4, MulFunctor>", "at::native::elementwise_kernel<lerp>"
PARAMETERS, STEPS = 40, 8


def training(*, layers: int, fused: bool, update: tuple[str, ...] = (MUL, LERP), steps: bool = True) -> Trace:
    """Steps that launch a model's layers and then update its parameters, one by one or all at once."""
    program = Program()
    for _ in range(STEPS):
        if steps:
            with program.range("step"):
                _step(program, layers, fused, update)
        else:
            _step(program, layers, fused, update)
    return program.trace()


def _step(program: Program, layers: int, fused: bool, update: tuple[str, ...]) -> None:
    for layer in range(layers):
        program.host(6)
        program.kernel(f"gemm_{layer}", 3)
    for _ in range(1 if fused else PARAMETERS):
        for name in update:
            program.host(6)
            program.kernel(name, PARAMETERS if fused else 1)


def told(trace: Trace) -> tuple[dict[str, Finding], Device]:
    [device] = analysed(trace)
    return {found.code: found for found in findings(trace, [device])}, device


def test_a_loop_saves_what_one_kernel_for_all_saves() -> None:
    slow, fast = (training(layers=60, fused=fused) for fused in (False, True))
    found, device = told(slow)
    _, fixed = told(fast)
    assert next(iter(found)) == "KERNEL-LOOP"
    loop, bound = found["KERNEL-LOOP"], found["LAUNCH-BOUND"]
    assert (loop.is_bound, bound.is_bound) == (False, True)
    assert loop.saving_ns <= loop.explains_ns
    saved = device.steady_ns / device.step_count - fixed.steady_ns / fixed.step_count
    assert loop.saving_ns / device.step_count == pytest.approx(saved, rel=0.15)
    assert f"the same 2 kernels run {PARAMETERS} times in a row" in loop.sentences[0]
    assert bound.then_ns is not None
    assert bound.then_ns < bound.saving_ns


def test_where_all_is_a_loop_launch_bound_says_so() -> None:
    found, _ = told(training(layers=1, fused=False))
    assert "KERNEL-LOOP" not in found
    assert f"the same 2 kernels run {PARAMETERS} times in a row" in found["LAUNCH-BOUND"].sentences[0]


@pytest.mark.parametrize(
    "trace",
    [
        pytest.param(training(layers=60, fused=True), id="nothing repeats"),
        pytest.param(training(layers=60, fused=False, update=("gemm_tn", LERP)), id="layers, each needs the last"),
        pytest.param(training(layers=0, fused=False, steps=False), id="no steps: these may be the steps"),
    ],
)
def test_what_is_no_loop_is_not_told(trace: Trace) -> None:
    found, _ = told(trace)
    assert "KERNEL-LOOP" not in found
    assert not any("times in a row" in sentence for finding in found.values() for sentence in finding.sentences)

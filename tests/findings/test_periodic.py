"""What every so many steps do more is one finding, with its period, its cost and its place; the step is the update."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuledger.findings.profiled_run import ProfiledRun, diagnose
from gpuledger.ledger.step_variation import variation
from gpuledger.selection import Selection
from support.program import Program


def told(program: Program) -> ProfiledRun:
    return diagnose(program.trace(), "run", Selection())


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

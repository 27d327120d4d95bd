"""Findings with one line of what to do: it is of a code that can be explained, and fits a line or two."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuledger.api import build_report
from gpuledger.findings.advice import FIRST_FIX, first_fix
from gpuledger.findings.rules import codes
from support.program import Program


def test_each_is_of_a_finding_and_short() -> None:
    assert FIRST_FIX.keys() <= set(codes())
    assert all(fix[0].islower() and not fix.endswith(".") for fix in FIRST_FIX.values())
    assert max(map(len, FIRST_FIX.values())) <= 110


def test_what_saves_time_in_the_step_says_how() -> None:
    assert {code for code in codes() if code.startswith(("HOST-", "COPY-", "COMM-", "LAUNCH-"))} <= FIRST_FIX.keys()


@pytest.mark.parametrize(
    ("copied", "helps"), [(Program.read, "do not read results back"), (Program.write, "make what is copied to the GPU")]
)
def test_who_waits_for_a_copy_is_told_what_helps_in_its_direction(
    copied: Callable[[Program], None], helps: str
) -> None:
    program = Program()
    for _ in range(20):
        with program.range("step"):
            for _ in range(10):
                program.kernel("gemm", 50)
                copied(program)
                program.host(20)
    [found] = [found for found in build_report(program.trace(), "x").findings if found.code == "HOST-SYNC"]
    assert (first_fix(found) or "").startswith(helps)

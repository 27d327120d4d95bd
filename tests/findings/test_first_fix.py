"""Findings with one line of what to do: it is of a code that can be explained, and fits a line or two."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuledger.findings.rules import RULES
from gpuledger.verbs.report import build_report
from support.program import Program

WITHOUT = {"STEP-OUTLIERS", "STEP-DRIFT", "COLD-START", "MEM-OOM", "MEM-PEAK"}
"""Their claim or evidence says what to do, or they only say when time is lost; MEM-OOM has words for each case."""


def test_a_rule_says_what_to_change_in_one_short_line() -> None:
    assert {rule.code for rule in RULES if rule.fix is None and not rule.code.startswith("CAPTURE-")} == WITHOUT
    fixes = [rule.fix for rule in RULES if rule.fix is not None]
    assert all((fix[0].islower() or fix[0] == "`") and not fix.endswith(".") for fix in fixes)
    assert max(map(len, fixes)) <= 115


def test_what_would_be_edited_can_be_fixed() -> None:
    assert [rule.code for rule in RULES if rule.edit is not None and rule.fix is None] == []


@pytest.mark.parametrize(
    ("kernel", "copied", "helps"),
    [
        ("gemm", Program.read, "no `cudaDeviceSynchronize` or blocking `cudaMemcpy`"),
        ("gemm", Program.write, "copy it once before the loop"),
        ("void at::native::elementwise_kernel<128>", Program.read, "do not read results back"),
        ("void at::native::elementwise_kernel<128>", Program.write, "make what is copied to the GPU there (`device="),
    ],
)
def test_who_waits_for_a_copy_is_told_what_helps_in_its_direction(
    kernel: str, copied: Callable[[Program], None], helps: str
) -> None:
    program = Program()
    for _ in range(20):
        with program.range("step"):
            for _ in range(10):
                program.kernel(kernel, 50)
                copied(program)
                program.host(20)
    [found] = [found for found in build_report(program.trace(), "x").findings if found.code == "HOST-SYNC"]
    assert (found.fix or "").startswith(helps)

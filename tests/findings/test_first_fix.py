"""Findings with one line of what to do: it is of a code that can be explained, and fits a line or two."""

from __future__ import annotations

from gpuledger.findings.first_fix import FIRST_FIX
from gpuledger.findings.rules import codes


def test_each_is_of_a_finding_and_short() -> None:
    assert FIRST_FIX.keys() <= set(codes())
    assert all(fix[0].islower() and not fix.endswith(".") for fix in FIRST_FIX.values())
    assert max(map(len, FIRST_FIX.values())) <= 110


def test_what_saves_time_in_the_step_says_how() -> None:
    assert {code for code in codes() if code.startswith(("HOST-", "COPY-", "COMM-", "LAUNCH-"))} <= FIRST_FIX.keys()

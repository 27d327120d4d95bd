"""Findings with one line of what to do: it is of a code that can be explained, and fits a line or two."""

from __future__ import annotations

from gpuledger.findings.rules import RULES

WITHOUT = {"STEP-OUTLIERS", "STEP-DRIFT", "COLD-START", "MEM-OOM", "MEM-PEAK"}
"""Their claim or evidence says what to do, or they only say when time is lost; MEM-OOM has words for each case."""


def test_a_rule_says_what_to_change_in_one_short_line() -> None:
    assert {rule.code for rule in RULES if rule.fix is None and not rule.code.startswith("CAPTURE-")} == WITHOUT
    fixes = [rule.fix for rule in RULES if rule.fix is not None]
    assert all((fix[0].islower() or fix[0] == "`") and not fix.endswith(".") for fix in fixes)
    assert max(map(len, fixes)) <= 115


def test_what_would_be_edited_can_be_fixed() -> None:
    assert [rule.code for rule in RULES if rule.edit is not None and rule.fix is None] == []

"""What a recording that cannot be true lets one believe: it is told first, and nothing else is sure."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gpuledger import build_report
from gpuledger.findings import idle
from gpuledger.messages import say
from gpuledger.selection import Selection
from gpuledger.trace.model import DAMAGE, Note, Severity, Trace
from support.program import Program


def _program(*codes: str) -> Trace:
    """Kernels that the host launches too slowly, and what a reader said of them."""
    run = Program()
    for _ in range(20):
        with run.range("step"):
            for _ in range(10):
                run.host(30)
                run.kernel("gemm_tn", 5)
            run.read()
    notes = tuple(Note(Severity.LOSS, code, say("work starts before its launch")) for code in codes)
    return replace(run.trace(), health=notes)


def test_a_whole_recording_has_no_such_finding() -> None:
    findings = build_report(_program(), "run", Selection()).findings
    assert "CAPTURE-DAMAGED" not in {found.code for found in findings}
    assert findings[0].code in {rule.code for rule in idle.RULES}


@pytest.mark.parametrize("code", sorted(DAMAGE))
def test_damage_comes_first_and_nothing_after_it_is_sure(code: str) -> None:
    first, *others = build_report(_program(code), "run", Selection()).findings
    assert (first.code, first.saving_ns, str(first.confidence)) == ("CAPTURE-DAMAGED", 0, "high")
    assert first.claim == "this recording cannot be true: work starts before its launch"
    assert {str(found.confidence) for found in others if not found.code.startswith("CAPTURE")} <= {"low"}


def test_no_cause_of_idle_time_is_told_where_work_does_not_fit_the_calls() -> None:
    findings = build_report(_program("starts-before-launch"), "run", Selection()).findings
    assert not {rule.code for rule in idle.RULES} & {found.code for found in findings}


def test_where_a_clock_was_put_right_nothing_is_believed_highly() -> None:
    findings = build_report(_program("clock-early-corrected"), "run", Selection()).findings
    assert [found.code for found in findings] == [
        found.code for found in build_report(_program(), "run", Selection()).findings
    ]
    assert "high" not in {str(found.confidence) for found in findings if found.saving_ns}

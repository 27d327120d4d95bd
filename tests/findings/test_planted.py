"""Programs that lose time for one planted reason: the top finding names it, and its saving is what mending saves.

The captures were made with `captures/planted.sh` on an H200, bad and fixed variants profiled the same way.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from gpuledger import open_trace
from gpuledger.findings.run_rules import findings
from gpuledger.selection import Selection
from support.command import CAPTURES
from support.traces.book_checks import analysed, check_balance
from support.traces.planted_findings import EXPECTED, HELD_OUT

TWO_REASONS = ("growing_alloc", "nonzero")
"""Mending them also does without kernels: those that copy, or those that look for what is not zero.

So it saves more than the allocations, or the waits alone.
"""

ALL = {"planted": EXPECTED, "zoo_llm": HELD_OUT}
STEP = Selection(range_pattern="^step$")


CASES = [(programs, case) for programs, cases in ALL.items() for case in cases]


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planted")
    for programs in ALL:
        with tarfile.open(CAPTURES / f"{programs}.tar.xz") as archive:
            archive.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize(("programs", "case"), CASES)
def test_the_planted_reason_is_the_top_finding_with_its_saving(programs: str, case: str, captured: Path) -> None:
    bad = open_trace(captured / programs / f"{case}.bad.sqlite")
    [slow] = analysed(bad, STEP)
    [fast] = analysed(captured / programs / f"{case}.fixed.sqlite", STEP)
    check_balance(slow)
    check_balance(fast)
    top = findings(bad, [slow])[0]
    assert top.code == ALL[programs][case]
    saved = slow.steady_ns / slow.step_count - fast.steady_ns / fast.step_count
    if case not in TWO_REASONS:
        assert top.saving_ns_per_step == pytest.approx(saved, rel=0.2)
    assert top.plain is not None
    assert 0 <= top.plain.low_ns <= top.saving_ns <= top.plain.high_ns
    assert top.saving_ns <= top.explains_ns
    assert top.then_ns == top.saving_ns


def test_what_is_left_after_the_waits_is_launching(captured: Path) -> None:
    """The host still launches what looks for what is not zero; both together are what mending saves."""
    bad = open_trace(captured / "zoo_llm" / "nonzero.bad.sqlite")
    [slow] = analysed(bad, STEP)
    [fast] = analysed(captured / "zoo_llm" / "nonzero.fixed.sqlite", STEP)
    waits, launches = findings(bad, [slow])[:2]
    assert (waits.code, launches.code, launches.is_bound) == ("HOST-SYNC", "LAUNCH-BOUND", True)
    saved = slow.steady_ns / slow.step_count - fast.steady_ns / fast.step_count
    assert ((waits.then_ns or 0) + (launches.then_ns or 0)) / slow.step_count == pytest.approx(saved, rel=0.2)


@pytest.mark.parametrize(("programs", "case"), CASES)
def test_the_fixed_program_has_that_finding_no_more(programs: str, case: str, captured: Path) -> None:
    fixed = open_trace(captured / programs / f"{case}.fixed.sqlite")
    [device] = analysed(fixed, STEP)
    remaining = {found.code: found.saving_ns / device.steady_ns for found in findings(fixed, [device])}
    assert remaining.get(ALL[programs][case], 0) < 0.05

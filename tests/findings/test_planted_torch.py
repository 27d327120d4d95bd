"""The planted programs seen by torch.profiler, with no annotation at all: the same reasons come out.

torch records no calls of the operating system, so a host that sleeps or waits for a thread is host code here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuledger import open_trace
from gpuledger.findings.run_rules import findings
from support.command import ROOT
from support.profiles.opened import plain
from support.traces.book_checks import analysed, check_balance
from support.traces.planted_findings import EXPECTED, HELD_OUT

STEPS = 12
CASES = (
    "alloc",
    "casts",
    "device_sync",
    "exposed_copy",
    "exposed_out",
    "host_function",
    "numpy_between",
    "pageable_copy",
    "pageable_out",
    "pinned_alloc",
    "python_between",
    "sleep",
    "stream_chain",
    "thread_wait",
)
NOT_SEEN_BY_TORCH = {"HOST-OS": "HOST-CODE", "HOST-THREAD": "HOST-CODE"}
SHORTER_WHEN_SLOW = ("device_sync",)
"""Recording operators slows its fixed variant, which then saves less than the profile of the bad one can know."""


@pytest.fixture(scope="module")
def captured() -> Path:
    return plain(ROOT / "captures" / "torch" / "planted.tar.xz") / "planted_torch"


@pytest.mark.parametrize("case", CASES)
def test_the_reason_is_the_top_finding_with_its_saving(case: str, captured: Path) -> None:
    bad = open_trace(captured / f"{case}.bad.json")
    [slow], [fast] = analysed(bad), analysed(captured / f"{case}.fixed.json")
    check_balance(slow)
    expected = (EXPECTED | HELD_OUT)[case]
    top = findings(bad, [slow])[0]
    assert top.code == NOT_SEEN_BY_TORCH.get(expected, expected)
    share = top.saving_ns / slow.steady_ns
    saved = 1 - fast.ledger.window_ns / slow.ledger.window_ns
    if case not in SHORTER_WHEN_SLOW:
        assert share == pytest.approx(saved, rel=0.2)


@pytest.mark.parametrize("case", ["alloc", "sleep", "host_function"])
def test_equal_layers_are_put_together_to_steps(case: str, captured: Path) -> None:
    [device] = analysed(captured / f"{case}.bad.json")
    assert device.steps is not None
    assert len(device.steps) == STEPS

"""Two faults planted in one program: what is saved in order comes true when both are mended.

Captures and step times were made on an H200 with `captures/pairs.sh`: medians of three runs of each variant.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuledger import build_report, open_trace
from support.command import CAPTURES
from support.profiles.opened import plain

FAULTS = {
    "sleep_pageable": {"HOST-OS": "fix1", "COPY-PAGEABLE": "fix2"},
    "alloc_casts": {"HOST-ALLOC": "fix1", "CAST": "fix2"},
    "sync_numpy": {"HOST-SYNC": "fix1", "HOST-CODE": "fix2"},
    "copies_held": {"HOST-COPY": "fix1", "DEVICE-WAIT": "fix2"},
}
"""Which variant mends what. In `read_tiny` the fix also fuses kernels, so that its saving is no edit's."""

WITHIN = 0.25
"""The host's pace differs from run to run by as much."""


@pytest.fixture(scope="module")
def together() -> Path:
    return plain(CAPTURES / "together.tar.xz") / "together"


@pytest.mark.parametrize("program", FAULTS)
def test_savings_in_order_come_true(program: str, together: Path) -> None:
    measured = {
        variant: step["profiled"]
        for variant, step in json.loads((together / "step_ns.json").read_text())[program].items()
    }
    report = build_report(open_trace(together / f"{program}.bad.sqlite"))
    first, second = report.findings[:2]
    assert {first.code, second.code} == FAULTS[program].keys()
    step_ns = report.main_device.steady_ns / report.main_device.step_count
    one = measured["bad"] - measured[FAULTS[program][first.code]]
    both = measured["bad"] - measured["fixed"]
    assert first.saving_ns / first.steps / step_ns == pytest.approx(one / measured["bad"], rel=WITHIN)
    assert first.then_ns == first.saving_ns
    told = first.saving_ns + (second.then_ns or 0)
    assert told / first.steps / step_ns == pytest.approx(both / measured["bad"], rel=WITHIN)

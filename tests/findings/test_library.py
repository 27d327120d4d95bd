"""Programs made of libraries, bad and fixed: the first finding names the fault, and its saving is what fixing saved.

The captures were made with `captures/pairs.sh` on an H200: some steps of each variant, as profiled.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuledger import open_trace
from gpuledger.findings.finding import Finding
from gpuledger.findings.run_rules import findings
from gpuledger.selection import Selection
from support.command import CAPTURES
from support.profiles.opened import plain
from support.traces.book_checks import analysed

STEP = Selection(range_pattern="^step$")

FAULTS = {
    "hf_tolist": "HOST-SYNC",
    "hf_autocast": "CAST",
    "bert_transfers": "HOST-COPY",
    "resnet_pageable": "COPY-PAGEABLE",
    "resnet_collate": "HOST-CODE",
    "resnet_transforms": "HOST-CODE",
    "resnet_metrics": "HOST-CODE",
    "vit_empty_cache": "HOST-ALLOC",
    "hf_graph": "LAUNCH-BOUND",
    "bert_one_by_one": "LAUNCH-BOUND",
}
TWO_FAULTS = {"hf_stop_strings": ("HOST-SYNC", "HOST-CODE"), "hf_moe": ("HOST-SYNC", "LAUNCH-BOUND")}
"""Their fix does without the waits, and without the code or the launches between them."""


@pytest.fixture(scope="module")
def captured() -> Path:
    return plain(CAPTURES / "library.tar.xz") / "library"


def told(captured: Path, program: str) -> tuple[tuple[Finding, ...], int, float]:
    """The findings of the bad variant, its steps, and what fixing saved of each."""
    bad = open_trace(captured / f"{program}.bad.sqlite")
    [slow] = analysed(bad, STEP)
    [fast] = analysed(captured / f"{program}.fixed.sqlite", STEP)
    saved = slow.steady_ns / slow.step_count - fast.steady_ns / fast.step_count
    return findings(bad, [slow]), slow.step_count, saved


@pytest.mark.parametrize("program", FAULTS)
def test_the_first_finding_names_the_fault_with_its_saving(program: str, captured: Path) -> None:
    found, steps, saved = told(captured, program)
    assert found[0].code == FAULTS[program]
    assert found[0].saving_ns / steps == pytest.approx(saved, rel=0.2)


@pytest.mark.parametrize("program", TWO_FAULTS)
def test_two_faults_save_in_order_what_fixing_both_saved(program: str, captured: Path) -> None:
    found, steps, saved = told(captured, program)
    first = found[:2]
    assert tuple(finding.code for finding in first) == TWO_FAULTS[program]
    assert sum(finding.then_ns or 0 for finding in first) / steps == pytest.approx(saved, rel=0.25)


def test_an_optimizer_that_loops_is_told_apart_from_launching_as_a_whole(captured: Path) -> None:
    """Only the optimizer was fixed: a bound of the whole step would be three times as much."""
    found, steps, saved = told(captured, "adamw_loop")
    loop, bound = found[:2]
    assert (loop.code, bound.code, bound.is_bound) == ("KERNEL-LOOP", "LAUNCH-BOUND", True)
    assert loop.saving_ns / steps == pytest.approx(saved, rel=0.3)
    assert bound.saving_ns / steps > 2 * saved


@pytest.mark.parametrize("program", ["grad_norms", "resnet_item"])
def test_waits_that_cost_nothing_are_not_blamed(program: str, captured: Path) -> None:
    """The host launches more slowly than the GPU works, waits or not: leaving them out saved less than the noise."""
    bad = open_trace(captured / f"{program}.bad.sqlite")
    [slow] = analysed(bad, STEP)
    found = findings(bad, [slow])
    assert found[0].code == "LAUNCH-BOUND"
    assert sum(finding.saving_ns for finding in found if finding.code == "HOST-SYNC") < 0.1 * slow.steady_ns

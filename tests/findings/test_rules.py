"""Which findings a profile has: all of those of captures from real programs, in order, and what no capture has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gpuledger import NothingRecorded, build_report, open_trace
from gpuledger.findings.finding import Finding, PlainSaving, is_significant
from gpuledger.findings.fixes import Fixes
from gpuledger.findings.kernels.cast import drop_kernels
from gpuledger.findings.memory import snapshot_findings
from gpuledger.findings.profiled_run import headline
from gpuledger.findings.ranks import job_findings
from gpuledger.findings.rules import RULE_OF, RULES
from gpuledger.ledger.device import Device
from gpuledger.replay.edits import apply_edits
from gpuledger.replay.graph import OperationFlag
from gpuledger.replay.scenario import scenario
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import Table
from support.profiles import torch_traces
from support.profiles.nsys_exports import minimal, push
from support.traces.book_checks import analysed
from support.traces.sampled_traces import SM_ACTIVE, in_turn, sampled, with_samples
from support.traces.trace_notation import trace


def test_a_profile_without_gpu_work_is_refused_with_the_page_to_read(tmp_path: Path) -> None:
    empty = minimal(tmp_path / "a.sqlite", NVTX=[push(0, 5, "step")])
    with pytest.raises(NothingRecorded) as refused:
        build_report(open_trace(empty))
    assert refused.value.hint.startswith("`gpuledger stats --report=nvtx_sum` has the host's time in the ranges; ")
    assert "gpuledger explain CAPTURE-EMPTY" in refused.value.hint


@pytest.mark.parametrize(
    ("operator", "told", "fix"),
    [
        ("aten::mkldnn_convolution", ", and aten::mkldnn_convolution runs on the CPU alone", "put the model"),
        ("aten::cudnn_convolution", ", though aten::cudnn_convolution runs on GPUs alone", "record with `ProfilerAct"),
        ("aten::mm", "", "`gpuledger info`"),
    ],
)
def test_operators_tell_where_a_trace_without_gpu_work_ran(operator: str, told: str, fix: str, tmp_path: Path) -> None:
    path = torch_traces.saved(tmp_path / "a.json", [torch_traces.OP | {"name": operator}], schemaVersion=1)
    with pytest.raises(NothingRecorded) as refused:
        build_report(open_trace(path))
    assert str(refused.value).endswith(f"no GPU work was recorded{told}")
    assert refused.value.hint.startswith(fix)


# Findings with one line of what to do: it is of a code that can be explained, and fits a line or two


ALL_RULES = (*RULES, *snapshot_findings.RULES, *job_findings.RULES)

WITHOUT = {"STEP-OUTLIERS", "STEP-DRIFT", "COLD-START", "MEM-OOM", "MEM-PEAK"}
"""Their claim or evidence says what to do, or they only say when time is lost; MEM-OOM has words for each case."""


def test_a_rule_says_what_to_change_in_one_short_line() -> None:
    assert {rule.code for rule in ALL_RULES if rule.fix is None and not rule.code.startswith("CAPTURE-")} == WITHOUT
    fixes = [rule.fix for rule in ALL_RULES if rule.fix is not None]
    assert all((fix[0].islower() or fix[0] == "`") and not fix.endswith(".") for fix in fixes)
    assert max(map(len, fixes)) <= 115


def test_what_would_be_edited_can_be_fixed() -> None:
    assert [rule.code for rule in ALL_RULES if rule.edit is not None and rule.fix is None] == []


# The findings' definitions at their bounds: the last value that counts as one thing, and the first that does not


def told(recorded: Trace) -> dict[str, Finding]:
    """The findings by code, in their order."""
    return {found.code: found for found in build_report(recorded).findings}


def thousand() -> Device:
    """A GPU whose steady stretch is 1,000 ns."""
    [device] = analysed(trace("s0: 0-1000 k"))
    return device


# what is told, and how


@pytest.mark.parametrize(("saving", "is_told"), [(4, False), (5, True)])
def test_half_a_percent_is_significant(saving: int, is_told: bool) -> None:
    assert is_significant(thousand(), saving) is is_told


@pytest.mark.parametrize(("saving", "confidence"), [(100, "medium"), (101, "high")])
def test_a_saving_of_more_than_a_tenth_is_believed_highly(saving: int, confidence: str) -> None:
    assert RULE_OF["HOST-CODE"].finding(thousand(), "", (), saving, "").confidence == confidence


@pytest.mark.parametrize(("saving", "is_told"), [(19, False), (20, True)])
def test_a_headline_is_about_2_percent_of_the_time(saving: int, is_told: bool) -> None:
    device = thousand()
    first = headline(device, [RULE_OF["HOST-CODE"].finding(device, "", (), saving, "")]).finding
    assert (first is not None) is is_told


@pytest.mark.parametrize(("low", "is_slowed", "is_unsure"), [(40, True, False), (39, True, True), (39, False, False)])
def test_a_saving_that_may_be_under_half_of_it_is_unsure(low: int, is_slowed: bool, is_unsure: bool) -> None:
    """Half, and a fifth for the host's pace; but not what waits for the GPU, which leaves it idle at any pace."""
    plain = PlainSaving(None, low, 90)
    found = Finding("LAUNCH-BOUND", "", (), 100, None, None, "", "high", 0, "", plain=plain, is_slowed=is_slowed)
    assert (found.is_unsure, found.middle_ns) == (is_unsure, (low + 90) // 2)


@pytest.mark.parametrize(("is_bound", "most"), [(True, 100), (False, 130)])
def test_nothing_said_of_a_finding_exceeds_a_bound_or_what_was_lost(is_bound: bool, most: int) -> None:
    found = Finding("CAST", "", (), 100, None, None, "", "high", 0, "", explains_ns=130, is_bound=is_bound)
    assert found.most_ns == most


# the order


# rules


@pytest.mark.parametrize(("megahertz", "is_told"), [(1_680, True), (1_690, False)])
def test_a_clock_under_85_percent_is_low(megahertz: int, is_told: bool) -> None:
    """Of the H200's 1,980 MHz, which is 1,683."""
    launches = in_turn(["k"], [131_000], 600)
    rows = sampled(launches, {SM_ACTIVE: {"k": 98.0}})[Table.METRICS]
    active = zip(rows["start_ns"].tolist(), rows["value"].tolist(), strict=True)
    both = [
        row
        for stamp, value in active
        for row in ((stamp, SM_ACTIVE, value), (stamp, "GPC Clock Frequency [MHz]", megahertz * 1_000_000))
    ]
    assert ("CLOCKS-LOW" in told(with_samples(launches, both))) is is_told


# The edit that stands for a finding changes what the finding is about, and nothing else


def test_a_kernel_that_goes_from_a_graph_leaves_its_other_kernels(unpacked: Callable[[str], Path]) -> None:
    """All of a graph's kernels share one launch: taking out one of them must not take out the launch."""
    trace = open_trace(unpacked("graph.sqlite"))
    [device] = analysed(trace)
    scene = scenario(trace, device)
    fixes = Fixes(trace, scene)
    code = int(np.bincount(device.work.name[device.work.graph_node >= 0]).argmax())
    changed = apply_edits(scene.graph, [drop_kernels(fixes, [code])])
    gone = changed.operations.flags & OperationFlag.GONE != 0
    assert set(device.work.name[gone].tolist()) == {code}
    taken = int((device.work.end_ns - device.work.start_ns)[gone].sum())
    assert 0 < scene.saved_ns(drop_kernels(fixes, [code])) < 1.2 * taken

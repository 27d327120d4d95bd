"""The findings' definitions at their bounds: the last value that counts as one thing, and the first that does not.

Numbers stand here as documents tell them, never as the constants of the source. Times are in microseconds where nothing
else is said.
"""

from __future__ import annotations

import pytest

from gpuledger import build_report
from gpuledger.findings.finding import Finding, PlainSaving, worth_telling
from gpuledger.findings.profiled_run import headline
from gpuledger.findings.rules import RULE_OF
from gpuledger.ledger.device import Device
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import Table
from support.book_checks import analysed
from support.sampled_traces import SM_ACTIVE, in_turn, sampled, with_samples
from support.trace_notation import trace


def told(recorded: Trace) -> dict[str, Finding]:
    """The findings by code, in their order."""
    return {found.code: found for found in build_report(recorded).findings}


def thousand() -> Device:
    """A GPU whose steady stretch is 1,000 ns."""
    [device] = analysed(trace("s0: 0-1000 k"))
    return device


# what is told, and how


@pytest.mark.parametrize(("saving", "is_told"), [(4, False), (5, True)])
def test_half_a_percent_is_worth_telling(saving: int, is_told: bool) -> None:
    assert worth_telling(thousand(), saving) is is_told


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

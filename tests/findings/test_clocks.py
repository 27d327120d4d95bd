"""CLOCKS-LOW: a busy GPU whose clock is well below its highest; never one that idles or ramps up."""

from __future__ import annotations

import pytest

from gpuledger import build_report
from gpuledger.findings.finding import Finding
from gpuledger.trace.model import Trace
from support.traces.sampled_traces import PERIOD_NS, SM_ACTIVE, TENSOR, in_turn, sampled, with_samples

CLOCK = "GPC Clock Frequency [MHz]"
MEGAHERTZ = 1_000_000


def clocked(megahertz: list[int], gap_ns: int = 1_700, kernels: int = 600) -> Trace:
    """Matrix products of 131 us at the roof of compute, under a clock that goes through these values."""
    launches = in_turn(["gemm"], [131_000], kernels, gap_ns)
    rows = sampled(launches, {SM_ACTIVE: {"gemm": 98}, TENSOR: {"gemm": 90}})["metrics"]
    told = [
        (int(stamp), str(name), int(value))
        for stamp, name, value in zip(
            rows["start_ns"].tolist(), rows.texts("name"), rows["value"].tolist(), strict=True
        )
    ]
    stamps = sorted({stamp for stamp, _, _ in told})
    clock = [
        (stamp, CLOCK, megahertz[place * len(megahertz) // len(stamps)] * MEGAHERTZ)
        for place, stamp in enumerate(stamps)
    ]
    return with_samples(launches, sorted(told + clock, key=lambda row: row[0]))


def low_clocks(trace: Trace) -> list[Finding]:
    return [finding for finding in build_report(trace).findings if finding.code == "CLOCKS-LOW"]


def test_a_clock_that_is_set_has_a_bound() -> None:
    """990 of 1,980 MHz, and all compute at the compute roof: half of its time at most."""
    trace = clocked([990])
    [found] = low_clocks(trace)
    assert found.claim == "the SM clock stays at 990 MHz, 50.0 % of the 1,980 MHz maximum"
    assert found.is_bound
    compute_ns = 600 * 131_000
    assert found.saving_ns == pytest.approx(compute_ns / 2, rel=0.05)
    assert found.saving_ns <= compute_ns / 2
    assert found.evidence[0].count == pytest.approx(compute_ns / PERIOD_NS, rel=0.1)


def test_a_clock_that_power_holds_down_is_told_and_nothing_is_claimed() -> None:
    [found] = low_clocks(clocked([1_400, 1_450, 1_350] * 50))
    assert found.claim.startswith("under load the SM clock drops to 1,400 MHz on average, 70.7 % of the 1,980 MHz")
    assert found.saving_ns == 0
    assert found.sentences[0].startswith("1,350 to 1,450 MHz in ")


@pytest.mark.parametrize(("kernels", "is_told"), [(390, True), (370, False)])
def test_a_clock_is_judged_after_50_ms_of_kernels(kernels: int, is_told: bool) -> None:
    assert bool(low_clocks(clocked([990], kernels=kernels))) is is_told


@pytest.mark.parametrize(("above", "word"), [(1_425, "stays at"), (1_475, "drops to")])
def test_a_clock_that_varies_by_2_percent_is_not_set(above: int, word: str) -> None:
    """Between 1,400 MHz and these by turns: by 0.9 and 2.6 % of the mean."""
    [found] = low_clocks(clocked([1_400, above] * 100))
    assert word in found.claim


@pytest.mark.parametrize(
    ("megahertz", "gap_ns"),
    [
        ([1_900], 1_700),  # near the highest
        ([400, 800, 1_980], 1_700),  # rises until the end
        ([990], 60_000),  # the GPU idles a third of the time
    ],
)
def test_nothing_is_said_of_a_full_clock_or_a_gpu_that_idles_and_ramps(megahertz: list[int], gap_ns: int) -> None:
    assert low_clocks(clocked(megahertz, gap_ns)) == []

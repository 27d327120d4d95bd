"""A kernel bound by memory is not said to need all its bytes where counters or NVIDIA's rules say that it does not."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.analyse.roofline.judgement import ADVICE, COALESCE, judged, kernels
from gpuledger.answers.kernels import JudgedKernels
from gpuledger.present.views.work.ncu_kernels import ncu_kernels_answer
from gpuledger.read.ncu.reader import open_kernels
from gpuledger.trace.measured import Advice, Profiled
from gpuledger.trace.model import NotMeasured
from support.command import ROOT, gpuledger
from support.traces.profiled_launches import launch

EXCESSIVE = "This kernel has uncoalesced global accesses: 3 excessive sectors (75% of the total 4 sectors)."
PATTERN = "On average, only 8.0 of the 32 bytes transmitted per sector are utilized by each thread."


def _rule(name: str, message: str, speedup: float | None, scope: str = "global") -> tuple[Advice, ...]:
    return (Advice(name, "", message, speedup, scope),)


def test_nvidias_rule_is_believed_over_only_fewer_bytes() -> None:
    """DRAM at 91 % of its peak has no headroom, but three of four sectors are excessive."""
    rules = _rule("UncoalescedGlobalAccess", EXCESSIVE, 0.7414)
    streaming = judged(launch(sm=0.1, dram=0.91, l2_hit=0.05, time=20_000_000, advice=rules))
    assert (streaming.verdict.bound, streaming.verdict.limiter) == ("memory", "DRAM")
    assert streaming.verdict.because[1] == (
        "75.0 % of the sectors that its global accesses move are excessive (uncoalesced): NVIDIA estimates that "
        "74.1 % of the kernel's time would go"
    )
    assert streaming.verdict.headroom == 0.7414
    assert streaming.advice[0] == COALESCE


def test_a_kernel_that_uses_what_it_moves_can_only_move_less() -> None:
    streaming = judged(launch(sm=0.1, dram=0.91, l2_hit=0.05, sectors=100, excessive=3))
    assert streaming.verdict.wasted is None
    assert streaming.advice == (ADVICE["DRAM"],)
    assert streaming.verdict.headroom == 0


@pytest.mark.parametrize(
    ("measured", "share"),
    [
        ({"sectors": 4e6, "excessive": 3e6}, 0.75),
        ({"loaded_of_sector": 8.0}, 0.75),
        ({"loaded_of_sector": 8.0, "stored_of_sector": 16.0}, 0.5),  # the better of the two, so at least so much
        ({"loaded_of_sector": 8.0, "stored_of_sector": 0.0}, 0.75),  # 0: nothing is stored
        ({"loaded_of_sector": 40.0}, None),
        ({"sectors": 0.0, "excessive": 0.0}, None),
        ({}, None),
    ],
)
def test_counters_tell_where_no_rule_ran(measured: dict[str, float], share: float | None) -> None:
    wasted = judged(launch(sm=0.1, dram=0.9, l2_hit=0.1, **measured)).verdict.wasted  # type: ignore[arg-type]
    assert (None if wasted is None else wasted.share) == share
    if wasted is not None:
        assert (wasted.saving_share, wasted.is_nvidias) == (share, False)


def test_excessive_sectors_that_l2_serves_do_not_load_dram() -> None:
    figures = {"sm": 0.1, "sectors": 4.0, "excessive": 3.0}
    assert judged(launch(dram=0.9, l2_hit=0.8, **figures)).verdict.wasted is None  # type: ignore[arg-type]
    assert judged(launch(l2=0.9, l2_hit=0.8, **figures)).verdict.wasted is not None  # type: ignore[arg-type]
    assert judged(launch(l1=0.9, l2_hit=0.8, **figures)).verdict.wasted is None  # type: ignore[arg-type]


def test_a_small_estimate_of_nvidias_counts_for_more_than_our_counters() -> None:
    rules = _rule("UncoalescedGlobalAccess", EXCESSIVE, 0.03)
    assert judged(launch(sm=0.1, dram=0.9, l2_hit=0.1, advice=rules)).verdict.wasted is None


@pytest.mark.parametrize(("speedup", "scope"), [(None, ""), (0.6, "local")])
def test_an_estimate_of_a_part_is_none_of_the_whole(speedup: float | None, scope: str) -> None:
    rules = _rule("MemoryCacheAccessPattern", PATTERN, speedup, scope)
    wasted = judged(launch(sm=0.1, dram=0.9, l2_hit=0.1, advice=rules)).verdict.wasted
    assert wasted is not None
    assert (wasted.share, wasted.is_nvidias) == (0.75, False)


def test_the_headline_names_the_waste_not_the_roof() -> None:
    rules = _rule("UncoalescedGlobalAccess", EXCESSIVE, 0.6)
    [kernel] = kernels([judged(launch(sm=0.1, dram=0.95, l2_hit=0.1, time=1_000_000, advice=rules))])
    text = ncu_kernels_answer(JudgedKernels([kernel], ["a.csv"])).to_text()
    assert "75.0 % of the sectors it moves are excessive; coalesced accesses would save 60.0 % of the time" in (
        " ".join(text.split())
    )
    assert "only fewer bytes" not in text
    assert "at their roofs" not in text


@given(
    st.floats(0.6, 1.1),
    st.floats(-1e9, 1e9),
    st.floats(-1e9, 1e9),
    st.floats(-1, 64),
    st.sampled_from([None, -0.5, 0.0, 0.3, 5.0]),
    st.sampled_from([EXCESSIVE, PATTERN, "(900% of the total", "only 0 of the 32 bytes", ""]),
)
def test_whatever_a_report_holds_shares_are_shares(
    dram: float, sectors: float, excessive: float, used: float, speedup: float | None, message: str
) -> None:
    rules = (*_rule("UncoalescedGlobalAccess", message, speedup), *_rule("MemoryCacheAccessPattern", message, speedup))
    figures = {"dram": dram, "sectors": sectors, "excessive": excessive, "loaded_of_sector": used}
    answer = judged(launch(sm=0.1, l2_hit=0.1, advice=rules, **figures)).verdict  # type: ignore[arg-type]
    assert not isinstance(answer.headroom, NotMeasured)
    assert 0 <= answer.headroom <= 1
    if answer.wasted is not None:
        assert 0 <= answer.wasted.share <= 1


@pytest.mark.parametrize("name", ["layer_raw.csv", "layer_details.csv"])
def test_the_counters_are_read_from_real_reports(name: str, tmp_path: Path) -> None:
    """Two launches of our layer have 43 % of excessive sectors, by NVIDIA's rule and by the counters alike."""
    path = tmp_path / name
    path.write_bytes(lzma.decompress((ROOT / "captures" / "ncu" / f"{name}.xz").read_bytes()))

    def tells(profiled: Profiled) -> bool:
        said = any(rule.rule == "UncoalescedGlobalAccess" for rule in profiled.advice)
        counted = profiled.metric("derived__memory_l2_theoretical_sectors_global_excessive")
        return said or (not isinstance(counted, NotMeasured) and counted > 0)

    assert sum(map(tells, open_kernels([path]).launches)) == 2
    assert gpuledger("kernels", path).exit_code == 0

"""Work taken out of captures is told first and sold as nothing; a profile that lost nothing is not accused of it."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gpuledger import Trace, build_report, open_trace
from gpuledger.errors import UnreadableProfile
from gpuledger.ledger.causes import Cause
from gpuledger.ledger.host import host_and_activities
from gpuledger.ledger.lost_work import NOTABLE, lost_work
from gpuledger.present.views.report_parts import verdict
from gpuledger.verbs.profiled_report import Report
from support.command import CAPTURES, ROOT
from support.profiles.corpus import CORPUS
from support.profiles.opened import report_of, trace_of
from support.profiles.planted_losses import COPIES, ON_GPU, torch_without_rows, without_graphs, without_rows
from support.thorough import some
from support.traces.book_checks import check_balance

TORCH = ROOT / "captures" / "torch"
TOLERANCE = 0.03
"""Of the time: steps and warm-up may be found elsewhere when work is missing, and savings are of the steady steps."""

Unpacked = Callable[[str], Path]


def saved_shares(report: Report) -> dict[str, float]:
    """What each finding claims, as a share of the time that it is claimed of."""
    return {found.code: found.saving_ns / report.main_device.steady_ns for found in report.findings}


def check_told(report: Report, whole: Report) -> None:
    """The loss comes first, in the findings and in the headline, and nothing is claimed from it."""
    first = report.findings[0]
    assert (first.code, first.saving_ns) == ("CAPTURE-LOSS", 0)
    assert first.claim.startswith("the profiler lost ")
    assert verdict(report).startswith("The profiler lost ")
    assert first.evidence[0].correlations
    assert first.evidence[0].span is not None
    assert [found.code for found in report.findings].count("CAPTURE-LOSS") == 1
    check_not_sold(report, whole)


def check_not_sold(report: Report, whole: Report) -> None:
    """No finding claims more than it does of the whole profile, nor do all of them."""
    saved, of_whole = saved_shares(report), saved_shares(whole)
    assert {code: share for code, share in saved.items() if share > of_whole.get(code, 0) + TOLERANCE} == {}
    assert sum(saved.values()) <= sum(of_whole.values()) + TOLERANCE
    for device in report.devices:
        check_balance(device)


@pytest.mark.parametrize("share", [0.0005, 0.01, 0.3])
@pytest.mark.parametrize("name", some(["graph", "decode", "moe_loop", "attn", "two_gloo"], 2))
def test_rows_taken_out_at_random_are_told(name: str, share: float, unpacked: Unpacked, tmp_path: Path) -> None:
    profile = unpacked(f"{name}.sqlite")
    gone = without_rows(profile, tmp_path / "lost.sqlite", share)
    whole, report = report_of(profile), build_report(open_trace(tmp_path / "lost.sqlite"))
    lost = report.devices[0].lost
    missing = sum(count for count, _ in lost.counts.values()) + lost.nodes.missing
    assert 0.85 * gone <= missing <= gone  # what lies at the edges of the recording is not counted
    if not lost.is_notable:
        assert share < NOTABLE
        assert "CAPTURE-LOSS" not in {found.code for found in report.findings}
        check_not_sold(report, whole)
    else:
        check_told(report, whole)


def test_copies_alone_are_told(unpacked: Unpacked, tmp_path: Path) -> None:
    profile = unpacked("moe_loop.sqlite")
    gone = without_rows(profile, tmp_path / "lost.sqlite", 0.05, of=COPIES)
    report = build_report(open_trace(tmp_path / "lost.sqlite"))
    check_told(report, report_of(profile))
    assert report.findings[0].claim == f"the profiler lost 1.3 % of the GPU's work: {gone} of 8,150 copies"


def test_17_of_20_graph_launches(unpacked: Unpacked, tmp_path: Path) -> None:
    """The GPU was busy for 97 % of the time, and must not be told to have waited for 80 % of it."""
    profile = unpacked("graph.sqlite")
    without_graphs(profile, tmp_path / "lost.sqlite", 17)
    report = build_report(open_trace(tmp_path / "lost.sqlite"))
    check_told(report, report_of(profile))
    assert report.findings[0].claim == "the profiler lost 85.0 % of the GPU's work: 17 of 20 graph launches"
    device = report.main_device
    working = sum(amount for line, amount in device.line_ns.items() if not line.is_idle)
    assert working + device.idle_ns(Cause.LOST) > 0.96 * device.steady_ns


def test_nodes_of_graphs_are_told(unpacked: Unpacked, tmp_path: Path) -> None:
    without_rows(unpacked("graph.sqlite"), tmp_path / "lost.sqlite", 0.01, of=ON_GPU[:1])
    [claim] = [found.claim for found in build_report(open_trace(tmp_path / "lost.sqlite")).findings[:1]]
    assert claim.startswith("the profiler lost 0.9 % of the GPU's work: ")
    assert claim.endswith(" of 2,088 nodes of graphs")


@pytest.mark.parametrize("share", [0.01, 0.3])
@pytest.mark.parametrize("name", ["decode", "moe_loop"])
def test_torch_profiler_loses_work_too(name: str, share: float, tmp_path: Path) -> None:
    profile = TORCH / f"{name}.json.gz"
    gone = torch_without_rows(profile, tmp_path / "lost.json", share)
    report = build_report(open_trace(tmp_path / "lost.json"))
    check_told(report, report_of(profile))
    missing = sum(count for count, _ in report.devices[0].lost.counts.values())
    assert 0.85 * gone <= missing <= gone
    assert "torch.profiler" in report.findings[0].sentences[-1]


def _loss(profile: Path) -> int:
    """How many calls are said to have lost work."""
    return _lost(trace_of(profile))


def _lost(trace: Trace) -> int:
    return len(lost_work(trace, *host_and_activities(trace)))


@pytest.mark.parametrize("name", sorted(path.name for path in CAPTURES.glob("*.sqlite.xz")))
def test_no_capture_is_accused(name: str, unpacked: Unpacked) -> None:
    assert _loss(unpacked(name.removesuffix(".xz"))) == 0


@pytest.mark.parametrize("name", sorted(path.name for path in TORCH.glob("*.json.gz")))
def test_no_capture_of_torch_is_accused(name: str) -> None:
    assert _loss(TORCH / name) == 0


@pytest.mark.parametrize("packed", [CAPTURES / "planted.tar.xz", CAPTURES / "zoo_llm.tar.xz", TORCH / "planted.tar.xz"])
def test_no_planted_program_is_accused(packed: Path, tmp_path: Path) -> None:
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path, filter="data")
    profiles = sorted(path for path in tmp_path.rglob("*.*.*") if path.suffix in (".sqlite", ".json"))
    assert profiles
    assert [path.name for path in some(profiles, 4) if _lost(open_trace(path))] == []


def _of_others() -> Sequence[Path]:
    return sorted([*CORPUS.glob("*.sqlite.xz"), *(CORPUS.parent / "torch").glob("*.json.gz")])


@pytest.mark.skipif(not _of_others(), reason="no third-party profiles beside the checkout")
@pytest.mark.parametrize("packed", some(_of_others(), 3, first=1), ids=lambda path: path.name)
def test_no_profile_of_others_is_accused(packed: Path) -> None:
    """They were cut out of longer ones, hold graph captures, copies of no bytes and kernels of no length."""
    try:
        assert _loss(packed) == 0
    except UnreadableProfile as refused:
        pytest.skip(str(refused))

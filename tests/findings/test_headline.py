"""The headline, the first finding and the books say the same, on every profile there is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuledger.catalog.kernel_families import OTHER
from gpuledger.findings.profiled_run import MIN_HEADLINE_SHARE, MIN_LOSS_SHARE, ProfiledRun, headline
from gpuledger.ledger.activity import GRAPH_FAMILY
from gpuledger.ledger.causes import Cause, idle_label
from gpuledger.ledger.levels import COVERAGE
from gpuledger.ledger.window import NEEDS
from gpuledger.present.views.report_parts import verdict
from gpuledger.units import share_text
from support.command import ROOT
from support.profiles.corpus import CORPUS, corpus_file
from support.profiles.opened import report_of, trace_of
from support.thorough import some
from support.traces.saving_laws import broken_laws

OURS = sorted(path.name.removesuffix(".xz") for path in (ROOT / "captures" / "nsys").glob("*.sqlite.xz"))
TORCH = sorted((ROOT / "captures" / "torch").glob("*.json.gz"))
OTHERS = sorted(path.name for path in (*CORPUS.glob("*.sqlite.xz"), *(CORPUS.parent / "torch").glob("*.json.gz")))

NOBODYS = (Cause.UNRECORDED, Cause.LOST, Cause.TAIL)


def check(run: ProfiledRun) -> None:
    """What every report keeps."""
    device, said = run.main_device, str(verdict(run))
    told = headline(device, run.findings)
    total = device.ledger.total()
    busy = sum(ns for line, ns in total.items() if not line.is_idle) / device.ledger.window_ns
    assert told.busy_share == pytest.approx(busy)
    figure = busy if told.steps is None else told.steady_busy_share
    assert f"busy {share_text(figure)}" in said, "the first number is the steps', or the window's where there are none"
    if told.steps is not None and told.coverage < COVERAGE:
        assert share_text(told.coverage) in said, "steps that cover less than the window say so"
    losses = {str(line.label): ns for line, ns in device.line_ns.items() if not (line.is_compute or line.is_idle)}
    losses |= {str(idle_label(at)): ns for at, ns in device.idle_by_trigger.items() if at not in NOBODYS}
    largest = max(losses, key=lambda label: losses[label], default=None)
    if largest is not None and losses[largest] >= MIN_LOSS_SHARE * device.steady_ns and not run.is_graph_capture:
        about = 0 if told.finding is None else max(told.finding.explains_ns, told.finding.saving_ns)
        assert 2 * about >= losses[largest] or largest in said, f"{largest} is passed over: {said}"
        assert "No fix stands out" not in said
    if "No fix stands out" in said:
        most = [line.family for line, ns in device.shown_ns.items() if line.is_compute and 2 * ns >= device.steady_ns]
        assert not most or most[0] in (OTHER, GRAPH_FAMILY) or most[0] in said, f"{most[0]} is passed over: {said}"
        assert device.coverage >= 0.5 or told.unrecorded is None
        assert not any(finding.saving_ns >= MIN_HEADLINE_SHARE * device.steady_ns for finding in run.findings)
    assert broken_laws(run) == []
    for finding in run.findings:
        for evidence in finding.evidence:
            assert evidence.share is None or 0 <= evidence.share <= 1
            assert evidence.share is None or evidence.of, f"a share of nothing: {evidence.sentence}"
            assert len(evidence.correlations) <= 20


@pytest.mark.parametrize("name", some(OURS, 3, first=2))
def test_our_captures_are_told_as_they_are_booked(name: str, unpacked: Callable[[str], Path]) -> None:
    check(report_of(unpacked(name)))


@pytest.mark.parametrize("path", TORCH, ids=[path.name for path in TORCH])
def test_our_torch_captures_are_told_as_they_are_booked(path: Path) -> None:
    check(report_of(path))


@pytest.mark.parametrize("name", some(OTHERS, 4))
def test_public_profiles_are_told_as_they_are_booked(name: str) -> None:
    path = corpus_file(name)
    if not any(len(trace_of(path)[table]) for table in NEEDS):
        pytest.skip("nothing ran on a GPU")
    check(report_of(path))

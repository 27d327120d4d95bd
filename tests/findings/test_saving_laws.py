"""What no saving may exceed: the laws that every profile is held to see a claim that breaks them."""

from __future__ import annotations

import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpuledger import build_report, open_trace
from gpuledger.verbs.profiled_report import Report
from gpuledger.verbs.whatif import whatif
from support.command import ROOT
from support.profiles.opened import report_of, trace_of
from support.profiles.random_export import SCHEMA, write
from support.thorough import some
from support.traces.program import Program
from support.traces.saving_laws import broken_laws, waits_with_their_gaps_ns

CAPTURES = ROOT / "captures"


@pytest.fixture(scope="module")
def report() -> Report:
    """Steps that read a number back, so that the GPU runs dry."""
    run = Program()
    for _ in range(12):
        with run.range("step"):
            for _ in range(5):
                run.host(4)
                run.kernel("gemm_tn", 20)
            run.read()
            run.host(60)
    return build_report(run.trace())


def claiming(report: Report, code: str, **claim: Any) -> Report:
    """The same, but for what one finding says."""
    assert code in {found.code for found in report.findings}
    changed = tuple(replace(found, **claim) if found.code == code else found for found in report.findings)
    return replace(report, findings=changed)


def test_what_is_said_keeps_them(report: Report) -> None:
    assert broken_laws(report) == []


def test_more_than_is_lost_is_seen(report: Report) -> None:
    alone, then = broken_laws(claiming(report, "HOST-SYNC", explains_ns=1))
    assert alone.startswith("HOST-SYNC saves ")
    assert (alone[-23:], then[-23:]) == (" ns of 1, the time lost",) * 2


def test_more_than_the_waits_with_their_gaps_is_seen(report: Report) -> None:
    too_much = waits_with_their_gaps_ns(report.main_device) + 1
    broken = broken_laws(claiming(report, "HOST-SYNC", saving_ns=too_much, explains_ns=too_much))
    assert broken == [f"HOST-SYNC saves {too_much} ns of {too_much - 1}, the waits with their gaps"]


def test_more_than_all_idle_time_in_order_is_seen(report: Report) -> None:
    steady = report.main_device.steady_ns
    broken = broken_laws(claiming(report, "HOST-SYNC", then_ns=steady, explains_ns=steady))
    assert any(text.startswith("of idle time ") for text in broken), broken


@pytest.mark.parametrize(
    ("tool", "parts", "lost_us"),
    [("nsys", 0, 0), ("nsys", 200, 0), ("torch.profiler", 0, 0), ("torch.profiler", 200, 200 * 3.3)],
)
def test_a_stretch_loses_what_its_events_cost_and_no_more(tool: str, parts: int, lost_us: float) -> None:
    """The host takes 2 ms between two launches; torch records 200 operators in it, or none; NVTX ranges are free."""
    run = Program()
    for _ in range(12):
        run.kernel("gemm_tn", 10)
        for _ in range(parts):
            with run.range("part"):
                run.host(10)
        run.host(2_000 - 10 * parts)
    trace = run.trace()
    report = build_report(replace(trace, origin=replace(trace.origin, tool=tool)))
    [found] = [found for found in report.findings if found.code == "HOST-CODE"]
    assert found.plain is not None
    call_us = {"nsys": 13, "torch.profiler": 3.3}[tool]
    assert found.plain.low_ns == pytest.approx(0.8 * found.saving_ns * (1 - (lost_us + call_us) / 2_000), rel=0.01)


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_no_generated_export_says_more_than_there_is(first: int, tmp_path: Path) -> None:
    """Times of a few nanoseconds, and of tens of microseconds."""
    for number in some(range(first, first + 20), 5):
        path = tmp_path / f"{number}.sqlite"
        write(path, number)
        if number % 2:
            _stretch(path, 10_000)
        assert broken_laws(build_report(open_trace(path))) == []


def _stretch(path: Path, factor: int) -> None:
    """All times of an export, so many times as long."""
    with closing(sqlite3.connect(path)) as database, database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            if "start INTEGER" in SCHEMA[name]:
                database.execute(f"UPDATE {name} SET start = start * {factor}, end = end * {factor}")


@pytest.mark.parametrize("name", ["planted", "zoo_llm", "library", "together", "structures", "busy"])
def test_no_capture_of_a_planted_fault_says_more_than_there_is(name: str, tmp_path: Path) -> None:
    with tarfile.open(CAPTURES / "nsys" / f"{name}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    for path in some(sorted(tmp_path.rglob("*.sqlite")), 6):
        assert broken_laws(build_report(open_trace(path))) == [], path.name


SAID = [*sorted((CAPTURES / "nsys").glob("*.sqlite.xz")), *sorted((CAPTURES / "torch").glob("*.json.gz"))]


@pytest.mark.parametrize("path", some(SAID, 4), ids=lambda path: path.name)
def test_whatif_says_what_the_report_says(path: Path) -> None:
    """Of each fix alone; one that would make the step longer saves nothing."""
    report = report_of(path)
    fixes = {found.code: found for found in report.findings if found.edit and found.gpu == report.main_device.gpu}
    if not fixes:
        pytest.skip("nothing to fix")
    told = whatif(trace_of(path), [("fix", code) for code in fixes])
    steps = report.main_device.step_count
    for change, found in zip(told.changes, fixes.values(), strict=True):
        assert max(change.saving_ns, 0) * steps == pytest.approx(found.saving_ns, abs=steps)
        plain: tuple[int | None, ...] = (None, None, None)
        if found.plain is not None:
            plain = tuple(
                None if ns is None else ns // steps for ns in (found.plain.ns, found.plain.low_ns, found.plain.high_ns)
            )
        assert (change.plain_saving_ns, change.plain_low_ns, change.plain_high_ns) == plain

"""The first sentence, the table under it and the page say one thing, of every profile.

The same trigger, the same number, the same words: a finding's time is that of its lines in the table, and a page has no
second number under the same name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from gpuledger.analyse.diff.from_trace import side_of
from gpuledger.analyse.diff.run_side import RunSide
from gpuledger.answers.report import ReportAnswer
from gpuledger.errors import GpuledgerError
from gpuledger.findings.about_gaps import ABOUT_GAPS
from gpuledger.findings.profiled_run import headline
from gpuledger.findings.words import per_step
from gpuledger.ledger.books import EXPOSED, LineKind
from gpuledger.ledger.causes import TRIGGERS, idle_label
from gpuledger.present.document import LedgerRow, Section, SheetBlock
from gpuledger.present.views.page.breakdown import ledger_section
from gpuledger.present.views.page.report_page import tiles
from gpuledger.present.views.report_parts import ledger_block, saving_share, verdict
from gpuledger.present.views.words import largest_line_sentence
from gpuledger.read import open_trace
from gpuledger.units import share_text, time_text
from gpuledger.verbs.profiled_report import Report
from gpuledger.verbs.report import build_report
from support.command import ROOT
from support.pages.html_pages import page_of, parsed, values
from support.profiles.corpus import CORPUS, members, timelines
from support.thorough import some
from support.traces.program import Program
from support.traces.saving_laws import broken_laws

OURS = timelines(ROOT / "captures")
OTHERS = timelines(CORPUS.parent)
PAGES = (*some(OURS, 6), *some(OTHERS, 6))
"""Whose pages are written out and read back: they say what their parts say."""

LOST = re.compile(r"([\d.]+ %) of the time is ((?:exposed|idle: )[^.]+)\.")
TRIGGERS_OF = {rule.code: rule.triggers for rule in ABOUT_GAPS}
EXPOSED_OF = {"COPY-EXPOSED": LineKind.COPY, "COPY-BOUND": LineKind.COPY, "COMM-EXPOSED": LineKind.COMM}


def shown_rows(report: Report) -> dict[str, LedgerRow]:
    rows = ledger_block(report).rows
    assert len({row.name for row in rows}) == len(rows)
    return {str(row.name): row for row in rows}


def check_sentence(report: Report, rows: Mapping[str, LedgerRow]) -> None:
    """What it says is lost is a line of the table; what it says the GPU waited is those of its trigger."""
    device, said = report.main_device, str(verdict(report))
    idle = {name: row.share for name, row in rows.items() if name.startswith("idle: ")}
    told = headline(device, report.findings)
    assert 1 - sum(idle.values()) == pytest.approx(told.steady_busy_share)
    for share, name in LOST.findall(said):
        assert share_text(rows[name].share) == share, said
    if told.finding is None or told.finding.gpu != device.gpu:
        return
    code, claim = told.finding.code, str(told.finding.claim)
    if code in TRIGGERS_OF:
        idle_ns = sum(device.idle_by_trigger.get(trigger, 0) for trigger in TRIGGERS_OF[code])
        assert per_step(device, idle_ns) in claim or "idle after syncs" in claim, (claim, idle)
    if code == "COPY-BOUND":
        assert share_text(rows[EXPOSED[LineKind.COPY]].share) in claim
    elif code in EXPOSED_OF:
        assert rows[EXPOSED[EXPOSED_OF[code]]].time in claim


def check_text(report: Report, rows: Mapping[str, LedgerRow]) -> None:
    text = report.to_text(width=2_000)
    lines = [line.split() for line in text.splitlines()]
    assert str(verdict(report)) in " ".join(text.split())
    for row in rows.values():
        assert any(
            line[-len(expected) :] == expected and line[: len(row.name.split())] == row.name.split()
            for line in lines
            for expected in [f"{share_text(row.share)} {row.time}".split()]
        ), row


def rows_at(section: Section, anchor: str) -> list[Any]:
    """The rows of a section's table; none where it has no such table."""
    tables = [block for block in section.blocks if isinstance(block, SheetBlock) and block.anchor == anchor]
    return [row for table in tables for row in table.sheet.rows]


def check_page(report: Report, rows: Mapping[str, LedgerRow]) -> None:
    """Tables under the first screen have its numbers."""
    device, answer = report.main_device, ReportAnswer(report)
    steady = {str(line.words): share / 100 for line, share, *_ in rows_at(ledger_section(answer), "ledger") if share}
    for name in steady.keys() & rows.keys():
        assert share_text(steady[name]) == share_text(rows[name].share)
    assert {name for name in steady if name.startswith("idle: ")} == {
        name for name in rows if name.startswith("idle: ")
    }
    by_trigger: dict[str, int] = {}
    for row in answer.gaps.by_trigger:
        name = f"idle: {row.trigger.label}"
        by_trigger[name] = by_trigger.get(name, 0) + row.time_ns
    assert by_trigger == {str(idle_label(trigger)): ns for trigger, ns in device.idle_by_trigger.items()}


def check_steps(report: Report) -> None:
    """`steps`, `diff` and timelines tell idle time as the first screen does."""
    device, [side] = report.main_device, [side_of_report(report)]
    lines, tiles = device.shown_tiles
    steady = dict(zip(lines, tiles[device.steady_tiles].sum(axis=0).tolist(), strict=True))
    assert {line: ns for line, ns in steady.items() if ns} == {line: ns for line, ns in device.shown_ns.items() if ns}
    shown = {line: round(ns * side.steps) for line, ns in side.shown_mean_ns.items()}
    assert {line: ns for line, ns in shown.items() if ns} == {line: ns for line, ns in device.shown_ns.items() if ns}
    largest = max(device.shown_ns.values())
    assert f", {share_text(largest / device.steady_ns)}; " in str(largest_line_sentence(device))


def side_of_report(report: Report) -> RunSide:
    return side_of(report.trace, report.devices, report.main_device, report.name)


def check_json(report: Report) -> None:
    [device] = [device for device in report.to_dict()["devices"] if device["device"] == report.main_device.gpu]
    by_trigger: dict[str, int] = {}
    for part in device["triggers"]:
        by_trigger[part["trigger"]] = by_trigger.get(part["trigger"], 0) + part["ns"]
    assert by_trigger == {str(trigger): ns for trigger, ns in report.main_device.idle_by_trigger.items()}
    assert sum(by_trigger.values()) == sum(
        line["ns"] for line in device["steady"]["ledger"] if line["line"].startswith("idle.")
    )


def check_written_page(report: Report, rows: Mapping[str, LedgerRow]) -> None:
    page, device = parsed(page_of(report)), report.main_device
    [said] = [part.text for part in page.all("p") if part.attrs.get("class") == "verdict"]
    assert said == str(verdict(report)).replace("`", "")
    shown = {tile.name: tile for tile in tiles(ReportAnswer(report)).tiles}
    busy = 1 - sum(device.idle_by_trigger.values()) / device.steady_ns
    assert shown["GPU busy"].value == share_text(busy)
    first = next((finding for finding in report.findings if finding.saving_ns), None)
    if first is not None:
        assert shown["Fix first"].note == f"{share_text(saving_share(report, first) or 0)} · {first.code}"
        assert shown["Fix first"].value in report.to_text(width=400)
    hints = page.one("ledger-chart").text
    for name, row in rows.items():
        if name.startswith(("idle: ", "exposed ")):
            assert f"{name}: {share_text(row.share)} ({row.time})" in hints
    if device.steps is not None:
        steps = json.loads(page.one("steps-json").text)
        known = {str(idle_label(trigger)) for trigger in TRIGGERS}
        assert {label for line, _, label in steps["lines"] if line.startswith("idle.")} <= known
        assert values(page.one("median-step"), 1, foot=True) == [sum(steps["median_lines_ns"])]


def check(report: Report, *, written: bool) -> None:
    rows = shown_rows(report)
    assert broken_laws(report) == []
    check_sentence(report, rows)
    check_text(report, rows)
    check_page(report, rows)
    check_json(report)
    check_steps(report)
    if written:
        check_written_page(report, rows)


@pytest.mark.parametrize(
    "packed", [*some(OURS, 3), *some(OTHERS, 3)], ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_sentence_table_and_page_agree(packed: Path, tmp_path: Path) -> None:
    profiles, refusals = list(members(packed, tmp_path)), []
    assert profiles
    if len(profiles) > 4:  # an archive of them
        profiles = list(some(profiles, 5))
    for number, profile in enumerate(profiles):
        try:
            report = build_report(open_trace(profile), profile.name)
        except GpuledgerError as refused:  # of a profile without GPU work nothing is said
            refusals.append(str(refused))
            continue
        check(report, written=packed in PAGES and not number)
    if len(refusals) == len(profiles):
        pytest.skip(refusals[0])


def test_a_gap_over_the_edge_of_the_steps_counts_with_its_part() -> None:
    """The first step waits since before it began; both it and the steps after it are told by the same clock."""
    program = Program()
    program.kernel("gemm", 500)
    program.host(3_000)
    for number in range(6):
        with program.range(f"step {number}"):
            program.host(1_000)
            program.kernel("gemm", 400)
            program.wait()
    report = build_report(program.trace())
    device = report.main_device
    idle_ns = sum(ns for line, ns in device.line_ns.items() if line.is_idle)
    assert sum(time for time, _ in device.triggers.values()) == idle_ns == sum(device.idle_by_trigger.values())
    check(report, written=True)


def test_a_page_with_little_room_keeps_its_first_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program()
    for _ in range(10):
        program.host(400)
        program.kernel("a_kernel_with_a_name_of_some_length_that_is_most_of_the_program", 900)
        program.wait()
    report = build_report(program.trace())
    monkeypatch.setattr("gpuledger.present.writers.html.page.LARGEST", 1)
    [said] = [part.text for part in parsed(page_of(report)).all("p") if part.attrs.get("class") == "verdict"]
    assert said == str(verdict(report))


def test_late_launches_and_those_after_syncs_are_told_apart() -> None:
    """Lines of the table add up to what the finding is about, each under its own name."""
    program = Program()
    for _ in range(20):
        for _ in range(12):
            program.host(20)
            program.kernel("tiny", 3)
        program.read()
    report = build_report(program.trace())
    device = report.main_device
    claims = " ".join(str(finding.claim) for finding in report.findings)
    shown = [time_text(ns // device.step_count) for ns in device.idle_by_trigger.values()]
    assert any(time in claims for time in shown)
    check(report, written=False)


def test_every_code_about_idle_time_has_lines_in_the_table() -> None:
    assert set(chain(*TRIGGERS_OF.values())) <= set(TRIGGERS)

"""The cases are whole: their captures are there, their causes are known, their numbers are those that were measured."""

from __future__ import annotations

import json
import re
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gpuledger.diagnosis.cases import RECORDING, MeasuredSaving, diagnosis_benchmark
from gpuledger.diagnosis.score import captures_folder
from gpuledger.findings.pages import codes
from support.command import ROOT

BENCHMARK = diagnosis_benchmark()
CAPTURES = ROOT / "captures"
SMALL = ("together", "structures")
"""Archives that are unpacked in a moment."""


def test_every_finding_of_ours_names_one_cause() -> None:
    mapped = [code for cause in BENCHMARK.causes for code in cause.codes]
    assert sorted(mapped) == list(codes())


def test_every_word_names_one_thing() -> None:
    words = [word for cause in BENCHMARK.causes for word in (cause.id, *cause.aliases)]
    assert [word for word, count in Counter(words).items() if count > 1] == []
    assert set(words) & BENCHMARK.areas.keys() == {RECORDING}
    assert {cause.area for cause in BENCHMARK.causes} == BENCHMARK.areas.keys()
    assert all(BENCHMARK.named(word) is not None for word in words)  # as they would be normalised


def test_a_case_says_what_its_kind_needs() -> None:
    reasons = {cause.id for cause in BENCHMARK.causes if cause.area != RECORDING}
    assert {case.group for case in BENCHMARK.cases} == {group.id for group in BENCHMARK.groups}
    assert len({case.id for case in BENCHMARK.cases}) == len(BENCHMARK.cases)
    for case in BENCHMARK.cases:
        assert {*case.accepted, *case.never} <= reasons, case.id
        assert bool(case.faults) == (case.kind == "fault"), case.id
        assert bool(case.never) == (case.kind in ("fixed", "decoy")), case.id
        for fault in case.faults:
            savings = (fault.profiled, fault.plain)
            assert all(savings) != bool(fault.not_measured), case.id
            assert all(0 < saving.saves_ns < saving.step_ns for saving in savings if saving is not None), case.id


def test_a_fixed_program_never_has_what_was_wrong() -> None:
    by_id = {case.id: case for case in BENCHMARK.cases}
    fixed = [case for case in BENCHMARK.cases if case.kind == "fixed"]
    assert [case.never for case in fixed] == [by_id[case.id.removesuffix(".fixed")].accepted for case in fixed]


def test_every_archive_is_there_and_small_ones_hold_their_captures() -> None:
    places = [place for case in BENCHMARK.cases for place in (case.capture, case.torch) if place]
    assert [place for place in places if not (CAPTURES / place.partition("::")[0]).is_file()] == []
    for group in SMALL:
        with tarfile.open(CAPTURES / "nsys" / f"{group}.tar.xz") as archive:
            held = set(archive.getnames())
        assert {case.capture.partition("::")[2] for case in BENCHMARK.cases if case.group == group} <= held


def _step_ns(group: str) -> dict[str, Any]:
    with tarfile.open(CAPTURES / "nsys" / f"{group}.tar.xz") as archive:
        file = archive.extractfile(f"{group}/step_ns.json")
        assert file is not None
        steps: dict[str, Any] = json.load(file)
    return steps


@pytest.mark.parametrize("how", ["profiled", "plain"])
def test_savings_are_those_that_were_measured(how: str) -> None:
    """Of two faults, each fixed alone; of streams and graphs, the slower variant against the faster one."""
    together, structures = (_step_ns(group) for group in SMALL)
    for case in BENCHMARK.cases:
        if case.group == "together":
            steps = {variant: round(step[how]) for variant, step in together[case.id].items()}
            bad, fixes = steps["bad"], [steps["fix1"], steps["fix2"]]
        elif case.group == "structures" and case.id in structures:
            bad, *fixes = (round(step[how]) for step in structures[case.id].values())
        else:
            continue
        assert [getattr(fault, how) for fault in case.faults] == [MeasuredSaving(bad, bad - fix) for fix in fixes]


def test_planted_savings_are_those_of_the_page() -> None:
    page = (ROOT / "docs" / "concepts" / "planted-causes.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines()]
    shown = {row[0]: (row[4], row[6]) for row in rows if len(row) == 7 and re.fullmatch(r"[a-z_]+", row[0])}
    planted = [case for case in BENCHMARK.cases if case.group in ("planted", "zoo_llm") and case.faults]
    assert {case.id for case in planted} == shown.keys() - {"case"}
    for case in planted:
        saving = case.all_fixed.profiled if case.all_fixed else case.faults[0].profiled
        assert saving is not None
        assert (f"{saving.saves_ns / 1e6:.2f}", f"{saving.step_ns / 1e6:.2f}") == shown[case.id]


def test_captures_are_found_from_anywhere_in_the_repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert captures_folder(BENCHMARK) == CAPTURES

"""What is right scores, and nothing else does."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuledger.diagnosis.cases import (
    CaseAnswer,
    DiagnosisAnswers,
    DiagnosisCase,
    MeasuredSaving,
    NamedFinding,
    answers_of,
    answers_text,
    diagnosis_benchmark,
)
from gpuledger.diagnosis.score import ScoreTally, ToolScore, tool_score
from gpuledger.errors import GpuledgerError
from support.pages.schemas import schema_of

BENCHMARK = diagnosis_benchmark()


def scored(**answers: list[tuple[str, float | None]]) -> ToolScore:
    """Cases (`__` for a dot) and what is said of them: causes with their savings."""
    named = {name.replace("__", "."): findings for name, findings in answers.items()}
    cases = tuple(
        CaseAnswer(name, tuple(NamedFinding(cause, "", saving) for cause, saving in findings))
        for name, findings in named.items()
    )
    return tool_score(BENCHMARK.only(named.keys()), DiagnosisAnswers("some", cases))


def test_each_measure_by_hand() -> None:
    """Right and near; right, third and far off; the right area only; nothing; a claim that is false, one too small."""
    score = scored(
        sleep=[("host-blocked", 60.0)],
        casts=[("idle", None), ("host_sync", 3.0), ("Type conversion", 10.0)],
        numpy_between=[("host-blocked", 50.0)],
        alloc=[],
        sleep__fixed=[("sleep", None)],
        casts__fixed=[("casts", 4.9)],
        llama_tuned=[("something is slow", 20.0)],
        resnet_tuned=[("idle", 50.0)],
    )
    error = 60.0 / (100 * 6_240_000 / 10_850_000) - 1
    far = 1 - 10.0 / (100 * 2_920_000 / 7_190_000)
    assert score.total.median_error == pytest.approx((error + far) / 2)
    assert replace(score.total, median_error=None) == ScoreTally(
        tool="some",
        faults=4,
        first=1,
        in_first_three=2,
        area=2,
        measured=4,
        savings_given=2,
        savings_within=1,
        median_error=None,
        controls=4,
        claimed=2,
        answered=8,
    )
    assert {one.id: one.not_in_list for one in score.cases if one.not_in_list} == {
        "llama_tuned": ("something is slow",)
    }


def test_of_two_faults_each_is_held_against_its_own_fix() -> None:
    first, second = (scored(sleep_pageable=[(cause, 20.0)]).cases[0] for cause in ("sleep", "pageable memory"))
    assert first.measured_ns is not None
    assert second.measured_ns is not None
    assert (first.place, second.place) == (1, 1)
    assert first.measured_ns < second.measured_ns


def test_what_is_not_answered_is_missed() -> None:
    score = tool_score(BENCHMARK.only({"sleep", "alloc"}), DiagnosisAnswers("some", ()))
    assert (score.total.answered, score.total.first, score.total.faults) == (0, 0, 2)


def _words(cause: str) -> tuple[str, ...]:
    return next((known.id, *known.aliases) for known in BENCHMARK.causes if known.id == cause)


def perfect(seed: int) -> DiagnosisAnswers:
    """What is right of every case, in any of the words for it, and nothing else."""
    chance = random.Random(seed)

    def finding(case: DiagnosisCase) -> NamedFinding:
        word = chance.choice(_words(chance.choice(case.accepted)))
        told = chance.choice([word, word.upper(), word.replace("-", " "), word.replace("-", "_")])
        cause = BENCHMARK.named(told)
        saving = next(fault for fault in case.faults if cause in fault.accepted).saving
        return NamedFinding(told, "", saving.percent if isinstance(saving, MeasuredSaving) else None)

    return DiagnosisAnswers(
        "perfect", tuple(CaseAnswer(case.id, (finding(case),) if case.faults else ()) for case in BENCHMARK.cases)
    )


def perfect_answers() -> st.SearchStrategy[DiagnosisAnswers]:
    """One draw, as drawing each word by itself takes longer than all the rest."""
    return st.integers(0, 2**32).map(perfect)


@given(perfect_answers())
def test_perfect_answers_score_everything(answers: DiagnosisAnswers) -> None:
    total = tool_score(BENCHMARK, answers).total
    assert total.first == total.in_first_three == total.area == total.faults
    assert total.savings_within == total.savings_given == total.measured
    assert total.median_error == pytest.approx(0, abs=1e-12)
    assert total.claimed == 0


@given(perfect_answers(), st.integers(1, len(BENCHMARK.cases) - 1))
def test_the_same_answers_to_other_cases_do_not(answers: DiagnosisAnswers, by: int) -> None:
    """Of all 100, however they are moved on."""
    findings = [answer.findings for answer in answers.cases]
    moved = [*findings[by:], *findings[:by]]
    cases = tuple(CaseAnswer(case.id, told) for case, told in zip(BENCHMARK.cases, moved, strict=True))
    total = tool_score(BENCHMARK, DiagnosisAnswers("moved", cases)).total
    assert total.first < total.faults / 2


def test_empty_answers_name_nothing_and_claim_nothing() -> None:
    empty = DiagnosisAnswers("empty", tuple(CaseAnswer(case.id, ()) for case in BENCHMARK.cases))
    total = tool_score(BENCHMARK, empty).total
    assert (total.first, total.in_first_three, total.savings_given, total.claimed) == (0, 0, 0, 0)
    assert total.median_error is None


def test_who_claims_everything_is_seen_through() -> None:
    """Only the first three count, and controls hold them against the tool."""
    words = tuple(NamedFinding(cause.id) for cause in BENCHMARK.causes)
    total = tool_score(
        BENCHMARK, DiagnosisAnswers("all", tuple(CaseAnswer(c.id, words) for c in BENCHMARK.cases))
    ).total
    assert total.in_first_three < total.faults / 4
    assert total.claimed > 0


@given(perfect_answers())
def test_findings_about_the_recording_take_no_place(answers: DiagnosisAnswers) -> None:
    noise = (NamedFinding("recording"), NamedFinding("capture quality", "", 90.0))
    noisy = tuple(CaseAnswer(answer.id, (*noise, *answer.findings)) for answer in answers.cases)
    before, after = (tool_score(BENCHMARK, DiagnosisAnswers("some", cases)) for cases in (answers.cases, noisy))
    assert before.total == after.total


@given(perfect_answers())
def test_answers_survive_their_file_and_follow_their_schema(answers: DiagnosisAnswers) -> None:
    text = answers_text(answers)
    assert answers_of(text, "a.json", BENCHMARK) == answers
    schema_of("diagnosis-answers").validate(json.loads(text))


GOOD = '{"tool": "t", "cases": [{"id": "sleep", "findings": [%s]}]}'
BAD = {
    "empty": "",
    "cut": '{"tool": "t", "cases": [',
    "a list": "[]",
    "no tool": '{"cases": []}',
    "findings that are text": '{"tool": "t", "cases": [{"id": "sleep", "findings": "host-sync"}]}',
    "a misspelt field": GOOD % '{"cause": "sleep", "savings_percent": 3}',
    "a saving that is text": GOOD % '{"cause": "sleep", "saving_percent": "60 %"}',
    "a saving above all": GOOD % '{"cause": "sleep", "saving_percent": 1e400}',
    "a saving below nothing": GOOD % '{"cause": "sleep", "saving_percent": -1}',
    "no number": GOOD % '{"cause": "sleep", "saving_percent": NaN}',
    "no cause": GOOD % '{"cause": ""}',
    "half a character": GOOD % '{"cause": "\\ud800"}',
    "not UTF-8": b'{"tool": "\xff", "cases": []}',
    "deep": '{"tool": ' + "[" * 100_000,
    "another document": '{"schema": "gpuledger.report/1", "tool": "t", "cases": []}',
    "an unknown case": '{"tool": "t", "cases": [{"id": "sleeep", "findings": []}]}',
    "a case twice": '{"tool": "t", "cases": [{"id": "sleep", "findings": []}, {"id": "sleep", "findings": []}]}',
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_bad_answers_are_refused_in_one_sentence(text: str | bytes) -> None:
    with pytest.raises(GpuledgerError) as refused:
        answers_of(text if isinstance(text, bytes) else text.encode(), "a.json", BENCHMARK)
    assert refused.value.claim.startswith("a.json: ")
    assert refused.value.hint

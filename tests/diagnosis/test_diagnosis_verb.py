"""`gpuledger bench diagnosis`: real captures in, a score out; and another tool's answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuledger.diagnosis import score
from gpuledger.present.safe_text import display_width
from support.command import gpuledger
from support.pages.chinese_text import CJK
from support.pages.schemas import schema_of

FEW = "--only=side_streams,legacy_stream,sleep_pageable"
"""From small archives: one that we name, one that we miss, one with two faults."""


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Our answers to a few cases, and the score that was printed with them."""
    file = tmp_path_factory.mktemp("answers") / "ours.json"
    ran = gpuledger("bench", "diagnosis", FEW, f"--write-answers={file}", "--format=json")
    assert ran.exit_code == 0, ran.stderr
    assert f"Wrote {file}\n3 captures in " in ran.stderr
    return file, ran.stdout


def test_real_captures_are_scored(answered: tuple[Path, str]) -> None:
    score = json.loads(answered[1])
    schema_of("diagnosis").validate(score)
    schema_of("diagnosis-answers").validate(json.loads(answered[0].read_text()))
    [tool] = score["tools"]
    assert {case["id"]: (case["place"], case["first"]) for case in tool["cases"]} == {
        "side_streams": (1, "under-filled"),
        "legacy_stream": (None, "under-filled"),
        "sleep_pageable": (1, "pageable-copies"),
    }
    assert (tool["total"]["first"], tool["total"]["faults"], tool["total"]["controls"]) == (2, 3, 0)


def test_the_same_answers_from_a_file_score_the_same(answered: tuple[Path, str]) -> None:
    ran = gpuledger("bench", "diagnosis", FEW, f"--answers={answered[0]}", "--format=json")
    assert (ran.exit_code, ran.stdout) == (0, answered[1])


def test_tools_are_compared_and_what_is_missing_is_told(answered: tuple[Path, str], tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    finding = {"cause": "gremlins", "where": "everywhere"}
    other.write_text(json.dumps({"tool": "other", "cases": [{"id": "side_streams", "findings": [finding]}]}))
    ran = gpuledger("bench", "diagnosis", FEW, f"--answers={answered[0]}", f"--answers={other}", COLUMNS="80")
    assert ran.exit_code == 0
    assert "other: names the fault first in 0/3 (0.0 %), in its first three in 0/3 (0.0 %); savings" in " ".join(
        ran.stdout.split()
    )
    assert "note: other does not answer 2 cases; they count as missed." in ran.stdout
    assert "count as wrong: gremlins." in " ".join(ran.stdout.split())
    assert max(map(len, ran.stdout.splitlines())) <= 80


def test_it_speaks_chinese_and_fits(answered: tuple[Path, str]) -> None:
    shown = gpuledger("bench", "diagnosis", FEW, f"--answers={answered[0]}", "--lang=zh", COLUMNS="80").stdout
    assert CJK.search(shown)
    assert max(map(display_width, shown.splitlines())) <= 80


def test_without_captures_one_sentence_says_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score, "__file__", str(tmp_path / "own_answers.py"))
    ran = gpuledger("bench", "diagnosis", cwd=tmp_path)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: the captures of the cases are not here\n")


def test_an_answer_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"tool": "\x1b[31m"')
    for name in ("bad.json", "missing.json"):
        ran = gpuledger("bench", "diagnosis", f"--answers={tmp_path / name}")
        assert (ran.exit_code, ran.stdout) == (1, "")
        assert ran.stderr.startswith(f"error: {tmp_path / name}: ")
        assert "\x1b" not in ran.stderr


def test_answers_are_not_overwritten(answered: tuple[Path, str]) -> None:
    ran = gpuledger("bench", "diagnosis", FEW, f"--write-answers={answered[0]}")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "exists already" in ran.stderr

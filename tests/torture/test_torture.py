"""`make torture`, for some seconds; and that it would see what it looks for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.command import ROOT
from support.thorough import IS_THOROUGH
from torture.__main__ import _Kept
from torture.bench import BAD, Tried, Verdict
from torture.growth import WORST_EXPONENT, fitted
from torture.oracle import judged, sane


def answered(ns: int, window_ns: int = 10, device: int = 0, health: tuple[str, ...] = ()) -> Tried:
    devices = [{"device": device, "window_ns": window_ns, "ledger": [{"name": "busy", "ns": ns}]}]
    return Tried("read", 0.1, 1, "", {"devices": devices, "health": list(health), "not_measured": []})


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        (answered(10), "equal"),
        (answered(8, 8), "silent"),
        (answered(8, 8, health=("rows-dropped",)), "told"),
        (answered(8), "wrong"),  # the lines do not sum to the window
        (answered(10, device=-1), "wrong"),
        (Tried("refused", 0.1, 1, "error: a.sqlite: damaged"), "refused"),
        (Tried("hang", 15.0, 1, ""), "hang"),
    ],
)
def test_an_answer_is_held_against_that_of_the_whole_profile(changed: Tried, verdict: str) -> None:
    assert judged(answered(10), changed) == verdict
    assert sane(changed) == ("read" if verdict in ("equal", "silent", "told") else verdict)


def test_growth_with_the_square_is_told_from_growth_with_the_size() -> None:
    assert fitted([0.1, 0.25, 0.55, 1.1, 2.2], least=2.0) < WORST_EXPONENT
    assert fitted([0.02, 0.1, 0.5, 2.0, 8.0], least=2.0) > WORST_EXPONENT
    assert fitted([0.001, 0.1], least=2.0) == 0  # too little to tell


def test_what_is_found_is_kept_with_its_seed(tmp_path: Path) -> None:
    (tmp_path / "a.sqlite").write_bytes(b"bad")
    _Kept(tmp_path / "finds", seed=5).add(Verdict("a table dropped", "silent", "", tmp_path / "a.sqlite"))
    [line] = (tmp_path / "finds" / "finds.jsonl").read_text().splitlines()
    find: dict[str, Any] = json.loads(line)
    assert (find["seed"], find["verdict"], find["case"]) == (5, "silent", "a table dropped")
    assert (tmp_path / "finds" / find["file"]).read_bytes() == b"bad"


def test_some_seconds_of_it_find_nothing(tmp_path: Path) -> None:
    words = (
        "-m",
        "torture",
        f"--minutes={0.2 if IS_THOROUGH else 0.05}",
        "--testers=1",
        "--seed=23",
        f"--keep={tmp_path}",
    )
    paths = os.pathsep.join((str(ROOT / "src"), str(ROOT / "tests")))
    ran = subprocess.run(
        [sys.executable, *words], env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=False
    )
    counted, bad = ran.stdout.splitlines()
    assert bad == ", ".join(f"0 {verdict}" for verdict in BAD), ran.stderr
    assert int(counted.split()[0]) >= 1

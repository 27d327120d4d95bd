"""`make torture`, for some seconds; and that it would see what it looks for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

import torture.__main__
from hostile import files
from hostile.forked import Server, server
from support.command import ROOT
from support.thorough import IS_THOROUGH
from torture.__main__ import Way, _gathered, _Kept, _test
from torture.bench import BAD, Bench, Tried, Verdict
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


def test_a_tester_that_fails_itself_is_a_find_and_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One ended at a server that would not start, and whoever counted waited for it without end."""

    def fails(_: Bench) -> Iterator[Verdict]:
        yield Verdict("a case", {"equal": "equal"}["structuredContent"])

    def finds(_: Bench) -> Iterator[Verdict]:
        yield from (Verdict("a case", "equal") for _ in range(3))
        monkeypatch.setattr(time, "monotonic", lambda: 1e12)
        yield Verdict("the last", "equal")

    class NoServer(Server):
        def __init__(self) -> None: ...
        def close(self) -> None: ...

    results = SimpleQueue[Verdict | None]()
    monkeypatch.setattr(torture.__main__, "WAYS", (Way("bad", fails, 1), Way("good", finds, 1)))
    monkeypatch.setattr(torture.__main__, "Bench", lambda folder, chance: Bench(folder, chance, NoServer()))
    _test("1", time.monotonic() + 60, results)
    counts = _gathered(results, 1, _Kept(tmp_path, seed=5))
    assert (counts["equal"], counts["crash"] > 0) == (4, True)
    told = json.loads((tmp_path / "counts.json").read_text())
    assert (told["cases"], told["failures"]) == (counts.total(), counts["crash"])
    assert told["ways"] == {"bad": counts["crash"], "good": 4}


def test_a_page_that_is_written_in_the_next_minute_is_the_same(tmp_path: Path) -> None:
    """One was torn: a page says when it was made, and the call that was to be killed had ended, a minute later."""
    profile = files.trace(tmp_path / "a.json")
    ran = server().run("report", profile, "-o", tmp_path / "a.html", folder=tmp_path / "ran")
    assert (ran.exit_code, "Made 2025-12-17 00:00 UTC." in (tmp_path / "a.html").read_text()) == (0, True)


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

"""`gpuledger whatif` as it is called: order, sums, what is refused, and Amdahl's arithmetic for tables."""

from __future__ import annotations

import json
import shlex
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from gpuledger.changes.answer import FasterPart
from support.command import gpuledger


def tables(*arguments: str | Path) -> dict[str, Any]:
    ran = gpuledger("whatif", *arguments, "--format=json")
    assert ran.exit_code == 0, ran.stderr
    told: dict[str, Any] = json.loads(ran.stdout)
    return told


def test_changes_are_told_alone_and_in_the_order_given(decode: Path) -> None:
    told = tables(decode, "--host=2", "--fix=LAUNCH-BOUND", "--speedup=gemm=2", "--fix=host-code", "--graph=decode")
    words = [
        "a host 2x faster",
        "LAUNCH-BOUND fixed",
        "gemm 2x faster",
        "HOST-CODE fixed",
        "range 'decode' in a graph",
    ]
    assert [row["change"] for row in told["changes"]] == words
    singly = told["in_order"]
    assert [row["change"] for row in singly] == words
    assert sum(row["saving_ns"] for row in singly) == told["now_ns"] - told["then_ns"]
    assert singly[0]["saving_ns"] == told["changes"][0]["saving_ns"]
    assert told["then_ns"] == pytest.approx(sum(row["then_ns"] for row in told["parts"]), abs=4)
    assert all(0 <= row["saving_ns"] <= row["now_ns"] for row in told["changes"])
    assert [row["is_bound"] for row in told["changes"]] == [False, True, False, False, True]


def test_one_change_has_no_order(decode: Path) -> None:
    assert not tables(decode, "--remove=sync")["in_order"]


def test_a_bad_change_does_not_spoil_the_others(decode: Path) -> None:
    ran = gpuledger("whatif", decode, "--remove=nothing", "--speedup=gemm=2", "--fix=HOST-CODES", "--format=csv")
    assert ran.exit_code == 1
    assert "gemm 2x faster" in ran.stdout
    assert "has no line, range or kernel 'nothing'" in ran.stderr
    assert "there is no finding HOST-CODES" in ran.stderr
    assert "names that come near: HOST-CODE" in ran.stderr
    alone = gpuledger("whatif", decode, "--remove=nothing")
    assert (alone.exit_code, alone.stdout) == (1, "")


def test_amdahl_keeps_saving_and_speed_up_apart() -> None:
    part = FasterPart("compute 10x faster", "", 1_000_000, 70_000, 63_000)
    assert part.saving_ns / part.whole_ns == pytest.approx(0.063)
    assert part.speed_up == pytest.approx(1.067, abs=0.001)
    assert part.limit == pytest.approx(1 / 0.93)


def test_without_a_change_it_says_what_could_be_asked_and_each_can_be(decode: Path) -> None:
    options = [shlex.split(row["option"])[0] for row in tables(decode)["questions"]]
    assert options[0] == "--fix=HOST-LOAD"
    assert {option.partition("=")[0] for option in options} >= {
        "--fix",
        "--speedup",
        "--remove",
        "--host",
        "--launch-cost",
    }
    assert gpuledger("whatif", decode, *options).exit_code == 0


def test_a_step_without_ranges_can_be_a_graph(decode: Path, tmp_path: Path) -> None:
    """What a whole step saves as a graph is what its range saves where it has one."""
    bare = tmp_path / "bare.sqlite"
    bare.write_bytes(decode.read_bytes())
    with sqlite3.connect(bare) as export:
        export.execute("DROP TABLE NVTX_EVENTS")
    saved = [
        tables(profile, f"--graph={what}")["changes"][0]["saving_ns"]
        for profile, what in ((decode, "decode"), (bare, "step"))
    ]
    assert saved[1] == pytest.approx(saved[0], rel=0.02)

"""The catalogue, case by case: see `catalogue` for what must happen, and `forked` for the bounds that hold."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from hostile.catalogue import CASES, Case, Read, Refused, Same
from hostile.files import Make
from hostile.forked import CPU_SECONDS, PATIENCE, Outcome, server
from support.thorough import some

CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff]")

NEEDS_LIBRARY = {"ncu: cut in half", "ncu: noise in it", "ncu: one launch without a payload"}
"""NVIDIA's library reads these, in a process of its own, from a copy in the temporary folder."""

COPIED = {"sqlite: rows in a write-ahead log", "sqlite: noise as a write-ahead log"}
"""A write-ahead log is read from a copy in the temporary folder."""

KNOWN: dict[str, str] = {}
"""What is not yet as the table says, and why."""


def listing(folder: Path) -> list[tuple[str, int, int]]:
    """All that lies in a folder, and whether it was touched."""
    return sorted(
        (os.fsencode(path).decode(errors="backslashreplace"), path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in folder.rglob("*")
    )


@functools.cache
def clean_books(make: Make, folder: Path) -> dict[str, Any]:
    """The numbers of a clean file."""
    folder.mkdir(parents=True, exist_ok=True)
    return books(server().run("report", "--format=json", make(folder), folder=folder / "ran"))


def books(ran: Outcome) -> dict[str, Any]:
    """What a report says, without the names of its file and GPUs, and its health."""
    document = json.loads(ran.stdout)
    for device in document["devices"]:
        del device["gpu_name"]
    kept = [sentence for sentence in document["sentences"] if not sentence.startswith(("Note: ", "next: "))]
    document |= {"sentences": kept}
    return {key: value for key, value in document.items() if key not in ("profile", "origin", "health")}


def check_manners(case: Case, ran: Outcome, folder: Path) -> None:
    """What holds for every case."""
    assert ran.exit_code in (0, 1), f"ended by {ran.exit_code} after {ran.cpu_s:.1f} s: {ran.said}"
    assert "Traceback" not in ran.said
    assert "internal error" not in ran.said, ran.said
    assert CONTROL.search(ran.stdout.decode()) is None
    assert CONTROL.search(ran.stderr.decode()) is None
    assert ran.cpu_s < PATIENCE * CPU_SECONDS
    aside = (str(folder / "tmp"), str(folder / "cache"))
    outside = [deed for deed in ran.deeds if not any(each in deed for each in aside) and "/dev/null" not in deed]
    if case.id in NEEDS_LIBRARY:
        outside = [deed for deed in outside if not deed.startswith(("subprocess.Popen", "os.posix_spawn"))]
    assert not outside
    assert not [deed for deed in ran.deeds if "canary" in deed]
    if case.id not in COPIED | NEEDS_LIBRARY:
        assert not [deed for deed in ran.deeds if aside[0] in deed]
    assert not os.listdir(folder / "tmp")
    assert not os.listdir(folder / "home")
    if ran.exit_code == 1:
        assert ran.stdout == b""
        assert ran.said.startswith("error: ")


def check_refusal(ran: Outcome, words: tuple[str, ...]) -> None:
    assert ran.exit_code == 1, "was read"
    for each in words:
        assert each in ran.said


def check_health(ran: Outcome, codes: frozenset[str]) -> None:
    assert ran.exit_code == 0, ran.said
    assert {note["code"] for note in json.loads(ran.stdout)["health"]} == codes


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case, id=case.id, marks=[pytest.mark.xfail(reason=KNOWN[case.id], run=False)] if case.id in KNOWN else []
        )
        for case in CASES
    ],
)
def test_it_does_what_the_catalogue_says(case: Case, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    if case.id == "file: no permission" and os.geteuid() == 0:
        pytest.skip("root may read everything")
    if case.id in NEEDS_LIBRARY and importlib.util.find_spec("ncu_report") is None:
        pytest.skip("NVIDIA's library is not installed")
    folder = tmp_path / "in"
    folder.mkdir()
    path = case.make(folder)
    before = listing(folder)
    for verb in case.verbs:
        of_time = [option for option in case.options if option.startswith("--time")]
        if of_time and verb != "report":
            continue
        ran = server().run(verb, "--format=json", *case.options, "--", path, folder=tmp_path / verb, cwd=folder)
        check_manners(case, ran, tmp_path / verb)
        match case.must:
            case Refused(words):
                check_refusal(ran, words)
            case Read(codes, report):
                if verb == "report" and report:
                    check_refusal(ran, (report,))
                else:
                    check_health(ran, codes)
            case Same(clean, codes):
                check_health(ran, codes)
                if verb == "report":
                    assert books(ran) == clean_books(clean, tmp_path_factory.getbasetemp() / clean.__name__)
    assert listing(folder) == before


@pytest.mark.parametrize(
    "case", some([case for case in CASES if case.kind == "sqlite" and case.id not in KNOWN], 3), ids=str
)
def test_the_native_decoder_changes_nothing(case: Case, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    path = case.make(folder)
    said = []
    for native in ("1", "0"):
        more = {"GPULEDGER_NATIVE": native}
        ran = server().run("info", "--format=json", *case.options, path, folder=tmp_path / native, environment=more)
        found = json.loads(ran.stdout) if ran.stdout else None
        if found is not None:
            decoding = found["origin"].pop("decoding")
            found.pop("kept")  # where that is differs
            found["sentences"] = [text for text in found["sentences"] if not text.startswith("read by ")]
            assert decoding["by"] == "sqlite" or native == "1"
        said.append((ran.exit_code, found, ran.stderr))
    assert said[0] == said[1]


def test_the_catalogue_is_large_and_its_names_are_different() -> None:
    assert len(CASES) >= 150
    assert len({case.id for case in CASES}) == len(CASES)
    assert KNOWN.keys() | NEEDS_LIBRARY | COPIED <= {case.id for case in CASES}

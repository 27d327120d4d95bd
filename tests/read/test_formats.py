"""The table of formats, a file without a verb, and files that are no profiles: each is told what it is."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gpuledger.read.formats import FORMATS, formats_table
from gpuledger.read.registry import READERS, load_reader
from support.command import ROOT, gpuledger
from support.profiles.rocm_files import rocprof_json, rpd


def test_the_table_is_that_of_the_docs_and_names_every_reader() -> None:
    assert formats_table() in (ROOT / "docs" / "reference" / "formats.md").read_text()
    assert gpuledger("info", "--formats").stdout == formats_table() + "\n"
    assert {entry.reader for entry in FORMATS} == {load_reader(place).name for place in READERS}


def test_a_file_alone_is_reported_on(tmp_path: Path) -> None:
    profile = rpd(tmp_path / "run.rpd")
    alone, asked = gpuledger(str(profile), "--format=json"), gpuledger("report", str(profile), "--format=json")
    assert (alone.exit_code, alone.stdout) == (0, asked.stdout)
    missing = gpuledger(str(tmp_path / "none.rpd"))
    assert (missing.exit_code, missing.stderr) == (1, "error: none.rpd: no such file\n")


def test_info_of_an_amd_profile(tmp_path: Path) -> None:
    ran = gpuledger("info", str(rocprof_json(tmp_path / "a.json")))
    assert ran.exit_code == 0
    assert "rocprofv3" in ran.stdout
    assert "kernel_dispatch" not in gpuledger("info", "--formats").stdout


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\x7fELF\x02\x01", "a program, not a profile"),
        (b"\x89PNG\r\n", "a picture or a document"),
        (b"<!DOCTYPE html><html>", "a web page, not a profile"),
        (b"BZh91AY", "compressed with bzip2"),
    ],
)
def test_info_says_what_a_file_is(content: bytes, what: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(content)
    ran = gpuledger("info", str(tmp_path / "a"))
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert what in ran.stderr
    assert "hint: " in ran.stderr


def test_a_profile_of_nvprof_is_named(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.nvprof")) as made:
        made.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (start INTEGER)")
        made.execute("CREATE TABLE StringTable (_id_ INTEGER, value TEXT)")
    assert "a profile of nvprof" in gpuledger("info", str(tmp_path / "a.nvprof")).stderr

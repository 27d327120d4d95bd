"""How a file was read: `info` says whether it was our own decoder, and why not."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from gpuledger import open_trace
from gpuledger.messages import translated
from gpuledger.present.views.info import decoding_sentence
from gpuledger.read import btree
from gpuledger.trace.model import Decoding
from hostile.databases import KERNELS, changed, damaged, put, with_log
from hostile.files import Make, export, trace
from support.command import gpuledger
from support.pages.schemas import schema_of
from support.profiles.nsys_exports import kernel, minimal

needs_native = pytest.mark.skipif(not btree.is_there(), reason="the decoder is not compiled here")


def plain(folder: Path) -> Path:
    return export(folder / "a.sqlite")


def with_journal(folder: Path) -> Path:
    path = plain(folder)
    Path(f"{path}-journal").touch()  # nothing in it, so SQLite does not mind
    return path


@needs_native
@pytest.mark.parametrize(
    ("make", "expected", "said"),
    [
        (plain, Decoding("native"), "read by the native decoder"),
        (
            changed(f"ALTER TABLE {KERNELS} ADD COLUMN x AS (1)"),
            Decoding("native", by_sqlite=(KERNELS,)),
            f"read by the native decoder, and by SQLite: {KERNELS}",
        ),
        (with_log(b""), Decoding("sqlite", "write-ahead-log"), "the database uses a write-ahead log"),
        (with_journal, Decoding("sqlite", "journal"), "there is a journal next to the database"),
        (damaged(put(18, b"\2\1")), Decoding("sqlite", "unusual-header"), "the file header is unusual"),
    ],
    ids=["native", "a table by SQLite", "log", "journal", "header"],
)
def test_info_says_how_a_file_was_read(make: Make, expected: Decoding, said: str, tmp_path: Path) -> None:
    path = make(tmp_path)
    assert open_trace(path).origin.decoding == expected
    assert said in gpuledger("info", path).stdout
    found = json.loads(gpuledger("info", path, "--format=json").stdout)
    schema_of("info").validate(found)
    assert found["origin"]["decoding"] == {
        "by": expected.by,
        "reason": expected.reason,
        "by_sqlite": list(expected.by_sqlite),
    }


def test_the_decoder_can_be_left_out(tmp_path: Path) -> None:
    ran = gpuledger("info", plain(tmp_path), GPULEDGER_NATIVE="0")
    assert "read by SQLite, which is slower: GPULEDGER_NATIVE=0 turns off the native decoder" in ran.stdout


def test_where_there_was_no_compiler_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(btree, "native", None)
    how = open_trace(plain(tmp_path)).origin.decoding
    assert how == Decoding("sqlite", "not-compiled")
    assert decoding_sentence(how).endswith("the native decoder was not compiled when gpuledger was installed")


def test_where_there_is_one_way_nothing_is_said(tmp_path: Path) -> None:
    path = trace(tmp_path / "a.json")
    assert open_trace(path).origin.decoding is None
    assert "decoder" not in gpuledger("info", path).stdout
    schema_of("info").validate(json.loads(gpuledger("info", path, "--format=json").stdout))


def test_what_is_kept_in_the_cache_still_says_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPULEDGER_CACHE", "always")
    path = plain(tmp_path)
    assert open_trace(path).origin == open_trace(path).origin


@needs_native
@pytest.mark.parametrize(
    "how", [Decoding("native"), Decoding("native", by_sqlite=("t",)), Decoding("sqlite", "journal")]
)
def test_it_is_said_in_chinese_too(how: Decoding) -> None:
    said = translated(decoding_sentence(how), "zh")
    assert "解码器" in said or "SQLite" in said
    assert said != decoding_sentence(how)


def test_a_name_of_a_table_is_shown_as_text(tmp_path: Path) -> None:
    """A table is named in the sentence only if we read it, and all of those we name ourselves."""
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(1, 2)])
    with sqlite3.connect(path) as database:
        database.execute('CREATE TABLE "\x1b[31m" (start, end, x AS (1))')
    database.close()
    assert "\x1b" not in gpuledger("info", path).stdout
    how = open_trace(path).origin.decoding
    assert how is not None
    assert "\x1b[31m" not in how.by_sqlite

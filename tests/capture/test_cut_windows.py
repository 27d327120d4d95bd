"""A window of a long export becomes an export of its own: its rows, what they refer to, and nothing of the host."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

from support.command import ROOT

TOOL = run_path(str(ROOT / "captures" / "cut_windows.py"))
TABLES = """
    CREATE TABLE StringIds (id INTEGER, value TEXT);
    CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, text TEXT, textId INTEGER, globalTid INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, globalPid INTEGER, demangledName INTEGER);
    CREATE TABLE CUDA_GRAPH_NODE_EVENTS (start INTEGER, graphNodeId INTEGER);
    CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
    CREATE TABLE ProcessStreams (globalPid INTEGER, filenameId INTEGER, contentId INTEGER);
    CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
    CREATE TABLE ANALYSIS_DETAILS (globalVid INTEGER, duration INTEGER, startTime INTEGER, stopTime INTEGER);
"""
ROWS: dict[str, list[tuple[Any, ...]]] = {
    "StringIds": [(1, "gemm"), (2, "relu"), (3, "pair:b.bad.1"), (4, "TOKEN=x /srv/secret")],
    "NVTX_EVENTS": [
        (100, 200, "pair:a.bad.1", None, 7 << 24 | 1),
        (110, 120, "step", None, 7 << 24 | 1),
        (300, 400, None, 3, 7 << 24 | 1),
        (320, 450, None, 3, 8 << 24 | 1),
    ],
    "CUPTI_ACTIVITY_KIND_KERNEL": [(50, 60, 7 << 24, 2), (115, 130, 7 << 24, 1), (440, 445, 8 << 24, 2)],
    "CUDA_GRAPH_NODE_EVENTS": [(10, 1)],
    "PROCESSES": [(7 << 24, 7, "/opt/tools/python3"), (8 << 24, 8, "python3"), (9 << 24, 9, "shell")],
    "ProcessStreams": [(7 << 24, 4, 4)],
    "META_DATA_EXPORT": [("EXPORT_HOST", "box17"), ("EXPORT_FILE", "/srv/runs/x.sqlite")],
    "ANALYSIS_DETAILS": [(0, 1000, 0, 1000)],
}


@pytest.fixture
def export(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "all.sqlite")) as database:
        database.executescript(TABLES)
        for table, rows in ROWS.items():
            database.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(rows[0]))})", rows)
        database.commit()
        yield database


def rows_of(file: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(file)) as database:
        return database.execute(query).fetchall()


def test_a_window_of_several_processes_lasts_from_the_first_to_the_last(export: sqlite3.Connection) -> None:
    assert TOOL["windows_of"](export) == {"a.bad.1": (100, 200), "b.bad.1": (300, 450)}


def test_a_window_holds_its_rows_and_what_they_refer_to(export: sqlite3.Connection, tmp_path: Path) -> None:
    TOOL["cut"](export, tmp_path / "a.sqlite", 100, 200, launched_until=200)
    assert rows_of(tmp_path / "a.sqlite", "SELECT start FROM CUPTI_ACTIVITY_KIND_KERNEL") == [(115,)]
    assert rows_of(tmp_path / "a.sqlite", "SELECT text FROM NVTX_EVENTS") == [("pair:a.bad.1",), ("step",)]
    assert rows_of(tmp_path / "a.sqlite", "SELECT value FROM StringIds") == [("gemm",)]
    assert rows_of(tmp_path / "a.sqlite", "SELECT pid, name FROM PROCESSES") == [(7, "python3")]
    assert rows_of(tmp_path / "a.sqlite", "SELECT start FROM CUDA_GRAPH_NODE_EVENTS") == [(10,)]
    assert rows_of(tmp_path / "a.sqlite", "SELECT duration, startTime FROM ANALYSIS_DETAILS") == [(100, 100)]


def test_nothing_of_the_host_is_left(export: sqlite3.Connection, tmp_path: Path) -> None:
    for name, (start, end) in TOOL["windows_of"](export).items():
        TOOL["cut"](export, tmp_path / f"{name}.sqlite", start, end, launched_until=end)
        whole = (tmp_path / f"{name}.sqlite").read_bytes()
        assert [word for word in (b"box17", b"/srv", b"/opt", b"TOKEN", b"shell") if word in whole] == []

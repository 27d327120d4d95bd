"""Small hand-made nsys exports: give the rows that matter as dicts, the rest is filled in."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from support.profiles.random_export import HOST, SCHEMA

PID = HOST | 100 << 24
"""nsys's global id of the one process; its thread has the same number."""
TID = PID | 100

_REQUIRED = re.compile(r"(\w+) INTEGER NOT NULL")


def columns(table: str) -> list[str]:
    return re.findall(r"(\w+) (?:INTEGER|TEXT|REAL)", SCHEMA[table])


def insert(database: sqlite3.Connection, table: str, rows: Iterable[Mapping[str, Any]], *, name: str = "") -> None:
    """Make `table` if need be and put rows into it; what a row leaves out is NULL, or 0 where it must be something."""
    name = name or table
    database.execute(f'CREATE TABLE IF NOT EXISTS "{name}" ({SCHEMA[table]})')
    required = set(_REQUIRED.findall(SCHEMA[table]))
    for row in rows:
        values = [row.get(column, 0 if column in required else None) for column in columns(table)]
        database.execute(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(values))})', values)


def kernel(start: object, end: object, **more: Any) -> dict[str, Any]:
    shape = dict.fromkeys(("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"), 1)
    defaults = {"globalPid": PID, "demangledName": 1, "shortName": 1, "correlationId": 1, "streamId": 7}
    return {"start": start, "end": end} | shape | defaults | more


def call(start: int, end: int, **more: Any) -> dict[str, Any]:
    return {"start": start, "end": end, "globalTid": TID, "correlationId": 1, "nameId": 2} | more


def push(start: int, end: int | None, text: str | None, **more: Any) -> dict[str, Any]:
    return {"start": start, "end": end, "eventType": 59, "text": text, "globalTid": TID, "domainId": 0} | more


def minimal(path: Path, **tables: Iterable[Mapping[str, Any]]) -> Path:
    """An export with these tables (`KERNEL`, `RUNTIME`, `MEMCPY`, `MEMSET`, `NVTX`, `OSRT`), and names 1 to 3."""
    full = {"NVTX": "NVTX_EVENTS", "OSRT": "OSRT_API"}
    with sqlite3.connect(path) as database:
        insert(
            database,
            "StringIds",
            [{"id": 1, "value": "k"}, {"id": 2, "value": "cudaLaunchKernel_v7000"}, {"id": 3, "value": "q"}],
        )
        for short, rows in tables.items():
            insert(database, full.get(short, f"CUPTI_ACTIVITY_KIND_{short}"), rows)
    database.close()
    return path

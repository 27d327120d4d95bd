"""Exports, broken one thing at a time: a table or a column dropped, renamed, nulled or emptied, rows shuffled."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from torture.bench import Bench, Verdict
from torture.captures import an_export
from torture.oracle import judged

Change = tuple[str, tuple[str, ...]]

_MAY_BE_EMPTY: Final = ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD")
"""A profiler that held nobody up writes none: nobody can tell that rows were taken out."""


def cases(bench: Bench) -> Iterator[Verdict]:
    """Every change to every export, in an order that chance gives; then again in another."""
    left: dict[Path, list[Change]] = {}
    while True:
        path = an_export(bench.folder, bench.chance)
        if not left.get(path):
            left[path] = list(_changes(path))
            bench.chance.shuffle(left[path])
        what, statements = left[path].pop()
        broken = bench.folder / "broken.sqlite"
        shutil.copyfile(path, broken)
        if not _took(broken, statements):
            continue
        changed = bench.call("report", broken, "--format=json")
        verdict = judged(bench.whole(path), changed)
        if what.endswith("shuffled") and verdict in ("told", "refused", "silent"):
            verdict = "wrong"
        yield Verdict(f"{path.name}: {what}", verdict, changed.said, broken)


def _changes(path: Path) -> Iterator[Change]:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
        named = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        for (table,) in database.execute(named).fetchall():
            rows, columns = f'"{table}"', [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
            yield f"{table} dropped", (f"DROP TABLE {rows}",)
            yield f"{table} renamed", (f'ALTER TABLE {rows} RENAME TO "{table}_other"',)
            if table not in _MAY_BE_EMPTY:
                yield f"{table} emptied", (f"DELETE FROM {rows}",)
            yield f"{table} a view", (f'ALTER TABLE {rows} RENAME TO "v"', f'CREATE VIEW {rows} AS SELECT * FROM "v"')
            yield f"{table} shuffled", _shuffled(rows, columns)
            for column in columns:
                yield f"{table}.{column} dropped", (f'ALTER TABLE {rows} DROP COLUMN "{column}"',)
                yield f"{table}.{column} renamed", (f'ALTER TABLE {rows} RENAME COLUMN "{column}" TO "x{column}"',)
                yield f"{table}.{column} nulled", (f'UPDATE OR IGNORE {rows} SET "{column}" = NULL',)


def _shuffled(rows: str, columns: list[str]) -> tuple[str, ...]:
    listed = ", ".join(f'"{column}"' for column in columns)
    return (
        f"CREATE TEMP TABLE s AS SELECT {listed} FROM {rows} ORDER BY random()",
        f"DELETE FROM {rows}",
        f"INSERT INTO {rows} ({listed}) SELECT {listed} FROM s",
    )


def _took(path: Path, statements: tuple[str, ...]) -> bool:
    """Whether the database took the change: it may forbid it."""
    with closing(sqlite3.connect(path)) as database:
        try:
            for statement in statements:
                database.execute(statement)
            database.commit()
        except sqlite3.Error:
            return False
    return True

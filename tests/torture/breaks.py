"""Captures, broken one thing at a time: a table or column dropped, renamed, nulled or emptied, rows shuffled."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from support.command import CAPTURES
from support.opened import plain
from torture.tried import Tried, ran

_NAMES = ("attn", "decode", "graph")


def broken_captures(folder: Path, seed: int) -> Iterator[tuple[str, Tried, Path]]:
    """What was done, how the whole capture is reported, and the broken file; in an order that the seed gives."""
    chance = random.Random(seed)
    wholes = {name: plain(CAPTURES / f"{name}.sqlite.xz") for name in _NAMES}
    reported: dict[str, Tried] = {}
    cases = [(name, *change) for name, path in wholes.items() for change in _changes(path)]
    chance.shuffle(cases)
    for number, (name, what, statements) in enumerate(cases):
        if name not in reported:
            reported[name] = ran(("report", str(wholes[name]), "--format=json"))
        broken = folder / f"{number}.sqlite"
        shutil.copyfile(wholes[name], broken)
        if _changed(broken, statements):
            yield f"{name}: {what}", reported[name], broken


def _changes(path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    database = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    for table in tables:
        yield f"{table} dropped", (f'DROP TABLE "{table}"',)
        yield f"{table} renamed", (f'ALTER TABLE "{table}" RENAME TO "{table}_other"',)
        yield f"{table} emptied", (f'DELETE FROM "{table}"',)
        shuffled = (
            f'CREATE TEMP TABLE s AS SELECT * FROM "{table}" ORDER BY random()',
            f'DELETE FROM "{table}"',
            f'INSERT INTO "{table}" SELECT * FROM s',
        )
        yield f"{table} shuffled", shuffled
        for _, column, *_ in database.execute(f'PRAGMA table_info("{table}")').fetchall():
            yield f"{table}.{column} dropped", (f'ALTER TABLE "{table}" DROP COLUMN "{column}"',)
            yield f"{table}.{column} renamed", (f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "x{column}"',)
            yield f"{table}.{column} nulled", (f'UPDATE OR IGNORE "{table}" SET "{column}" = NULL',)
    database.close()


def _changed(path: Path, statements: tuple[str, ...]) -> bool:
    """Whether the database took the change: it may forbid it."""
    database = sqlite3.connect(path)
    try:
        for statement in statements:
            database.execute(statement)
        database.commit()
    except sqlite3.Error:
        path.unlink()
        return False
    finally:
        database.close()
    return True

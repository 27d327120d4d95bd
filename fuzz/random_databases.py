"""Random SQLite databases, each read by our decoder and by SQLite: what is read must be equal.

    python fuzz/random_databases.py COUNT [--seed N] [--keep FOLDER]

What a database holds depends on its number alone, so that one that differs can be made again with COUNT 1 and its
number as the seed; it is also kept. The last line says how many there were, how many tables and columns of texts our
decoder read, and how many it left to SQLite, which is what it must do with some. TMPDIR=/dev/shm keeps them off the
disk.
"""
# ruff: noqa: T201, S311 (a program; chance that can be repeated is what it wants)

from __future__ import annotations

import argparse
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpuledger.limits import DEFAULT_LIMITS
from gpuledger.read.source import look_at
from gpuledger.read.sqlite import SqliteTables, open_sqlite

PAGE_SIZES: Final = (512, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
TYPES: Final = (
    *("INT", "INTEGER", "BIGINT", "TEXT", "BLOB", "REAL", "NUMERIC", "FLOATING POINT", "", "DOUBLE", "VARCHAR(9)"),
    *("BOOLEAN", "POINT", "REAL TEXT", "DATETIME", "decimal(10,2)", "int unsigned", "CHARINT"),
)
KEYS: Final = (
    *("INTEGER PRIMARY KEY", "integer primary key", "INTEGER PRIMARY KEY AUTOINCREMENT", "INTEGER PRIMARY KEY ASC"),
    *(
        "INTEGER PRIMARY KEY DESC",
        "INT PRIMARY KEY",
        "INTEGER PRIMARY /* x */ KEY",
        "INTEGER CONSTRAINT c PRIMARY KEY NOT NULL",
    ),
    *(
        '"INTEGER" PRIMARY KEY',
        "BIGINT PRIMARY KEY",
        "INTEGER PRIMARY KEY ON CONFLICT REPLACE",
        "INTEGER PRIMARY\tKEY\nDESC",
    ),
)
EDGES: Final = tuple(
    sign * 2**bits + more
    for sign in (1, -1)
    for bits in (7, 8, 15, 16, 23, 24, 31, 32, 47, 48, 62)
    for more in (-1, 0, 1)
)


def make(path: Path, chance: random.Random) -> None:
    """Write one database."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        page_bytes = chance.choice(PAGE_SIZES)
        for setting in (f"page_size = {page_bytes}", "journal_mode = OFF", "synchronous = OFF"):
            database.execute(f"PRAGMA {setting}")
        database.execute(f"PRAGMA auto_vacuum = {chance.choice((0, 0, 0, 1, 2))}")
        database.execute(f"PRAGMA encoding = '{chance.choice(('UTF-8',) * 8 + ('UTF-16le', 'UTF-16be'))}'")
        database.execute("CREATE TABLE first (a)")
        database.execute("DROP TABLE first")
    if chance.random() < 0.25:
        _reserve(path, chance.choice((1, 4, 8, 12, 32, 32 if page_bytes == 512 else 255)))
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("PRAGMA synchronous = OFF")
        for number in range(chance.choice((1, 1, 2, 3, 6))):
            _make_table(database, f"t{number}", chance)
        if chance.random() < 0.2:
            database.execute("VACUUM")
        if chance.random() < 0.2:
            database.execute("PRAGMA incremental_vacuum(3)")


def _reserve(path: Path, bytes_at_end: int) -> None:
    """Keep some bytes at the end of each page free, as extensions do: the header says how many.

    The pages of an empty database hold nothing yet, but each says where its free space ends.
    """
    content = bytearray(path.read_bytes())
    page_bytes = int.from_bytes(content[16:18], "big")
    page_bytes = 65536 if page_bytes == 1 else page_bytes
    content[20] = bytes_at_end
    # the first page: its header follows that of the file. A second one is a map of pointers, or on the free list
    content[105:107] = ((page_bytes - bytes_at_end) % 65536).to_bytes(2, "big")
    path.write_bytes(content)


def _make_table(database: sqlite3.Connection, name: str, chance: random.Random) -> None:
    columns, keyed = _columns(chance)
    ending = chance.choice(("",) * 9 + (" WITHOUT ROWID",)) if keyed else ""
    if sqlite3.sqlite_version_info >= (3, 37) and chance.random() < 0.05:
        columns, ending = ["a INTEGER PRIMARY KEY", "b INT", "c TEXT", "d ANY", "e REAL"], " STRICT"
    with suppress(sqlite3.OperationalError):  # a key that such a table may not have
        database.execute(f'CREATE TABLE "{name}" ({", ".join(columns)}){ending}')
        _fill(database, name, chance)


def _columns(chance: random.Random) -> tuple[list[str], bool]:
    """The columns of a table, and whether one is a key."""
    count = chance.choice((1, 2, 3, 5, 8, 20, 60, 140))
    columns = [
        f'"c{at}" {chance.choice(TYPES)}{chance.choice(("",) * 8 + (" DEFAULT 3", " NOT NULL DEFAULT 0"))}'
        for at in range(count)
    ]
    keyed = chance.random() < 0.6
    if keyed and chance.random() < 0.75:
        columns.insert(chance.randrange(len(columns) + 1), f"k {chance.choice(KEYS)}")
    elif keyed:
        columns.insert(0, f"k {chance.choice(('INTEGER', 'INTEGER', 'INT'))}")
        columns.append(
            chance.choice(("PRIMARY KEY (k)", "PRIMARY KEY (k DESC)", "PRIMARY KEY (k, c0)", "PRIMARY KEY ('k' ASC)"))
        )
    if chance.random() < 0.05:
        columns.insert(
            len(columns) - (keyed and columns[-1].startswith("PRIMARY")),
            f"g INT AS (1 + 1) {chance.choice(('STORED', 'VIRTUAL'))}",
        )
    return columns, keyed


def _fill(database: sqlite3.Connection, name: str, chance: random.Random) -> None:
    """Rows, then what happens to a table in its life."""
    shown = [row[1] for row in database.execute(f'PRAGMA table_xinfo("{name}")') if not row[6]]
    _insert(database, name, shown, chance.choice((0, 1, 3, 30, 30, 300)), chance)
    for _ in range(chance.choice((0, 0, 1, 2, 4))):
        with suppress(sqlite3.Error):
            _happen(database, name, shown, chance)


def _happen(database: sqlite3.Connection, name: str, shown: list[str], chance: random.Random) -> None:
    match chance.randrange(8):
        case 0:
            database.execute(f'DELETE FROM "{name}" WHERE rowid % {chance.randint(1, 4)} = 0')
        case 1:
            database.execute(f'UPDATE "{name}" SET "{chance.choice(shown)}" = ? WHERE rowid % 3 = 0', (_value(chance),))
        case 2:
            default = chance.choice(("", "", " DEFAULT 7", " DEFAULT 'x'", " DEFAULT NULL"))
            database.execute(
                f'ALTER TABLE "{name}" ADD COLUMN n{chance.randrange(10**6)} {chance.choice(TYPES)}{default}'
            )
        case 3:
            database.execute(f'ALTER TABLE "{name}" DROP COLUMN "{chance.choice(shown)}"')
        case 4:
            database.execute(f'CREATE INDEX "i{chance.randrange(10**6)}" ON "{name}" ("{chance.choice(shown)}")')
        case 5:
            database.execute(f'ALTER TABLE "{name}" RENAME COLUMN "{shown[0]}" TO "new name"')
        case 6:
            database.execute(f'DELETE FROM "{name}"')
        case _:
            shown = [row[1] for row in database.execute(f'PRAGMA table_xinfo("{name}")') if not row[6]]
            _insert(database, name, shown, chance.choice((1, 20)), chance)


def _insert(database: sqlite3.Connection, name: str, shown: list[str], rows: int, chance: random.Random) -> None:
    marks = ", ".join("?" * len(shown))
    listed = ", ".join(f'"{column}"' for column in shown)
    start = chance.choice((1, 1, 2**40, 2**62, -(2**63), -5, 100))
    step = chance.choice((1, 1, 7, 10**6))
    plain = chance.random() < 0.4
    database.execute("BEGIN")
    for row in range(rows):
        values = tuple(chance.randrange(1000) if plain else _value(chance) for _ in shown)
        with suppress(sqlite3.IntegrityError, sqlite3.DataError):
            if "k" in shown and chance.random() < 0.9:
                at = shown.index("k")
                values = (*values[:at], start + row * step, *values[at + 1 :])
            database.execute(f'INSERT OR IGNORE INTO "{name}" ({listed}) VALUES ({marks})', values)
    database.execute("COMMIT")


def _value(chance: random.Random) -> Any:
    match chance.randrange(14):
        case 0 | 1:
            return None
        case 2 | 3 | 4:
            return chance.randrange(-300, 300)
        case 5 | 6:
            return chance.choice(EDGES)
        case 7:
            return chance.choice((0, 1, -(2**63), 2**63 - 1))
        case 8:
            return chance.choice((0.0, 1.0, -3.0, 2.5, 1e300, 2.0**53, 2.0**70))
        case 9 | 10:
            return "x" * chance.choice((0, 1, 5, 40))
        case 11:
            return chance.choice(("12", "1.5", "é\0x", " 7", "0x10", "1e2"))
        case 12:
            return bytes(chance.choice((0, 1, 50)))
        case _:
            return chance.choice(("y" * 300, "y" * 900, "y" * 5000, bytes(450), bytes(70_000)))


def compare(path: Path) -> Counter[str]:
    """Read every table both ways; how many our decoder read, and how many it left to SQLite."""
    counts: Counter[str] = Counter()
    with open_sqlite(look_at(path), DEFAULT_LIMITS, lambda _table, _rows: None) as export:
        for table, columns in export.tables.items():
            wanted = sorted(columns)
            for chosen in (wanted, *([each] for each in wanted[:3])) if wanted else ():
                counts["tables" if _same_integers(export, table, chosen) else "tables left to SQLite"] += 1
            for column in wanted[:8]:
                counts["texts" if _same_texts(export, table, column) else "texts left to SQLite"] += 1
    return counts


def _same_integers(export: SqliteTables, table: str, columns: list[str]) -> bool:
    found = export._decode(table, columns)
    if found is None:
        return False
    expected = export._query(table, columns)
    for name in columns:
        if not np.array_equal(found.columns[name], expected.columns[name]):
            raise AssertionError(f"{table}.{name} differs")
    if found.bad != expected.bad:
        raise AssertionError(f"{table}: other values are no integers: {found.bad} and {expected.bad}")
    return True


def _same_texts(export: SqliteTables, table: str, column: str) -> bool:
    found = export._decode_texts(table, column)
    if found is None:
        return False
    if found.rows() != export._query_texts(table, column).rows():
        raise AssertionError(f"texts of {table}.{column} differ")
    return True


def main() -> int:
    """Make, compare, say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0, help="the number of the first one")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()), help="where one that differs is kept")
    asked = parser.parse_args()
    began, counts, differing = time.monotonic(), Counter[str](), 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random.sqlite"
        for number in range(asked.seed, asked.seed + asked.count):
            path.unlink(missing_ok=True)
            make(path, random.Random(number))
            counts["with reserved bytes"] += path.read_bytes()[20] > 0
            try:
                counts += compare(path)
            except AssertionError as error:
                differing += 1
                shutil.copy(path, asked.keep / f"differs-{number}.sqlite")
                print(f"database {number}: {error}", flush=True)
    said = ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))
    print(f"{asked.count:,} databases in {time.monotonic() - began:,.0f} s, {differing} differ; {said}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())

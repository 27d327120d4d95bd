"""Small SQLite files to begin fuzzing from: writes them to a folder, as plain files and as inputs of btree_fuzz.c.

    python fuzz/seeds.py FOLDER

makes FOLDER/files (for btree_differential and readers.py) and FOLDER/looks (for btree_fuzz: eight bytes that say how to
look at the file, then the file; see `struct look` there).
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

PAGE_SIZES = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
EDGES = (0, 1, -1, 2, 127, 128, -128, -129, 2**15, -(2**15) - 1, 2**23, 2**31, -(2**31) - 1, 2**47, 2**55, -(2**63))
"""Integers on both sides of each size that SQLite stores them in."""


@dataclass(frozen=True, slots=True)
class Seed:
    """A small database: the statements that make it."""

    name: str
    page_bytes: int
    statements: tuple[str, ...]
    before: tuple[str, ...] = ()
    """Settings that only an empty database takes."""


def _numbers(rows: int) -> str:
    return f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})"


def seeds() -> Iterator[Seed]:
    """One for each thing that the format does its own way."""
    edges = ", ".join(f"({number}, {-number if number != -(2**63) else 5}, 'x', NULL)" for number in EDGES)
    plain = ("CREATE TABLE t (a INT, b INT, c TEXT, d INT)", f"INSERT INTO t VALUES {edges}")
    for page_bytes in PAGE_SIZES:
        yield Seed(f"plain-{page_bytes}", page_bytes, plain)
    spilled = (
        "CREATE TABLE t (a INT, b TEXT, c INT, d BLOB)",
        f"{_numbers(6)} INSERT INTO t SELECT i, printf('%.*c', i * 300, 'x'), -i, zeroblob(i * 200) FROM n",
    )
    yield Seed("overflow-512", 512, spilled)
    yield Seed("overflow-1024", 1024, spilled)
    wide = ", ".join(f"c{at} INT" for at in range(300))
    yield Seed("wide-header", 512, (f"CREATE TABLE t ({wide})", f"INSERT INTO t VALUES ({', '.join('?' * 300)})"))
    yield Seed(
        "alias",
        512,
        ("CREATE TABLE t (a INTEGER PRIMARY KEY, b INT)", f"{_numbers(40)} INSERT INTO t SELECT i * i * i, i FROM n"),
    )
    yield Seed(
        "huge-rowids",
        512,
        ("CREATE TABLE t (a INTEGER PRIMARY KEY, b)", f"{_numbers(20)} INSERT INTO t SELECT -i * {2**58}, i FROM n"),
    )
    yield Seed("short-records", 512, (*plain, "ALTER TABLE t ADD COLUMN e INT", "INSERT INTO t VALUES (1, 2, 3, 4, 5)"))
    yield Seed("defaults", 512, (*plain, "ALTER TABLE t ADD COLUMN e INT DEFAULT 7"))
    yield Seed(
        "reals", 512, ("CREATE TABLE t (a REAL, b INT)", "INSERT INTO t VALUES (3, 2.5), (0.5, 'x'), (1e300, 1)")
    )
    # large row ids leave room for few children in a page, so that the tree gets a third level early
    deep = (
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, c INT)",
        f"{_numbers(90)} INSERT INTO t SELECT i + {2**56}, printf('%.*c', 180, 'y'), i FROM n",
    )
    yield Seed("deep", 512, deep)
    yield Seed("holes", 512, (*deep, "DELETE FROM t WHERE a % 3 = 0", "CREATE TABLE u (a)", "INSERT INTO u VALUES (1)"))
    yield Seed("vacuumed", 512, (*deep, "DELETE FROM t WHERE a % 2 = 0", "VACUUM"))
    yield Seed("pointer-map", 512, (*spilled, "DELETE FROM t WHERE a = 3"), ("PRAGMA auto_vacuum = 1",))
    yield Seed("indexed", 1024, (*plain, "CREATE INDEX i ON t (a, c)"))
    yield Seed(
        "without-rowid", 512, ("CREATE TABLE t (a INT PRIMARY KEY, b INT) WITHOUT ROWID", "INSERT INTO t VALUES (1, 2)")
    )
    yield Seed("empty", 512, ("CREATE TABLE t (a INT)",))
    yield Seed("utf-16", 512, plain, ("PRAGMA encoding = 'UTF-16le'",))


def made(seed: Seed, path: Path) -> int:
    """Write one database; the page where the tree of its table `t` begins."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for statement in (f"PRAGMA page_size = {seed.page_bytes}", *seed.before):
            database.execute(statement)
        for statement in seed.statements:
            database.execute(statement, tuple(range(statement.count("?"))))
        [(root,)] = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 't'")
    return int(root)


def main(folder: Path) -> None:
    """Write all of them."""
    files, looks = folder / "files", folder / "looks"
    for each in (files, looks):
        each.mkdir(parents=True, exist_ok=True)
    for seed in seeds():
        path = files / f"{seed.name}.sqlite"
        root = made(seed, path)
        exponent = seed.page_bytes.bit_length() - 10
        look = bytes(
            (
                exponent,
                0,
                root,
                0b1111,
                0,
                1 if seed.name in ("alias", "huge-rowids", "deep", "holes", "vacuumed") else 0,
                1,
                0,
            )
        )
        (looks / seed.name).write_bytes(look + path.read_bytes())


if __name__ == "__main__":
    main(Path(sys.argv[1]))

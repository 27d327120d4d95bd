"""Our decoder of SQLite's tables gives what SQLite gives, on any database, or says that it cannot."""

from __future__ import annotations

import math
import random
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpuledger.errors import GpuledgerError
from gpuledger.limits import DEFAULT_LIMITS
from gpuledger.read import btree
from gpuledger.read.columns import IntegerColumns
from gpuledger.read.source import look_at
from gpuledger.read.sqlite import SqliteTables, open_sqlite
from support.command import NAMES
from support.thorough import some, tries

pytestmark = pytest.mark.skipif(not btree.is_there(), reason="the decoder was not compiled")

TYPES = ("INT", "INTEGER", "BIGINT", "TEXT", "BLOB", "REAL", "NUMERIC", "FLOATING POINT", "")
numbers = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-300, 300),
    st.sampled_from([0, 1, -1, 127, 128, -128, -129, 2**15, -(2**15), 2**23, 2**31, 2**47, -(2**47), 2**55, -(2**63)]),
)
values = st.one_of(
    st.none(), numbers, st.floats(allow_nan=False), st.text(max_size=30), st.binary(max_size=300), st.just("x" * 9000)
)


def quietly(*_: object) -> None:
    """No progress."""


@contextmanager
def opened(path: Path) -> Iterator[SqliteTables]:
    with open_sqlite(look_at(path), DEFAULT_LIMITS, quietly) as export:
        yield export


def same_as_sqlite(path: Path) -> tuple[int, int]:
    """Compare every table; how often our decoder read integers, and how often texts."""
    decoded = decoded_texts = 0
    with opened(path) as export:
        for table, columns in export.tables.items():
            wanted = sorted(columns)
            expected: IntegerColumns | None = None
            for chosen in (wanted, wanted[::-1], wanted[:1]):
                found = export._decode(table, chosen)
                if found is None:
                    continue
                decoded += 1
                expected = expected or export._query(table, wanted)
                assert list(found.columns) == chosen
                for name in chosen:
                    np.testing.assert_array_equal(found.columns[name], expected.columns[name])
                assert found.bad == {name: count for name, count in expected.bad.items() if name in chosen}
            for column in wanted:
                texts = export._decode_texts(table, column)
                assert texts is None or texts.rows() == export._query_texts(table, column).rows()
                decoded_texts += texts is not None
    return decoded, decoded_texts


@pytest.mark.parametrize("name", some(NAMES, 3))
def test_captures_read_the_same(name: str, unpacked: Callable[[str], Path]) -> None:
    assert min(same_as_sqlite(unpacked(f"{name}.sqlite"))) > 20


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    columns = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=12))
    rows = draw(st.lists(st.tuples(*[values] * len(columns)), max_size=40))
    return {
        "columns": columns,
        "key": draw(st.sampled_from(["", "INTEGER PRIMARY KEY", "INTEGER PRIMARY KEY DESC", "INT PRIMARY KEY"])),
        "rows": rows,
        "times": draw(st.sampled_from([1, 1, 3, 60])),
        "rowids": draw(st.sampled_from(["next", "huge", "negative"])),
        "added": draw(st.sampled_from(["", "INT", "INT DEFAULT 7", "TEXT DEFAULT 'x'"])),
        "deleted": draw(st.booleans()),
        "without": draw(st.sampled_from(["", "", "", " WITHOUT ROWID"])),
    }


def make(path: Path, page_bytes: int, vacuum: int, made: dict[str, Any]) -> None:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA page_size = {page_bytes}")
        database.execute(f"PRAGMA auto_vacuum = {vacuum}")
        keyed = bool(made["key"]) or bool(made["without"])
        key = [f"k {made['key'] or 'INT PRIMARY KEY'}"] if keyed else []
        columns = [f'"{"gridX" if at == 3 else f"c{at}"}" {kind}' for at, kind in enumerate(made["columns"])]
        database.execute(f"CREATE TABLE t ({', '.join([*columns[:1], *key, *columns[1:]])}){made['without']}")
        database.execute("CREATE TABLE other (a INT)")
        marks = ", ".join("?" * (len(columns) + keyed))
        start = {"next": 1, "huge": 2**62, "negative": -(2**40)}[made["rowids"]]
        for turn in range(made["times"]):
            for at, row in enumerate(made["rows"]):
                key_value = (start + turn * len(made["rows"]) + at,) if keyed else ()
                database.execute(f"INSERT INTO t VALUES ({marks})", (*row[:1], *key_value, *row[1:]))
                database.execute("INSERT INTO other VALUES (?)", (at,))
        if made["added"]:
            database.execute(f"ALTER TABLE t ADD COLUMN added {made['added']}")
            if made["rows"] and not made["without"]:
                database.execute("UPDATE t SET added = 5 WHERE rowid % 3 = 0")
        if made["deleted"]:
            database.execute("DELETE FROM other")
            if not made["without"]:
                database.execute("DELETE FROM t WHERE rowid % 2 = 0")
        database.commit()


@settings(max_examples=tries(12))
@given(st.sampled_from([512, 1024, 4096, 65536]), st.sampled_from([0, 1, 2]), tables())
def test_any_database_reads_the_same(
    tmp_path_factory: pytest.TempPathFactory, page_bytes: int, vacuum: int, made: dict[str, Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.sqlite"
    make(path, page_bytes, vacuum, made)
    assert same_as_sqlite(path)[0] > 0


def small(path: Path, rows: int = 2000) -> None:
    columns = ["INT", "TEXT", "INT"]
    table = {
        "columns": columns,
        "key": "INTEGER PRIMARY KEY",
        "rows": [(at, "x" * (at % 90), -at) for at in range(rows)],
    }
    make(path, 1024, 0, {**table, "times": 1, "rowids": "next", "added": "", "deleted": False, "without": ""})


def test_the_decoder_is_used_for_a_plain_table(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    small(path)
    assert same_as_sqlite(path) == (6, 1)  # two tables, three choices of columns; one column has no numbers


@pytest.mark.parametrize("late", [-(2**31), 2**31 - 1, None, 2**31, -(2**31) - 1, "text"])
def test_a_small_column_has_32_bits_while_all_of_it_fits(tmp_path: Path, late: int | str | None) -> None:
    """What does not fit comes when the column has been begun in 32 bits, in a part that another thread may read."""
    path, fits = tmp_path / "t.sqlite", isinstance(late, int) and -(2**31) <= late < 2**31
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA page_size = 512")
        database.execute("CREATE TABLE t (start INT, gridX INT)")
        database.executemany(
            "INSERT INTO t VALUES (?, ?)", ((at, late if at == 8999 else at % 7) for at in range(9000))
        )
        database.commit()
    same_as_sqlite(path)
    with opened(path) as export:
        found = export._decode("t", ["start", "gridX"])
        assert found is not None
        assert [found.columns[name].dtype.itemsize for name in ("start", "gridX")] == [8, 4 if fits else 8]


def test_holes_among_the_rows_are_counted(tmp_path: Path) -> None:
    """The row ids above the leaves then say too much of them."""
    path = tmp_path / "t.sqlite"
    small(path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("DELETE FROM t WHERE rowid % 7 = 3")
        database.commit()
    assert same_as_sqlite(path) == (6, 1)


def test_a_number_that_is_none_is_null(tmp_path: Path) -> None:
    """SQLite stores no NaN, and takes one that it finds for NULL; other floating point is no integer."""
    path = tmp_path / "t.sqlite"
    make(
        path,
        1024,
        0,
        {"columns": ["INT", "TEXT", "INT"], "key": "", "rows": [(1.25, "x" * 3000, 7.75)] * 3}
        | {"times": 1, "rowids": "next", "added": "", "deleted": False, "without": ""},
    )
    raw = path.read_bytes()
    for number in (1.25, 7.75):  # one in the page itself, the other behind a text that spills
        at = raw.index(struct.pack(">d", number))
        raw = raw[:at] + struct.pack(">d", math.nan) + raw[at + 8 :]
    path.write_bytes(raw)
    with opened(path) as export:
        found = export._decode("t", ["c0", "c2"])
        assert found is not None
        assert found.bad == export._query("t", ["c0", "c2"]).bad == {"c0": 2, "c2": 2}
    same_as_sqlite(path)


def test_a_log_or_a_journal_is_for_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    small(path)
    head = path.read_bytes()[:512]
    assert btree.PageLayout.of(path, head, path.stat().st_size) is not None
    for ending in ("-wal", "-journal"):
        beside = path.with_name(path.name + ending)
        beside.write_bytes(b"")
        assert btree.PageLayout.of(path, head, path.stat().st_size) is None
        beside.unlink()
    assert btree.PageLayout.of(path, head[:18] + b"\2\2" + head[20:], path.stat().st_size) is None


@settings(max_examples=tries(15))
@given(st.integers(0, 2**32), st.integers(1, 40))
@example(0, 1)
def test_a_damaged_file_gives_what_sqlite_gives_or_nothing(
    tmp_path_factory: pytest.TempPathFactory, seed: int, flips: int
) -> None:
    """Where SQLite reads a damaged file at all, it says the same; where it does not, it says why."""
    whole = tmp_path_factory.getbasetemp() / "whole.sqlite"
    if not whole.exists():
        small(whole, 300)
    content = bytearray(whole.read_bytes())
    chance = random.Random(seed)
    for _ in range(flips):
        content[chance.randrange(100, len(content))] = chance.choice(
            [0, 1, 5, 13, 127, 128, 255, chance.randrange(256)]
        )
    path = whole.with_name("damaged.sqlite")
    path.write_bytes(content)
    try:
        with opened(path) as export:
            for table, columns in export.tables.items():
                for column in columns:
                    export._decode_texts(table, column)
                export._decode(table, sorted(columns))  # whatever it finds: no crash, no hang
                export.integers(table, sorted(columns))
    except GpuledgerError as error:
        refusal = error.claim
    else:
        refusal = "damaged.sqlite: none"
    assert refusal.startswith("damaged.sqlite: ")


@pytest.mark.parametrize("bytes_left", [1023, 1024, 50_000])
def test_a_file_that_shrinks_while_it_is_read_is_no_crash(tmp_path: Path, bytes_left: int) -> None:
    path = tmp_path / "t.sqlite"
    small(path)

    def shrunk() -> None:
        with opened(path) as export:
            with path.open("r+b") as file:
                file.truncate(bytes_left)
            assert export._decode("t", ["c0"]) is None
            export.integers("t", ["c0"])

    with pytest.raises(GpuledgerError, match="damaged"):
        shrunk()


KEYS = (
    "INTEGER PRIMARY KEY",
    "INTEGER PRIMARY KEY DESC",
    "INTEGER PRIMARY KEY/**/DESC",
    "INTEGER PRIMARY/* */KEY DESC",
    "INTEGER PRIMARY KEY -- up\nDESC",
    "INTEGER CONSTRAINT a PRIMARY\fKEY\tDESC",
    "/**/INTEGER PRIMARY KEY",
    "INTEGER -- '\nPRIMARY KEY DESC DEFAULT '--'",
    "INTEGER DEFAULT '/*' PRIMARY KEY DESC DEFAULT '*/'",
)


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_the_row_id_only_where_sqlite_takes_it_for_it(tmp_path: Path, key: str) -> None:
    """`INTEGER PRIMARY KEY DESC` is a column like any other, however it is spelled."""
    path = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"CREATE TABLE t (a {key}, b INT)")
        database.executemany("INSERT INTO t VALUES (?, ?)", [(1000 * at, at) for at in range(9, 0, -1)])
        database.commit()
    with opened(path) as export:
        read, asked = export.integers("t", ["a", "b"]), export._query("t", ["a", "b"])
        assert {name: values.tolist() for name, values in read.columns.items()} == {
            name: values.tolist() for name, values in asked.columns.items()
        }
    same_as_sqlite(path)


LEAF, INTERIOR = 13, 5
AMONG_POINTERS = {LEAF: (5, b"\3\1\2\0\5"), INTERIOR: (12, b"\0\10")}
"""What to write where, so that a page's first cell lies in its header: a record of NULL, a page's last child again."""


@pytest.mark.parametrize("kind", AMONG_POINTERS)
def test_a_cell_that_lies_among_the_pointers_is_refused(tmp_path: Path, kind: int) -> None:
    """Its bytes are a page's header or its pointers, and no record, whatever they look like."""
    path = tmp_path / "t.sqlite"
    small(path, 300)
    content = bytearray(path.read_bytes())
    at, written = AMONG_POINTERS[kind]
    for page in (page for page in range(1024, len(content), 1024) if content[page] == kind):
        content[page + at : page + at + len(written)] = written
    path.write_bytes(content)
    with opened(path) as export:
        assert export._decode_texts("t", "c1") is None
        assert export._decode("t", ["c0", "k"]) is None

"""The only module that connects to SQLite: a file in, its real tables and their columns out, read-only.

The file is untrusted. It is opened read-only and never written beside; only statements that read are authorised; only
tables that are tables are touched, as a view could run for ever; and a deadline ends whatever takes too long.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpuledger.errors import UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.model.spans import Ints
from gpuledger.read import btree
from gpuledger.read.export import NULL, Integers, Progress
from gpuledger.read.source import Source, opened
from gpuledger.units import bytes_text

MAGIC: Final = b"SQLite format 3\0"

_CHUNK_ROWS = 20_000
_ALLOWED = frozenset((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_TRANSACTION))
_STEPS_BETWEEN_CHECKS = 100_000
_LOOKUP_BATCH = 500


@dataclass(frozen=True, slots=True)
class Own:
    """What our own decoder needs of an open file."""

    descriptor: int
    pages: btree.Pages
    deadline: float


class SqliteExport:
    """One open database, as the tables of an export."""

    container = "sqlite"

    def __init__(
        self, connection: sqlite3.Connection, name: str, limits: Limits, progress: Progress, own: Own | None
    ) -> None:
        self._connection = connection
        self._name = name
        self._limits = limits
        self._progress = progress
        self._own = own
        self._shapes = self._real_tables()
        self.tables: Final[Mapping[str, frozenset[str]]] = {
            name: frozenset(shape.visible) for name, shape in self._shapes.items()
        }

    def _real_tables(self) -> dict[str, btree.Shape]:
        made = "SELECT name, rootpage, sql FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'"
        found = [(_text(name), root, _text(sql)) for name, root, sql in self._rows(f"{made} ORDER BY name")]
        return {name: btree.shape(root, sql, self._columns(name)) for name, root, sql in found}

    def _columns(self, table: str) -> list[tuple[str, str, bool, int, int]]:
        described = self._rows(f"PRAGMA table_xinfo({_quoted(table)})")
        return [
            (_text(name), _text(kind), default is not None, key, hidden)
            for _, name, kind, _, default, key, hidden in described
        ]

    def count(self, table: str) -> int:
        [(count,)] = self._rows(f"SELECT count(*) FROM {_quoted(table)}")
        return int(count)

    def integers(self, table: str, columns: Sequence[str]) -> Integers:
        return self._decoded(table, columns) or self._queried(table, columns)

    def _decoded(self, table: str, columns: Sequence[str]) -> Integers | None:
        """By our own decoder, many times faster; None where only SQLite knows."""
        if self._own is None:
            return None
        return btree.integers(
            self._own.descriptor,
            self._own.pages,
            table,
            self._shapes[table],
            columns,
            most_rows=self._limits.rows_per_table,
            deadline=self._own.deadline,
            progress=self._progress,
        )

    def _queried(self, table: str, columns: Sequence[str]) -> Integers:
        wanted = ", ".join(f"ifnull({_quoted(column)}, {NULL})" for column in columns)
        chunks = [np.empty((0, len(columns)), np.int64)]
        bad = np.zeros(len(columns), np.int64)
        done = 0
        for rows in self._chunks(f"SELECT {wanted} FROM {_quoted(table)} NOT INDEXED"):
            values = np.array(rows)
            if values.dtype != np.int64:  # some value is no integer: find out which
                values, wrong = _integers_only(rows)
                bad += wrong
            chunks.append(values)
            done += len(rows)
            self._progress(table, done)
            if done > self._limits.rows_per_table:
                raise UnreadableProfile(
                    f"{self._name}: table {table} has more than {self._limits.rows_per_table:,} rows",
                    hint="export a shorter stretch with `nsys export --times`",
                )
        # one contiguous array per column: everything downstream works column by column
        whole = np.concatenate(chunks).T.copy()
        counts = {column: count for column, count in zip(columns, bad.tolist(), strict=True) if count}
        return Integers(dict(zip(columns, whole, strict=True)), counts)

    def texts(self, table: str, column: str) -> list[bytes | None]:
        decoded = self._decoded_texts(table, column)
        return self._queried_texts(table, column) if decoded is None else decoded

    def _decoded_texts(self, table: str, column: str) -> list[bytes | None] | None:
        if self._own is None:
            return None
        own, most = self._own, self._limits.rows_per_table
        shape = self._shapes[table]
        return btree.texts(own.descriptor, own.pages, shape, column, most_rows=most, deadline=own.deadline)

    def _queried_texts(self, table: str, column: str) -> list[bytes | None]:
        sql = f"SELECT {_quoted(column)} FROM {_quoted(table)} NOT INDEXED"
        return [_as_bytes(row[0]) for rows in self._chunks(sql) for row in rows]

    def texts_by_id(self, table: str, id_column: str, column: str, ids: Collection[int]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        pending = sorted(ids)
        for start in range(0, len(pending), _LOOKUP_BATCH):
            batch = pending[start : start + _LOOKUP_BATCH]
            marks = ", ".join("?" * len(batch))
            key_column = _quoted(id_column)
            sql = f"SELECT {key_column}, {_quoted(column)} FROM {_quoted(table)} WHERE {key_column} IN ({marks})"
            for key, text in self._rows(sql, batch):
                found.setdefault(key, _as_bytes(text) or b"")
        return found

    def _rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return [row for rows in self._chunks(sql, parameters) for row in rows]

    def _chunks(self, sql: str, parameters: Sequence[object] = ()) -> Iterator[list[tuple[Any, ...]]]:
        cursor = self._connection.execute(sql, parameters)
        while rows := cursor.fetchmany(_CHUNK_ROWS):
            yield rows


def _integers_only(rows: Sequence[tuple[object, ...]]) -> tuple[Ints, Ints]:
    """`rows` with whatever is no integer set to NULL, and how many those were in each column."""
    wrong = np.array([[type(value) is not int for value in row] for row in rows]).sum(axis=0)
    clean = [tuple(value if type(value) is int else NULL for value in row) for row in rows]
    return np.array(clean, np.int64), wrong


def _as_bytes(value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return str(value).encode()


def _text(value: object) -> str:
    return (_as_bytes(value) or b"").decode(errors="backslashreplace")


def _quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


@contextlib.contextmanager
def open_sqlite(source: Source, limits: Limits, progress: Progress) -> Iterator[SqliteExport]:
    """Open `source` for reading and close it after. What SQLite says of a broken file becomes one sentence."""
    _refuse_if_cut(source)
    deadline = time.monotonic() + limits.read_seconds
    with contextlib.ExitStack() as stack:
        uri = _uri(source, stack)
        try:
            connection = stack.enter_context(contextlib.closing(sqlite3.connect(uri, uri=True)))
            connection.text_factory = bytes
            connection.set_authorizer(_only_reads)
            connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_BETWEEN_CHECKS)
            connection.execute("BEGIN")  # one snapshot for all tables
            yield SqliteExport(connection, source.name, limits, progress, _own(source, deadline, stack))
        except (sqlite3.Error, UnicodeDecodeError) as error:  # a message that quotes a damaged schema is no text
            raise _in_one_sentence(source, error, limits) from error


def _own(source: Source, deadline: float, stack: contextlib.ExitStack) -> Own | None:
    """The file for our own decoder. The connection's snapshot holds writers off while both read."""
    pages = btree.Pages.of(source.path, source.head, source.size) if btree.is_there() else None
    return None if pages is None else Own(stack.enter_context(opened(source)).fileno(), pages, deadline)


def _only_reads(action: int, argument: str | None, *_: object) -> int:
    if action == sqlite3.SQLITE_PRAGMA and argument == "table_xinfo":
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def _uri(source: Source, stack: contextlib.ExitStack) -> str:
    """How to open the file so that nothing is written beside it.

    A database in WAL mode makes SQLite write an index beside it even when opened read-only. With an empty log,
    `immutable` avoids that. With a log that holds pages it would lose them without a word, so we read a copy.
    """
    path = source.path.absolute()
    if source.head[18:20] != b"\2\2":
        return f"{path.as_uri()}?mode=ro"
    log = path.with_name(path.name + "-wal")
    if not log.exists() or log.stat().st_size == 0:
        return f"{path.as_uri()}?mode=ro&immutable=1"
    try:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpuledger-")))
        for each in (path, log):
            shutil.copyfile(each, folder / each.name)
    except OSError as error:
        raise UnreadableProfile(
            f"{source.name}: has a write-ahead log, and cannot be copied to a temporary folder to be read with it",
            found=(error.strerror or str(error)).lower(),
            hint="close the program that writes it, or free some space",
        ) from None
    return f"{(folder / path.name).as_uri()}?mode=ro"


def _refuse_if_cut(source: Source) -> None:
    """The header says how many pages the file has, unless a writer from before 2010 left it out."""
    if len(source.head) < 100:
        raise UnreadableProfile(f"{source.name}: truncated: {source.size} bytes are less than SQLite's header")
    page_bytes = int.from_bytes(source.head[16:18], "big")
    page_bytes = 65536 if page_bytes == 1 else page_bytes
    expected = page_bytes * int.from_bytes(source.head[28:32], "big")
    header_is_current = source.head[24:28] == source.head[92:96]
    if header_is_current and source.size < expected:
        raise UnreadableProfile(
            f"{source.name}: truncated: {bytes_text(source.size)} of {bytes_text(expected)}",
            hint="copy or export it again",
        )


def _in_one_sentence(source: Source, error: sqlite3.Error | UnicodeDecodeError, limits: Limits) -> UnreadableProfile:
    journal = source.path.with_name(source.path.name + "-journal")
    if journal.exists():
        return UnreadableProfile(
            f"{source.name}: the export was interrupted, or is still running",
            found=f"{journal.name} lies beside it ({error})",
            hint="wait for `nsys export` to end, or run it again",
        )
    if "interrupted" in str(error):
        return UnreadableProfile(f"{source.name}: reading took more than {limits.read_seconds:g} s and was stopped")
    return UnreadableProfile(
        f"{source.name}: a damaged SQLite database",
        found=f"SQLite says: {error}",
        hint="copy or export it again",
    )

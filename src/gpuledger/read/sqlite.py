"""The only module that connects to SQLite: a file in, its real tables and their columns out, read-only.

The file is untrusted. It is opened read-only and never written beside; only statements that read are authorised; only
tables that are tables are touched, as a view could run for ever; and a deadline ends whatever takes too long. Pages
that point to one another in a damaged file can hold more rows than there is room for: no table is read beyond that.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from gpuledger.errors import UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.read import btree
from gpuledger.read.columns import NULL, IntegerColumns, TextColumn
from gpuledger.read.nsys.reader import read_export
from gpuledger.read.request import Format, Progress, WantedColumns, too_many_rows
from gpuledger.read.source import Source, changed, in_time, opened, too_slow
from gpuledger.system.opening import copy_into, is_limited, seen, times_open
from gpuledger.trace.model import Decoding, Trace
from gpuledger.units import bytes_text

MAGIC: Final = b"SQLite format 3\0"

_IN_WAL_MODE: Final = b"\2\2"
_CHUNK_ROWS = 20_000
_ALLOWED = frozenset((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_TRANSACTION))
_STEPS_BETWEEN_CHECKS = 100_000
_LOOKUP_BATCH = 500


class DecoderInput(NamedTuple):
    """What our own decoder needs of an open file."""

    descriptor: int
    pages: btree.PageLayout


class StatementWatch:
    """Told by SQLite how long a statement has run; ends what takes more time, or more steps, than is possible."""

    def __init__(self, deadline: float, file_bytes: int) -> None:
        self.deadline = deadline
        self.most_rows: Final = file_bytes // 4  # two bytes of a page's pointer to a row, two of its cell
        # five steps for each column of a row, forty columns at most; and a tenth of a second, whatever the size
        self._most_steps = self.most_rows * 250 + 10_000_000
        self.steps = 0
        """Of the statement that is under way."""

    def __call__(self) -> bool:
        """Whether the statement is to end; called every `_STEPS_BETWEEN_CHECKS` steps."""
        self.steps += _STEPS_BETWEEN_CHECKS
        return self.has_gone_in_circles or time.monotonic() > self.deadline

    @property
    def has_gone_in_circles(self) -> bool:
        """Whether the statement took more steps than all rows of the file could take."""
        return self.steps > self._most_steps


class SqliteTables:
    """One open database, as the tables of an export."""

    container = "sqlite"

    def __init__(
        self,
        connection: sqlite3.Connection,
        name: str,
        limits: Limits,
        progress: Progress,
        watch: StatementWatch,
        own: DecoderInput | str,
    ) -> None:
        self._connection, self._name, self._watch = connection, name, watch
        self._limits, self._progress = limits, progress
        self._own = own if isinstance(own, DecoderInput) else None
        self._why_not_own = own if isinstance(own, str) else None
        self._left_to_sqlite: set[str] = set()
        self._counts: dict[str, int] = {}
        self._shapes = self._real_tables()
        self.tables: Final[Mapping[str, frozenset[str]]] = {
            name: frozenset(shape.visible) for name, shape in self._shapes.items()
        }

    @property
    def views(self) -> Mapping[str, frozenset[str]]:
        listed = self._rows("SELECT name FROM sqlite_master WHERE type = 'view'")
        return {_text(name): frozenset() for (name,) in listed}

    @property
    def decoding(self) -> Decoding:
        """What reads the tables, as far as they were read."""
        if self._own is None:
            return Decoding("sqlite", self._why_not_own)
        return Decoding("native", by_sqlite=tuple(sorted(self._left_to_sqlite)))

    def _real_tables(self) -> dict[str, btree.TableShape]:
        is_table = "type = 'table' AND sql LIKE 'CREATE TABLE%'"
        shapes = {}
        for stored, root, sql in self._rows(
            f"SELECT name, rootpage, sql FROM sqlite_master WHERE {is_table} ORDER BY name"
        ):
            name = _text(stored)
            described = [
                (_text(column), _text(kind), default is not None, key, hidden)
                for _, column, kind, _, default, key, hidden in self._rows(f"PRAGMA table_xinfo({_quote(name)})")
            ]
            # SQLite also takes a root that is written as text; our decoder leaves such a table to it
            shapes[name] = btree.shape(root if isinstance(root, int) else 0, _text(sql), described)
        return shapes

    def count(self, table: str) -> int:
        if table not in self._counts:
            # `count(*)` goes over the pages in one step, of which nothing tells us, and so nothing could end it;
            # and an index may be wrong where the table is not
            [(count,)] = self._rows(f"SELECT count(1) FROM {_quote(table)} NOT INDEXED")
            if count > self._watch.most_rows:
                raise self._more_than_there_is_room_for()
            self._counts[table] = count
        return self._counts[table]

    def integers(self, table: str, columns: Sequence[str]) -> IntegerColumns:
        read = self._decode(table, columns) or self._query(table, columns)
        self._counts.update((table, len(values)) for values in read.columns.values())
        return read

    def _decode(self, table: str, columns: Sequence[str]) -> IntegerColumns | None:
        """By our own decoder, many times faster; None where only SQLite knows."""
        if self._own is None:
            return None
        return btree.integers(
            *self._own,
            table,
            self._shapes[table],
            columns,
            most_rows=self._limits.rows_per_table,
            deadline=self._watch.deadline,
            progress=self._progress,
        )

    def _query(self, table: str, columns: Sequence[str]) -> IntegerColumns:
        self._left_to_sqlite.add(table)
        wanted = ", ".join(f"ifnull({_quote(column)}, {NULL})" for column in columns)
        chunks = [np.empty((0, len(columns)), np.int64)]
        bad = np.zeros(len(columns), np.int64)
        done = 0
        for rows in self._chunks(f"SELECT {wanted} FROM {_quote(table)} NOT INDEXED"):
            values = np.array(rows)
            if values.dtype != np.int64:  # some value is no integer: find out which
                bad += np.array([[type(value) is not int for value in row] for row in rows]).sum(axis=0)
                values = np.array([[value if type(value) is int else NULL for value in row] for row in rows], np.int64)
            chunks.append(values)
            done += len(rows)
            self._progress(table, done)
            if done > self._limits.rows_per_table:
                raise too_many_rows(self._name, table, self._limits.rows_per_table)
        # one contiguous array per column: everything downstream works column by column
        whole = np.concatenate(chunks).T.copy()
        counts = {column: count for column, count in zip(columns, bad.tolist(), strict=True) if count}
        return IntegerColumns(dict(zip(columns, whole, strict=True)), counts)

    def texts(self, table: str, column: str) -> TextColumn:
        decoded = self._decode_texts(table, column)
        return self._query_texts(table, column) if decoded is None else decoded

    def _decode_texts(self, table: str, column: str) -> TextColumn | None:
        if self._own is None:
            return None
        shape, most = self._shapes[table], self._limits.rows_per_table
        return btree.texts(*self._own, shape, column, most_rows=most, deadline=self._watch.deadline)

    def _query_texts(self, table: str, column: str) -> TextColumn:
        self._left_to_sqlite.add(table)
        sql = f"SELECT {_quote(column)} FROM {_quote(table)} NOT INDEXED"
        return TextColumn.of(_as_bytes(row[0]) for rows in self._chunks(sql) for row in rows)

    def texts_by_id(self, table: str, id_column: str, column: str, ids: Collection[int]) -> dict[int, bytes]:
        texts: dict[int, bytes] = {}
        shape, pending = self._shapes[table], sorted(ids)
        select = f"SELECT {_quote(id_column)}, {_quote(column)} FROM {_quote(table)}"
        if shape.alias < 0 or shape.columns[shape.alias] != id_column:  # each look-up would go over the whole table
            wanted = frozenset(ids)
            chunks = self._chunks(f"{select} NOT INDEXED")
            pairs = (pair for rows in chunks for pair in rows if pair[0] in wanted)
        else:
            batches = (pending[start : start + _LOOKUP_BATCH] for start in range(0, len(pending), _LOOKUP_BATCH))
            pairs = (
                pair
                for batch in batches
                for pair in self._rows(f"{select} WHERE {_quote(id_column)} IN ({', '.join('?' * len(batch))})", batch)
            )
        for key, text in pairs:
            texts.setdefault(key, _as_bytes(text) or b"")
        return texts

    def _rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return [row for rows in self._chunks(sql, parameters) for row in rows]

    def _chunks(self, sql: str, parameters: Sequence[object] = ()) -> Iterator[list[tuple[Any, ...]]]:
        self._watch.steps = 0
        done = 0
        with _memory_as_damage(self._name):
            cursor = self._connection.execute(sql, parameters)
        while True:
            with _memory_as_damage(self._name):
                rows = cursor.fetchmany(_CHUNK_ROWS)
            if not rows:
                return
            done += len(rows)
            if done > self._watch.most_rows:
                raise self._more_than_there_is_room_for()
            yield rows

    def _more_than_there_is_room_for(self) -> UnreadableProfile:
        return _damage(self._name, "its pages hold more rows than the file has room for")


@contextlib.contextmanager
def _memory_as_damage(name: str) -> Iterator[None]:
    """A damaged file may ask SQLite for memory without end; a few thousand rows never need so much."""
    try:
        yield
    except MemoryError:
        raise _damage(name, "SQLite asks for more memory than there is in order to read it") from None


def _as_bytes(value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return str(value).encode()


def _text(value: object) -> str:
    return (_as_bytes(value) or b"").decode(errors="backslashreplace")


def _quote(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


@contextlib.contextmanager
def open_sqlite(source: Source, limits: Limits, progress: Progress) -> Iterator[SqliteTables]:
    """Open `source` for reading and close it after. What SQLite says of a broken file becomes one sentence."""
    _refuse_if_cut(source)
    log_bytes = seen(Path(f"{source.path}-wal")).st_size
    watch = StatementWatch(time.monotonic() + limits.read_seconds, source.size + log_bytes)
    with contextlib.ExitStack() as stack:
        uri = _uri(source, stack)
        try:
            connection = stack.enter_context(_connected(source, uri))
            connection.text_factory = bytes
            connection.set_authorizer(_only_reads)
            connection.set_progress_handler(watch, _STEPS_BETWEEN_CHECKS)
            connection.execute("BEGIN")  # one snapshot for all tables
            yield SqliteTables(connection, source.name, limits, progress, watch, _own(source, stack))
        except (sqlite3.Error, UnicodeDecodeError) as error:  # a message that quotes a damaged schema is no text
            raise _in_one_sentence(source, error, limits, watch) from error


def _connected(source: Source, uri: str) -> contextlib.closing[sqlite3.Connection]:
    """The database, open. SQLite opens a path only, which another file may have taken: what it opened is looked at."""
    file = source.identity if is_limited() and uri.startswith(source.path.absolute().as_uri()) else None
    before = times_open(file) if file else 0
    connection = contextlib.closing(sqlite3.connect(uri, uri=True))
    if file and times_open(file) == before:
        with connection:
            raise changed(source.name)
    return connection


def _own(source: Source, stack: contextlib.ExitStack) -> DecoderInput | str:
    """The file for our own decoder, or why not. The connection's snapshot holds writers off while both read."""
    if not btree.is_there():
        return "switched-off" if os.environ.get("GPULEDGER_NATIVE") == "0" else "not-compiled"
    pages = btree.PageLayout.of(source.path, source.head, source.size)
    if pages is not None:
        return DecoderInput(stack.enter_context(opened(source)).fileno(), pages)
    if source.head[18:20] == _IN_WAL_MODE or btree.lies_beside(source.path, "-wal"):
        return "write-ahead-log"
    return "journal" if btree.lies_beside(source.path, "-journal") else "unusual-header"


def _only_reads(action: int, argument: str | None, *_: object) -> int:
    if action == sqlite3.SQLITE_PRAGMA and argument == "table_xinfo":
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def _uri(source: Source, stack: contextlib.ExitStack) -> str:
    """How to open the file so that nothing is written beside it.

    A database in WAL mode makes SQLite write an index beside it even when opened read-only. With an empty log,
    `immutable` avoids that. With a log that holds pages it would lose them without a word, so we read a copy. Where
    only some folders may be read, so is a journal: SQLite would go to wherever its path leads.
    """
    path, has_log = source.path.absolute(), source.head[18:20] == _IN_WAL_MODE
    ending = "-wal" if has_log else "-journal"
    if not (has_log or is_limited()):
        return f"{path.as_uri()}?mode=ro"
    if not seen(Path(f"{path}{ending}")).st_size:
        return f"{path.as_uri()}?mode=ro&immutable=1"
    try:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpuledger-")))
        for file in (path, Path(f"{path}{ending}")):
            copy_into(folder, file)
    except OSError as error:
        raise UnreadableProfile(
            f"{source.name}: has a {ending[1:]} file, and cannot be copied to a temporary folder to be read with it",
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


def _in_one_sentence(
    source: Source, error: sqlite3.Error | UnicodeDecodeError, limits: Limits, watch: StatementWatch
) -> UnreadableProfile:
    if btree.lies_beside(source.path, "-journal"):
        return UnreadableProfile(
            f"{source.name}: the export was interrupted, or is still running",
            found=f"{source.path.name}-journal is next to it ({error})",
            hint="wait for `nsys export` to end, or run it again",
        )
    if watch.has_gone_in_circles:
        return _damage(source.name, "its pages lead in circles")
    if "interrupted" in str(error):
        return too_slow(source.name, limits.read_seconds)
    return _damage(source.name, f"SQLite says: {error}")


def _damage(name: str, found: str) -> UnreadableProfile:
    return UnreadableProfile(f"{name}: a damaged SQLite database", found=found, hint="copy or export it again")


class SqliteReader:
    """What `nsys export --type=sqlite` writes, and the databases of AMD's profilers."""

    name = "sqlite"
    formats = (
        Format("SQLite export", "`nsys export --type=sqlite`", "nsys 2020 to 2026", "nothing"),
        Format(
            "rocpd, `*_results.db`",
            "`rocprofv3` (ROCm 7), `--output-format rocpd`",
            "schema 3, of 2025 and 2026",
            "synchronizations, OS calls; calls and markers unless traced (`--sys-trace`)",
        ),
        Format(
            ".rpd",
            "`runTracer.sh`, rocpd_tracer of rocmProfileData",
            "schema 2",
            "names of GPUs, synchronizations, OS calls, allocations",
        ),
        Format(
            "rocprof results.db (and kernels as CSV)",
            "`rocprof --hip-trace`, `rocprof --timestamp on`",
            "of 2025",
            "names of GPUs, sizes of launches and copies, synchronizations, OS calls",
        ),
    )

    def recognises(self, source: Source) -> bool:
        return source.head.startswith(MAGIC)

    def read(self, source: Source, wanted: WantedColumns, limits: Limits, progress: Progress) -> Trace:
        with in_time(source.name, limits), open_sqlite(source, limits, progress) as export:
            if "StringIds" not in export.tables:  # each export of nsys has it
                from gpuledger.read.rocm.databases import reader_of

                if (read := reader_of(export.tables)) is not None:
                    return read(export, source.name, wanted, limits)
            return read_export(export, source.name, wanted, limits, progress)

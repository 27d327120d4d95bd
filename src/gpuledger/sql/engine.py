"""DuckDB over our columns: arrays as they lie in memory, read by nobody else, within limits of time and memory.

DuckDB reads numpy's arrays in place, so a table costs nothing to hand over. Texts stay codes until a query names them:
the view of a table joins each text column with the texts that there are. A query runs in a thread of its own, which is
interrupted at the deadline and by Ctrl-C, one at a time, as the bound on memory is the whole process's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpuledger.errors import QueryRefused
from gpuledger.limits import Limits
from gpuledger.sql.statement import duckdb_package, refusal
from gpuledger.sql.tables import BY_NAME, ColumnValues, TableValues
from gpuledger.system.resources import address_space_bound, usable_cores
from gpuledger.trace.deadline import left_s
from gpuledger.trace.strings import Strings
from gpuledger.units import bytes_text

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_MOST_THREADS: Final = 8
_FETCHED: Final = 10_000
_AGAIN_S: Final = 0.05
_GRACE_S: Final = 5.0
"""What a query that is interrupted has to notice it; what takes longer is left behind, within its memory."""
_BESIDES: Final = 1 << 30  # address space that threads and DuckDB take beside what the limit is about

_ONE_AT_A_TIME: Final = threading.Lock()


@dataclass(slots=True)
class _RunningQuery:
    """One query under way, and what came of it."""

    done: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    connection: DuckDBPyConnection | None = None
    columns: tuple[tuple[str, str], ...] = ()
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    error: BaseException | None = None
    is_over: bool = False  # whether nobody waits for it any longer

    def fetch(self, answer: DuckDBPyConnection, most: int) -> None:
        """Rows as they are made, so that an endless answer does no harm."""
        self.columns = tuple((str(name), str(kind)) for name, kind, *_ in answer.description or ())
        while not self.is_over and len(self.rows) < most:
            some = answer.fetchmany(min(_FETCHED, most - len(self.rows)))
            if not some:
                return
            self.rows += some

    def stop(self) -> None:
        """Interrupt it, again and again: an interrupt that comes just before it begins is not heard."""
        self.is_over = True
        for _ in range(round(_GRACE_S / _AGAIN_S)):
            with self.lock:
                if self.connection is not None:
                    self.connection.interrupt()
            if self.done.wait(_AGAIN_S):
                return

    @contextmanager
    def interruptible(self, connection: DuckDBPyConnection) -> Iterator[None]:
        """What is done meanwhile can be interrupted; after it, the connection may be closed."""
        with self.lock:
            self.connection = connection
        try:
            yield
        finally:
            with self.lock:
                self.connection = None


def run(
    sql: str, tables: Mapping[str, TableValues], limits: Limits
) -> tuple[tuple[tuple[str, str], ...], list[tuple[Any, ...]], bool]:
    """The answer's columns, with DuckDB's types; its rows; and whether there are more than are kept."""
    duckdb, ran = duckdb_package(), _RunningQuery()

    def left() -> float:
        return max(min(limits.query_seconds, left_s()), 0.0)

    if not _ONE_AT_A_TIME.acquire(timeout=left()):
        raise too_slow(limits)
    worker = threading.Thread(target=_in_thread, args=(sql, tables, limits, ran), daemon=True, name="query")
    worker.start()
    try:
        if not ran.done.wait(left()):
            raise too_slow(limits)
    except BaseException:  # also Ctrl-C
        ran.stop()
        raise
    finally:
        if ran.done.is_set():  # what it held is let go of before the interpreter may end, or DuckDB's glue crashes
            worker.join(_GRACE_S)
    if isinstance(ran.error, duckdb.OutOfMemoryException | MemoryError):
        raise QueryRefused(
            f"the query needs more memory than its limit of {bytes_text(limits.query_memory_bytes)}",
            hint="narrow it with WHERE or LIMIT, or raise the limit: --limit=query-memory-bytes=16GB",
        )
    if isinstance(ran.error, duckdb.Error):
        raise refusal(ran.error, tables)
    if ran.error is not None:
        raise ran.error
    rows = ran.rows[: limits.query_rows]
    return ran.columns, rows, len(ran.rows) > len(rows)


def _in_thread(sql: str, tables: Mapping[str, TableValues], limits: Limits, ran: _RunningQuery) -> None:
    """Whoever is left behind still closes what it opened, and lets the next one in."""
    try:
        with (
            duckdb_package().connect(":memory:") as connection,
            address_space_bound(limits.query_memory_bytes + _BESIDES),
        ):
            _hand_over(connection, tables)
            for name, value in _settings(limits):
                connection.execute(f"SET {name} = {value}")
            with ran.interruptible(connection):
                if not ran.is_over:
                    ran.fetch(connection.execute(sql), limits.query_rows + 1)
    except BaseException as error:  # it is raised where somebody waits for it
        ran.error = error
    finally:
        _ONE_AT_A_TIME.release()
        ran.done.set()


def _settings(limits: Limits) -> Iterator[tuple[str, str]]:
    """In an order in which none forbids the next; the last forbids to change any."""
    yield "threads", str(min(usable_cores(), _MOST_THREADS))
    yield "memory_limit", f"'{limits.query_memory_bytes}B'"
    yield "temp_directory", "''"
    for name in ("allow_community_extensions", "autoinstall_known_extensions", "autoload_known_extensions"):
        yield name, "false"
    yield "python_enable_replacements", "false"
    yield "enable_external_access", "false"
    yield "lock_configuration", "true"


def too_slow(limits: Limits) -> QueryRefused:
    """That a query, or what it needs, took too long."""
    return QueryRefused(
        f"the query takes longer than its limit of {limits.query_seconds:g} s",
        hint=f"narrow it with WHERE, or raise the limit: --limit=query-seconds={10 * max(limits.query_seconds, 1):g}",
    )


def _hand_over(connection: DuckDBPyConnection, tables: Mapping[str, TableValues]) -> None:
    texts: dict[int, str] = {}
    for table, values in tables.items():
        columns = {name: column for name, column in values.items() if isinstance(column, ColumnValues)}
        connection.register(f"_{table}", {name: column.array for name, column in columns.items()})
        for column in columns.values():
            if column.texts is not None and id(column.texts) not in texts:
                texts[id(column.texts)] = f"_texts{len(texts)}"
                spelled = column.texts.as_unicode() if isinstance(column.texts, Strings) else list(column.texts)
                text = np.empty(len(spelled), object)
                text[:] = spelled
                connection.register(texts[id(column.texts)], {"code": np.arange(len(spelled)), "text": text})
        connection.execute(_view(table, values, texts))


def _view(table: str, values: TableValues, texts: Mapping[int, str]) -> str:
    """The view that shows a table: numbers as they are, NULL for what is not there, texts for codes."""
    shown, joins = [], []
    for column in BY_NAME[table].columns:
        if column.name not in values:
            continue
        own, held = f'own."{column.name}"', values[column.name]
        if isinstance(held, str):
            own = held
        elif held.texts is not None:
            joins.append(f"LEFT JOIN {texts[id(held.texts)]} AS of_{column.name} ON of_{column.name}.code = {own}")
            own = f"of_{column.name}.text"
        elif held.array.dtype.kind == "f":
            own = f"CASE WHEN isnan({own}) THEN NULL ELSE {own} END"
        elif held.missing is not None:
            own = f"nullif({own}, {held.missing})"
        shown.append(f'CAST({own} AS {column.type}) AS "{column.name}"')
    return f'CREATE VIEW "{table}" AS SELECT {", ".join(shown)} FROM "_{table}" AS own {" ".join(joins)}'

"""What a query answers: a trace and SQL in, typed columns and rows of plain values out.

DuckDB reads numpy's arrays in place, so a table costs nothing to hand over. Texts stay codes until a query names them:
the view of a table joins each text column with the texts that there are. A query runs in a copy of this process, which
shares its memory and is killed at the deadline and by Ctrl-C: some functions of DuckDB hear no interrupt, and the bound
on memory is a whole process's.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from gpuledger.errors import QueryRefused, needing
from gpuledger.findings.profiled_run import WHERE_SAMPLED
from gpuledger.ledger.device import Device
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.messages import say
from gpuledger.sql.booked import QuerySubject, booked_values, call_values, launched_values
from gpuledger.sql.nvidia_names import views
from gpuledger.sql.statement import Statement, duckdb_package, in_time_and_memory, refusal, statement, too_slow
from gpuledger.sql.tables import BY_NAME, ColumnValues, QueryTable, TableValues, columns_to_read, recorded_values
from gpuledger.system.resources import usable_cores
from gpuledger.trace.deadline import until
from gpuledger.trace.model import Note, Trace
from gpuledger.trace.notebook_table import html_table, rows_text
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import EVENTS, Table
from gpuledger.visible_text import visible

if TYPE_CHECKING:
    import pandas
    import polars
    from duckdb import DuckDBPyConnection

Value = int | float | str | bool | list[Any] | dict[str, Any] | None

_SHOWN: Final = 50  # rows shown in a notebook


class AnswerColumn(Struct, frozen=True):
    """One column of an answer: what the query calls it, and DuckDB's type."""

    name: str
    type: str


class QueryAnswer(Struct, frozen=True, tag_field="schema", tag="gpuledger.query/1"):
    """What a query answers. Values are plain: numbers, texts, true, false, null, and lists and objects of those; dates
    and blobs are text, NaN and infinity null.
    """

    profile: str
    sql: str
    columns: tuple[AnswerColumn, ...]
    rows: tuple[tuple[Value, ...], ...]
    """A list of values each, in the order of the columns."""
    is_cut: bool
    """Whether there are more rows than the limit `query_rows` lets through."""
    not_measured: tuple[str, ...] = ()
    """Which of the tables that it names the profile does not hold, and why: their rows are not measured, not none."""
    health: tuple[Note, ...] = ()
    """What to know of the profile's numbers."""

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        names = ", ".join(visible(column.name) for column in self.columns)
        return f"<QueryAnswer: {rows_text(len(self))}{' and more' if self.is_cut else ''} of {names}>"

    @property
    def _names(self) -> list[str]:
        return [column.name for column in self.columns]

    def _repr_html_(self) -> str:
        """What a notebook shows: the first rows, and what is not among them."""
        more = f"the first {_SHOWN} of {rows_text(len(self))}" if len(self) > _SHOWN else ""
        cut = f"there are more rows than these {len(self):,}" if self.is_cut else ""
        return html_table(self._names, self.rows[:_SHOWN], *self.not_measured, more, cut)

    def to_polars(self) -> polars.DataFrame:
        """The answer for polars."""
        with needing("polars", "to_polars()", "polars"):
            import polars

        return polars.DataFrame(self.rows, schema=self._names, orient="row", infer_schema_length=None)

    def to_pandas(self) -> pandas.DataFrame:
        """The answer for pandas."""
        with needing("pandas", "to_pandas()", "pandas"):
            import pandas

        return pandas.DataFrame(list(self.rows), columns=self._names)

    def to_dicts(self) -> list[dict[str, Value]]:
        """A dict for each row."""
        return [dict(zip(self._names, row, strict=True)) for row in self.rows]


def ask(trace: Trace, devices: Sequence[Device] | None, sql: str, *, limits: Limits = DEFAULT_LIMITS) -> QueryAnswer:
    """Answer a question in SQL; `devices` are the trace's books, where they are made already."""
    return answer_statement(statement(sql, limits), QuerySubject(trace, devices), limits)


def to_read(asked: Statement) -> tuple[Mapping[Table, Collection[str]], Mapping[Table, Collection[str]]]:
    """What must be read of a profile for a question: columns of tables, and columns where its GPU was sampled."""
    tables = {BY_NAME[name]: columns for name, columns in asked.asked.items()}
    read: dict[Table, set[str]] = {}
    if any(table.recorded is None or any(table[name].is_booked for name in tables[table]) for table in tables):
        read = {table: {column.name for column in table.schema.columns} for table in EVENTS}
    for table, columns in tables.items():
        if table.recorded is not None:
            read.setdefault(table.recorded, {"start_ns", "end_ns"}).update(columns_to_read(table.recorded, columns))
    # tables that say more where a GPU's counters were sampled
    sampled = WHERE_SAMPLED if asked.asked.keys() & {"use", "findings", "light"} else {}
    return read or {Table.KERNELS: {"start_ns", "end_ns"}}, sampled


def answer_statement(asked: Statement, subject: QuerySubject, limits: Limits) -> QueryAnswer:
    """Make the tables that the question names, and ask."""
    with until(time.monotonic() + limits.query_seconds - asked.parse_seconds, lambda: too_slow(limits)):
        tables = {name: _values(subject, BY_NAME[name], columns) for name, columns in asked.asked.items()}
        more = tuple(views(asked.by_nvidia, asked.asked))
        columns, rows, is_cut = in_time_and_memory(lambda: run(asked.sql, tables, limits, more), limits)
    return QueryAnswer(
        profile=subject.name,
        sql=asked.sql,
        columns=tuple(AnswerColumn(*column) for column in columns),
        rows=tuple(rows),
        is_cut=is_cut,
        not_measured=tuple(_not_measured(subject, asked)),
        health=tuple(subject.trace.health),
    )


def _values(subject: QuerySubject, table: QueryTable, columns: Collection[str]) -> TableValues:
    if table.recorded is None:
        return booked_values(subject, table)
    values = recorded_values(subject.trace, table.recorded, columns)
    booked = [name for name in columns if table[name].is_booked]
    if not booked:
        return values
    is_call = table.recorded is Table.CALLS
    return values | (call_values(subject, booked) if is_call else launched_values(subject, table.recorded, booked))


def _not_measured(subject: QuerySubject, asked: Statement) -> list[str]:
    notes: list[str] = []
    for name in asked.asked:
        table = BY_NAME[name].recorded
        if table is not None and (missing := subject.trace.missing(table)) is not None:
            notes.append(
                say("{table} is empty because it was not recorded: {reason}", table=name, reason=missing.reason)
            )
    if "use" in asked.asked and not subject.use:
        was_sampled = len(subject.trace.tables.get(Table.METRICS, ())) > 0
        notes.append(
            say("use is empty because no sample of GPU metrics can be used")
            if was_sampled
            else say("use is empty because no GPU metrics were sampled")
        )
    return notes


def _plain(value: Any) -> Value:
    """A value of DuckDB's as JSON knows it; what it does not know (dates, blobs) as text, no number as None.

    So is a decimal of more digits than a number of JSON keeps.
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Decimal():
            number = int(value) if value == value.to_integral_value() else float(value)
            return number if Decimal(repr(number)) == value else str(value)
        case list() | tuple():
            return [_plain(member) for member in value]
        case dict():
            return {str(key): _plain(member) for key, member in value.items()}
        case _:
            return str(value)


def run(
    sql: str, tables: Mapping[str, TableValues], limits: Limits, more_views: Sequence[str] = ()
) -> tuple[tuple[tuple[str, str], ...], list[tuple[Value, ...]], bool]:
    """The answer's columns, with DuckDB's types; its rows; and whether there are more than are kept."""
    duckdb = duckdb_package()
    try:
        with duckdb.connect(":memory:") as connection:
            _hand_over(connection, tables)
            for view in more_views:
                connection.execute(view)
            for name, value in _settings(limits):
                connection.execute(f"SET {name} = {value}")
            answer = connection.execute(sql)
            columns = tuple((str(name), str(kind)) for name, kind, *_ in answer.description or ())
            for name, kind in columns:
                if "TIMESTAMP WITH TIME ZONE" in kind:  # DuckDB asks a package for those that we do not need
                    raise QueryRefused(
                        f"column {name} holds times with a time zone", hint="cast them: now()::TIMESTAMP"
                    )
            rows: list[tuple[Value, ...]] = []
            most = limits.query_rows + 1
            while len(rows) < most and (some := answer.fetchmany(min(10_000, most - len(rows)))):
                rows += (tuple(map(_plain, row)) for row in some)
            return columns, rows[: limits.query_rows], len(rows) == most
    except duckdb.OutOfMemoryException:
        raise MemoryError from None
    except duckdb.Error as error:
        raise refusal(error, tables) from None


def _settings(limits: Limits) -> Iterator[tuple[str, str]]:
    """In an order in which none forbids the next; the last forbids to change any."""
    yield "threads", str(min(usable_cores(), 8))
    yield "memory_limit", f"'{limits.query_memory_bytes}B'"
    yield "temp_directory", "''"
    for name in ("allow_community_extensions", "autoinstall_known_extensions", "autoload_known_extensions"):
        yield name, "false"
    yield "python_enable_replacements", "false"
    yield "enable_external_access", "false"
    yield "lock_configuration", "true"


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

"""What a query answers: a trace and SQL in, typed columns and rows of plain values out."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from gpuledger.errors import needing
from gpuledger.findings.profiled_run import WHERE_SAMPLED
from gpuledger.ledger.device import Device
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.messages import say
from gpuledger.sql.booked import BOOKED, QuerySubject, call_values, launched_values
from gpuledger.sql.engine import run, too_slow
from gpuledger.sql.statement import Statement, statement
from gpuledger.sql.tables import BY_NAME, QueryTable, TableValues, columns_to_read, recorded_values
from gpuledger.trace.deadline import until
from gpuledger.trace.model import Note, Trace
from gpuledger.trace.notebook_table import html_table, rows_text
from gpuledger.trace.tables import EVENTS, Table
from gpuledger.visible_text import visible

if TYPE_CHECKING:
    import pandas
    import polars

Value = int | float | str | bool | list[Any] | dict[str, Any] | None

_SHOWN: Final = 50  # so many rows are shown in a notebook
_FROM_SAMPLES: Final = ("use", "findings")  # tables that say more where a GPU's counters were sampled


@dataclass(frozen=True, slots=True)
class AnswerColumn:
    """One column of an answer: what the query calls it, and DuckDB's type."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """What a query answers. Values are plain: int, float, str, bool, None, and lists and dicts of those."""

    sql: str
    columns: tuple[AnswerColumn, ...]
    rows: tuple[tuple[Value, ...], ...]
    is_cut: bool  # whether there are more rows than the limit `query_rows` lets through
    notes: tuple[str, ...] = ()
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
        return html_table(self._names, self.rows[:_SHOWN], *self.notes, more, cut)

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
    return answer_statement(statement(sql), QuerySubject(trace, devices), limits)


def to_read(asked: Statement) -> tuple[Mapping[Table, Collection[str]], Mapping[Table, Collection[str]]]:
    """What must be read of a profile for a question: columns of tables, and columns where its GPU was sampled."""
    tables = {BY_NAME[name]: columns for name, columns in asked.asked.items()}
    read: dict[Table, set[str]] = {}
    if any(table.recorded is None or any(table[name].is_booked for name in tables[table]) for table in tables):
        read = {table: {column.name for column in table.schema.columns} for table in EVENTS}
    for table, columns in tables.items():
        if table.recorded is not None:
            read.setdefault(table.recorded, {"start_ns", "end_ns"}).update(columns_to_read(table, columns))
    sampled = WHERE_SAMPLED if asked.asked.keys() & set(_FROM_SAMPLES) else {}
    return read or {Table.KERNELS: {"start_ns", "end_ns"}}, sampled


def answer_statement(asked: Statement, subject: QuerySubject, limits: Limits) -> QueryAnswer:
    """Make the tables that the question names, and ask."""
    with until(time.monotonic() + limits.query_seconds, lambda: too_slow(limits)):
        tables = {name: _values(subject, BY_NAME[name], columns) for name, columns in asked.asked.items()}
        columns, rows, is_cut = run(asked.sql, tables, limits)
    return QueryAnswer(
        sql=asked.sql,
        columns=tuple(AnswerColumn(*column) for column in columns),
        rows=tuple(tuple(map(_plain, row)) for row in rows),
        is_cut=is_cut,
        notes=tuple(_not_measured(subject, asked)),
        health=tuple(subject.trace.health),
    )


def _values(subject: QuerySubject, table: QueryTable, columns: Collection[str]) -> TableValues:
    if table.recorded is None:
        return BOOKED[table.name](subject)
    values = recorded_values(subject.trace, table, columns)
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
        notes.append(say("use is empty because no GPU metrics were sampled"))
    return notes


def _plain(value: Any) -> Value:
    """A value of DuckDB's as JSON knows it; what it does not know (dates, blobs) as text, no number as None."""
    match value:
        case None | bool() | int() | str():
            return value
        case float() | Decimal():
            number = float(value)
            return number if math.isfinite(number) else None
        case list() | tuple():
            return [_plain(member) for member in value]
        case dict():
            return {str(key): _plain(member) for key, member in value.items()}
        case _:
            return str(value)

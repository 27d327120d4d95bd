"""The columns of a trace's tables as they were read: nothing is copied, and nothing worked out but lengths."""

from __future__ import annotations

from collections.abc import Collection

from gpuledger.errors import QueryRefused
from gpuledger.ledger.calls import short_names
from gpuledger.sql.column_values import ColumnValues, TableValues, instants
from gpuledger.sql.tables import AXES, QueryTable
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import TIMES, Kind, Rows, Table


def columns_to_read(table: QueryTable, asked: Collection[str]) -> set[str]:
    """The trace's columns that these columns of the query come from."""
    read: set[str] = set()
    for name in asked:
        shape, _, axis = name.rpartition("_")
        if name == "short_name" and table.recorded is Table.CALLS:
            read.add("name")
        elif axis in AXES and _is_shape(table, shape):
            read.add(shape)
        elif name != "duration_ns" and not table[name].is_booked:
            read.add(name)
    return read


def _is_shape(table: QueryTable, name: str) -> bool:
    columns = () if table.recorded is None else table.recorded.schema.columns
    return any(column.name == name and column.kind is Kind.TRIPLE for column in columns)


def recorded_values(trace: Trace, table: QueryTable, asked: Collection[str]) -> TableValues:
    """These columns of one of the trace's tables, and its times, so that every table has a column."""
    if table.recorded is None:
        raise ValueError(f"{table.name} is a table of the books")
    rows = _rows(trace, table.recorded, columns_to_read(table, asked))
    values: TableValues = {name: instants(rows[name]) for name in TIMES}
    for name in asked:
        if name not in TIMES and not table[name].is_booked:
            values[name] = _column(rows, table, name)
    return values


def _rows(trace: Trace, table: Table, needed: Collection[str]) -> Rows:
    if table not in trace.tables and table not in trace.absent:
        raise _not_read(table.value)
    rows = trace[table]
    if lacking := sorted(name for name in needed if name not in rows):
        raise _not_read(f"{table.value}.{lacking[0]}")
    return rows


def _not_read(what: str) -> QueryRefused:
    return QueryRefused(
        f"{what} was not read with this trace",
        hint="hand over the profile's path instead, or open it whole: open_trace(path, only=tuple(Table))",
    )


def _column(rows: Rows, table: QueryTable, name: str) -> ColumnValues | str:
    if name == "duration_ns":
        return "end_ns - start_ns"
    if name == "short_name" and table.recorded is Table.CALLS:
        texts, codes = short_names(rows)
        return ColumnValues(codes, texts)
    shape, _, axis = name.rpartition("_")
    if axis in AXES and _is_shape(table, shape):
        return ColumnValues(rows[shape][:, AXES.index(axis)])
    column = rows.schema[name]
    if column.kind is Kind.TEXT:
        return ColumnValues(rows.codes(name), rows.strings)
    return ColumnValues(rows[name], missing=column.missing)

"""The answer to a question in SQL as a document, and the tables that can be asked."""

from __future__ import annotations

import json
from typing import Final

from gpuledger.messages import Message, say
from gpuledger.present.document import Block, Document, Remarks, SheetBlock, SheetTitle
from gpuledger.present.safe_text import visible
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.sql.answer import QueryAnswer, Value
from gpuledger.sql.tables import QuerySchema, QueryTable
from gpuledger.units import count_text

SHOWN: Final = 50
"""So many rows are shown to people; programs get all of them."""

_NUMBERS: Final = ("INT", "DOUBLE", "FLOAT", "DECIMAL", "REAL")


def query_document(answer: QueryAnswer) -> Document:
    """The rows, then what is not among them."""
    told = tuple(_remarks(answer))
    return Document(
        blocks=lambda: (
            SheetBlock(answer_sheet(answer, SHOWN, exact=False), tells_hidden=True),
            *([Remarks(told)] if told else []),
        ),
        data=lambda: answer,
        sheets=lambda: (answer_sheet(answer, len(answer.rows), exact=True),),
        remarks=tuple(answer.not_measured) + ((_cut(answer),) if answer.is_cut else ()),
    )


def answer_sheet(answer: QueryAnswer, most: int, *, exact: bool) -> Sheet:
    """The first rows as a table; names may come from a profile too, where a query turns values into columns."""

    def column(place: int, name: str, type_: str) -> Column:
        return Column(name, name, _unit(type_), lambda row: _cell(row[place], exact=exact))

    columns = [column(place, visible(asked.name), asked.type) for place, asked in enumerate(answer.columns)]
    return Sheet.of("query", say("answer"), columns, answer.rows[:most], rounded=False)


def _unit(type_: str) -> Unit:
    is_number = type_.startswith(_NUMBERS) or type_.endswith("INT") or type_ == "INTEGER"
    return Unit.FIGURE if is_number else Unit.TEXT


def _cell(value: Value, *, exact: bool) -> Cell:
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value) if exact else f"{value:.6g}" if abs(value) < 1e6 else f"{value:.1f}"
        case _:
            return json.dumps(value, ensure_ascii=False)


def _remarks(answer: QueryAnswer) -> list[str]:
    told: list[str] = list(answer.not_measured)
    if not answer.rows:
        told.append(say("No rows."))
    if len(answer.rows) > SHOWN:
        told.append(
            say(
                "{shown} of {count} rows are shown; --format=csv or json has them all, WHERE and LIMIT ask for fewer.",
                shown=SHOWN,
                count=count_text(len(answer.rows)),
            )
        )
    return [*told, _cut(answer)] if answer.is_cut else told


def _cut(answer: QueryAnswer) -> Message:
    return say(
        "There are more rows than these {count}: WHERE asks for fewer, --limit=query-rows={more} keeps more.",
        count=count_text(len(answer.rows)),
        more=10 * max(len(answer.rows), 1),
    )


def schema_document(schema: QuerySchema) -> Document:
    """What can be asked: all tables, or the columns of one."""
    tables = schema.tables
    sheet, more = _columns_sheet(tables[0]), list[Block]()
    if len(tables) > 1:
        columns = (
            Column("table", say("table"), Unit.TEXT, "name"),
            Column("row", say("a row is"), Unit.TEXT, is_prose=True),
        )
        sheet = Sheet.of("tables", say("Tables"), columns, tables)
        more = [Remarks((say("The columns of one: gpuledger query --schema {table}", table=tables[0].name),))]
    return Document(
        blocks=lambda: (SheetBlock(sheet, SheetTitle.BARE), *more), data=lambda: schema, sheets=lambda: (sheet,)
    )


def _columns_sheet(table: QueryTable) -> Sheet:
    columns = (
        Column("column", say("column"), Unit.TEXT, "name"),
        Column("type", say("type"), Unit.TEXT),
        Column("unit", say("unit"), Unit.TEXT),
        Column("meaning", say("meaning"), Unit.TEXT, is_prose=True),
    )
    return Sheet.of(table.name, say("{table}: {row}", table=table.name, row=table.row), columns, table.columns)

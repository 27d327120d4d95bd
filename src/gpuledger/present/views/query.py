"""The answer to a question in SQL as a document, and the tables that can be asked."""

from __future__ import annotations

import json
from typing import Final

from gpuledger.messages import Message, say
from gpuledger.present.document import Block, Document, Remarks, SheetBlock, SheetTitle
from gpuledger.present.row_sheets import row_sheet
from gpuledger.present.safe_text import visible
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.sql.answer import QueryAnswer, Value
from gpuledger.sql.tables import QueryColumn, QuerySchema, QueryTable
from gpuledger.units import count_text

SHOWN: Final = 50
"""So many rows are shown to people; programs get all of them."""

_NUMBERS: Final = ("INT", "DOUBLE", "FLOAT", "DECIMAL", "REAL")


def query_document(answer: QueryAnswer) -> Document:
    """The rows, then what is not among them."""
    missing: list[str] = [*answer.not_measured]
    cut = [_cut(answer)] if answer.is_cut else []
    told = [*missing, *([] if answer.rows else [say("No rows.")])]
    if len(answer.rows) > SHOWN:
        told.append(
            say(
                "{shown} of {count} rows are shown; --format=csv or json has them all, WHERE and LIMIT ask for fewer.",
                shown=SHOWN,
                count=count_text(len(answer.rows)),
            )
        )
    remarks = [Remarks((*told, *cut))] if told or cut else []
    return Document(
        blocks=lambda: (SheetBlock(answer_sheet(answer, SHOWN, exact=False), tells_hidden=True), *remarks),
        data=lambda: answer,
        sheets=lambda: (answer_sheet(answer, len(answer.rows), exact=True),),
        remarks=(*missing, *cut),
    )


def answer_sheet(answer: QueryAnswer, most: int, *, exact: bool) -> Sheet:
    """The first rows as a table; names may come from a profile too, where a query turns values into columns."""
    columns = []
    for asked in answer.columns:
        is_number = asked.type.startswith(_NUMBERS) or asked.type.endswith("INT")
        columns.append(Column(visible(asked.name), visible(asked.name), Unit.FIGURE if is_number else Unit.TEXT))
    rows = tuple(tuple(_cell(value, exact=exact) for value in row) for row in answer.rows[:most])
    return Sheet("query", say("answer"), tuple(columns), rows, rounded=False)


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


def _cut(answer: QueryAnswer) -> Message:
    return say(
        "There are more rows than these {count}: WHERE asks for fewer, --limit=query-rows={more} keeps more.",
        count=count_text(len(answer.rows)),
        more=10 * max(len(answer.rows), 1),
    )


def schema_document(schema: QuerySchema) -> Document:
    """What can be asked: all tables, or the columns of one."""
    first, more = schema.tables[0], list[Block]()
    sheet = row_sheet(first.name, say("{table}: {row}", table=first.name, row=first.row), QueryColumn, first.columns)
    if len(schema.tables) > 1:
        sheet = row_sheet("tables", say("Tables"), QueryTable, schema.tables)
        more = [Remarks((say("The columns of one: gpuledger query --schema {table}", table=first.name),))]
    return Document(
        blocks=lambda: (SheetBlock(sheet, SheetTitle.BARE), *more), data=lambda: schema, sheets=lambda: (sheet,)
    )

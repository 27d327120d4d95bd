"""Sheets as tables of a page: every number with its unit, the exact value beside it, long names cut.

What is shown is rounded for people, as in text; the exact value is kept for sorting and for whoever reads the page by
program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from gpuledger.messages import say
from gpuledger.present.digits import number_text
from gpuledger.present.safe_text import cut_apart, visible
from gpuledger.present.sheet import Cell as Value
from gpuledger.present.sheet import Column, Sheet, Term, Unit
from gpuledger.present.writers.html.parts import Cell, Head, Room, Table, Tell
from gpuledger.units import count_text

LONGEST_TEXT: Final = 72
"""Letters of a text before the rest of it is folded away."""

LONGEST_NAME: Final = 34
"""Letters of a kernel's name before the same."""

_ENOUGH: Final = 1_000
"""Letters of a name that are looked at for what tells it apart from others."""


def table(
    sheet: Sheet,
    tell: Tell,
    room: Room,
    *,
    caption: str = "",
    filters: bool = False,
    name: str = "",
    quiet: bool = False,
    without: Sequence[str] = (),
    letters: int = LONGEST_NAME,
) -> Table:
    """The sheet as a table, but for the columns `without`; names of kernels are cut to `letters`."""
    sheet = _without(sheet, without)
    said = caption or tell(sheet.title)
    if len(sheet.rows) > room.rows:
        more = say("{title} (first {shown} of {count} rows)", title=said, shown=room.rows, count=len(sheet.rows))
        said = tell(more)
    shown = sheet.rows[: room.rows]
    cells = _cells(sheet.columns, (*shown, *sheet.foot), tell, room, letters)
    exact = all(column.unit is not Unit.FIGURE for column in sheet.columns)
    return Table(
        caption=said,
        heads=tuple(
            Head(heading(column, tell), column.unit is not Unit.TEXT, column.shorten is not None)
            for column in sheet.columns
        ),
        rows=cells[: len(shown)],
        foot=cells[len(shown) :],
        sorts=exact and len(sheet.rows) > 2,
        filters=filters,
        name=name,
        quiet=quiet,
    )


def _cells(
    columns: Sequence[Column], rows: Sequence[Sequence[Value]], tell: Tell, room: Room, letters: int
) -> tuple[tuple[Cell, ...], ...]:
    """Row by row; made column by column, as names that look alike when cut are cut where they differ."""
    if not rows:
        return ()
    by_column = []
    for position, column in enumerate(columns):
        values = [row[position] for row in rows]
        names = {} if column.shorten is None else _names(values, column.shorten, tell, room, letters)
        by_column.append([names.get(row) or cell(value, column, tell, room) for row, value in enumerate(values)])
    return tuple(zip(*by_column, strict=True))


def _names(
    values: Sequence[Value], shorten: Callable[[str], str], tell: Tell, room: Room, letters: int
) -> dict[int, Cell]:
    """By row: names of kernels, short, each with the whole of it where something was left out."""
    whole = {row: name for row, name in enumerate(values) if isinstance(name, str)}
    labels = [visible(middle(shorten(name), _ENOUGH)) for name in whole.values()]
    short = [text.replace("……", "…") for text in cut_apart(labels, letters)]
    return {
        row: Cell(text, whole="" if text == name else cut(name, room.letters, tell))
        for text, (row, name) in zip(short, whole.items(), strict=True)
    }


def heading(column: Column, tell: Tell) -> str:
    """What a column is called; units stand with the numbers instead."""
    return tell(column.page_name or column.name)


def cell(value: Value, column: Column, tell: Tell, room: Room) -> Cell:
    """One cell with its unit."""
    if value is None:
        return Cell("")
    if isinstance(value, Term):
        return _term_cell(value, tell, room)
    if isinstance(value, str):
        return _text_cell(value, column, tell, room)
    if isinstance(value, tuple):
        return Cell(" x ".join(map(str, value)))
    share = min(max(value / 100, 0.0), 1.0) if column.unit is Unit.SHARE_PERCENT else None
    return Cell(number_text(value, column.unit), repr(value), share=share)


def _term_cell(term: Term, tell: Tell, room: Room) -> Cell:
    said = tell(term.words)
    short = visible(middle(said, LONGEST_TEXT))
    whole = "" if short == said else cut(said, room.letters, tell)
    return Cell(short, whole=whole, tone=term.tone, badge=term.badge, depth=term.depth)


def _text_cell(value: str, column: Column, tell: Tell, room: Room) -> Cell:
    said = tell(value)
    if column.unit is Unit.FIGURE:
        return Cell(middle(said, LONGEST_TEXT))
    short = visible(middle(said, LONGEST_TEXT))
    return Cell(short, whole="" if short == said else cut(said, room.letters, tell))


def cut(text: str, letters: int, tell: Tell) -> str:
    """A text of at most so many letters, with a mark where the rest was."""
    # cut before anything else is done with it, as a name may have any length
    shown = visible(text[: letters + 1])
    if len(text) <= letters and len(shown) <= letters:
        return shown
    mark = say("… (truncated: {count} characters in total)", count=count_text(len(text)))
    return shown[:letters] + tell(mark)


def middle(text: str, letters: int) -> str:
    """The beginning and the end of a text, in at most so many letters."""
    if len(text) <= letters:
        return text
    tail = (letters - 1) // 2
    return f"{text[: letters - 1 - tail]}…{text[len(text) - tail :]}"


def _without(sheet: Sheet, keys: Sequence[str]) -> Sheet:
    kept = [position for position, column in enumerate(sheet.columns) if column.key not in keys]
    if len(kept) == len(sheet.columns):
        return sheet
    rows, foot = (tuple(tuple(row[position] for position in kept) for row in part) for part in (sheet.rows, sheet.foot))
    return replace(sheet, columns=tuple(sheet.columns[position] for position in kept), rows=rows, foot=foot)

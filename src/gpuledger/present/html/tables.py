"""Sheets as tables of a page: every number with its unit, the exact value beside it, long names cut.

What is shown is rounded for people, as in text; the exact value is kept for sorting and for whoever reads the page by
program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from gpuledger.messages import say
from gpuledger.present.digits import cell_text, tenths
from gpuledger.present.html.parts import Cell, Head, Room, Table, Tell
from gpuledger.present.html.words import BADGES, cell_words, heading_words
from gpuledger.present.safe_text import cut_apart, visible
from gpuledger.present.sheet import Cell as Value
from gpuledger.present.sheet import Column, Sheet, Term, Unit
from gpuledger.units import bytes_text, count_text, time_text

LONGEST_TEXT: Final = 72
"""Letters of a text before the rest of it is folded away."""

LONGEST_NAME: Final = 34
"""Letters of a kernel's name before the same."""

_ENOUGH: Final = 1_000
"""Letters of a name that are looked at for what tells it apart from others."""

_SECOND: Final = 1_000_000_000

Tones = Mapping[str, Callable[[str], str]]
"""By a column's key: from the text of a cell to the tone of its swatch."""


def table(
    sheet: Sheet,
    tell: Tell,
    room: Room,
    *,
    caption: str = "",
    filters: bool = False,
    name: str = "",
    tones: Tones | None = None,
    quiet: bool = False,
    without: Sequence[str] = (),
    letters: int = LONGEST_NAME,
) -> Table:
    """The sheet as a table, but for the columns `without`; `tones` gives a cell's swatch, by the column's key.

    Names of kernels are cut to `letters`.
    """
    sheet = _without(_with_units(sheet), without)
    shown, foot = list(sheet.rows), list(sheet.foot)
    while shown and str(shown[-1][0]) in ("total", "window"):
        foot.insert(0, shown.pop())
    said = caption or tell(sheet.title)
    if len(shown) > room.rows:
        more = say("{title} (the first {shown} of {count} rows)", title=said, shown=room.rows, count=len(shown))
        said = tell(more)
    body = _cells(sheet.columns, [*shown[: room.rows], *foot], tell, room, tones or {}, letters)
    exact = all(column.unit is not Unit.FIGURE for column in sheet.columns)
    return Table(
        caption=said,
        heads=tuple(
            Head(heading(column, tell), column.unit is not Unit.TEXT, column.shorten is not None)
            for column in sheet.columns
        ),
        rows=tuple(body[: len(body) - len(foot)]),
        foot=tuple(body[len(body) - len(foot) :]),
        sorts=exact and len(shown) > 2,
        filters=filters,
        name=name,
        quiet=quiet,
    )


def _cells(
    columns: Sequence[Column], rows: Sequence[Sequence[Value]], tell: Tell, room: Room, tones: Tones, letters: int
) -> list[tuple[Cell, ...]]:
    """Row by row; made column by column, as names that look alike when cut are cut where they differ."""
    made = []
    for at, column in enumerate(columns):
        values = [row[at] for row in rows]
        if column.shorten is not None:
            cells = _names(values, column.shorten, tell, room, letters)
        else:
            cells = [cell(value, column, tell, room) for value in values]
        if column.key in tones:
            swatch = tones[column.key]
            cells = [
                replace(each, tone=swatch(value)) if isinstance(value, str) else each
                for each, value in zip(cells, values, strict=True)
            ]
        made.append(cells)
    return list(zip(*made, strict=True)) if rows else []


def _names(values: Sequence[Value], shorten: Callable[[str], str], tell: Tell, room: Room, letters: int) -> list[Cell]:
    """Names of kernels, short, each with the whole of it where something was left out."""
    whole = ["" if value is None else str(value) for value in values]
    labels = [visible(middle(shorten(name), _ENOUGH)) for name in whole]
    short = [text.replace("……", "…") for text in cut_apart(labels, letters)]
    return [
        Cell(text, whole="" if text == name else cut(name, room.letters, tell))
        for text, name in zip(short, whole, strict=True)
    ]


def heading(column: Column, tell: Tell) -> str:
    """What a column is called; units stand with the numbers instead."""
    return tell(heading_words(column.key, column.name))


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
    return Cell(_number_text(value, column.unit), repr(value), share=share)


def _number_text(value: float, unit: Unit) -> str:
    """A number for people, with its unit."""
    match unit:
        case Unit.SHARE_PERCENT | Unit.CHANGE_PERCENT:
            return f"{tenths(value)} %"
        case Unit.INSTANT_NS:
            return f"{round(value) / _SECOND:.6f} s"
        case Unit.NS | Unit.MEAN_NS:
            return time_text(round(value))
        case Unit.BYTES | Unit.MB:
            return bytes_text(round(value))
        case Unit.MB_PER_S:
            return f"{bytes_text(round(value))}/s"
        case Unit.GB_PER_S:
            return f"{tenths(value)} GB/s"
        case Unit.COUNT if isinstance(value, int):
            return count_text(value)
        case Unit.ID:
            return str(value)
        case _:
            return cell_text(value, unit.digits)


def _term_cell(term: Term, tell: Tell, room: Room) -> Cell:
    said = tell(term.words)
    short = visible(middle(said, LONGEST_TEXT))
    whole = "" if short == said else cut(said, room.letters, tell)
    return Cell(short, whole=whole, tone=term.tone, badge=term.badge, depth=term.depth)


def _text_cell(value: str, column: Column, tell: Tell, room: Room) -> Cell:
    bare = value.lstrip(" ")
    depth = (len(value) - len(bare)) // 2 if column.key == "range" else 0
    said = tell(cell_words(column.key, value if not depth else bare))
    badge = BADGES.get(value.split(":")[0], "") if column.key in ("verdict", "result", "severity") else ""
    if column.unit is Unit.FIGURE:
        return Cell(middle(said, LONGEST_TEXT), badge=badge)
    short = visible(middle(said, LONGEST_TEXT))
    whole = "" if short == said else cut(said, room.letters, tell)
    return Cell(short, whole=whole, badge=badge, depth=depth)


def cut(text: str, letters: int, tell: Tell) -> str:
    """A text of at most so many letters, with a mark where the rest was."""
    # cut before anything else is done with it, as a name may have any length
    shown = visible(text[: letters + 1])
    if len(text) <= letters and len(shown) <= letters:
        return shown
    mark = say("… (cut here: {count} letters in all)", count=count_text(len(text)))
    return shown[:letters] + tell(mark)


def middle(text: str, letters: int) -> str:
    """The beginning and the end of a text, in at most so many letters."""
    if len(text) <= letters:
        return text
    tail = (letters - 1) // 2
    return f"{text[: letters - 1 - tail]}…{text[len(text) - tail :]}"


def _without(sheet: Sheet, keys: Sequence[str]) -> Sheet:
    kept = [at for at, column in enumerate(sheet.columns) if column.key not in keys]
    if len(kept) == len(sheet.columns):
        return sheet
    columns = tuple(sheet.columns[at] for at in kept)
    return replace(sheet, columns=columns, rows=tuple(tuple(row[at] for at in kept) for row in sheet.rows))


def _with_units(sheet: Sheet) -> Sheet:
    """A sheet of figures that are named in the rows, with each value's unit put to it."""
    if [column.key for column in sheet.columns] != ["figure", "value", "unit"]:
        return sheet
    rows: list[tuple[Value, ...]] = []
    for figure, value, unit in sheet.rows:
        number = float(value) if isinstance(value, int | float) else 0.0
        text = time_text(round(number)) if unit == "ns" else f"{tenths(number)} {unit or ''}".rstrip()
        rows.append((figure, text))
    columns = (sheet.columns[0], Column("value", "Value", Unit.FIGURE))
    return Sheet(sheet.name, sheet.title, columns, tuple(rows))

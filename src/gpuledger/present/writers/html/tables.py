"""Sheets as tables of a page: every number with its unit, the exact value beside it, long names cut.

What is shown is rounded for people, as in text; the exact value is kept for sorting and for whoever reads the page by
program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.messages import say
from gpuledger.present.digits import number_text
from gpuledger.present.document import SheetBlock, Tell, TimelinePlace
from gpuledger.present.safe_text import cut_apart, visible
from gpuledger.present.sheet import Cell, Column, Sheet, Term, Unit
from gpuledger.units import count_text

LONGEST_TEXT: Final = 72
"""Letters of a text before the rest of it is folded away."""

LONGEST_NAME: Final = 34
"""Letters of a kernel's name before the same."""

_ENOUGH: Final = 1_000
"""Letters of a name that are looked at for what tells it apart from others."""

_DRAWN: Final = "bar"
"""The column that draws with letters, for terminals; a page draws better."""

_TALL: Final = 28
_MANY: Final = 8
_SOME: Final = 3
_PRINTS_AS_ZERO: Final = 0.0005


class Room(Struct, frozen=True):
    """How much a page may hold of what a profile has without limit."""

    rows: int
    """Of the longest table."""
    letters: int
    """Of one name."""


class ColumnHead(Struct, frozen=True):
    """The heading of a column."""

    text: str
    number: bool
    names: bool
    """Whether the column holds names that are cut already, so that they need not be broken."""


class TableCell(Struct, frozen=True):
    """One cell. `value` is the exact number, to sort by and to compare with the JSON."""

    text: str
    value: str = ""
    whole: str = ""
    """The whole of a name that is shortened in `text`."""
    share: float | None = None
    """Drawn as a bar under the text."""
    tone: str = ""
    """A swatch before the text."""
    badge: str = ""
    """good, warn or bad: a verdict."""
    depth: int = 0
    """How far it is set in, in a tree."""
    place: TimelinePlace | None = None


TableRow = tuple[TableCell, ...]


class HtmlTable(Struct, frozen=True):
    """A table as the template writes it. Rows of `foot` stay at the bottom however it is sorted."""

    caption: str
    heads: tuple[ColumnHead, ...]
    rows: tuple[TableRow, ...]
    foot: tuple[TableRow, ...]
    sorts: bool
    filters: bool
    name: str
    quiet: bool
    families: int | None
    """The column that holds families, where rows can be chosen by theirs."""
    kind: str = "table"

    @property
    def tall(self) -> bool:
        """Whether it has so many rows that it scrolls in a box of its own."""
        return len(self.rows) > _TALL

    @property
    def searches(self) -> bool:
        """Whether rows can be searched for: where one would look for them."""
        return self.filters or len(self.rows) > _MANY

    @property
    def copies(self) -> bool:
        """Whether it can be copied as CSV: where nobody would type it."""
        return len(self.rows) >= _SOME

    @property
    def zero_rows(self) -> tuple[bool, ...]:
        """Which rows are folded away: their shares are there and all print as 0.0 %. One alone stays."""
        shares = [[cell.share for cell in row if cell.share is not None] for row in self.rows]
        folded = tuple(bool(of_row) and max(of_row) < _PRINTS_AS_ZERO for of_row in shares)
        return folded if 1 < sum(folded) < len(folded) else (False,) * len(folded)

    @property
    def family_names(self) -> tuple[str, ...]:
        """The families of its rows, each once, where rows can be chosen by theirs."""
        if self.families is None:
            return ()
        return tuple(dict.fromkeys(row[self.families].text for row in self.rows))


def table(block: SheetBlock, tell: Tell, room: Room) -> HtmlTable:
    """The table with as many rows as there is room for, the others in one where they can be put together."""
    sheet = _without(block.sheet, {*block.without, _DRAWN})
    caption = tell(block.caption or sheet.title)
    shown, foot = sheet.rows[: room.rows], sheet.foot
    if len(sheet.rows) > room.rows and block.rest is not None:
        foot = (*foot, block.rest(sheet.rows[room.rows :]))
    elif len(sheet.rows) > room.rows and not (block.is_quiet and block.caption):
        count = len(sheet.rows)
        caption = tell(say("{title} (first {shown} of {count} rows)", title=caption, shown=room.rows, count=count))
    cells = _cells(sheet.columns, (*shown, *foot), tell, room, block.name_letters or LONGEST_NAME)
    rows = cells[: len(shown)]
    if block.places:
        placed = zip(rows, block.places, strict=False)
        rows = tuple((replace(row[0], place=place), *row[1:]) for row, place in placed)
    keys = [column.key for column in sheet.columns]
    exact = all(column.unit is not Unit.FIGURE for column in sheet.columns)
    return HtmlTable(
        caption=caption,
        heads=tuple(
            ColumnHead(tell(column.title(exact=False)), column.unit is not Unit.TEXT, column.shorten is not None)
            for column in sheet.columns
        ),
        rows=rows,
        foot=cells[len(shown) :],
        sorts=exact and len(sheet.rows) > 2 and not block.is_tree,
        filters=block.filters,
        name=block.anchor,
        quiet=block.is_quiet,
        families=keys.index(block.families_in) if block.families_in else None,
    )


def _cells(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], tell: Tell, room: Room, letters: int
) -> tuple[TableRow, ...]:
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
    values: Sequence[Cell], shorten: Callable[[str], str], tell: Tell, room: Room, letters: int
) -> dict[int, TableCell]:
    """By row: names of kernels, short, each with the whole of it where something was left out."""
    whole = {row: name for row, name in enumerate(values) if isinstance(name, str)}
    labels = [visible(middle(shorten(name), _ENOUGH)) for name in whole.values()]
    short = [text.replace("……", "…") for text in cut_apart(labels, letters)]
    return {
        row: TableCell(text, whole="" if text == name else cut(name, room.letters, tell))
        for text, (row, name) in zip(short, whole.items(), strict=True)
    }


def cell(value: Cell, column: Column, tell: Tell, room: Room) -> TableCell:
    """One cell with its unit."""
    match value:
        case None:
            return TableCell("")
        case tuple():
            return TableCell(" x ".join(map(str, value)))
        case str() if column.unit is Unit.FIGURE:
            return TableCell(middle(tell(value), LONGEST_TEXT))
        case str() | Term():
            term = value if isinstance(value, Term) else Term("", value)
            said = tell(term.words)
            short = visible(middle(said, LONGEST_TEXT))
            whole = "" if short == said else cut(said, room.letters, tell)
            return TableCell(short, whole=whole, tone=term.tone, badge=term.badge, depth=term.depth)
        case _:
            share = min(max(value / 100, 0.0), 1.0) if column.unit is Unit.SHARE_PERCENT else None
            return TableCell(number_text(value, column.unit), repr(value), share=share)


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


def _without(sheet: Sheet, keys: set[str]) -> Sheet:
    kept = [position for position, column in enumerate(sheet.columns) if column.key not in keys]
    if len(kept) == len(sheet.columns):
        return sheet
    rows, foot = (tuple(tuple(row[position] for position in kept) for row in part) for part in (sheet.rows, sheet.foot))
    return replace(sheet, columns=tuple(sheet.columns[position] for position in kept), rows=rows, foot=foot)

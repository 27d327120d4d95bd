"""Sheets as aligned text. At a given width, details go first, then names are cut in the middle, and sentences wrapped.

Where the terminal has colours, the first column of shares has a bar beside it, if there is room to spare.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from gpuledger.present.digits import shown_text
from gpuledger.present.safe_text import cut_apart, cut_in_the_middle, display_width, visible, wrapped
from gpuledger.present.sheet import Cell, Column, Digits, Sheet, Term, Unit
from gpuledger.present.terminal import BADGES, Style, Terminal, bar, tone_style

_GAP: Final = "  "
_NAME_WIDTH: Final = 26
"""How much room names should have before details are shown."""

_NARROWEST: Final = 8
"""No column of names is cut further."""

_BAR: Final = 12
"""Columns of a bar: what is whole."""

_BAR_COLUMN: Final = Column("bar", "", Unit.TEXT)


class _TextColumn(NamedTuple):
    """One column with its cells as text."""

    column: Column
    heading: str
    cells: Sequence[str]
    styles: Sequence[tuple[Style, ...]]

    @property
    def is_text(self) -> bool:
        return self.column.digits is Digits.TEXT

    @property
    def width(self) -> int:
        """What its heading and its cells need."""
        return max(map(display_width, (self.heading, *self.cells)))


class TableLines(NamedTuple):
    """A table as lines, the columns that there was no room for, and how wide a terminal shows them all."""

    lines: list[str]
    hidden: list[str]
    width_of_all: int


def sheet_lines(sheet: Sheet, terminal: Terminal, longest_name: int | None = None, *, raw: bool = False) -> TableLines:
    """The table itself; no text in it is longer than said."""
    exact = raw or not sheet.rounded
    every = [_text_column(sheet, index, column, exact=exact) for index, column in enumerate(sheet.columns)]
    shown = every if terminal.width is None else _that_fit(every, terminal.width)
    hidden = [entry.heading.removesuffix(" (ns)") for entry in every if entry not in shown]
    if terminal.has_colours and not exact and not hidden:
        shown = _with_bars(sheet, shown, terminal.width)
    return TableLines(_lines(shown, terminal, longest_name), hidden, _least_width(every))


def _text_column(sheet: Sheet, index: int, column: Column, *, exact: bool) -> _TextColumn:
    values = [row[index] for row in sheet.all_rows]
    cells = [visible(shown_text(value, column, exact=exact)) for value in values]
    return _TextColumn(column, column.title(exact=exact), cells, [_cell_style(value) for value in values])


def _cell_style(value: Cell) -> tuple[Style, ...]:
    return (BADGES[value.badge],) if isinstance(value, Term) and value.badge else ()


def _with_bars(sheet: Sheet, columns: Sequence[_TextColumn], width: int | None) -> list[_TextColumn]:
    """The same with a bar beside the first shares, where they can be compared and a line has room for it."""
    shares = [index for index, entry in enumerate(columns) if entry.column.unit is Unit.SHARE_PERCENT]
    needed = sum(entry.width for entry in columns) + len(_GAP) * len(columns) + _BAR
    if not shares or len(sheet.rows) < 2 or (width is not None and needed > width):
        return list(columns)
    values = [row[shares[0]] for row in sheet.rows]
    bars = [bar(value / 100, _BAR) if isinstance(value, int | float) else "" for value in values]
    tones = [next((cell.tone for cell in row if isinstance(cell, Term) and cell.tone), "") for row in sheet.rows]
    styles: list[tuple[Style, ...]] = [(tone_style(tone),) for tone in tones]
    blank = len(sheet.foot)
    drawn = _TextColumn(_BAR_COLUMN, "", [*bars, *[""] * blank], [*styles, *[()] * blank])
    return [*columns[: shares[0] + 1], drawn, *columns[shares[0] + 1 :]]


def _that_fit(columns: Sequence[_TextColumn], width: int) -> list[_TextColumn]:
    """The columns that leave the names enough room: details go first, the least important one before the others.

    Where the rest is still too wide with its names cut short, columns go from the right, but the first of all and the
    first name stay: they say what a row is.
    """
    shown = list(columns)
    while _least_width(shown) > width:
        details = [entry for entry in shown if entry.column.detail]
        if not details:
            break
        shown.remove(max(reversed(details), key=lambda entry: entry.column.detail))  # `of` goes before what it is of
    name = next((entry for entry in shown if entry.is_text), None)
    while _least_width(shown, _NARROWEST) > width:
        others = [entry for entry in shown[1:] if entry is not name]
        if len(others) < 2:
            break
        shown.remove(others[-1])
    return shown


def _least_width(shown: Sequence[_TextColumn], name_width: int = _NAME_WIDTH) -> int:
    needed = (min(entry.width, name_width) if entry.is_text else entry.width for entry in shown)
    return len(_GAP) * (len(shown) - 1) + sum(needed)


def _lines(columns: Sequence[_TextColumn], terminal: Terminal, longest_name: int | None) -> list[str]:
    """The rows under their headings, numbers to the right, text to the left."""
    widths = [entry.width for entry in columns]
    if longest_name is not None:
        widths = [
            min(needed, max(longest_name, display_width(entry.heading))) if entry.is_text else needed
            for entry, needed in zip(columns, widths, strict=True)
        ]
    if terminal.width is not None:
        _share_out(columns, widths, terminal.width)
    rows = zip(*(_blocks(entry, room, terminal) for entry, room in zip(columns, widths, strict=True)), strict=True)
    return [_GAP.join(line).rstrip() for row in rows for line in _side_by_side(row, widths)]


def _blocks(entry: _TextColumn, room: int, terminal: Terminal) -> list[list[str]]:
    """The lines of each cell: one, but for sentences; the heading and the rule under it first."""
    if entry.column.is_prose:
        cells = [wrapped(cell, room).splitlines() or [""] for cell in entry.cells]
    else:
        cells = [[cell] for cell in cut_apart(entry.cells, room, entry.column.shorten)]
    rule = "-" * (room if entry.column is not _BAR_COLUMN else 0)
    styles: list[tuple[Style, ...]] = [("bold",), ("dim",), *entry.styles]
    return [
        [_aligned(line, room, terminal, style, to_left=entry.is_text) for line in lines]
        for lines, style in zip([[cut_in_the_middle(entry.heading, room)], [rule], *cells], styles, strict=True)
    ]


def _side_by_side(cells: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[tuple[str, ...]]:
    """The lines of one row: as many as its longest cell has."""
    for number in range(max(map(len, cells))):
        yield tuple(
            lines[number] if number < len(lines) else " " * room for lines, room in zip(cells, widths, strict=True)
        )


def _aligned(text: str, room: int, terminal: Terminal, styles: tuple[Style, ...], *, to_left: bool) -> str:
    space, painted = " " * (room - display_width(text)), terminal.painted(text, *styles)
    return painted + space if to_left else space + painted


def _share_out(columns: Sequence[_TextColumn], widths: list[int], width: int) -> None:
    """Cut the text columns, the widest first, until a line fits."""
    names = [index for index, entry in enumerate(columns) if entry.is_text]
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while excess > 0 and names:
        widest = max(names, key=lambda index: widths[index])
        if widths[widest] <= _NARROWEST:
            return
        widths[widest] -= 1
        excess -= 1

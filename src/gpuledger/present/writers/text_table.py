"""Sheets as aligned text. At a given width, details go first, then long names are cut in the middle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from gpuledger.present.digits import cell_text, number_text
from gpuledger.present.safe_text import cut_apart, cut_in_the_middle, display_width, visible
from gpuledger.present.sheet import Cell, Column, Digits, Sheet

_GAP: Final = "  "
_NAME_WIDTH: Final = 26
"""How much room names should have before details are shown."""

_NARROWEST: Final = 8
"""No column of names is cut further."""


class _TextColumn(NamedTuple):
    """One column with its cells as text."""

    column: Column
    heading: str
    cells: Sequence[str]

    @property
    def is_text(self) -> bool:
        return self.column.digits is Digits.TEXT

    @property
    def width(self) -> int:
        """What its heading and its cells need."""
        return max(map(display_width, (self.heading, *self.cells)))


def sheet_lines(sheet: Sheet, width: int | None, longest_name: int | None = None) -> tuple[list[str], list[str]]:
    """The table itself, no text in it longer than said, and the names of the columns that there was no room for."""
    every = [
        _TextColumn(
            column,
            column.name if sheet.rounded else column.heading,
            [visible(_cell(row[index], column, rounded=sheet.rounded)) for row in sheet.all_rows],
        )
        for index, column in enumerate(sheet.columns)
    ]
    shown = every if width is None else _that_fit(every, width)
    hidden = [entry.heading.removesuffix(" (ns)") for entry in every if entry not in shown]
    return _lines(shown, width, longest_name), hidden


def _cell(value: Cell, column: Column, *, rounded: bool) -> str:
    return (
        number_text(value, column.unit)
        if rounded and isinstance(value, int | float)
        else cell_text(value, column.digits)
    )


def _that_fit(columns: Sequence[_TextColumn], width: int) -> list[_TextColumn]:
    """The columns that leave the names enough room, details dropped from the least important."""
    shown = list(columns)
    while _least_width(shown) > width:
        details = [entry for entry in shown if entry.column.detail]
        if not details:
            break
        shown.remove(max(details, key=lambda entry: entry.column.detail))
    return shown


def _least_width(shown: Sequence[_TextColumn]) -> int:
    needed = (min(entry.width, _NAME_WIDTH) if entry.is_text else entry.width for entry in shown)
    return len(_GAP) * (len(shown) - 1) + sum(needed)


def _lines(columns: Sequence[_TextColumn], width: int | None, longest_name: int | None) -> list[str]:
    """The rows under their headings, numbers to the right, text to the left."""
    widths = [entry.width for entry in columns]
    if longest_name is not None:
        widths = [
            min(needed, max(longest_name, display_width(entry.heading))) if entry.is_text else needed
            for entry, needed in zip(columns, widths, strict=True)
        ]
    if width is not None:
        _share_out(columns, widths, width)
    drawn = []
    for entry, room in zip(columns, widths, strict=True):
        texts = [
            cut_in_the_middle(entry.heading, room),
            "-" * room,
            *cut_apart(entry.cells, room, entry.column.shorten),
        ]
        drawn.append([_aligned(text, room, to_left=entry.is_text) for text in texts])
    return [_GAP.join(line).rstrip() for line in zip(*drawn, strict=True)]


def _aligned(text: str, room: int, *, to_left: bool) -> str:
    space = " " * (room - display_width(text))
    return text + space if to_left else space + text


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

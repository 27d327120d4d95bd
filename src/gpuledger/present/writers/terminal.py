"""Sheets as aligned text. At a given width, details go first, then long names are cut in the middle."""

from __future__ import annotations

from collections.abc import Sequence

from gpuledger.present.digits import cell_text
from gpuledger.present.safe_text import cut_apart, cut_in_the_middle, visible
from gpuledger.present.sheet import Column, Digits, Sheet

_GAP = "  "
_NAME_WIDTH = 26
"""How much room names should have before details are shown."""


def sheet_lines(sheet: Sheet, width: int | None, longest_name: int | None = None) -> tuple[list[str], list[str]]:
    """The table itself, no text in it longer than said, and the headings that there was no room for."""
    columns = [
        [visible(cell_text(row[at], column.digits)) for row in sheet.all_rows]
        for at, column in enumerate(sheet.columns)
    ]
    shown = _that_fit(sheet.columns, columns, width)
    hidden = [column.heading.removesuffix(" (ns)") for column in sheet.columns if column not in shown]
    lines = _grid(
        [sheet.columns[at] for at in range(len(columns)) if sheet.columns[at] in shown],
        [columns[at] for at in range(len(columns)) if sheet.columns[at] in shown],
        width,
        longest_name,
    )
    return lines, hidden


def _that_fit(columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int | None) -> list[Column]:
    """The columns that leave the names enough room, details dropped from the least important."""
    shown = list(columns)
    while width is not None and _least_width(shown, columns, cells) > width:
        details = [column for column in shown if column.detail]
        if not details:
            break
        shown.remove(max(details, key=lambda column: column.detail))
    return shown


def _least_width(shown: Sequence[Column], columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> int:
    total = len(_GAP) * (len(shown) - 1)
    for column, texts in zip(columns, cells, strict=True):
        if column in shown:
            need = _need(column, texts)
            total += min(need, _NAME_WIDTH) if column.digits is Digits.TEXT else need
    return total


def _need(column: Column, texts: Sequence[str]) -> int:
    from rich.cells import cell_len

    return max(cell_len(column.heading), *(cell_len(text) for text in texts))


def _grid(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int | None, longest_name: int | None
) -> list[str]:
    """The rows under their headings, numbers to the right, text to the left."""
    from rich.cells import cell_len

    widths = [_need(column, texts) for column, texts in zip(columns, cells, strict=True)]
    if longest_name is not None:
        for at, column in enumerate(columns):
            if column.digits is Digits.TEXT:
                widths[at] = min(widths[at], max(longest_name, cell_len(column.heading)))
    if width is not None:
        _share_out(columns, widths, width)

    cells = [cut_apart(texts, widths[at], columns[at].shorten) for at, texts in enumerate(cells)]

    def padded(at: int, text: str) -> str:
        space = " " * (widths[at] - cell_len(text))
        return text + space if columns[at].digits is Digits.TEXT else space + text

    lines = [
        [cut_in_the_middle(column.heading, widths[at]) for at, column in enumerate(columns)],
        ["-" * each for each in widths],
        *zip(*cells, strict=True),
    ]
    return [_GAP.join(padded(at, text) for at, text in enumerate(line)).rstrip() for line in lines]


def _share_out(columns: Sequence[Column], widths: list[int], width: int) -> None:
    """Cut the text columns, the widest first, until a line fits."""
    texts = [at for at, column in enumerate(columns) if column.digits is Digits.TEXT]
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while excess > 0 and texts:
        widest = max(texts, key=lambda at: widths[at])
        if widths[widest] <= 8:
            return
        widths[widest] -= 1
        excess -= 1

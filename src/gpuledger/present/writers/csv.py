"""Sheets as CSV, as NVIDIA writes them: a field is quoted only where it must be.

NVIDIA quotes a field that holds a comma and escapes nothing inside it. We double a quote inside a quoted field, and
quote one with a line break or a quote at its start too, so that every reader gets the name back whole. No name that
starts like a formula reaches a spreadsheet, and what a terminal would obey is spelled out: JSON has it to the letter.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuledger.present.digits import cell_text
from gpuledger.present.safe_text import visible_lines
from gpuledger.present.sheet import Digits, Sheet


def sheets_csv(sheets: Iterable[Sheet]) -> str:
    """One table after the other, an empty line between two."""
    return "\n".join(map(sheet_csv, sheets))


def sheet_csv(sheet: Sheet) -> str:
    """Header and rows, each ended by a newline."""
    lines = [",".join(_field(column.heading) for column in sheet.columns)]
    for row in sheet.all_rows:
        cells = zip(row, sheet.columns, strict=True)
        lines.append(",".join(_cell(cell_text(cell, column.digits), column.digits) for cell, column in cells))
    return "\n".join(lines) + "\n"


def _cell(text: str, digits: Digits) -> str:
    if digits is Digits.TEXT and text.startswith(("=", "+", "-", "@", "\t", "\r")):
        text = "'" + text
    return _field(text)


def _field(text: str) -> str:
    text = visible_lines(text)
    if "," in text or "\n" in text or "\r" in text or text.startswith('"'):
        return '"' + text.replace('"', '""') + '"'
    return text

"""Sheets as Markdown tables, whatever their names hold."""

from __future__ import annotations

import re

from gpuledger.present.digits import cell_text
from gpuledger.present.safe_text import visible
from gpuledger.present.sheet import Digits, Sheet

_SPECIAL = re.compile(r"([\\`*_{}\[\]|#~])")


def sheet_markdown(sheet: Sheet) -> str:
    """A heading and a table."""
    title = f"## {sheet.title}\n\n`{sheet.name}`\n\n"
    if not sheet.all_rows:
        return f"{title}No data.\n"
    return title + table_markdown(sheet)


def table_markdown(sheet: Sheet) -> str:
    """The table itself."""
    heading = _line([escaped(column.heading) for column in sheet.columns])
    rule = _line(["---" if column.digits is Digits.TEXT else "--:" for column in sheet.columns])
    rows = [
        _line([escaped(cell_text(cell, column.digits)) for cell, column in zip(row, sheet.columns, strict=True)])
        for row in sheet.all_rows
    ]
    return "".join([heading, rule, *rows])


def escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    plain = visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", plain)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |\n"

"""Results as JSON documents: versioned, integer nanoseconds, no NaN, the same bytes for the same input."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from gpuledger.present.digits import tenths
from gpuledger.present.safe_text import visible_json
from gpuledger.present.sheet import Cell, Digits, Sheet, Term
from gpuledger.trace.model import Note, NotMeasured


def json_text(content: Mapping[str, Any]) -> str:
    """One document, ended by a newline. Names keep their letters; what a terminal would obey is escaped."""
    return visible_json(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)) + "\n"


def health_json(notes: Iterable[Note]) -> list[dict[str, Any]]:
    """What a reader of the numbers should know."""
    return [
        {"severity": note.severity.value, "code": note.code, "count": note.count, "sentence": note.sentence}
        for note in notes
    ]


def sheet_json(name: str, sheet: Sheet | NotMeasured) -> dict[str, Any]:
    """One table as a list of objects, or why there is none."""
    if isinstance(sheet, NotMeasured):
        return {"report": name, "not_measured": sheet.reason, "rows": None}
    rows = [
        {column.key: _value(cell, column.digits) for cell, column in zip(row, sheet.columns, strict=True)}
        for row in sheet.all_rows
    ]
    return {"report": name, "title": sheet.title, "rows": rows}


def _value(cell: Cell, digits: Digits) -> int | float | str | list[int] | None:
    if isinstance(cell, Term):
        return cell.code
    if isinstance(cell, tuple):
        return list(cell)
    if isinstance(cell, float):
        # the digits of the other formats, so that all of them agree
        if digits is Digits.TENTH:
            return float(tenths(cell))
        return cell if math.isfinite(cell) else None
    return cell

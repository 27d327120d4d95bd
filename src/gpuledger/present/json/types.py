"""What many documents have: a profile's health and what it lacks, tables; and objects filled from a result by name."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from gpuledger.json_types import Count, Json
from gpuledger.present.digits import tenths
from gpuledger.present.sheet import Cell, Digits, Sheet, Term, plain
from gpuledger.trace.model import Note

Shape: TypeAlias = Annotated[list[int], Meta(min_length=3, max_length=3)]
CellJson: TypeAlias = int | float | str | list[int] | None


class HealthJson(Json):
    """What a reader of the numbers should know."""

    severity: str
    code: str
    count: Count
    sentence: str


class TableJson(Json):
    """One table; the keys of a row are those of the CSV."""

    table: str
    title: str
    rows: list[dict[str, CellJson]]


Kind = TypeVar("Kind", bound=Json)


def fill(kind: type[Kind], record: object, /, **computed: Any) -> Kind:
    """An object of this kind: its keys as given here, all others from the fields of `record` that have their names.

    A key that need not be there is left out where `record` has no such field.
    """
    keys = [(key, unset) for key, unset in _keys(kind) if key not in computed]
    return kind(**{key: plain(getattr(record, key, *unset)) for key, unset in keys}, **computed)


@functools.cache
def _keys(kind: type[Json]) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """Its keys, with what stands for one that is not there where it need not be."""
    return tuple((field.name, () if field.required else (field.default,)) for field in msgspec.structs.fields(kind))


def health_json(notes: Iterable[Note]) -> list[HealthJson]:
    """The notes of a profile, or of several."""
    return [fill(HealthJson, note) for note in notes]


def tables_json(sheets: Iterable[Sheet]) -> list[TableJson]:
    """Several tables, each under its name."""
    return [TableJson(table=sheet.name, title=sheet.title, rows=rows_json(sheet)) for sheet in sheets]


def rows_json(sheet: Sheet) -> list[dict[str, CellJson]]:
    """The rows of a table, each with the keys of its columns."""
    return [
        {column.key: _value(cell, column.digits) for cell, column in zip(row, sheet.columns, strict=True)}
        for row in sheet.all_rows
    ]


def _value(cell: Cell, digits: Digits) -> CellJson:
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

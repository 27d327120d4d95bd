"""A table for people and programs: columns that know their unit and their cell of a record, and rows that close it.

Only views make sheets, from columns and records (`Sheet.of`): a column is declared once, with its getter. CSV and JSON
show exact values under `Column.heading`; text, Markdown and pages round them for people, put the unit to each number,
and show `Term`s by their words, but where exact values are asked for. A single record as a JSON object is
`fields_json`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.messages import say, translated
from gpuledger.rows import Digits as Digits
from gpuledger.rows import Unit as Unit
from gpuledger.trace.model import NotMeasured


class Term(Struct, frozen=True):
    """A word of ours in a cell: programs see its `code`, people on a page its `words`."""

    code: str
    words: str
    tone: str = ""
    """The colour of the swatch before it."""
    badge: str = ""
    """good, warn or bad: a verdict."""
    depth: int = 0
    """How far it is set in, in a tree."""


Cell = int | float | str | tuple[int, int, int] | Term | None
"""None: there is no such value (blank in NVIDIA's tables)."""

Getter = str | Callable[[Any], Any]
"""How a column comes to its cell of a record: the path of a field, or a function."""


class Column(Struct, frozen=True):
    """One column. `key` names it in JSON; `get` gives its cell of a record, by default the field called `key`.

    Where a terminal is narrow, columns with the highest `detail` go first, and a text that is too long is passed
    through `shorten`, or goes on in the next line where it is a sentence.
    """

    key: str
    name: str
    """What it is called, without its unit."""
    unit: Unit
    get: Getter | None = None
    detail: int = 0
    shorten: Callable[[str], str] | None = None
    is_prose: bool = False
    page_name: str = ""
    """What a page calls it, where that is something else."""

    @property
    def heading(self) -> str:
        """What stands over exact values: the unit is part of it."""
        return self.name if self.name == self.key else f"{self.name}{self.unit.suffix}"

    def title(self, *, exact: bool) -> str:
        """What stands over exact values, or over values that have their unit with them."""
        return self.heading if exact else self.page_name or self.name

    @property
    def digits(self) -> Digits:
        return self.unit.digits

    @property
    def getter(self) -> Callable[[Any], Cell]:
        """What gives its cell of a record."""
        return self.get if callable(self.get) else attrgetter(self.get or self.key)


def percent(part: float | NotMeasured | None, whole: float = 1) -> float | None:
    """A share of a whole, or one that is known as such, in percent; None where it is not known or there is no whole."""
    return None if part is None or isinstance(part, NotMeasured) or not whole else 100 * part / whole


def share_column(
    key: str, name: str, part: Getter, whole: float | Getter = 1, detail: int = 0, unit: Unit = Unit.SHARE_PERCENT
) -> Column:
    """A column of shares: what `percent` says of a field, and of a whole that is the same for all rows or a field."""
    part_of = part if callable(part) else attrgetter(part)
    whole_of = whole if callable(whole) else attrgetter(whole) if isinstance(whole, str) else lambda _: whole
    return Column(key, name, unit, lambda record: percent(part_of(record), whole_of(record)), detail)


class Sheet(Struct, frozen=True):
    """One finished table. `rows` are in the order to be shown, `foot` stays under them however a reader sorts."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...] = ()
    foot: tuple[tuple[Cell, ...], ...] = ()
    rounded: bool = True
    """Whether text and Markdown show numbers as a page does, each with its unit; CSV and JSON keep the exact ones."""
    why_empty: str = ""
    """Why there are no rows where the profile does not say; without it, there are none of what it lists."""

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        columns: Sequence[Column],
        records: Iterable[Any],
        foot: Iterable[Any] = (),
        *,
        rounded: bool = True,
        why_empty: str = "",
    ) -> Sheet:
        """A row for each record; dictionaries by key, which may leave cells out, stand for sums and the like."""
        getters = [column.getter for column in columns]
        keys = [column.key for column in columns]

        def row(record: Any) -> tuple[Cell, ...]:
            if not isinstance(record, dict):
                return tuple(get(record) for get in getters)
            if unknown := record.keys() - keys:
                raise KeyError(f"table {name} has no column {', '.join(sorted(unknown))}")
            return tuple(map(record.get, keys))

        return cls(name, title, tuple(columns), tuple(map(row, records)), tuple(map(row, foot)), rounded, why_empty)

    @property
    def why_no_rows(self) -> str:
        """What stands in the place of rows where there are none."""
        return self.why_empty or say("none")

    @property
    def all_rows(self) -> tuple[tuple[Cell, ...], ...]:
        return (*self.rows, *self.foot)


def translated_sheet(sheet: Sheet, language: str) -> Sheet:
    """The same with its title, the names of its columns, and cells that are messages, in another language."""
    if language == "en":
        return sheet
    columns = tuple(
        replace(column, name=translated(column.name, language), page_name=translated(column.page_name, language))
        for column in sheet.columns
    )

    def words(cell: Cell) -> Cell:
        if isinstance(cell, Term):
            return replace(cell, words=translated(cell.words, language))
        return translated(cell, language) if isinstance(cell, str) else cell

    rows, foot = (tuple(tuple(map(words, row)) for row in part) for part in (sheet.rows, sheet.foot))

    return replace(
        sheet,
        title=translated(sheet.title, language),
        columns=columns,
        rows=rows,
        foot=foot,
        why_empty=translated(sheet.why_empty, language),
    )

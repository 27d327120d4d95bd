"""Rows as a table: their labels become columns, their values cells."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, Final, TypeVar

from msgspec import Struct

from gpuledger.catalog.gpu_metrics import VAGUE
from gpuledger.ledger.books import Line
from gpuledger.ledger.causes import Cause
from gpuledger.messages import joined, say
from gpuledger.present.sheet import Cell, Column, Sheet, Term
from gpuledger.present.terms import TOTAL, cause_term, line_term
from gpuledger.rows import Label, Row, ShareInterval, Spread, labels_of
from gpuledger.trace.model import NotMeasured

Filled = TypeVar("Filled", bound=Struct)
Value = TypeVar("Value")

_GPU, _DEPTH = "gpu", "depth"

_DEEPEST: Final = 100
"""Levels that are indented: with more, what is printed would grow with the square of the rows."""


_SEVERAL: Final = (ShareInterval, Spread)


class _Place(Struct, frozen=True):
    """Where the cells of a column come from: a field, and the key in it where that is a mapping."""

    field: str
    label: Label
    key: str | None = None

    @property
    def name(self) -> str:
        return self.field if self.key is None else f"{self.field}.{self.key}"

    def value(self, row: Row) -> Any:
        held = getattr(row, self.field)
        if self.key is None or held is None:
            return held
        return held.get(self.key) if isinstance(held, dict) else getattr(held, self.key)

    def column(self, *, is_exact: bool) -> Column:
        label, name = self.label, self.label.text if self.key is None else self.key
        return Column(
            self.name,
            self.name if is_exact else name,
            label.unit,
            None,
            label.detail,
            label.shorten,
            label.is_prose,
            label.page_text,
        )

    def cell(self, row: Row, *, is_exact: bool) -> Cell:
        value = self.value(row)
        if is_exact or self.key is not None:
            return cell(value, self.label.separator)
        if self.label.words is not None and value is not None:
            code = cell(value)
            return Term(code.code if isinstance(code, Term) else str(code), self.label.words(value))
        shown = self.label.unknown if value is None and self.label.unknown else cell(value, self.label.separator)
        if not self.label.is_nested:
            return shown
        depth = min(getattr(row, _DEPTH), _DEEPEST)
        return Term(f"{'  ' * depth}{shown}", str(shown) if not isinstance(shown, str) else shown, depth=depth)


def known(value: Value | NotMeasured) -> Value | None:
    """The same, None where it was not measured."""
    return None if isinstance(value, NotMeasured) else value


def row_from(kind: type[Filled], *records: object, **given: Any) -> Filled:
    """A row of what is given; every other field is that of the first record that has one of its name."""
    for field in kind.__struct_fields__:
        if field not in given and (holder := next((of for of in records if hasattr(of, field)), None)) is not None:
            given[field] = known(getattr(holder, field))
    return kind(**given)


def row_sheet(
    name: str,
    title: str,
    kind: type[Row],
    rows: Sequence[Row],
    *,
    is_exact: bool = False,
    why_empty: str = "",
    fields: Sequence[str] = (),
) -> Sheet:
    """The table for people: without columns in which nothing is known, with sums, one GPU in the title.

    A field that is a mapping is a column for each key; an interval or a spread is one for people.
    `is_exact`: as CSV has it, with every column and nothing else. `fields`: only these, in this order.
    """
    labels = labels_of(kind)
    places = _places({field: labels[field] for field in fields} or labels, rows, is_exact=is_exact)
    foot: tuple[tuple[Cell, ...], ...] = ()
    if not is_exact:
        hidden = {_DEPTH}
        gpus = {getattr(row, _GPU) for row in rows} if any(place.field == _GPU for place in places) else set()
        if len(gpus) < 2:
            hidden.add(_GPU)
        if len(gpus) == 1:
            title = say("{title}, GPU {gpu}", title=title, gpu=gpus.pop())
        places = [
            place
            for place in places
            if place.field not in hidden and (not rows or any(place.value(row) is not None for row in rows))
        ]
        if len(rows) > 1 and len(gpus) < 2:
            foot = _sums(places, rows)
    return Sheet(
        name,
        title,
        tuple(place.column(is_exact=is_exact) for place in places),
        tuple(tuple(place.cell(row, is_exact=is_exact) for place in places) for row in rows),
        foot,
        why_empty=why_empty,
    )


def _places(labels: dict[str, Label], rows: Sequence[Row], *, is_exact: bool) -> list[_Place]:
    places = list[_Place]()
    for field, label in labels.items():
        held = [value for row in rows if isinstance(value := getattr(row, field), dict)]
        if held:
            places += (_Place(field, label, key) for key in dict.fromkeys(key for value in held for key in value))
        elif is_exact and (parts := [value for row in rows if isinstance(value := getattr(row, field), _SEVERAL)]):
            places += (_Place(field, label, part) for part in parts[0].__struct_fields__)
        else:
            places.append(_Place(field, label))
    return places


def _sums(places: Sequence[_Place], rows: Sequence[Row]) -> tuple[tuple[Cell, ...], ...]:
    """The row that closes a table; none where nothing is summed."""
    if not any(place.label.is_summed for place in places):
        return ()
    return (
        tuple(
            sum(place.value(row) or 0 for row in rows)
            if place.label.is_summed
            else (TOTAL if place is places[0] else None)
            for place in places
        ),
    )


def cell(value: Any, separator: str = " > ") -> Cell:  # noqa: PLR0911 - a case per kind
    """A value as a cell: words of ours by their label and colour, lists as text, tensors' shapes as `512x2048`."""
    match value:
        case Line():
            return line_term(value)
        case Cause():
            return cause_term(value)
        case ShareInterval(share, low, high):
            if 100 * (high - low) <= VAGUE:
                return say("{percent} %", percent=round(100 * share))
            return say("{low} to {high} %", low=round(100 * low), high=round(100 * high))
        case Spread(mean):
            return mean
        case bool():
            return Term(str(value).lower(), say("yes") if value else say("no"))
        case str() | Enum() if (label := getattr(value, "label", None)) is not None:
            return Term(
                str(value.value if isinstance(value, Enum) else value), label, badge=getattr(value, "badge", "")
            )
        case (int(x), int(y), int(z)):
            return x, y, z
        case list() | tuple():
            parts = ("x".join(map(str, part)) if isinstance(part, tuple) else part for part in value)
            return joined(separator, [part if isinstance(part, str) else str(part) for part in parts])
        case int() | float() | str():
            return value
    return None

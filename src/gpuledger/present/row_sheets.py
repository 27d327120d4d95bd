"""Rows as a table: their labels become columns, their values cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, get_args, get_type_hints

from gpuledger.catalog.gpu_metrics import VAGUE
from gpuledger.ledger.books import Line
from gpuledger.ledger.causes import Cause
from gpuledger.messages import say
from gpuledger.present.sheet import Cell, Column, Sheet, Term
from gpuledger.present.terms import TOTAL, cause_term, line_term
from gpuledger.rows import Label, Row, ShareInterval, Spread, Unit, labels_of

_GPU = "gpu"


def row_sheet(
    name: str, title: str, kind: type[Row], rows: Sequence[Row], *, is_exact: bool = False, why_empty: str = ""
) -> Sheet:
    """The table for people: without columns in which nothing is known, with sums, one GPU in the title.

    `is_exact`: as CSV has it, with every column and nothing else.
    """
    labels = dict(labels_of(kind))
    foot: tuple[tuple[Cell, ...], ...] = ()
    if not is_exact:
        gpus = {getattr(row, _GPU) for row in rows} if _GPU in labels else set()
        if len(gpus) < 2:
            labels.pop(_GPU, None)
        if len(gpus) == 1:
            title = say("{title}, GPU {gpu}", title=title, gpu=gpus.pop())
        labels = {
            field: label
            for field, label in labels.items()
            if not rows or label.detail < 0 or any(getattr(row, field) is not None for row in rows)
        }
        if len(rows) > 1 and _GPU not in labels:
            foot = _sums(labels, rows)
    parts = _parts(kind) if is_exact else {}
    return Sheet(
        name,
        title,
        tuple(
            _column(f"{field}_{part}".removesuffix("_"), label, is_exact=is_exact)
            for field, label in labels.items()
            for part in parts.get(field, ("",))
        ),
        tuple(
            tuple(
                cell(getattr(getattr(row, field), part, None) if part else getattr(row, field), label.words)
                for field, label in labels.items()
                for part in parts.get(field, ("",))
            )
            for row in rows
        ),
        foot,
        why_empty=why_empty,
    )


@cache
def _parts(kind: type[Row]) -> dict[str, tuple[str, ...]]:
    """The parts of fields that hold several numbers: each is a column for programs."""
    hints = get_type_hints(kind)
    inside = {field: (hint, *get_args(hint)) for field, hint in hints.items()}
    return {
        field: each.__struct_fields__
        for field, kinds in inside.items()
        for each in (ShareInterval, Spread)
        if each in kinds
    }


def _column(field: str, label: Label, *, is_exact: bool) -> Column:
    name = field if is_exact else label.text
    return Column(field, name, label.unit, None, label.detail, label.shorten, label.is_prose, label.page_text)


def _sums(labels: dict[str, Label], rows: Sequence[Row]) -> tuple[tuple[Cell, ...], ...]:
    """The row that closes a table; none where nothing is summed."""
    if not any(label.is_summed for label in labels.values()):
        return ()
    names = [field for field, label in labels.items() if label.unit is Unit.TEXT]
    return (
        tuple(
            sum(getattr(row, field) or 0 for row in rows)
            if label.is_summed
            else (TOTAL if names[:1] == [field] else None)
            for field, label in labels.items()
        ),
    )


def cell(value: Any, words: Mapping[Any, str] | None = None) -> Cell:  # noqa: C901, PLR0911 - a case per kind
    """A value as a cell: words of ours by their label and colour, lists as text."""
    match value:
        case str() if words is not None:
            return Term(str(value), words[value])
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
        case str() if (label := getattr(value, "label", None)) is not None:
            return Term(str(value), label)
        case (int(x), int(y), int(z)):
            return x, y, z
        case list() | tuple():
            return " > ".join(map(str, value))
        case int() | float() | str():
            return value
    return None

"""Rows as a table: their labels become columns, their values cells."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from gpuledger.ledger.books import Line
from gpuledger.ledger.causes import Cause
from gpuledger.messages import say
from gpuledger.present.sheet import Cell, Column, Sheet, Term
from gpuledger.present.terms import TOTAL, cause_term, line_term
from gpuledger.rows import Label, Row, Unit, labels_of

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
    return Sheet(
        name,
        title,
        tuple(_column(field, label, is_exact=is_exact) for field, label in labels.items()),
        tuple(
            tuple(_cell(getattr(row, field), label, is_exact=is_exact) for field, label in labels.items())
            for row in rows
        ),
        foot,
        why_empty=why_empty,
    )


def _column(field: str, label: Label, *, is_exact: bool) -> Column:
    name = field if is_exact else label.text
    return Column(field, name, label.unit, None, label.detail, label.shorten, label.is_prose, label.page_text)


def _cell(value: Any, label: Label, *, is_exact: bool) -> Cell:
    shown = cell(value)
    if is_exact or label.words is None:
        return shown
    return Term(shown.code if isinstance(shown, Term) else str(shown), label.words(value))


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


def cell(value: Any) -> Cell:
    """A value as a cell: words of ours by their label and colour, lists as text."""
    match value:
        case Line():
            return line_term(value)
        case Cause():
            return cause_term(value)
        case bool():
            return Term(str(value).lower(), say("yes") if value else say("no"))
        case str() | Enum() if (label := getattr(value, "label", None)) is not None:
            return Term(str(value.value if isinstance(value, Enum) else value), label)
        case (int(x), int(y), int(z)):
            return x, y, z
        case list() | tuple():
            return " > ".join(map(str, value))
        case int() | float() | str():
            return value
    return None

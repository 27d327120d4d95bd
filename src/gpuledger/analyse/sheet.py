"""A table of results: typed columns and rows of plain values, for any renderer to draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

Cell = int | float | str | tuple[int, int, int] | None
"""None: there is no such value (blank in NVIDIA's tables)."""


class Digits(Enum):
    """How many digits a number is printed with."""

    TEXT = "text"
    FIGURE = "a number with its unit, as text"
    WHOLE = "whole number"
    TENTH = "one decimal, ties away from zero"
    HUNDREDTH = "two decimals"
    MEGABYTES = "bytes as MB with three decimals"
    TRIPLE = "three whole numbers, each at least four wide"


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `key` names it in JSON.

    Where a terminal is narrow, columns with the highest `detail` go first, and a text that is too long is passed
    through `shorten`.
    """

    key: str
    heading: str
    digits: Digits
    detail: int = 0
    shorten: Callable[[str], str] | None = None


@dataclass(frozen=True, slots=True)
class Sheet:
    """One finished table. `rows` are in the order to be shown."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...] = field(default=())

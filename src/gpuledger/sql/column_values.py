"""One column as DuckDB is handed it: an array as it lies in memory, and what its numbers stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import NOT_RECORDED

Texts = Strings | Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnValues:
    """Numbers, or codes of texts; the array is never copied."""

    array: NDArray[Any]
    texts: Texts | None = None
    """What a code stands for; None: the numbers are themselves."""
    missing: int | None = NOT_RECORDED
    """The number that stands for no value; None: there is always one. NaN is never one."""


TableValues = dict[str, ColumnValues | str]
"""A table's columns by name; a text is an expression of the others, which DuckDB works out as it goes along."""


def instants(array: NDArray[Any]) -> ColumnValues:
    """Times and lengths: any number is a value, -1 too."""
    return ColumnValues(array, missing=None)


def numbers(values: Sequence[int | None]) -> ColumnValues:
    """A few whole numbers, some of them not there; negative ones do not occur."""
    return ColumnValues(np.array([NOT_RECORDED if value is None else value for value in values], np.int64))


def fractions(values: Sequence[float | None]) -> ColumnValues:
    """A few numbers, some of them not there."""
    return ColumnValues(np.array([np.nan if value is None else value for value in values], np.float64))


def flags(values: Sequence[bool]) -> ColumnValues:
    """Yes or no, always there."""
    return ColumnValues(np.array(values, np.bool_), missing=None)


def words(values: Sequence[str | None]) -> ColumnValues:
    """A few texts, some of them not there; the empty text is none of ours."""
    position: dict[str, int] = {}
    codes = [position.setdefault(str(text), len(position)) if text else NOT_RECORDED for text in values]
    return ColumnValues(np.array(codes, np.int32), tuple(position))

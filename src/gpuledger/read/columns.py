"""Columns of tables as they are stored, whatever holds them: SQLite, Arrow, or the parts of a report."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

import numpy as np
from msgspec import Struct, field

from gpuledger.trace.model import Decoding
from gpuledger.trace.spans import Ints

NULL: Final = -(2**63)
"""Stands for SQL's NULL in an integer column."""


class ColumnRange(Struct, frozen=True):
    """What is known of a column without looking at it again: its least and greatest value, NULL left out."""

    least: int
    most: int
    nulls: int

    @classmethod
    def of(cls, values: Ints) -> ColumnRange:
        nulls = int((values == NULL).sum())
        real = values[values != NULL] if nulls else values
        return cls(int(real.min(initial=2**63 - 1)), int(real.max(initial=NULL)), nulls)


class IntegerColumns(Struct, frozen=True):
    """Integer columns of one table, `NULL` where there is no value or no integer; `bad` counts the latter by column.

    A column whose values are all the same may be one value, broadcast.
    """

    columns: Mapping[str, Ints]
    bad: Mapping[str, int]
    summaries: Mapping[str, ColumnRange] = field(default_factory=dict)

    def summary(self, column: str) -> ColumnRange:
        """What the decoder found on the way, or what a look finds."""
        return self.summaries[column] if column in self.summaries else ColumnRange.of(self.columns[column])


class TextColumn(Struct, frozen=True):
    """A text column: its different texts, as the bytes that are stored, and the number of each row's; -1 for NULL."""

    distinct: list[bytes]
    numbers: Ints

    @classmethod
    def of(cls, texts: Iterable[bytes | None]) -> TextColumn:
        number: dict[bytes, int] = {}
        numbers = [-1 if text is None else number.setdefault(text, len(number)) for text in texts]
        return cls(list(number), np.array(numbers, np.int64))

    def rows(self) -> list[bytes | None]:
        texts = (*self.distinct, None)  # -1 is the last
        return [texts[number] for number in self.numbers.tolist()]


class StoredTables(Protocol):
    """The tables of one profile."""

    @property
    def container(self) -> str:
        """What holds the tables: sqlite, parquetdir, arrowdir or nsys-rep."""

    @property
    def decoding(self) -> Decoding | None:
        """What reads the tables, as far as they were read; None where there is only one way."""

    @property
    def tables(self) -> Mapping[str, frozenset[str]]:
        """The tables and the columns of each."""

    @property
    def views(self) -> Mapping[str, frozenset[str]]:
        """What looks like a table and is a query; nothing is read of it, its columns are not known."""

    def count(self, table: str) -> int:
        """How many rows `table` has."""

    def integers(self, table: str, columns: Sequence[str]) -> IntegerColumns:
        """Integer columns, in the order of the rows."""

    def texts(self, table: str, column: str) -> TextColumn:
        """A text column, in the order of the rows."""

    def texts_by_id(self, table: str, id_column: str, column: str, ids: Collection[int]) -> dict[int, bytes]:
        """The texts with these ids; what is not there is left out."""

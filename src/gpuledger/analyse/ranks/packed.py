"""Tables for travelling between processes and waiting in one: columns in, each compressed for itself; the same out.

A job may have hundreds of ranks, and who puts them together has all of them at once. A column is kept as what each row
differs from the one before by, first the lowest byte of every row, then the next: times take two to three bytes a row,
and a column that is the same throughout nearly none. Any column comes back without the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final, Generic, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray
from zlib_ng import zlib_ng

Table = TypeVar("Table", bound=Struct)

_LEVEL: Final = 6


class PackedTable(Struct, Generic[Table], frozen=True, eq=False):
    """A table, and the tables in it."""

    bare: Table  # all but its columns, which are empty
    content: tuple[bytes, ...]  # of each column, in the order of the fields
    layout: tuple[tuple[str, tuple[int, ...]], ...]  # the type and shape of each

    @staticmethod
    def of(table: Table) -> PackedTable[Table]:
        content, layout, empty = list[bytes](), list[tuple[str, tuple[int, ...]]](), list[NDArray[Any]]()
        for _, column in _columns(table):
            bits = np.ascontiguousarray(column).view(f"i{column.itemsize}")
            steps = bits.copy()
            steps[1:] -= bits[:-1]  # what does not fit wraps around, there and back
            by_byte = steps.view(np.uint8).reshape(-1, column.itemsize).T
            content.append(zlib_ng.compress(by_byte.tobytes(), _LEVEL))
            layout.append((column.dtype.str, column.shape))
            empty.append(np.empty(0, column.dtype))
        return PackedTable(_with_columns(table, iter(empty)), tuple(content), tuple(layout))

    def __len__(self) -> int:
        """How many rows its first column has."""
        return self.layout[0][1][0]

    def unpacked(self) -> Table:
        table: Table = _with_columns(self.bare, map(_column, self.content, self.layout))
        return table

    def column(self, name: str) -> NDArray[Any]:
        """One of the table's own columns."""
        place = [path for path, _ in _columns(self.bare)].index(name)
        return _column(self.content[place], self.layout[place])


def _column(content: bytes, layout: tuple[str, tuple[int, ...]]) -> NDArray[Any]:
    dtype, shape = np.dtype(layout[0]), layout[1]
    by_byte = np.frombuffer(zlib_ng.decompress(content), np.uint8).reshape(dtype.itemsize, math.prod(shape))
    steps = by_byte.T.copy().view(f"i{dtype.itemsize}").reshape(shape)
    return np.cumsum(steps, axis=0, dtype=steps.dtype, out=steps).view(dtype)


def _columns(table: Any, within: str = "") -> Iterator[tuple[str, NDArray[Any]]]:
    """Those of a table by name, and those of the tables in it."""
    for name in type(table).__struct_fields__:
        value = getattr(table, name)
        if isinstance(value, np.ndarray):
            yield within + name, value
        elif isinstance(value, Struct):
            yield from _columns(value, f"{within}{name}.")


def _with_columns(table: Any, columns: Iterator[NDArray[Any]]) -> Any:
    """The same table with these in the place of its own, in their order."""
    values: dict[str, Any] = {}
    for name in type(table).__struct_fields__:
        value = getattr(table, name)
        if isinstance(value, np.ndarray):
            values[name] = next(columns)
        elif isinstance(value, Struct):
            values[name] = _with_columns(value, columns)
    return replace(table, **values)

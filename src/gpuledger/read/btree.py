"""Columns of a SQLite table by our own decoder: a file and a table's shape in, numpy columns or texts out.

SQLite hands over half a million rows a second, the decoder (native/btree.c) thirty million: it reads the pages of the
table itself, on all cores, and takes only the wanted columns. It is asked only where the answer is certain to be
SQLite's own: a plain table, no log beside the file, no column whose stored form differs from what a query gives. In
every other case, and whenever a page is not what it must be, the answer is None, and SQLite is asked.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.model.spans import Ints
from gpuledger.read.export import Integers, Progress

try:
    from gpuledger.native import _btree as native
except ImportError:  # installed where there was no compiler
    native = None  # type: ignore[assignment]

_LEAVES_AT_ONCE: Final = 2048
_FEW_PAGES: Final = 64  # smaller tables are done before a second thread has started
_PLAIN: Final = (1, 1)  # the versions in the header of a database without a write-ahead log


def is_there() -> bool:
    """Whether the decoder was compiled; GPULEDGER_NATIVE=0 leaves it out."""
    return native is not None and os.environ.get("GPULEDGER_NATIVE") != "0"


@dataclass(frozen=True, slots=True)
class Shape:
    """A table as its schema describes it: where its tree begins, its stored columns in order, and what they are."""

    root: int
    columns: tuple[str, ...]
    types: tuple[str, ...]
    defaults: tuple[bool, ...]
    """Whether a column has a default, which a short record would stand for."""
    keys: tuple[int, ...]
    """The place of each column in the primary key, 0 for none."""
    is_odd: bool
    """Generated columns, a table without row ids, a key in descending order: SQLite knows."""

    hidden: tuple[int, ...]

    @property
    def visible(self) -> tuple[str, ...]:
        """The columns that a query may name."""
        return tuple(name for name, hidden in zip(self.columns, self.hidden, strict=True) if not hidden)

    @property
    def alias(self) -> int:
        """The column that is another name of the row's id; -1 for none."""
        if sum(key > 0 for key in self.keys) != 1:
            return -1
        at = next(at for at, key in enumerate(self.keys) if key)
        return at if self.types[at].upper() == "INTEGER" else -1


def shape(root: int, sql: str, described: Sequence[tuple[str, str, bool, int, int]]) -> Shape:
    """From what SQLite says of a table: its columns' names, types, whether they have a default, key, hidden."""
    words = sql.upper()
    is_odd = root < 1 or any(hidden for *_, hidden in described) or "WITHOUT" in words
    has_descending_key = re.search(r"PRIMARY\s+KEY\s+DESC", words) is not None
    columns = tuple(zip(*described, strict=True)) if described else ((),) * 5
    names, types, defaults, keys, hidden = columns
    return Shape(root, names, types, defaults, keys, is_odd or has_descending_key, hidden)


@dataclass(frozen=True, slots=True)
class Pages:
    """How a database is cut into pages."""

    page_bytes: int
    usable_bytes: int
    count: int
    is_utf8: bool

    @classmethod
    def of(cls, path: Path, head: bytes, size: int) -> Pages | None:
        """From a file's header; None where only SQLite knows what the file holds."""
        if tuple(head[18:20]) != _PLAIN or any(
            path.with_name(path.name + ending).exists() for ending in ("-wal", "-journal")
        ):
            return None
        page_bytes = int.from_bytes(head[16:18], "big")
        page_bytes = 65536 if page_bytes == 1 else page_bytes
        usable_bytes = page_bytes - head[20]
        is_power = 512 <= page_bytes <= 65536 and page_bytes & (page_bytes - 1) == 0
        if not is_power or usable_bytes < 480:
            return None
        return cls(page_bytes, usable_bytes, min(size // page_bytes, 2**32 - 2), head[56:60] == b"\0\0\0\1")


def integers(
    descriptor: int,
    pages: Pages,
    table: str,
    of: Shape,
    columns: Sequence[str],
    *,
    most_rows: int,
    deadline: float,
    progress: Progress,
) -> Integers | None:
    """The wanted columns, or None where SQLite must be asked. More rows than `most_rows` are also for it to refuse."""
    wanted = sorted(of.columns.index(column) for column in columns)
    if of.is_odd or any(_changes_on_reading(of.types[at]) for at in wanted):
        return None
    about = (descriptor, pages.page_bytes, pages.usable_bytes, pages.count)
    status, leaf_pages, leaf_rows = native.find_leaves(*about, of.root)
    rows_of = np.frombuffer(leaf_rows, np.uint32)
    total = int(rows_of.sum(dtype=np.int64))
    if status or total > most_rows:
        return None
    found: list[Ints] = [np.empty(total, np.int64) for _ in wanted]
    decoded = _decoded(
        about, (np.frombuffer(leaf_pages, np.uint32), rows_of), wanted, of.alias, found, table, deadline, progress
    )
    if decoded is None:
        return None
    bad, short = decoded
    if short and any(of.defaults[at] for at in wanted):
        return None
    names = [of.columns[at] for at in wanted]
    counts = {name: count for name, count in zip(names, bad.tolist(), strict=True) if count}
    by_name = dict(zip(names, found, strict=True))
    return Integers({column: by_name[column] for column in columns}, counts)


def texts(
    descriptor: int, pages: Pages, of: Shape, column: str, *, most_rows: int, deadline: float
) -> list[bytes | None] | None:
    """One column of texts, or None where SQLite must be asked."""
    wanted = of.columns.index(column)
    if of.is_odd or not pages.is_utf8 or wanted == of.alias:  # an alias is stored nowhere
        return None
    about = (descriptor, pages.page_bytes, pages.usable_bytes, pages.count)
    status, leaf_pages, leaf_rows = native.find_leaves(*about, of.root)
    of_leaf, rows_of = np.frombuffer(leaf_pages, np.uint32), np.frombuffer(leaf_rows, np.uint32)
    if status or int(rows_of.sum(dtype=np.int64)) > most_rows:
        return None
    found: list[bytes | None] = []
    for first in range(0, len(of_leaf), _LEAVES_AT_ONCE):
        rows = rows_of[first : first + _LEAVES_AT_ONCE]
        lengths = np.empty(int(rows.sum(dtype=np.int64)), np.int64)
        status, whole, short = native.decode_texts(
            *about, of_leaf[first : first + _LEAVES_AT_ONCE], rows, wanted, lengths
        )
        if status or time.monotonic() > deadline or (short and of.defaults[wanted]):
            return None
        ends = np.cumsum(np.maximum(lengths, 0))
        starts = np.where(lengths < 0, -1, ends - lengths)
        found += [
            whole[start:end] if start >= 0 else None for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
    return found


def _changes_on_reading(declared: str) -> bool:
    """Whether SQLite turns the integers that it stores in such a column into floating point: REAL affinity."""
    words = declared.upper()
    if "INT" in words or any(word in words for word in ("CHAR", "CLOB", "TEXT", "BLOB")):
        return False
    return any(word in words for word in ("REAL", "FLOA", "DOUB"))


def _decoded(
    about: tuple[int, int, int, int],
    leaves: tuple[NDArray[np.uint32], NDArray[np.uint32]],
    wanted: Sequence[int],
    alias: int,
    found: Sequence[Ints],
    table: str,
    deadline: float,
    progress: Progress,
) -> tuple[Ints, int] | None:
    """Fill `found`, some leaves at a time, on all cores; how many values were no integers, and short records."""
    leaf_pages, leaf_rows = leaves
    starts = np.concatenate(([0], np.cumsum(leaf_rows, dtype=np.int64)))
    columns = np.array(wanted, np.int32)

    def part(first: int) -> tuple[int, Any, int, int]:
        last = min(first + _LEAVES_AT_ONCE, len(leaf_pages))
        target = tuple(column[starts[first] : starts[last]] for column in found)
        status, bad, short = native.decode(
            *about, leaf_pages[first:last], leaf_rows[first:last], columns, alias, target
        )
        return status, np.frombuffer(bad, np.int64), short, int(starts[last])

    bad, short = np.zeros(len(wanted), np.int64), 0
    threads = 1 if len(leaf_pages) <= _FEW_PAGES else os.cpu_count() or 1
    with ThreadPoolExecutor(threads) as pool:
        for status, wrong, short_here, done in pool.map(part, range(0, len(leaf_pages), _LEAVES_AT_ONCE)):
            if status or time.monotonic() > deadline:
                pool.shutdown(cancel_futures=True)
                return None
            bad, short = bad + wrong, short + short_here
            progress(table, done)
    return bad, short

"""Columns of a SQLite table by our own decoder: a file and a table's shape in, numpy columns or texts out.

SQLite hands over half a million rows a second, the decoder (native/btree.c) thirty million: it reads the pages of the
table itself, on all cores, and takes only the wanted columns. It is asked only where the answer is certain to be
SQLite's own: a plain table, no log beside the file, no column whose stored form differs from what a query gives. In
every other case, and whenever a page is not what it must be, the answer is None, and SQLite is asked.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.read.columns import NULL, ColumnRange, IntegerColumns, TextColumn
from gpuledger.read.nsys.schema import SMALL_COLUMNS
from gpuledger.read.request import Progress
from gpuledger.regex import regex
from gpuledger.system.opening import exists
from gpuledger.trace import sweep
from gpuledger.trace.keys import same
from gpuledger.trace.spans import Ints

try:
    from gpuledger.trace.native import _btree as native
except ImportError:  # installed where there was no compiler
    native = None  # type: ignore[assignment]

_LEAVES_AT_ONCE: Final = 2048
_TEXT_LEAVES_AT_ONCE: Final = 512  # there are fewer of them
_FEW_PAGES: Final = 64  # smaller tables are done before a second thread has started
_MOST: Final = 2**63 - 1
_OTHER_ROWS: Final = 6  # BTREE_OTHER_ROWS of native/btree.h
_NOT_SMALL: Final = 7  # BTREE_NOT_SMALL
_PLAIN: Final = (1, 1)  # the versions in the header of a database without a write-ahead log

_SET_ASIDE: Final = regex(r"""--[^\n]*|'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]""")
"""Comments to the end of a line, as nsys writes them, and whatever is quoted."""
_NOT_PLAIN: Final = regex(r"""WITHOUT|\bDESC\b|/\*|['"`\[\0]""")
"""What else a table's text may not hold: `INTEGER PRIMARY KEY DESC` is no other name of the row's id,
a comment may stand between any two words, and a quote that is left does not end."""

T = TypeVar("T")
_Places = tuple[NDArray[np.signedinteger], ...]


def is_there() -> bool:
    """Whether the decoder was compiled; GPULEDGER_NATIVE=0 leaves it out."""
    return native is not None and os.environ.get("GPULEDGER_NATIVE") != "0"


class TableShape(Struct, frozen=True):
    """A table as its schema describes it: where its tree begins, its stored columns in order, and what they are."""

    root: int
    columns: tuple[str, ...]
    types: tuple[str, ...]
    defaults: tuple[bool, ...]
    """Whether a column has a default, which a short record would stand for."""
    keys: tuple[int, ...]
    """The place of each column in the primary key, 0 for none."""
    is_odd: bool
    """Generated columns, a table without row ids, a key in descending order, what is not plainly said: SQLite knows."""
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
        place = next(place for place, key in enumerate(self.keys) if key)
        return place if self.types[place].upper() == "INTEGER" else -1


def shape(root: int, sql: str, described: Sequence[tuple[str, str, bool, int, int]]) -> TableShape:
    """From what SQLite says of a table: its columns' names, types, whether they have a default, key, hidden."""
    words = _SET_ASIDE.sub(" ", sql.upper())
    is_odd = root < 1 or any(hidden for *_, hidden in described) or _NOT_PLAIN.search(words) is not None
    columns = tuple(zip(*described, strict=True)) if described else ((),) * 5
    names, types, defaults, keys, hidden = columns
    return TableShape(root, names, types, defaults, keys, is_odd, hidden)


def lies_beside(path: Path, ending: str) -> bool:
    """Whether a file with this ending to its name lies beside `path`; not if that name is longer than names can be."""
    return exists(path.with_name(path.name + ending))


class PageLayout(Struct, frozen=True):
    """How a database is cut into pages."""

    page_bytes: int
    usable_bytes: int
    count: int
    is_utf8: bool

    @classmethod
    def of(cls, path: Path, head: bytes, size: int) -> PageLayout | None:
        """From a file's header; None where only SQLite knows what the file holds."""
        if tuple(head[18:20]) != _PLAIN or any(lies_beside(path, ending) for ending in ("-wal", "-journal")):
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
    pages: PageLayout,
    table: str,
    of: TableShape,
    columns: Sequence[str],
    *,
    most_rows: int,
    deadline: float,
    progress: Progress,
) -> IntegerColumns | None:
    """The wanted columns, or None where SQLite must be asked. More rows than `most_rows` are also for it to refuse."""
    wanted = sorted(of.columns.index(column) for column in columns)
    if of.is_odd or any(_changes_on_reading(of.types[place]) for place in wanted):
        return None

    def decoded(leaves: _Leaves) -> tuple[_Columns, int] | None:
        places = np.array(wanted, np.int32)
        for small in (SMALL_COLUMNS, frozenset[str]()):
            into = _Columns(leaves.total, [of.columns[place] in small for place in wanted])
            with contextlib.suppress(_NotSmallError):
                short = _decode(leaves, places, of.alias, into, lambda rows: progress(table, rows), deadline)
                return None if short is None else (into, short)
        return None

    answer = _of_leaves(descriptor, pages, of.root, most_rows, decoded)
    if answer is None or (answer[1] and any(of.defaults[place] for place in wanted)):
        return None
    names = [of.columns[place] for place in wanted]
    counts = {name: count for name, count in zip(names, answer[0].bad.tolist(), strict=True) if count}
    by_name = dict(zip(names, answer[0].columns(), strict=True))
    summaries = dict(zip(names, answer[0].summaries(), strict=True))
    return IntegerColumns({column: by_name[column] for column in columns}, counts, summaries)


def texts(
    descriptor: int, pages: PageLayout, of: TableShape, column: str, *, most_rows: int, deadline: float
) -> TextColumn | None:
    """One column of texts, or None where SQLite must be asked."""
    wanted = of.columns.index(column)
    if of.is_odd or not pages.is_utf8 or wanted == of.alias:  # an alias is stored nowhere
        return None

    def decoded(leaves: _Leaves) -> TextColumn | None:
        found: dict[bytes, int] = {}
        numbers = [np.empty(0, np.int64)]
        with _threads(len(leaves.pages)) as pool:
            for status, short, (here, number) in pool.map(some, leaves.parts(_TEXT_LEAVES_AT_ONCE)):
                if not _went_well(status) or time.monotonic() > deadline or (short and of.defaults[wanted]):
                    return None
                known = np.array([found.setdefault(text, len(found)) for text in here] + [-1], np.int64)  # -1 is last
                numbers.append(known[number])
        return TextColumn(list(found), np.concatenate(numbers))

    def some(part: _Leaves) -> tuple[int, int, tuple[list[bytes], Ints]]:
        lengths = np.empty(part.total, np.int64)
        status, whole, short = native.decode_texts(*part.about, part.pages, part.rows, wanted, lengths)
        return status, short, ([], lengths) if status else sweep.numbered_texts(whole, lengths)

    return _of_leaves(descriptor, pages, of.root, most_rows, decoded)


class _Leaves(Struct, frozen=True):
    """Leaves of a table in the order of its rows: where they lie, and how many rows each is said to hold."""

    about: tuple[int, int, int, int]
    """The file: its descriptor, bytes of a page, those in use, pages."""
    pages: NDArray[np.uint32]
    rows: NDArray[np.uint32]

    @property
    def total(self) -> int:
        return int(self.rows.sum(dtype=np.int64))

    def parts(self, at_once: int, at_first: int = 0) -> Iterator[_Leaves]:
        for first in range(at_first - at_once if at_first else 0, len(self.pages), at_once):
            some = slice(max(first, 0), first + at_once)
            yield _Leaves(self.about, self.pages[some], self.rows[some])


class _OtherRowsError(Exception):
    """A leaf holds more or fewer rows than was said of it."""


class _NotSmallError(Exception):
    """A column that should need 32 bits holds NULL, or a number that does not fit."""


def _went_well(status: int) -> bool:
    if status == _OTHER_ROWS:
        raise _OtherRowsError
    if status == _NOT_SMALL:
        raise _NotSmallError
    return status == 0


def _of_leaves(
    descriptor: int, pages: PageLayout, root: int, most_rows: int, take: Callable[[_Leaves], T | None]
) -> T | None:
    """What `take` makes of the leaves of a table; None where SQLite must be asked.

    How many rows each holds follows from the row ids in the pages above, if those have no holes. Else they are counted.
    """
    about = (descriptor, pages.page_bytes, pages.usable_bytes, pages.count)
    for is_counted in (False, True):
        status, leaf_pages, leaf_rows = native.find_leaves(*about, root, is_counted)
        leaves = _Leaves(about, np.frombuffer(leaf_pages, np.uint32), np.frombuffer(leaf_rows, np.uint32))
        if status or leaves.total > most_rows:
            return None
        try:
            return take(leaves)
        except _OtherRowsError:
            continue
    return None  # it changes while we read


def _changes_on_reading(declared: str) -> bool:
    """Whether SQLite turns the integers that it stores in such a column into floating point: REAL affinity."""
    words = declared.upper()
    if "INT" in words or any(word in words for word in ("CHAR", "CLOB", "TEXT", "BLOB")):
        return False
    return any(word in words for word in ("REAL", "FLOA", "DOUB"))


class _Columns:
    """The columns of a table while parts of it come in. A column whose values are all the same takes no room.

    One that is said to be small has 32 bits for each row.
    """

    def __init__(self, rows: int, small: Sequence[bool]) -> None:
        count = len(small)
        self._rows, self._small = rows, small
        self._whole: list[NDArray[np.signedinteger] | None] = [None] * count
        self._same: list[int | None] = [None] * count
        self._least, self._most = np.full(count, _MOST), np.full(count, NULL)
        self._nulls = np.zeros(count, np.int64)
        self.bad = np.zeros(count, np.int64)

    def places(self, first: int, last: int) -> _Places:
        """Where to write rows `first` to `last` of each column: its own place, or one to look at first."""
        return tuple(np.empty(last - first, np.int64) if whole is None else whole[first:last] for whole in self._whole)

    def add(self, first: int, parts: _Places, bad: Ints, summaries: Ints) -> None:
        """Take in what was written to `places`; parts come in order."""
        self.bad += bad
        least, most, nulls = summaries.reshape(-1, 3).T
        np.minimum(self._least, least, out=self._least)
        np.maximum(self._most, most, out=self._most)
        self._nulls += nulls
        for at, part in enumerate(parts):
            last = first + len(part)
            whole = self._whole[at]
            if whole is None and self._stays_the_same(at, len(part), last):
                continue
            if self._small[at] and not self._fits(at):
                raise _NotSmallError
            if whole is None:
                whole = self._whole[at] = np.empty(self._rows, np.int32 if self._small[at] else np.int64)
                if first:
                    whole[:first] = self._one(at)
            if not np.shares_memory(whole, part):
                whole[first:last] = part

    def _fits(self, at: int) -> bool:
        """Whether all values so far fit into 32 bits."""
        return bool(self._least[at] >= -(2**31) and self._most[at] < 2**31 and not self._nulls[at])

    def _stays_the_same(self, at: int, rows: int, done: int) -> bool:
        """Whether all values so far are one."""
        if not rows:
            return True
        one = self._least[at] == self._most[at] and not self._nulls[at]
        self._same[at] = int(self._least[at]) if one else self._same[at]
        return bool(one or self._nulls[at] == done)

    def _one(self, at: int) -> int:
        """The value that a column has held throughout so far."""
        one = self._same[at]
        return NULL if one is None else one

    def columns(self) -> list[NDArray[np.signedinteger]]:
        return [same(self._one(at), self._rows) if whole is None else whole for at, whole in enumerate(self._whole)]

    def summaries(self) -> list[ColumnRange]:
        figures = zip(self._least.tolist(), self._most.tolist(), self._nulls.tolist(), strict=True)
        return [ColumnRange(*column) for column in figures]


def _decode(
    leaves: _Leaves,
    wanted: NDArray[np.int32],
    alias: int,
    into: _Columns,
    progress: Callable[[int], None],
    deadline: float,
) -> int | None:
    """Fill `into`, some leaves at a time, on all cores; how many records were short, or None where SQLite must look."""

    def decoded(first: int, part: _Leaves) -> tuple[int, int, _Places, Ints, Ints, int]:
        places = into.places(first, first + part.total)
        status, bad, summaries, short = native.decode(*part.about, part.pages, part.rows, wanted, alias, places)
        return status, first, places, np.frombuffer(bad, np.int64), np.frombuffer(summaries, np.int64), short

    parts = list(leaves.parts(_LEAVES_AT_ONCE, _FEW_PAGES))
    firsts = list(accumulate((part.total for part in parts), initial=0))

    def in_order(pool: ThreadPoolExecutor) -> Iterator[tuple[int, int, _Places, Ints, Ints, int]]:
        """The first few rows alone, as they show which columns vary: all others of those go to their places at once."""
        yield from map(decoded, firsts[:1], parts[:1])
        yield from pool.map(decoded, firsts[1:], parts[1:])

    short = 0
    with _threads(len(leaves.pages)) as pool:
        for status, first, places, bad, summaries, short_here in in_order(pool):
            if not _went_well(status) or time.monotonic() > deadline:
                return None
            into.add(first, places, bad, summaries)
            short += short_here
            progress(first + len(places[0]) if places else 0)
    return short


@contextlib.contextmanager
def _threads(leaves: int) -> Iterator[ThreadPoolExecutor]:
    """As many as there are cores; what was not begun when we leave is not begun any more."""
    with ThreadPoolExecutor(1 if leaves <= _FEW_PAGES else os.cpu_count() or 1) as pool:
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)

"""Events of an Nsight Systems report -> columns: LZ4 blocks of protobuf messages and the wanted fields in, arrays out.

Compiled (native/report_events.c), some blocks at a time on all cores; in plain Python, with the same answers, where
nothing was compiled. Which event is what is not known here: `report_tables` says it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, Protocol

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from gpuledger.read.columns import NULL, ColumnRange
from gpuledger.read.protobuf import Damage, fields, readable_fields, varint
from gpuledger.trace import sweep
from gpuledger.trace.deadline import check
from gpuledger.trace.spans import Ints

try:
    from gpuledger.trace.native import _report_events as native
except ImportError:  # installed where there was no compiler
    native = None  # type: ignore[assignment]

CLASSES: Final = 512  # REPORT_CLASSES of native/report_events.h
_FIELDS: Final = 256
_DEEPEST: Final = 8
_MOST_RATIO: Final = 256
_OK, _TOO_MANY_ROWS = 0, 2
_NUMBER, _TEXT, _MESSAGE = 1, 2, 3
_BYTES_AT_ONCE: Final = 1 << 22

Path = tuple[int, ...]
"""Numbers of fields, from an event inwards."""


def is_compiled() -> bool:
    """Whether the decoder was compiled; GPULEDGER_NATIVE=0 leaves it out."""
    return native is not None and os.environ.get("GPULEDGER_NATIVE") != "0"


class PackedBlock(NamedTuple):
    """One LZ4 block of a file."""

    offset: int
    size: int
    plain_size: int


class EventTable(Struct, frozen=True):
    """Events that become rows of one table, and which of their fields become its columns.

    With `within`, not events but messages that events of another table hold several of: `paths` then begin inside them,
    and the column `row` is that of the event.
    """

    name: str
    classes: tuple[int, ...] = ()
    columns: Mapping[str, Path] = field(default_factory=dict)
    text: tuple[str, Path] | None = None
    within: tuple[str, Path] | None = None
    is_generic: bool = False
    """Of what a block holds beside its events."""


ROW: Final = "row"
"""The first column of each table."""


class _Node:
    """A message of the plan: what becomes of its fields."""

    def __init__(self, table: int) -> None:
        self.table = table
        self.fields: dict[int, tuple[int, int]] = {}


class EventPlan:
    """Which fields of which events become which columns."""

    def __init__(self, tables: Sequence[EventTable]) -> None:
        self.tables = tuple(tables)
        self.columns = [
            (ROW, *table.columns, *((table.text[0],) if table.text is not None else ())) for table in self.tables
        ]
        self.of_class: dict[int, int] = {}
        self.generic = -1
        self.nodes: list[_Node] = []
        number = {table.name: place for place, table in enumerate(self.tables)}
        roots: dict[str, int] = {}
        for place, table in enumerate(self.tables):
            if table.within is None:
                root = self._new(place)
                self.of_class |= dict.fromkeys(table.classes, root)
                self.generic = root if table.is_generic else self.generic
            else:
                outer, path = table.within
                around = self._inside(roots[outer], path[:-1])
                root = self._new(number[table.name])
                self.nodes[around].fields[path[-1]] = (_MESSAGE, root)
            roots[table.name] = root
            names = self.columns[place]
            for name, path in table.columns.items():
                self.nodes[self._inside(root, path[:-1])].fields[path[-1]] = (_NUMBER, names.index(name))
            if table.text is not None:
                name, path = table.text
                self.nodes[self._inside(root, path[:-1])].fields[path[-1]] = (_TEXT, names.index(name))

    def _new(self, table: int) -> int:
        self.nodes.append(_Node(table))
        return len(self.nodes) - 1

    def _inside(self, node: int, path: Path) -> int:
        for number in path:
            if number not in self.nodes[node].fields:
                self.nodes[node].fields[number] = (_MESSAGE, self._new(-1))
            node = self.nodes[node].fields[number][1]
        return node

    def numbers(self) -> NDArray[np.int32]:
        """As native/report_events_module.c takes it."""
        fields = [
            (node, number, kind, to)
            for node, described in enumerate(self.nodes)
            for number, (kind, to) in described.fields.items()
        ]
        classes = [number for pair in self.of_class.items() for number in pair]
        parts: Iterable[Iterable[int]] = (
            (len(self.tables), *map(len, self.columns)),
            (len(self.nodes), *(node.table for node in self.nodes)),
            (len(self.of_class), *classes),
            (self.generic, len(fields)),
            *fields,
        )
        return np.array([number for part in parts for number in part], np.int32)


class TooManyRows(Exception):
    """A table holds more rows than are allowed."""


class _DecodedPart(Protocol):
    """The rows of some blocks."""

    counts: list[int]
    seen: Counter[int]
    generic: int
    damaged: int
    damaged_blocks: int

    def take(self, table: int, columns: Sequence[int], out: tuple[Ints, ...]) -> list[ColumnRange]: ...
    def texts(self, table: int) -> bytes: ...


class DecodedEvents:
    """The decoded events of a report; a column is made when it is asked for."""

    def __init__(self, plan: EventPlan, parts: Sequence[_DecodedPart]) -> None:
        self._plan, self._parts = plan, parts
        self._places = {table.name: place for place, table in enumerate(plan.tables)}
        self.seen: Counter[int] = sum((part.seen for part in parts), Counter[int]())
        self.generic = sum(part.generic for part in parts)
        self.damaged = sum(part.damaged for part in parts)
        self.damaged_blocks = sum(part.damaged_blocks for part in parts)

    def has(self, table: str) -> bool:
        """Whether the plan has this table."""
        return table in self._places

    def columns(self, table: str) -> tuple[str, ...]:
        """The columns that the plan has of a table."""
        return self._plan.columns[self._places[table]]

    def count(self, table: str) -> int:
        return sum(part.counts[self._places[table]] for part in self._parts)

    def column(self, table: str, name: str) -> tuple[Ints, ColumnRange]:
        """A column, and what is known of it."""
        return self.take(table, (name,))[name]

    def take(self, table: str, names: Sequence[str]) -> dict[str, tuple[Ints, ColumnRange]]:
        """Some columns, and what is known of each."""
        place, rows = self._places[table], self.count(table)
        numbers = [self._plan.columns[place].index(name) for name in names]
        whole = [np.empty(rows, np.int64) for _ in names]
        known = [ColumnRange(2**63 - 1, NULL, 0) for _ in names]
        first = 0
        for part, rows_before in zip(self._parts, self._rows_before(place), strict=True):
            some = tuple(values[first : first + part.counts[place]] for values in whole)
            for at, here in enumerate(part.take(place, numbers, some)):
                if numbers[at] == 0 and rows_before:
                    some[at][:] += rows_before
                    here = ColumnRange(here.least + rows_before, here.most + rows_before, 0)
                known[at] = ColumnRange(
                    min(known[at].least, here.least), max(known[at].most, here.most), known[at].nulls + here.nulls
                )
            first += part.counts[place]
        return dict(zip(names, zip(whole, known, strict=True), strict=True))

    def _rows_before(self, place: int) -> Iterator[int]:
        """Of the table around this one, in the parts before each; 0 for a table of events."""
        within, before = self._plan.tables[place].within, 0
        for part in self._parts:
            yield before
            before += part.counts[self._places[within[0]]] if within is not None else 0

    def texts(self, table: str) -> tuple[list[bytes], Ints]:
        """The different texts of a table, and the number of each row's; -1 for none."""
        place = self._places[table]
        lengths = self.column(table, self._plan.columns[place][-1])[0]
        lengths[lengths == NULL] = -1
        return sweep.numbered_texts(self.whole_texts(table), lengths)

    def whole_texts(self, table: str) -> bytes:
        """The bytes of all texts of a table, one after another."""
        return b"".join(part.texts(self._places[table]) for part in self._parts)


def decode(
    read: Callable[[int, int], bytes], blocks: Sequence[PackedBlock], plan: EventPlan, most_rows: int
) -> DecodedEvents:
    """The events in these blocks; `read` gives bytes of the file, from an offset, so many."""
    batches = list(_batches(blocks))
    numbers = plan.numbers()

    def some(batch: Sequence[PackedBlock]) -> _DecodedPart:
        first, last = batch[0], batch[-1]
        packed = read(first.offset, last.offset + last.size - first.offset)
        moved = [PackedBlock(block.offset - first.offset, block.size, block.plain_size) for block in batch]
        return (
            _NativePart(packed, moved, numbers, most_rows)
            if is_compiled()
            else _PlainPart(packed, moved, plan, most_rows)
        )

    if len(batches) < 2 or not is_compiled():
        return DecodedEvents(plan, [some(batch) for batch in batches])
    with ThreadPoolExecutor(min(len(batches), os.cpu_count() or 1)) as pool:
        return DecodedEvents(plan, list(pool.map(some, batches)))


def _batches(blocks: Sequence[PackedBlock]) -> Iterator[list[PackedBlock]]:
    batch, size = list[PackedBlock](), 0
    for block in blocks:
        batch.append(block)
        size += block.size
        if size >= _BYTES_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class _NativePart:
    """By native/report_events.c."""

    def __init__(self, packed: bytes, blocks: Sequence[PackedBlock], plan: NDArray[np.int32], most_rows: int) -> None:
        places = np.array(blocks, np.int64).reshape(-1, 3)
        status, self._rows, self.counts, seen, self.generic, self.damaged, self.damaged_blocks = native.decode(
            packed, places, plan, most_rows
        )
        if status == _TOO_MANY_ROWS:
            raise TooManyRows
        if status != _OK:
            raise MemoryError
        by_class = np.frombuffer(seen, np.uint64)
        self.seen = Counter({int(number): int(by_class[number]) for number in np.flatnonzero(by_class)})

    def take(self, table: int, columns: Sequence[int], out: tuple[Ints, ...]) -> list[ColumnRange]:
        known = native.columns(self._rows, table, np.array(columns, np.int32), out)
        return [ColumnRange(*three) for three in np.frombuffer(known, np.int64).reshape(-1, 3).tolist()]

    def texts(self, table: int) -> bytes:
        return native.texts(self._rows, table)


def unpack(packed: bytes, plain_size: int) -> bytes:
    """What an LZ4 block holds."""
    if is_compiled():
        found = native.unpack(packed, plain_size)
        if found is None:
            raise Damage
        return found
    return _unpack(packed, plain_size)


def texts_of(message: bytes, number: int) -> list[bytes]:
    """The bytes of each of a message's fields with that number, up to where it is damaged."""
    if is_compiled():
        return native.texts_of(message, number)
    return [value for key, value in readable_fields(message) if key == number and isinstance(value, bytes)]


def _length(packed: bytes, length: int, at: int) -> tuple[int, int]:
    """A length in an LZ4 block, which goes on from `at` where it is 15; and where what follows begins."""
    more = 255 if length == 15 else 0
    while more == 255:
        if at >= len(packed):
            raise Damage
        more = packed[at]
        length, at = length + more, at + 1
    return length, at


def _unpack(packed: bytes, plain_size: int) -> bytes:
    if plain_size // _MOST_RATIO > len(packed):
        raise Damage
    plain, at, end = bytearray(), 0, len(packed)
    while at < end:
        token = packed[at]
        length, at = _length(packed, token >> 4, at + 1)
        if length > end - at or length > plain_size - len(plain):
            raise Damage
        plain += packed[at : at + length]
        at += length
        if at == end:
            break
        if end - at < 2:
            raise Damage
        back = int.from_bytes(packed[at : at + 2], "little")
        length, at = _length(packed, token & 15, at + 2)
        length += 4
        if not 0 < back <= len(plain) or length > plain_size - len(plain):
            raise Damage
        pattern = bytes(plain[-back:][:length])
        plain += (pattern * (length // len(pattern) + 1))[:length]
    if len(plain) != plain_size:
        raise Damage
    return bytes(plain)


class _PlainPart:
    """The same in Python."""

    def __init__(self, packed: bytes, blocks: Sequence[PackedBlock], plan: EventPlan, most_rows: int) -> None:
        self._plan, self._most = plan, most_rows
        self._rows: list[list[list[int]]] = [[] for _ in plan.tables]
        self._texts: list[list[bytes]] = [[] for _ in plan.tables]
        self.seen = Counter[int]()
        self.generic = self.damaged = self.damaged_blocks = 0
        for block in blocks:
            check()
            try:
                self._events(_unpack(packed[block.offset : block.offset + block.size], block.plain_size))
            except Damage:
                self.damaged_blocks += 1
        self.counts = [len(rows) for rows in self._rows]

    def take(self, table: int, columns: Sequence[int], out: tuple[Ints, ...]) -> list[ColumnRange]:
        for values, column in zip(out, columns, strict=True):
            values[:] = [row[column] for row in self._rows[table]]
        return [ColumnRange.of(values) for values in out]

    def texts(self, table: int) -> bytes:
        return b"".join(self._texts[table])

    def _events(self, plain: bytes) -> None:
        length, at = varint(plain, 0)
        if length != len(plain) - at:
            raise Damage
        for number, inside in fields(plain[at:]):
            if not isinstance(inside, bytes):
                continue
            if number == 2:
                self.generic += 1
                if self._plan.generic >= 0:
                    self._event(self._plan.generic, inside)
            elif number == 1:
                self._of_class(inside)

    def _of_class(self, inside: bytes) -> None:
        try:
            number = next(value for key, value in fields(inside) if key == 1 and isinstance(value, int))
        except (Damage, StopIteration):
            self.damaged += 1
            return
        number = min(number, CLASSES - 1)
        self.seen[number] += 1
        if number in self._plan.of_class:
            self._event(self._plan.of_class[number], inside)

    def _event(self, node: int, inside: bytes) -> None:
        counts = [len(rows) for rows in self._rows]
        text_counts = [len(texts) for texts in self._texts]
        table = self._plan.nodes[node].table
        try:
            self._message(node, inside, table, self._new_row(table, 0), 0)
        except Damage:
            for rows, count in zip(self._rows, counts, strict=True):
                del rows[count:]
            for texts, count in zip(self._texts, text_counts, strict=True):
                del texts[count:]
            self.damaged += 1

    def _new_row(self, table: int, around: int) -> int:
        if len(self._rows[table]) >= self._most:
            raise TooManyRows
        self._rows[table].append([around] + [NULL] * (len(self._plan.columns[table]) - 1))
        return len(self._rows[table]) - 1

    def _message(self, node: int, inside: bytes, table: int, row: int, deep: int) -> None:
        values = self._rows[table][row]
        for number, value in fields(inside):
            kind, to = self._plan.nodes[node].fields.get(number, (0, 0))
            if kind == _NUMBER and isinstance(value, int):
                values[to] = value - 2**64 if value >= 2**63 else value
            elif kind == _TEXT and isinstance(value, bytes):
                if values[to] != NULL:
                    raise Damage
                values[to] = len(value)
                self._texts[table].append(value)
            elif kind == _MESSAGE and isinstance(value, bytes) and deep < _DEEPEST:
                own = self._plan.nodes[to].table
                if own < 0:
                    self._message(to, value, table, row, deep + 1)
                else:
                    self._message(to, value, own, self._new_row(own, row), deep + 1)

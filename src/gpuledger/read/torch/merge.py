"""The parts of one trace in, the whole out: column by column, also from another process, with no column held twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from gpuledger.read.torch.columns import Columns, together
from gpuledger.read.torch.gather import Feed, GatheredEvents
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import NOT_RECORDED, Kind, Table

_SLAB: Final = 4 << 20
"""So many bytes of a column travel at a time."""


@dataclass(frozen=True, slots=True)
class ColumnShape:
    """How large a column is, and what it holds."""

    dtype: str
    lengths: tuple[int, ...]

    @property
    def rows(self) -> int:
        return self.lengths[0]


Shapes = dict[Feed, dict[str, ColumnShape]]


class TracePart(Protocol):
    """A part of a trace. Its columns must be asked for in the order of `_order`, once each."""

    @property
    def rest(self) -> GatheredEvents:
        """All of it but the columns."""

    @property
    def shapes(self) -> Shapes:
        """What columns it has."""

    def fill(self, feed: Feed, key: str, into: NDArray[Any]) -> None:
        """Write one column."""


class LocalPart:
    """A part that this process has read; a column is given up when it is asked for."""

    def __init__(self, whole: GatheredEvents) -> None:
        self.rest, self._feeds = replace(whole, feeds={}), whole.feeds
        self.shapes = {
            feed: {key: ColumnShape(values.dtype.str, values.shape) for key, values in columns.items()}
            for feed, columns in whole.feeds.items()
        }

    def take(self, feed: Feed, key: str) -> NDArray[Any]:
        return self._feeds[feed].pop(key)

    def fill(self, feed: Feed, key: str, into: NDArray[Any]) -> None:
        into[...] = self.take(feed, key)


class RemotePart:
    """A part that another process has read and sends with `send`."""

    def __init__(self, receiving: Connection) -> None:
        self._receiving = receiving
        found: tuple[GatheredEvents, Shapes] | None = receiving.recv()
        self.is_whole = found is not None
        if found is not None:
            self.rest, self.shapes = found

    def fill(self, feed: Feed, key: str, into: NDArray[Any]) -> None:
        for slab in _slabs(into):
            self._receiving.recv_bytes_into(slab)


def send(sending: Connection, whole: GatheredEvents | None) -> None:
    """Hand a part to `Arriving`; None if it could not be read."""
    if whole is None:
        sending.send(None)
        return
    part = LocalPart(whole)
    sending.send((part.rest, part.shapes))
    for feed, key in _order([part.shapes]):
        for slab in _slabs(part.take(feed, key)):
            sending.send_bytes(slab)


def _slabs(values: NDArray[Any]) -> Iterator[memoryview]:
    """The bytes of a column, some at a time."""
    letters = values.reshape(-1).view(np.uint8).data
    for at in range(0, len(letters), _SLAB):
        yield letters[at : at + _SLAB]


def _order(shapes: Sequence[Shapes]) -> list[tuple[Feed, str]]:
    """All columns that any part has."""
    found = {(feed, key) for each in shapes for feed, keys in each.items() for key in keys}
    return sorted(found, key=lambda each: (each[0][0].value, each[0][1], each[1]))


def merged(parts: Sequence[TracePart]) -> GatheredEvents:
    """The parts of one trace together, in their order."""
    rests = [part.rest for part in parts]
    codes: dict[str, int] = {}
    renumber = [np.array([*(codes.setdefault(text, len(codes)) for text in rest.texts), NO_TEXT]) for rest in rests]
    feeds: dict[Feed, Columns] = {}
    for feed, key in _order([part.shapes for part in parts]):
        feeds.setdefault(feed, {})[key] = _joined(parts, renumber, feed, key)
    return GatheredEvents(
        feeds=feeds,
        texts=list(codes),
        metadata={key: value for rest in rests for key, value in rest.metadata.items()},
        notes=[note for rest in rests for note in rest.notes],
        process_names={pid: name for rest in reversed(rests) for pid, name in rest.process_names.items()},
        seen={key: sum(rest.seen.get(key, 0) for rest in rests) for rest in rests for key in rest.seen},
        events=sum(rest.events for rest in rests),
        untimed=sum(rest.untimed for rest in rests),
        begin_end=sum(rest.begin_end for rest in rests),
        names_cut=sum(rest.names_cut for rest in rests),
        has_named_threads=any(rest.has_named_threads for rest in rests),
    )


def _joined(parts: Sequence[TracePart], renumber: Sequence[NDArray[Any]], feed: Feed, key: str) -> NDArray[Any]:
    """One column of all parts in a row; what a part lacks is filled in, and texts get the whole's codes."""
    own = [part.shapes.get(feed, {}) for part in parts]
    rows = [columns["start_ns"].rows if columns else 0 for columns in own]
    first = next(columns[key] for columns in own if key in columns)
    found: NDArray[Any] = np.empty((sum(rows), *first.lengths[1:]), first.dtype)
    at = 0
    for part, columns, count, code in zip(parts, own, rows, renumber, strict=True):
        here = found[at : at + count]
        at += count
        if key not in columns:
            here[...] = NOT_RECORDED
            continue
        part.fill(feed, key, here)
        if key in _texts(feed[0]):
            here[...] = code[here]
    return found


def _texts(table: Table) -> set[str]:
    """The columns of a table that hold codes of texts."""
    return {column.name for column in table.schema.columns if column.kind is Kind.TEXT}


def by_table(whole: GatheredEvents) -> tuple[dict[Table, Columns], list[str]]:
    """The columns of each table, and the texts: in an order that does not depend on how the trace was cut.

    Rows come by category, and within one as they stand in the trace. Texts come as the rows first name them.
    """
    tables: dict[Table, Columns] = {}
    for table in Table:
        feeds = sorted((feed for feed in whole.feeds if feed[0] is table), key=lambda feed: feed[1])
        if feeds:
            tables[table] = together([whole.feeds.pop(feed) for feed in feeds])
    coded = [(columns, key) for table, columns in tables.items() for key in sorted(columns.keys() & _texts(table))]
    order = _as_named([columns[key] for columns, key in coded], whole.texts)
    code = np.full(len(order) + 1, NO_TEXT, np.int32)
    code[order] = np.arange(len(order))
    for columns, key in coded:
        columns[key] = code[columns[key]]
    return tables, [whole.texts[at] for at in order]


def _as_named(columns: Sequence[NDArray[Any]], texts: list[str]) -> list[int]:
    """Codes in the order in which columns first name them, one column after another; then those that none names."""
    order: dict[int, None] = {}
    for codes in columns:
        first = np.full(len(texts) + 1, len(codes))
        first[codes[::-1]] = np.arange(len(codes))[::-1]  # of several the last one stays
        first[NO_TEXT] = len(codes)
        named = np.flatnonzero(first < len(codes))
        order |= dict.fromkeys(named[first[named].argsort()].tolist())
    rest = sorted(set(range(len(texts))) - order.keys(), key=texts.__getitem__)
    return [*order, *rest]

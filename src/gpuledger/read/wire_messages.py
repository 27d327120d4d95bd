"""Protocol buffers as columns: many messages of one kind in, the fields of all of them out, a field at a time.

Messages of one kind have few fields each, so a pass over all of them takes as many steps as the longest has fields,
whatever their number. One message with many parts is walked in plain Python, which only notes where each part lies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuledger.read.nsys.report_events import Damage, varint
from gpuledger.trace.deadline import check
from gpuledger.trace.spans import Ints

NUMBER, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5
_VARINT_BYTES: Final = 10
_BETWEEN_CHECKS: Final = 1 << 16

Bytes = NDArray[np.uint8]


class WirePart(NamedTuple):
    """One field of a message: its number, its value if that is a number, and where its bytes lie."""

    field: int
    value: int
    start: int
    end: int


def parts(content: bytes, start: int, end: int) -> Iterator[WirePart]:
    """The fields of one message."""
    at, seen = start, 0
    while at < end:
        seen += 1
        if not seen % _BETWEEN_CHECKS:
            check()
        key, at = varint(content, at)
        field, wire = key >> 3, key & 7
        value, first = 0, at
        if wire == NUMBER:
            value, at = varint(content, at)
        elif wire == BYTES:
            size, first = varint(content, at)
            at = first + size
        elif wire in (EIGHT_BYTES, FOUR_BYTES):
            at += 8 if wire == EIGHT_BYTES else 4
        else:
            raise Damage
        if at > end:
            raise Damage
        yield WirePart(field, value, first, at)


class MessageFields(NamedTuple):
    """MessageFields of many messages, in columns: whose each is, its number, its value, and where its bytes lie."""

    owner: Ints
    field: Ints
    value: Ints
    start: Ints
    end: Ints

    def of(self, field: int) -> MessageFields:
        chosen = self.field == field
        return MessageFields(*(column[chosen] for column in self))

    def column(self, field: int, count: int, missing: int = 0) -> Ints:
        """The number that each of `count` messages has in a field; protocol buffers leave a 0 out."""
        own = self.of(field)
        values = np.full(count, missing, np.int64)
        values[own.owner] = own.value
        return values


def fields_of(content: Bytes, start: Ints, end: Ints) -> MessageFields:
    """The fields of the messages that lie at these places, in the order of their places in each message."""
    live = start < end
    owner, at, stop = np.flatnonzero(live), start[live], end[live]
    found = [MessageFields(*(np.empty(0, np.int64),) * 5)]
    while len(owner):
        check()
        key, at = _varints(content, at, stop)
        field, wire = key >> 3, key & 7
        value, first = np.zeros(len(at), np.int64), at.copy()
        if (mine := wire == NUMBER).any():
            value[mine], at[mine] = _varints(content, at[mine], stop[mine])
        if (mine := wire == BYTES).any():
            size, first[mine] = _varints(content, at[mine], stop[mine])
            if (size < 0).any() or (size > len(content)).any():
                raise Damage
            at[mine] = first[mine] + size
        at[wire == EIGHT_BYTES] += 8
        at[wire == FOUR_BYTES] += 4
        if (at > stop).any() or not np.isin(wire, (NUMBER, EIGHT_BYTES, BYTES, FOUR_BYTES)).all():
            raise Damage
        found.append(MessageFields(owner, field, value, first, at))
        live = at < stop
        owner, at, stop = owner[live], at[live], stop[live]
    return MessageFields(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


def _varints(content: Bytes, at: Ints, stop: Ints) -> tuple[Ints, Ints]:
    """The number at each place, as 64 bits hold it, and where what follows begins."""
    value, at = np.zeros(len(at), np.uint64), at.copy()
    rows = np.arange(len(at))
    for place in range(_VARINT_BYTES):
        if (at[rows] >= stop[rows]).any():
            raise Damage
        byte = content[at[rows]]
        value[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * place)
        at[rows] += 1
        rows = rows[byte >= 0x80]
        if not len(rows):
            return value.view(np.int64), at
    raise Damage

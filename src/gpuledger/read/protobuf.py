"""Protocol buffers without a schema: one message field by field, or many of a kind as columns.

`fields` walks one message in plain Python. `message_columns` walks many at once: messages of one kind have few fields
each, so it takes as many steps as the longest has fields, however many messages there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuledger.trace.deadline import check
from gpuledger.trace.spans import Ints

NUMBER, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5
_VARINT_BYTES: Final = 10
_BETWEEN_CHECKS: Final = 1 << 16

Bytes = NDArray[np.uint8]


class Damage(Exception):
    """Bytes that are no message, or no block of messages."""


class WirePart(NamedTuple):
    """One field of a message: its number, its value if that is a number, where its bytes lie, its wire type."""

    field: int
    value: int
    start: int
    end: int
    wire: int


def varint(message: bytes, at: int) -> tuple[int, int]:
    """The number that begins at `at`, cut to 64 bits, and where what follows begins."""
    value = 0
    for shift in range(0, 7 * _VARINT_BYTES, 7):
        if at >= len(message):
            raise Damage
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 2**64 - 1, at
    raise Damage


def parts(content: bytes, start: int, end: int) -> Iterator[WirePart]:
    """The fields of the message that lies there, by their places."""
    at, seen = start, 0
    while at < end:
        seen += 1
        if not seen % _BETWEEN_CHECKS:
            check()
        key, at = varint(content, at)
        wire, value, first = key & 7, 0, at
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
        yield WirePart(key >> 3, value, first, at, wire)


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: their numbers, and a number or bytes each."""
    for part in parts(message, 0, len(message)):
        if part.wire == NUMBER:
            yield part.field, part.value
        else:
            inside = message[part.start : part.end]
            yield part.field, inside if part.wire == BYTES else int.from_bytes(inside, "little")


def readable_fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message up to where it is damaged."""
    with suppress(Damage):
        yield from fields(message)


class MessageColumns(NamedTuple):
    """Fields of many messages, in columns: whose each is, its number, its value, and where its bytes lie."""

    owner: Ints
    field: Ints
    value: Ints
    start: Ints
    end: Ints

    def of(self, field: int) -> MessageColumns:
        chosen = self.field == field
        return MessageColumns(*(column[chosen] for column in self))

    def column(self, field: int, count: int, missing: int = 0) -> Ints:
        """The number that each of `count` messages has in a field; protocol buffers leave a 0 out."""
        own = self.of(field)
        values = np.full(count, missing, np.int64)
        values[own.owner] = own.value
        return values


def message_columns(content: Bytes, start: Ints, end: Ints) -> MessageColumns:
    """The fields of the messages that lie at these places, in the order of their places in each message."""
    live = start < end
    owner, at, stop = np.flatnonzero(live), start[live], end[live]
    steps = [MessageColumns(*(np.empty(0, np.int64),) * 5)]
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
        steps.append(MessageColumns(owner, field, value, first, at))
        live = at < stop
        owner, at, stop = owner[live], at[live], stop[live]
    return MessageColumns(*(np.concatenate(columns) for columns in zip(*steps, strict=True)))


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

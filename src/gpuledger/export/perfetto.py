"""A timeline as a Perfetto trace: sections in, protocol buffers out, a chunk at a time.

Every event is a TracePacket with a TrackEvent. Names and texts are interned: written once, before the first event that
uses them, and known by a number from then on. The engine sorts by time and keeps the file's order at one instant, so
events of a track come in the order in which they have to be written (see `timeline.events`).

Field numbers are those of perfetto/trace/trace_packet.proto and the messages under track_event/. Messages are encoded
by columns: numbers in, many messages out, with no work in Python for each field of each message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.export.timeline import Argument, Levels, Records, TimelineSection, Track, TrackKind, events
from gpuledger.trace.spans import Ints

VARINT, FIXED64, BYTES = range(3)
Octets = NDArray[np.uint8]
Mask = NDArray[np.bool_]
Positions = NDArray[np.signedinteger]


class Piece(Struct, frozen=True, eq=False):
    """Some bytes of each message, the same number in all that have them."""

    octets: Octets
    kept: Mask | None = None  # which messages have it; None: all

    @property
    def size(self) -> Ints | int:
        width = int(self.octets.shape[1])
        return width if self.kept is None else width * self.kept


def number(value: int) -> bytes:
    """One varint."""
    value &= (1 << 64) - 1
    octets = bytearray()
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*octets, value))


def tag(field: int, wire: int) -> bytes:
    """What stands before a field's value."""
    return number(field << 3 | wire)


def integer(field: int, value: int) -> bytes:
    """One field that holds a number."""
    return tag(field, VARINT) + number(value)


def text(field: int, value: str | bytes) -> bytes:
    """One field that holds text or a message; what is no Unicode is spelled out."""
    octets = value.encode("utf-8", "backslashreplace") if isinstance(value, str) else value
    return tag(field, BYTES) + number(len(octets)) + octets


def constant(octets: bytes, count: int) -> Piece:
    """The same bytes in each of `count` messages."""
    return Piece(np.broadcast_to(np.frombuffer(octets, np.uint8), (count, len(octets))))


def varints(values: NDArray[Any], before: bytes = b"") -> Piece:
    """A number in each message, after the same bytes; negative ones take ten bytes, as int64 does."""
    left = values.astype(np.uint64)
    width = max((int(left.max(initial=0)).bit_length() + 6) // 7, 1)
    octets = np.empty((len(left), len(before) + width), np.uint8)
    octets[:, : len(before)] = np.frombuffer(before, np.uint8)
    for column in range(len(before), len(before) + width):
        octets[:, column] = left & np.uint64(0x7F)
        left = left >> np.uint64(7)
    octets[:, len(before) : -1] |= 0x80
    return Piece(octets)


def fixed64(values: NDArray[Any], before: bytes = b"") -> Piece:
    """Eight bytes in each message, after the same bytes: integers, or floats as they are."""
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<")).view(np.uint8).reshape(len(values), 8)
    head = np.broadcast_to(np.frombuffer(before, np.uint8), (len(values), len(before)))
    return Piece(np.concatenate((head, little), axis=1))


def where(pieces: Sequence[Piece], present: Mask) -> list[Piece]:
    """The same pieces, which all messages have, in those only that are to have them."""
    return list(pieces) if present.all() else [Piece(piece.octets, present) for piece in pieces]


def message(field: int, pieces: Sequence[Piece], more: Ints | int = 0) -> list[Piece]:
    """A field that holds a message; `more` bytes of it follow that are not in the pieces."""
    count = len(pieces[0].octets)
    total = np.zeros(count, np.int64) + more
    for piece in pieces:
        total += piece.size
    return [varints(total, tag(field, BYTES)), *pieces]


class Messages(Struct, frozen=True, eq=False):
    """Messages as rows of bytes, of which each has some."""

    octets: Octets
    kept: Mask

    @classmethod
    def of(cls, pieces: Sequence[Piece]) -> Messages:
        octets = np.concatenate([piece.octets for piece in pieces], axis=1)
        kept, end = np.empty(octets.shape, np.bool_), 0
        for piece in pieces:
            begin, end = end, end + piece.octets.shape[1]
            kept[:, begin:end] = True if piece.kept is None else piece.kept[:, np.newaxis]
        return cls(octets, kept)

    def merged(self, other: Messages, is_other: Mask) -> Messages:
        """These and others in one order, which says of each whether it is one of the others."""
        shape = len(is_other), max(self.octets.shape[1], other.octets.shape[1])
        octets, kept = np.zeros(shape, np.uint8), np.zeros(shape, np.bool_)
        for messages, rows in ((self, np.flatnonzero(~is_other)), (other, np.flatnonzero(is_other))):
            width = messages.octets.shape[1]
            octets[rows, :width], kept[rows, :width] = messages.octets, messages.kept
        return Messages(octets, kept)

    def joined(self, after: Octets | None = None, size: Ints | int = 0) -> bytes:
        """One after the other; of `after`, bytes in a row, so many follow each."""
        own = self.octets[self.kept]
        if after is None:
            return own.tobytes()
        length = np.count_nonzero(self.kept, axis=1)
        all_bytes = np.empty(len(own) + after.size, np.uint8)
        is_own = np.repeat(np.tile((True, False), len(length)), np.stack((length, size), axis=1).reshape(-1))
        all_bytes[is_own], all_bytes[~is_own] = own, after.reshape(-1)
        return all_bytes.tobytes()


CHUNK: Final = 32_768  # so many events, arrows included, are encoded together

_PACKET: Final = 1
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _INTERNED, _FLAGS, _DESCRIPTOR = 8, 10, 11, 12, 13, 60
_CLEARED: Final = 1  # SEQ_INCREMENTAL_STATE_CLEARED: what was interned before counts no more
_CATEGORY, _ANNOTATION, _TYPE, _NAME, _TRACK, _VALUE, _FLOW, _FLOAT = 3, 4, 9, 10, 11, 30, 47, 44
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_FLOW_TAG: Final = tag(_FLOW, FIXED64)
_FLOW_BYTES: Final = len(_FLOW_TAG) + 8
_UNITS: Final = {"bytes": 3}


class Interned:
    """Numbers for texts of one kind, each written when it is first used."""

    def __init__(self, field: int) -> None:
        self._field = field
        self._numbers: dict[str, int] = {}
        self._known: dict[int, tuple[Sequence[str], Ints]] = {}
        self._news: list[bytes] = []

    def number(self, word: str) -> int:
        if word not in self._numbers:
            self._numbers[word] = len(self._numbers) + 1
            self._news.append(text(self._field, integer(1, self._numbers[word]) + text(2, word)))
        return self._numbers[word]

    def numbers(self, texts: Sequence[str], codes: Ints) -> Ints:
        """The numbers of the texts behind these codes; 0 for codes below 0."""
        # the texts are kept beside their numbers, so that no other list comes to have their identity
        _, known = self._known.setdefault(id(texts), (texts, np.zeros(len(texts) + 1, np.int64)))
        new = codes[(known[codes] == 0) & (codes >= 0)]
        for code in np.unique(new).tolist() if len(new) else ():
            known[code] = self.number(texts[code])
        return known[codes]

    def news(self) -> bytes:
        """What is new since it was asked last."""
        news = b"".join(self._news)
        self._news.clear()
        return news


class PerfettoWriter:
    """Encodes sections. `base_ns` is the time that becomes 0."""

    def __init__(self, base_ns: int = 0) -> None:
        self._base = base_ns
        self._categories, self._names, self._arguments, self._texts = (Interned(field) for field in (1, 2, 3, 29))

    def write(self, sections: Iterable[TimelineSection]) -> Iterator[bytes]:
        yield _packet(integer(_FLAGS, _CLEARED))
        for section in sections:
            yield b"".join(_packet(text(_DESCRIPTOR, _descriptor(track))) for track in section.tracks)
            if section.records is not None:
                yield from self._records(section.records, section.offset_ns)
            for levels in section.levels:
                yield from self._levels(levels, section.offset_ns)
            del section

    def _records(self, records: Records, offset_ns: int) -> Iterator[bytes]:
        position, is_end = events(records.start_ns, records.end_ns, records.track, records.rank, records.instant)
        for chunk_rows in _chunks(records, position, is_end):
            chunk = self._events(records, position[chunk_rows], is_end[chunk_rows], offset_ns)
            yield self._news()  # before the events that use them, which now have been asked for
            yield chunk

    def _events(self, records: Records, chosen: Positions, is_end: Mask, offset_ns: int) -> bytes:
        ends, begins = chosen[is_end], chosen[~is_end]
        event = [constant(integer(_TYPE, _END), len(ends)), varints(records.track[ends], tag(_TRACK, VARINT))]
        over = self._packets(records.end_ns[ends], offset_ns, event)
        start_ns, event = records.start_ns[begins], self._begins(records, begins)
        if records.first_flow is None or records.flows is None:
            return self._packets(start_ns, offset_ns, event).merged(over, is_end).joined()
        first, count = records.first_flow.take(begins), records.flows.take(begins)
        if count.max(initial=0) <= 1:
            event += where([fixed64(first, _FLOW_TAG)], count > 0)
            return self._packets(start_ns, offset_ns, event).merged(over, is_end).joined()
        size = np.zeros(len(chosen), np.int64)
        size[~is_end] = count * _FLOW_BYTES
        packets = self._packets(start_ns, offset_ns, event, count * _FLOW_BYTES).merged(over, is_end)
        number = np.repeat(first - (np.cumsum(count) - count), count) + np.arange(count.sum())
        return packets.joined(fixed64(number, _FLOW_TAG).octets, size)

    def _begins(self, records: Records, chosen: Positions) -> list[Piece]:
        return [
            varints(np.where(records.instant[chosen], _INSTANT, _BEGIN), tag(_TYPE, VARINT)),
            varints(records.track[chosen], tag(_TRACK, VARINT)),
            varints(self._categories.numbers(records.categories, records.category[chosen]), tag(_CATEGORY, VARINT)),
            varints(self._names.numbers(records.titles, records.title[chosen]), tag(_NAME, VARINT)),
            *(piece for argument in records.arguments for piece in self._annotation(argument, chosen)),
        ]

    def _annotation(self, argument: Argument, first: Positions) -> list[Piece]:
        values = argument.values.take(first)
        present = values != argument.values.absent
        if not present.any():
            return []
        name = constant(integer(1, self._arguments.number(argument.name)), len(first))
        if argument.texts is None:
            value = varints(values, tag(4, VARINT))
        else:
            value = varints(self._texts.numbers(argument.texts, np.where(present, values, -1)), tag(17, VARINT))
        return where(message(_ANNOTATION, [name, value]), present)

    def _packets(self, time: Ints, offset_ns: int, event: Sequence[Piece], more: Ints | int = 0) -> Messages:
        """Packets around track events, of each of which `more` bytes are still to come."""
        tracked = message(_TRACK_EVENT, event, more)
        since = np.maximum(time - offset_ns - self._base, 0)
        head = [varints(since, tag(_TIMESTAMP, VARINT)), constant(integer(_SEQUENCE, 1), len(time))]
        return Messages.of(message(_PACKET, [*head, *tracked], more))

    def _levels(self, levels: Levels, offset_ns: int) -> Iterator[bytes]:
        for begin in range(0, len(levels.at_ns), CHUNK):
            chunk = slice(begin, begin + CHUNK)
            value, count = levels.value[chunk], len(levels.at_ns[chunk])
            is_float = value.dtype.kind == "f"
            event = [
                constant(integer(_TYPE, _COUNTER) + integer(_TRACK, levels.track), count),
                fixed64(value, tag(_FLOAT, FIXED64)) if is_float else varints(value, tag(_VALUE, VARINT)),
            ]
            yield self._packets(levels.at_ns[chunk], offset_ns, event).joined()

    def _news(self) -> bytes:
        news = b"".join(interned.news() for interned in (self._categories, self._names, self._arguments, self._texts))
        return _packet(text(_INTERNED, news)) if news else b""


def _chunks(records: Records, position: Positions, is_end: Mask) -> Iterator[slice]:
    """Stretches of events of about the same cost."""
    begin = done = before = 0
    for first in range(0, len(position), _AT_ONCE):
        part = position[first : first + _AT_ONCE]
        cost = np.ones(len(part), np.int64)
        if records.flows is not None:
            cost += np.where(is_end[first : first + _AT_ONCE], 0, records.flows.take(part))
        chunk = (done + np.cumsum(cost) - 1) // CHUNK
        for edge in (first + np.flatnonzero(np.diff(chunk, prepend=before))).tolist():
            if edge > begin:
                yield slice(begin, edge)
            begin = edge
        done, before = done + int(cost.sum()), int(chunk[-1])
    if len(position) > begin:
        yield slice(begin, len(position))


_AT_ONCE: Final = 1 << 18
"""Events whose cost is summed up at a time."""


def _packet(content: bytes) -> bytes:
    return text(_PACKET, integer(_SEQUENCE, 1) + content)


def _descriptor(track: Track) -> bytes:
    parts = [integer(1, track.uuid)]
    if track.parent:
        parts.append(integer(5, track.parent))
    match track.kind:
        case TrackKind.PROCESS:
            parts.append(text(3, integer(1, track.pid) + text(6, track.name)))
        case TrackKind.THREAD:
            parts.append(text(4, integer(1, track.pid) + integer(2, track.tid) + text(5, track.name)))
        case TrackKind.COUNTER:
            unit = integer(3, _UNITS[track.unit]) if track.unit in _UNITS else text(6, track.unit)
            parts += [text(2, track.name), text(8, unit)]
        case _:
            parts.append(text(2, track.name))
    if track.kind is TrackKind.GROUP:
        parts.append(integer(11, 3))  # children in the order that they are given
    parts.append(integer(12, track.order))
    return b"".join(parts)

"""A timeline as a Perfetto trace: sections in, protocol buffers out, a chunk at a time.

Every event is a TracePacket with a TrackEvent. Names and texts are interned: written once, before the first event that
uses them, and known by a number from then on. The engine sorts by time and keeps the file's order at one instant, so
events of a track come in the order in which they have to be written (see `timeline.events`).

Field numbers are those of perfetto/trace/trace_packet.proto and the messages under track_event/. Messages are encoded
by columns: numbers in, many messages out, with no work in Python for each field of each message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.export.timeline import Argument, Levels, Records, TimelineSection, Track, TrackKind, events
from gpuledger.records import dataclass
from gpuledger.trace.spans import Ints

VARINT, FIXED64, BYTES = range(3)
Octets = NDArray[np.uint8]
Mask = NDArray[np.bool_]

_FEW: Final = 16  # so many different sets of pieces are worth a round each

_MOST_BITS: Final = 62


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
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


def messages(pieces: Sequence[Piece]) -> list[bytes]:
    """Each message by itself."""
    masks = {id(piece.kept): piece.kept for piece in pieces if piece.kept is not None}
    octets = np.concatenate([piece.octets for piece in pieces], axis=1)
    if not masks:
        return _rows_of(octets)
    bit = {key: 1 << index for index, key in enumerate(masks)}
    if len(masks) <= _MOST_BITS:
        pattern = np.zeros(len(octets), np.int64)
        for key, mask in masks.items():
            pattern |= np.where(mask, bit[key], 0)
        patterns, which = np.unique(pattern, return_inverse=True)
    if len(masks) > _MOST_BITS or len(patterns) > _FEW:  # one by one
        kept = np.concatenate(
            [
                np.broadcast_to(True if piece.kept is None else piece.kept[:, None], piece.octets.shape)
                for piece in pieces
            ],
            axis=1,
        )
        return runs(octets[kept], kept.sum(axis=1))
    encoded = np.empty(len(octets), np.object_)
    for index, bits in enumerate(patterns.tolist()):
        rows = np.flatnonzero(which == index)
        there = [piece.kept is None or bits & bit[id(piece.kept)] > 0 for piece in pieces]
        columns = np.flatnonzero(np.repeat(there, [piece.octets.shape[1] for piece in pieces]))
        encoded[rows] = _rows_of(octets.take(rows, axis=0).take(columns, axis=1))  # five times faster than both at once
    return encoded.tolist()


def _rows_of(octets: Octets) -> list[bytes]:
    whole, length = octets.tobytes(), octets.shape[1]
    return [whole[start : start + length] for start in range(0, len(whole), length)]


def runs(octets: Octets, size: Ints) -> list[bytes]:
    """A run of bytes cut into pieces of these lengths."""
    whole = octets.tobytes()
    return [whole[first:last] for first, last in pairwise([0, *np.cumsum(size).tolist()])]


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

    def _records(self, records: Records, offset_ns: int) -> Iterator[bytes]:
        position, is_end = events(records.start_ns, records.end_ns, records.track, records.rank, records.instant)
        for chunk_rows in _chunks(records, position, is_end):
            chunk = self._events(records, position[chunk_rows], is_end[chunk_rows] > 0, offset_ns)
            yield self._news()  # before the events that use them, which now have been asked for
            yield chunk

    def _events(self, records: Records, chosen: NDArray[np.intp], is_end: NDArray[np.bool_], offset_ns: int) -> bytes:
        order, ends = np.empty(len(chosen), np.object_), chosen[is_end]
        order[~is_end] = self._begins(records, chosen[~is_end], offset_ns)
        event = [constant(integer(_TYPE, _END), len(ends)), varints(records.track[ends], tag(_TRACK, VARINT))]
        order[is_end] = self._packets(records.end_ns[ends], offset_ns, event)
        return b"".join(order.tolist())

    def _begins(self, records: Records, chosen: NDArray[np.intp], offset_ns: int) -> list[bytes]:
        start_ns = records.start_ns[chosen]
        event = [
            varints(np.where(records.instant[chosen], _INSTANT, _BEGIN), tag(_TYPE, VARINT)),
            varints(records.track[chosen], tag(_TRACK, VARINT)),
            varints(self._categories.numbers(records.categories, records.category[chosen]), tag(_CATEGORY, VARINT)),
            varints(self._names.numbers(records.titles, records.title[chosen]), tag(_NAME, VARINT)),
            *(piece for argument in records.arguments for piece in self._annotation(argument, chosen)),
        ]
        if records.first_flow is None or records.flows is None:
            return self._packets(start_ns, offset_ns, event)
        first, count = records.first_flow.take(chosen), records.flows.take(chosen)
        if count.max(initial=0) <= 1:
            event += where([fixed64(first, _FLOW_TAG)], count > 0)
            return self._packets(start_ns, offset_ns, event)
        size = count * _FLOW_BYTES
        packets = self._packets(start_ns, offset_ns, event, size)
        number = np.repeat(first - (np.cumsum(count) - count), count) + np.arange(count.sum())
        arrows = runs(fixed64(number, _FLOW_TAG).octets, size)
        return [packet + more for packet, more in zip(packets, arrows, strict=True)]

    def _annotation(self, argument: Argument, first: NDArray[np.intp]) -> list[Piece]:
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

    def _packets(self, time: Ints, offset_ns: int, event: Sequence[Piece], more: Ints | int = 0) -> list[bytes]:
        """Packets around track events, of each of which `more` bytes are still to come."""
        tracked = message(_TRACK_EVENT, event, more)
        since = np.maximum(time - offset_ns - self._base, 0)
        head = [varints(since, tag(_TIMESTAMP, VARINT)), constant(integer(_SEQUENCE, 1), len(time))]
        return messages(message(_PACKET, [*head, *tracked], more))

    def _levels(self, levels: Levels, offset_ns: int) -> Iterator[bytes]:
        for begin in range(0, len(levels.at_ns), CHUNK):
            chunk = slice(begin, begin + CHUNK)
            value, count = levels.value[chunk], len(levels.at_ns[chunk])
            is_float = value.dtype.kind == "f"
            event = [
                constant(integer(_TYPE, _COUNTER) + integer(_TRACK, levels.track), count),
                fixed64(value, tag(_FLOAT, FIXED64)) if is_float else varints(value, tag(_VALUE, VARINT)),
            ]
            yield b"".join(self._packets(levels.at_ns[chunk], offset_ns, event))

    def _news(self) -> bytes:
        news = b"".join(interned.news() for interned in (self._categories, self._names, self._arguments, self._texts))
        return _packet(text(_INTERNED, news)) if news else b""


def _chunks(records: Records, position: NDArray[np.intp], is_end: Ints) -> Iterator[slice]:
    """Stretches of events of about the same cost."""
    cost = np.ones(len(position), np.int64)
    if records.flows is not None:
        cost += np.where(is_end > 0, 0, records.flows.take(position))
    chunk = (np.cumsum(cost) - 1) // CHUNK
    edges = [0, *(np.flatnonzero(np.diff(chunk)) + 1).tolist(), len(position)]
    return (slice(first, last) for first, last in pairwise(edges) if last > first)


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

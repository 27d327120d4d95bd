"""A trace as one file of raw columns, and back: written once, then mapped, so that opening it copies nothing.

    magic, length and CRC of the header | header, JSON | columns, each at a multiple of 64 bytes

The header holds everything but the numbers: origin, health, what is absent, and where each column lies. A column whose
rows are all the same is its one value, in the header. Texts are UTF-8 in one stretch, and become `str` when the first
is asked for. Whatever is odd about a file is a `ValueError`: a file is used whole or not at all.
"""

from __future__ import annotations

import dataclasses
import json
import mmap
import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray
from zlib_ng import zlib_ng

from gpuledger.messages import Message
from gpuledger.read.nsys.container import Wanted
from gpuledger.trace.health import Note, NotMeasured, Severity
from gpuledger.trace.model import Origin, Trace
from gpuledger.trace.stacks import Stacks
from gpuledger.trace.strings import NO_TEXT, Strings
from gpuledger.trace.tables import Column, Kind, Rows, Table

FORMAT: Final = 1
"""Raised with every change of what is stored or how."""

_MAGIC: Final = b"\x89gpuledg"
_START: Final = struct.Struct("<8sQI")
_ALIGNED: Final = 64
_PIECE: Final = 16 << 20


class Spoken(msgspec.Struct, forbid_unknown_fields=True):
    """A sentence that can be said in another language: see `messages`."""

    text: str
    template: str
    parts: dict[str, Spoken | str | int | float | bool | None]


class _Note(msgspec.Struct, forbid_unknown_fields=True):
    severity: Severity
    code: str
    sentence: Spoken | str
    count: int


class _Place(msgspec.Struct, forbid_unknown_fields=True):
    """Where an array lies, counted from the end of the header; or, where all its rows are the same, that row."""

    rows: int
    at: int = 0
    seal: int = 0
    same: list[int | bool] = msgspec.field(default_factory=list)


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    body_bytes: int
    origin: Origin
    health: list[_Note]
    absent: dict[str, Spoken | str]
    tables: dict[str, dict[str, _Place]]
    texts: _Place
    text_ends: _Place
    stack_offsets: _Place
    stack_frames: _Place


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """A trace ready to be written."""

    header: bytes
    arrays: tuple[NDArray[Any], ...]
    total_bytes: int

    def pieces(self) -> Iterator[bytes | memoryview]:
        """The file's bytes, from the first to the last."""
        start = _START.pack(_MAGIC, len(self.header), zlib_ng.crc32(self.header))
        yield start + self.header + _padding(len(start) + len(self.header))
        for array in self.arrays:
            rows = _PIECE // array[0].nbytes
            for first in range(0, len(array), rows):
                yield np.ascontiguousarray(array[first : first + rows]).data.cast("B")
            yield _padding(array.nbytes)


class _Body:
    """The arrays of a file, laid out one after the other."""

    def __init__(self) -> None:
        self.arrays: list[NDArray[Any]] = []
        self.total_bytes = 0

    def place(self, array: NDArray[Any]) -> _Place:
        """Room for an array, unless one row says it all."""
        if not len(array):
            return _Place(0)
        if (array[-1] == array[0]).all() and (array == array[0]).all():
            return _Place(len(array), same=np.atleast_1d(array[0]).tolist())
        found = _Place(len(array), self.total_bytes, zlib_ng.crc32(np.ascontiguousarray(array)))
        self.arrays.append(array)
        self.total_bytes += array.nbytes + len(_padding(array.nbytes))
        return found


def as_stored(trace: Trace, key: str) -> Stored:
    """Lay a trace out as a file. `key` is what the file must be asked for by."""
    body = _Body()
    encoded = [text.encode(errors="surrogatepass") for text in trace.strings.texts]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    header = {
        "key": key,
        "origin": dataclasses.asdict(trace.origin),
        "health": [
            {"severity": note.severity.value, "code": note.code, "sentence": _said(note.sentence), "count": note.count}
            for note in trace.health
        ],
        "absent": {table.value: _said(why.reason) for table, why in trace.absent.items()},
        "tables": {
            table.value: {
                column.name: _plain(body.place(rows[column.name]))
                for column in table.schema.columns
                if column.name in rows
            }
            for table, rows in trace.tables.items()
        },
        "texts": _plain(body.place(np.frombuffer(b"".join(encoded), np.uint8))),
        "text_ends": _plain(body.place(ends)),
        "stack_offsets": _plain(body.place(trace.stacks.offsets)),
        "stack_frames": _plain(body.place(trace.stacks.frames)),
        "body_bytes": body.total_bytes,
    }
    # ASCII with escapes: UTF-8 has no place for the lone surrogates that a name may hold
    packed = json.dumps(header, separators=(",", ":")).encode("ascii")
    before = _START.size + len(packed)
    return Stored(packed, tuple(body.arrays), before + len(_padding(before)) + body.total_bytes)


def from_stored(file: mmap.mmap | bytes, key: str, wanted: Wanted) -> Trace:
    """The trace in a mapped file, its columns read-only views of it. ValueError: the file is not whole, or another."""
    header, base = _header(file)
    if header.key != key or base + header.body_bytes != len(file):
        raise ValueError("another file, or a part of one")
    body = memoryview(file)[base:]
    strings = _strings(body, header)
    absent = {Table(table): NotMeasured(_heard(reason)) for table, reason in header.absent.items()}
    held = {Table(table): frozenset(places) for table, places in header.tables.items()}
    if held | {table: wanted.get(table) for table in absent} != wanted:
        raise ValueError("not the columns that were asked for")
    tables = {Table(table): _rows(Table(table), places, body, strings) for table, places in header.tables.items()}
    health = tuple(Note(note.severity, note.code, _heard(note.sentence), note.count) for note in header.health)
    stacks = Stacks(
        _array(body, header.stack_offsets, np.dtype(np.int64)),
        _array(body, header.stack_frames, np.dtype(np.int32)),
    )
    return Trace(header.origin, health, strings, tables, absent, stacks)


def _header(file: mmap.mmap | bytes) -> tuple[_Header, int]:
    """The header, and where the columns begin."""
    if len(file) < _START.size:
        raise ValueError("no header")
    magic, length, seal = _START.unpack_from(file)
    packed = file[_START.size : _START.size + length]
    if magic != _MAGIC or len(packed) != length or zlib_ng.crc32(packed) != seal:
        raise ValueError("no header")
    before = _START.size + length
    return msgspec.convert(json.loads(packed), _Header), before + len(_padding(before))


def _strings(body: memoryview, header: _Header) -> Strings:
    texts = _array(body, header.texts, np.dtype(np.uint8))
    ends = _array(body, header.text_ends, np.dtype(np.int64))
    edges = np.concatenate((np.zeros(1, np.int64), ends))
    if edges[-1] != len(texts) or (np.diff(edges) < 0).any():
        raise ValueError("texts of other lengths")

    def load() -> Iterator[str]:
        whole = texts.tobytes()
        if whole.isascii():  # cutting text is faster than decoding each of a million
            text = whole.decode("ascii")
            return (text[start:end] for start, end in pairwise(edges.tolist()))
        return (whole[start:end].decode(errors="surrogatepass") for start, end in pairwise(edges.tolist()))

    return Strings.later(len(ends), load)


def _rows(table: Table, places: dict[str, _Place], body: memoryview, strings: Strings) -> Rows:
    columns = {name: _column(table.schema[name], place, body) for name, place in places.items()}
    for name, values in columns.items():
        if table.schema[name].kind is Kind.TEXT and len(values):
            one_of = values[:1] if places[name].same else values
            if one_of.min() < NO_TEXT or one_of.max() >= len(strings):
                raise ValueError(f"{name}: a code without a text")
    return Rows(table.schema, columns, strings)


def _column(column: Column, place: _Place, body: memoryview) -> NDArray[Any]:
    return _array(body, place, column.kind.dtype, 3 if column.kind is Kind.TRIPLE else 0)


def _array(body: memoryview, place: _Place, dtype: np.dtype[Any], width: int = 0) -> NDArray[Any]:
    """An array of the file, checked to lie within it and to be sealed; a read-only view."""
    shape = (place.rows, width) if width else (place.rows,)
    if place.rows < 0 or place.at < 0 or place.at % _ALIGNED:
        raise ValueError("an array outside the file")
    if place.same:
        return np.broadcast_to(np.array(place.same, dtype), shape)
    size = place.rows * max(width, 1)
    if place.at + size * dtype.itemsize > len(body):
        raise ValueError("an array outside the file")
    if not size:
        return np.empty(shape, dtype)
    found = np.frombuffer(body, dtype, size, place.at).reshape(shape)
    if zlib_ng.crc32(found) != place.seal:
        raise ValueError("a damaged array")
    return found


def _padding(size: int) -> bytes:
    return bytes(-size % _ALIGNED)


def _plain(place: _Place) -> object:
    return msgspec.to_builtins(place)


def _said(text: str) -> object:
    """A sentence for JSON. TypeError: it holds something that would not come back as it is."""
    if not isinstance(text, Message):
        return text
    for part in text.parts.values():
        if not isinstance(part, str | int | float | None):
            raise TypeError(f"a {type(part).__name__} in a sentence")
    parts = {name: _said(part) if isinstance(part, str) else part for name, part in text.parts.items()}
    return {"text": str(text), "template": text.template, "parts": parts}


def _heard(said: Spoken | str) -> str:
    if isinstance(said, str):
        return said
    parts = {name: _heard(part) if isinstance(part, Spoken | str) else part for name, part in said.parts.items()}
    return Message(said.text, said.template, parts)

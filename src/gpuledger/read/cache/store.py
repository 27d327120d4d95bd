"""Traces as files in the folder of kept ones: raw columns, so that opening one copies nothing, each under a checksum.

Two digests tell which profile it is of, and in which state.
"""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from zlib_ng import zlib_ng

from gpuledger.messages import Message
from gpuledger.read.request import WantedColumns
from gpuledger.read.source import Source
from gpuledger.system.kept_files import FileState, file_state, place_of
from gpuledger.system.opening import exists
from gpuledger.trace.model import Note, NotMeasured, Origin, Severity, Trace
from gpuledger.trace.strings import NO_TEXT, Stacks, Strings
from gpuledger.trace.tables import Kind, Rows, Table

_MOST_FILES: Final = 1000
_LOGS: Final = ("-wal", "-journal")


class ProfileFingerprint(Struct, frozen=True):
    """One state of one profile."""

    place: str
    """Stands for the path."""
    state: FileState


def fingerprint(source: Source, member: str = "") -> ProfileFingerprint | None:
    """What `source` is now; None where that cannot be told from its own file or files alone."""
    try:
        path = source.path.resolve()
        if source.head and any(exists(path.with_name(path.name + ending)) for ending in _LOGS):
            return None  # a database that goes on beside its file
        files = [source.path] if source.head else [source.path / name for name in source.files]
        state = file_state(files) if len(files) <= _MOST_FILES else None
    except (OSError, RuntimeError):  # gone, or a loop of links
        return None
    if state is None:
        return None
    return ProfileFingerprint(place_of(path, member), state)


FORMAT: Final = 3
"""Raised with every change of what is stored or how."""

_MAGIC: Final = b"\x89gpuledg"
_START: Final = struct.Struct("<8sQI")
_ALIGNED: Final = 64
_PIECE: Final = 16 << 20


class MessageRecord(msgspec.Struct, forbid_unknown_fields=True):
    """A sentence that can be said in another language: see `messages`."""

    text: str
    template: str
    parts: dict[str, MessageRecord | str | int | float | bool | None]


class _NoteRecord(msgspec.Struct, forbid_unknown_fields=True):
    severity: Severity
    code: str
    sentence: MessageRecord | str
    count: int


class _ArrayPlace(msgspec.Struct, forbid_unknown_fields=True):
    """Where an array lies, counted from the end of the header; or, where all its rows are the same, that row."""

    rows: int
    offset: int = 0
    checksum: int = 0
    same: list[int | bool] = msgspec.field(default_factory=list)


class _FileHeader(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    origin: Origin
    health: list[_NoteRecord]
    absent: dict[Table, MessageRecord | str]
    tables: dict[Table, dict[str, _ArrayPlace]]
    texts: _ArrayPlace
    text_ends: _ArrayPlace
    stack_offsets: _ArrayPlace
    stack_frames: _ArrayPlace
    body_bytes: int


class PackedTrace(Struct, frozen=True, eq=False):
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


class _FileBody:
    """The arrays of a file, laid out one after the other."""

    def __init__(self) -> None:
        self.arrays: list[NDArray[Any]] = []
        self.total_bytes = 0

    def add(self, array: NDArray[Any]) -> _ArrayPlace:
        """Room for an array, unless one row says it all."""
        if not len(array):
            return _ArrayPlace(0)
        if (array[-1] == array[0]).all() and (array == array[0]).all():
            return _ArrayPlace(len(array), same=np.atleast_1d(array[0]).tolist())
        place = _ArrayPlace(len(array), self.total_bytes, zlib_ng.crc32(np.ascontiguousarray(array)))
        self.arrays.append(array)
        self.total_bytes += array.nbytes + len(_padding(array.nbytes))
        return place


def pack_trace(trace: Trace, key: str) -> PackedTrace:
    """Lay a trace out as a file. `key` is what the file must be asked for by."""
    body = _FileBody()
    encoded = [text.encode(errors="surrogatepass") for text in trace.strings.texts]
    header = _FileHeader(
        key=key,
        origin=trace.origin,
        health=[_NoteRecord(note.severity, note.code, _record(note.sentence), note.count) for note in trace.health],
        absent={table: _record(missing.reason) for table, missing in trace.absent.items()},
        tables={
            table: {column.name: body.add(rows[column.name]) for column in table.schema.columns if column.name in rows}
            for table, rows in trace.tables.items()
        },
        texts=body.add(np.frombuffer(b"".join(encoded), np.uint8)),
        text_ends=body.add(np.cumsum([len(text) for text in encoded], dtype=np.int64)),
        stack_offsets=body.add(trace.stacks.offsets),
        stack_frames=body.add(trace.stacks.frames),
        body_bytes=body.total_bytes,
    )
    # ASCII with escapes: UTF-8 has no place for the lone surrogates that a name may hold
    packed = json.dumps(msgspec.to_builtins(header), separators=(",", ":")).encode("ascii")
    before = _START.size + len(packed)
    return PackedTrace(packed, tuple(body.arrays), before + len(_padding(before)) + body.total_bytes)


def unpack_trace(file: mmap.mmap | bytes, key: str, wanted: WantedColumns) -> Trace:
    """The trace in a mapped file, its columns read-only views of it. ValueError: the file is not whole, or another."""
    header, base = _header(file)
    if header.key != key or base + header.body_bytes != len(file):
        raise ValueError("another file, or a part of one")
    columns = {table: frozenset(places) for table, places in header.tables.items()}
    if columns | {table: wanted.get(table) for table in header.absent} != wanted:
        raise ValueError("not the columns that were asked for")
    body = memoryview(file)[base:]
    strings = _strings(body, header)
    offsets = _array(body, header.stack_offsets, np.dtype(np.int64))
    frames = _array(body, header.stack_frames, np.dtype(np.int32))
    return Trace(
        header.origin,
        tuple(Note(note.severity, note.code, _sentence(note.sentence), note.count) for note in header.health),
        strings,
        {table: _rows(table, places, body, strings) for table, places in header.tables.items()},
        {table: NotMeasured(_sentence(reason)) for table, reason in header.absent.items()},
        Stacks(offsets, frames),
    )


def _header(file: mmap.mmap | bytes) -> tuple[_FileHeader, int]:
    """The header, and where the columns begin."""
    if len(file) < _START.size:
        raise ValueError("no header")
    magic, length, checksum = _START.unpack_from(file)
    packed = file[_START.size : _START.size + length]
    if magic != _MAGIC or len(packed) != length or zlib_ng.crc32(packed) != checksum:
        raise ValueError("no header")
    before = _START.size + length
    return msgspec.convert(json.loads(packed), _FileHeader), before + len(_padding(before))


def _strings(body: memoryview, header: _FileHeader) -> Strings:
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


def _rows(table: Table, places: dict[str, _ArrayPlace], body: memoryview, strings: Strings) -> Rows:
    columns = {}
    for name, place in places.items():
        kind = table.schema[name].kind
        columns[name] = values = _array(body, place, kind.dtype, 3 if kind is Kind.TRIPLE else 0)
        if kind is Kind.TEXT and len(values):
            codes = values[:1] if place.same else values
            if codes.min() < NO_TEXT or codes.max() >= len(strings):
                raise ValueError(f"{name}: a code without a text")
    return Rows(table.schema, columns, strings)


def _array(body: memoryview, place: _ArrayPlace, dtype: np.dtype[Any], width: int = 0) -> NDArray[Any]:
    """An array of the file, checked to lie within it and to be whole; a read-only view."""
    shape = (place.rows, width) if width else (place.rows,)
    if place.rows < 0 or place.offset < 0 or place.offset % _ALIGNED:
        raise ValueError("an array outside the file")
    if place.same:
        return np.broadcast_to(np.array(place.same, dtype), shape)
    size = place.rows * max(width, 1)
    if place.offset + size * dtype.itemsize > len(body):
        raise ValueError("an array outside the file")
    if not size:
        return np.empty(shape, dtype)
    array = np.frombuffer(body, dtype, size, place.offset).reshape(shape)
    if zlib_ng.crc32(array) != place.checksum:
        raise ValueError("a damaged array")
    return array


def _padding(size: int) -> bytes:
    return bytes(-size % _ALIGNED)


def _record(sentence: str) -> MessageRecord | str:
    """A sentence for JSON. TypeError: it holds something that would not come back as it is."""
    if not isinstance(sentence, Message):
        return sentence
    parts: dict[str, Any] = {}
    for name, part in sentence.parts.items():
        if not isinstance(part, str | int | float | None):
            raise TypeError(f"a {type(part).__name__} in a sentence")
        parts[name] = _record(part) if isinstance(part, str) else part
    return MessageRecord(str(sentence), sentence.template, parts)


def _sentence(record: MessageRecord | str) -> str:
    if isinstance(record, str):
        return record
    parts = {
        name: _sentence(part) if isinstance(part, MessageRecord | str) else part for name, part in record.parts.items()
    }
    return Message(record.text, record.template, parts)

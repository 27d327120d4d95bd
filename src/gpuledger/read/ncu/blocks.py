"""The container of a .ncu-rep: a file in, how much of it is whole and what it announces out.

A file is a header and blocks. Each block is a length, a protobuf header of that length, and a payload whose size the
header gives; a whole file ends where a block ends. Payloads are NVIDIA's and are stepped over, never read. The library
that reads them says nothing when the end of a file is missing, so this is where a cut report is noticed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, BinaryIO, Final

from gpuledger.limits import Limits
from gpuledger.messages import say
from gpuledger.read.source import Source, opened

MAGIC: Final = b"NVR\0"
_RESULTS, _SESSION, _PAYLOAD_SIZE, _PROCESS, _RANGE_RESULTS = 2, 3, 5, 6, 7
_TOOL: Final = b"Nsight Compute Target"
_TOOL_FIELD: Final = 8


@dataclass(frozen=True, slots=True)
class ReportContainer:
    """What the block headers of a report say."""

    size: int
    whole: int
    """Where the last whole block ends."""
    processes: tuple[int | None, ...]
    """For each launch in whole blocks, the process that made it."""
    tool_version: str | None
    trouble: str = ""
    """What the file is from there on: cut off, or damaged; empty if it ends there as it should."""

    @property
    def launches(self) -> int:
        return len(self.processes)


class _Damaged(Exception):
    """A block that cannot be one; its text says why."""


def walk(source: Source, limits: Limits) -> ReportContainer:
    """Step through the blocks of a report."""
    processes: list[int | None] = []
    tool_version, trouble = None, ""
    with opened(source) as file:
        whole = file.seek(len(MAGIC))
        try:
            _message(file, source.size, limits)
            whole = file.tell()
            while whole < source.size:
                header = dict(_fields(_message(file, source.size, limits)))
                end = file.tell() + _number(header, _PAYLOAD_SIZE)
                if end > source.size:
                    raise _Damaged(say("truncated"))
                results = _number(header, _RESULTS, 0) + _number(header, _RANGE_RESULTS, 0)
                if results > end - whole:
                    raise _Damaged(say("damaged"))
                processes += [_process(header)] * results
                tool_version = tool_version or _tool_version(header)
                whole = file.seek(end)
        except _Damaged as damage:
            trouble = damage.args[0]
    return ReportContainer(source.size, whole, tuple(processes), tool_version, trouble)


def copy_whole(source: Source, container: ReportContainer, target: IO[bytes]) -> None:
    """Write the whole blocks of a report to another file."""
    left = container.whole
    with opened(source) as file:
        while left > 0 and (piece := file.read(min(left, 1 << 20))):
            target.write(piece)
            left -= len(piece)


def _message(file: BinaryIO, size: int, limits: Limits) -> bytes:
    """The next message with its length before it."""
    start = file.read(4)
    if len(start) < 4:
        raise _Damaged(say("truncated"))
    (length,) = struct.unpack("<I", start)
    if length == 0 or length > limits.event_bytes:
        raise _Damaged(say("damaged"))
    if length > size - file.tell():
        raise _Damaged(say("truncated"))
    return file.read(length)


_Value = int | bytes


def _fields(message: bytes) -> Iterator[tuple[int, _Value]]:
    """The fields of a protobuf message: number and value."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind, value = key & 7, b""
        if kind == 0:
            number, at = _varint(message, at)
            yield key >> 3, number
            continue
        if kind == 2:
            length, at = _varint(message, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise _Damaged(say("damaged"))
        value = message[at : at + length]
        if len(value) != length:
            raise _Damaged(say("damaged"))
        at += length
        yield key >> 3, value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 64:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise _Damaged(say("damaged"))


def _number(header: dict[int, _Value], field: int, default: int | None = None) -> int:
    value = header.get(field, default)
    if not isinstance(value, int):
        raise _Damaged(say("damaged"))
    return value


def _process(header: dict[int, _Value]) -> int | None:
    """The number of the process that a block is about."""
    about = header.get(_PROCESS)
    number = dict(_fields(about)).get(1) if isinstance(about, bytes) else None
    return number if isinstance(number, int) else None


def _tool_version(header: dict[int, _Value]) -> str | None:
    """The release of Nsight Compute that measured, where this block names it."""
    session = header.get(_SESSION)
    if not isinstance(session, bytes) or _TOOL not in session:
        return None
    for field, value in _fields(session):
        if field == _TOOL_FIELD and isinstance(value, bytes):
            named = dict(_fields(value))
            version = named.get(2)
            if named.get(1) == _TOOL and isinstance(version, bytes):
                return version.decode("utf-8", "replace").partition(" ")[0]
    return None

"""A .nsys-rep or .qdrep on disk -> its parts: what it says of itself, its blocks of events, its texts.

NVIDIA does not document the format. What is known here was seen in report files of nsys 2021 to 2026 beside what `nsys
export` makes of them; nothing was taken from NVIDIA's code. A report is a line of text, sections, a directory of them
(protobuf: name, offset, length) and, last, 16 bytes: the directory's offset and a mark. The section "Raw Sampling Data"
begins with a mark and two messages: the machine and what was asked for, then counts. LZ4 blocks of events follow, up to
an offset that the section "Sampling Data Offsets" gives; behind them a block of texts, the threads' names and the GPUs.

A file that was cut has no directory. Its events lie before its texts: those that are whole are read, and counted.
"""

from __future__ import annotations

import os
from typing import BinaryIO, Final

from msgspec import Struct

from gpuledger.errors import UnreadableProfile
from gpuledger.read.nsys.report_events import PackedBlock, texts_of, unpack
from gpuledger.read.protobuf import Damage, fields, varint
from gpuledger.read.source import Source
from gpuledger.trace.deadline import check
from gpuledger.units import bytes_text

MAGIC: Final = b"NVIDIA Tegra Profiler Report"
_END: Final = b"U3w[END]"
_EVENTS_MAGIC: Final = b"QDTEXT00"
_RAW, _OFFSETS, _UI = "Raw Sampling Data", "Sampling Data Offsets", "UI Data"
_TRAILER_BYTES: Final = 16
_MOST_DIRECTORY_BYTES: Final = 1 << 20
_MOST_HEADER_BYTES: Final = 256 << 20
_MOST_SEARCHED: Final = 64 << 20
_VARINT_BYTES: Final = 10
_HOW_TO_GO_ON: Final = "`--exporter=nsys` asks an installed nsys to read it"


class ReportFile(Struct, frozen=True):
    """The parts of a report, each as the bytes of its message."""

    version: str | None
    """Of the nsys that wrote it."""
    machine: bytes
    """The machines, what was asked for, clocks, processes."""
    counts: bytes
    """How many events and texts there are, and what generic events are made of."""
    blocks: tuple[PackedBlock, ...]
    texts: list[bytes]
    """By number."""
    gpus: bytes = b""
    """The GPUs, and which of them each process calls by which number."""
    layouts: bytes = b""
    """What payloads of NVTX are made of."""
    is_cut: bool = False
    """Whether what should come last is missing."""


class FileBytes:
    """Reads a file at any place; what lies beyond its end is damage."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._descriptor, self.size = file.fileno(), size

    def __call__(self, offset: int, size: int) -> bytes:
        if offset < 0 or size < 0 or offset + size > self.size:
            raise Damage
        parts, left = list[bytes](), size
        while left and (part := os.pread(self._descriptor, left, offset)):
            parts.append(part)
            offset, left = offset + len(part), left - len(part)
        if left:
            raise Damage
        return b"".join(parts)

    def number(self, offset: int) -> tuple[int, int]:
        """The varint at `offset`, and where what follows begins."""
        value, size = varint(self(offset, min(_VARINT_BYTES, self.size - offset)), 0)
        return value, offset + size

    def message(self, offset: int, most: int = _MOST_HEADER_BYTES) -> tuple[bytes, int]:
        """The message behind its length at `offset`, and where what follows begins."""
        size, offset = self.number(offset)
        if size > most:
            raise Damage
        return self(offset, size), offset + size


def open_report(source: Source, file: BinaryIO) -> ReportFile:
    """Find the parts of a report. Refuses, in a sentence, what is laid out in another way."""
    read = FileBytes(file, source.size)
    try:
        sections = _sections(read)
    except Damage:
        sections = {}
    if sections and _RAW not in sections:
        raise _other_layout(source, f"its sections are {', '.join(sorted(sections)[:4])}")
    try:
        return _parts(source, read, sections)
    except Damage:
        raise UnreadableProfile(
            f"{source.name}: a damaged report of Nsight Systems",
            found=f"{bytes_text(source.size)}, of which nothing can be read",
            hint="copy it again from where it was recorded",
        ) from None


def _other_layout(source: Source, found: str) -> UnreadableProfile:
    return UnreadableProfile(
        f"{source.name}: a report of Nsight Systems that is laid out in a way gpuledger does not know",
        found=found,
        hint=_HOW_TO_GO_ON,
    )


def _sections(read: FileBytes) -> dict[str, tuple[int, int]]:
    """Where each section lies and how long it is."""
    tail = read(max(0, read.size - 64), min(64, read.size))
    end = tail.rfind(_END)  # a line's end that a tool for text put behind is not ours to refuse
    if end < 8:
        raise Damage
    size = read.size - len(tail) + end - 8
    offset = int.from_bytes(tail[end - 8 : end], "little")
    if not 0 < offset < size or size - offset > _MOST_DIRECTORY_BYTES:
        raise Damage
    sections = {}
    for number, entry in fields(read(offset, size - offset)):
        if number == 1 and isinstance(entry, bytes):
            described = dict(fields(entry))
            name, at, length = described.get(1, b""), described.get(2, 0), described.get(3, 0)
            if isinstance(name, bytes) and isinstance(at, int) and isinstance(length, int):
                if at + length > read.size:
                    raise Damage
                sections[name.decode(errors="replace")] = (at, length)
    return sections


def _parts(source: Source, read: FileBytes, sections: dict[str, tuple[int, int]]) -> ReportFile:
    start, length = sections.get(_RAW) or (found := _searched(read), read.size - found)
    if read(start, len(_EVENTS_MAGIC)) != _EVENTS_MAGIC:
        raise _other_layout(source, "its events do not begin with QDTEXT00")
    machine, at = read.message(start + len(_EVENTS_MAGIC))
    counts, at = read.message(at)
    if (packing := dict(fields(counts)).get(9)) != b"lz4":
        raise _other_layout(source, f"its events are packed by {packing!r}, not by LZ4")
    events_end = _events_end(read, sections, start, length)
    blocks, texts, is_cut = list[PackedBlock](), list[bytes](), not sections
    wanted, seen_texts = dict(fields(counts)).get(3), b""
    try:
        while at < (events_end if events_end is not None else start + length):
            check()
            block, at = _block(read, at)
            if events_end is None and _holds_texts(read, block):
                seen_texts = _plain(read, block)
                break
            blocks.append(block)
        if events_end is not None:
            block, at = _block(read, events_end)
            seen_texts = _plain(read, block)
        texts = texts_of(seen_texts, 1)
    except Damage:
        is_cut = True
    if isinstance(wanted, int) and len(texts) != wanted:
        is_cut = True
    gpus, layouts, is_whole = _behind_texts(read, at, start + length) if texts else (b"", b"", True)
    is_cut |= not is_whole
    version = _version(source, read, sections)
    return ReportFile(version, machine, counts, tuple(blocks), texts, gpus, layouts, is_cut)


def _behind_texts(read: FileBytes, at: int, end: int) -> tuple[bytes, bytes, bool]:
    """The GPUs, the layouts of payloads where there are any, and whether all was there."""
    gpus = layouts = b""
    try:
        _, at = read.message(at)  # names of threads
        gpus, at = read.message(at)
        if at < end:
            layouts = _plain(read, _block(read, at)[0])
    except Damage:
        return gpus, layouts, False
    return gpus, layouts, True


def _searched(read: FileBytes) -> int:
    """Where the events begin in a file without a directory."""
    step, offset = 1 << 20, 0
    while offset < min(read.size, _MOST_SEARCHED):
        part = read(offset, min(step + len(_EVENTS_MAGIC), read.size - offset))
        if (found := part.find(_EVENTS_MAGIC)) >= 0:
            return offset + found
        offset += step
    raise Damage


def _events_end(read: FileBytes, sections: dict[str, tuple[int, int]], start: int, length: int) -> int | None:
    if _OFFSETS not in sections:
        return None
    value = dict(fields(read(*sections[_OFFSETS]))).get(2)
    return start + len(_EVENTS_MAGIC) + value if isinstance(value, int) and value <= length else None


def _block(read: FileBytes, at: int) -> tuple[PackedBlock, int]:
    size, at = read.number(at)
    plain_size, at = read.number(at)
    if at + size > read.size or plain_size // 256 > size:
        raise Damage
    return PackedBlock(at, size, plain_size), at + size


def _plain(read: FileBytes, block: PackedBlock) -> bytes:
    """The message that a block holds."""
    plain = unpack(read(block.offset, block.size), block.plain_size)
    size, at = varint(plain, 0)
    if size != len(plain) - at:
        raise Damage
    return plain[at:]


def _holds_texts(read: FileBytes, block: PackedBlock) -> bool:
    """Whether this is the block behind the events: its first fields are texts, not events, which begin with a class."""
    message = _plain(read, block)
    for number, inside in fields(message):
        return number == 1 and isinstance(inside, bytes) and not inside.startswith(b"\x08")
    return False


def _version(source: Source, read: FileBytes, sections: dict[str, tuple[int, int]]) -> str | None:
    """The version of the nsys that wrote the report; that of newer ones stands in the first line too."""
    try:
        said = dict(fields(read(*sections[_UI]))).get(6) if _UI in sections else None
    except Damage:
        said = None
    if isinstance(said, bytes):
        return said.decode(errors="replace").split("-")[0]
    head = source.head.removeprefix(MAGIC).strip().split(b"-", 1)[0].split(b".")[0]
    return head.decode(errors="replace").replace("@", ".") if head.count(b"@") >= 2 else None  # 2026@1@2@63-2612...

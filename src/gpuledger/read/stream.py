"""What a file holds as one stream of bytes: plain, gzipped, or a member of a tar or zip archive.

Nothing is ever unpacked to disk, and no more than a piece is held. A compressed stream that breaks off gives what it
held and says so in `end_notes`.
"""

from __future__ import annotations

import re
import tarfile
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import BinaryIO, Final, Protocol, cast

from zlib_ng import zlib_ng

from gpuledger.errors import UnreadableProfile
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.messages import Message, say
from gpuledger.read.request import counted
from gpuledger.read.source import Source, opened
from gpuledger.trace.model import Note, Severity
from gpuledger.units import bytes_text

GZIP: Final = b"\x1f\x8b"
ZIP: Final = b"PK\x03\x04"
_PIECE: Final = 1 << 20
_DAMAGED: Final = (zlib.error, cast("type[Exception]", zlib_ng.error))
_BROKEN: Final = (*_DAMAGED, EOFError, OSError, tarfile.TarError, zipfile.BadZipFile)


class ByteStream(Protocol):
    """A stream that says how it ended."""

    @property
    def end_notes(self) -> Sequence[Note]:
        """At the end, whether the stream broke off or had more behind; a stream around it has the same list."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes, none at the end."""


class PlainFile:
    """A file as it is."""

    end_notes: Sequence[Note] = ()

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int = -1, /) -> bytes:
        return self._file.read(size)


def cut_off(reason: Message) -> Note:
    """The note of a trace that breaks off."""
    return Note(Severity.LOSS, "trace-cut-off", say("{reason}: the trace is truncated", reason=reason))


class _InPieces:
    """Reads what comes in pieces, of whatever length, as one stream."""

    _ready, _at, _ended = b"", 0, False

    def _more(self) -> bytes:
        """The next piece; sets `_ended` where there is none."""
        raise NotImplementedError

    def read(self, size: int = -1, /) -> bytes:
        """At least one byte unless the stream is at its end."""
        parts, have = [], 0
        while size < 0 or have < size:
            if self._at == len(self._ready):
                if self._ended:
                    break
                self._ready, self._at = self._more(), 0
            end = len(self._ready) if size < 0 else min(len(self._ready), self._at + size - have)
            parts.append(self._ready[self._at : end])
            have, self._at = have + end - self._at, end
        return b"".join(parts)


class Gunzipped(_InPieces):
    """What a gzip file holds; several members in a row count as one."""

    def __init__(self, file: ByteStream, name: str, limits: Limits) -> None:
        self.end_notes = list[Note]()
        self._file, self._name, self._limit, self._total = file, name, limits.unpacked_bytes, 0
        self._unpack = zlib_ng.decompressobj(wbits=31)
        self._packed, self._next, self._step = b"", 0, _PIECE // 4

    def _more(self) -> bytes:
        packed = self._unpack.unconsumed_tail or self._next_compressed()
        if self._unpack.eof:
            if not packed.startswith(GZIP):
                self.end_notes += counted("gzip-trailing", self._bytes_from(packed))
                self._ended = True
                return b""
            self._unpack = zlib_ng.decompressobj(wbits=31)
        if not packed:
            self.end_notes.append(cut_off(say("the gzip stream breaks off")))
            self._ended = True
            return b""
        try:
            part: bytes = self._unpack.decompress(packed, 2 * _PIECE)
        except _DAMAGED:
            self.end_notes.append(cut_off(say("the gzip stream is damaged")))
            self._ended = True
            return b""
        if self._unpack.eof:
            self._next -= len(self._unpack.unused_data)
        # what follows a member is copied by the library: of a file of tiny members little is fed at a time
        self._step = 512 if self._unpack.eof else min(2 * self._step, _PIECE // 4)
        self._total += len(part)
        if self._total > self._limit:
            raise too_large(self._name, self._limit)
        return part

    def _bytes_from(self, piece: bytes) -> int:
        """How many bytes there are from this piece on; 0 if all are zeros: padding to whole blocks."""
        count, is_padding, piece = 0, True, piece + self._packed[self._next :]
        while piece:
            count, is_padding = count + len(piece), is_padding and not piece.strip(b"\0")
            piece = self._file.read(_PIECE)
        return 0 if is_padding else count

    def _next_compressed(self) -> bytes:
        """The next compressed bytes, at least two of them unless the file ends."""
        if self._next + 1 >= len(self._packed):
            self._packed, self._next = self._packed[self._next :] + self._file.read(_PIECE), 0
        start = self._next
        self._next = min(start + self._step, len(self._packed))
        return self._packed[start : self._next]


def unpacked_size(source: Source) -> int:
    """About how many bytes a gzip file unpacks to: as its end says, which counts up to 4 GiB, and its beginning."""
    with opened(source) as file:
        packed = file.read(_PIECE)
        file.seek(max(source.size - 4, 0))
        said = int.from_bytes(file.read(4), "little")
    unpack, sample, left = zlib_ng.decompressobj(wbits=31), 0, packed
    try:
        while left and not unpack.eof and sample < 16 * _PIECE:
            sample += len(unpack.decompress(left, _PIECE))
            left = unpack.unconsumed_tail
    except _DAMAGED:
        return 0
    used = len(packed) - len(unpack.unused_data if unpack.eof else left)
    guess = sample * source.size // max(used, 1)
    exact = said + max(round((guess - said) / 2**32), 0) * 2**32
    return exact if guess <= 2 * exact <= 4 * guess else guess


def too_large(name: str, limit: int) -> UnreadableProfile:
    """The refusal of something that unpacks to more than is allowed."""
    return UnreadableProfile(
        f"{name}: unpacks to more than {bytes_text(limit)}",
        hint=f"if it is what it should be: --limit=unpacked-bytes={bytes_text(2 * limit).replace(' ', '')}",
    )


class ArchiveMember:
    """A member of an archive; where it is damaged, what could be read of it."""

    def __init__(self, file: BinaryIO, name: str, limits: Limits) -> None:
        self.end_notes = list[Note]()
        self._file, self._name, self._limit, self._total = file, name, limits.unpacked_bytes, 0

    def read(self, size: int = -1, /) -> bytes:
        if self.end_notes:
            return b""
        try:
            part = self._file.read(size)
        except _BROKEN:
            self.end_notes.append(cut_off(say("the archive is damaged")))
            return b""
        self._total += len(part)
        if self._total > self._limit:
            raise too_large(self._name, self._limit)
        return part


class _Ahead(_InPieces, threading.Thread):
    """Reads a stream a few pieces ahead of whoever reads this one: unpacking goes on outside Python's lock."""

    def __init__(self, stream: ByteStream) -> None:
        super().__init__(name="gpuledger unpacking", daemon=True)
        self._stream, self.end_notes = stream, stream.end_notes
        self._pieces: SimpleQueue[bytes | Exception] = SimpleQueue()
        self._room, self._given_up = threading.Semaphore(4), False  # so many pieces may lie unpacked

    def run(self) -> None:
        piece = b" "
        while piece:
            self._room.acquire()
            if self._given_up:
                return
            try:
                piece = self._stream.read(_PIECE)
            except Exception as error:  # it is the reader's to handle
                self._pieces.put(error)
                return
            self._pieces.put(piece)

    def stop(self) -> None:
        """Ends the thread, so that what it reads can be closed."""
        self._given_up = True
        self._room.release()
        self.join()

    def _more(self) -> bytes:
        piece = self._pieces.get()
        self._room.release()
        self._ended = not piece or isinstance(piece, Exception)
        if isinstance(piece, Exception):
            raise piece
        return piece


@contextmanager
def read_ahead(stream: ByteStream) -> Iterator[ByteStream]:
    """The same stream, unpacked by a thread of its own while what it gave is looked at."""
    ahead = _Ahead(stream)
    try:
        ahead.start()
    except RuntimeError:  # no thread is to be had
        yield stream
        return
    try:
        yield ahead
    finally:
        ahead.stop()


class RejoinedStream:
    """Bytes that were already looked at, then the rest of their stream."""

    def __init__(self, head: bytes, rest: ByteStream) -> None:
        self._head, self._rest, self.end_notes = head, rest, rest.end_notes

    def read(self, size: int = -1, /) -> bytes:
        if not self._head:
            return self._rest.read(size)
        cut = len(self._head) if size < 0 else size
        part, self._head = self._head[:cut], self._head[cut:]
        return part + self._rest.read() if size < 0 else part


def unpacked(stream: ByteStream, name: str, limits: Limits) -> tuple[bytes, ByteStream]:
    """The first bytes of what a stream holds, and all of it, unzipped where it was gzipped."""
    head = stream.read(512)
    whole: ByteStream = RejoinedStream(head, stream)
    if head.startswith(GZIP):
        inner = Gunzipped(whole, name, limits)
        head = inner.read(512)
        whole = RejoinedStream(head, inner)
        if head.startswith(GZIP):
            raise UnreadableProfile(f"{name}: is gzipped twice", hint="unpack it once with `gunzip -k`")
    return head, whole


def is_tar(head: bytes) -> bool:
    """Whether a stream that begins so is a tar archive."""
    return head[257:262] == b"ustar"


def is_archive(source: Source, limits: Limits = DEFAULT_LIMITS) -> bool:
    """Whether a file is a tar archive, gzipped or not, or a zip archive."""
    if source.head.startswith(ZIP) or is_tar(source.head):
        return True
    if not source.head.startswith(GZIP):
        return False
    with opened(source) as file:
        return is_tar(unpacked(PlainFile(file), source.name, limits)[0])


def members(source: Source, limits: Limits) -> Iterator[tuple[str, Callable[[], ByteStream]]]:
    """The regular files of an archive in the order they are stored: name, and how to read it.

    A tar archive is a stream: a member must be read before the next one is asked for.
    """
    with opened(source) as file, _archive_errors(source):
        if source.head.startswith(ZIP):
            with zipfile.ZipFile(file) as archive:
                for info in archive.infolist():
                    if not info.is_dir():
                        yield info.filename, partial(_of_zip, archive, info, limits)
            return
        _, whole = unpacked(PlainFile(file), source.name, limits)
        with tarfile.open(fileobj=whole, mode="r|", errorlevel=1) as tar:  # type: ignore[call-overload]
            for member in tar:
                if member.isfile():
                    yield member.name, partial(_of_tar, tar, member, limits)


def _of_tar(tar: tarfile.TarFile, member: tarfile.TarInfo, limits: Limits) -> ByteStream:
    return ArchiveMember(cast("BinaryIO", tar.extractfile(member)), member.name, limits)


def _of_zip(archive: zipfile.ZipFile, info: zipfile.ZipInfo, limits: Limits) -> ByteStream:
    if info.file_size > limits.unpacked_bytes:
        raise too_large(info.filename, limits.unpacked_bytes)
    try:
        return ArchiveMember(cast("BinaryIO", archive.open(info)), info.filename, limits)
    except NotImplementedError as error:  # also a RuntimeError
        raise UnreadableProfile(
            f"{info.filename}: packed in a way that Python cannot unpack", found=str(error), hint="unpack it first"
        ) from None
    except RuntimeError:
        raise UnreadableProfile(f"{info.filename}: is encrypted", hint="unpack it with its password first") from None


@contextmanager
def _archive_errors(source: Source) -> Iterator[None]:
    try:
        yield
    except _BROKEN as error:
        reason = re.sub(r"\s+", " ", str(error)) or type(error).__name__
        raise UnreadableProfile(
            f"{source.name}: the archive is damaged", found=reason, hint="copy or pack it again"
        ) from None

"""Archives of traces, one per rank: `ranks.tar.gz::worker0.json` names one. Members are streamed, never unpacked.

Whoever reads the members one after the other goes through the archive once: it is left open behind the last one that
was read. From its beginning each time, 800 small ones took 22 s.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from gpuledger.errors import UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.read.request import Format, Progress, WantedColumns
from gpuledger.read.source import Source, in_time, state
from gpuledger.read.stream import ByteStream, is_archive, members, unpacked
from gpuledger.read.torch.reader import looks_like_json, read_torch
from gpuledger.system.files import SEPARATOR
from gpuledger.trace.deadline import check
from gpuledger.trace.model import Trace


def traces_in(source: Source, limits: Limits) -> list[str]:
    """The names of the members that look like traces, in the order they are stored."""
    names = []
    for name, read in members(source, limits):
        check()
        head, stream = unpacked(read(), name, limits)
        if not head and stream.end_notes:
            raise UnreadableProfile(
                f"{source.name}: the archive is damaged", found=f"{name} cannot be read", hint="copy or pack it again"
            )
        if looks_like_json(head):
            names.append(name)
    return names


def read_member(source: Source, member: str, wanted: WantedColumns, limits: Limits, progress: Progress) -> Trace:
    """Read one trace of an archive."""
    with in_time(f"{source.name}{SEPARATOR}{member}", limits), _at_member(source, member, limits) as packed:
        _, stream = unpacked(packed, member, limits)
        return read_torch(stream, f"{source.name}{SEPARATOR}{member}", "archive", wanted, limits, progress)


_Members = Iterator[tuple[str, Callable[[], ByteStream]]]
_TURN: Final = threading.Lock()
_LEFT_OPEN: Final[list[tuple[object, _Members]]] = []
"""The archive that was read last, behind the member that was read of it."""


@contextmanager
def _at_member(source: Source, member: str, limits: Limits) -> Iterator[ByteStream]:
    with _TURN:
        key = (state(source), limits)
        walk = next((walk for of, walk in _LEFT_OPEN if of == key), iter(()))
        _LEFT_OPEN.clear()
        try:
            read = _sought(walk, member)
        except UnreadableProfile:  # damaged further on, but the member may lie before that
            read = None
        if read is None:
            walk = members(source, limits)
            read = _sought(walk, member)
        if read is None:
            known = ", ".join(sorted(traces_in(source, limits))[:5])
            raise UnreadableProfile(f"{source.name}: holds no member {member}", found=f"traces in it: {known}")
        try:
            yield read()
        finally:
            _LEFT_OPEN.append((key, walk))


def _sought(walk: _Members, member: str) -> Callable[[], ByteStream] | None:
    for name, read in walk:
        check()
        if name == member:
            return read
    return None


class ArchiveReader:
    """A tar or zip archive that holds one trace -> Trace. With several, the user has to say which."""

    name = "archive"
    formats = (Format(".tar, .tar.gz, .zip of JSON traces", "`tar`, `zip`; `ARCHIVE::MEMBER` names one", "", ""),)

    def recognises(self, source: Source) -> bool:
        return bool(source.head) and is_archive(source)

    def read(self, source: Source, wanted: WantedColumns, limits: Limits, progress: Progress) -> Trace:
        with in_time(source.name, limits):
            names = sorted(traces_in(source, limits))
        if not names:
            raise UnreadableProfile(f"{source.name}: an archive without a torch.profiler trace in it")
        if len(names) > 1:
            raise UnreadableProfile(
                f"{source.name}: holds {len(names)} traces",
                found=", ".join(names[:4]) + (", ..." if len(names) > 4 else ""),
                hint=f"`gpuledger fleet` reads them all; `{source.name}{SEPARATOR}{names[0]}` names one",
            )
        return read_member(source, names[0], wanted, limits, progress)

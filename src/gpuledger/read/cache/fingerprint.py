"""Which profile this is, and in which state: a source in, two digests out.

The state is the file's size and times, and a sample of what it holds: both ends and some pages between. A change that
leaves all of these as they are goes unnoticed: bytes overwritten in place, outside the sample, in a file whose times
do not follow its writes, as with some network drives and with programs that write through a memory map.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from dataclasses import dataclass
from typing import BinaryIO, Final

from gpuledger.errors import UnreadableProfile
from gpuledger.read.source import Source, opened

_END_BYTES: Final = 64 << 10
_PAGE_BYTES: Final = 4 << 10
_PAGES: Final = 16
_MOST_FILES: Final = 1000
_LOGS: Final = ("-wal", "-journal")
_TICK_NS: Final = 50_000_000  # what a Linux file system's clock moves by is less
_COARSE_TICK_NS: Final = 2_000_000_000  # FAT counts in two seconds, other old ones in one


@dataclass(frozen=True, slots=True)
class ProfileFingerprint:
    """One state of one profile."""

    place: str
    """Stands for the path."""
    state: str
    """Stands for what lies there."""
    size_bytes: int
    changed_ns: int
    """When any of it last changed, on the system's clock."""

    def was_settled(self, looked_ns: int) -> bool:
        """Whether a change after `looked_ns` must show in the file's times: they had moved on since the last one."""
        is_coarse = self.changed_ns % 1_000_000_000 == 0
        return looked_ns - self.changed_ns > (_COARSE_TICK_NS if is_coarse else _TICK_NS)


def fingerprint(source: Source, member: str = "") -> ProfileFingerprint | None:
    """What `source` is now; None where that cannot be told from its own file or files alone."""
    try:
        path = source.path.resolve()
        if source.head:
            if any(path.with_name(path.name + ending).exists() for ending in _LOGS):
                return None  # a database that goes on beside its file
            files = [source]
        else:
            files = [Source(source.path / name, 0) for name in source.files]
        if len(files) > _MOST_FILES:
            return None
        state, size, changed_ns = hashlib.sha256(), 0, 0
        for file in files:
            if not stat.S_ISREG(file.path.stat().st_mode):
                return None
            with opened(file) as stream:
                status = os.fstat(stream.fileno())
                about = (os.fsencode(file.path.name), status.st_size, status.st_mtime_ns, status.st_ctime_ns)
                state.update(repr(about).encode())
                _sample(stream, status.st_size, state)
            size += status.st_size
            changed_ns = max(changed_ns, status.st_mtime_ns, status.st_ctime_ns)
    except (OSError, RuntimeError, UnreadableProfile):  # gone, or a loop of links
        return None
    place = hashlib.sha256(os.fsencode(path) + b"\0" + member.encode(errors="surrogatepass"))
    return ProfileFingerprint(place.hexdigest(), state.hexdigest(), size, changed_ns)


def now_ns() -> int:
    """The clock that files' times are read from."""
    return time.time_ns()


def _sample(stream: BinaryIO, size: int, state: hashlib._Hash) -> None:
    """Feed the first and last bytes of a file, and pages at equal distances between them."""
    state.update(stream.read(_END_BYTES))
    for page in range(1, _PAGES):
        stream.seek(size * page // _PAGES)
        state.update(stream.read(_PAGE_BYTES))
    stream.seek(max(size - _END_BYTES, 0))
    state.update(stream.read(_END_BYTES))

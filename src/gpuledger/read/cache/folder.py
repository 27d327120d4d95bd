"""The folder of stored profiles: names and bytes in, mapped files out, and never more of them than there is room for.

A file appears whole or not at all, under its name, and is never changed after: it is only mapped, or unlinked, which
leaves whoever has it mapped alone. So any number of processes may use the folder at once. It is for its owner's eyes,
as profiles are: 0700, its files 0600; a folder or file of another user is not used.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Final

ENDING: Final = ".trace"
PARTIAL: Final = ".partial"
MOST_BYTES: Final = 10_000_000_000
"""What all files may take together, or `MOST_SHARE` of the room that they could have, if that is less."""
MOST_SHARE: Final = 0.1
STALE_S: Final = 600.0
"""A file that is still partial, and that nobody has written to for so long, is what a killed process left."""


@dataclass(frozen=True, slots=True)
class _File:
    used_ns: int
    size: int
    path: Path


class Shelf:
    """One such folder. Methods raise OSError where the system refuses."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def mapped(self, name: str) -> mmap.mmap | None:
        """The file of this name, which counts as used now; None if there is none."""
        try:
            descriptor = os.open(self.folder / (name + ENDING), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or not status.st_size:
                return None
            with contextlib.suppress(OSError):  # a folder that can only be read: the order of use is lost, no more
                os.utime(descriptor)
            return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        finally:
            os.close(descriptor)

    def discard(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self.folder / (name + ENDING)).unlink(missing_ok=True)

    def put(self, name: str, size: int, pieces: Iterable[bytes | memoryview], given_up: Event) -> bool:
        """Write a file of `size` bytes, removing what has to go for it. False: it is too large, or was given up."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = self.folder.stat()
        if status.st_uid != os.geteuid():
            raise PermissionError(f"{self.folder} belongs to another user")
        if stat.S_IMODE(status.st_mode) != 0o700:
            self.folder.chmod(0o700)
        if not self._make_room(size):
            return False
        descriptor, partial = tempfile.mkstemp(suffix=PARTIAL, dir=self.folder)  # 0600
        try:
            with os.fdopen(descriptor, "wb") as file:
                for piece in pieces:
                    if given_up.is_set():
                        return False
                    file.write(piece)
            Path(partial).replace(self.folder / (name + ENDING))
        finally:
            Path(partial).unlink(missing_ok=True)
        return True

    def discard_others(self, prefix: str, kept: str) -> None:
        """Remove the files whose names begin with `prefix`, but not those that begin with `kept`."""
        for file in self._files(ENDING):
            if file.path.name.startswith(prefix) and not file.path.name.startswith(kept):
                file.path.unlink(missing_ok=True)

    def _make_room(self, size: int) -> bool:
        """Remove what a killed process left, then what was not used for longest, until `size` more bytes fit."""
        partial = self._files(PARTIAL)
        stale = [file for file in partial if time.time() - file.used_ns / 1e9 > STALE_S]
        for file in stale:
            file.path.unlink(missing_ok=True)
        files = sorted(self._files(ENDING), key=lambda file: (file.used_ns, file.path.name))
        total = sum(file.size for file in (*files, *partial)) - sum(file.size for file in stale)
        most = min(MOST_BYTES, int(MOST_SHARE * (shutil.disk_usage(self.folder).free + total)))
        if size > most:
            return False
        for file in files:
            if total + size <= most:
                break
            file.path.unlink(missing_ok=True)
            total -= file.size
        return total + size <= most

    def _files(self, ending: str) -> list[_File]:
        found = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name.endswith(ending):
                    with contextlib.suppress(FileNotFoundError):  # another process removed it
                        status = entry.stat(follow_symlinks=False)
                        found.append(_File(status.st_mtime_ns, status.st_size, Path(entry.path)))
        return found

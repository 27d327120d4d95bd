"""The folder of cached traces: names and bytes in, mapped files out, and never more of them than there is room for.

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
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Final

from gpuledger.system.atomic_files import PARTIAL, Abandoned, whole_file

ENDING: Final = ".trace"
MOST_BYTES: Final = 10_000_000_000
"""What all files may take together, or `MOST_SHARE` of the room that they could have, if that is less."""
MOST_SHARE: Final = 0.1
STALE_S: Final = 600.0
"""A file that is still partial, and that nobody has written to for so long, is what a killed process left."""


@dataclass(frozen=True, slots=True)
class TraceFolder:
    """One such folder. Methods raise OSError where the system refuses."""

    path: Path

    def mapped(self, name: str) -> mmap.mmap | None:
        """The file of this name, which counts as used now; None if there is none."""
        try:
            descriptor = os.open(self.path / (name + ENDING), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
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

    def write(self, name: str, size: int, pieces: Iterable[bytes | memoryview], given_up: Event) -> bool:
        """Write a file of `size` bytes, removing what has to go for it. False: it is too large, or was given up."""
        for folder in (self.path.parent, self.path):  # `parents` would make the first one for all to look into
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.path.stat().st_uid != os.geteuid():
            raise PermissionError(f"{self.path} belongs to another user")
        self.path.chmod(0o700)
        if not self._make_room(size):
            return False
        try:
            with whole_file(self.path / (name + ENDING), private=True) as file:
                for piece in pieces:
                    if given_up.is_set():
                        raise Abandoned
                    file.write(piece)
        except Abandoned:
            return False
        return True

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self.path / (name + ENDING)).unlink(missing_ok=True)

    def remove_others(self, prefix: str, kept: str) -> None:
        """Remove the files whose names begin with `prefix`, but not those that begin with `kept`."""
        for path in self.path.glob(f"{prefix}*{ENDING}"):
            if not path.name.startswith(kept):
                path.unlink(missing_ok=True)

    def _make_room(self, size: int) -> bool:
        """Remove what a killed process left, then what was not used for longest, until `size` more bytes fit."""
        partial = self._files(PARTIAL)
        for path, status in list(partial.items()):
            if time.time() - status.st_mtime > STALE_S:
                path.unlink(missing_ok=True)
                del partial[path]
        whole = self._files(ENDING)
        total = sum(status.st_size for status in (*whole.values(), *partial.values()))
        most = min(MOST_BYTES, int(MOST_SHARE * (shutil.disk_usage(self.path).free + total)))
        if size > most:
            return False
        for path, status in sorted(whole.items(), key=lambda file: (file[1].st_mtime_ns, file[0].name)):
            if total + size <= most:
                break
            path.unlink(missing_ok=True)
            total -= status.st_size
        return total + size <= most

    def _files(self, ending: str) -> dict[Path, os.stat_result]:
        files = {}
        for path in self.path.glob(f"*{ending}"):
            with contextlib.suppress(FileNotFoundError):  # another process removed it
                files[path] = path.lstat()
        return files

"""Says what is opened or read below a folder, by whoever and in whatever language: the kernel tells (inotify)."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_ACCESS, _OPEN, _IGNORED = 0x1, 0x20, 0x8000
_EVENT: Final = struct.Struct("iIII")


class WatchedOpens:
    """What was opened below a folder since this was made, or since it was last asked."""

    def __init__(self, descriptor: int, places: dict[int, Path]) -> None:
        self._descriptor, self._places = descriptor, places

    def paths(self) -> list[Path]:
        found = list[Path]()
        while True:
            try:
                told = os.read(self._descriptor, 1 << 16)
            except BlockingIOError:
                return found
            while told:
                watch, mask, _, length = _EVENT.unpack_from(told)
                name = told[_EVENT.size : _EVENT.size + length].rstrip(b"\0").decode()
                if not mask & _IGNORED:
                    found.append(self._places[watch] / name)
                told = told[_EVENT.size + length :]


@contextmanager
def watched_opens(folder: Path) -> Iterator[WatchedOpens]:
    """Watch the folders below this one; what is opened of them, listed or read is told."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        places = {}
        for place in (folder, *(path for path in folder.rglob("*") if path.is_dir() and not path.is_symlink())):
            places[libc.inotify_add_watch(descriptor, os.fsencode(place), _OPEN | _ACCESS)] = place
        assert -1 not in places
        yield WatchedOpens(descriptor, places)
    finally:
        os.close(descriptor)

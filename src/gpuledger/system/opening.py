"""Opens what belongs to profiles: a path in, an open file, a status or a list of names out. Nothing is written.

A path leads wherever its links lead, unless only some folders may be read (`only_below`): then anything below those may
be a link of a stranger's, or become one between two looks. So a path is walked from `/`: each part is opened within the
folder before it, never through a link, and the text of a link below an allowed folder is walked the same way. A path
that leaves the allowed folders is an OSError, and nothing outside is opened.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

_PASSED: Final = os.O_DIRECTORY | os.O_NOFOLLOW | getattr(os, "O_PATH", 0)  # on Linux it need not be readable
_MOST_PARTS: Final = 1_000  # with those of links, which may lead in circles

_Parts = tuple[str, ...]  # of a path

_allowed: tuple[_Parts, ...] | None = None


@contextlib.contextmanager
def only_below(folders: Sequence[Path]) -> Iterator[None]:
    """Meanwhile this process opens nothing but what lies below these folders, whose paths hold no link."""
    global _allowed
    before, _allowed = _allowed, tuple(folder.parts for folder in folders)
    try:
        yield
    finally:
        _allowed = before


def is_limited() -> bool:
    """Whether only some folders may be read."""
    return _allowed is not None


def open_file(path: Path) -> BinaryIO:
    """The bytes of a file."""
    return open(path, "rb", opener=_open)


def status_of(path: Path) -> os.stat_result:
    """The status of what lies at `path`."""
    with _walked(path) as (folder, name):
        return os.stat(name, dir_fd=folder, follow_symlinks=not is_limited())


def entries_of(folder: Path) -> dict[str, bool]:
    """The names in a folder, in no order, and whether each is a folder itself: no link to one."""
    handle = _open(folder, os.O_DIRECTORY)
    try:
        with os.scandir(handle) as entries:
            return {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
    finally:
        os.close(handle)


def walk(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """As `os.walk`: each folder, the folders in it, which can be left out, and its files, with all links."""
    if not is_limited():
        yield from os.walk(folder)
        return
    with contextlib.suppress(OSError):
        entries = entries_of(folder)
        folders = [name for name, is_folder in entries.items() if is_folder]
        yield str(folder), folders, [*entries.keys() - folders]
        for name in folders:
            yield from walk(folder / name)


def seen(path: Path) -> os.stat_result:
    """The status of what lies at `path`; all zero where nothing does, or may be seen."""
    try:
        return status_of(path)
    except (OSError, ValueError):  # the latter of what is no path
        return os.stat_result((0,) * 10)


def exists(path: Path) -> bool:
    """Whether anything is at a path."""
    return seen(path).st_mode != 0


def is_file(path: Path) -> bool:
    """Whether a regular file is at a path."""
    return stat.S_ISREG(seen(path).st_mode)


def is_dir(path: Path) -> bool:
    """Whether a folder is at a path."""
    return stat.S_ISDIR(seen(path).st_mode)


def copy_into(folder: Path, path: Path) -> Path:
    """A copy of a file in a folder of our own, for whoever takes only a path."""
    with open_file(path) as file, (folder / path.name).open("wb") as copy:
        shutil.copyfileobj(file, copy)
    return folder / path.name


def identity(file: BinaryIO) -> tuple[int, int]:
    """Which file an open one is, whatever its path leads to by now."""
    opened = os.fstat(file.fileno())
    return opened.st_dev, opened.st_ino


def times_open(file: tuple[int, int]) -> int:
    """How often this process has a file open: tells whether a library that takes only a path has opened this one."""
    with os.scandir("/dev/fd") as handles:  # its own is one of them
        there = [os.fstat(int(handle.name)) for handle in handles]
    return [(opened.st_dev, opened.st_ino) for opened in there].count(file)


def _open(path: str | Path, flags: int) -> int:
    flags |= os.O_NONBLOCK | (os.O_NOFOLLOW if is_limited() else 0)  # a pipe would be waited for
    with _walked(Path(path)) as (folder, name):
        return os.open(name, flags, dir_fd=folder)


@contextlib.contextmanager
def _walked(path: Path) -> Iterator[tuple[int | None, str]]:
    """The open folder that something lies in, and its name there: a link only if it has become one since."""
    if _allowed is None:
        yield None, str(path)
        return
    parts, at, folder = path.absolute().parts, 1, None
    with contextlib.ExitStack() as passed:
        for _ in range(_MOST_PARTS):
            here, rest = parts[:at], parts[at:]
            instead = _instead(here, folder, _allowed, is_last=not rest)
            if instead is not None:
                parts, at = (*instead, *rest), 1
            elif rest:
                folder, at = os.open(here[-1], _PASSED, dir_fd=folder), at + 1
                passed.callback(os.close, folder)
            else:
                yield folder, here[-1]
                return
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _instead(here: _Parts, folder: int | None, allowed: Sequence[_Parts], *, is_last: bool) -> _Parts | None:
    """Where a link or `..` leads; None of anything else. OSError where it is neither allowed nor on the way there."""
    if here[-1] == "..":
        return here[: max(len(here) - 2, 1)]
    if not any(here[: len(place)] == place for place in allowed):
        if is_last or not any(place[: len(here)] == here for place in allowed):
            raise OSError(errno.EXDEV, "it leads out of the folders that may be read")
        return None
    try:
        return Path(*here[:-1], os.readlink(here[-1], dir_fd=folder)).parts
    except OSError as error:
        if error.errno != errno.EINVAL:  # of what is no link
            raise
    return None

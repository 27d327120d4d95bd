"""Files that are kept for the next time: names and bytes in, mapped files out, never more than there is room for.

A file appears whole or not at all, under its name, and is never changed after: it is only mapped, or unlinked, which
leaves whoever has it mapped alone. So any number of processes may use the folder at once. It is for its owner's eyes,
as profiles are: 0700, its files 0600; a folder or file of another user is not used. `file_state` tells whether a file
is still what it was when something was kept of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import shutil
import stat
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Final

from msgspec import Struct

from gpuledger.errors import GpuledgerError
from gpuledger.system.files import PARTIAL, Abandoned, cache_folder, whole_file
from gpuledger.system.opening import is_file, open_file

SETTING: Final = "GPULEDGER_CACHE"
"""Of the environment: 0 keeps and uses nothing, `always` keeps even what is small or came in no time."""
_OFF: Final = ("0", "off", "no", "false")
_ALWAYS: Final = "always"
_USUAL: Final = ("", "1", "on", "yes", "true")
SMALL_BYTES: Final = 4_000_000
"""Of a smaller profile nothing is looked for or kept: it is read, and answered about, soon enough."""
WORTH_S: Final = 0.25
"""What took so long is worth keeping."""

MOST_BYTES: Final = 10_000_000_000
"""What all files may take together, or `MOST_SHARE` of the room that they could have, if that is less."""
MOST_SHARE: Final = 0.1
STALE_S: Final = 600.0
"""A file that is still partial, and that nobody has written to for so long, is what a killed process left."""

_DIGITS: Final = 16
_PAGE_BYTES: Final = 4 << 10
_END_BYTES, _PAGES = 64 << 10, 16
"""What is looked at of a file: its ends, and where its pages are cut out between them."""
_FEW_FILES: Final = 16
_END_OF_MANY_BYTES, _PAGES_OF_MANY = _PAGE_BYTES, 4
"""The same for each of many files, of which the next question is not to wait for more."""
_TICK_NS: Final = 50_000_000  # what a Linux file system's clock moves by is less
_COARSE_TICK_NS: Final = 2_000_000_000  # FAT counts in two seconds, other old ones in one


def keeps_everything() -> bool:
    """Whether everything is to be kept, however small it is and however soon it was there."""
    return _setting() == _ALWAYS


def keeps_nothing() -> bool:
    """Whether nothing is to be kept, nor used."""
    return _setting() in _OFF


def _setting() -> str:
    given = os.environ.get(SETTING, "").strip().lower()
    if given not in (*_OFF, _ALWAYS, *_USUAL):
        raise GpuledgerError(
            f"{SETTING}={os.environ[SETTING]}: no such setting of the cache",
            found=f"it may be {_OFF[0]} ({', '.join(_OFF[1:])}), {_USUAL[1]} ({', '.join(_USUAL[2:])}) or {_ALWAYS}",
            hint=f"`{SETTING}=0` keeps and uses nothing, `{SETTING}=always` keeps small profiles too; else unset it",
        )
    return given


def place_of(path: Path, member: str = "") -> str:
    """Stands for a profile, whatever is in it: its path, and its name in an archive."""
    return hashlib.sha256(os.fsencode(path.resolve()) + b"\0" + member.encode(errors="surrogatepass")).hexdigest()


def kept_name(place: str, state: object, *about: str) -> str:
    """What to call something that was made of a profile in one state; names of one state begin alike."""
    digest = hashlib.sha256(repr(state).encode()).hexdigest()
    return "-".join((place[:_DIGITS], digest[:_DIGITS], *about))


class KeptFiles(Struct, frozen=True):
    """A folder of such files, whose names have one ending. Methods raise OSError where the system refuses."""

    path: Path
    ending: str

    def mapped(self, name: str) -> mmap.mmap | None:
        """The file of this name, which counts as used now; None if there is none."""
        try:
            descriptor = os.open(self.path / (name + self.ending), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or not status.st_size:
                return None
            with contextlib.suppress(OSError):  # a folder that can only be read: the order of use is lost, no more
                os.utime(descriptor, ns=(now_ns(), status.st_mtime_ns))  # used now, kept since
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
            with whole_file(self.path / (name + self.ending), private=True) as file:
                for piece in pieces:
                    if given_up.is_set():
                        raise Abandoned
                    file.write(piece)
        except Abandoned:
            return False
        return True

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self.path / (name + self.ending)).unlink(missing_ok=True)

    def of_place(self, place: str) -> dict[Path, os.stat_result]:
        """The files that were made of what stands there."""
        return self._files(self.ending, f"{place[:_DIGITS]}-")

    def remove_other_states(self, name: str) -> None:
        """Remove what was made of the same place in another state than this file."""
        place, state, *_ = name.split("-")
        for path in self.of_place(place):
            if not path.name.startswith(f"{place}-{state}-"):
                path.unlink(missing_ok=True)

    def _make_room(self, size: int) -> bool:
        """Remove what a killed process left, then what was not used for longest, until `size` more bytes fit."""
        partial = self._files(PARTIAL)
        for path, status in list(partial.items()):
            if time.time() - status.st_mtime > STALE_S:
                path.unlink(missing_ok=True)
                del partial[path]
        whole = self._files(self.ending)
        total = sum(status.st_size for status in (*whole.values(), *partial.values()))
        most = min(MOST_BYTES, int(MOST_SHARE * (shutil.disk_usage(self.path).free + total)))
        if size > most:
            return False
        for path, status in sorted(whole.items(), key=lambda file: (file[1].st_atime_ns, file[0].name)):
            if total + size <= most:
                break
            path.unlink(missing_ok=True)
            total -= status.st_size
        return total + size <= most

    def _files(self, ending: str, beginning: str = "") -> dict[Path, os.stat_result]:
        files = {}
        for path in self.path.glob(f"{beginning}*{ending}"):
            with contextlib.suppress(FileNotFoundError):  # another process removed it
                files[path] = path.lstat()
        return files


def readings() -> KeptFiles:
    """Profiles as they were read."""
    return KeptFiles(cache_folder() / "traces", ".trace")


def answers() -> KeptFiles:
    """Answers as they were written."""
    return KeptFiles(cache_folder() / "answers", ".answer")


class KeptOfProfile(Struct, frozen=True):
    """What is kept of one profile, but for answers of `info`, which says this."""

    folder: str
    readings: int
    reading_bytes: int
    answers: int
    answer_bytes: int
    verbs: tuple[str, ...]
    """That were answered, each once."""
    since_utc: str | None
    """When the oldest of it was kept; null: nothing is."""


def kept_of(place: str) -> KeptOfProfile:
    """What is kept of the profile that `place_of` stands for. Nothing where the folder cannot be looked into."""
    read, answered = readings().of_place(place), answers().of_place(place)
    verb_of = {path: path.name.split("-")[2].replace("_", "-") for path in answered}
    told = {path: status for path, status in answered.items() if verb_of[path] != "info"}
    times_ns = [status.st_mtime_ns for status in (*read.values(), *told.values())]
    return KeptOfProfile(
        folder=str(cache_folder()),
        readings=len(read),
        reading_bytes=sum(status.st_size for status in read.values()),
        answers=len(told),
        answer_bytes=sum(status.st_size for status in told.values()),
        verbs=tuple(sorted({verb_of[path] for path in told})),
        since_utc=datetime.fromtimestamp(min(times_ns) // 1_000_000_000, UTC).isoformat() if times_ns else None,
    )


class FileState(Struct, frozen=True):
    """One state of one file, or of several."""

    digest: str
    size_bytes: int
    changed_ns: int
    """When any of it last changed, on the system's clock."""

    def was_settled(self, looked_ns: int) -> bool:
        """Whether a change after `looked_ns` must show in the file's times: they had moved on since the last one."""
        is_coarse = self.changed_ns % 1_000_000_000 == 0
        return looked_ns - self.changed_ns > (_COARSE_TICK_NS if is_coarse else _TICK_NS)


def file_state(paths: Iterable[Path]) -> FileState | None:
    """What these files are now: their names, sizes, times, and a sample of their bytes; None where one is no file."""
    digest, size, changed_ns = hashlib.sha256(), 0, 0
    files = list(paths)
    few = len(files) <= _FEW_FILES
    end_bytes, pages = (_END_BYTES, _PAGES) if few else (_END_OF_MANY_BYTES, _PAGES_OF_MANY)
    for path in files:
        if not is_file(path):  # a pipe would be waited for
            return None
        with open_file(path) as stream:
            status = os.fstat(stream.fileno())
            about = (os.fsencode(path.name), status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            digest.update(repr(about).encode())
            # the first and last bytes of the file, and pages at equal distances between them
            digest.update(stream.read(end_bytes))
            for page in range(1, pages):
                stream.seek(status.st_size * page // pages)
                digest.update(stream.read(_PAGE_BYTES))
            stream.seek(max(status.st_size - end_bytes, 0))
            digest.update(stream.read(end_bytes))
        size += status.st_size
        changed_ns = max(changed_ns, status.st_mtime_ns, status.st_ctime_ns)
    return FileState(digest.hexdigest(), size, changed_ns)


def now_ns() -> int:
    """The clock that files' times are read from."""
    return time.time_ns()

"""The profiles that an agent has opened: a path in, a handle out, and later the books behind a handle.

A path is opened only if it lies below the folders that the user named, wherever links lead. A handle is one profile,
cut into steps in one way. A few are kept in memory; one that was pushed out is read again when it is asked for, so that
a handle is good for as long as the server runs and the file stays as it is.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from gpuledger.errors import GpuledgerError, UnreadableProfile
from gpuledger.findings.profiled_run import ProfiledRun, diagnose
from gpuledger.ledger.device import Device
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.read import SAMPLES, open_trace
from gpuledger.read.registry import reader_of
from gpuledger.read.request import Progress
from gpuledger.read.source import look_at, state
from gpuledger.read.torch.reader import TorchReader, says_it_is_a_trace
from gpuledger.records import dataclass, replace
from gpuledger.selection import Selection
from gpuledger.system.files import SEPARATOR
from gpuledger.trace.model import Trace

_MOST_ENTRIES: Final = 5_000
"""So many entries of folders are looked at for profiles; an agent that looks for more should be told where."""

_OTHERS: Final = ("node_modules", "site-packages")
"""Folders of packages: thousands of files, and none that somebody recorded."""


class AllowedFolders:
    """The folders that were named when the server was started. Relative paths are looked for in each, in order."""

    def __init__(self, given: Sequence[Path]) -> None:
        self.folders: Final = tuple(folder.resolve(strict=True) for folder in given)

    def address(self, given: str) -> str:
        """What `open_trace` takes for a path that an agent gives; refused where it leads out of the folders."""
        whole = self._inside(given)
        if whole is not None and whole.exists():
            return str(self._with_its_files(whole, given))
        outer, separator, member = given.partition(SEPARATOR)
        path = self._inside(outer)
        if path is None:
            raise self._outside(given)
        return f"{self._with_its_files(path, given)}{separator}{member}"

    def profiles(self) -> Iterator[tuple[Path, Path]]:
        """What looks like a profile below the folders, by its first bytes: the folder, and the path from there."""
        left = _MOST_ENTRIES
        for folder in self.folders:
            for place, names, files in os.walk(folder):
                names[:] = sorted(name for name in names if not name.startswith(".") and name not in _OTHERS)
                for name in sorted([*names, *files])[:left]:
                    left -= 1
                    path = Path(place, name)
                    if self._is_profile(path):
                        if name in names:
                            names.remove(name)
                        yield folder, path.relative_to(folder)
                if left <= 0:
                    return

    def _is_profile(self, path: Path) -> bool:
        try:
            self._with_its_files(path.resolve(), path.name)
            source = look_at(path)
            reader = reader_of(source)
            return reader is not None and (
                not isinstance(reader, TorchReader) or says_it_is_a_trace(source, DEFAULT_LIMITS)
            )
        except (GpuledgerError, OSError, RuntimeError):
            return False  # whatever is wrong with it is said when somebody opens it

    def _inside(self, given: str) -> Path | None:
        """Where a path leads, if that is below one of the folders: the first that exists, else the first."""
        inside = []
        for folder in self.folders:
            try:
                path = (folder / given).resolve()
                if self._holds(path):
                    inside.append(path)
                    if path.exists():
                        return path
            except (OSError, RuntimeError, ValueError) as error:  # links in a circle, a name that cannot be one
                raise UnreadableProfile(f"{given}: is no path: {error}") from None
        return inside[0] if inside else None

    def _holds(self, path: Path) -> bool:
        return any(path.is_relative_to(folder) for folder in self.folders)

    def _with_its_files(self, path: Path, given: str) -> Path:
        """The same path, if the files of a folder, which a reader would follow, do not lead out either."""
        try:
            entries = (path, *path.iterdir()) if path.is_dir() else (path,)
            inside = all(self._holds(entry.resolve()) for entry in entries)
        except (OSError, RuntimeError) as error:
            raise UnreadableProfile(f"{given}: cannot be opened: {error}") from None
        if not inside:
            raise self._outside(given)
        return path

    def _outside(self, given: str) -> UnreadableProfile:
        allowed = ", ".join(map(str, self.folders))
        return UnreadableProfile(
            f"{given}: is outside of the folders that this server may read",
            found=f"it may read {allowed}",
            hint="whoever runs the server names more of them: `gpuledger mcp FOLDER...`",
        )


Kept = TypeVar("Kept")


class RecentlyUsed(Generic[Kept]):
    """Things by name, at most so many and so large together. The last one stays however large it is."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._kept: OrderedDict[str, tuple[Kept, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def held_bytes(self) -> int:
        return sum(size for _, size in self._kept.values())

    def get(self, name: str) -> Kept | None:
        """The thing of that name, which is then the last used; None where it is not, or no longer, there."""
        if name not in self._kept:
            return None
        self._kept.move_to_end(name)
        return self._kept[name][0]

    def put(self, name: str, thing: Kept, size: int) -> None:
        self._kept.pop(name, None)
        self._kept[name] = thing, size
        while len(self._kept) > 1 and (len(self._kept) > self._most or self.held_bytes > self._most_bytes):
            self._kept.popitem(last=False)


MOST_OPEN: Final = 4
MOST_BYTES: Final = 8 << 30  # of the columns of all traces that are kept

FileState = list[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class OpenedProfile:
    """One profile and all that is said of it, behind a handle."""

    handle: str
    address: str
    wanted: Selection
    run: ProfiledRun

    def device(self, gpu: int | None) -> Device:
        """One GPU by its number; the one to look at first where none is given."""
        if gpu is None:
            return self.run.main_device
        for device in self.run.devices:
            if device.gpu == gpu:
                return device
        there = ", ".join(str(device.gpu) for device in self.run.devices)
        raise GpuledgerError(f"{self.run.name}: no GPU {gpu} in this profile", found=f"there are {there}")


@dataclass(frozen=True, slots=True)
class _Ticket:
    """What a handle stands for."""

    address: str
    wanted: Selection
    state: FileState


class AgentProfiles:
    """All profiles of one server. One call at a time uses it."""

    def __init__(self, folders: AllowedFolders, limits: Limits, *, most_open: int = MOST_OPEN) -> None:
        self.folders: Final = folders
        self.limits: Final = limits
        self._most_open: Final = most_open
        self._tickets: dict[str, _Ticket] = {}
        self._open: RecentlyUsed[OpenedProfile] = RecentlyUsed(most_open, MOST_BYTES)
        self._tell: Progress = lambda *_: None

    def __reduce__(self) -> tuple[Any, ...]:
        """For another process: its handles, none of which is open there yet."""
        return _with_handles, (self.folders, self.limits, self._most_open, self._tickets)

    @contextmanager
    def telling(self, tell: Progress) -> Iterator[None]:
        """Whoever waits is told meanwhile what is read, and how many rows of it so far."""
        before, self._tell = self._tell, tell
        try:
            yield
        finally:
            self._tell = before

    def opened(self, given: str, wanted: Selection) -> OpenedProfile:
        """The profile at a path that an agent gives; the handle it has already, if the file is as it was."""
        address = self.folders.address(given)
        ticket = _Ticket(address, wanted, _state(address))
        for handle, known in self._tickets.items():
            if known == ticket:
                return self.of(handle)
        handle = f"p{len(self._tickets) + 1}"
        opened = self._read(handle, ticket)
        self._tickets[handle] = ticket
        return opened

    def of(self, handle: str) -> OpenedProfile:
        ticket = self._tickets.get(handle)
        if ticket is None:
            there = ", ".join(self._tickets) or "none yet"
            raise GpuledgerError(f"no handle {handle!r}", found=f"there are {there}", hint="open_profile gives one")
        opened = self._open.get(handle)
        if opened is not None:
            return opened
        if _state(ticket.address) != ticket.state:
            name = Path(ticket.address).name
            raise UnreadableProfile(f"{name}: was changed since {handle} was opened", hint="open it again")
        return self._read(handle, ticket)

    def _read(self, handle: str, ticket: _Ticket) -> OpenedProfile:
        trace = self._trace(ticket) or open_trace(
            ticket.address, where_sampled=SAMPLES, limits=self.limits, progress=self._tell
        )
        run = diagnose(trace, Path(ticket.address).name, ticket.wanted, stage=lambda stage: self._tell(stage, 0))
        opened = OpenedProfile(handle, ticket.address, ticket.wanted, run)
        self._open.put(handle, opened, _size(trace))
        return opened

    def _trace(self, ticket: _Ticket) -> Trace | None:
        """The trace of another handle of the same file, where that is open."""
        for handle, known in self._tickets.items():
            if known == replace(ticket, wanted=known.wanted) and (opened := self._open.get(handle)) is not None:
                return opened.run.trace
        return None


def _with_handles(
    folders: AllowedFolders, limits: Limits, most_open: int, tickets: dict[str, _Ticket]
) -> AgentProfiles:
    profiles = AgentProfiles(folders, limits, most_open=most_open)
    profiles._tickets = tickets
    return profiles


def _state(address: str) -> FileState:
    path = Path(address)
    return state(look_at(path if path.exists() else Path(address.partition(SEPARATOR)[0])))


def _size(trace: Trace) -> int:
    """What the columns of a trace take; a trace that two handles share is counted for each."""
    columns = (
        rows[column.name] for rows in trace.tables.values() for column in rows.schema.columns if column.name in rows
    )
    return sum(values.nbytes for values in columns)

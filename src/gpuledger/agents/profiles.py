"""The profiles that an agent has opened: a path in, a handle out, and later the books behind a handle.

A path is opened only if it lies below the folders that the user named, wherever links lead (see `system.opening`,
which each call is limited by: what is said of a path here is for the sentence). A handle is one profile,
cut into steps in one way. A few are kept in memory; one that was pushed out is read again when it is asked for, so that
a handle is good for as long as the server runs and the file stays as it is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.errors import GpuledgerError, UnreadableProfile
from gpuledger.findings.profiled_run import ProfiledRun, diagnose
from gpuledger.ledger.device import Device
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.read import SAMPLES, open_trace
from gpuledger.read.registry import reader_of
from gpuledger.read.request import Progress
from gpuledger.read.source import Source, look_at, state
from gpuledger.read.torch.reader import TorchReader, says_it_is_a_trace
from gpuledger.selection import Selection
from gpuledger.system.files import SEPARATOR
from gpuledger.system.opening import exists, only_below, walk
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
        for text in (given, given.partition(SEPARATOR)[0]):  # the name of a file may hold the separator
            try:
                paths = [(folder / text).resolve() for folder in self.folders]
            except (OSError, RuntimeError, ValueError) as error:  # links in a circle, a name that cannot be one
                raise UnreadableProfile(f"{given}: is no path: {error}") from None
            inside = [path for path in paths if any(path.is_relative_to(folder) for folder in self.folders)]
            if there := next(filter(exists, inside), None):
                return f"{there}{given.removeprefix(text)}"
        if not inside:
            raise UnreadableProfile(
                f"{given}: is outside of the folders that this server may read",
                found=f"it may read {', '.join(map(str, self.folders))}",
                hint="whoever runs the server names more of them: `gpuledger mcp FOLDER...`",
            )
        return f"{inside[0]}{given.removeprefix(text)}"

    def profiles(self) -> Iterator[tuple[Path, Path, int]]:
        """What looks like a profile, by its first bytes: the folder, the path from there, the size."""
        left = _MOST_ENTRIES
        for folder in self.folders:
            for place, names, files in walk(folder):
                names[:] = sorted(name for name in names if not name.startswith(".") and name not in _OTHERS)
                for name in sorted([*names, *files])[:left]:
                    left -= 1
                    path = Path(place, name)
                    if (source := self._profile(path)) is not None:
                        if name in names:
                            names.remove(name)
                        yield folder, path.relative_to(folder), source.size
                if left <= 0:
                    return

    def _profile(self, path: Path) -> Source | None:
        try:
            source = look_at(path)
            reader = reader_of(source)
            is_one = not isinstance(reader, TorchReader) or says_it_is_a_trace(source, DEFAULT_LIMITS)
        except (GpuledgerError, OSError):
            return None  # opening it reports the error
        return source if reader is not None and is_one else None


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


class OpenedProfile(Struct, frozen=True):
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


class _Ticket(Struct, frozen=True):
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
    def one_call(self, tell: Progress) -> Iterator[None]:
        """Restrict reading to the allowed folders and report progress to `tell`, for one call."""
        before, self._tell = self._tell, tell
        try:
            with only_below(self.folders.folders):
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
    return state(look_at(path if exists(path) else Path(address.partition(SEPARATOR)[0])))


def _size(trace: Trace) -> int:
    """What the columns of a trace take; a trace that two handles share is counted for each."""
    columns = (
        rows[column.name] for rows in trace.tables.values() for column in rows.schema.columns if column.name in rows
    )
    return sum(values.nbytes for values in columns)

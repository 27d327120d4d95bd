"""The profiles that an agent has opened: a path in, a handle out, and later the books behind a handle.

A handle is one profile, cut into steps in one way. A few are kept in memory; one that was pushed out is read again when
it is asked for, so that a handle is good for as long as the server runs and the file stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gpuledger.agents.folders import AllowedFolders
from gpuledger.agents.recently_used import RecentlyUsed
from gpuledger.errors import GpuledgerError, UnreadableProfile
from gpuledger.findings.profiled_run import ProfiledRun, diagnosed
from gpuledger.ledger.device import Device
from gpuledger.ledger.steps import Wanted
from gpuledger.limits import Limits
from gpuledger.read import SAMPLES, open_trace
from gpuledger.read.request import Progress
from gpuledger.read.source import SEPARATOR, look_at, state
from gpuledger.trace.model import Trace

MOST_OPEN: Final = 4
MOST_BYTES: Final = 8 << 30
"""Of the columns of all traces that are kept."""

FileState = list[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class OpenedProfile:
    """One profile and all that is said of it, behind a handle."""

    handle: str
    address: str
    wanted: Wanted
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
    wanted: Wanted
    state: FileState


class AgentProfiles:
    """All profiles of one server. One call at a time uses it."""

    def __init__(self, folders: AllowedFolders, limits: Limits, *, most_open: int = MOST_OPEN) -> None:
        self.folders: Final = folders
        self.limits: Final = limits
        self._tickets: dict[str, _Ticket] = {}
        self._open: RecentlyUsed[OpenedProfile] = RecentlyUsed(most_open, MOST_BYTES)
        self._tell: Progress = _tell_nobody

    @contextmanager
    def telling(self, tell: Progress) -> Iterator[None]:
        """Whoever waits is told meanwhile what is read, and how many rows of it so far."""
        before, self._tell = self._tell, tell
        try:
            yield
        finally:
            self._tell = before

    def opened(self, given: str, wanted: Wanted) -> OpenedProfile:
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
        """What is behind a handle."""
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
        run = diagnosed(trace, Path(ticket.address).name, ticket.wanted, stage=lambda stage: self._tell(stage, 0))
        opened = OpenedProfile(handle, ticket.address, ticket.wanted, run)
        self._open.put(handle, opened, _size(trace))
        return opened

    def _trace(self, ticket: _Ticket) -> Trace | None:
        """The trace of another handle of the same file, where that is open."""
        for handle, known in self._tickets.items():
            if known == replace(ticket, wanted=known.wanted) and (opened := self._open.get(handle)) is not None:
                return opened.run.trace
        return None


def _tell_nobody(what: str, rows: int) -> None:
    """Nobody waits."""


def _state(address: str) -> FileState:
    path = Path(address)
    return state(look_at(path if path.exists() else Path(address.partition(SEPARATOR)[0])))


def _size(trace: Trace) -> int:
    """What the columns of a trace take; a trace that two handles share is counted for each."""
    columns = (
        rows[column.name] for rows in trace.tables.values() for column in rows.schema.columns if column.name in rows
    )
    return sum(values.nbytes for values in columns)

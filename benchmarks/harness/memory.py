"""How much memory a command uses: the number of a session in, bytes of all its processes out.

A page that several processes share is counted once, each process taking its part (the kernel's "proportional set
size"). `resident` is everything in memory, mapped files included. `own` leaves files out: anonymous memory and shared
memory, which is what a command needs beyond the bytes of its input.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
_FIELD: Final = re.compile(r"^(Pss|Pss_Anon|Pss_Shmem|Anonymous): +(\d+) kB$", re.MULTILINE)
_MOST: Final = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)
_GONE: Final = (FileNotFoundError, ProcessLookupError, PermissionError)
"""What reading about a process raises when it ends meanwhile, or is ending."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of a group of processes at one moment, or the largest of several moments."""

    resident_bytes: int = 0
    own_bytes: int = 0

    def largest(self, other: Memory) -> Memory:
        return Memory(max(self.resident_bytes, other.resident_bytes), max(self.own_bytes, other.own_bytes))


def can_be_read(proc: Path = PROC) -> bool:
    """Whether this system tells; macOS, for one, does not."""
    return (proc / "self" / "smaps_rollup").exists()


def of_session(leader: int, proc: Path = PROC) -> Memory:
    """What the processes of a session use now. Children that outlive their parent still belong to it.

    A look may miss the moment of the peak. Of one process the system knows what it had at most, files included, so
    the answer is never less than that.
    """
    each = of_each((leader,), proc)
    most = max((_most_so_far(proc / str(pid)) for pid in each), default=0)
    resident = sum(memory.resident_bytes for memory in each.values())
    return Memory(max(resident, most), sum(memory.own_bytes for memory in each.values()))


def of_each(leaders: Collection[int], proc: Path = PROC) -> dict[int, Memory]:
    """What each process of some sessions uses now, by its number."""
    pids = [int(name) for name in os.listdir(proc) if name.isdecimal()]
    return {pid: _of_process(proc / str(pid)) for pid in pids if _session(proc / str(pid)) in leaders}


def available_share(proc: Path = PROC) -> float:
    """The part of the machine's memory that is free or can be freed; 1 where the system does not tell."""
    try:
        text = (proc / "meminfo").read_text()
    except FileNotFoundError:
        return 1.0
    kilobytes = {key: int(value) for key, value in re.findall(r"^(\w+): +(\d+) kB$", text, re.MULTILINE)}
    return kilobytes["MemAvailable"] / kilobytes["MemTotal"]


def total_bytes(proc: Path = PROC) -> int | None:
    """The machine's memory."""
    try:
        found = re.search(r"^MemTotal: +(\d+) kB$", (proc / "meminfo").read_text(), re.MULTILINE)
    except FileNotFoundError:
        return None
    return int(found[1]) * 1024 if found else None


def _session(process: Path) -> int | None:
    try:
        stat = (process / "stat").read_text(errors="replace")
    except _GONE:
        return None
    return int(stat.rpartition(")")[2].split()[3])  # the name before it may hold spaces and brackets


def _most_so_far(process: Path) -> int:
    try:
        text = (process / "status").read_text(errors="replace")
    except _GONE:
        return 0
    found = _MOST.search(text)
    return int(found[1]) * 1024 if found else 0


def _of_process(process: Path) -> Memory:
    try:
        text = (process / "smaps_rollup").read_text()
    except _GONE:
        return Memory()
    field = {name: int(value) * 1024 for name, value in _FIELD.findall(text)}
    # kernels before 5.9 do not split the proportional size
    own = field.get("Pss_Anon", field.get("Anonymous", 0)) + field.get("Pss_Shmem", 0)
    return Memory(field.get("Pss", 0), own)

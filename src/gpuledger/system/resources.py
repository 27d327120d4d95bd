"""What this process may use of the machine, and what a command sets for its own process. Light: `--help` imports it.

Linux tells cores and memory, inside the limits that a container or a job sets, in /proc and in the files of control
groups; where there are none, what the machine has is all that is known, and the memory of another process is not.

`keep_freed_memory` keeps freed memory for the next array. An analysis makes and drops columns by the hundred; the C
library gives each large one back to the system, which clears its pages again for the next: on a large profile that
takes as long as the work on them. Only columns of millions of rows are given back: kept, they would lie beside new ones
of another length, and memory would grow. A library must not decide this for its process: only the command's `main`
asks for it. `patient_writer` waits where a pipe that is set not to block is full; Python's own streams drop the rest.
"""

from __future__ import annotations

import ctypes
import io
import os
import select
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_PROC: Final = Path("/proc")
_GROUPS: Final = Path("/sys/fs/cgroup")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def usable_cores(proc: Path = _PROC, groups: Path = _GROUPS) -> int:
    """How many cores this process may keep busy."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for folder in _own_groups("cpu", proc, groups):
        quota, period = [*_text(folder / "cpu.max").split(), "", ""][:2]
        quota = quota or _text(folder / "cpu.cfs_quota_us")
        period = period or _text(folder / "cpu.cfs_period_us")
        if quota.isdecimal() and period.isdecimal() and int(period):
            cores = min(cores, int(quota) // int(period))
    return max(cores, 1)


def free_memory_bytes(proc: Path = _PROC, groups: Path = _GROUPS) -> int:
    """Memory that is free now, at most what this process is allowed."""
    meminfo = dict(line.split(":", 1) for line in _text(proc / "meminfo").splitlines() if ":" in line)
    if "MemAvailable" in meminfo:
        free = int(meminfo["MemAvailable"].split()[0]) * 1024
    else:
        free = os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES
    for folder in _own_groups("memory", proc, groups):
        limits = (_text(folder / name) for name in ("memory.max", "memory.limit_in_bytes"))
        free = min([free, *(int(limit) for limit in limits if limit.isdecimal())])
    return free


def resident_bytes(pid: int, proc: Path = _PROC) -> int | None:
    """The memory that a process holds; None where that cannot be known, or where it has ended."""
    pages = _text(proc / str(pid) / "statm").split()
    return int(pages[1]) * _PAGE_BYTES if len(pages) > 1 else None


def _own_groups(controller: str, proc: Path, groups: Path) -> Iterator[Path]:
    """The folders of the control groups that this process is in, the innermost first: each may set a limit.

    Version 2 has one tree for all controllers (`0::/job`), version 1 one for each (`4:memory:/job`). Inside a
    container the name may be one of the host's, which is not there; the root is then the container's own group.
    """
    for line in _text(proc / "self" / "cgroup").splitlines():
        _, controllers, name = [*line.split(":", 2), "", ""][:3]
        if not controllers:
            root = groups
        elif controller in controllers.split(","):
            root = groups / controller
        else:
            continue
        inside = PurePosixPath(name.lstrip("/"))
        yield from (root / folder for folder in (inside, *inside.parents) if folder != PurePosixPath())
        yield root


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:  # not this system, not this version, or a process that has ended
        return ""


def bound_address_space(more_bytes: int) -> None:
    """From now on this process gets no more than so many bytes of address space, beside those it has."""
    statm = _text(_PROC / "self" / "statm").split()
    if not statm:  # not Linux
        return
    taken = int(statm[0]) * _PAGE_BYTES
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    known = [bound for bound in (soft, hard) if bound != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([taken + more_bytes, *known]), hard))


_TRIM_THRESHOLD: Final = -1  # the numbers of glibc's malloc.h
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
_NEVER: Final = 2**31 - 1
_GIVEN_BACK_BYTES: Final = 16 << 20


def keep_freed_memory() -> None:
    """Ask glibc to. Other C libraries have no such setting, and go on as they do."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_ARENA_MAX, 1)  # what one thread freed is there for the others
        set_option(_MMAP_THRESHOLD, _GIVEN_BACK_BYTES)
        set_option(_TRIM_THRESHOLD, _NEVER)


class _PatientFile(io.FileIO):
    """Takes at least some of what it is given."""

    def write(self, content: ReadableBuffer, /) -> int:
        while True:
            taken: int | None = super().write(content)  # None: it is full, and would not block
            if taken is not None:
                return taken
            room = select.poll()
            room.register(self, select.POLLOUT)
            room.poll()


def patient_writer(number: int) -> io.BufferedWriter:
    """Writes to the open file of this number, and leaves it open at its end."""
    return io.BufferedWriter(_PatientFile(number, "w", closefd=False))

"""What this process may use of the machine now: cores and memory, inside the limits that a container or a job sets.

Linux tells in /proc and in the files of control groups; where there are none, what the machine has is all that is
known, and the memory of another process is not.

A bound on what this process may take besides what it has, for as long as something runs that nobody can bound.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Final

_PROC: Final = Path("/proc")
_GROUPS: Final = Path("/sys/fs/cgroup")


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
    free = _available_bytes(proc)
    for folder in _own_groups("memory", proc, groups):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = _text(folder / name)
            if limit.isdecimal():
                free = min(free, int(limit))
    return free


def resident_bytes(pid: int, proc: Path = _PROC) -> int | None:
    """The memory that a process holds; None where that cannot be known, or where it has ended."""
    pages = _text(proc / str(pid) / "statm").split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if len(pages) > 1 else None


def _available_bytes(proc: Path) -> int:
    for line in _text(proc / "meminfo").splitlines():
        name, _, amount = line.partition(":")
        if name == "MemAvailable":
            return int(amount.split()[0]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


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


_STATM = Path("/proc/self/statm")


@contextmanager
def at_most(more_bytes: int) -> Iterator[None]:
    """What is done meanwhile, by all threads together, gets no more than so many bytes of address space."""
    taken = _taken_bytes()
    if taken is None:
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    known = [bound for bound in (soft, hard) if bound != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([taken + more_bytes, *known]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _taken_bytes() -> int | None:
    """The address space of this process; None where that is not known."""
    try:
        return int(_STATM.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # not Linux
        return None

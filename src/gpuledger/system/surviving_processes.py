"""Processes that outlive the program that started them: a mark in, their ids out.

A launcher of ranks puts its workers into sessions of their own, where a signal to the process group does not reach
them. So a capture sets a variable in the environment of what it starts; children inherit it, and Linux shows it in
/proc. Where there is no /proc, only the process group is known.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Final

MARK: Final = "GPULEDGER_CAPTURE"
"""The variable that everything carries which a capture started."""

_LOOK_EVERY_S: Final = 0.02


def marked(mark: str, proc: Path = Path("/proc")) -> tuple[int, ...]:
    """The processes whose environment carries this mark, but for ourselves."""
    wanted = f"{MARK}={mark}".encode()
    return tuple(pid for pid in _others(proc) if wanted in _file(proc, pid, "environ").split(b"\0"))


def members(group: int, proc: Path = Path("/proc")) -> tuple[int, ...]:
    """The processes of a group that still run: one that has ended stays in it until its parent asks, if ever."""
    found = []
    for pid in _others(proc):
        words = _file(proc, pid, "stat").rpartition(b")")[2].split()  # behind the name: state, parent, group
        if len(words) > 2 and int(words[2]) == group and words[0] not in (b"Z", b"X"):
            found.append(pid)
    return tuple(found)


def _others(proc: Path) -> list[int]:
    pids = [int(name) for name in os.listdir(proc) if name.isdecimal()] if proc.is_dir() else []
    return [pid for pid in pids if pid != os.getpid()]


def _file(proc: Path, pid: int, name: str) -> bytes:
    try:
        return (proc / str(pid) / name).read_bytes()
    except OSError:  # it ended meanwhile, or belongs to somebody else
        return b""


def send(group: int, mark: str, which: signal.Signals) -> None:
    """Send a signal to a process group, and to what carries the mark outside of it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, which)
    for pid in marked(mark):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(pid) != group:
                os.kill(pid, which)


def ended(group: int, mark: str, *, patience_s: float) -> bool:
    """End whatever is left: asked first, then killed. Whether anything had to be."""
    if not _left(group, mark):
        return False
    for which in (signal.SIGTERM, signal.SIGKILL):
        send(group, mark, which)
        until = time.monotonic() + patience_s
        while _left(group, mark) and time.monotonic() < until:
            time.sleep(_LOOK_EVERY_S)
    return True


def _left(group: int, mark: str) -> bool:
    if Path("/proc").is_dir():
        return bool(members(group) or marked(mark))
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True

"""What other users of a machine could reach of our processes, by what Linux says in /proc."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

_LISTENS = "0A"
_ACCEPTS = 0x10000

PROBE = """
import os, sys
for pid in sys.argv[2].split(","):
    for name in ("environ", "maps", "mem", "fd/1"):
        try:
            with open(f"/proc/{pid}/{name}", "rb") as file:
                if name == "fd/1" or file.read(1):  # of a process that ends one may open what holds nothing
                    print("opened", pid, name)
        except OSError:
            pass
for place, folders, files in os.walk(sys.argv[1]):
    for name in (*folders, *files):
        path = os.path.join(place, name)
        if any(os.access(path, mode) for mode in (os.R_OK, os.W_OK)):
            print("may use", path)
print("looked")
"""
"""Prints what whoever runs it can reach below a folder and of processes."""


def family(pid: int) -> set[int]:
    """A process and all that it started, directly or not."""
    ours, new = set[int](), {pid}
    while new:
        ours |= new
        new = {child for parent in new for child in _children(parent)} - ours
    return ours


def _children(pid: int) -> list[int]:
    lines = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it has ended
            lines.append(task.read_text())
    return [int(word) for word in " ".join(lines).split()]


def listening(pids: set[int]) -> set[str]:
    """Sockets of these processes that take connections: over TCP, or at a place that has a name."""
    open_files = {place for pid in pids for place in _open_files(pid)}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == _LISTENS and f"socket:[{words[9]}]" in open_files:
                found.add(f"{table} {words[1]}")
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        words = line.split()
        if int(words[3], 16) & _ACCEPTS and f"socket:[{words[6]}]" in open_files:
            found.add(f"unix {' '.join(words[7:])}")
    return found


def _open_files(pid: int) -> Iterator[str]:
    with contextlib.suppress(OSError):  # it has ended
        for handle in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                yield str(Path(f"/proc/{pid}/fd/{handle}").readlink())


class Watched:
    """Looks at our processes until it is left: how many there were at once, and which sockets took connections."""

    def __init__(self, look: Callable[[set[int]], None] = lambda _: None) -> None:
        """`look` is handed our processes, each time."""
        self._other = look
        self.most = 0
        self.sockets: set[str] = set()
        self._before = family(os.getpid())
        self._over = Event()
        self._thread = Thread(target=self._look)

    def _look(self) -> None:
        while not self._over.wait(0.05):
            ours = {os.getpid(), *(family(os.getpid()) - self._before)}
            self.most = max(self.most, len(ours))
            self.sockets |= listening(ours)
            self._other(ours)

    def __enter__(self) -> Watched:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

"""Memory snapshots to test with: what torch's allocator would write of a few calls, and those that are in captures/."""

from __future__ import annotations

import pickle
import tarfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from support.command import ROOT

CAPTURED = ROOT / "captures" / "torch" / "memory.tar.xz"
BLOCK = 512
MIB = 1 << 20


@cache
def captured() -> dict[str, bytes]:
    """The snapshots that were made on a GPU, and what torch said of each, by name."""
    with tarfile.open(CAPTURED) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}  # type: ignore[union-attr]


def frames(*texts: str) -> list[dict[str, Any]]:
    """`f (a.py:1)`, the innermost first, as torch writes frames."""
    made = []
    for text in texts:
        name, _, place = text.partition(" (")
        file, _, line = place.rstrip(")").rpartition(":")
        made.append({"name": name, "filename": f"/home/user/{file}", "line": int(line)})
    return made


class Program:
    """Calls of an allocator with a segment for each block: the events, and what is there in the end."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.marks: list[dict[str, Any]] = []
        self.held: dict[int, tuple[int, list[dict[str, Any]]]] = {}
        self.segments: dict[int, int] = {}
        self.now_us = 1_700_000_000_000_000
        self._next = 1 << 32

    def _event(self, action: str, address: int, size: int, stack: list[dict[str, Any]]) -> None:
        self.now_us += 10
        event = {"action": action, "addr": address, "size": size, "stream": 0, "time_us": self.now_us, "frames": stack}
        self.events.append(event)

    def alloc(self, size: int, *stack: str) -> int:
        """Allocate in a segment of its own; its address."""
        address, rounded = self._next, max(-(-size // BLOCK) * BLOCK, BLOCK)
        self._next += rounded + (2 << 20)
        self._event("segment_alloc", address, rounded, frames(*stack))
        self._event("alloc", address, size, frames(*stack))
        self.segments[address] = rounded
        self.held[address] = (rounded, frames(*stack))
        return address

    def free(self, address: int, *, gives_back: bool = False) -> None:
        size, _ = self.held.pop(address)
        self._event("free_requested", address, size, [])
        self._event("free_completed", address, size, [])
        if gives_back:
            self._event("segment_free", address, self.segments.pop(address), [])

    def out_of_memory(self, size: int, device_free: int, *stack: str) -> None:
        self.now_us += 10
        event = {"action": "oom", "device_free": device_free, "size": size, "stream": 0, "time_us": self.now_us}
        self.events.append(event | {"frames": frames(*stack)})

    def step(self) -> None:
        """An optimizer's step, as torch marks it."""
        name = "Optimizer.step#AdamW.step"
        for stage in ("START", "END"):
            self.now_us += 10
            self.marks.append({"stage": stage, "name": name, "device": 0, "time_us": self.now_us})

    def snapshot(self, since: int = 0) -> dict[str, Any]:
        """What _dump_snapshot pickles, with the history from some event on."""
        segments = [self._segment(address, size) for address, size in self.segments.items()]
        return {
            "segments": segments,
            "device_traces": [self.events[since:]],
            "allocator_settings": {"expandable_segments": False},
            "external_annotations": self.marks,
        }

    def _segment(self, address: int, size: int) -> dict[str, Any]:
        held = self.held.get(address)
        state = "inactive" if held is None else "active_allocated"
        block = {"address": address, "size": size, "requested_size": size, "state": state}
        block["frames"] = [] if held is None else held[1]
        return {
            "device": 0,
            "address": address,
            "total_size": size,
            "stream": 0,
            "segment_type": "large",
            "segment_pool_id": (0, 0),
            "is_expandable": False,
            "blocks": [block],
        }

    def allocated(self, since: int = 0) -> list[int]:
        """What is allocated after each event from some on, counted one by one; the first is before it."""
        level, levels = 0, [0]
        for event in self.events:
            size = max(-(-event["size"] // BLOCK) * BLOCK, BLOCK)
            level += {"alloc": size, "free_requested": -size}.get(event["action"], 0)
            levels.append(level)
        return levels[since:]


def written(folder: Path, snapshot: object, protocol: int = 4) -> Path:
    """A snapshot as a file."""
    path = folder / "snapshot.pickle"
    path.write_bytes(pickle.dumps(snapshot, protocol))
    return path


def unpacked_snapshots(folder: Path, names: Sequence[str]) -> list[Path]:
    """Some of those in captures/ as files."""
    paths = [folder / name for name in names]
    for path in paths:
        path.write_bytes(captured()[path.name])
    return paths

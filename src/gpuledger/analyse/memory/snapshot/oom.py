"""What an out-of-memory was made of: what was asked for, what was held by whom, what was free, and what would help."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gpuledger.analyse.memory.snapshot.holders import Holder, holders, user_path
from gpuledger.analyse.memory.snapshot.lifetimes import Lifetimes
from gpuledger.analyse.memory.snapshot.moment import MemoryMoment, memory_moment
from gpuledger.trace.memory_snapshot import GpuMemory, MemoryAction, MemorySnapshot


class OomKind(Enum):
    """Why there was no room."""

    FRAGMENTED = "enough was free, in pieces that are too small"
    HELD = "what is held left no room"


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """One of them."""

    moment: int
    """After which event."""
    path: tuple[str, ...]
    """Who asked."""
    request_bytes: int
    device_free_bytes: int | None
    """What the GPU had left; None where torch did not note it."""
    layout: MemoryMoment
    held: tuple[Holder, ...]
    """By stack, the most first; they sum to what was allocated."""

    @property
    def is_limited(self) -> bool:
        """Whether the GPU had room, so that a limit of the process was reached."""
        return self.device_free_bytes is not None and self.device_free_bytes >= self.request_bytes

    @property
    def kind(self) -> OomKind:
        """Fragmented where what is stranded, with what the GPU has left, is as much as was asked for."""
        room = 0 if self.is_limited or self.device_free_bytes is None else self.device_free_bytes
        return OomKind.FRAGMENTED if self.layout.stranded_bytes + room >= self.request_bytes else OomKind.HELD

    @property
    def short_bytes(self) -> int:
        """How much less would have to be held, at least, if everything free could be used."""
        room = 0 if self.is_limited or self.device_free_bytes is None else self.device_free_bytes
        return max(self.request_bytes - self.layout.stranded_bytes - room, 0)


def out_of_memories(
    snapshot: MemorySnapshot, memory: GpuMemory, lives: Lifetimes, most: int = 3
) -> tuple[OutOfMemory, ...]:
    """The last ones, in their order: a program that catches one may run into many."""
    history = memory.history
    events = history.at(MemoryAction.OOM).tolist()
    return tuple(
        OutOfMemory(
            event,
            user_path(snapshot, int(history.stack[event])),
            int(history.size_bytes[event]),
            int(history.device_free_bytes[event]) if history.device_free_bytes[event] >= 0 else None,
            memory_moment(memory, lives, event),
            holders(snapshot, lives, lives.living(event)),
        )
        for event in events[-most:]
    )

"""Every allocation of one GPU with when it began and ended: events in, one row per allocation out.

Moments are positions in the history: an allocation lives after event `i` where `born <= i < gone`. What was allocated
before the history began is born at -1; what is never freed is gone at the number of events.

Events have the size that was asked for; torch counts the block that is handed out, a multiple of 512 bytes. So sizes
are rounded up, and those of blocks that are there at the end are theirs. One thing no event says: a piece of at most
1 MiB that is left of a large block is not cut off, and counts as allocated with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.trace.memory_snapshot import GpuMemory, MemoryAction
from gpuledger.trace.spans import Ints

BEFORE: Final = -1
"""The moment before the first event."""

ROUNDED_TO: Final = 512
"""Bytes: torch hands out multiples of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Lifetimes:
    """One row per allocation."""

    address: Ints
    size_bytes: Ints
    stack: NDArray[np.int32]
    """-1 where none was recorded."""
    born: Ints
    gone: Ints
    """The tensor is freed: its bytes are no longer allocated."""
    done: Ints
    """The block can be used again; later than `gone` where another stream still needed it."""
    events: int
    unmatched: int = 0
    """Events that fit to no other: allocations of what was never freed, and the like."""

    def __len__(self) -> int:
        return len(self.address)

    def living(self, moment: int) -> NDArray[np.intp]:
        """The allocations that live after an event."""
        return np.flatnonzero((self.born <= moment) & (self.gone > moment))

    @property
    def is_early(self) -> NDArray[np.bool_]:
        """Which were allocated before the history began."""
        early: NDArray[np.bool_] = self.born == BEFORE
        return early


def lifetimes(memory: GpuMemory) -> Lifetimes:
    """Pair the events of each address in their order; what is left over at either end lived longer than the history."""
    history = memory.history
    rows = history.at(MemoryAction.ALLOC, MemoryAction.FREE_REQUESTED, MemoryAction.FREE_COMPLETED)
    rows = rows[np.argsort(history.address[rows], kind="stable")]
    action, address = history.action[rows], history.address[rows]
    follows = np.zeros(len(rows), np.bool_)
    follows[1:] = address[1:] == address[:-1]
    end = len(history)
    after = np.where(np.append(follows[1:], False), np.append(rows[1:], end), end)
    what_after = np.where(after < end, np.append(action[1:], -1), -1)
    is_alloc, is_free = action == MemoryAction.ALLOC, action == MemoryAction.FREE_REQUESTED
    frees_ours = is_free & follows & np.append(False, is_alloc[:-1])
    early = np.flatnonzero(is_free & ~frees_ours)
    ours = np.flatnonzero(is_alloc)
    gone = after[ours]  # where an allocation comes next, a free was lost: it was gone by then
    freed = np.flatnonzero(what_after[ours] == MemoryAction.FREE_REQUESTED)
    done = gone.copy()
    done[freed] = after[ours[freed] + 1]
    lost = int(
        np.count_nonzero((what_after[ours] == MemoryAction.ALLOC) | (what_after[ours] == MemoryAction.FREE_COMPLETED))
    )
    orphans = int(np.count_nonzero(is_free & follows & ~frees_ours))
    kept = _kept_since_before(memory, rows[ours[gone == end]])
    blocks = memory.blocks
    early_bytes, ours_bytes = _rounded(history.size_bytes[rows[early]]), _rounded(history.size_bytes[rows[ours]])
    _take_sizes_of_blocks(memory, address[ours], gone == end, ours_bytes)
    return Lifetimes(
        np.concatenate((address[early], blocks.address[kept], address[ours])),
        np.concatenate((early_bytes, blocks.size_bytes[kept], ours_bytes)),
        np.concatenate((np.full(len(early), -1, np.int32), blocks.stack[kept], history.stack[rows[ours]])),
        np.concatenate((np.full(len(early) + len(kept), BEFORE, np.int64), rows[ours])),
        np.concatenate((rows[early], np.full(len(kept), end, np.int64), gone)),
        np.concatenate((after[early], np.full(len(kept), end, np.int64), done)),
        end,
        lost + orphans,
    )


def _rounded(size: Ints) -> Ints:
    return np.maximum(-(-size // ROUNDED_TO) * ROUNDED_TO, ROUNDED_TO)


def _take_sizes_of_blocks(memory: GpuMemory, address: Ints, survives: NDArray[np.bool_], size: Ints) -> None:
    """Give allocations that are there at the end the size of their block."""
    order = np.argsort(memory.blocks.address, kind="stable")
    known = memory.blocks.address[order]
    place = np.minimum(np.searchsorted(known, address[survives]), max(len(known) - 1, 0))
    if len(known):
        is_there = (known[place] == address[survives]) & memory.blocks.is_allocated[order[place]]
        size[survives] = np.where(is_there, memory.blocks.size_bytes[order[place]], size[survives])


def _kept_since_before(memory: GpuMemory, survivors: NDArray[np.intp]) -> NDArray[np.intp]:
    """The blocks that are allocated at the end, and were before the first event."""
    known = memory.history.address[survivors]
    return np.flatnonzero(memory.blocks.is_allocated & ~np.isin(memory.blocks.address, known))


@dataclass(frozen=True, slots=True, eq=False)
class MemoryLevels:
    """How much memory there was after each event; the first value is before the first."""

    allocated_bytes: Ints
    reserved_bytes: Ints

    @property
    def peak(self) -> int:
        """The moment at which the most was allocated, the first of several."""
        return int(self.allocated_bytes.argmax()) - 1

    @property
    def reserved_peak(self) -> int:
        """The moment at which the most was reserved, the first of several."""
        return int(self.reserved_bytes.argmax()) - 1


def memory_levels(memory: GpuMemory, lives: Lifetimes) -> MemoryLevels:
    """Allocated from the start on, reserved from the end back: segments are known as they are at the end."""
    history = memory.history
    size, action = history.size_bytes, history.action
    change = np.zeros(len(history) + 1, np.int64)
    ours = lives.born >= 0
    np.add.at(change, lives.born[ours] + 1, lives.size_bytes[ours])
    freed = lives.gone < len(history)
    np.subtract.at(change, lives.gone[freed] + 1, lives.size_bytes[freed])
    change[0] = int(lives.size_bytes[lives.is_early].sum())
    takes = np.isin(action, (MemoryAction.SEGMENT_ALLOC, MemoryAction.SEGMENT_MAP))
    gives = np.isin(action, (MemoryAction.SEGMENT_FREE, MemoryAction.SEGMENT_UNMAP))
    reserved = np.append(0, np.cumsum(np.where(takes, size, 0) - np.where(gives, size, 0)))
    reserved += int(memory.segments.size_bytes.sum()) - int(reserved[-1])
    return MemoryLevels(np.cumsum(change), reserved)

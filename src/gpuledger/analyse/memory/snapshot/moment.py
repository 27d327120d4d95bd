"""How one GPU's memory was laid out at one moment: which segments there were, what was free in them, and of what use.

What the allocator reserved is split into four parts that sum to it: allocated; freed, but needed by a stream still;
free in a segment that holds something, so that it cannot be given back to CUDA (torch calls it inactive split); and
free where it can: in segments that are empty, and in expandable segments, which give back single pages.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.memory.snapshot.lifetimes import BEFORE, Lifetimes
from gpuledger.trace.memory_snapshot import GpuMemory, MemoryAction
from gpuledger.trace.spans import Ints


@dataclass(frozen=True, slots=True)
class SegmentUse:
    """A segment that is neither full nor empty."""

    address: int
    size_bytes: int
    active_bytes: int
    largest_free_bytes: int
    blocks: int

    @property
    def free_bytes(self) -> int:
        return self.size_bytes - self.active_bytes


@dataclass(frozen=True, slots=True)
class MemoryMoment:
    """The four parts, and what they are made of."""

    moment: int
    allocated_bytes: int
    awaiting_bytes: int
    stranded_bytes: int
    """Free in segments that hold something."""
    releasable_bytes: int
    """In segments that hold nothing, and free in expandable ones."""
    largest_free_bytes: int
    """The largest piece of what is stranded."""
    segments: int
    partly_used: tuple[SegmentUse, ...]
    """The segments with the most free bytes that cannot be given back."""

    @property
    def reserved_bytes(self) -> int:
        return self.allocated_bytes + self.awaiting_bytes + self.stranded_bytes + self.releasable_bytes

    @property
    def stranded_share(self) -> float:
        """Of what is reserved."""
        return self.stranded_bytes / max(self.reserved_bytes, 1)


def memory_moment(memory: GpuMemory, lives: Lifetimes, moment: int, most: int = 10) -> MemoryMoment:
    """The layout after an event."""
    start, size, is_expandable = _ranges(memory, moment)
    active = np.flatnonzero((lives.born <= moment) & (lives.done > moment))
    active = active[np.argsort(lives.address[active], kind="stable")]
    address, length = lives.address[active], lives.size_bytes[active]
    segment = np.searchsorted(start, address, side="right") - 1
    inside = (segment >= 0) & (address < (start + size)[np.maximum(segment, 0)]) if len(start) else segment >= 0
    address, length, segment = address[inside], length[inside], segment[inside]
    used, blocks, largest = _filled(start, size, address, length, segment)
    free = np.maximum(size - used, 0)
    holds = (used > 0) & ~is_expandable
    allocated = int(lives.size_bytes[lives.living(moment)].sum())
    order = np.argsort(-np.where(holds, free, 0), kind="stable")[:most]
    return MemoryMoment(
        moment,
        allocated,
        max(int(lives.size_bytes[active].sum()) - allocated, 0),
        int(free[holds].sum()),
        int(free[~holds].sum()),
        int(largest[holds].max(initial=0)),
        len(start),
        tuple(
            SegmentUse(int(start[at]), int(size[at]), int(used[at]), int(largest[at]), int(blocks[at]))
            for at in order.tolist()
            if holds[at] and free[at]
        ),
    )


def _filled(start: Ints, size: Ints, address: Ints, length: Ints, segment: Ints) -> tuple[Ints, Ints, Ints]:
    """Of each segment: bytes in use, blocks, and the largest free piece. Blocks are in the order of addresses."""
    used, blocks, largest = (np.zeros(len(start), np.int64) for _ in range(3))
    np.add.at(used, segment, length)
    np.add.at(blocks, segment, 1)
    if not len(address):
        return used, blocks, size.copy()
    is_first = np.append(True, segment[1:] != segment[:-1])
    before = np.where(is_first, start[segment], np.append(0, (address + length)[:-1]))
    np.maximum.at(largest, segment, np.maximum(address - before, 0))
    is_last = np.append(is_first[1:], True)
    tail = (start + size)[segment[is_last]] - (address + length)[is_last]
    np.maximum.at(largest, segment[is_last], np.maximum(tail, 0))
    return used, blocks, np.where(blocks > 0, largest, size)


def _ranges(memory: GpuMemory, moment: int) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Where the allocator had memory from CUDA after an event, in the order of addresses, and what is expandable."""
    fixed, mapped = _fixed(memory, moment), _mapped(memory, moment)
    start, size = (np.concatenate((fixed[column], mapped[column])) for column in (0, 1))
    order = np.argsort(start, kind="stable")
    return start[order], size[order], order >= len(fixed[0])


def _fixed(memory: GpuMemory, moment: int) -> tuple[Ints, Ints]:
    """Segments that are taken and given back whole: those of the end that were there, and those given back since."""
    history, segments = memory.history, memory.segments
    later = history.at(MemoryAction.SEGMENT_ALLOC, MemoryAction.SEGMENT_FREE)
    later = later[later > moment]
    is_taken = history.action[later] == MemoryAction.SEGMENT_ALLOC
    # of each address, the first event after the moment says whether it was there
    address, first = np.unique(history.address[later], return_index=True)
    was_there = ~is_taken[first]
    now = ~segments.is_expandable & ~np.isin(segments.address, address)
    return (
        np.concatenate((segments.address[now], address[was_there])),
        np.concatenate((segments.size_bytes[now], history.size_bytes[later[first[was_there]]])),
    )


def _mapped(memory: GpuMemory, moment: int) -> tuple[Ints, Ints]:
    """Stretches of expandable segments that had memory: as at the end, with what came after the moment undone."""
    history, segments = memory.history, memory.segments
    later = history.at(MemoryAction.SEGMENT_MAP, MemoryAction.SEGMENT_UNMAP)
    later = later[later > moment][::-1]
    start, size = segments.address[segments.is_expandable], segments.size_bytes[segments.is_expandable]
    if not len(later):
        return start, size
    begin, end = history.address[later], history.address[later] + history.size_bytes[later]
    edges = np.unique(np.concatenate((start, start + size, begin, end)))
    is_mapped = np.zeros(len(edges), np.bool_)
    for first, last in zip(np.searchsorted(edges, start), np.searchsorted(edges, start + size), strict=True):
        is_mapped[first:last] = True
    unmaps = (history.action[later] == MemoryAction.SEGMENT_UNMAP).tolist()
    places = zip(np.searchsorted(edges, begin).tolist(), np.searchsorted(edges, end).tolist(), unmaps, strict=True)
    for first, last, was_mapped in places:
        is_mapped[first:last] = was_mapped
    changes = np.flatnonzero(np.diff(np.concatenate(([False], is_mapped, [False]))))
    begins, ends = edges[changes[::2]], edges[np.minimum(changes[1::2], len(edges) - 1)]
    return begins, ends - begins


def end_moment(memory: GpuMemory) -> int:
    """After the last event."""
    return len(memory.history) - 1 if len(memory.history) else BEFORE

"""Every allocation of one GPU with when it began and ended: events in, one row per allocation out; and what follows.

Moments are positions in the history: an allocation lives after event `i` where `born <= i < gone`. What was allocated
before the history began is born at -1; what is never freed is gone at the number of events.

Events have the size that was asked for; torch counts the block that is handed out, a multiple of 512 bytes. So sizes
are rounded up, and those of blocks that are there at the end are theirs. One thing no event says: a piece of at most
1 MiB that is left of a large block is not cut off, and counts as allocated with it.

From the lifetimes follow the layout of memory at one moment (segments, what was free in them, and of what use), and who
holds it: bytes by the line that allocated them and by whole stacks. The bytes sum.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.attribution.lines import frames_of_models, own_frames
from gpuledger.attribution.places import place
from gpuledger.messages import say
from gpuledger.rows import LabelledCode
from gpuledger.trace import sweep
from gpuledger.trace.measured import GpuMemory, MemoryAction, MemorySnapshot
from gpuledger.trace.spans import Ints

BEFORE: Final = -1  # the moment before the first event
ROUNDED_TO: Final = 512  # bytes: torch hands out multiples of it


class Lifetimes(Struct, frozen=True, eq=False):
    """One row per allocation."""

    address: Ints
    size_bytes: Ints
    stack: NDArray[np.int32]  # -1 where none was recorded
    born: Ints
    gone: Ints  # the tensor is freed: its bytes are no longer allocated
    done: Ints  # the block can be used again; later than `gone` where another stream still needed it
    events: int
    unmatched: int = 0  # events that fit to no other: allocations of what was never freed, and the like

    def __len__(self) -> int:
        return len(self.address)

    def living(self, moment: int) -> NDArray[np.intp]:
        return np.flatnonzero((self.born <= moment) & (self.gone > moment))

    @property
    def is_early(self) -> NDArray[np.bool_]:
        early: NDArray[np.bool_] = self.born == BEFORE
        return early


def lifetimes(memory: GpuMemory) -> Lifetimes:
    """Pair the events of each address in their order; what is left over at either end lived longer than the history."""
    history, blocks = memory.history, memory.blocks
    rows = history.at(MemoryAction.ALLOC, MemoryAction.FREE_REQUESTED, MemoryAction.FREE_COMPLETED)
    rows = rows[np.argsort(history.address[rows], kind="stable")]
    action, address = history.action[rows], history.address[rows]
    follows = np.append(False, address[1:] == address[:-1])[: len(rows)]
    end = len(history)
    after = np.where(np.append(follows[1:], False), np.append(rows[1:], end), end)
    what_after = np.where(after < end, np.append(action[1:], -1), -1)
    is_alloc, is_free = action == MemoryAction.ALLOC, action == MemoryAction.FREE_REQUESTED
    frees_ours = is_free & follows & np.append(False, is_alloc[:-1])
    early, ours = np.flatnonzero(is_free & ~frees_ours), np.flatnonzero(is_alloc)
    gone = after[ours]  # where an allocation comes next, a free was lost: it was gone by then
    freed = np.flatnonzero(what_after[ours] == MemoryAction.FREE_REQUESTED)
    done = gone.copy()
    done[freed] = after[ours[freed] + 1]
    lost = np.count_nonzero(np.isin(what_after[ours], (MemoryAction.ALLOC, MemoryAction.FREE_COMPLETED)))
    orphans = np.count_nonzero(is_free & follows & ~frees_ours)
    survives = gone == end
    # the blocks that are allocated at the end, and were before the first event
    kept = np.flatnonzero(blocks.is_allocated & ~np.isin(blocks.address, address[ours[survives]]))
    size = history.size_bytes[rows]
    size = np.maximum(-(-size // ROUNDED_TO) * ROUNDED_TO, ROUNDED_TO)
    ours_bytes = size[ours]
    if len(blocks.address):  # allocations that are there at the end have the size of their block
        by_address = np.argsort(blocks.address, kind="stable")
        place = np.searchsorted(blocks.address[by_address], address[ours[survives]])
        block = by_address[np.minimum(place, len(by_address) - 1)]
        is_there = (blocks.address[block] == address[ours[survives]]) & blocks.is_allocated[block]
        ours_bytes[survives] = np.where(is_there, blocks.size_bytes[block], ours_bytes[survives])
    return Lifetimes(
        np.concatenate((address[early], blocks.address[kept], address[ours])),
        np.concatenate((size[early], blocks.size_bytes[kept], ours_bytes)),
        np.concatenate((np.full(len(early), -1, np.int32), blocks.stack[kept], history.stack[rows[ours]])),
        np.concatenate((np.full(len(early) + len(kept), BEFORE, np.int64), rows[ours])),
        np.concatenate((rows[early], np.full(len(kept), end, np.int64), gone)),
        np.concatenate((after[early], np.full(len(kept), end, np.int64), done)),
        end,
        int(lost + orphans),
    )


class MemoryLevels(Struct, frozen=True, eq=False):
    """How much memory there was after each event; the first value is before the first."""

    allocated_bytes: Ints
    reserved_bytes: Ints

    @property
    def peak(self) -> int:
        """The moment at which the most was allocated, the first of several."""
        return int(self.allocated_bytes.argmax()) - 1


def memory_levels(memory: GpuMemory, lives: Lifetimes) -> MemoryLevels:
    """Allocated from the start on, reserved from the end back: segments are known as they are at the end."""
    history, events = memory.history, len(memory.history)
    change = sweep.sums(lives.born + 1, lives.size_bytes, events + 1)  # BEFORE + 1 is the first
    freed = lives.gone < events
    np.subtract.at(change, lives.gone[freed] + 1, lives.size_bytes[freed])
    sign = np.isin(history.action, (MemoryAction.SEGMENT_ALLOC, MemoryAction.SEGMENT_MAP)).astype(np.int64)
    sign -= np.isin(history.action, (MemoryAction.SEGMENT_FREE, MemoryAction.SEGMENT_UNMAP))
    reserved = np.append(0, np.cumsum(sign * history.size_bytes))
    reserved += int(memory.segments.size_bytes.sum()) - int(reserved[-1])
    return MemoryLevels(np.cumsum(change), reserved)


class SegmentUse(Struct, frozen=True):
    """A segment that is neither full nor empty."""

    address: int
    size_bytes: int
    active_bytes: int
    largest_free_bytes: int
    blocks: int

    @property
    def free_bytes(self) -> int:
        return self.size_bytes - self.active_bytes


class MemoryMoment(Struct, frozen=True):
    """The four parts, and what they are made of."""

    moment: int
    allocated_bytes: int
    awaiting_bytes: int
    stranded_bytes: int  # free in segments that hold something
    releasable_bytes: int  # in segments that hold nothing, and free in expandable ones
    largest_free_bytes: int  # the largest piece of what is stranded
    segments: int
    partly_used: tuple[SegmentUse, ...]  # the segments with the most free bytes that cannot be given back

    @property
    def reserved_bytes(self) -> int:
        return self.allocated_bytes + self.awaiting_bytes + self.stranded_bytes + self.releasable_bytes

    @property
    def stranded_share(self) -> float:
        return self.stranded_bytes / max(self.reserved_bytes, 1)


def memory_moment(memory: GpuMemory, lives: Lifetimes, moment: int, most: int = 10) -> MemoryMoment:
    """The layout after an event."""
    fixed, mapped = _fixed_segments(memory, moment), _mapped_stretches(memory, moment)
    start, size = (np.concatenate(columns) for columns in zip(fixed, mapped, strict=True))
    by_address = np.argsort(start, kind="stable")
    start, size, is_expandable = start[by_address], size[by_address], by_address >= len(fixed[0])
    active = np.flatnonzero((lives.born <= moment) & (lives.done > moment))
    active = active[np.argsort(lives.address[active], kind="stable")]
    address, length = lives.address[active], lives.size_bytes[active]
    segment = np.searchsorted(start, address, side="right") - 1
    inside = (segment >= 0) & (address < (start + size)[np.maximum(segment, 0)]) if len(start) else segment >= 0
    address, length, segment = address[inside], length[inside], segment[inside]
    used, blocks, largest = _segment_fill(start, size, address, length, segment)
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
            SegmentUse(*(int(column[row]) for column in (start, size, used, largest, blocks)))
            for row in order.tolist()
            if holds[row] and free[row]
        ),
    )


def _segment_fill(start: Ints, size: Ints, address: Ints, length: Ints, segment: Ints) -> tuple[Ints, Ints, Ints]:
    """Of each segment: bytes in use, blocks, and the largest free piece. Blocks are in the order of addresses."""
    used, blocks = sweep.sums(segment, length, len(start)), np.bincount(segment, minlength=len(start))
    largest = np.zeros(len(start), np.int64)
    if not len(address):
        return used, blocks, size.copy()
    is_first = np.append(True, segment[1:] != segment[:-1])
    before = np.where(is_first, start[segment], np.append(0, (address + length)[:-1]))
    np.maximum.at(largest, segment, np.maximum(address - before, 0))
    is_last = np.append(is_first[1:], True)
    tail = (start + size)[segment[is_last]] - (address + length)[is_last]
    np.maximum.at(largest, segment[is_last], np.maximum(tail, 0))
    return used, blocks, np.where(blocks > 0, largest, size)


def _fixed_segments(memory: GpuMemory, moment: int) -> tuple[Ints, Ints]:
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


def _mapped_stretches(memory: GpuMemory, moment: int) -> tuple[Ints, Ints]:
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


class NoPlace(LabelledCode):
    """Why bytes have no line of the program."""

    EARLY = "early", say("allocated before the history began")
    NO_STACK = "no_stack", say("no recorded stack (autograd's threads have none)")
    REST = "rest", say("all others")


class Holder(Struct, frozen=True):
    """Allocations from one place that live at one moment."""

    place: str | NoPlace  # the user's innermost function, `function (file.py:12)`
    path: tuple[str, ...]  # the user's functions from there outwards; empty where `place` stands for several paths
    size_bytes: int
    allocations: int


def holders(
    snapshot: MemorySnapshot, lives: Lifetimes, rows: NDArray[np.intp], *, by_line: bool = False
) -> tuple[Holder, ...]:
    """These allocations by paths of the user's functions, or by the innermost alone; the most bytes first. They sum."""
    stacks, number = stacks_of(lives, rows)
    size, count = sweep.sums(number, lives.size_bytes[rows], len(stacks)), np.bincount(number, minlength=len(stacks))
    by_place: dict[tuple[str | NoPlace, tuple[str, ...]], list[int]] = {}
    for stack, size_bytes, allocations in zip(stacks.tolist(), size.tolist(), count.tolist(), strict=True):
        line, path = line_and_path(snapshot, stack)
        sums = by_place.setdefault((line, () if by_line else path), [0, 0])
        sums[0] += size_bytes
        sums[1] += allocations
    held = (Holder(line, path, *sums) for (line, path), sums in by_place.items())
    return tuple(sorted(held, key=lambda holder: (-holder.size_bytes, str(holder.place), holder.path)))


def stacks_of(lives: Lifetimes, rows: NDArray[np.intp]) -> tuple[NDArray[np.int32], NDArray[np.intp]]:
    """The different stacks of these allocations, and which one each has; -2 is that of what came before the history."""
    # a block that outlived the events of its birth may still have its stack
    key = np.where(lives.is_early[rows] & (lives.stack[rows] < 0), -2, lives.stack[rows])
    return np.unique(key, return_inverse=True)


def line_and_path(snapshot: MemorySnapshot, stack: int) -> tuple[str | NoPlace, tuple[str, ...]]:
    """The user's innermost function of one of `stacks_of`, or why there is none; and all of the user's functions."""
    path = user_path(snapshot, stack)
    return path[0] if path else NoPlace.EARLY if stack == -2 else NoPlace.NO_STACK, path


def user_path(snapshot: MemorySnapshot, stack: int) -> tuple[str, ...]:
    """The user's functions of a stack, the innermost first, up to the script; one of C++ where Python has none.

    Before them those of a package's model that they call.
    """
    frames = list(snapshot.frames(stack))
    own = own_frames(frames)
    if frames and not own:
        return (place(frames) or frames[0],)
    script = next((depth for depth, frame in enumerate(own) if frame.startswith("<module> (")), len(own))
    return (*frames_of_models(frames), *own[: script + 1])

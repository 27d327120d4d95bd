"""Every allocation of one GPU with when it began and ended: events in, one row per allocation out.

Moments are positions in the history: an allocation lives after event `i` where `born <= i < gone`. What was allocated
before the history began is born at -1; what is never freed is gone at the number of events.

Events have the size that was asked for; torch counts the block that is handed out, a multiple of 512 bytes. So sizes
are rounded up, and those of blocks that are there at the end are theirs. One thing no event says: a piece of at most
1 MiB that is left of a large block is not cut off, and counts as allocated with it.

How one GPU's memory was laid out at one moment: which segments there were, what was free in them, and of what use.

Who holds memory: allocations in, bytes by the line that allocated them and by whole stacks out. The bytes sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.attribution.places import own_frames, place
from gpuledger.trace.measured import GpuMemory, MemoryAction, MemorySnapshot
from gpuledger.trace.spans import Ints

BEFORE: Final = -1  # the moment before the first event
ROUNDED_TO: Final = 512  # bytes: torch hands out multiples of it


@dataclass(frozen=True, slots=True, eq=False)
class Lifetimes:
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


MOST_STACKS: Final = 10  # so many are told; the others are one line


class NoPlace(Enum):
    """Why bytes have no line of the program."""

    EARLY = "allocated before the history began"
    NO_STACK = "no stack was recorded"
    REST = "others"


@dataclass(frozen=True, slots=True)
class Holder:
    """Allocations from one place that live at one moment."""

    place: str | NoPlace  # the user's innermost function, `function (file.py:12)`
    path: tuple[str, ...]  # the user's functions from there outwards; empty where `place` stands for several paths
    size_bytes: int
    allocations: int


def holders(snapshot: MemorySnapshot, lives: Lifetimes, rows: NDArray[np.intp]) -> tuple[Holder, ...]:
    """These allocations by whole paths of the user's functions, the most bytes first. They sum."""
    return _grouped(snapshot, lives, rows, whole_path=True)


def holders_by_line(snapshot: MemorySnapshot, lives: Lifetimes, rows: NDArray[np.intp]) -> tuple[Holder, ...]:
    """The same by the innermost of these functions alone."""
    return _grouped(snapshot, lives, rows, whole_path=False)


def with_rest(held: Sequence[Holder], most: int = MOST_STACKS) -> tuple[Holder, ...]:
    """The first ones, and the others as one line: the sum stays."""
    others = held[most:]
    if len(others) < 2:  # one line for one other saves none
        return tuple(held)
    rest = Holder(NoPlace.REST, (), sum(one.size_bytes for one in others), sum(one.allocations for one in others))
    return (*held[:most], rest)


def _grouped(
    snapshot: MemorySnapshot, lives: Lifetimes, rows: NDArray[np.intp], *, whole_path: bool
) -> tuple[Holder, ...]:
    # a block that outlived the events of its birth may still have its stack
    key = np.where(lives.is_early[rows] & (lives.stack[rows] < 0), -2, lives.stack[rows])
    stacks, number = np.unique(key, return_inverse=True)
    size, count = sums_by(number, lives.size_bytes[rows], len(stacks)), np.bincount(number, minlength=len(stacks))
    made: dict[tuple[str | NoPlace, tuple[str, ...]], list[int]] = {}
    for stack, held, many in zip(stacks.tolist(), size.tolist(), count.tolist(), strict=True):
        path = user_path(snapshot, stack)
        line = path[0] if path else NoPlace.EARLY if stack == -2 else NoPlace.NO_STACK  # set above
        sums = made.setdefault((line, path if whole_path else ()), [0, 0])
        sums[0] += held
        sums[1] += many
    found = (Holder(line, path, held, many) for (line, path), (held, many) in made.items())
    return tuple(sorted(found, key=lambda holder: (-holder.size_bytes, str(holder.place), holder.path)))


def user_path(snapshot: MemorySnapshot, stack: int) -> tuple[str, ...]:
    """The user's functions of a stack, the innermost first, up to the script; one of C++ where Python has none."""
    frames = list(snapshot.frames(stack))
    own = own_frames(frames)
    script = next((at for at, frame in enumerate(own) if frame.startswith("<module> (")), len(own))
    named = place(frames) if frames and not own else None
    return (named or frames[0],) if frames and not own else tuple(own[: script + 1])


def sums_by(number: NDArray[np.integer], values: Ints, groups: int) -> Ints:
    """The sum of each group, in integers."""
    sums = np.zeros(groups, np.int64)
    np.add.at(sums, number, values)
    return sums

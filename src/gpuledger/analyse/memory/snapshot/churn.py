"""What is allocated only to be freed again: by the program, which torch's cache makes cheap, and by torch from CUDA.

A segment that is given back and taken again costs calls of the driver that wait for the GPU. Steady steps take none:
what the second half of the history takes is churn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuledger.analyse.memory.snapshot.holders import sums_by, user_path
from gpuledger.analyse.memory.snapshot.lifetimes import Lifetimes
from gpuledger.trace.memory_snapshot import GpuMemory, MemoryAction, MemorySnapshot


@dataclass(frozen=True, slots=True)
class ShortLived:
    """Allocations of one path that were freed again within the history."""

    path: tuple[str, ...]
    size_bytes: int
    allocations: int
    median_life_ns: int | None
    """None where torch noted no times."""


@dataclass(frozen=True, slots=True)
class SegmentChurn:
    """Segments that were taken from CUDA and given back, in the second half of the history."""

    taken: int
    given_back: int
    taken_bytes: int
    path: tuple[str, ...]
    """Whose allocations took the most bytes."""
    giving_path: tuple[str, ...]
    """Who gave back the most."""


def short_lived(
    snapshot: MemorySnapshot, memory: GpuMemory, lives: Lifetimes, most: int = 10
) -> tuple[ShortLived, ...]:
    """By path, the most bytes first."""
    rows = np.flatnonzero((lives.born >= 0) & (lives.gone < lives.events))
    if not len(rows):
        return ()
    stacks, number = np.unique(lives.stack[rows], return_inverse=True)
    size, count = sums_by(number, lives.size_bytes[rows], len(stacks)), np.bincount(number)
    time_ns = memory.history.time_ns
    chosen = np.argsort(-size, kind="stable")[: 4 * most]
    by_path: dict[tuple[str, ...], list[int]] = {}
    for place in chosen.tolist():
        by_path.setdefault(user_path(snapshot, int(stacks[place])), []).append(place)
    made = []
    for path, places in by_path.items():
        mine = rows[np.isin(number, places)]
        has_times = bool(len(time_ns)) and int(time_ns[0]) >= 0
        life = int(np.median(time_ns[lives.gone[mine]] - time_ns[lives.born[mine]])) if has_times else None
        made.append(ShortLived(path, int(size[places].sum()), int(count[places].sum()), life))
    return tuple(sorted(made, key=lambda churned: (-churned.size_bytes, churned.path)))[:most]


def segment_churn(snapshot: MemorySnapshot, memory: GpuMemory) -> SegmentChurn:
    """Of the second half: warm-up is over."""
    history, half = memory.history, len(memory.history) // 2
    taken = history.at(MemoryAction.SEGMENT_ALLOC, MemoryAction.SEGMENT_MAP)
    given = history.at(MemoryAction.SEGMENT_FREE, MemoryAction.SEGMENT_UNMAP)
    taken, given = taken[taken >= half], given[given >= half]

    def most(rows: np.ndarray[tuple[int], np.dtype[np.intp]]) -> tuple[str, ...]:
        if not len(rows):
            return ()
        stacks, number = np.unique(history.stack[rows], return_inverse=True)
        sums = sums_by(number, history.size_bytes[rows], len(stacks))
        return user_path(snapshot, int(stacks[int(sums.argmax())]))

    return SegmentChurn(len(taken), len(given), int(history.size_bytes[taken].sum()), most(taken), most(given))

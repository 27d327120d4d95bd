"""Who holds memory: allocations in, bytes by the line that allocated them and by whole stacks out. The bytes sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.memory.snapshot.lifetimes import Lifetimes
from gpuledger.analyse.stack_places import own_frames, place
from gpuledger.trace.memory_snapshot import MemorySnapshot
from gpuledger.trace.spans import Ints

MOST_STACKS: Final = 10
"""So many are told; the others are one line."""


class NoPlace(Enum):
    """Why bytes have no line of the program."""

    EARLY = "allocated before the history began"
    NO_STACK = "no stack was recorded"
    REST = "others"


@dataclass(frozen=True, slots=True)
class Holder:
    """Allocations from one place that live at one moment."""

    place: str | NoPlace
    """The user's innermost function, `function (file.py:12)`."""
    path: tuple[str, ...]
    """The user's functions from there outwards; empty where `place` stands for several paths."""
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

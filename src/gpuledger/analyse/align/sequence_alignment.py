"""Two sequences of kernels laid side by side: kernels in, pairs out, each with how alike its two kernels are.

The alignment keeps the order on both sides and gives the most points: the same name and launch shape count most, a
kernel without a partner costs some. What is left over on both sides under the same name ran elsewhere in the sequence:
it is paired too, and marked as moved. Where kernels are left over on both sides at the same place, and take time of
the same size, one stands for the other: something else runs there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, zip_longest
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.align.forwards import ForwardKernel
from gpuledger.catalog.kernel_families import OTHER, family
from gpuledger.catalog.kernel_names import label, parse
from gpuledger.catalog.name_likeness import EXACT, FAMILY, FUNCTION, NONE, carries, likeness, untiled
from gpuledger.errors import GpuledgerError
from gpuledger.trace.spans import Ints, furthest
from gpuledger.units import count_text

INSERTED, MISSING = "inserted", "missing"
"""In the mock only; in the model only."""

MATCHED: Final = (EXACT, FUNCTION, FAMILY)
"""Levels at which two kernels do the same work."""

SAME_SHAPE: Final = 6
POINTS: Final = {EXACT: 5, FUNCTION: 4, FAMILY: 1, NONE: -1_000}
"""What a pair counts; SAME_SHAPE where name, grid and block are the same."""

GAP: Final = 2
"""What a kernel without a partner costs."""

REPLACES: Final = 0.1
"""One kernel stands for another if its time is at least this part of the other's."""

MOST_CELLS: Final = 25_000_000
"""So many pairs of kernels are weighed against each other; two forwards of 5,000 kernels have as many."""

_DIAGONAL, _UP, _LEFT = 0, 1, 2


@dataclass(frozen=True, slots=True)
class AlignedPair:
    """One line of the alignment: positions of the kernels on each side, None where there is none."""

    mock: int | None
    e2e: int | None
    level: str
    """exact, function or family; none where another kernel stands in a kernel's place; inserted; missing."""
    moved: bool = False
    """Both sides run it, at different places of the sequence."""


def points(mock: Sequence[ForwardKernel], e2e: Sequence[ForwardKernel]) -> Ints:
    """What pairing each kernel of the mock with each of the model's counts."""
    scores = np.full((len(mock), len(e2e)), POINTS[NONE], np.int64)
    marks = [_marks(theirs.name) for theirs in e2e]
    for row, ours in enumerate(mock):
        our_marks = _marks(ours.name)
        for column, theirs in enumerate(e2e):
            if our_marks.isdisjoint(marks[column]):
                continue  # most pairs of a long forward, and looking closer takes time
            counts = POINTS[likeness(ours.name, theirs.name)]
            scores[row, column] = SAME_SHAPE if counts == POINTS[EXACT] and ours.shape == theirs.shape else counts
    return scores


@lru_cache(maxsize=65536)
def _marks(name: str) -> frozenset[tuple[str, str]]:
    """What two kernels must have at least one of in common to be alike."""
    marks = {("short", parse(name).short), ("untiled", untiled(name)), ("family", family(name))}
    return frozenset(marks - {("family", OTHER)})


def distinct(kernels: Sequence[ForwardKernel]) -> tuple[list[ForwardKernel], NDArray[np.intp]]:
    """The kernels that differ in name or shape, and for each kernel the position of its like."""
    number_of: dict[tuple[str, object], int] = {}
    different: list[ForwardKernel] = []
    number = np.empty(len(kernels), np.intp)
    for index, kernel in enumerate(kernels):
        key = (kernel.name, kernel.shape)
        if key not in number_of:
            number_of[key] = len(different)
            different.append(kernel)
        number[index] = number_of[key]
    return different, number


def with_gaps(scores: Ints) -> Ints:
    """The best that each place of the mock can have if kernels before it may be left out at GAP each."""
    cost = GAP * np.arange(len(scores))
    return furthest(scores + cost) - cost


def similarity(mock: Sequence[ForwardKernel], e2e: Sequence[ForwardKernel]) -> float:
    """How alike two sequences are: 1 where all is the same, less the more is left over."""
    whole = SAME_SHAPE * (len(mock) + len(e2e)) / 2
    return _best(mock, e2e)[0] / whole if whole else 1.0


def aligned(
    mock: Sequence[ForwardKernel], e2e: Sequence[ForwardKernel], *, ordered: bool = True
) -> tuple[AlignedPair, ...]:
    """Every kernel of both sides in one line. Where the order is not known, names alone make pairs."""
    if ordered:
        lines = _best(mock, e2e)[1]
    else:
        lines = [(index, None) for index in range(len(mock))] + [(None, index) for index in range(len(e2e))]
    paired = {ours: theirs for ours, theirs in lines if ours is not None and theirs is not None}
    moved = _elsewhere(mock, e2e, paired, ordered=ordered)
    gone = set(moved)
    back = {theirs: ours for ours, theirs in moved.items()}
    pairs = []
    for ours, theirs in lines:
        if ours is not None and theirs is None and ours in gone:
            continue
        if ours is None and theirs in back:
            pairs.append(
                AlignedPair(back[theirs], theirs, likeness(mock[back[theirs]].name, e2e[theirs].name), moved=ordered)
            )
        elif ours is None:
            pairs.append(AlignedPair(None, theirs, MISSING))
        elif theirs is None:
            pairs.append(AlignedPair(ours, None, INSERTED))
        else:
            pairs.append(AlignedPair(ours, theirs, likeness(mock[ours].name, e2e[theirs].name)))
    return tuple(_with_replaced(pairs, mock, e2e)) if ordered else tuple(pairs)


def _best(
    mock: Sequence[ForwardKernel], e2e: Sequence[ForwardKernel]
) -> tuple[int, list[tuple[int | None, int | None]]]:
    """The alignment with the most points: their number, and the lines in order."""
    if len(mock) * len(e2e) > MOST_CELLS:
        raise GpuledgerError(
            f"forwards of {count_text(len(mock))} and {count_text(len(e2e))} kernels are too long to be aligned",
            found=f"{count_text(MOST_CELLS)} pairs at most",
            hint="isolate a smaller operation: --range=REGEX in the model, --mock-range=REGEX in the mock",
        )
    # from the end to the beginning, so that the way back leads forward, and of equally good pairs takes the first
    ours, our_number = distinct(mock[::-1])
    theirs, their_number = distinct(e2e[::-1])
    table = points(ours, theirs)[our_number]
    row = -GAP * np.arange(len(mock) + 1)
    came_from = np.empty((len(e2e), len(mock) + 1), np.uint8)
    for index, column in enumerate(their_number.tolist()):
        diagonal, up = row[:-1] + table[:, column], row[1:] - GAP
        row = with_gaps(np.append(row[0] - GAP, np.maximum(diagonal, up)))
        came_from[index, 0] = _UP
        came_from[index, 1:] = np.where(row[1:] == diagonal, _DIAGONAL, np.where(row[1:] == up, _UP, _LEFT))
    return int(row[-1]), _walked_back(came_from)


def _walked_back(came_from: NDArray[np.uint8]) -> list[tuple[int | None, int | None]]:
    lines: list[tuple[int | None, int | None]] = []
    count, length = came_from.shape[0], came_from.shape[1] - 1
    theirs = ours = 0
    while theirs < count or ours < length:
        step = came_from[count - theirs - 1, length - ours] if theirs < count else _LEFT
        lines.append((ours if step != _UP else None, theirs if step != _LEFT else None))
        ours += step != _UP
        theirs += step != _LEFT
    return lines


def _elsewhere(
    mock: Sequence[ForwardKernel], e2e: Sequence[ForwardKernel], paired: dict[int, int], *, ordered: bool
) -> dict[int, int]:
    """Pairs among what is left over, wherever it stands: the same kernel first, then the same function.

    A family alone says too little to pair kernels at different places; where no place is known it has to do.
    """
    taken = set(paired.values())
    ours = [index for index in range(len(mock)) if index not in paired]
    theirs = [index for index in range(len(e2e)) if index not in taken]
    keys: list[Callable[[ForwardKernel], object]] = [
        lambda kernel: (kernel.bare, kernel.shape),
        lambda kernel: kernel.bare,
        lambda kernel: (
            untiled(kernel.name),
            label(kernel.name) if carries(kernel.name) else "",
        ),
    ]
    if not ordered:
        keys.append(lambda kernel: None if family(kernel.name) == OTHER else family(kernel.name))
    elsewhere: dict[int, int] = {}
    for key in keys:
        waiting: dict[object, list[int]] = {}
        for index in reversed(theirs):
            waiting.setdefault(key(e2e[index]), []).append(index)
        for index in ours:
            if waiting.get(wanted := key(mock[index])) and wanted is not None:
                elsewhere[index] = waiting[wanted].pop()
        ours = [index for index in ours if index not in elsewhere]
        theirs = [index for index in theirs if index not in set(elsewhere.values())]
    return elsewhere


def _with_replaced(
    lines: Sequence[AlignedPair], mock: Sequence[ForwardKernel], e2e: Sequence[ForwardKernel]
) -> Iterable[AlignedPair]:
    """The lines with what is left over on both sides at one place put side by side."""
    for alone, stretch in groupby(lines, key=lambda line: line.level in (INSERTED, MISSING)):
        group = list(stretch)
        ours = [line.mock for line in group if line.level == INSERTED]
        theirs = [line.e2e for line in group if line.level == MISSING]
        if not alone or not ours or not theirs:
            yield from group
            continue
        times = sorted(
            (
                sum(mock[index].time_ns for index in ours if index is not None),
                sum(e2e[index].time_ns for index in theirs if index is not None),
            )
        )
        if times[0] < REPLACES * times[1]:
            yield from group
            continue
        for left, right in zip_longest(ours, theirs):
            yield AlignedPair(left, right, NONE)

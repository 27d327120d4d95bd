"""Where a short sequence of kernels occurs in a long one, as far as it can be recognised: positions out.

A local alignment for repeated matches: one pass over the long sequence finds the set of stretches, none overlapping
another, that counts the most points, each after a toll that keeps chance resemblances out. A stretch may leave out
kernels of the short sequence and hold others between them (fused, split or added ones). It begins and ends with a
kernel that has a partner, so what the model runs before the first and after the last of them cannot be told to belong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpuledger.analyse.align.forwards import ForwardKernel
from gpuledger.analyse.align.sequence_alignment import GAP, SAME_SHAPE, points, with_gaps
from gpuledger.trace.keys import Positions
from gpuledger.trace.spans import Ints

TOLL: Final = 0.5
"""A stretch counts if it has more than this part of the points that the sequence itself would have."""

KEEP: Final = 0.85
"""Of the best stretch's points; one with less is another operation that resembles this one."""

MOST_KERNELS: Final = 200_000
"""So many kernels of the long sequence are looked at, which takes seconds."""

MOST_CELLS: Final = 40_000_000
"""So many pairs of kernels are weighed, a byte each: of a mock of more than 200 kernels, fewer of the model's."""

_FIRST, _DIAGONAL, _UP, _LEFT = 0, 1, 2, 3


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A stretch of the long sequence: from `start` up to, not including, `end`."""

    start: int
    end: int
    points: int


def searched(mock: Sequence[ForwardKernel], length: int) -> int:
    """How many kernels of a sequence of this length are looked at."""
    return min(length, MOST_KERNELS, MOST_CELLS // max(len(mock), 1))


def occurrences(
    mock: Sequence[ForwardKernel], kinds: Sequence[ForwardKernel], sequence: Positions
) -> tuple[Occurrence, ...]:
    """Where `mock` occurs in `sequence`, whose kernels are positions in `kinds`."""
    sequence = sequence[: searched(mock, len(sequence))]
    if not len(mock) or not len(sequence):
        return ()
    stretches = _traced(_filled(points(mock, kinds), sequence, int(TOLL * SAME_SHAPE * len(mock))))
    if not stretches:
        return ()
    best = max(stretch.points for stretch in stretches)
    return tuple(stretch for stretch in stretches if stretch.points >= KEEP * best)


@dataclass(frozen=True, slots=True)
class _Filled:
    """For each place of both sequences where its best score came from; and where a stretch may have ended."""

    came_from: np.ndarray[tuple[int, int], np.dtype[np.uint8]]
    outside: Ints
    """The best score of all stretches that ended before each kernel."""
    ended_at: Ints
    """The kernel of the short sequence that a stretch ended with just before each kernel; -1 if none did."""
    toll: int


def _filled(table: Ints, sequence: Positions, toll: int) -> _Filled:
    count = len(sequence)
    came_from = np.empty((count, len(table)), np.uint8)
    outside, ended_at = np.zeros(count + 1, np.int64), np.full(count + 1, -1, np.int64)
    row = np.full(len(table), -1, np.int64)  # nothing has begun before the first kernel
    for index, kind in enumerate(sequence.tolist()):
        base = int(outside[index])
        before = np.append(base, row[:-1])
        diagonal, up = np.maximum(before, base) + table[:, kind], row - GAP
        row = with_gaps(np.maximum(diagonal, up))
        matched = np.where(before <= base, _FIRST, _DIAGONAL)
        came_from[index] = np.where(row == diagonal, matched, np.where(row == up, _UP, _LEFT))
        last = int(row.argmax())
        outside[index + 1] = max(base, int(row[last]) - toll)
        if row[last] - toll > base:
            ended_at[index + 1] = last
    return _Filled(came_from, outside, ended_at, toll)


def _traced(filled: _Filled) -> tuple[Occurrence, ...]:
    stretches = []
    position = len(filled.outside) - 1
    while position > 0:
        ours = int(filled.ended_at[position])
        if ours < 0:
            position -= 1
            continue
        end, score = position, int(filled.outside[position]) + filled.toll
        position -= 1
        while (step := filled.came_from[position, ours]) != _FIRST:
            position -= step != _LEFT
            ours -= step != _UP
        stretches.append(Occurrence(position, end, score - int(filled.outside[position])))
    return tuple(reversed(stretches))

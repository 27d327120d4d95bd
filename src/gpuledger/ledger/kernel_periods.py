"""The period of a sequence of kernels: names in the order of execution in, which repetition each belongs to out.

The kernels of equal layers repeat within a step, and steps repeat: the outer repetition is the one that is given. The
rarest kernel that comes at equal distances marks a repetition. Where that is a layer, what comes once a step (an
embedding, the head) makes one distance in so many longer, or one repetition in so many slower, and that marks steps.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions
from gpuledger.trace.spans import Ints
from gpuledger.trace.statistics import median
from gpuledger.trace.strings import Codes

FEWEST: Final = 3
"""Fewer repetitions than this are none."""

_MOSTLY: Final = 0.8
"""So many of the distances, or of the stretches, must be alike."""

_ALIKE: Final = 0.9
"""Two stretches are alike when so many of their kernels are the same."""

_LEAST_COVERED: Final = 0.5
"""A period that holds fewer of the kernels than this is not one of the whole sequence."""

_SLOWER: Final = 1.25
"""A repetition that takes this many times the usual holds something that the others do not."""


def repetitions(names: Codes, end_ns: Ints) -> Positions | None:
    """For each kernel the outermost repetition that it belongs to, -1 for none; None if nothing repeats."""
    for code in _rarest_first(names):
        marks = np.flatnonzero(names == code)
        distances = np.diff(marks)
        usual = int(median(distances))
        alike = distances == usual
        covers = alike.sum() * usual >= _LEAST_COVERED * len(names)
        if usual > 1 and covers and alike.mean() >= _MOSTLY and _stretches_alike(names, marks, usual):
            by_count = _steps_by_distance(names, marks, usual)
            return (
                by_count if by_count is not None else _steps_by_time(end_ns, _from_first_to_last(names, marks, usual))
            )
    return None


def period(sequence: Ints) -> int | None:
    """The shortest period of a sequence that repeats at least FEWEST times; None if it has none."""
    for length in range(1, len(sequence) // FEWEST + 1):
        if (sequence[length:] == sequence[:-length]).mean() >= 0.95:
            return length
    return None


def with_what_follows(names: Codes, marks: Positions, usual: int) -> Positions:
    """Marks moved to the end of what follows each, if that is what follows the last one, as it is for most of them."""
    tail = names[marks[-1] + 1 :]
    if len(tail) >= usual:
        return marks
    follows = np.array([np.array_equal(names[mark + 1 : mark + 1 + len(tail)], tail) for mark in marks.tolist()])
    return marks + len(tail) * follows if follows.mean() >= _MOSTLY else marks


def _rarest_first(names: Codes) -> list[int]:
    codes, counts = np.unique(names, return_counts=True)
    order = np.argsort(counts, kind="stable")
    return [int(codes[index]) for index in order if counts[index] >= FEWEST and codes[index] >= 0]


def _stretches_alike(names: Codes, marks: Positions, length: int) -> bool:
    """Whether most stretches of the usual length before a mark hold the same kernels in the same order."""
    ends = marks[1:][np.diff(marks) == length]
    stretches = names[ends[:, None] - np.arange(length)[None, :]]
    model = stretches[len(stretches) // 2]
    return bool(((stretches == model).mean(axis=1) >= _ALIKE).mean() >= _MOSTLY)


def _steps_by_distance(names: Codes, marks: Positions, usual: int) -> Positions | None:
    """Layers made steps where every so many of them is followed by more kernels than the others."""
    longer = np.flatnonzero(np.diff(marks) > usual)
    layers = _regular(longer)
    if layers is None:
        return None
    last_layers = np.append(marks[longer], marks[-1])
    length = int(median(np.diff(last_layers)))
    return _from_first_to_last(names, last_layers, length)


def _steps_by_time(end_ns: Ints, member: Positions) -> Positions:
    """Layers made steps where every so many of them takes longer: what comes once a step shows in its length."""
    ends = np.full(int(member.max()) + 1, np.iinfo(np.int64).min)
    sweep.fold("most", member, end_ns, ends)
    lengths = np.diff(ends)
    slow = 1 + np.flatnonzero(lengths > _SLOWER * median(lengths)) if len(lengths) else np.empty(0, np.intp)
    layers = _regular(slow) if len(slow) >= FEWEST else None
    if layers is None:
        return member
    first = int(slow[0]) % layers
    steps = (len(ends) - first) // layers
    merged = (member - first) // layers
    return np.where((member >= 0) & (merged >= 0) & (merged < steps), merged, -1)


def _regular(positions: NDArray[np.signedinteger]) -> int | None:
    """The distance between neighbours, where most have the same, over one; None where they have not."""
    distances = np.diff(positions)
    if not len(distances):
        return None
    usual = int(median(distances))
    return usual if usual > 1 and (distances == usual).mean() >= _MOSTLY else None


def _from_first_to_last(names: Codes, marks: Positions, usual: int) -> Positions:
    """Steps from marks at equal distances: the last ends with the sequence, if what follows each mark is the same.

    The first has the usual length if its kernels are the usual ones; else it begins after the first mark. What lies
    before the first step and after the last is in none.
    """
    marks = with_what_follows(names, marks, usual)
    first, model = marks[0] - usual + 1, names[marks[-1] - usual + 1 : marks[-1] + 1]
    if first < 0 or (names[first : marks[0] + 1] == model).mean() < _ALIKE:
        first, marks = marks[0] + 1, marks[1:]
    position = np.arange(len(names))
    member = np.searchsorted(marks, position, side="left")
    return np.where((position >= first) & (position <= marks[-1]), member, -1)

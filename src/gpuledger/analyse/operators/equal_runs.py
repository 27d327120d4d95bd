"""Equal runs: a long sequence of symbols and some others in, the stretches of those that occur in it too out."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpuledger.trace.keys import Positions

MOST_TRIED: Final = 32
"""So many equal runs on either side are compared for what they agree on."""

_MOST_PLACES: Final = 10_000
"""What occurs more often says nothing of where one is."""
_MOST_COMPARED: Final = 1_000_000_000
"""So many pairs of a place and a sequence are compared."""


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of a sequence that also occurs in the eager work, as long as it gets."""

    start: int
    length: int
    equal: Positions
    """Where it begins in the eager work: each place, up to a limit."""


class Runs:
    """For each of some sequences, its longest runs that also occur in `eager`.

    Ranks of all stretches of 1, 2, 4, ... symbols sort the places by what follows them, so that the best partner of a
    place is a neighbour.
    """

    def __init__(self, eager: Positions, sequences: Sequence[Positions]) -> None:
        self._count = len(eager)
        self._lengths = [len(sequence) for sequence in sequences]
        parts = [
            part for number, symbols in enumerate((eager, *sequences)) for part in (symbols, np.array([-1 - number]))
        ]
        rank = np.unique(np.concatenate(parts), return_inverse=True)[1]  # no two separators are equal
        self._ranks = [rank]
        reach = 1
        while reach < max(self._lengths, default=0):
            following = np.append(rank[reach:], np.full(min(reach, len(rank)), -1)) + 1
            rank = np.unique(rank * (len(rank) + 1) + following, return_inverse=True)[1]
            self._ranks.append(rank)
            reach *= 2
        self._sorted = np.argsort(rank[: self._count], kind="stable")

    def __len__(self) -> int:
        return len(self._lengths)

    def __iter__(self) -> Iterator[list[Run]]:
        for number, begin in enumerate(self._begins()):
            yield list(self._of(np.arange(begin, begin + self._lengths[number])))

    def occurrences(self) -> Iterator[Positions]:
        """For each sequence every place where the whole of it occurs in `eager`, in order; none if there are many."""
        is_much = len(self) * self._count > _MOST_COMPARED
        for number, begin in enumerate(self._begins()):
            length = self._lengths[number]
            if is_much:
                yield np.empty(0, np.intp)
                continue
            level = length.bit_length() - 1
            rank, last = self._ranks[level], length - (1 << level)
            possible = max(self._count - length + 1, 0)
            equal = rank[:possible] == rank[begin]
            places = np.flatnonzero(equal & (rank[last : last + possible] == rank[begin + last]))
            yield places if len(places) <= _MOST_PLACES else places[:0]

    def _begins(self) -> Positions:
        """Where each sequence begins among all symbols."""
        ends = np.cumsum([self._count + 1, *(length + 1 for length in self._lengths)])
        begins: Positions = ends[:-1]
        return begins

    def _of(self, places: Positions) -> Iterator[Run]:
        if not self._count:
            return
        ranks = self._ranks[-1]
        after = np.searchsorted(ranks[self._sorted], ranks[places])
        neighbours = [self._sorted[np.clip(rank, 0, self._count - 1)] for rank in (after - 1, after)]
        longest = np.maximum(*(self._common(places, neighbour) for neighbour in neighbours))
        for start in np.flatnonzero((longest > 0) & (np.append(0, longest[:-1]) <= longest)).tolist():
            tried = self._sorted[max(int(after[start]) - MOST_TRIED, 0) : int(after[start]) + MOST_TRIED]
            equal = tried[self._common(np.full(len(tried), places[start]), tried) >= longest[start]]
            yield Run(start, int(longest[start]), equal)

    def _common(self, left: Positions, right: Positions) -> Positions:
        """How many symbols are equal from each two places on."""
        length = np.zeros(len(left), np.intp)
        for level in range(len(self._ranks) - 1, -1, -1):
            rank = self._ranks[level]
            equal = rank[left + length] == rank[right + length]
            length[equal] += 1 << level
        return length


def in_order(
    which: Sequence[int],
    occurrences: Sequence[Positions],
    lengths: Sequence[int],
    is_again: Callable[[int, list[int]], bool],
) -> list[int]:
    """For sequences that follow each other, which of its occurrences each is; -1 where that cannot be told.

    Layers of a model are often equal, and each of them a graph of its own: what comes before and after tells them
    apart. Sequences that occur once are known; those between are known where counting on from the one before and
    counting back from the one after say the same. Where all occur several times, as in two warm-ups, one round counts:
    `is_again` says of a sequence whether it means the same at all these places.
    """
    rounds = _one_round([places.tolist() for places in occurrences], is_again)
    mirrored = [[-place - length for place in reversed(own)] for own, length in zip(rounds, lengths, strict=True)]
    forward, backward = _counted_on(which, rounds, lengths), _counted_on(which[::-1], mirrored, lengths)[::-1]
    return [
        place if place is not None and back is not None and back == -place - lengths[number] else -1
        for number, place, back in zip(which, forward, backward, strict=True)
    ]


def _counted_on(which: Sequence[int], places: Sequence[list[int]], lengths: Sequence[int]) -> list[int | None]:
    """For each the only place it has, or the first one at or after the end of the one before it."""
    chosen: list[int | None] = []
    end: int | None = None
    for number in which:
        own = places[number]
        here = own[0] if len(own) == 1 else None
        if len(own) > 1 and end is not None:
            following = bisect_left(own, end)
            here = own[following] if following < len(own) else None
        if own:
            end = None if here is None else here + lengths[number]
        chosen.append(here)
    return chosen


def _one_round(places: list[list[int]], is_again: Callable[[int, list[int]], bool]) -> list[list[int]]:
    """The places from one to the next of what occurs the least often, where that is the same thing again."""
    least = min((len(own) for own in places if own), default=0)
    if least < 2:
        return places
    rarest = next((number for number, own in enumerate(places) if len(own) == least and is_again(number, own)), None)
    if rarest is None:
        return places
    first, last = places[rarest][:2]
    in_round = [[place for place in own if first <= place < last] for own in places]
    return [inside or own for inside, own in zip(in_round, places, strict=True)]

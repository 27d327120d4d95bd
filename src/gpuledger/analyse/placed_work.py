"""GPU work inside graphs under the names of a second file: paths of ranges in, the same with places below them out.

What a graph's launch lies in stays around it; the place of a kernel goes below, as if the launch had been made there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.name_paths import NamePaths
from gpuledger.ledger.activity import Activities, State
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.model import Trace
from gpuledger.trace.strings import NO_TEXT


def place_of_work(trace: Trace, work: Activities) -> Positions:
    """For each activity the position of its place in the trace's places; -1 for none."""
    place = np.full(len(work), -1, np.intp)
    if trace.places is None:
        return place
    is_copy = work.state == State.COPY
    is_kernel = ~is_copy & (work.name != NO_TEXT)  # what has no name is a whole graph
    place[is_copy] = trace.places.of_copy[work.row[is_copy]]
    place[is_kernel] = trace.places.of_kernel[work.row[is_kernel]]
    return place


@dataclass(frozen=True, slots=True, eq=False)
class PlacedPaths:
    """Paths of names, those of places included."""

    paths: NamePaths
    names: list[str]
    """What the numbers of names mean."""
    of_base: Positions
    """For each path that there was before its own number now; -1 at the end, for path -1."""
    of_work: Positions
    """For each activity its path: that of its place, or of what is around its launch."""

    @property
    def added(self) -> Positions:
        """The paths that are only places."""
        new: NDArray[np.bool_] = np.ones(len(self.paths), np.bool_)
        new[self.of_base[:-1]] = False
        return np.flatnonzero(new)

    def launches(self, call: Positions) -> Positions:
        """For each path that is only a place, how many launches ran anything there or inside; 0 for the others."""
        is_added = np.zeros(len(self.paths) + 1, np.bool_)
        is_added[self.added] = True
        pairs = [(np.empty(0, np.intp), np.empty(0, np.intp))]
        path = self.of_work
        while len(chosen := np.flatnonzero(is_added[path])):
            path, call = path[chosen], call[chosen]
            first, _ = group(path, call)
            path, call = path[first], call[first]
            pairs.append((path, call))
            path = self.paths.parent[path]
        held, by = (np.concatenate(column) for column in zip(*pairs, strict=True))
        return np.bincount(held[group(held, by)[0]], minlength=len(self.paths))


def placed_paths(
    trace: Trace,
    base: NamePaths,
    names: Sequence[str],
    under: NDArray[np.signedinteger],
    place: Positions,
    called: Callable[[str], str] = str,
) -> PlacedPaths:
    """The paths `base`, and below them those of the places: of each activity the path `under` which it was launched."""
    number_of = {name: number for number, name in enumerate(names)}
    parent, name_of, known = base.parent.tolist(), base.name.tolist(), dict[tuple[int, int], int]()

    def member(above: int, name: str) -> int:
        key = (above, number_of.setdefault(name, len(number_of)))
        if key not in known:
            known[key] = len(parent)
            parent.append(above)
            name_of.append(key[1])
        return known[key]

    told = () if trace.places is None else trace.places.places
    placed = np.flatnonzero(place >= 0)
    first, number = group(under[placed], place[placed])
    leaves = []
    for above, chosen in zip(under[placed[first]].tolist(), place[placed[first]].tolist(), strict=True):
        for name in told[chosen].path:
            above = member(above, called(name))
        leaves.append(above)
    paths = NamePaths(np.array(parent, np.intp), np.array(name_of, np.int64))
    of_base = np.append(paths.of_row[: len(base)], -1)
    of_work = of_base[under]
    of_work[placed] = paths.of_row[np.array(leaves, np.intp)][number]
    return PlacedPaths(paths, list(number_of), of_base, of_work)

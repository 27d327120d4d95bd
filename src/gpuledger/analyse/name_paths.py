"""Paths of names: a forest of ranges or frames in, every path of names from the outermost down, each once, out.

Paths are numbered level by level, parents before their children, so that whatever is summed up goes along slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.range_nest import levels
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.spans import Ints, furthest


class NamePaths:
    """The paths of a forest: of each member the one that directly holds it (-1: none), and the number of its name."""

    def __init__(self, parent: Positions, name_of: NDArray[Any]) -> None:
        self.of_row: Final = np.full(len(parent) + 1, -1, np.intp)
        """For each member its path; -1 at the end, for member -1."""
        parents, names, edges = [np.empty(0, np.intp)], [np.empty(0, np.int64)], [0]
        for here in levels(parent) if len(parent) else ():
            above, name = self.of_row[parent[here]], name_of[here]
            first, number = group(above, name)
            self.of_row[here] = edges[-1] + number
            parents.append(above[first])
            names.append(name[first].astype(np.int64))
            edges.append(edges[-1] + len(first))
        self.parent: Final[Positions] = np.concatenate(parents)
        """The path without its last name; -1 for the outermost."""
        self.name: Final[Ints] = np.concatenate(names)
        self._levels: Final = [slice(low, high) for low, high in pairwise(edges)]

    def __len__(self) -> int:
        return len(self.name)

    @property
    def depth(self) -> Ints:
        """How many names each path has before its last."""
        return np.repeat(np.arange(len(self._levels)), [level.stop - level.start for level in self._levels])

    def sums(self, amounts: NDArray[Any]) -> NDArray[Any]:
        """What the members of each path have together: a number or a row of them each."""
        whole = np.zeros((len(self), *amounts.shape[1:]), np.result_type(amounts, np.int64))
        np.add.at(whole, self.of_row[:-1], amounts)
        return whole

    def with_inner(self, own: NDArray[Any]) -> NDArray[Any]:
        """Each path's own amount with those of all paths under it."""
        whole = own.copy()
        for level in reversed(self._levels[1:]):
            np.add.at(whole, self.parent[level], whole[level])
        return whole

    def in_order(self, weight: Ints, texts: Sequence[str]) -> Positions:
        """All paths as a tree is written, parents first: of siblings the heaviest first, then by name."""
        size = self.with_inner(np.ones(len(self), np.int64))
        rank_of = {text: rank for rank, text in enumerate(sorted(set(texts)))}
        rank = np.array([rank_of[text] for text in texts], np.int64)
        place = np.zeros(len(self), np.int64)
        for level in self._levels:
            begins = np.where(self.parent[level] >= 0, place[self.parent[level]] + 1, 0)
            order = np.lexsort((rank[level], -weight[level], begins))
            sizes, family = size[level][order], begins[order]
            before = np.cumsum(sizes) - sizes
            first = furthest(np.where(np.diff(family, prepend=-1) != 0, before, 0))
            place[np.arange(level.start, level.stop)[order]] = family + before - first
        return np.argsort(place, kind="stable")

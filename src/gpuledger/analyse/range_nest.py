"""Ranges as a forest: which encloses which, and what is added up or handed down along it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuledger.trace.keys import Positions
from gpuledger.trace.spans import depths
from gpuledger.trace.tables import Rows


def levels(parent: Positions) -> Iterator[Positions]:
    """Positions of a forest level by level, the outermost first."""
    level = depths(parent)
    order = np.argsort(level, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(level[order])) + 1)


@dataclass(frozen=True, slots=True, eq=False)
class Nest:
    """Ranges of one kind, and which encloses which: `parent` holds positions in `rows`, -1 for the outermost."""

    rows: Rows
    parent: Positions

    def __len__(self) -> int:
        return len(self.rows)

    def levels(self) -> Iterator[Positions]:
        """Positions level by level, the outermost first."""
        yield from levels(self.parent)

    def summed_up(self, own: NDArray[Any]) -> NDArray[Any]:
        """Each row's own amounts with those of all that it encloses."""
        whole = own.copy()
        for here in reversed(list(self.levels())):
            inside = here[self.parent[here] >= 0]
            np.add.at(whole, self.parent[inside], whole[inside])
        return whole

    def outermost(self) -> Positions:
        """For each row the outermost one around it."""
        outermost = np.arange(len(self))
        for here in self.levels():
            inside = here[self.parent[here] >= 0]
            outermost[inside] = outermost[self.parent[inside]]
        return outermost

    def handed_down(self, values: Positions) -> Positions:
        """Each row's value, or where that is -1 the value of the nearest row around it that has one."""
        nearest = values.copy()
        for here in self.levels():
            lacking = here[(nearest[here] < 0) & (self.parent[here] >= 0)]
            nearest[lacking] = nearest[self.parent[lacking]]
        return nearest

"""The cells of a runbook's matrix: axes in, cells out; which of them a filter means, and which of them make a pair."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpuledger.runbook.definition import Runbook, Step

MOST_CELLS: Final = 1_000
ONLY: Final = "the only cell"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.=-]+")
_LONGEST: Final = 100


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One combination of values. `folder` is the name of its folder: no two cells share one, in any letter case."""

    values: tuple[tuple[str, str], ...]
    folder: str

    @property
    def title(self) -> str:
        """For people."""
        return ", ".join(f"{axis}={value}" for axis, value in self.values) or ONLY

    def is_in(self, wanted: Mapping[str, Collection[str]], size: str = "") -> bool:
        own = dict(self.values) | {"size": size}
        return all(own[axis] in values for axis, values in wanted.items())

    def steps(self, book: Runbook, size: str) -> tuple[Step, ...]:
        """The steps that are for this cell."""
        return tuple(step for step in book.steps if self.is_in(step.when, size))


def cells_of(book: Runbook) -> tuple[MatrixCell, ...]:
    """Every cell that is not excluded, the last axis turning fastest."""
    axes = [[(name, str(value)) for value in axis.values] for name, axis in book.axes.items()]
    cells, taken = [], set[str]()
    for values in itertools.product(*axes):
        folder = _folder(values, taken)
        cell = MatrixCell(values, folder)
        if not any(cell.is_in(excluded) for excluded in book.exclude):
            cells.append(cell)
    return tuple(cells)


def pairs(
    cells: Sequence[MatrixCell], before: Mapping[str, Collection[str]], after: Mapping[str, Collection[str]]
) -> list[tuple[MatrixCell, MatrixCell]]:
    """Cells of `before` with those of `after` that agree in every axis that neither names."""
    named = {*before, *after}

    def others(cell: MatrixCell) -> tuple[tuple[str, str], ...]:
        return tuple((axis, value) for axis, value in cell.values if axis not in named)

    return [
        (first, second)
        for first in cells
        if first.is_in(before)
        for second in cells
        if second.is_in(after) and others(first) == others(second) and first != second
    ]


def _folder(values: tuple[tuple[str, str], ...], taken: set[str]) -> str:
    plain = "__".join(f"{axis}={value}" for axis, value in values) or "only"
    name = _UNSAFE.sub("_", plain)[:_LONGEST]
    unique = next(
        candidate
        for candidate in itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
        if candidate.casefold() not in taken
    )
    taken.add(unique.casefold())
    return unique

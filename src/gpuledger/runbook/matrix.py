"""The cells of a runbook's matrix: axes in, cells out; which of them a pick means, and which of them make a pair."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpuledger.runbook.book import TOOLS, Capture, Command, Pick, Runbook, Step

MOST_CELLS: Final = 1_000
ONLY: Final = "the only cell"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.=-]+")
_LONGEST: Final = 100


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of values. `folder` is the name of its folder: no two cells share one, in any letter case."""

    values: tuple[tuple[str, str], ...]
    folder: str

    @property
    def title(self) -> str:
        """For people."""
        return ", ".join(f"{axis}={value}" for axis, value in self.values) or ONLY

    def is_in(self, pick: Pick, size: str = "") -> bool:
        own = dict(self.values) | {"size": size}
        return all(own[axis] in values for axis, values in pick.items())

    def steps(self, book: Runbook, size: str) -> tuple[Step, ...]:
        """The steps that are for this cell."""
        return tuple(step for step in book.steps if self.is_in(step.when, size))


def cells_of(book: Runbook) -> tuple[Cell, ...]:
    """Every cell that is not excluded, the last axis turning fastest."""
    axes = [[(axis.name, value) for value in axis.values] for axis in book.axes]
    cells, taken = [], set[str]()
    for values in itertools.product(*axes):
        folder = _folder(values, taken)
        cell = Cell(values, folder)
        if not any(cell.is_in(pick) for pick in book.exclude):
            cells.append(cell)
    return tuple(cells)


def pairs(cells: Sequence[Cell], before: Pick, after: Pick) -> list[tuple[Cell, Cell]]:
    """Cells of `before` with those of `after` that agree in every axis that neither names."""
    named = {*before, *after}

    def others(cell: Cell) -> tuple[tuple[str, str], ...]:
        return tuple(each for each in cell.values if each[0] not in named)

    return [
        (one, other)
        for one in cells
        if one.is_in(before)
        for other in cells
        if other.is_in(after) and others(one) == others(other) and one != other
    ]


def profiles_of(step: Step) -> dict[str, str]:
    """The profiles that a step leaves, each with its file in the cell's folder."""
    if isinstance(step.does, Capture):
        return {step.name: f"{step.name}{TOOLS[step.does.tool]}"}
    return dict(step.does.makes) if isinstance(step.does, Command) else {}


def _folder(values: tuple[tuple[str, str], ...], taken: set[str]) -> str:
    plain = "__".join(f"{axis}={value}" for axis, value in values) or "only"
    name = _UNSAFE.sub("_", plain)[:_LONGEST]
    unique = next(
        each
        for each in itertools.chain([name], (f"{name}-{at}" for at in itertools.count(2)))
        if each.casefold() not in taken
    )
    taken.add(unique.casefold())
    return unique

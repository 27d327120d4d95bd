"""Two sides that can be compared step by step: how to read them in, both by steps or by what repeats out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpuledger.analyse.diff.run_side import STEP, WINDOW, RunSide
from gpuledger.ledger.steps import Wanted


def like_sides(read: Callable[[Wanted], tuple[RunSide, RunSide]], wanted: Wanted) -> tuple[RunSide, RunSide]:
    """Two sides; where neither has steps, by what repeats in both, if anything does."""
    sides = read(wanted)
    if any(side.whole != WINDOW for side in sides):
        return sides
    repeated = read(replace(wanted, any_level=True))
    return repeated if all(side.whole == STEP for side in repeated) else sides

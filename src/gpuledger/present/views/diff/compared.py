"""All that there is to show of a comparison."""

from __future__ import annotations

from dataclasses import dataclass

from gpuledger.analyse.diff.compare import Diff
from gpuledger.analyse.diff.gate import GateOutcome


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison, and how its gates turned out."""

    diff: Diff
    outcomes: tuple[GateOutcome, ...] = ()

"""PASS, FAIL or UNDECIDED: a figure with its interval, and a limit, in; the verdict and what would decide out.

A figure passes where its whole interval is within the limit, fails where the whole is beyond, and is undecided else.
"""

from __future__ import annotations

import math
from typing import Final, Literal

from msgspec import Struct

PASS: Final = "PASS"  # noqa: S105 - no password
FAIL: Final = "FAIL"
UNDECIDED: Final = "UNDECIDED"

Verdict = Literal["PASS", "FAIL", "UNDECIDED"]


class DoubtfulFigure(Struct, frozen=True):
    """A figure, and where it lies in 95 of 100 cases; a figure without doubt lies where it is."""

    value: float
    low: float
    high: float
    samples: int = 1

    def at_most(self, limit: float) -> Verdict:
        """Whether it is no larger than a limit."""
        return PASS if self.high <= limit else FAIL if self.low > limit else UNDECIDED

    def at_least(self, limit: float) -> Verdict:
        """Whether it is no smaller than a limit."""
        return PASS if self.low >= limit else FAIL if self.high < limit else UNDECIDED

    def deciding_samples(self, limit: float) -> int | None:
        """How many samples in all would part it from a limit, if it stays where it is; None where no number would.

        An interval is half as wide with four times as many samples.
        """
        reach = self.high - self.value if limit > self.value else self.value - self.low
        apart = abs(limit - self.value)
        if reach <= apart:
            return self.samples
        return math.ceil(self.samples * (reach / apart) ** 2) if apart > reach / 100 else None

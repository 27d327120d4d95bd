"""One counter of one kernel, as far as it is known."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UseFigure:
    """One counter of one kernel, in percent of the time that Nsight Compute would give the kernel."""

    percent: float
    low: float
    high: float

    def holds(self, percent: float) -> bool:
        """Whether the interval has this number."""
        return self.low <= percent <= self.high

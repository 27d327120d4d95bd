"""Which samples of a long capture are looked at: when things ran in, some stretches of time out.

A minute has more samples than levels become sharper by. Of a long capture, stretches of some milliseconds are looked
at, spread evenly, and those in which something ran that runs rarely. The choice depends on when things ran, never on
what was measured, so that it moves no level.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.use.shares import ColumnSpans
from gpuledger.trace import sweep
from gpuledger.trace.spans import Ints

MOST_SAMPLES: Final = 120_000
_STRETCH: Final = 64
"""Samples."""
_RARE: Final = 100
"""A column that ran so often is looked at each time."""


@dataclass(frozen=True, slots=True, eq=False)
class LookedAt:
    """Stretches of some samples each, and which of them are looked at."""

    edges_ns: Ints
    """Where each stretch begins."""
    chosen: NDArray[np.bool_]
    reach_ns: int
    """How far from a stretch something may lie and still be in its samples."""

    @classmethod
    def of(cls, stamp_ns: Ints, period_ns: int, spans: ColumnSpans) -> LookedAt:
        edges = stamp_ns[::_STRETCH]
        every = max(len(stamp_ns) // MOST_SAMPLES, 1)
        looked = cls(edges, np.arange(len(edges)) % every == 0, 3 * period_ns)
        if every > 1:
            rare = np.bincount(spans.column, minlength=spans.columns) <= _RARE
            first, last = looked._stretches(spans.start_ns, spans.end_ns)
            looked.chosen[np.concatenate((first, last))[np.tile(rare[spans.column], 2)]] = True
        return looked

    def samples(self, count: int) -> NDArray[np.bool_]:
        """Which of so many samples are looked at."""
        return np.repeat(self.chosen, _STRETCH)[:count]

    def near(self, start_ns: Ints, end_ns: Ints) -> NDArray[np.bool_]:
        """Which of these may be in a sample that is looked at."""
        first, last = self._stretches(start_ns, end_ns)
        so_far = np.append(0, np.cumsum(self.chosen))
        return so_far[last + 1] > so_far[first]

    def _stretches(self, start_ns: Ints, end_ns: Ints) -> tuple[Ints, Ints]:
        first, last = (
            np.clip(sweep.search(self.edges_ns, instant, "right") - 1, 0, len(self.edges_ns) - 1)
            for instant in (start_ns - self.reach_ns, end_ns + self.reach_ns)
        )
        return first, last

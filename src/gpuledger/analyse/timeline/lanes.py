"""Lanes: records of one track in, for each the lowest lane in which nothing else is at that time, out.

What nests lies under what encloses it, as in a flame graph; what crosses gets a lane of its own.
"""

from __future__ import annotations

import numpy as np

from gpuledger.trace.spans import Ints


def lanes(start_ns: Ints, end_ns: Ints) -> Ints:
    """For records sorted by start, the longer first. Lists are short: a timeline holds some 50,000 records."""
    busy_until: list[int] = []
    chosen = []
    for start, end in zip(start_ns.tolist(), end_ns.tolist(), strict=True):
        lane = 0
        for until in busy_until:
            if until <= start:
                busy_until[lane] = end
                break
            lane += 1
        else:
            busy_until.append(end)
        chosen.append(lane)
    return np.array(chosen, np.int64)

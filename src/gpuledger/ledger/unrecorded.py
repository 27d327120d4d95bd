"""Waits for work that is not in the file: the first recorded activity of a stream that was queued long before it ran.

A recording that begins in the middle of a run, as a serving engine's does, holds what was launched after it began. The
device still works on what was launched before, which nobody recorded; the first activity of each stream waits for it.
That time is neither work nor idleness that anybody could remove.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.ledger.activity import Activities
from gpuledger.ledger.host import Host
from gpuledger.trace.columns import distinct
from gpuledger.trace.keys import Positions, group

LEAST_NS: Final = 100_000
"""A shorter wait is the device's own."""


def waits_for_unrecorded(work: Activities, host: Host, positions: Positions) -> NDArray[np.bool_]:
    """Which of these activities ran long after they were queued though nothing else is known of their stream."""
    call = work.launch[positions]
    known = call >= 0
    waits = known.copy()
    returned = host.calls["end_ns"][call[known]]
    waits[known] = work.start_ns[positions[known]] - returned > LEAST_NS
    waits[waits] = _are_first_of_stream(work, positions[waits])
    return waits


def _are_first_of_stream(work: Activities, positions: Positions) -> NDArray[np.bool_]:
    """Which of these activities are the first that was recorded of their stream of their process on their GPU."""
    if not len(positions):
        return np.zeros(0, np.bool_)
    rows = np.flatnonzero(np.isin(work.stream, distinct(work.stream[positions])))
    first, _ = group(work.pid[rows], work.gpu[rows], work.stream[rows])
    are_first: NDArray[np.bool_] = np.isin(positions, rows[first])
    return are_first

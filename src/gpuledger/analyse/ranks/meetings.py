"""Which communication kernels of one profile are one collective: its ranks in, a number for each operation out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.ranks.matching import matched_lanes
from gpuledger.analyse.ranks.rank import RankSummary
from gpuledger.analyse.ranks.rank_traces import Place
from gpuledger.ledger.activity import Activities, State
from gpuledger.trace.keys import Positions
from gpuledger.trace.spans import Ints


def meetings(ranks: Sequence[RankSummary], work: Activities) -> NDArray[np.int32]:
    """Operations of one number are one collective on several of these ranks, which are all of one profile; -1: none.

    `work` is the whole profile's.
    """
    number = np.full(len(work), -1, np.int32)
    count = 0
    for lane in matched_lanes(ranks):
        places = [ranks[member].place for member in lane.members]
        if not len(lane) or any(place is None for place in places):
            continue
        operations = np.stack(
            [_at(work, place, lane.start_ns[:, column]) for column, place in enumerate(places) if place is not None],
            axis=1,
        )
        there = (operations >= 0).all(axis=1)
        rows = operations[there]
        number[rows] = (count + np.arange(len(rows)))[:, None]
        count += len(rows)
    return number


def _at(work: Activities, place: Place, start_ns: Ints) -> Positions:
    """The communication kernel of a rank that begins at each of these instants; -1 where it cannot be told."""
    own = (work.state == State.COMM) & (work.gpu == place.gpu) & (work.pid == place.pid)
    rows = np.flatnonzero(own)
    if not len(rows):
        return np.full(len(start_ns), -1, np.intp)
    first, last = (np.searchsorted(work.start_ns[rows], start_ns, side=side) for side in ("left", "right"))
    return np.where(last == first + 1, rows[np.minimum(first, len(rows) - 1)], -1)

"""What fixing ranks buys: matched collectives and the ranks' exposed communication in, the waiting that would go, out.

A fixed rank arrives no later than the latest rank that is not fixed, and where it came before that, as it does now. So
of a collective's waiting goes what lies after the latest arrival among the others; if all are fixed, all of it. Only
waiting while nothing computed counts. An instant at which a rank waits at two collectives counts for the one that it
came to first.

Nothing is replayed: that ranks which wait less come earlier to their next collective, and may wait there instead, is
left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.ranks.clocks import RankClock
from gpuledger.analyse.ranks.matching import Lane
from gpuledger.analyse.ranks.rank import RankSummary
from gpuledger.trace.spans import Ints, Spans, clip, covered, shares_in_order

MOST_TOGETHER: Final = 20
"""So many ranks are fixed one after the other."""


@dataclass(frozen=True, slots=True)
class FixedToo:
    """One more rank that is fixed, and what is bought by it and those before it together."""

    rank: int
    """A position in `Job.ranks`."""
    together_ns: int
    """Of the exposed waiting of all ranks in the steady stretch."""


@dataclass(frozen=True, slots=True)
class Fixing:
    """Exposed waiting of all ranks in the steady stretch, added up, and what of it would go."""

    waited_ns: int
    alone_ns: tuple[int, ...]
    """For each rank what goes if only it is fixed. Together they are at most `waited_ns`."""
    together: tuple[FixedToo, ...]
    """The rank most waited for, then the one most waited for once that is fixed, and so on, until nobody waits."""


def fixing(
    ranks: Sequence[RankSummary], clocks: Sequence[RankClock], lanes: Sequence[Lane], most: int = MOST_TOGETHER
) -> Fixing:
    """What fixing each rank buys, and up to `most` of them together."""
    queues = [_Queue(lane, begin, end) for lane, begin, end in _own_waits(len(ranks), lanes)]
    exposed = [_exposed(rank, clock) for rank, clock in zip(ranks, clocks, strict=True)]
    alone = np.zeros(len(ranks), np.int64)
    left = []
    for queue in queues:
        rows = np.arange(len(queue.place))
        waited = queue.waited(exposed, rows)
        left.append(waited)
        np.add.at(alone, queue.last, waited - queue.waited(exposed, rows, but=1))
    whole = sum(int(waited.sum()) for waited in left)
    together: list[FixedToo] = []
    fixed = np.zeros(len(ranks), np.bool_)
    while (still := sum(int(waited.sum()) for waited in left)) and len(together) < most:
        blame = np.zeros(len(ranks), np.int64)
        for queue, waited in zip(queues, left, strict=True):
            np.add.at(blame, queue.last, waited)
        latest = int(blame.argmax())
        fixed[latest] = True
        for queue, waited in zip(queues, left, strict=True):
            rows = np.flatnonzero(queue.last == latest)
            queue.step_back(rows, fixed)
            freed = waited[rows] - queue.waited(exposed, rows)
            waited[rows] -= freed
            still -= int(freed.sum())
        together.append(FixedToo(latest, whole - still))
    return Fixing(whole, tuple(alone.tolist()), tuple(together))


class _Queue:
    """One lane's collectives, and at each of them the latest rank that is not fixed yet."""

    def __init__(self, lane: Lane, begin_ns: Ints, end_ns: Ints) -> None:
        self._members = np.array(lane.members)
        self._begin_ns, self._end_ns = begin_ns, end_ns
        start_ns = lane.start_ns[lane.steady]
        # of ranks that arrive together the first counts as the last, as in `Lane.late`
        order = np.argsort(-start_ns, axis=1, kind="stable")
        self._ranks = self._members[order]
        self._arrivals_ns = np.take_along_axis(start_ns, order, axis=1)
        self.place = np.zeros(len(start_ns), np.int64)

    @property
    def last(self) -> Ints:
        """The latest rank of each collective; of all that are left the earliest stays, whether it is fixed or not."""
        return np.asarray(self._ranks[np.arange(len(self.place)), self.place], np.int64)

    def waited(self, exposed: Sequence[Spans], rows: Ints, but: int = 0) -> Ints:
        """What all ranks wait at some collectives until the latest comes, or that many places before it."""
        until_ns = self._arrivals_ns[rows, np.minimum(self.place[rows] + but, len(self._members) - 1)]
        waited = np.zeros(len(rows), np.int64)
        for column, member in enumerate(self._members.tolist()):
            end_ns = np.minimum(self._end_ns[rows, column], until_ns)
            waited += covered(exposed[member], self._begin_ns[rows, column], end_ns)
        return waited

    def step_back(self, rows: Ints, fixed: NDArray[np.bool_]) -> None:
        """At some collectives go back to the latest rank that is not fixed."""
        behind = len(self._members) - 1
        while len(rows):
            rows = rows[(self.place[rows] < behind) & fixed[self._ranks[rows, self.place[rows]]]]
            self.place[rows] += 1


def _own_waits(ranks: int, lanes: Sequence[Lane]) -> list[tuple[Lane, Ints, Ints]]:
    """Each lane with where every wait of its steady collectives begins and ends, so that no rank's waits overlap."""
    begin = [lane.start_ns[lane.steady] for lane in lanes]
    end = [start + lane.wait_ns[lane.steady] for start, lane in zip(begin, lanes, strict=True)]
    for rank in range(ranks):
        columns = [(at, lane.members.index(rank)) for at, lane in enumerate(lanes) if rank in lane.members]
        if not columns:
            continue
        starts, ends = (np.concatenate([side[at][:, column] for at, column in columns]) for side in (begin, end))
        order = np.argsort(starts, kind="stable")
        starts[order], ends[order] = shares_in_order(starts[order], ends[order])
        edges = np.cumsum([len(begin[at]) for at, _ in columns])[:-1]
        for (at, column), own_start, own_end in zip(
            columns, np.split(starts, edges), np.split(ends, edges), strict=True
        ):
            begin[at][:, column], end[at][:, column] = own_start, own_end
    return list(zip(lanes, begin, end, strict=True))


def _exposed(rank: RankSummary, clock: RankClock) -> Spans:
    """When a rank only communicated in its steady stretch, on the first rank's clock."""
    own = clip(rank.exposed, rank.steady)
    return Spans(own.start_ns - clock.offset_ns, own.end_ns - clock.offset_ns)

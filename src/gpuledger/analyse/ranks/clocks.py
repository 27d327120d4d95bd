"""The clocks of ranks: matched collectives in, each rank's clock against the first one's, and times on one clock, out.

Ranks of one capture share its clock, and there is nothing to set right between them. Between two clocks, the usual
distance between the ends of a collective is their offset, and how far single distances scatter around it is the
residual.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from gpuledger.analyse.ranks.matching import CLOCKS_AGREE_NS, Lane
from gpuledger.analyse.ranks.rank import RankSummary
from gpuledger.analyse.ranks.rank_collectives import KINDS
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.spans import Ints
from gpuledger.trace.statistics import lower_median
from gpuledger.trace.tables import NOT_RECORDED

CLEARLY_OFF: Final = 4
"""Times what the ends of collectives scatter: then a clock is set right."""

CLOCK_TICK_NS: Final = 2_000
"""Less is below what older traces record."""

_ONE_WAY: Final = np.isin(KINDS, ("broadcast", "reduce"))
"""Kinds in which a rank that only gives may end before another begins."""


@dataclass(frozen=True, slots=True)
class RankClock:
    """One rank's clock against the first rank's."""

    ahead_ns: int | NotMeasured
    """By how much it is ahead, as the ends of collectives say."""
    offset_ns: int
    """What was taken off its times: 0 where the clocks agree or nothing tells."""
    residual_ns: int | NotMeasured
    """The median distance of single collectives from `ahead_ns`."""

    @property
    def open_ns(self) -> int:
        """How much of a difference the clock leaves open; 0 where nothing tells."""
        return 0 if isinstance(self.residual_ns, NotMeasured) else self.residual_ns


def rank_clocks(members: Sequence[RankSummary], lanes: Sequence[Lane]) -> tuple[RankClock, ...]:
    """Each rank's clock against the first one's, through ranks that share collectives with both where need be."""
    unknown = NotMeasured("it shares no matched collective with the other ranks")
    clocks = [RankClock(unknown, 0, unknown)] * len(members)
    waiting = _by_clock(members)
    ahead: dict[int, int] = {}
    for rank in waiting.pop(0) if waiting else ():
        ahead[rank], clocks[rank] = 0, RankClock(0, 0, 0)
    before = 0
    while len(ahead) > before:
        placed, before = dict(ahead), len(ahead)
        for ranks in (ranks for ranks in waiting if ranks[0] not in placed):
            distance = _distances(ranks, lanes, placed)
            if len(distance):
                middle = lower_median(distance)
                residual = lower_median(np.abs(distance - middle))
                is_off = abs(middle) > max(CLEARLY_OFF * residual, CLOCK_TICK_NS)
                for rank in ranks:
                    ahead[rank], clocks[rank] = middle, RankClock(middle, middle if is_off else 0, residual)
    return tuple(clocks)


def _by_clock(members: Sequence[RankSummary]) -> list[list[int]]:
    """The ranks that share a clock, the first rank's first."""
    shared: dict[str | int, list[int]] = {}
    for number, rank in enumerate(members):
        shared.setdefault(number if rank.clock is None else rank.clock, []).append(number)
    return list(shared.values())


def _distances(ranks: Sequence[int], lanes: Sequence[Lane], placed: dict[int, int]) -> Ints:
    """How much later than on the first rank the collectives of ranks on one clock end; through any whose is known."""
    distances, sure = [np.empty(0, np.int64)], [np.empty(0, np.bool_)]
    for lane in lanes:
        own, other = (next((member for member in lane.members if member in group), None) for group in (ranks, placed))
        if own is not None and other is not None:
            mine, theirs = (lane.end_ns[:, lane.members.index(member)] for member in (own, other))
            distances.append(mine - theirs + placed[other])
            sure.append(~_ONE_WAY[lane.kind])
    distance, good = np.concatenate(distances), np.concatenate(sure)
    return distance[good] if good.any() else distance


def on_one_clock(members: Sequence[RankSummary], lane: Lane, clocks: Sequence[RankClock]) -> Lane:
    """The same with times on the first rank's clock, and where they lie in the steps."""
    offset = np.array([clocks[member].offset_ns for member in lane.members], np.int64)
    ranks = [members[member] for member in lane.members]
    begin, end = (np.array([rank.steady[side] for rank in ranks], np.int64) for side in (0, 1))
    steady = np.all((lane.start_ns >= begin) & (lane.start_ns < end), axis=1)
    step = lane.step
    if ranks and len(edges := ranks[0].edges_ns):
        step = np.searchsorted(edges, lane.start_ns[:, 0], side="right") - 1
        step = np.where(step < len(edges) - 1, step, -1)
    launched = np.where(lane.launched_ns == NOT_RECORDED, NOT_RECORDED, lane.launched_ns - offset)
    start, ended = lane.start_ns - offset, lane.end_ns - offset
    return replace(lane, start_ns=start, end_ns=ended, launched_ns=launched, steady=steady, step=step)


def overlapping(lane: Lane, clocks: Sequence[RankClock]) -> Lane:
    """Without those that only order has matched: on one rank over before another rank began."""
    slack = CLOCKS_AGREE_NS + 5 * max((clocks[member].open_ns for member in lane.members), default=0)
    first_end = lane.end_ns.min(axis=1, initial=np.iinfo(np.int64).max)
    kept = (first_end >= lane.last_ns - slack) | _ONE_WAY[lane.kind]
    columns = ("kind", "bytes", "start_ns", "end_ns", "launched_ns", "steady", "step")
    return replace(lane, **{name: getattr(lane, name)[kept] for name in columns})

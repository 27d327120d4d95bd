"""Collectives that take longer than their like: matched lanes in; by how much, and at which place in the step, out.

Like are those of one kind and size, in groups of as many ranks; where sizes are not recorded, those at one place in the
step. What counts is the transfer: the time from the last arrival to the first end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuledger.analyse.ranks.collectives import ordinals
from gpuledger.analyse.ranks.joined_ranks import JoinedRanks
from gpuledger.analyse.ranks.matching import Lane
from gpuledger.analyse.ranks.rank_collectives import KINDS
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.spans import Ints
from gpuledger.trace.statistics import lower_median


@dataclass(frozen=True, slots=True, eq=False)
class SlowPlace:
    """A collective of the step that takes longer than its like do."""

    kind: str
    group: str
    members: tuple[int, ...]
    """Positions in `Job.ranks`."""
    ordinal: int
    """The how-manieth of its kind in the group's step, from 1."""
    longer_ns: int
    """Than its like, in all measured steps."""
    operations: Positions
    """Its kernels, among those of the joined ranks."""
    change_ns: Ints
    """By how much each changes if it takes as long as its like."""


def slow_places(ranks: JoinedRanks, lanes: Sequence[Lane], most: int) -> tuple[SlowPlace, ...]:
    """The slowest first."""
    if not lanes:
        return ()
    longer = _longer(lanes)
    ordinal = [ordinals(lane) for lane in lanes]
    met = np.flatnonzero((ranks.graph.operations.group >= 0) & (ranks.step >= 0))
    lane, row = ranks.lane[met], ranks.row[met]
    begins = np.cumsum([0, *map(len, lanes)])[:-1]
    at = begins[lane] + row
    kind = np.concatenate([each.kind for each in lanes])[at]
    nth = np.concatenate(ordinal)[at]
    by = np.concatenate(longer)[at]
    first, place = group(lane, kind, nth)
    counted = np.where(ranks.is_measured[met], by, 0) / np.array([len(each.members) for each in lanes])[lane]
    totals = np.bincount(place, counted, minlength=len(first))
    chosen = [number for number in np.argsort(-totals, kind="stable")[:most].tolist() if totals[number] > 0]
    return tuple(
        SlowPlace(
            kind=KINDS[kind[first[number]]],
            group=lanes[lane[first[number]]].name,
            members=lanes[lane[first[number]]].members,
            ordinal=int(nth[first[number]]),
            longer_ns=round(totals[number]),
            operations=met[place == number],
            change_ns=-by[place == number],
        )
        for number in chosen
    )


def _longer(lanes: Sequence[Lane]) -> list[Ints]:
    """For each collective of each lane by how much its transfer is longer than the median of its like."""
    number, nth, kind, size, ranks, transfer = (
        np.concatenate(columns)
        for columns in zip(
            *(
                (
                    np.full(len(lane), at),
                    ordinals(lane),
                    lane.kind,
                    lane.bytes,
                    np.full(len(lane), lane.size),
                    lane.transfer_ns,
                )
                for at, lane in enumerate(lanes)
            ),
            strict=True,
        )
    )
    is_sized = size >= 0
    _, like = group(kind, ranks, np.where(is_sized, size, -1 - number), np.where(is_sized, 0, nth))
    order = np.argsort(like, kind="stable")
    longer = np.empty(len(transfer), np.int64)
    for rows in np.split(order, np.flatnonzero(np.diff(like[order])) + 1):
        longer[rows] = transfer[rows] - lower_median(transfer[rows])
    return np.split(longer, np.cumsum([len(lane) for lane in lanes])[:-1])

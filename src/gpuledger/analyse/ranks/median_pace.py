"""The median rank's pace: joined ranks in; what each operation, call and stretch of code would take at it, out.

A step is cut into stretches by the collectives that a rank takes part in, in the order in which it launches them. Ranks
of one role run the same program, so that a stretch of one is that of the others. Of every stretch, what its kernels
take in all, its copies, its host's code and so on, becomes what the median rank takes for it. Where all ranks have as
many kernels or calls in the stretch, each becomes the median of its equals, in proportion; else all of them change by
the same factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.ranks.joined_ranks import JoinedRanks
from gpuledger.analyse.ranks.rank_work import OF_CODE, WorkPart
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.spans import Ints, furthest


@dataclass(frozen=True, slots=True, eq=False)
class MedianPace:
    """By how much everything would change at the median rank's pace; 0 where nothing is known to compare it with."""

    operation_ns: Ints
    call_ns: Ints
    code_ns: Ints
    """The host's own code before each call."""
    known_code_ns: Ints
    """The rest of it, a column for each of `OF_CODE`."""
    is_measured: NDArray[np.bool_]
    """Which calls belong to the measured steps."""


def median_pace(ranks: JoinedRanks, roles: Sequence[int]) -> MedianPace:
    """`roles` has a number for each rank: those with the same one are compared."""
    stretch, call_stretch, each_step = stretches(ranks)
    own = np.flatnonzero((stretch >= 0) & (ranks.lane < 0))
    own = own[np.lexsort((ranks.graph.recorded.start[own], ranks.graph.operations.call[own]))]
    calls = np.flatnonzero((call_stretch >= 0) & ~ranks.is_first_call)
    graph = ranks.graph
    code = graph.calls.code_ns[calls] - ranks.code_ns[calls].sum(axis=1)
    # a call's code comes before it: the two alternate
    duration = np.where(ranks.synchronises[calls], 0, graph.calls.duration_ns[calls])
    host = np.stack((code, duration), axis=1).ravel()
    known = np.flatnonzero(ranks.code_ns.any(axis=0)).tolist()
    values = [graph.operations.duration_ns[own], host, *(ranks.code_ns[calls, column] for column in known)]
    rank_of = [ranks.rank_of_operation[own], np.repeat(ranks.rank_of_call[calls], 2)]
    rank_of += [ranks.rank_of_call[calls]] * len(known)
    stretch_of = [stretch[own], np.repeat(call_stretch[calls], 2), *([call_stretch[calls]] * len(known))]
    part_of = [ranks.part[own].astype(np.int64), np.full(len(host), WorkPart.HOST)]
    part_of += [np.full(len(calls), OF_CODE[column]) for column in known]
    rank, value = np.concatenate(rank_of), np.concatenate(values)
    key = np.concatenate(stretch_of) * len(WorkPart) + np.concatenate(part_of)
    change = np.zeros(len(value), np.int64)
    role = np.array(roles)
    for number in np.unique(role):
        members = np.flatnonzero(role == number)
        rows = np.flatnonzero(role[rank] == number)
        if len(members) > 1 and len(rows):
            place = np.searchsorted(members, rank[rows])
            change[rows] = _medians(value[rows], group(key[rows])[1], place, len(members)) - value[rows]
    measured = call_stretch >= ranks.first_measured * each_step
    return _spread(ranks, (own, calls, known), change, measured)


def _spread(
    ranks: JoinedRanks, rows: tuple[Positions, Positions, list[int]], change: Ints, measured: NDArray[np.bool_]
) -> MedianPace:
    """The changes, back where they belong: operations, calls with their code, and columns of what is known of it."""
    own, calls, columns = rows
    operation = np.zeros(len(ranks.graph.operations), np.int64)
    operation[own] = change[: len(own)]
    host = change[len(own) : len(own) + 2 * len(calls)].reshape(-1, 2)
    code, call = (np.zeros(len(ranks.graph.calls), np.int64) for _ in range(2))
    code[calls], call[calls] = host[:, 0], host[:, 1]
    known = np.zeros(ranks.code_ns.shape, np.int64)
    if columns:
        known[np.ix_(calls, np.array(columns))] = change[len(own) + 2 * len(calls) :].reshape(len(columns), -1).T
    return MedianPace(operation, call, code, known, measured)


def _medians(value: Ints, key: Ints, rank: Ints, ranks: int) -> Ints:
    """What each value becomes: those of one key sum to what the median rank's do. In order within key and rank."""
    keys, place = int(key.max()) + 1, key * ranks + rank
    totals = np.bincount(place, value, minlength=keys * ranks).reshape(keys, ranks).astype(np.float64)
    counts = np.bincount(place, minlength=keys * ranks).reshape(keys, ranks)
    usual = _lower_median(totals)
    own = totals.ravel()[place]
    becomes = np.where(own > 0, value * (usual[key] / np.maximum(own, 1)), value)
    is_even = (counts == counts[:, :1]).all(axis=1)
    order = np.argsort(place, kind="stable")
    rows = order[is_even[key[order]]]
    if len(rows):
        each = np.where(is_even, counts[:, 0], 0)
        begin = np.cumsum(each) - each
        nth = np.arange(len(order)) - np.searchsorted(place[order], place[order], side="left")
        slot = begin[key[rows]] + nth[is_even[key[order]]]
        table = np.empty((int(each.sum()), ranks))
        table[slot, rank[rows]] = value[rows]
        middle = _lower_median(table)
        sums = np.bincount(np.repeat(np.arange(keys), each), middle, minlength=keys)
        known = sums[key[rows]] > 0
        rows, slot = rows[known], slot[known]
        becomes[rows] = middle[slot] * (usual[key[rows]] / sums[key[rows]])
    return np.rint(becomes).astype(np.int64)


def _lower_median(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each row."""
    middle = (table.shape[1] - 1) // 2
    return np.partition(table, middle, axis=1)[:, middle]


def stretches(ranks: JoinedRanks) -> tuple[Ints, Ints, int]:
    """The stretch that each operation and each call belongs to, -1 for none; and how many numbers a step has.

    Stretches go by the step, and by the collectives before them in it.
    """
    graph, step = ranks.graph, ranks.step
    call, start = graph.operations.call, graph.recorded.start
    by_start = np.lexsort((start, ranks.rank_of_operation))
    filled = np.empty(len(call), np.int64)
    filled[by_start] = furthest(call[by_start])
    launched = np.where(call >= 0, call, filled)  # what no call launched comes after what began before it
    order = np.lexsort((start, launched, step, ranks.rank_of_operation))
    meets = (ranks.lane[order] >= 0).astype(np.int64)
    before = np.cumsum(meets) - meets
    begins = np.append(True, (np.diff(step[order]) != 0) | (np.diff(ranks.rank_of_operation[order]) != 0))[: len(order)]
    before -= furthest(np.where(begins, before, 0))
    most = int(before.max(initial=0)) + 1
    stretch = np.empty(len(call), np.int64)
    stretch[order] = np.where(step[order] >= 0, step[order] * most + before, -1)
    of_call = np.full(len(graph.calls) + 1, -1, np.int64)
    first_wins = order[::-1]
    of_call[call[first_wins]] = stretch[first_wins]  # the last is for what no call launched
    return stretch, _of_the_next(of_call[:-1], graph.calls.thread), most


def _of_the_next(known: Ints, thread: NDArray[np.int32]) -> Ints:
    """Calls that launched nothing go with the next one of their thread that did; -1 where none follows."""
    order = np.argsort(thread, kind="stable")
    place = np.where(known[order] >= 0, np.arange(len(order)), len(order))
    following = np.minimum.accumulate(place[::-1])[::-1] if len(order) else place
    there = np.minimum(following, max(len(order) - 1, 0))
    is_own = (following < len(order)) & (thread[order][there] == thread[order])
    filled = np.full(len(known), -1, np.int64)
    filled[order] = np.where(is_own, known[order][there], -1)
    return filled

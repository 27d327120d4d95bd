"""A job's ranks as one dependency graph: their kept steps in, the graph in which their collectives meet out.

Times are on the first rank's clock, steps go by the first rank's numbers. Replayed as it is, every rank's times come
out as they were recorded. Edits: ranks at the pace of the median rank, collectives as fast as their like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from gpuledger.analyse.ranks.collectives import ordinals_in_step
from gpuledger.analyse.ranks.job import step_shifts
from gpuledger.analyse.ranks.matching import Lane, RankClock
from gpuledger.analyse.ranks.packed import PackedTable
from gpuledger.analyse.ranks.rank import OF_CODE, RankSummary, RankWork, WorkPart
from gpuledger.analyse.ranks.rank_collectives import KINDS
from gpuledger.messages import say
from gpuledger.replay.graph import CallNodes, DependencyGraph, JoinedGraphs, Times, join_graphs
from gpuledger.replay.scenario import Anchor, AnchorKind
from gpuledger.replay.waits import with_rendezvous
from gpuledger.trace.keys import Positions, group, ordinals
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.spans import Ints, Span, Spans, clip, furthest, total
from gpuledger.trace.statistics import lower_median
from gpuledger.trace.sweep import fold

_AT_ONCE: Final = 1 << 14  # amounts of all ranks compared at once, or those of one stretch if they are more


class JoinedRanks(Struct, frozen=True, eq=False):
    """All ranks together."""

    graph: DependencyGraph
    rank_of_call: Ints
    rank_of_operation: Ints
    part: NDArray[np.int8]  # the `WorkPart` of each operation
    code_ns: Ints  # of the code before each call, a column for each of `OF_CODE`
    synchronises: NDArray[np.bool_]  # which calls wait for the device
    step: Ints  # the step that each operation begins in; -1: in none that all ranks have
    first_measured: int
    """The first step that is measured, of those that all ranks have; the ones before it lead up to it."""
    last: int  # the step after the last one
    edges: tuple[tuple[Anchor, ...], ...]  # for each rank where the measured steps begin and end
    lane: Ints
    row: Ints  # for each operation the matched collective that it is part of: its lane and its row in there; -1: none

    @property
    def ranks(self) -> int:
        return len(self.edges)

    @property
    def steps(self) -> int:
        return self.last - self.first_measured

    @property
    def is_measured(self) -> NDArray[np.bool_]:
        measured: NDArray[np.bool_] = self.step >= self.first_measured
        return measured

    @property
    def is_first_call(self) -> NDArray[np.bool_]:
        """Which calls are their thread's first: before those lies no code, but the time at which they begin."""
        calls, threads = len(self.graph.calls), self.graph.threads
        is_first = np.zeros(calls + 1, np.bool_)
        is_first[fold("least", self.graph.calls.thread, np.arange(calls), np.full(threads, calls))] = True
        return is_first[:-1]

    @property
    def met_share(self) -> float:
        """How many of the matched collectives in here can be replayed as waiting for the last rank."""
        matched = group(self.lane, self.row)[0]
        count = int((self.lane[matched] >= 0).sum())
        return self.graph.groups / count if count else 0.0

    def measured_ns(self, times: Times) -> int:
        """How long the measured steps take on the rank that takes the longest."""
        return max(end - begin for begin, end in self._measured(times))

    def waited_ns(self, waiting: Spans) -> int:
        """How much of some spans lies in the measured steps, as they were recorded."""
        begin, end = zip(*self._measured(self.graph.recorded), strict=True)
        return total(clip(waiting, Span(min(begin), max(end))))

    def _measured(self, times: Times) -> list[Span]:
        """When the measured steps begin and end on each rank."""
        return [Span(*(edge.in_replay(times) for edge in edges)) for edges in self.edges]


def joined_ranks(
    ranks: Sequence[RankSummary], clocks: Sequence[RankClock], lanes: Sequence[Lane]
) -> JoinedRanks | NotMeasured:
    """The ranks' graphs with their matched collectives as rendezvous."""
    works: list[PackedTable[RankWork]] = []
    for rank in ranks:
        if isinstance(rank.work, NotMeasured):
            return rank.work
        works.append(rank.work)
    shifts = step_shifts(ranks, clocks)
    if isinstance(shifts, NotMeasured):
        return shifts
    shifted = [(work.bare, by) for work, by in zip(works, shifts, strict=True)]
    first = max(work.first_step - by for work, by in shifted)
    last = min(work.first_step + len(work.edges) - 1 - by for work, by in shifted)
    steady = max(rank.warm_up - by for rank, by in zip(ranks, shifts, strict=True))
    measured = max(first + 1 if last - first > 1 else first, steady)
    if measured >= last:
        return NotMeasured(say("no step is covered by every rank: their profiles start too far apart"))
    ahead = [clock.offset_ns for clock in clocks]
    columns: list[tuple[NDArray[Any], ...]] = []  # what ranks have besides their graphs

    def graphs() -> Iterator[DependencyGraph]:
        """Of which never more than one is unpacked."""
        for work, by in zip((packed.unpacked() for packed in works), shifts, strict=True):
            step = np.where(work.step < 0, -1, work.step - by).astype(np.int64)
            columns.append((step, work.part, work.code_ns, work.synchronises))
            yield work.graph

    together = join_graphs(graphs(), ahead)
    step, part, code_ns, synchronises = map(np.concatenate, zip(*columns, strict=True))
    lane, row = _collectives(lanes, together, part)
    meeting = np.where(lane >= 0, lane * max(map(len, lanes), default=0) + row, -1)
    return JoinedRanks(
        graph=with_rendezvous(together.graph, meeting),
        rank_of_call=together.of_call,
        rank_of_operation=together.of_operation,
        part=part,
        code_ns=code_ns,
        synchronises=synchronises,
        step=np.where((step >= first) & (step < last), step, -1),
        first_measured=measured,
        last=last,
        edges=tuple(
            tuple(_edge(work, step + by, together, rank, ahead[rank]) for step in (measured, last))
            for rank, (work, by) in enumerate(shifted)
        ),
        lane=lane,
        row=row,
    )


def _edge(work: RankWork, step: int, together: JoinedGraphs, rank: int, ahead_ns: int) -> Anchor:
    """Where a step of a rank begins, in the graph of all."""
    anchor = work.edges[step - work.first_step]
    if anchor.kind is AnchorKind.CLOCK:
        return replace(anchor, after_ns=anchor.after_ns - ahead_ns)
    first = together.first_call if anchor.kind is AnchorKind.CALL else together.first_operation
    return replace(anchor, position=anchor.position + first[rank])


def _collectives(lanes: Sequence[Lane], together: JoinedGraphs, part: NDArray[np.int8]) -> tuple[Ints, Ints]:
    """For each operation the lane and the row of its collective, where all members' kernels are there; -1: none."""
    lane_of, row_of = (np.full(len(part), -1, np.int64) for _ in range(2))
    start = together.graph.recorded.start
    communicating = np.flatnonzero(part == WorkPart.COMM)
    own = np.split(communicating, np.searchsorted(communicating, together.first_operation)[1:])
    for number, lane in enumerate(lanes):
        rows, operations = np.arange(len(lane)), np.empty((0, len(lane)), np.intp)
        for member in lane.members:
            # which of a rank's communication kernels begins at each of these instants, where that is but one
            kernels, wanted = own[member], lane.start_ns(member)[rows]
            begin, end = (np.searchsorted(start[kernels], wanted, side) for side in ("left", "right"))
            alone = end == begin + 1
            rows, operations = rows[alone], np.vstack((operations[:, alone], kernels[begin[alone]]))
        lane_of[operations] = number
        row_of[operations] = rows
    return lane_of, row_of


class MedianPace(Struct, frozen=True, eq=False):
    """By how much everything would change at the median rank's pace; 0 where nothing is known to compare it with."""

    operation_ns: Ints
    call_ns: Ints
    code_ns: Ints  # the host's own code before each call
    known_code_ns: Ints  # the rest of it, a column for each of `OF_CODE`
    is_measured: NDArray[np.bool_]  # which calls belong to the measured steps


def median_pace(ranks: JoinedRanks, roles: Sequence[int]) -> MedianPace:
    """`roles` has a number for each rank: those with the same one are compared."""
    graph, (stretch, call_stretch, each_step) = ranks.graph, stretches(ranks)
    own = np.flatnonzero((stretch >= 0) & (ranks.lane < 0))
    own = own[np.lexsort((graph.recorded.start[own], graph.operations.call[own]))]
    calls = np.flatnonzero((call_stretch >= 0) & ~ranks.is_first_call)
    role = np.array(roles)

    def changes(
        nodes: Positions, stretch: Ints, rank: Ints, part: NDArray[np.int8] | int, amounts: Callable[[Positions], Ints]
    ) -> Iterator[tuple[Positions, Ints]]:
        """Some nodes at a time, with by how much each of their amounts changes: a row for each node."""
        part = np.broadcast_to(part, stretch.shape)
        for number in np.unique(role):
            members, rows = np.flatnonzero(role == number), nodes[role[rank[nodes]] == number]
            key = stretch[rows] * len(WorkPart) + part[rows]
            for some in _by_key(rows, key) if len(members) > 1 and len(rows) else ():
                value = amounts(some)
                alike = group(stretch[some] * len(WorkPart) + part[some])[1]
                alike, place = (
                    np.repeat(each, value.shape[1]) for each in (alike, np.searchsorted(members, rank[some]))
                )
                yield some, _medians(value.ravel(), alike, place, len(members)).reshape(value.shape) - value

    pace = MedianPace(
        operation_ns=np.zeros(len(graph.operations), np.int64),
        call_ns=np.zeros(len(graph.calls), np.int64),
        code_ns=np.zeros(len(graph.calls), np.int64),
        known_code_ns=np.zeros(ranks.code_ns.shape, np.int64),
        is_measured=call_stretch >= ranks.first_measured * each_step,
    )
    duration_ns = graph.operations.duration_ns
    for some, change in changes(
        own, stretch, ranks.rank_of_operation, ranks.part, lambda some: duration_ns[some, None]
    ):
        pace.operation_ns[some] = change[:, 0]

    def of_host(some: Positions) -> Ints:
        """A call's code comes before it: the two alternate."""
        code = graph.calls.code_ns[some] - ranks.code_ns[some].sum(axis=1)
        return np.stack((code, np.where(ranks.synchronises[some], 0, graph.calls.duration_ns[some])), axis=1)

    for some, change in changes(calls, call_stretch, ranks.rank_of_call, WorkPart.HOST, of_host):
        pace.code_ns[some], pace.call_ns[some] = change.T
    for column in np.flatnonzero(ranks.code_ns.any(axis=0)).tolist():
        known = ranks.code_ns[:, column, None]
        for some, change in changes(calls, call_stretch, ranks.rank_of_call, OF_CODE[column], known.__getitem__):
            pace.known_code_ns[some, column] = change[:, 0]
    return pace


def _by_key(rows: Positions, key: Ints) -> Iterator[Positions]:
    """The rows in parts, as comparing all at once takes room: all rows of a key in one part, in their order."""
    order = np.argsort(key, kind="stable")
    begins = np.flatnonzero(np.diff(key[order], prepend=key[order[0]] - 1))  # of a key, among the sorted
    nearest = np.searchsorted(begins, np.arange(_AT_ONCE, len(rows), _AT_ONCE))
    edges = np.unique(begins[nearest[nearest < len(begins)]])
    yield from (rows[np.sort(some)] for some in np.split(order, edges))


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
        slot = begin[key[rows]] + ordinals(place)[rows]
        table = np.empty((int(each.sum()), ranks))
        table[slot, rank[rows]] = value[rows]
        middle = _lower_median(table)
        sums = np.bincount(np.repeat(np.arange(keys), each), middle, minlength=keys)
        known = sums[key[rows]] > 0
        rows, slot = rows[known], slot[known]
        becomes[rows] = middle[slot] * (usual[key[rows]] / sums[key[rows]])
    return np.rint(becomes).astype(np.int64)


def _lower_median(table: NDArray[np.float64]) -> NDArray[np.float64]:
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
    # calls that launched nothing go with the next one of their thread that did; -1 where none follows
    known, thread = of_call[:-1], graph.calls.thread
    by_thread = np.argsort(thread, kind="stable")
    count = len(by_thread)
    place = np.where(known[by_thread] >= 0, np.arange(count), count)
    following = np.minimum.accumulate(place[::-1])[::-1] if count else place
    there = by_thread[np.minimum(following, max(count - 1, 0))]
    of_next = np.full(count, -1, np.int64)
    of_next[by_thread] = np.where((following < count) & (thread[there] == thread[by_thread]), known[there], -1)
    return stretch, of_next, most


class SlowPlace(Struct, frozen=True, eq=False):
    """A collective of the step that takes longer than its like do."""

    kind: str
    group: str
    members: tuple[int, ...]  # positions in `Job.ranks`
    ordinal: int  # the how-manieth of its kind in the group's step, from 1
    longer_ns: int  # than its like, in all measured steps
    operations: Positions  # its kernels, among those of the joined ranks
    change_ns: Ints  # by how much each changes if it takes as long as its like


def slow_places(ranks: JoinedRanks, lanes: Sequence[Lane], most: int) -> tuple[SlowPlace, ...]:
    """The slowest first."""
    if not lanes:
        return ()
    lengths = [len(lane) for lane in lanes]
    of_lane = np.repeat(np.arange(len(lanes)), lengths)
    columns = [(lane.kind, lane.bytes, ordinals_in_step(lane), lane.transfer_ns) for lane in lanes]
    kinds, sizes, nths, transfer = map(np.concatenate, zip(*columns, strict=True))
    # by how much the transfer of each collective is longer than the median of its like
    is_sized = sizes >= 0
    group_size = np.array([lane.size for lane in lanes])[of_lane]
    _, like = group(kinds, group_size, np.where(is_sized, sizes, -1 - of_lane), np.where(is_sized, 0, nths))
    order = np.argsort(like, kind="stable")
    longer = np.empty(len(transfer), np.int64)
    for rows in np.split(order, np.flatnonzero(np.diff(like[order])) + 1):
        longer[rows] = transfer[rows] - lower_median(transfer[rows])
    met = np.flatnonzero((ranks.graph.operations.group >= 0) & (ranks.step >= 0))
    lane_of, row = ranks.lane[met], ranks.row[met]
    collective = (np.cumsum([0, *lengths])[:-1])[lane_of] + row
    kind, nth, by = kinds[collective], nths[collective], longer[collective]
    first, place = group(lane_of, kind, nth)
    counted = np.where(ranks.is_measured[met], by, 0) / np.array([len(lane.members) for lane in lanes])[lane_of]
    totals = np.bincount(place, counted, minlength=len(first))
    slowest = [number for number in np.argsort(-totals, kind="stable")[:most].tolist() if totals[number] > 0]
    return tuple(
        SlowPlace(
            kind=KINDS[kind[first[number]]],
            group=lanes[lane_of[first[number]]].name,
            members=lanes[lane_of[first[number]]].members,
            ordinal=int(nth[first[number]]),
            longer_ns=round(totals[number]),
            operations=met[place == number],
            change_ns=-by[place == number],
        )
        for number in slowest
    )


class Fixed(Struct, frozen=True, eq=False):
    """What is fixed."""

    at_median: NDArray[np.bool_]
    """A row per rank, a column per part of its work: whether it takes what the median rank's does."""
    factor: NDArray[np.float64]  # by the same: what it takes, as a multiple
    places: tuple[SlowPlace, ...] = ()  # collectives that take as long as their like

    @staticmethod
    def nothing(ranks: JoinedRanks) -> Fixed:
        shape = (ranks.ranks, len(WorkPart))
        return Fixed(np.zeros(shape, np.bool_), np.ones(shape))


def fixed_graph(ranks: JoinedRanks, pace: MedianPace, fixed: Fixed) -> DependencyGraph:
    """What a rank does itself changes; its waiting follows from that."""
    graph, rank, part = ranks.graph, ranks.rank_of_operation, ranks.part
    duration = graph.operations.duration_ns + np.where(fixed.at_median[rank, part], pace.operation_ns, 0)
    own = (ranks.lane < 0) & (ranks.step >= 0)
    duration = _times(duration, np.where(own, fixed.factor[rank, part], 1.0))
    for place in fixed.places:
        duration[place.operations] += place.change_ns
    return replace(
        graph,
        calls=_calls(ranks, pace, fixed),
        operations=replace(graph.operations, duration_ns=np.maximum(duration, 0)),
    )


def _calls(ranks: JoinedRanks, pace: MedianPace, fixed: Fixed) -> CallNodes:
    calls, rank = ranks.graph.calls, ranks.rank_of_call
    host, factor = fixed.at_median[rank, WorkPart.HOST], fixed.factor[rank, WorkPart.HOST]
    duration = _times(calls.duration_ns + np.where(host, pace.call_ns, 0), factor)
    code = calls.code_ns + np.where(host, pace.code_ns, 0)
    for column, known in enumerate(OF_CODE):
        code += np.where(fixed.at_median[rank, known], pace.known_code_ns[:, column], 0)
    code = np.where(ranks.is_first_call, calls.code_ns, np.maximum(_times(code, factor), 0))
    after = np.where(calls.after >= 0, np.maximum(calls.after_ns + code - calls.code_ns, 0), calls.after_ns)
    return replace(calls, code_ns=code, duration_ns=np.maximum(duration, 0), after_ns=after)


def _times(values: Ints, factor: NDArray[np.float64]) -> Ints:
    """Exactly as they were where the factor is 1."""
    return np.where(factor == 1, values, np.rint(values * factor).astype(np.int64))

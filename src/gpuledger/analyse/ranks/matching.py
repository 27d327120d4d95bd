"""Collectives matched across ranks: the ranks' summaries in, lanes of collectives that all ranks of a group did, out.

A group's ranks call its collectives in one order, so the n-th on one rank is the n-th on another, but for a shift where
captures began apart. That shift is the one under which kind, type and size agree and the ends keep the most even
distance: a collective ends on all ranks at nearly the same instant, whatever their clocks say. The same ends tell each
rank's clock against the first one's.

Arrival is a kernel's start. Until the last rank arrives the others wait; from then to the first end is the transfer. So
on each rank wait and transfer together are at most the kernel's duration. In a broadcast or a reduce a rank may be over
before the last one comes: the transfer is then that of the others, and what it did not wait it moved its data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict, replace
from numpy.typing import NDArray

from gpuledger.analyse.ranks.rank import RankSummary
from gpuledger.analyse.ranks.rank_collectives import KINDS, OTHER, Collectives, Group, LanePart
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.spans import Ints
from gpuledger.trace.statistics import lower_median
from gpuledger.trace.tables import NOT_RECORDED

CLOCKS_AGREE_NS: Final = 20_000
"""Clocks this close are taken for one: ends of a collective differ by some microseconds by themselves."""

HOSTS_AGREE_NS: Final = 5_000_000
"""A time service keeps the clocks of hosts this close; where all else is equal, that speaks for a shift."""

FURTHEST_SHIFT: Final = 500  # so many collectives apart may two captures begin, or end

_FURTHEST: Final = np.iinfo(np.int64).max
_SAMPLE: Final = 250
_NEARLY: Final = 0.9
_EXCHANGE: Final = np.isin(KINDS, ("all_to_all", "send_recv"))
_UNEVEN: Final = ~np.isin(KINDS, ("all_reduce", "all_gather", "reduce_scatter", "broadcast"))
"""Kinds to which ranks may give unequally much."""
_ONE_WAY: Final = np.isin(KINDS, ("broadcast", "reduce"))
"""Kinds in which a rank that only gives may end before another begins."""


class Matched(Struct, frozen=True, eq=False):
    """The collectives that the ranks of one group did together, each rank's on its own clock.

    A job may have as many times of collectives as hundreds of profiles hold: they stay packed with their ranks, of
    which one at a time is unpacked. What is kept for each collective is what holds for all its ranks.
    """

    name: str
    size: int  # ranks in the group, whether their profiles were given or not
    members: tuple[int, ...]  # positions in `Job.ranks`
    parts: tuple[LanePart, ...]  # each member's collectives
    shifts: tuple[int, ...]  # how many places later in each of them the same collective stands than in the first
    rows: Ints  # where those that all members have stand in the first
    kind: Ints
    bytes: Ints  # what a rank gives, on average; -1: not known

    def __len__(self) -> int:
        return len(self.rows)

    def of(self, column: int, name: str) -> Ints:
        """What one member says of the collectives that all have, by its position in `members`."""
        whole: Ints = self.parts[column].column(name)
        return whole[self.rows + self.shifts[column]]


class Lane(Matched, frozen=True, eq=False):
    """The same on the first rank's clock, and placed in its steps."""

    offsets_ns: tuple[int, ...]  # what is taken off each member's times
    steady: NDArray[np.bool_]  # which of them begin in the steady stretch of each of their ranks
    step: Ints  # the first member's step that it begins in; -1: none
    first_ns: Ints  # when the first rank arrives
    last_ns: Ints
    late: Ints  # the rank that arrived last, as a position in `Job.ranks`
    transfer_ns: Ints  # from the last arrival to the first end after it; never longer than any rank's kernel
    waited_ns: Ints  # by all ranks together

    @property
    def skew_ns(self) -> Ints:
        """From the first arrival to the last."""
        return self.last_ns - self.first_ns

    def start_ns(self, member: int) -> Ints:
        """When one of its ranks, as a position in `Job.ranks`, arrives."""
        column = self.members.index(member)
        return self.of(column, "start_ns") - self.offsets_ns[column]

    def end_ns(self, member: int) -> Ints:
        column = self.members.index(member)
        return self.of(column, "end_ns") - self.offsets_ns[column]

    def wait_ns(self, member: int) -> Ints:
        """How long one of its ranks waited for the last one; never longer than its kernel.

        One that was over before the last one came, as in a broadcast, moved its data in that time too.
        """
        start, end = self.start_ns(member), self.end_ns(member)
        waited = np.minimum(self.last_ns, end) - start
        is_over = _ONE_WAY[self.kind] & (end <= self.last_ns)
        return np.where(is_over, np.maximum(waited - self.transfer_ns, 0), waited)


def matched_lanes(members: Sequence[RankSummary]) -> list[Matched]:
    """What the ranks did together, each on its own clock."""
    own = [rank.collectives.lanes() for rank in members]
    streams = {sum(isinstance(key, int) for key in lanes) for lanes in own}
    shared: dict[Group | int, dict[int, LanePart]] = {}  # for each lane its ranks, and what each of them did
    for rank, lanes in enumerate(own):
        for key, part in lanes.items():
            if isinstance(key, int) and len(streams) > 1:  # which stream is which cannot be told: all in one lane
                shared.setdefault(0, {})[rank] = LanePart(part.packed)
            else:
                shared.setdefault(key, {})[rank] = part
    return [_matched(members, key, parts) for key, parts in shared.items()]


def _matched(members: Sequence[RankSummary], key: Group | int, part_of: dict[int, LanePart]) -> Matched:
    """A lane's collectives that all its ranks have; none where one of the ranks has none."""
    named = key if isinstance(key, Group) else Group(f"stream {key + 1}")
    listed = set() if any(rank.rank is None for rank in members) else set(named.ranks)
    everybody = range(len(members)) if named is not key else sorted(part_of)
    wanted = [place for place, rank in enumerate(members) if rank.rank in listed] if listed else list(everybody)
    size = named.size if named.size > 0 else len(named.ranks or wanted)
    # a name that more ranks use than its group has stands for several groups
    if not 2 <= len(wanted) <= size or any(place not in part_of for place in wanted):
        wanted = []
    parts = tuple(part_of[place] for place in wanted)
    rows, shifts = np.empty(0, np.int64), list[int]()
    for number, part in enumerate(parts):
        own = part.unpacked()
        if not number:
            first, rows = own, np.arange(len(own))
        by = shift(first, own)
        rows = rows[(rows + by >= 0) & (rows + by < len(own))]
        rows = rows[_alike(first.at(rows), own.at(rows + by))]
        shifts.append(by)
    none = np.empty(0, np.int64)
    matched = Matched(named.name or "unnamed", size, tuple(wanted), parts, tuple(shifts), rows, none, none)
    kind, given, are_known = np.full(len(rows), OTHER), np.zeros(len(rows), np.int64), np.ones(len(rows), np.bool_)
    for column in range(len(parts)):
        kind = np.minimum(kind, matched.of(column, "kind"))  # the least is what says the most
        amount = matched.of(column, "bytes")
        given, are_known = given + amount, are_known & (amount >= 0)
    return replace(matched, kind=kind, bytes=np.where(are_known, given // max(len(parts), 1), NOT_RECORDED))


def _alike(a: Collectives, b: Collectives) -> NDArray[np.bool_]:
    """Which pairs may be one collective: nothing known about them differs."""
    kind = (a.kind == b.kind) | (a.kind == OTHER) | (b.kind == OTHER)
    # a kernel's name says SendRecv where the framework knows of an all-to-all
    kind |= _EXCHANGE[a.kind] & _EXCHANGE[b.kind]
    dtype = (a.dtype == b.dtype) | (a.dtype < 0) | (b.dtype < 0)
    size = (a.bytes == b.bytes) | (a.bytes < 0) | (b.bytes < 0) | _UNEVEN[a.kind]
    return np.asarray(kind & dtype & size, np.bool_)


def shift(a: Collectives, b: Collectives) -> int:
    """How many places later in `b` than in `a` the same collective stands; of many collectives a sample is judged."""
    apart = len(b) - len(a)
    near = {by for centre in (0, apart) for by in range(centre - FURTHEST_SHIFT, centre + FURTHEST_SHIFT + 1)}
    tried: list[tuple[float, tuple[int, ...]]] = []
    best = 0.0
    for by in sorted(near, key=lambda by: (abs(by), by)):
        first, last = max(0, -by), min(len(a), len(b) - by)
        if 2 * (last - first) < max(min(len(a), len(b)), 1):
            continue
        sparse = (last - first) // _SAMPLE + 1
        here, there = a.at(slice(first, last, sparse)), b.at(slice(first + by, last + by, sparse))
        alike = _alike(here, there)
        share = float(alike.mean())
        if share == 0 or share < _NEARLY * best:
            continue
        distance = (there.end_ns - here.end_ns)[alike]
        middle = lower_median(distance)
        residual = lower_median(np.abs(distance - middle))
        if share == 1 and max(residual, abs(middle)) <= CLOCKS_AGREE_NS:
            return by
        best = max(best, share)
        uneven = max(residual, CLOCKS_AGREE_NS)  # below that, evenness says little
        tried.append((share, (uneven, abs(middle) > HOSTS_AGREE_NS, first - last, residual, abs(by), by)))
    return min((key for share, key in tried if share >= _NEARLY * best), default=(0,))[-1]


CLEARLY_OFF: Final = 4  # times what the ends of collectives scatter: then a clock is set right
CLOCK_TICK_NS: Final = 2_000  # less is below what older traces record


class RankClock(Struct, frozen=True):
    """One rank's clock against the first rank's."""

    ahead_ns: int | NotMeasured  # by how much it is ahead, as the ends of collectives say
    offset_ns: int  # what was taken off its times: 0 where the clocks agree or nothing tells
    residual_ns: int | NotMeasured  # the median distance of single collectives from `ahead_ns`

    @property
    def open_ns(self) -> int:
        """How much of a difference the clock leaves open; 0 where nothing tells."""
        return 0 if isinstance(self.residual_ns, NotMeasured) else self.residual_ns


def rank_clocks(members: Sequence[RankSummary], lanes: Sequence[Matched]) -> tuple[RankClock, ...]:
    """Each rank's clock against the first one's, through ranks that share collectives with both where need be."""
    unknown = NotMeasured("it shares no matched collective with the other ranks")
    clocks = [RankClock(unknown, 0, unknown)] * len(members)
    by_clock: dict[str | int, list[int]] = {}
    for number, rank in enumerate(members):
        by_clock.setdefault(number if rank.clock is None else rank.clock, []).append(number)
    first, *waiting = by_clock.values() or [[]]
    ahead = dict.fromkeys(first, 0)
    for number in first:
        clocks[number] = RankClock(0, 0, 0)
    before = 0
    while len(ahead) > before:
        placed, before = dict(ahead), len(ahead)
        for ranks in (ranks for ranks in waiting if ranks[0] not in placed):
            distance = _distances(ranks, lanes, placed)
            if len(distance):
                middle = lower_median(distance)
                residual = lower_median(np.abs(distance - middle))
                is_off = abs(middle) > max(CLEARLY_OFF * residual, CLOCK_TICK_NS)
                for number in ranks:
                    ahead[number], clocks[number] = middle, RankClock(middle, middle if is_off else 0, residual)
    return tuple(clocks)


def _distances(ranks: Sequence[int], lanes: Sequence[Matched], placed: dict[int, int]) -> Ints:
    """How much later than on the first rank the collectives of ranks on one clock end; through any whose is known."""
    distances, sure = [np.empty(0, np.int64)], [np.empty(0, np.bool_)]
    for lane in lanes:
        own, other = (next((member for member in lane.members if member in group), None) for group in (ranks, placed))
        if own is not None and other is not None:
            mine, theirs = (lane.of(lane.members.index(member), "end_ns") for member in (own, other))
            distances.append(mine - theirs + placed[other])
            sure.append(~_ONE_WAY[lane.kind])
    distance, good = np.concatenate(distances), np.concatenate(sure)
    return distance[good] if good.any() else distance


def on_one_clock(members: Sequence[RankSummary], matched: Matched, clocks: Sequence[RankClock]) -> Lane:
    """The same on the first rank's clock, and where they lie in the steps.

    Without those that only order has matched: on one rank over before another rank began.
    """
    offsets = tuple(clocks[member].offset_ns for member in matched.members)
    count = len(matched)
    steady, step, late = np.ones(count, np.bool_), np.full(count, -1), np.zeros(count, np.int64)
    first, last = np.full(count, _FURTHEST), np.full(count, -_FURTHEST)
    first_end, shortest = np.full(count, _FURTHEST), np.full(count, _FURTHEST)
    for column, (member, offset) in enumerate(zip(matched.members, offsets, strict=True)):
        start, end, rank = matched.of(column, "start_ns"), matched.of(column, "end_ns"), members[member]
        steady &= (start >= rank.steady.start_ns) & (start < rank.steady.end_ns)
        if not column and len(edges := rank.edges_ns):
            step = np.searchsorted(edges, start, side="right") - 1
            step = np.where(step < len(edges) - 1, step, -1)
        shortest = np.minimum(shortest, end - start)
        start, end = start - offset, end - offset
        late[start > last] = member
        first, last, first_end = np.minimum(first, start), np.maximum(last, start), np.minimum(first_end, end)
    slack = CLOCKS_AGREE_NS + 5 * max((clocks[member].open_ns for member in matched.members), default=0)
    kept = (first_end >= last - slack) | _ONE_WAY[matched.kind]
    columns = asdict(matched) | {name: getattr(matched, name)[kept] for name in ("rows", "kind", "bytes")}
    none = np.zeros(0, np.int64)
    lane = Lane(
        **columns,
        offsets_ns=offsets,
        steady=steady[kept],
        step=step[kept],
        first_ns=first[kept],
        last_ns=last[kept],
        late=late[kept],
        transfer_ns=none,
        waited_ns=none,
    )
    end_after, is_one_way = first_end[kept], _ONE_WAY[lane.kind]
    if is_one_way.any():  # ranks that have done their part before the last one came do not count
        end_after[is_one_way] = _FURTHEST
        for member in lane.members:
            end = lane.end_ns(member)
            goes_on = is_one_way & (end > lane.last_ns)
            end_after[goes_on] = np.minimum(end_after[goes_on], end[goes_on])
    lane = replace(lane, transfer_ns=np.maximum(np.minimum(end_after - lane.last_ns, shortest[kept]), 0))
    waited = np.zeros(len(lane), np.int64)
    for member in lane.members:
        waited += lane.wait_ns(member)
    return replace(lane, waited_ns=waited)

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
from numpy.typing import NDArray

from gpuledger.analyse.ranks.rank import RankSummary
from gpuledger.analyse.ranks.rank_collectives import KINDS, OTHER, Collectives, Group
from gpuledger.records import dataclass, replace
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.spans import Ints
from gpuledger.trace.statistics import lower_median
from gpuledger.trace.tables import NOT_RECORDED

CLOCKS_AGREE_NS: Final = 20_000
"""Clocks this close are taken for one: ends of a collective differ by some microseconds by themselves."""

HOSTS_AGREE_NS: Final = 5_000_000
"""A time service keeps the clocks of hosts this close; where all else is equal, that speaks for a shift."""

FURTHEST_SHIFT: Final = 500  # so many collectives apart may two captures begin, or end

_SAMPLE: Final = 250
_NEARLY: Final = 0.9
_EXCHANGE: Final = np.isin(KINDS, ("all_to_all", "send_recv"))
_UNEVEN: Final = ~np.isin(KINDS, ("all_reduce", "all_gather", "reduce_scatter", "broadcast"))
"""Kinds to which ranks may give unequally much."""
_ONE_WAY: Final = np.isin(KINDS, ("broadcast", "reduce"))
"""Kinds in which a rank that only gives may end before another begins."""


@dataclass(frozen=True, slots=True, eq=False)
class Lane:
    """The collectives that the ranks of one group did together: a row for each, in the times a column per rank."""

    name: str
    size: int  # ranks in the group, whether their profiles were given or not
    members: tuple[int, ...]  # positions in `Job.ranks`
    kind: Ints
    bytes: Ints  # what a rank gives, on average; -1: not known
    start_ns: Ints
    end_ns: Ints
    launched_ns: Ints  # times are on the first rank's clock
    steady: NDArray[np.bool_]  # which of them begin in the steady stretch of each of their ranks
    step: Ints  # the first member's step that it begins in; -1: none

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def last_ns(self) -> Ints:
        return np.asarray(self.start_ns.max(axis=1, initial=np.iinfo(np.int64).min), np.int64)

    @property
    def late(self) -> Ints:
        """The rank that arrived last, as a position in `Job.ranks`."""
        return np.asarray(np.array(self.members)[self.start_ns.argmax(axis=1)], np.int64)

    @property
    def skew_ns(self) -> Ints:
        """From the first arrival to the last."""
        return self.last_ns - np.asarray(self.start_ns.min(axis=1), np.int64)

    @property
    def wait_ns(self) -> Ints:
        """How long each rank waited for the last one; never longer than its kernel.

        One that was over before the last one came, as in a broadcast, moved its data in that time too.
        """
        waited = np.minimum(self.last_ns[:, None], self.end_ns) - self.start_ns
        return np.where(self._is_over, np.maximum(waited - self.transfer_ns[:, None], 0), waited)

    @property
    def transfer_ns(self) -> Ints:
        """From the last arrival to the first end after it; never longer than any rank's kernel."""
        end = np.where(self._is_over, np.iinfo(np.int64).max, self.end_ns).min(axis=1)
        moving = np.minimum(end - self.last_ns, (self.end_ns - self.start_ns).min(axis=1))
        return np.asarray(np.maximum(moving, 0), np.int64)

    @property
    def _is_over(self) -> NDArray[np.bool_]:
        """Which ranks have done their part in a one-way collective before the last one came."""
        return _ONE_WAY[self.kind][:, None] & (self.end_ns <= self.last_ns[:, None])


def matched_lanes(members: Sequence[RankSummary]) -> list[Lane]:
    """What the ranks did together, each on its own clock, and not yet placed in steps."""
    own = [rank.collectives.lanes() for rank in members]
    streams = {sum(isinstance(key, int) for key in lanes) for lanes in own}
    shared: dict[Group | int, dict[int, Ints]] = {}  # for each lane its ranks, and the positions on each of them
    for rank, lanes in enumerate(own):
        for key, positions in lanes.items():
            if isinstance(key, int) and len(streams) > 1:  # which stream is which cannot be told: all in one lane
                shared.setdefault(0, {})[rank] = np.flatnonzero(members[rank].collectives.group < 0)
            else:
                shared.setdefault(key, {})[rank] = positions
    return [_matched(members, key, positions) for key, positions in shared.items()]


def _matched(members: Sequence[RankSummary], key: Group | int, positions: dict[int, Ints]) -> Lane:
    """A lane's collectives that all its ranks have, each on its own clock; none where one of the ranks has none."""
    named = key if isinstance(key, Group) else Group(f"stream {key + 1}")
    listed = set() if any(rank.rank is None for rank in members) else set(named.ranks)
    everybody = range(len(members)) if named is not key else sorted(positions)
    wanted = [place for place, rank in enumerate(members) if rank.rank in listed] if listed else list(everybody)
    size = named.size if named.size > 0 else len(named.ranks or wanted)
    # a name that more ranks use than its group has stands for several groups
    if not 2 <= len(wanted) <= size or any(place not in positions for place in wanted):
        wanted = []
    parts = [members[place].collectives.at(positions[place]) for place in wanted]
    shifts = [shift(parts[0], part) for part in parts]
    rows = np.arange(len(parts[0])) if parts else np.empty(0, np.int64)
    for part, by in zip(parts, shifts, strict=True):
        rows = rows[(rows + by >= 0) & (rows + by < len(part))]
        rows = rows[_alike(parts[0].at(rows), part.at(rows + by))]
    chosen = [part.at(rows + by) for part, by in zip(parts, shifts, strict=True)]

    def column(name: str) -> Ints:
        return np.stack([getattr(part, name) for part in chosen], axis=1) if chosen else np.empty((0, 0), np.int64)

    given = column("bytes")
    mean = np.where((given >= 0).all(axis=1), given.sum(axis=1) // max(len(chosen), 1), NOT_RECORDED)
    kind = column("kind").min(axis=1, initial=OTHER)  # the least is what says the most
    times = (column("start_ns"), column("end_ns"), column("launched_ns"))
    nowhere = np.full(len(rows), -1)
    return Lane(named.name or "unnamed", size, tuple(wanted), kind, mean, *times, nowhere >= 0, nowhere)


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


@dataclass(frozen=True, slots=True)
class RankClock:
    """One rank's clock against the first rank's."""

    ahead_ns: int | NotMeasured  # by how much it is ahead, as the ends of collectives say
    offset_ns: int  # what was taken off its times: 0 where the clocks agree or nothing tells
    residual_ns: int | NotMeasured  # the median distance of single collectives from `ahead_ns`

    @property
    def open_ns(self) -> int:
        """How much of a difference the clock leaves open; 0 where nothing tells."""
        return 0 if isinstance(self.residual_ns, NotMeasured) else self.residual_ns


def rank_clocks(members: Sequence[RankSummary], lanes: Sequence[Lane]) -> tuple[RankClock, ...]:
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

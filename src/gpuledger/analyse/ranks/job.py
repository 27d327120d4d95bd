"""Several profiles of one job: the ranks' summaries in, collectives matched across them and who waits for whom out.

A group's ranks call its collectives in one order, so the n-th on one rank is the n-th on another, but for a shift where
captures began apart. That shift is the one under which kind, type and size agree and the ends keep the most even
distance: a collective ends on all ranks at nearly the same instant, whatever their clocks say. The usual distance is
then the clocks' offset, and how far distances scatter around it is stated as the residual.

Arrival is a kernel's start. Until the last rank arrives the others wait; from then to the first end is the transfer. So
on each rank wait and transfer together are at most the kernel's duration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.ranks.rank import KINDS, OTHER, Collectives, Group, RankSummary
from gpuledger.trace.health import Note, NotMeasured, Severity
from gpuledger.trace.spans import Ints, clip, intersection, total, union
from gpuledger.trace.tables import NOT_RECORDED
from gpuledger.units import count_text

CLEARLY_OFF: Final = 4  # times what the ends of collectives scatter: then a clock is set right
CLOCK_TICK_NS: Final = 2_000  # less is below what older traces record

CLOCKS_AGREE_NS: Final = 20_000
"""Clocks this close are taken for one: ends of a collective differ by some microseconds by themselves."""

HOSTS_AGREE_NS: Final = 5_000_000
"""A time service keeps the clocks of hosts this close; where all else is equal, that speaks for a shift."""

FURTHEST_SHIFT: Final = 500
"""So many collectives apart may two captures begin, or end."""

_SAMPLE: Final = 250
_NEARLY: Final = 0.9
_EXCHANGE: Final = np.isin(KINDS, ("all_to_all", "send_recv"))
_ONE_WAY: Final = np.isin(KINDS, ("broadcast", "reduce"))
"""Kinds in which a rank that only gives may end before another begins."""

_UNEVEN: Final = ~np.isin(KINDS, ("all_reduce", "all_gather", "reduce_scatter", "broadcast"))
"""Kinds to which ranks may give unequally much."""


@dataclass(frozen=True, slots=True)
class RankClock:
    """One rank's clock against the first rank's."""

    ahead_ns: int | NotMeasured
    """By how much it is ahead, as the ends of collectives say."""
    offset_ns: int
    """What was taken off its times: 0 where the clocks agree or nothing tells."""
    residual_ns: int | NotMeasured
    """The median distance of single collectives from `ahead_ns`."""


@dataclass(frozen=True, slots=True, eq=False)
class Lane:
    """The collectives that the ranks of one group did together: a row for each, in the times a column per rank."""

    name: str
    size: int
    """Ranks in the group, whether their profiles were given or not."""
    members: tuple[int, ...]
    """Positions in `Job.ranks`."""
    kind: Ints
    bytes: Ints
    """What a rank gives, on average; -1: not known."""
    start_ns: Ints
    end_ns: Ints
    launched_ns: Ints
    """Times are on the first rank's clock."""
    steady: NDArray[np.bool_]
    """Which of them begin in the steady stretch of each of their ranks."""
    step: Ints
    """The first member's step that it begins in; -1: none."""

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def last_ns(self) -> Ints:
        """When the last rank arrived."""
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
        """How long each rank waited for the last one; never longer than its kernel."""
        return np.minimum(self.last_ns[:, None], self.end_ns) - self.start_ns

    @property
    def transfer_ns(self) -> Ints:
        """From the last arrival to the first end."""
        return np.asarray(np.maximum(self.end_ns.min(axis=1) - self.last_ns, 0), np.int64)


@dataclass(frozen=True, slots=True)
class RankPart:
    """One rank's part in the matched collectives."""

    seen: int
    """Collectives in this rank's profile."""
    matched: int
    """Of them, found on all ranks of their group."""
    counted: int
    """Of those, in the steady stretch, to which all that follows belongs."""
    wait_ns: int
    exposed_wait_ns: int
    """Waiting while nothing computed."""
    transfer_ns: int
    late: int
    """How often this rank was the last to arrive, by more than the clocks leave open."""
    caused_ns: int
    """What the others waited for it, added up."""


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """Several ranks together."""

    ranks: tuple[RankSummary, ...]
    """Those that take part, in order of their number. Clocks and parts are in the same order."""
    world_size: int | NotMeasured
    notes: tuple[Note, ...]
    clocks: tuple[RankClock, ...]
    lanes: tuple[Lane, ...]
    parts: tuple[RankPart, ...]

    @property
    def steps(self) -> int:
        """How many steps the figures of the steady stretch are spread over; 1 where there are none."""
        return min((rank.step_count for rank in self.ranks), default=1)

    @property
    def coverage(self) -> float | NotMeasured:
        """The share of the collectives that were matched."""
        seen = sum(part.seen for part in self.parts)
        return sum(part.matched for part in self.parts) / seen if seen else NotMeasured("no collective was recorded")

    def imbalance(self, family: str | None = None) -> float | NotMeasured:
        """The most that a rank computes per step, of one kernel family or in all, as a multiple of the ranks' mean."""
        times = [
            (rank.compute_ns if family is None else rank.families_ns.get(family, 0)) / rank.step_count
            for rank in self.ranks
        ]
        return max(times) * len(times) / sum(times) if sum(times) else NotMeasured("nothing was computed")


def median(values: Ints) -> int:
    """The lower middle value, exactly: a float64 does not hold the nanoseconds since 1970."""
    return int(np.sort(values, axis=None)[(values.size - 1) // 2])


def job(ranks: Sequence[RankSummary]) -> Job:
    """Put the summaries of one job's ranks together, in whatever order they come."""
    members, world, notes = _roster(ranks)
    lanes = [_matched(members, key, positions) for key, positions in _shared(members).items()]
    clocks = _clocks(len(members), lanes)
    lanes = [_on_one_clock(members, lane, clocks) for lane in lanes]
    kept = [_together(lane, clocks) for lane in lanes]
    apart = sum(len(lane) - len(left) for lane, left in zip(lanes, kept, strict=True))
    whole = tuple(lane for lane in kept if len(lane))
    parts = tuple(_part(rank, number, whole, clocks) for number, rank in enumerate(members))
    notes += _doubts(members, parts, clocks, apart)
    return Job(members, world, tuple(notes), clocks, whole, parts)


def _roster(ranks: Sequence[RankSummary]) -> tuple[tuple[RankSummary, ...], int | NotMeasured, list[Note]]:
    """The ranks that take part, each once and in order; the world's size; and who is missing or left out."""
    notes: list[Note] = []

    def tell(severity: Severity, code: str, who: Iterable[object], count: int, what: str) -> None:
        if count:
            shown = ", ".join(map(str, islice(who, 8))) + (f" and {count_text(count - 8)} more" if count > 8 else "")
            notes.append(Note(severity, code, f"{what}: {shown}", count))

    given = sorted(ranks, key=lambda rank: (rank.rank or 0, rank.profile, rank.window))
    sizes = Counter(rank.world_size for rank in given if rank.world_size is not None)
    world = min(sizes, key=lambda size: (-sizes[size], size), default=None)
    size = NotMeasured("the profiles do not say how many ranks the job has") if world is None else world
    nameless = [rank.profile for rank in given if rank.rank is None]
    if len(nameless) == len(given):
        sentence = "no rank is recorded in these profiles, each is taken for a rank of its own"
        tell(Severity.WARNING, "rank-unknown", nameless, len(nameless), sentence)
        return tuple(given), size, notes
    sentence = "no rank is recorded in these profiles, they are left out"
    tell(Severity.LOSS, "rank-unknown", nameless, len(nameless), sentence)
    kept: dict[int, RankSummary] = {}
    twice, foreign = [], []
    for rank in given:
        if rank.rank is None:
            continue
        if world is not None and (not 0 <= rank.rank < world or rank.world_size not in (None, world)):
            foreign.append(rank.profile)
        elif rank.rank in kept:
            twice.append(f"rank {rank.rank} ({rank.profile})")
        else:
            kept[rank.rank] = rank
    sentence = f"profiles that are not of this job of {world} ranks, left out"
    tell(Severity.LOSS, "rank-extra", foreign, len(foreign), sentence)
    tell(Severity.LOSS, "rank-twice", twice, len(twice), "given more than once, left out but for the first")
    # a world's size may be false and huge, so the missing are counted, not listed; without one, more may be missing
    least = max(kept, default=-1) + 1 if world is None else world
    missing = (number for number in range(least) if number not in kept)
    sentence = "ranks not given; waiting for them counts as transfer"
    tell(Severity.WARNING, "rank-missing", missing, least - len(kept), sentence)
    return tuple(kept[number] for number in sorted(kept)), size, notes


def _shared(members: Sequence[RankSummary]) -> dict[Group | int, dict[int, Ints]]:
    """The lanes of the job: for each the ranks that have it, and the positions of its collectives on each of them."""
    own = [rank.collectives.lanes() for rank in members]
    streams = {sum(isinstance(key, int) for key in lanes) for lanes in own}
    shared: dict[Group | int, dict[int, Ints]] = {}
    for rank, lanes in enumerate(own):
        for key, positions in lanes.items():
            if isinstance(key, int) and len(streams) > 1:  # which stream is which cannot be told: all in one lane
                shared.setdefault(0, {})[rank] = np.flatnonzero(members[rank].collectives.group < 0)
            else:
                shared.setdefault(key, {})[rank] = positions
    return shared


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
    for by in sorted(near, key=lambda by: (abs(by), by)):
        first, last = max(0, -by), min(len(a), len(b) - by)
        if 2 * (last - first) < max(min(len(a), len(b)), 1):
            continue
        sparse = (last - first) // _SAMPLE + 1
        here, there = a.at(slice(first, last, sparse)), b.at(slice(first + by, last + by, sparse))
        alike = _alike(here, there)
        share = float(alike.mean())
        if share == 0 or share < _NEARLY * max((share for share, _ in tried), default=0.0):
            continue
        distance = (there.end_ns - here.end_ns)[alike]
        middle = median(distance)
        residual = median(np.abs(distance - middle))
        if share == 1 and max(residual, abs(middle)) <= CLOCKS_AGREE_NS:
            return by
        uneven = max(residual, CLOCKS_AGREE_NS)  # below that, evenness says little
        tried.append((share, (uneven, abs(middle) > HOSTS_AGREE_NS, first - last, residual, abs(by), by)))
    best = max((share for share, _ in tried), default=0.0)
    return min((key for share, key in tried if share >= _NEARLY * best), default=(0,))[-1]


def _clocks(count: int, lanes: Sequence[Lane]) -> tuple[RankClock, ...]:
    """Each rank's clock against the first one's, through ranks that share collectives with both where need be."""
    unknown = NotMeasured("it shares no matched collective with the other ranks")
    clocks = [RankClock(0, 0, 0) if rank == 0 else RankClock(unknown, 0, unknown) for rank in range(count)]
    ahead, before = {0: 0}, 0
    while len(ahead) > before:
        placed, before = dict(ahead), len(ahead)
        for rank in (rank for rank in range(count) if rank not in placed):
            distance = _distances(rank, lanes, placed)
            if len(distance):
                ahead[rank] = middle = median(distance)
                residual = median(np.abs(distance - middle))
                is_off = abs(middle) > max(CLEARLY_OFF * residual, CLOCK_TICK_NS)
                clocks[rank] = RankClock(middle, middle if is_off else 0, residual)
    return tuple(clocks)


def _distances(rank: int, lanes: Sequence[Lane], placed: dict[int, int]) -> Ints:
    """How much later than on the first rank a rank's collectives end; through any other rank whose clock is known."""
    distances, sure = [np.empty(0, np.int64)], [np.empty(0, np.bool_)]
    for lane in lanes:
        other = next((member for member in lane.members if member in placed), None)
        if rank in lane.members and other is not None:
            mine, theirs = (lane.end_ns[:, lane.members.index(member)] for member in (rank, other))
            distances.append(mine - theirs + placed[other])
            sure.append(~_ONE_WAY[lane.kind])
    distance, good = np.concatenate(distances), np.concatenate(sure)
    return distance[good] if good.any() else distance


def _on_one_clock(members: Sequence[RankSummary], lane: Lane, clocks: Sequence[RankClock]) -> Lane:
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


def _together(lane: Lane, clocks: Sequence[RankClock]) -> Lane:
    """Without those that only order has matched: on one rank over before another rank began."""
    slack = CLOCKS_AGREE_NS + 5 * max((_known(clocks[member].residual_ns) for member in lane.members), default=0)
    first_end = lane.end_ns.min(axis=1, initial=np.iinfo(np.int64).max)
    kept = (first_end >= lane.last_ns - slack) | _ONE_WAY[lane.kind]
    columns = ("kind", "bytes", "start_ns", "end_ns", "launched_ns", "steady", "step")
    return replace(lane, **{name: getattr(lane, name)[kept] for name in columns})


def _known(time: int | NotMeasured) -> int:
    return 0 if isinstance(time, NotMeasured) else time


def _part(rank: RankSummary, number: int, lanes: Sequence[Lane], clocks: Sequence[RankClock]) -> RankPart:
    """What one rank waited, and what it was waited for."""
    mine = [lane for lane in lanes if number in lane.members]
    starts, waits = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    transfer = late = caused = 0
    for lane in mine:
        column = lane.members.index(number)
        wait, last = lane.wait_ns[lane.steady], (lane.late == number)[lane.steady]
        starts.append(lane.start_ns[lane.steady, column] + clocks[number].offset_ns)
        waits.append(wait[:, column])
        transfer += int(lane.transfer_ns[lane.steady].sum())
        open_ns = max(_known(clocks[member].residual_ns) for member in lane.members)
        late += int((last & (lane.skew_ns[lane.steady] > open_ns)).sum())
        caused += int(wait[last].sum())
    start, waited = np.concatenate(starts), np.concatenate(waits)
    exposed = total(intersection(clip(rank.exposed, rank.steady), union(start, start + waited)))
    counts = (len(rank.collectives), sum(len(lane) for lane in mine), len(start))
    return RankPart(*counts, int(waited.sum()), exposed, transfer, late, caused)


def _doubts(
    members: Sequence[RankSummary], parts: Sequence[RankPart], clocks: Sequence[RankClock], apart: int
) -> list[Note]:
    """What the matching leaves open."""
    seen, matched = sum(part.seen for part in parts), sum(part.matched for part in parts)
    blind = sum(isinstance(clock.residual_ns, NotMeasured) for clock in clocks)
    nameless = sum(int((rank.collectives.group < 0).sum()) for rank in members)
    unmatched = f"{{}} of {count_text(seen)} collectives were not matched across ranks and are left out"
    order = "{} collectives were matched by their order, but did not overlap in time, and are left out"
    groups = "process groups are not recorded for {} collectives: they are taken to span all ranks given"
    doubts = (
        (Severity.WARNING, "collectives-unmatched", unmatched, seen - matched),
        (Severity.WARNING, "collectives-apart", order, apart),
        (Severity.WARNING, "clocks-unknown", "the clocks of {} ranks could not be compared with the first's", blind),
        (Severity.INFO, "groups-unknown", groups, nameless),
    )
    losses = [Note(Severity.LOSS, "rank-loss", f"{rank.label}: {loss}") for rank in members for loss in rank.losses]
    notes = [Note(how, code, says.format(count_text(count)), count) for how, code, says, count in doubts if count]
    return losses + notes

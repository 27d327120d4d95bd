"""Several profiles of one job: the ranks' summaries in, collectives matched across them and who waits for whom out.

Also how long each rank takes for the steps that all ranks have, and how evenly compute is spread over them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Annotated, Final

import numpy as np
from msgspec import Struct

from gpuledger.analyse.ranks.matching import Lane, RankClock, matched_lanes, on_one_clock, rank_clocks
from gpuledger.analyse.ranks.rank import RankSummary
from gpuledger.messages import joined, say
from gpuledger.rows import Label, Row, Unit
from gpuledger.trace.model import Note, NotMeasured, Severity
from gpuledger.trace.spans import Ints, Spans, clip, either, intersection, total, union
from gpuledger.trace.statistics import lower_median
from gpuledger.units import count_text

_NAMED: Final = 8  # ranks named where a sentence is about several


class RankPart(Struct, frozen=True):
    """One rank's part in the matched collectives."""

    seen: int  # collectives in this rank's profile
    matched: int  # of them, found on all ranks of their group
    counted: int  # of those, in the steady stretch, to which all that follows belongs
    wait_ns: int
    exposed_wait_ns: int  # waiting while nothing computed
    transfer_ns: int
    late: int  # how often this rank was the last to arrive, by more than the clocks leave open
    caused_ns: int
    """What the others waited until it came as the last, added up. Without it most of that may be waited for others."""


class Job(Struct, frozen=True, eq=False):
    """Several ranks together."""

    ranks: tuple[RankSummary, ...]
    """Those that take part, in order of their number. Clocks and parts are in the same order."""
    world_size: int | NotMeasured
    notes: tuple[Note, ...]
    clocks: tuple[RankClock, ...]
    lanes: tuple[Lane, ...]
    parts: tuple[RankPart, ...]
    waiting: Spans
    """When some rank waited with nothing computing on it, in the steady stretch, on the first rank's clock."""

    @property
    def waited_ns(self) -> int:
        """For how long some rank waited: no rank that comes sooner saves more."""
        return total(self.waiting)

    @property
    def has_one_clock(self) -> bool:
        """Whether all ranks are of one capture, so that no clock had to be compared with another."""
        return len({rank.clock for rank in self.ranks}) == 1 and self.ranks[0].clock is not None

    @property
    def zero_ns(self) -> int:
        """The instant that times are told from: where the work begins of the ranks that share the first one's clock."""
        first, *others = self.ranks
        shared = [rank.begin_ns for rank in others if rank.clock is not None and rank.clock == first.clock]
        return min([first.begin_ns, *shared])

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
        times = [rank.family_ns(family) / rank.step_count for rank in self.ranks]
        return max(times) * len(times) / sum(times) if sum(times) else NotMeasured("nothing was computed")


def job(ranks: Sequence[RankSummary]) -> Job:
    """Put the summaries of one job's ranks together, in whatever order they come."""
    members, world, notes = _roster(ranks)
    matched = matched_lanes(members)
    clocks = rank_clocks(members, matched)
    lanes = [on_one_clock(members, lane, clocks) for lane in matched]
    apart = sum(map(len, matched)) - sum(map(len, lanes))
    whole, parts, waiting = tuple(lane for lane in lanes if len(lane)), list[RankPart](), union([], [])
    for number, rank in enumerate(members):
        part, waits = _part(rank, number, whole, clocks)
        parts.append(part)
        ahead_ns = clocks[number].offset_ns
        waiting = either(waiting, Spans(waits.start_ns - ahead_ns, waits.end_ns - ahead_ns))
    notes += _doubts(members, parts, clocks, apart)
    return Job(members, world, tuple(notes), clocks, whole, tuple(parts), waiting)


def _roster(ranks: Sequence[RankSummary]) -> tuple[tuple[RankSummary, ...], int | NotMeasured, list[Note]]:
    """The ranks that take part, each once and in order; the world's size; and who is missing or left out."""
    notes: list[Note] = []

    def tell(severity: Severity, code: str, who: Iterable[object], count: int, what: str) -> None:
        if count:
            shown = _listed(list(islice(who, _NAMED)), count)
            notes.append(Note(severity, code, say("{what}: {who}", what=what, who=shown), count))

    given = sorted(
        ranks,
        key=lambda rank: (
            rank.rank or 0,
            rank.profile,
            (-1, -1) if rank.place is None else (rank.place.gpu, rank.place.pid),
            rank.window,
        ),
    )
    sizes = Counter(rank.world_size for rank in given if rank.world_size is not None)
    world = min(sizes, key=lambda size: (-sizes[size], size), default=None)
    size = NotMeasured("the profiles do not say how many ranks the job has") if world is None else world
    nameless = [rank.label for rank in given if rank.rank is None]
    which = say("for these") if any(rank.place is not None for rank in given) else say("in these profiles")
    if len(nameless) == len(given):
        sentence = say("no rank is recorded {which}: each counts as a rank of its own", which=which)
        tell(Severity.WARNING, "rank-unknown", nameless, len(nameless), sentence)
        return tuple(given), size, notes
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
    unnamed = say("no rank is recorded {which}: left out", which=which)
    outside = say("profiles from outside this job of {world} ranks, left out", world=world)
    again = say("given more than once, left out but for the first")
    tell(Severity.LOSS, "rank-unknown", nameless, len(nameless), unnamed)
    tell(Severity.LOSS, "rank-extra", foreign, len(foreign), outside)
    tell(Severity.LOSS, "rank-twice", twice, len(twice), again)
    # a world's size may be false and huge, so the missing are counted, not listed; without one, more may be missing
    least = max(kept, default=-1) + 1 if world is None else world
    missing = (number for number in range(least) if number not in kept)
    absent = say("ranks not given; waiting for them counts as transfer")
    tell(Severity.WARNING, "rank-missing", missing, least - len(kept), absent)
    return tuple(kept[number] for number in sorted(kept)), size, notes


def _part(rank: RankSummary, number: int, lanes: Sequence[Lane], clocks: Sequence[RankClock]) -> tuple[RankPart, Spans]:
    """What one rank waited, and what it was waited for; when it waited with nothing computing on it, by its clock."""
    starts, ends = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    matched = counted = waited = transfer = late = caused = 0
    for lane in (lane for lane in lanes if number in lane.members):
        wait, last = lane.wait_ns(number)[lane.steady], (lane.late == number)[lane.steady]
        starts.append(lane.start_ns(number)[lane.steady] + clocks[number].offset_ns)
        ends.append(starts[-1] + wait)
        matched += len(lane)
        counted += len(wait)
        waited += int(wait.sum())
        transfer += int(lane.transfer_ns[lane.steady].sum())
        open_ns = max(clocks[member].open_ns for member in lane.members)
        late += int((last & (lane.skew_ns[lane.steady] > open_ns)).sum())
        caused += int(lane.waited_ns[lane.steady][last].sum())
    waits = union(np.concatenate(starts), np.concatenate(ends))
    exposed = intersection(clip(rank.exposed.unpacked(), rank.steady), waits)
    counts = (len(rank.collectives), matched, counted)
    return RankPart(*counts, waited, total(exposed), transfer, late, caused), exposed


def _doubts(
    members: Sequence[RankSummary], parts: Sequence[RankPart], clocks: Sequence[RankClock], apart: int
) -> list[Note]:
    """What profiles lack, GPUs that several ranks of one capture run on, and what the matching leaves open."""
    about: dict[str, list[str]] = {}
    sharing: dict[tuple[str, int], list[str]] = {}
    for rank in members:
        for loss in rank.losses:
            about.setdefault(loss, []).append(rank.label)
        if rank.clock is not None and rank.gpu is not None:
            sharing.setdefault((rank.clock, rank.gpu), []).append(rank.label)
    notes = []
    for loss, who in about.items():  # each sentence once, with the ranks that it is about unless that is all of several
        is_all = 1 < len(who) == len(members)
        sentence = loss if is_all else say("{what}: {who}", what=_listed(who, len(who)), who=loss)
        notes.append(Note(Severity.LOSS, "rank-loss", sentence, len(who)))
    for (_, gpu), who in sharing.items():
        sentence = say(
            "{count} ranks share GPU {gpu}, where kernels of one may slow the others': {ranks}",
            count=len(who),
            gpu=gpu,
            ranks=_listed(who, len(who)),
        )
        notes += [Note(Severity.WARNING, "gpu-shared", sentence, len(who))] if len(who) > 1 else []
    seen = sum(part.seen for part in parts)
    lost = seen - sum(part.matched for part in parts)
    blind = sum(isinstance(clock.residual_ns, NotMeasured) for clock in clocks)
    nameless = sum(rank.collectives.nameless for rank in members)
    unmatched = say(
        "{count} of {of} collectives could not be matched across ranks and are left out",
        count=count_text(lost),
        of=count_text(seen),
    )
    not_together = say(
        "{count} collectives were matched by their order, but did not overlap in time, and are left out",
        count=count_text(apart),
    )
    unclear = say("the clocks of {count} ranks could not be compared with the first's", count=count_text(blind))
    ungrouped = say(
        "process groups are not recorded for {count} collectives: assumed to span all given ranks",
        count=count_text(nameless),
    )
    doubts = (
        Note(Severity.WARNING, "collectives-unmatched", unmatched, lost),
        Note(Severity.WARNING, "collectives-apart", not_together, apart),
        Note(Severity.WARNING, "clocks-unknown", unclear, blind),
        Note(Severity.INFO, "groups-unknown", ungrouped, nameless),
    )
    return [*notes, *(doubt for doubt in doubts if doubt.count)]


def _listed(who: Sequence[object], count: int) -> str:
    """The first few of so many by name."""
    names = joined(say(", "), map(str, who[:_NAMED]))
    return say("{names} and {count} more", names=names, count=count_text(count - _NAMED)) if count > _NAMED else names


class StepLengths(Struct, frozen=True, eq=False):
    """The steps that all ranks have, warm-up left out."""

    steps: Ints  # their numbers on the first rank
    length_ns: Ints  # a row per step, a column per rank


class StepAcrossRanks(Row, frozen=True):
    """One step on all ranks."""

    step: Annotated[int, Label(say("Step"), Unit.ID, meaning="as the first rank counts")]
    longest_ns: Annotated[int, Label(say("Longest"), Unit.NS)]
    slowest_rank: Annotated[str, Label(say("on"))]
    median_ns: Annotated[int, Label(say("Median"), Unit.NS)]
    shortest_ns: Annotated[int, Label(say("Shortest"), Unit.NS, detail=1)]


def step_lengths(job: Job) -> StepLengths | NotMeasured:
    """How long each rank took for each step."""
    if not job.ranks or any(rank.steps_source is None for rank in job.ranks):
        return NotMeasured("steps were not found on every rank")
    shifts = step_shifts(job.ranks, job.clocks)
    if isinstance(shifts, NotMeasured):
        return shifts
    first = job.ranks[0]
    step = np.arange(first.warm_up, len(first.edges_ns) - 1)
    for rank, by in zip(job.ranks, shifts, strict=True):
        step = step[(step + by >= rank.warm_up) & (step + by < len(rank.edges_ns) - 1)]
    if not len(step):
        return NotMeasured("no step is in every rank's profile")
    lengths = [rank.length_ns[step + by] for rank, by in zip(job.ranks, shifts, strict=True)]
    return StepLengths(step, np.stack(lengths, axis=1))


def step_shifts(ranks: Sequence[RankSummary], clocks: Sequence[RankClock]) -> tuple[int, ...] | NotMeasured:
    """By how much the number of a step is higher on each rank than on the first; 0 where no rank has steps."""
    sources = sorted({rank.steps_source or "none" for rank in ranks})
    if len(sources) > 1:
        return NotMeasured(f"steps were found in different ways: {', '.join(sources)}")
    shifts = []
    for rank, clock in zip(ranks, clocks, strict=True):
        first, later = ranks[0].edges_ns, 0
        if not isinstance(clock.residual_ns, NotMeasured) and len(first) and len(rank.edges_ns):
            middle = (first[:-1] + np.diff(first) // 2) + clock.offset_ns
            step = np.searchsorted(rank.edges_ns, middle, side="right") - 1
            inside = np.flatnonzero((step >= 0) & (step < len(rank.edges_ns) - 1))
            later = lower_median(step[inside] - inside) if len(inside) else 0
        shifts.append(later)
    return tuple(shifts)


def slowest_step_ns(job: Job) -> int | NotMeasured:
    """The median over steps of what the slowest rank takes."""
    lengths = step_lengths(job)
    return lengths if isinstance(lengths, NotMeasured) else lower_median(lengths.length_ns.max(axis=1))


def steps_across_ranks(job: Job) -> tuple[StepAcrossRanks, ...]:
    """Every step that all ranks have, in order; none where they cannot be matched."""
    lengths = step_lengths(job)
    if isinstance(lengths, NotMeasured):
        return ()
    return tuple(
        StepAcrossRanks(
            step=step,
            longest_ns=int(row.max()),
            slowest_rank=job.ranks[int(row.argmax())].label,
            median_ns=lower_median(row),
            shortest_ns=int(row.min()),
        )
        for step, row in zip(lengths.steps.tolist(), lengths.length_ns, strict=True)
    )


class ComputeBalance(Row, frozen=True):
    """Compute per step, across ranks."""

    family: Annotated[str, Label(say("Compute"), meaning="of a kernel family, or all")]
    mean_ns: Annotated[int, Label(say("Mean"), Unit.NS, detail=1)]
    most_ns: Annotated[int, Label(say("Most"), Unit.NS)]
    most_rank: Annotated[str, Label(say("on"))]
    imbalance: Annotated[float, Label(say("Max / mean"), Unit.RATIO)]


def compute_balance(job: Job) -> tuple[ComputeBalance, ...]:
    """All compute, then each kernel family, the largest first."""
    families = Counter[str]()
    for rank in job.ranks:
        families.update(rank.families_ns)
    entries = []
    for family in (None, *sorted(families, key=lambda name: (-families[name], name))):
        times = [rank.family_ns(family) // rank.step_count for rank in job.ranks]
        imbalance = job.imbalance(family)
        if not isinstance(imbalance, NotMeasured):
            most, mean = int(np.argmax(times)), sum(times) // len(times)
            entries.append(ComputeBalance(family or say("all"), mean, times[most], job.ranks[most].label, imbalance))
    return tuple(entries)

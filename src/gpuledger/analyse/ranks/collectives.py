"""Collectives across ranks: a job in; what each kind of a group took and who was waited for, and the worst ones, out.

The wait of a collective is given per rank: what its ranks waited, divided by how many they are.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple
from numpy.typing import NDArray

from gpuledger.analyse.ranks.job import Job
from gpuledger.analyse.ranks.matching import Lane
from gpuledger.analyse.ranks.rank_collectives import KINDS
from gpuledger.trace import sweep
from gpuledger.trace.keys import group, ordinals
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import NOT_RECORDED

WORST: Final = 20  # so many single collectives are described

_LARGEST: Final = 2.0**62


class MatchedCollectives(Struct, frozen=True):
    """What the matched collectives of one kind and group took."""

    ranks: int  # in the group, whether their profiles were given or not
    mean_bytes: int | None  # what a rank gives; None: not known
    median_transfer_ns: int | None  # None where each was over on some rank before the last one came
    wait_per_rank_ns: int
    late_rank: str | None  # the rank that was waited for the longest; None where nobody waited
    late_share: float  # its share of all the waiting
    median_bus_bytes_per_s: int | None  # of the one that took the median time


class CollectivesOfGroup(Struct, frozen=True):
    """The collectives of one kind and group."""

    kind: str
    group: str
    matched: int
    seen: int  # on the rank that has the most of them
    wait_ns: int  # of all ranks; 0 where none was matched
    figures: MatchedCollectives | None  # None where none was matched


class SingleCollective(Struct, frozen=True):
    """One collective."""

    begun_ns: int  # when the last rank arrived, from where the work of the ranks on the first one's clock begins
    step: int | None
    kind: str
    ordinal: int  # the how-manieth of its kind in the group's step, from 1
    group: str
    mean_bytes: int | None
    skew_ns: int
    wait_ns: int  # of all ranks
    wait_per_rank_ns: int
    transfer_ns: int | None  # None where it was over on some rank before the last one came
    late_rank: str


class WorstPlace(Struct, frozen=True):
    """The collective, by its place in the step, at which ranks waited the longest."""

    group: str
    kind: str
    ordinal: int  # the how-manieth of its kind in the group's step, from 1; in the window where there are no steps
    times: int
    wait_ns: int  # of all ranks, in all steps
    late: int  # the rank most waited for, as a position in `Job.ranks`


def bus_bytes(lane: Lane) -> Ints:
    """What passes each rank's link, counted as NCCL's own tests do; -1: not known.

    Those tests take the size of the whole result of an all-gather, which is what all its ranks give together.
    """
    others = lane.size - 1
    factors = {"all_reduce": 2 * others / lane.size, "all_gather": others, "broadcast": 1, "reduce": 1, "send_recv": 1}
    factors |= dict.fromkeys(("reduce_scatter", "all_to_all"), others / lane.size)
    factor = np.array([factors.get(kind, NOT_RECORDED) for kind in KINDS], np.float64)[lane.kind]
    return _whole(lane.bytes * factor, (lane.bytes >= 0) & (factor >= 0))


def bus_bytes_per_s(lane: Lane) -> Ints:
    """Bus bandwidth of each collective while it moved data; -1: not known."""
    moved, time = bus_bytes(lane), lane.transfer_ns
    return _whole(moved * 1e9 / np.maximum(time, 1), (moved >= 0) & (time > 0))


def _whole(values: NDArray[np.float64], known: NDArray[np.bool_]) -> Ints:
    """Rounded; -1 where not known, or where a profile's false sizes make more than an integer holds."""
    known = known & (values < _LARGEST)
    return np.where(known, np.rint(np.where(known, values, 0)).astype(np.int64), NOT_RECORDED)


def ordinals_in_step(lane: Lane) -> Ints:
    """The how-manieth of its kind in its step each collective is, from 1."""
    return 1 + ordinals(group(lane.kind, lane.step)[1])


def worst_place(job: Job) -> WorstPlace | NotMeasured:
    """Where ranks waited the longest, all steps together."""
    worst: WorstPlace | NotMeasured = NotMeasured("no rank waited at a matched collective")
    for lane in job.lanes:
        wait = np.where(lane.steady, lane.waited_ns, 0)
        ordinal = ordinals_in_step(lane)
        first, number = group(lane.kind, ordinal)
        sums = sweep.sums(number, wait, len(first))
        most = int(sums.argmax())
        if int(sums[most]) > (0 if isinstance(worst, NotMeasured) else worst.wait_ns):
            here = number == most
            late, _ = _most_waited_for(lane.late[here], wait[here])
            worst = WorstPlace(
                group=lane.name,
                kind=KINDS[lane.kind[first[most]]],
                ordinal=int(ordinal[first[most]]),
                times=int((here & lane.steady).sum()),
                wait_ns=int(sums[most]),
                late=late,
            )
    return worst


def collectives_by_group(job: Job) -> tuple[CollectivesOfGroup, ...]:
    """One entry per kind and group, the most waited at first; what was matched nowhere comes last."""
    seen: Counter[tuple[str, int]] = Counter()  # by group and kind, on the rank that has the most of them
    for rank in job.ranks:
        for key, part in rank.collectives.lanes().items():
            name = f"stream {key + 1}" if isinstance(key, int) else key.name or "unnamed"
            kinds, counts = np.unique(part.column("kind"), return_counts=True)
            seen |= Counter({(name, kind): n for kind, n in zip(kinds.tolist(), counts.tolist(), strict=True)})
    entries = []
    for lane in job.lanes:
        wait, rate, transfer = lane.waited_ns, bus_bytes_per_s(lane), lane.transfer_ns
        for kind in np.unique(lane.kind).tolist():
            here = lane.kind == kind
            matched, known = int(here.sum()), here & (lane.bytes >= 0)
            seen_moving, sized = here & (transfer > 0), here & (rate >= 0)
            rows = np.flatnonzero(sized if sized.any() else seen_moving)
            usual = rows[np.argsort(transfer[rows], kind="stable")[(len(rows) - 1) // 2]] if len(rows) else None
            late, share = _most_waited_for(lane.late[here], wait[here])
            figures = MatchedCollectives(
                ranks=lane.size,
                mean_bytes=int(lane.bytes[known].mean()) if known.any() else None,
                median_transfer_ns=None if usual is None else int(transfer[usual]),
                wait_per_rank_ns=int(wait[here].sum()) // (matched * len(lane.members)),
                late_rank=job.ranks[late].label if wait[here].any() else None,
                late_share=share,
                median_bus_bytes_per_s=None if usual is None or rate[usual] < 0 else int(rate[usual]),
            )
            most = max(matched, seen.pop((lane.name, kind), 0))
            entries.append(CollectivesOfGroup(KINDS[kind], lane.name, matched, most, int(wait[here].sum()), figures))
    entries += [
        CollectivesOfGroup(KINDS[kind], name, matched=0, seen=count, wait_ns=0, figures=None)
        for (name, kind), count in sorted(seen.items())
    ]
    return tuple(
        sorted(entries, key=lambda entry: (entry.figures is None, -entry.wait_ns, str((entry.kind, entry.group))))
    )


def _most_waited_for(late: Ints, wait: Ints) -> tuple[int, float]:
    """The rank for which the others waited the longest, and its share of all the waiting."""
    sums = sweep.sums(late, wait, int(late.max()) + 1)
    return int(sums.argmax()), float(sums.max() / max(int(sums.sum()), 1))


def worst_collectives(job: Job) -> tuple[SingleCollective, ...]:
    """The single collectives that ranks waited at the longest; equal ones in the order of what is printed of them."""
    worst = []
    for lane in job.lanes:
        wait, ordinal, last_ns = lane.waited_ns, ordinals_in_step(lane), lane.last_ns
        skew, transfer, late = lane.skew_ns, lane.transfer_ns, lane.late
        worst += [
            SingleCollective(
                begun_ns=int(last_ns[row]) - job.zero_ns,
                step=int(lane.step[row]) if lane.step[row] >= 0 else None,
                kind=KINDS[lane.kind[row]],
                ordinal=int(ordinal[row]),
                group=lane.name,
                mean_bytes=int(lane.bytes[row]) if lane.bytes[row] >= 0 else None,
                skew_ns=int(skew[row]),
                wait_ns=int(wait[row]),
                wait_per_rank_ns=int(wait[row]) // len(lane.members),
                transfer_ns=int(transfer[row]) or None,
                late_rank=job.ranks[int(late[row])].label,
            )
            for row in np.argsort(-wait, kind="stable")[:WORST].tolist()
        ]
    return tuple(sorted(worst, key=lambda collective: (-collective.wait_ns, str(astuple(collective))))[:WORST])

"""Collectives across ranks: a job in; what each kind of a group took and who was waited for, and the worst ones, out.

The wait of a collective is given per rank: what its ranks waited, divided by how many they are.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple
from numpy.typing import NDArray

from gpuledger.analyse.ranks.job import Job
from gpuledger.analyse.ranks.matching import Lane
from gpuledger.analyse.ranks.rank_collectives import KINDS
from gpuledger.messages import say
from gpuledger.rows import Label, Row, Unit
from gpuledger.trace import sweep
from gpuledger.trace.keys import group, ordinals
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import NOT_RECORDED

WORST: Final = 20  # single collectives described

_LARGEST: Final = 2.0**62


class CollectivesOfGroup(Row, frozen=True):
    """The collectives of one kind and group; times and what follows `seen` are None where none was matched."""

    kind: Annotated[str, Label(say("Collective"))]
    group: Annotated[str, Label(say("Group"), detail=3)]
    matched: Annotated[int, Label(say("Matched"), Unit.COUNT, detail=2)]
    seen: Annotated[int, Label(say("of"), Unit.COUNT, detail=2, meaning="on the rank that has the most of them")]
    ranks: Annotated[
        int | None, Label(say("Ranks"), Unit.COUNT, detail=4, meaning="in the group, whether their profiles were given")
    ] = None
    bytes: Annotated[int | None, Label(say("Bytes each"), Unit.BYTES, meaning="what a rank gives, the mean")] = None
    transfer_ns: Annotated[
        int | None,
        Label(
            say("Transfer"),
            Unit.NS,
            meaning="the median; null where each was over on some rank before the last one came",
        ),
    ] = None
    wait_ns: Annotated[int | None, Label(say("Wait per rank"), Unit.NS, meaning="the mean")] = None
    late_rank: Annotated[
        str | None, Label(say("Waited for most"), meaning="the rank waited for the longest; null where nobody waited")
    ] = None
    late_share: Annotated[float | None, Label(say("of the wait"), Unit.SHARE, detail=1)] = None
    bus_gb_per_s: Annotated[
        float | None, Label(say("Bus"), Unit.GB_PER_S, meaning="bus bandwidth of the one that took the median time")
    ] = None


class SingleCollective(Row, frozen=True):
    """One collective."""

    at_ns: Annotated[int, Label(say("At"), Unit.INSTANT_NS, detail=1, meaning="when the last rank arrived")]
    step: Annotated[int | None, Label(say("Step"), Unit.ID, detail=2)]
    kind: Annotated[str, Label(say("Collective"))]
    ordinal: Annotated[int, Label(say("No. in step"), Unit.COUNT, meaning="of its kind in the group's step, from 1")]
    group: Annotated[str, Label(say("Group"), detail=3)]
    bytes: Annotated[int | None, Label(say("Bytes each"), Unit.BYTES, detail=4)]
    skew_ns: Annotated[int, Label(say("Skew"), Unit.NS)]
    wait_ns: Annotated[int, Label(say("Wait per rank"), Unit.NS)]
    transfer_ns: Annotated[
        int | None,
        Label(say("Transfer"), Unit.NS, detail=5, meaning="null: over on some rank before the last one came"),
    ]
    late_rank: Annotated[str, Label(say("Last to arrive"))]


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
    entries: list[tuple[int, CollectivesOfGroup]] = []  # with what all ranks waited
    for lane in job.lanes:
        wait, rate, transfer = lane.waited_ns, bus_bytes_per_s(lane), lane.transfer_ns
        for kind in np.unique(lane.kind).tolist():
            here = lane.kind == kind
            matched, known = int(here.sum()), here & (lane.bytes >= 0)
            seen_moving, sized = here & (transfer > 0), here & (rate >= 0)
            rows = np.flatnonzero(sized if sized.any() else seen_moving)
            usual = rows[np.argsort(transfer[rows], kind="stable")[(len(rows) - 1) // 2]] if len(rows) else None
            late, late_share = _most_waited_for(lane.late[here], wait[here])
            is_waiting = bool(wait[here].any())
            entry = CollectivesOfGroup(
                kind=KINDS[kind],
                group=lane.name,
                matched=matched,
                seen=max(matched, seen.pop((lane.name, kind), 0)),
                ranks=lane.size,
                bytes=int(lane.bytes[known].mean()) if known.any() else None,
                transfer_ns=None if usual is None else int(transfer[usual]),
                wait_ns=int(wait[here].sum()) // (matched * len(lane.members)),
                late_rank=job.ranks[late].label if is_waiting else None,
                late_share=late_share if is_waiting else None,
                bus_gb_per_s=None if usual is None or rate[usual] < 0 else int(rate[usual]) / 1e9,
            )
            entries.append((int(wait[here].sum()), entry))
    entries += [(0, CollectivesOfGroup(KINDS[kind], name, 0, count)) for (name, kind), count in sorted(seen.items())]
    entries.sort(key=lambda entry: (not entry[1].matched, -entry[0], str((entry[1].kind, entry[1].group))))
    return tuple(entry for _, entry in entries)


def _most_waited_for(late: Ints, wait: Ints) -> tuple[int, float]:
    """The rank for which the others waited the longest, and its share of all the waiting."""
    sums = sweep.sums(late, wait, int(late.max()) + 1)
    return int(sums.argmax()), float(sums.max() / max(int(sums.sum()), 1))


def worst_collectives(job: Job) -> tuple[SingleCollective, ...]:
    """The single collectives that ranks waited at the longest; equal ones in the order of what is printed of them."""
    worst: list[tuple[int, SingleCollective]] = []  # with what all ranks waited
    for lane in job.lanes:
        wait, ordinal, last_ns = lane.waited_ns, ordinals_in_step(lane), lane.last_ns
        skew, transfer, late = lane.skew_ns, lane.transfer_ns, lane.late
        for row in np.argsort(-wait, kind="stable")[:WORST].tolist():
            collective = SingleCollective(
                at_ns=int(last_ns[row]) - job.zero_ns,
                step=int(lane.step[row]) if lane.step[row] >= 0 else None,
                kind=KINDS[lane.kind[row]],
                ordinal=int(ordinal[row]),
                group=lane.name,
                bytes=int(lane.bytes[row]) if lane.bytes[row] >= 0 else None,
                skew_ns=int(skew[row]),
                wait_ns=int(wait[row]) // len(lane.members),
                transfer_ns=int(transfer[row]) or None,
                late_rank=job.ranks[int(late[row])].label,
            )
            worst.append((int(wait[row]), collective))
    worst.sort(key=lambda entry: (-entry[0], str(astuple(entry[1]))))
    return tuple(collective for _, collective in worst[:WORST])

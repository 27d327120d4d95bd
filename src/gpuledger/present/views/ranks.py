"""A job of many ranks as tables: the ranks, their collectives, the worst of those, and steps across ranks.

Times per step are those of the steady stretch, spread over its steps. The wait of a collective is given per rank: what
its ranks waited, divided by how many they are.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.ranks.job import Job, Lane, median
from gpuledger.analyse.ranks.rank import KINDS, RankSummary
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.keys import group
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import NOT_RECORDED

WORST = 20
"""So many single collectives are shown."""

_MOST = 2.0**62

_RANK = (
    Column("rank", "Rank", Unit.TEXT),
    Column("profile", "Profile", Unit.TEXT, detail=5),
    Column("gpu", "GPU", Unit.TEXT, detail=5),
    Column("steps", "Steps", Unit.COUNT, detail=4),
    Column("step_ns", "Step", Unit.NS),
    Column("compute_ns", "Compute", Unit.NS),
    Column("exposed_comm_ns", "Exposed comm", Unit.NS, detail=2),
    Column("hidden_comm_ns", "Hidden comm", Unit.NS, detail=3),
    Column("wait_ns", "Waits", Unit.NS),
    Column("transfer_ns", "Transfers", Unit.NS, detail=1),
    Column("late", "Late", Unit.COUNT, detail=1),
    Column("caused_ns", "Others wait for it", Unit.NS, detail=1),
    Column("matched", "Matched", Unit.COUNT, detail=2),
    Column("seen", "of", Unit.COUNT, detail=2),
    Column("clock_ahead_ns", "Clock ahead", Unit.NS, detail=3),
    Column("clock_residual_ns", "give or take", Unit.NS, detail=3),
)
_COLLECTIVE = (
    Column("kind", "Collective", Unit.TEXT),
    Column("group", "Group", Unit.TEXT),
    Column("ranks", "Ranks", Unit.COUNT, detail=1),
    Column("matched", "Matched", Unit.COUNT),
    Column("seen", "of", Unit.COUNT, detail=4),
    Column("bytes", "Bytes each", Unit.BYTES, detail=2),
    Column("transfer_ns", "Transfer", Unit.NS),
    Column("wait_ns", "Wait per rank", Unit.NS),
    Column("late_rank", "Waited for most", Unit.TEXT),
    Column("late_percent", "of the wait", Unit.SHARE_PERCENT, detail=3),
    Column("bus_gb_per_s", "Bus", Unit.GB_PER_S, detail=1),
)
_SINGLE = (
    Column("at_ns", "At", Unit.INSTANT_NS, detail=1),
    Column("step", "Step", Unit.ID, detail=2),
    Column("kind", "Collective", Unit.TEXT),
    Column("ordinal", "No. in step", Unit.COUNT),
    Column("group", "Group", Unit.TEXT, detail=3),
    Column("bytes", "Bytes each", Unit.BYTES, detail=4),
    Column("skew_ns", "Skew", Unit.NS),
    Column("wait_ns", "Wait per rank", Unit.NS),
    Column("transfer_ns", "Transfer", Unit.NS, detail=5),
    Column("late_rank", "Last to arrive", Unit.TEXT),
)
_STEP = (
    Column("step", "Step", Unit.ID),
    Column("longest_ns", "Longest", Unit.NS),
    Column("slowest_rank", "on", Unit.TEXT),
    Column("median_ns", "Median", Unit.NS),
    Column("shortest_ns", "Shortest", Unit.NS, detail=1),
)
_FAMILY = (
    Column("family", "Compute", Unit.TEXT),
    Column("mean_ns", "Mean", Unit.NS, detail=1),
    Column("most_ns", "Most", Unit.NS),
    Column("most_rank", "on", Unit.TEXT),
    Column("imbalance", "Most / mean", Unit.RATIO),
)


@dataclass(frozen=True, slots=True)
class Gate:
    """The collective, by its place in the step, at which ranks waited the longest."""

    group: str
    kind: str
    ordinal: int
    """The how-manieth of its kind in the group's step, from 1; in the window where there are no steps."""
    times: int
    wait_ns: int
    """Of all ranks, in all steps."""
    late: int
    """The rank most waited for, as a position in `Job.ranks`."""


def job_sheets(job: Job) -> list[Sheet]:
    """All tables about a job."""
    return [
        Sheet("job_ranks", "Ranks, per step", _RANK, tuple(_rank(job, at) for at in range(len(job.ranks)))),
        Sheet("job_collectives", "Collectives across ranks", _COLLECTIVE, _collectives(job)),
        Sheet("job_worst", "Collectives waited at the longest", _SINGLE, _worst(job)),
        Sheet("job_compute", "Compute across ranks, per step", _FAMILY, _families(job)),
        Sheet("job_steps", "Steps across ranks", _STEP, _steps(job)),
    ]


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
    known = known & (values < _MOST)
    return np.where(known, np.rint(np.where(known, values, 0)).astype(np.int64), NOT_RECORDED)


def ordinals(lane: Lane) -> Ints:
    """The how-manieth of its kind in its step each collective is, from 1."""
    _, alike = group(lane.kind, lane.step)
    order = np.argsort(alike, kind="stable")
    place = np.empty(len(lane), np.int64)
    place[order] = 1 + np.arange(len(lane)) - np.searchsorted(alike[order], alike[order], side="left")
    return place


def gate(job: Job) -> Gate | NotMeasured:
    """Where ranks waited the longest, all steps together."""
    best: Gate | NotMeasured = NotMeasured("no rank waited at a matched collective")
    for lane in job.lanes:
        wait = np.where(lane.steady, lane.wait_ns.sum(axis=1), 0)
        ordinal = ordinals(lane)
        first, number = group(lane.kind, ordinal)
        sums = np.zeros(len(first), np.int64)
        np.add.at(sums, number, wait)
        most = int(sums.argmax())
        if int(sums[most]) > (0 if isinstance(best, NotMeasured) else best.wait_ns):
            mine = number == most
            late, _ = _most_waited_for(lane.late[mine], wait[mine])
            kind, place = KINDS[lane.kind[first[most]]], int(ordinal[first[most]])
            best = Gate(lane.name, kind, place, int((mine & lane.steady).sum()), int(sums[most]), late)
    return best


def step_lengths(job: Job) -> tuple[Ints, Ints] | NotMeasured:
    """The steps that all ranks have, warm-up left out: their numbers on the first rank; lengths, a column per rank.

    Steps are matched by their place in time where clocks are known, as captures may begin apart, else by their number.
    """
    sources = sorted({rank.steps_source or "none" for rank in job.ranks})
    if not job.ranks or "none" in sources:
        return NotMeasured("steps were not found on every rank")
    if len(sources) > 1:
        return NotMeasured(f"steps were found in different ways: {', '.join(sources)}")
    first = job.ranks[0]
    step = np.arange(first.warm_up, len(first.edges_ns) - 1)
    places = []
    for rank, clock in zip(job.ranks, job.clocks, strict=True):
        by = 0 if isinstance(clock.residual_ns, NotMeasured) else _later(first, rank, clock.offset_ns)
        places.append((rank, by))
        step = step[(step + by >= rank.warm_up) & (step + by < len(rank.edges_ns) - 1)]
    if not len(step):
        return NotMeasured("no step is in every rank's profile")
    return step, np.stack([np.diff(rank.edges_ns)[step + by] for rank, by in places], axis=1)


def slowest_step_ns(job: Job) -> int | NotMeasured:
    """The median over steps of what the slowest rank takes."""
    found = step_lengths(job)
    return found if isinstance(found, NotMeasured) else median(found[1].max(axis=1))


def _later(first: RankSummary, rank: RankSummary, offset_ns: int) -> int:
    """By how much the number of a step is higher on `rank` than on the first rank."""
    middle = (first.edges_ns[:-1] + np.diff(first.edges_ns) // 2) + offset_ns
    at = np.searchsorted(rank.edges_ns, middle, side="right") - 1
    inside = np.flatnonzero((at >= 0) & (at < len(rank.edges_ns) - 1))
    return median(at[inside] - inside) if len(inside) else 0


def _rank(job: Job, at: int) -> tuple[Cell, ...]:
    rank, part, clock = job.ranks[at], job.parts[at], job.clocks[at]
    count = rank.step_count
    steady = np.diff(rank.edges_ns)[rank.warm_up :]
    matched = part.matched > 0
    return (
        rank.label,
        rank.profile,
        rank.gpu_name,
        count if len(rank.edges_ns) else None,
        median(steady) if len(steady) else None,
        rank.compute_ns // count,
        rank.exposed_comm_ns // count,
        rank.hidden_comm_ns // count,
        part.wait_ns // count if matched else None,
        part.transfer_ns // count if matched else None,
        part.late if matched else None,
        part.caused_ns // count if matched else None,
        part.matched,
        part.seen,
        None if isinstance(clock.ahead_ns, NotMeasured) else clock.ahead_ns,
        None if isinstance(clock.residual_ns, NotMeasured) else clock.residual_ns,
    )


def _collectives(job: Job) -> tuple[tuple[Cell, ...], ...]:
    """A row per kind and group, the most waited at first."""
    seen = _seen(job)
    rows: list[tuple[int, tuple[Cell, ...]]] = []
    for lane in job.lanes:
        rate, waits, transfers, last = bus_bytes_per_s(lane), lane.wait_ns.sum(axis=1), lane.transfer_ns, lane.late
        for kind in np.unique(lane.kind).tolist():
            mine = lane.kind == kind
            count, known = int(mine.sum()), mine & (lane.bytes >= 0)
            wait = waits[mine]
            late, share = _most_waited_for(last[mine], wait)
            moving = mine & (rate >= 0)
            cells: tuple[Cell, ...] = (
                KINDS[kind],
                lane.name,
                lane.size,
                count,
                max(count, seen.pop((lane.name, kind), 0)),
                int(lane.bytes[known].mean()) if known.any() else None,
                median(transfers[mine]),
                int(wait.sum()) // (count * len(lane.members)),
                job.ranks[late].label if wait.any() else None,
                100 * share if wait.any() else None,
                median(rate[moving]) / 1e9 if moving.any() else None,
            )
            rows.append((int(wait.sum()), cells))
    # what was matched nowhere is shown too
    nothing: tuple[Cell, ...] = (None,) * 6
    rows += [(-1, (KINDS[kind], name, None, 0, count, *nothing)) for (name, kind), count in sorted(seen.items())]
    return tuple(cells for _, cells in sorted(rows, key=lambda each: (-each[0], str(each[1][:2]))))


def _seen(job: Job) -> dict[tuple[str, int], int]:
    """How many collectives of each group and kind the rank that has the most of them has."""
    most: Counter[tuple[str, int]] = Counter()
    for rank in job.ranks:
        for key, positions in rank.collectives.lanes().items():
            name = f"stream {key + 1}" if isinstance(key, int) else key.name or "unnamed"
            kinds, counts = np.unique(rank.collectives.kind[positions], return_counts=True)
            most |= Counter({(name, kind): n for kind, n in zip(kinds.tolist(), counts.tolist(), strict=True)})
    return dict(most)


def _most_waited_for(late: Ints, wait: Ints) -> tuple[int, float]:
    """The rank for which the others waited the longest, and its share of all the waiting."""
    sums = np.zeros(int(late.max()) + 1, np.int64)
    np.add.at(sums, late, wait)
    return int(sums.argmax()), float(sums.max() / max(int(sums.sum()), 1))


def _worst(job: Job) -> tuple[tuple[Cell, ...], ...]:
    rows: list[tuple[int, tuple[Cell, ...]]] = []
    for lane in job.lanes:
        wait = lane.wait_ns.sum(axis=1)
        worst = np.argsort(-wait, kind="stable")[:WORST]
        begun, each = lane.last_ns - job.ranks[0].window.start_ns, wait // len(lane.members)
        numbers = (wait, begun, lane.step, lane.kind, ordinals(lane), lane.bytes, lane.skew_ns, each)
        for row in zip(*(column[worst].tolist() for column in (*numbers, lane.transfer_ns, lane.late)), strict=True):
            total, at, step, kind, ordinal, size, *times, late = row
            where: tuple[Cell, ...] = (at, step if step >= 0 else None, KINDS[kind], ordinal, lane.name)
            rows.append((total, (*where, size if size >= 0 else None, *times, job.ranks[late].label)))
    return tuple(cells for _, cells in sorted(rows, key=lambda each: (-each[0], str(each[1])))[:WORST])


def _families(job: Job) -> tuple[tuple[Cell, ...], ...]:
    """All compute, then each kernel family, the largest first."""
    families = Counter[str]()
    for rank in job.ranks:
        families.update(rank.families_ns)
    rows: list[tuple[Cell, ...]] = []
    for family in (None, *sorted(families, key=lambda each: (-families[each], each))):
        each = [(r.compute_ns if family is None else r.families_ns.get(family, 0)) // r.step_count for r in job.ranks]
        imbalance = job.imbalance(family)
        if not isinstance(imbalance, NotMeasured):
            most = int(np.argmax(each))
            rows.append((family or "all", sum(each) // len(each), each[most], job.ranks[most].label, imbalance))
    return tuple(rows)


def _steps(job: Job) -> tuple[tuple[Cell, ...], ...]:
    found = step_lengths(job)
    if isinstance(found, NotMeasured):
        return ()
    return tuple(
        (step, int(row.max()), job.ranks[int(row.argmax())].label, median(row), int(row.min()))
        for step, row in zip(found[0].tolist(), found[1], strict=True)
    )

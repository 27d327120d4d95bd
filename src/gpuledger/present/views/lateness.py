"""Who was late, and when: a job in; a number per rank and step, and the ranks that others waited for, out.

A rank's lateness in a step is the longest that it let the first rank wait at one of the step's collectives. Where no
collective was matched, it is what its step took longer than the fastest rank's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from gpuledger.analyse.ranks.job import Job, median
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.present.views.ranks import step_lengths
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.spans import Ints

MOST: Final = 10
"""So many stragglers are listed."""

_STRAGGLER: Final = (
    Column("rank", "Rank", Unit.TEXT),
    Column("late", "Last to arrive", Unit.COUNT),
    Column("of", "of", Unit.COUNT, detail=3),
    Column("caused_percent", "Waited for", Unit.SHARE_PERCENT),
    Column("compute_percent", "More compute", Unit.CHANGE_PERCENT),
    Column("worst_step", "Latest in step", Unit.ID, detail=1),
    Column("worst_ns", "by", Unit.NS, detail=2),
    Column("profile", "Profile", Unit.TEXT, detail=4),
)


@dataclass(frozen=True, slots=True, eq=False)
class Lateness:
    """One number per rank and step."""

    what: str
    """In words: what the numbers are."""
    ranks: tuple[str, ...]
    steps: tuple[int, ...]
    """Numbers on the first rank."""
    late_ns: Ints
    """A row per rank, a column per step."""


def lateness(job: Job) -> Lateness | NotMeasured:
    """How late every rank was, from collectives where there are any in steps."""
    ranks = tuple(rank.label for rank in job.ranks)
    step = np.unique(np.concatenate([np.empty(0, np.int64), *(lane.step for lane in job.lanes)]))
    step = step[step >= 0]
    if len(step):
        late = np.zeros((len(ranks), len(step)), np.int64)
        for lane in job.lanes:
            inside = np.flatnonzero(lane.step >= 0)
            behind = lane.start_ns[inside] - lane.start_ns[inside].min(axis=1, keepdims=True)
            row = np.broadcast_to(np.array(lane.members), behind.shape)
            column = np.broadcast_to(np.searchsorted(step, lane.step[inside])[:, None], behind.shape)
            np.maximum.at(late, (row, column), behind)
        return Lateness("how late a rank came to a step's collectives, at most", ranks, tuple(step.tolist()), late)
    found = step_lengths(job)
    if isinstance(found, NotMeasured):
        return found
    number, lengths = found
    longer = (lengths - lengths.min(axis=1, keepdims=True)).T
    return Lateness("how much longer a step took than on the fastest rank", ranks, tuple(number.tolist()), longer)


def lateness_sheet(late: Lateness) -> Sheet:
    """The whole of it as a table: a row per rank, a column per step."""
    columns = [Column(f"step_{step}_ns", f"Step {step}", Unit.NS) for step in late.steps]
    rows = tuple((rank, *row) for rank, row in zip(late.ranks, late.late_ns.tolist(), strict=True))
    return Sheet("fleet_late", f"By rank and step: {late.what}", (Column("rank", "Rank", Unit.TEXT), *columns), rows)


def straggler_sheet(job: Job, late: Lateness | NotMeasured) -> Sheet:
    """The ranks that others waited for, the most waited for first."""
    caused = [part.caused_ns for part in job.parts]
    compute = [rank.compute_ns / rank.step_count for rank in job.ranks]
    usual = median(np.array(compute, np.int64)) if compute else 0
    chosen = sorted((at for at, part in enumerate(job.parts) if part.late), key=lambda at: (-caused[at], at))
    rows: list[tuple[Cell, ...]] = []
    for at in chosen[:MOST]:
        share = 100 * caused[at] / sum(caused) if sum(caused) else 0.0
        more = 100 * (compute[at] / usual - 1) if usual else None
        worst: tuple[Cell, Cell] = (None, None)
        if isinstance(late, Lateness):
            column = int(late.late_ns[at].argmax())
            worst = (late.steps[column], int(late.late_ns[at, column]))
        part = job.parts[at]
        rows.append((job.ranks[at].label, part.late, part.counted, share, more, *worst, job.ranks[at].profile))
    return Sheet("fleet_stragglers", "Stragglers: ranks that others wait for", _STRAGGLER, tuple(rows))

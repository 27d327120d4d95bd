"""Steps across ranks: a job in; the steps that all ranks have, and how long each rank took for them, out.

Steps are matched by their place in time where clocks are known, as captures may begin apart, else by their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuledger.analyse.ranks.clocks import RankClock
from gpuledger.analyse.ranks.rank import RankSummary
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.spans import Ints
from gpuledger.trace.statistics import lower_median

if TYPE_CHECKING:
    from gpuledger.analyse.ranks.job import Job


@dataclass(frozen=True, slots=True, eq=False)
class StepLengths:
    """The steps that all ranks have, warm-up left out."""

    steps: Ints
    """Their numbers on the first rank."""
    length_ns: Ints
    """A row per step, a column per rank."""


@dataclass(frozen=True, slots=True)
class StepAcrossRanks:
    """One step on all ranks."""

    step: int
    longest_ns: int
    slowest_rank: str
    median_ns: int
    shortest_ns: int


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
    return tuple(
        0 if isinstance(clock.residual_ns, NotMeasured) else _later(ranks[0], rank, clock.offset_ns)
        for rank, clock in zip(ranks, clocks, strict=True)
    )


def _later(first: RankSummary, rank: RankSummary, offset_ns: int) -> int:
    """By how much the number of a step is higher on `rank` than on the first rank."""
    if not len(first.edges_ns) or not len(rank.edges_ns):
        return 0
    middle = (first.edges_ns[:-1] + np.diff(first.edges_ns) // 2) + offset_ns
    step = np.searchsorted(rank.edges_ns, middle, side="right") - 1
    inside = np.flatnonzero((step >= 0) & (step < len(rank.edges_ns) - 1))
    return lower_median(step[inside] - inside) if len(inside) else 0


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

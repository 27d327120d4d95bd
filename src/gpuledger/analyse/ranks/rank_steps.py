"""Steps across ranks: a job in; the steps that all ranks have, and how long each rank took for them, out.

Steps are matched by their place in time where clocks are known, as captures may begin apart, else by their number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuledger.analyse.ranks.job import Job
from gpuledger.analyse.ranks.rank import RankSummary
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.spans import Ints
from gpuledger.trace.statistics import lower_median


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
    sources = sorted({rank.steps_source or "none" for rank in job.ranks})
    if not job.ranks or "none" in sources:
        return NotMeasured("steps were not found on every rank")
    if len(sources) > 1:
        return NotMeasured(f"steps were found in different ways: {', '.join(sources)}")
    first = job.ranks[0]
    step = np.arange(first.warm_up, len(first.edges_ns) - 1)
    shifted = []
    for rank, clock in zip(job.ranks, job.clocks, strict=True):
        by = 0 if isinstance(clock.residual_ns, NotMeasured) else _later(first, rank, clock.offset_ns)
        shifted.append((rank, by))
        step = step[(step + by >= rank.warm_up) & (step + by < len(rank.edges_ns) - 1)]
    if not len(step):
        return NotMeasured("no step is in every rank's profile")
    return StepLengths(step, np.stack([rank.length_ns[step + by] for rank, by in shifted], axis=1))


def _later(first: RankSummary, rank: RankSummary, offset_ns: int) -> int:
    """By how much the number of a step is higher on `rank` than on the first rank."""
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

"""How evenly compute is spread over ranks: a job in; for all of it and for each kernel family the most and the mean."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from gpuledger.analyse.ranks.job import Job
from gpuledger.trace.health import NotMeasured


@dataclass(frozen=True, slots=True)
class ComputeBalance:
    """Compute per step, across ranks."""

    family: str | None
    """A kernel family; None: all compute."""
    mean_ns: int
    most_ns: int
    most_rank: str
    imbalance: float
    """The most as a multiple of the mean."""


def compute_balance(job: Job) -> tuple[ComputeBalance, ...]:
    """All compute, then each kernel family, the largest first."""
    families = Counter[str]()
    for rank in job.ranks:
        families.update(rank.families_ns)
    entries = []
    for family in (None, *sorted(families, key=lambda name: (-families[name], name))):
        times = [
            (rank.compute_ns if family is None else rank.families_ns.get(family, 0)) // rank.step_count
            for rank in job.ranks
        ]
        imbalance = job.imbalance(family)
        if not isinstance(imbalance, NotMeasured):
            most = int(np.argmax(times))
            mean = sum(times) // len(times)
            entries.append(ComputeBalance(family, mean, times[most], job.ranks[most].label, imbalance))
    return tuple(entries)

"""Ranks of a job to be replayed together: written as calls and kernels, or generated with something wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from gpuledger.analyse.ranks.fixing import OPERATIONS, Fixing, fixing
from gpuledger.analyse.ranks.job import Job, job
from gpuledger.analyse.ranks.rank import RankSummary, rank_summary
from gpuledger.jobs import run
from gpuledger.selection import Selection
from gpuledger.trace.model import Trace
from support.traces.rank_traces import generator
from support.traces.trace_notation import called

GENERATOR: Any = generator()
RANKS, STEPS, LAUNCHES = 5, 4, 96


def summary(number: int, trace: Trace, world: int, operations: int = 10_000) -> RankSummary:
    """One rank, of which so many operations are kept."""
    origin = replace(trace.origin, rank=number, world_size=world)
    return rank_summary(replace(trace, origin=origin), f"rank{number}", Selection(), operations=operations)


def in_turns(*compute_us: tuple[int, ...]) -> Job:
    """Ranks that compute so long and then reduce, again and again: a reduction takes 20 us once all have come."""
    turns = list(zip(*compute_us, strict=True))
    lines: list[list[str]] = [[] for _ in compute_us]
    now = 0
    for number, turn in enumerate(turns):
        met = now + 20 + max(turn)
        for rank, each in enumerate(turn):
            lines[rank].append(
                f"{2 * number}-{2 * number + 1} cudaLaunchKernel -> s7: {now + 10}-{now + 10 + each} gemm"
            )
            lines[rank].append(
                f"{2 * number + 1}-{2 * number + 2} cudaLaunchKernel -> s7: {now + 20 + each}-{met + 20} ncclAllReduce"
            )
        now = met + 20
    return job([summary(number, called(*each), len(compute_us)) for number, each in enumerate(lines)])


def replayed(found: Job) -> Fixing:
    """What fixing its ranks saves."""
    fixed = fixing(found)
    assert isinstance(fixed, Fixing), fixed
    return fixed


def generated(folder: Path, *, seed: int = 0, **faults: Any) -> Job:
    """A generated job with these faults, read from its files."""
    wrong = GENERATOR.Faults(**faults)
    GENERATOR.write_job(
        folder, ranks=RANKS, events=LAUNCHES * STEPS * GENERATOR.EVENTS_PER_LAUNCH, steps=STEPS, seed=seed, faults=wrong
    )
    return run.fleet([str(folder)], Selection(), count=0, operations=OPERATIONS).job


def true_step_ns(*, seed: int = 0, **faults: Any) -> float:
    """How long such a job's step takes, as it was generated."""
    made = GENERATOR.simulate(RANKS, LAUNCHES * STEPS, STEPS, GENERATOR.Faults(**faults), seed)
    return (int(made.step_end[-1]) - int(made.step_start[0])) / STEPS

"""Made histories of runs: commits with regressions, a clock change, noise, drift, two modes, and gaps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from gpuledger.analyse.diff.run_history import RunFigure, StoredRun

STEP_NS = 10_000_000.0
START = datetime(2026, 1, 1, tzinfo=UTC)


def made_run(number: int, step_ns: float, *, clock_mhz: float = 1755, **other: object) -> StoredRun:
    """The run of commit `number`, a day apart."""
    when = (START + timedelta(days=number)).isoformat()
    given = {
        "run": f"run{number:03}",
        "date_utc": when,
        "commit": f"{number:040x}",
        "commit_utc": when,
        "subject": f"commit {number}",
        "is_dirty": False,
        "machine": "node1",
        "gpu": "NVIDIA H200",
        "driver": "580.1",
        "clock_hz": clock_mhz * 1e6,
        "tool": "nsys 2026.1",
        "method": "cuda,nvtx",
        "steps": 20,
        "gpuledger": "0.1",
        "figures": {"step": RunFigure(step_ns, "ns")},
    }
    return StoredRun(**{**given, **other})  # type: ignore[arg-type]


def made_history(
    seed: int,
    regressions: Sequence[tuple[int, float]] = (),
    *,
    runs: int = 30,
    noise: float = 0.01,
    clock: tuple[int, float] | None = None,
    extra: Callable[[np.random.Generator, int], float] = lambda *_: 0.0,
) -> list[StoredRun]:
    """Runs of one commit each; a regression is a commit and by which share steps are longer from it on.

    `clock` is a commit and the share that the clock loses from it on; `extra` adds more to the logarithm.
    """
    random = np.random.default_rng(seed)
    made = []
    for number in range(runs):
        log = random.normal(0, noise) + extra(random, number)
        log += sum(np.log1p(share) for commit, share in regressions if number >= commit)
        mhz = 1755.0
        if clock is not None and number >= clock[0]:
            mhz *= 1 - clock[1]
            log -= np.log1p(-clock[1])
        made.append(made_run(number, STEP_NS * float(np.exp(log)), clock_mhz=mhz + float(random.normal(0, 5))))
    return made

"""All ranks of a job in one report: who waits for whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gpuledger.analyse.ranks.fixing import OPERATIONS
from gpuledger.jobs.run import fleet as analysed
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.present.views.compare.fleet import FleetAnswer, fleet_answer
from gpuledger.selection import Selection
from gpuledger.stages import NOBODY, Listener
from gpuledger.units import count_text

_BAR = 20


def fleet(
    profiles: str | Path | Sequence[str],
    *,
    scheduler: str | None = None,
    workers: int | None = None,
    phases: bool = False,
    wanted: Selection | None = None,
    limits: Limits = DEFAULT_LIMITS,
    progress: Listener = NOBODY,
) -> FleetAnswer:
    """All ranks of a job, from the profiles in files, folders, globs and archives: who is late, and what waits for it.

    They are read by so many local `workers` (0: one after another), or by the Dask cluster at `scheduler`. With
    `phases` there is a table of what each phase of a layer takes on each rank.
    """
    given = (str(profiles),) if isinstance(profiles, str | Path) else tuple(profiles)
    ranks = analysed(
        given,
        wanted or Selection(),
        scheduler=scheduler,
        count=workers,
        limits=limits,
        tell=progress_bar(progress),
        operations=OPERATIONS,
        phases=phases,
    )
    progress.stage("putting the ranks together")
    return fleet_answer(", ".join(Path(text).name or text for text in given), ranks)


def progress_bar(tell: Listener) -> Callable[[int, int], None]:
    """Progress in profiles, as a bar on the line that readers use for rows."""

    def draw(done: int, total: int) -> None:
        full = _BAR * done // total if total else 0
        bar = "█" * full + "·" * (_BAR - full)
        tell(f"{bar} {count_text(done)} of {count_text(total)} profiles" if total else "the folder", 0)

    return draw

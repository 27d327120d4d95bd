"""All ranks of a job in one report: who waits for whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gpuledger.errors import WrongCall
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.selection import Selection
from gpuledger.stages import NOBODY, Listener
from gpuledger.units import count_text
from gpuledger.verbs.definition import Option, PerProfile, VerbArgument, WithoutRank

if TYPE_CHECKING:
    from gpuledger.present.views.compare.fleet import FleetAnswer

_BAR = 20


def fleet(
    profiles: Annotated[tuple[str, ...], VerbArgument("FILE|DIR|GLOB...", completes="files")] | Path | Sequence[str],
    *,
    scheduler: Annotated[
        str | None, Option("A running Dask cluster, e.g. tcp://node1:8786. Default: local workers.", metavar="ADDRESS")
    ] = None,
    workers: Annotated[
        int | None,
        Option(
            "Local workers; 0: none, one profile after another. Default: as cores and memory allow.",
            metavar="N",
            least=0,
        ),
    ] = None,
    phases: Annotated[bool, Option("What each phase of a layer takes on each rank; see `gpuledger ranges`.")] = False,
    wanted: WithoutRank | None = None,
    limits: Annotated[Limits, PerProfile()] = DEFAULT_LIMITS,
    progress: Listener = NOBODY,
) -> FleetAnswer:
    """Analyze all ranks of a job in one report: who waits for whom.

    Reads every profile in the files, folders, globs and archives given, several at a time, and puts ranks together by
    the rank that is recorded in each. One profile may hold many ranks, as where nsys was put before torchrun: each
    process on each GPU is one. Collectives are matched across ranks: which rank is late, what the others wait, what the
    transfer takes. Some steps of all ranks are replayed together: what it saves if a rank, a stage of a pipeline or a
    collective took as long as the median, and what makes it slow. A profile that fails is named, and the rest goes on.

    \b
    Examples:
      gpuledger fleet all-ranks.nsys-rep
      gpuledger fleet traces/
      gpuledger fleet 'traces/**/*.json.gz' --workers=4 -o job.html
      gpuledger fleet traces/ --scheduler=tcp://node1:8786
    """
    from gpuledger.analyse.ranks.fixing import OPERATIONS
    from gpuledger.jobs.run import fleet as ranks_of
    from gpuledger.present.views.compare.fleet import fleet_answer

    if scheduler and workers is not None:
        raise WrongCall("--workers is for local workers; a cluster at --scheduler has its own")

    given = (str(profiles),) if isinstance(profiles, str | Path) else tuple(profiles)
    ranks = ranks_of(
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

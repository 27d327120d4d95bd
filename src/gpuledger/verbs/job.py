"""All ranks of a job in one report: who waits for whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gpuledger.analyse.ranks.fixing import OPERATIONS, fixing
from gpuledger.analyse.ranks.job import slowest_step_ns
from gpuledger.analyse.ranks.rank_times import Lateness, lateness, stragglers
from gpuledger.answers.several_profiles import job_answer
from gpuledger.findings.ranks import job_findings
from gpuledger.jobs.run import Fleet, profiles_text
from gpuledger.jobs.run import fleet as analysed
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.messages import joined, say
from gpuledger.present.views.fleet import (
    Map,
    Merged,
    fleet_document,
    job_sheets,
    lateness_sheet,
    lateness_words,
    rank_phases_sheets,
    straggler_sheet,
)
from gpuledger.present.views.shown import ShownAnswer
from gpuledger.selection import Selection
from gpuledger.stages import NOBODY, Listener
from gpuledger.trace.model import NotMeasured
from gpuledger.units import count_text, time_text

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
) -> ShownAnswer[Fleet]:
    """All ranks of a job, from the profiles in files, folders, globs and archives: who is late, and what waits for it.

    They are read by so many local `workers` (0: one after another), or by the Dask cluster at `scheduler`. With
    `phases` there is a table of what each phase of a layer takes on each rank.
    """
    given = (str(profiles),) if isinstance(profiles, str | Path) else tuple(profiles)
    made = analysed(
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
    late = lateness(made.job)
    merged = _merge(", ".join(Path(text).name or text for text in given), made, late)
    by_step = None if isinstance(late, NotMeasured) else lateness_sheet(late)
    return ShownAnswer((made,), lambda: fleet_document(merged, by_step))


def progress_bar(tell: Listener) -> Callable[[int, int], None]:
    """Progress in profiles, as a bar on the line that readers use for rows."""

    def draw(done: int, total: int) -> None:
        full = _BAR * done // total if total else 0
        bar = "█" * full + "·" * (_BAR - full)
        tell(f"{bar} {count_text(done)} of {count_text(total)} profiles" if total else "the folder", 0)

    return draw


def _merge(name: str, made: Fleet, late: Lateness | NotMeasured) -> Merged:
    job, fixed = made.job, fixing(made.job)
    drawn = None if isinstance(late, NotMeasured) else Map(lateness_words(late), late.ranks, late.steps, late.late_ns)
    return Merged(
        name=name,
        headline=_headline(made),
        profiles=made.profiles,
        failed=tuple((each.name, each.sentence) for each in made.failed),
        ranks=len(job.ranks),
        world_size=None if isinstance(job.world_size, NotMeasured) else job.world_size,
        tables=(
            straggler_sheet(stragglers(job, late, fixed)),
            *rank_phases_sheets(job.ranks),
            *job_sheets(job_answer(job, fixed)),
        ),
        map=drawn,
        findings=job_findings(job, fixed),
        compared=any(part.counted for part in job.parts),
        notes=job.notes,
    )


def _headline(made: Fleet) -> str:
    job = made.job
    count = count_text(len(job.ranks))
    if not isinstance(job.world_size, NotMeasured):
        ranks = say("{count} of {world} ranks", count=count, world=count_text(job.world_size))
    else:
        ranks = say("1 rank") if len(job.ranks) == 1 else say("{count} ranks", count=count)
    parts: list[str] = [profiles_text(made.profiles, made.profiles - made.analysed), ranks]
    parts += sorted({rank.gpu_name for rank in job.ranks if rank.gpu_name})[:3]
    slowest = slowest_step_ns(job)
    if not isinstance(slowest, NotMeasured):
        steps = say("{count} steps", count=count_text(job.steps)) if job.steps > 1 else say("one step")
        parts.append(say("{steps} of {time} on the slowest rank", steps=steps, time=time_text(slowest)))
    return joined(" · ", parts)

"""`gpuledger fleet`: all profiles of a job at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from gpuledger.analyse.ranks.fixing import OPERATIONS, fixing
from gpuledger.analyse.ranks.job import slowest_step_ns
from gpuledger.analyse.ranks.rank_times import Lateness, lateness, stragglers
from gpuledger.answers.several_profiles import job_answer
from gpuledger.cli.completion import files
from gpuledger.cli.inputs import limit_option, step_options
from gpuledger.cli.output import Output, page_options
from gpuledger.findings.ranks import job_findings
from gpuledger.fleet.run import Fleet, profiles_text
from gpuledger.fleet.run import fleet as analysed
from gpuledger.ledger.steps import Selection
from gpuledger.limits import Limits
from gpuledger.messages import joined, say
from gpuledger.present.views.fleet import (
    Map,
    Merged,
    fleet_document,
    job_sheets,
    lateness_sheet,
    lateness_words,
    straggler_sheet,
)
from gpuledger.read.request import Progress
from gpuledger.trace.model import NotMeasured
from gpuledger.units import count_text, time_text

_BAR = 20


@click.command()
@click.argument("given", metavar="FILE|DIR|GLOB...", nargs=-1, required=True, shell_complete=files)
@click.option(
    "--scheduler", metavar="ADDRESS", help="A running Dask cluster, e.g. tcp://node1:8786. Default: local workers."
)
@click.option(
    "--workers",
    type=click.IntRange(min=0),
    metavar="N",
    help="Local workers; 0: none, one profile after another. Default: as cores and memory allow.",
)
@step_options
@limit_option
@page_options
def fleet(
    given: tuple[str, ...],
    scheduler: str | None,
    workers: int | None,
    wanted: Selection,
    limits: Limits,
    output: Output,
) -> None:
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
    if scheduler and workers is not None:
        raise click.UsageError("--workers is for local workers; a cluster at --scheduler has its own.")
    made = analysed(
        given,
        wanted,
        scheduler=scheduler,
        count=workers,
        limits=limits,
        tell=_progress_bar(output.progress),
        operations=OPERATIONS,
    )
    output.progress.stage("putting the ranks together")
    late = lateness(made.job)
    merged = _merge(", ".join(Path(text).name or text for text in given), made, late)
    by_step = None if isinstance(late, NotMeasured) else lateness_sheet(late)
    output.show(fleet_document(merged, by_step))


def _progress_bar(tell: Progress) -> Callable[[int, int], None]:
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
        tables=(straggler_sheet(stragglers(job, late, fixed)), *job_sheets(job_answer(job, fixed))),
        map=drawn,
        findings=job_findings(job, fixed),
        compared=any(part.counted for part in job.parts),
        notes=job.notes,
    )


def _headline(made: Fleet) -> str:
    """What was read, in a line."""
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

"""`gpuledger fleet`: all profiles of a job at once."""

from __future__ import annotations

from typing import Any

import click

from gpuledger.cli.inputs import files, limits_option, step_options
from gpuledger.cli.main import answering
from gpuledger.cli.output import Output, page_options


@click.command()
@click.argument("profiles", metavar="FILE|DIR|GLOB...", nargs=-1, required=True, shell_complete=files)
@click.option(
    "--scheduler", metavar="ADDRESS", help="A running Dask cluster, e.g. tcp://node1:8786. Default: local workers."
)
@click.option(
    "--workers",
    type=click.IntRange(min=0),
    metavar="N",
    help="Local workers; 0: none, one profile after another. Default: as cores and memory allow.",
)
@click.option("--phases", is_flag=True, help="What each phase of a layer takes on each rank; see `gpuledger ranges`.")
@step_options
@limits_option
@page_options
def fleet(scheduler: str | None, workers: int | None, output: Output, **asked: Any) -> None:
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
    answer = answering("fleet")(scheduler=scheduler, workers=workers, progress=output.progress, **asked)
    output.show(answer.document())

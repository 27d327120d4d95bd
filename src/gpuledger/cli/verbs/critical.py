"""`gpuledger critical`: the chain that makes a step as long as it is, and the slack of what is not on it."""

from __future__ import annotations

from pathlib import Path

import click

from gpuledger.analyse.path_summary import path_summary
from gpuledger.cli.limits import limit_option
from gpuledger.cli.output import Output, page_options, profile_argument, step_options
from gpuledger.ledger.device import analysed
from gpuledger.ledger.steps import Wanted
from gpuledger.limits import Limits
from gpuledger.present.views.critical import critical_document
from gpuledger.read import open_trace
from gpuledger.replay.scenario import scenarios
from gpuledger.stages import BOOKS


@click.command()
@profile_argument
@step_options
@limit_option
@page_options
def critical(profile: Path, wanted: Wanted, limits: Limits, output: Output) -> None:
    """Show the critical path of PROFILE: the host and GPU work that sets the step time.

    Back from the end of the steady steps, each segment is what the next one waited for: a kernel, the latency before
    it, a call, the host's code before that. They sum to the steps. A wait is never on the path: what it waited for is.
    What is not on it has slack: making it faster saves nothing, as the replay of the run with the kernel twice as fast
    shows.

    \b
    Examples:
      gpuledger critical run.sqlite
      gpuledger critical run.sqlite --range=optimizer
      gpuledger critical trace.json.gz -o critical.html
    """
    trace = open_trace(profile, limits=limits, progress=output.progress)
    output.progress.stage(BOOKS)
    devices = analysed(trace, profile.name, wanted)
    output.progress.stage("following the critical path")
    summaries = [path_summary(trace, model) for model in scenarios(trace, devices)]
    output.show(critical_document(profile.name, summaries, trace.health, devices[0].zero_ns))

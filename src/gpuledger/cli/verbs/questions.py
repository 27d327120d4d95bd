"""`gpuledger critical`: what sets the step time."""

from __future__ import annotations

from typing import Any

import click

from gpuledger.cli.inputs import limit_option, profile_argument, rank_step_options
from gpuledger.cli.main import answering
from gpuledger.cli.output import Output, page_options


@click.command()
@profile_argument
@rank_step_options
@limit_option
@page_options
def critical(output: Output, **asked: Any) -> None:
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
    output.show(answering("critical")(progress=output.progress, **asked).document())

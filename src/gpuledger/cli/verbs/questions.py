"""The verbs that ask one question of a profile: read it, find its steps, answer, and show the tables of the answer.

`ranges` and `ops` answer for each GPU; `phases` and `critical` put the steady steps together from their phases, and
from what they waited for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from gpuledger.cli.inputs import (
    checked_regex,
    limit_option,
    names_option,
    one_by_one,
    profile_argument,
    rank_step_options,
)
from gpuledger.cli.main import answering
from gpuledger.cli.output import Output, page_options


def question(help_text: Callable[..., None]) -> click.Command:
    """A verb whose options are handed to the function that answers; its name and help are those of this function.

    Options of its own stand under this decorator, beside those that all have.
    """

    @functools.wraps(help_text)
    def verb(output: Output, **asked: Any) -> None:
        output.show(answering(help_text.__name__)(progress=output.progress, **asked).document())

    return click.command(help_text.__name__)(
        profile_argument(rank_step_options(names_option(limit_option(page_options(verb)))))
    )


@question
def ranges() -> None:
    """Show where PROFILE spends time by NVTX range: host and GPU time, launches, waits.

    GPU work belongs to the ranges around its launch call. Inclusive time counts the ranges inside, exclusive time does
    not; GPU times add up durations, so they can exceed the wall time where streams overlap. Shares are host time in
    the steady steps over the steps' time, so setup and warm-up are left
    out. Where GPU metrics were sampled, each range also has the GPU utilization of its kernels.

    PROFILE may also be tables that `nsys stats` printed (nvtx_sum). There shares are of the time in the program's own
    ranges: those of libraries lie inside them or are setup, and are left out.

    \b
    Examples:
      gpuledger ranges nvtx_sum.txt
      gpuledger ranges run.sqlite
      gpuledger ranges run.sqlite --format=json
    """


@question
def ops() -> None:
    """Show what each operator costs in PROFILE: host and GPU time, shapes, TFLOP/s, MFU, work in graphs.

    GPU work belongs to the innermost operator around its launch call; self time is that operator's own, the other
    includes the operators inside. Rates need input shapes (record_shapes=True) and are of dense peak; attention
    is counted in full, as the profile does not say whether it is causal. Without operators, as in profiles of Nsight
    Systems, the tables by operator are empty.

    \b
    Examples:
      gpuledger ops trace.json.gz
      gpuledger ops trace.json.gz --format=json
      gpuledger ops trace.json.gz --format=csv -o ops.csv
    """


def _named(value: str) -> tuple[str, str]:
    name, equals, pattern = value.partition("=")
    if not (name.strip() and equals and pattern):
        raise click.BadParameter(f"{value!r}: expected NAME=REGEX, e.g. dispatch=all_to_all")
    return name.strip(), checked_regex(pattern)


@click.command()
@profile_argument
@click.option(
    "--phase",
    "named",
    multiple=True,
    metavar="NAME=REGEX",
    callback=one_by_one(_named),
    help="Count matching ranges and kernels as phase NAME; takes precedence over known names.",
)
@click.option(
    "--ranks",
    multiple=True,
    metavar="DIR|GLOB",
    help="Profiles of all ranks of the job, to tell waiting from transfer.",
)
@names_option
@rank_step_options
@limit_option
@page_options
def phases(output: Output, **asked: Any) -> None:
    """Show what each phase of a layer costs in PROFILE, and the idle time inside and between phases.

    Phases are attention, router, dispatch, expert_gemm, combine, mlp: by the range around each launch (`attention`,
    `moe_dispatch`, modules and operators of vLLM, SGLang, Megatron, DeepEP), else by the kernel's name. The work of
    the phases, other work and idle time sum to the steady steps, in all and by layer. Collectives are split into
    waiting for other ranks and transfer where the ranks are known.

    \b
    Examples:
      gpuledger phases run.sqlite
      gpuledger phases run.sqlite --phase=dispatch=SendRecv --phase=experts=ffn
      gpuledger phases rank0.json.gz --ranks='traces/*.json.gz' -o phases.html
    """
    output.show(answering("phases")(progress=output.progress, **asked).document())


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

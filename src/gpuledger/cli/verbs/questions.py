"""The verbs that ask one question of a profile: read it, find its steps, answer, and show the tables of the answer.

`steps`, `serving`, `memory`, `ranges` and `ops` answer for each GPU; `phases` and
`critical` put the steady steps together from their phases, and from what they waited for. `memory` also takes snapshots
of PyTorch.
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
def steps() -> None:
    """List the steps of PROFILE: usual length, drift, unusual ones and what made them so.

    Every step has its length, the share of it that the GPU was busy, and the number of kernels that began in it.

    Steps are found by torch's ProfilerStep, by a repeated range, by graph launches, or inferred from repeating
    kernels. They tile the device's time: a step ends when the last work launched in it ends, and the next one
    begins there. Where GPU metrics were sampled, each step also has its means of them and of the clock.

    \b
    Examples:
      gpuledger steps run.sqlite
      gpuledger steps run.sqlite --step-kernel=argmax
    """


@question
@click.option(
    "--gpu-hour-price",
    type=click.FloatRange(min=0, min_open=True),
    metavar="PRICE",
    help="What an hour of this GPU costs, in any currency: also show what a million decode tokens cost.",
)
def serving() -> None:
    """Show what serving costs in PROFILE: tokens a second, step time by batch, idle time between steps.

    vLLM, SGLang, TensorRT-LLM, ATOM and `gpuledger bench serve` write the batch of each step into its range
    (execute_context_9(8155)_generation_37(37), step[DECODE bs=64], decode[bs=117/128 tok=117]): that is read, and the
    time of steps fitted as a base and so much for each prefill token, decode token and request; how good the fit is,
    steps say that it had not seen. Between steps, what the host did while the GPU was idle: scheduling, sampling,
    detokenizing. Time to first token does not count queues, which engines do not record.

    \b
    Examples:
      gpuledger serving trace.json.gz
      gpuledger serving run.sqlite --gpu-hour-price=3.5
      gpuledger serving run.sqlite --format=csv -o steps.csv
    """


@question
def memory() -> None:
    """Show what PROFILE copies and allocates: kinds, bytes, rates, pageable memory, churn, peak.

    Copies are split by direction and by the memory they touch; pageable memory is slow and blocks the host.
    Allocations are counted from CUDA calls, and from nsys's memory events where they were recorded
    (--cuda-memory-usage=true).

    PROFILE may also be a memory snapshot of PyTorch (torch.cuda.memory._dump_snapshot, or `gpuledger capture torch
    --memory`): who holds the peak, by line and by stack; what leaks; what is fragmented; what an out-of-memory was made
    of. No class in the pickle is loaded.

    \b
    Examples:
      gpuledger memory run.sqlite
      gpuledger memory run.sqlite --format=json
      gpuledger memory snapshot.pickle
    """


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

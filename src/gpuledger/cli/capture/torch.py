"""`gpuledger capture torch`: the operators of a PyTorch program."""

from __future__ import annotations

import click

from gpuledger.capture.output_files import place_for
from gpuledger.capture.record import Recording, recorded
from gpuledger.capture.torch.command import Schedule, torch_command, torch_flags
from gpuledger.cli.capture.options import (
    COMMAND_FIRST,
    CaptureOptions,
    called_as,
    capture_options,
    check_program,
    printed,
    tell,
    warn,
)
from gpuledger.errors import GpuledgerError


@click.command(context_settings=COMMAND_FIRST)
@click.option("--wait", type=click.IntRange(0), default=0, metavar="N", help="Steps to let pass first. Default: 0.")
@click.option("--warmup", type=click.IntRange(0), default=1, metavar="N", help="Steps to throw away then. Default: 1.")
@click.option("--active", type=click.IntRange(1), metavar="N", help="Steps to record. Default: a range, or all.")
@click.option("--step-range", metavar="NAME", help="With --active: a step is an NVTX range of this name.")
@click.option("--record-shapes", is_flag=True, help="The shapes of operators' inputs: gives TFLOP/s.")
@click.option("--with-stack", is_flag=True, help="Python's call stacks: slow, but names lines.")
@click.option("--memory", is_flag=True, help="Allocations and releases of tensors.")
@capture_options
def torch(
    wait: int,
    warmup: int,
    active: int | None,
    step_range: str | None,
    record_shapes: bool,
    with_stack: bool,
    memory: bool,
    manner: CaptureOptions,
    command: tuple[str, ...],
) -> None:
    """Record the operators of a Python program with torch.profiler.

    COMMAND is `python SCRIPT.py ...` or `python -m MODULE ...`, also behind torchrun; its Python needs torch, and
    nothing of gpuledger. With --active that many steps are recorded: a step is an optimizer's, or a range named
    --step-range. Without, the profiler range that the program opens (`gpuledger.window(NAME, profiler=True)`, or
    torch.cuda.profiler.start), and if it opens none, the whole run. The trace is written whatever the program does.

    \b
    Examples:
      gpuledger capture torch --wait=2 --warmup=2 --active=5 -- python train.py
      gpuledger capture torch -o decode -- python -m bench --cuda-profiler
      gpuledger capture torch -- torchrun --nproc-per-node=2 train.py
    """
    if step_range is not None and active is None:
        raise GpuledgerError("--step-range says what a step is, but not how many to record", hint="add --active=N")
    schedule = Schedule(wait, warmup if active else 0, active or 0, step_range, record_shapes, with_stack, memory)
    place = place_for(manner.name, command, "torch", force=manner.force)
    argv = torch_command(command, schedule, place.base.absolute())
    if with_stack:
        warn(["--with-stack slows the host several times: times between kernels are not those of a plain run"])
    if manner.only_prints:
        reasons = [(flag.argument if flag.value else f"--{flag.name}", flag.why) for flag in torch_flags(schedule)]
        printed(
            manner, reasons or [("(no options)", "the profiler range of the program, or else the whole run")], (argv,)
        )
        return
    check_program(command[0])
    outcome = recorded(
        Recording(
            tool="torch",
            executable=None,
            argv=argv,
            command=command,
            place=place,
            variables=manner.variables,
            called_as=called_as(),
        ),
        tell,
    )

    from gpuledger.analyse.capture_checks import CaptureWishes
    from gpuledger.cli.capture.end import ended

    ended(outcome, CaptureWishes(memory=memory), no_report=manner.no_report)

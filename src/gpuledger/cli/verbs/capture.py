"""`gpuledger capture`: from a command to a profile that holds what was asked for."""

from __future__ import annotations

import click

from gpuledger.cli.capture.ncu import ncu
from gpuledger.cli.capture.nsys import nsys, start, stop
from gpuledger.cli.capture.torch import torch


@click.group(subcommand_metavar="TOOL [OPTIONS] -- COMMAND...")
def capture() -> None:
    """Record a profile of COMMAND, check that it is complete, and report on it.

    The tool that records is nsys (the timeline of any program), torch (the operators of a PyTorch program) or ncu (what
    single kernels do). The profile is written as NAME.*, with NAME.capture.json beside it: the command, versions, GPUs,
    clocks, the commit, and how it ended. Ctrl-C ends the program and all that it started, and keeps what was recorded.
    The exit code is COMMAND's; 1 if it could not be started or nothing was recorded; 130 if interrupted.

    \b
    Examples:
      gpuledger capture nsys -- python bench.py --iters=20
      gpuledger capture nsys --preset=steady -- python bench.py --cuda-profiler
      gpuledger capture nsys --preset=server --delay=60 --duration=20 -- ./serve
      gpuledger capture torch --wait=2 --warmup=2 --active=5 -- python train.py
      gpuledger capture ncu --kernel=rms_norm --launch-count=5 -- python bench.py
    """


for each in (nsys, torch, ncu, start, stop):
    capture.add_command(each)

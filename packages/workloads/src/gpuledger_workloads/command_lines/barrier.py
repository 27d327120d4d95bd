"""The options of `gpuledger bench barrier`."""

from __future__ import annotations

import argparse

from gpuledger_workloads.common.program import at_least, program
from gpuledger_workloads.common.rank_options import rank_options

DESCRIPTION = """\
Time barriers between the ranks of one node: phase (the host counts, and passes the number) against tag (the number
lives in memory, and the barrier adds 1), called one by one against replayed as a CUDA graph. A check with late ranks
shows which of them may be replayed: phase may not.

Prints median, p10, p90 and p99 of a barrier in microseconds for each, how often a rank got past it that should have
waited, and whether it is safe to replay. Ranks are processes with a GPU each; where GPUs are too few, streams of one
process on one GPU. On a CPU they are processes, and recorded calls stand for a graph. Before each step, ranks meet over
gloo, unless --backend says otherwise; that is not timed.

examples:
  gpuledger bench barrier --world-size=2 --device=cpu
  gpuledger bench barrier --world-size=8 --ranks-as=streams
  torchrun --nproc_per_node=8 -m gpuledger_workloads.barrier
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = program("barrier", DESCRIPTION, iters=100, warmup=10)
    rank_options(made, world_size=2)
    made.add_argument(
        "--ranks-as", choices=["processes", "streams"], help="default: processes, if there are GPUs for all"
    )
    made.add_argument("--per-step", type=at_least(1), default=16, metavar="N", help="barriers in a row; default 16")
    made.add_argument("--checks", type=at_least(1), default=12, metavar="N", help="rounds with a late rank; default 12")
    made.add_argument(
        "--patience", type=at_least(1), default=20, metavar="S", help="a rank waits so long, about; default 20"
    )
    return made

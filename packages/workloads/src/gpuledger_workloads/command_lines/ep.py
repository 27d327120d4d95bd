"""The options of `gpuledger bench ep`."""

from __future__ import annotations

import argparse

from gpuledger_workloads.command_lines.moe import layer_options
from gpuledger_workloads.common.program import program
from gpuledger_workloads.common.rank_options import rank_options

DESCRIPTION = """\
A mixture-of-experts layer with its experts spread over ranks: route, dispatch, compute, combine.

Ranks are started here, or by torchrun. A token is sent once to each rank that has one of its experts. Experts are
spread as evenly as their number allows; a rank may have no tokens.

Prints the time of a step (its slowest rank's: median, p10, p90, p99), the slowest rank, bytes sent between ranks, the
share of communication, how uneven ranks and experts are loaded, and a table of the ranks. Each rank checks its
results, those of 64 tokens where there are more, against an answer that needs no other rank.

examples:
  gpuledger bench ep --world-size=2 --backend=gloo
  gpuledger bench ep --world-size=3 --tokens-per-rank=64,0,7 --routing=power-law --mode=grouped
  gpuledger bench ep --world-size=2 --backend=nccl --mode=both --cuda-profiler
  torchrun --nproc-per-node=8 -m gpuledger_workloads.ep --batch-size=32 --num-experts=256 --hidden-dim=7168
"""


def parser() -> argparse.ArgumentParser:
    """The command line of `bench ep`."""
    made = program("ep", DESCRIPTION, iters=20, warmup=5)
    layer_options(made, least_tokens=0)
    told = "tokens of each rank, such as 64,0,7, instead of --batch-size for all"
    made.add_argument("--tokens-per-rank", type=_tokens, metavar="N,...", help=told)
    rank_options(made, world_size=2)
    return made


def _tokens(text: str) -> list[int]:
    counts = [int(each) for each in text.split(",")]
    if min(counts) < 0:
        raise argparse.ArgumentTypeError("a rank cannot have fewer than 0 tokens")
    return counts


_tokens.__name__ = "list of whole numbers"  # argparse names it where the text is none

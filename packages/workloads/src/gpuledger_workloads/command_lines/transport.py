"""The options of `gpuledger bench transport`."""

from __future__ import annotations

import argparse

from gpuledger_workloads.common.program import at_least, program
from gpuledger_workloads.common.rank_options import rank_options, streams_option
from gpuledger_workloads.mixture.choices import DISPATCH_NAMES

SIZES = {  # name: (default on a GPU, on a CPU, meaning)
    "decode_batch_size": (256, 64, "tokens of all ranks together"),
    "hidden_size": (7168, 256, "numbers per token"),
    "num_experts": (256, 32, "experts of all ranks together"),
    "topk": (8, 4, "experts per token"),
}

DESCRIPTION = """\
Time what moves tokens between the ranks of an expert-parallel MoE layer at a decode point, without the model: layout
(which token goes to which rank), dispatch (counts and tokens, a token once per rank) and combine (back, and summed).

Prints median, p10, p90 and p99 of each phase over the slowest rank of each iteration, remote and local bytes, the
bandwidth of dispatch, ranks per token, and a table of ranks. Sums are checked against x times the sum of the weights.

Routing: random draws the experts of a token anew for each token; uniform gives all experts the same work, and each
token to as many ranks as it can. Mode: normal tells ranks how much comes, which the host reads, and sends that;
low-latency sends always the same number of rows, and no host waits.

examples:
  gpuledger bench transport --world-size=2 --backend=gloo
  gpuledger bench transport --mode=normal --decode-batch-size=256 --hidden-size=7168 --num-experts=256 --topk=8 \\
      --routing=random --warmup-iters=20 --iters=200
  gpuledger bench transport --mode=low-latency --world-size=8 --ranks-as=streams
  torchrun --nproc_per_node=8 -m gpuledger_workloads.transport --routing=uniform
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = program("transport", DESCRIPTION, iters=200, warmup=20)
    made.add_argument(
        "--warmup-iters", dest="warmup", type=at_least(0), default=argparse.SUPPRESS, metavar="N", help="as --warmup"
    )
    made.add_argument(
        "--mode",
        choices=DISPATCH_NAMES,
        default="normal",
        help="normal: counts are exchanged and read, then exactly those rows; low-latency: always the same number of "
        "rows, and no host waits; default normal",
    )
    for name, (large, tiny, meaning) in SIZES.items():
        made.add_argument(
            f"--{name.replace('_', '-')}",
            type=at_least(1),
            metavar="N",
            help=f"{meaning}; default {large}, on a CPU {tiny}",
        )
    made.add_argument("--routing", choices=["random", "uniform"], default="random", help="default random")
    rank_options(made)
    streams_option(made)
    return made

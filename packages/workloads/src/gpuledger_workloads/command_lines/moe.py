"""The options of `gpuledger bench moe`; those of the layer are also those of `bench ep`."""

from __future__ import annotations

import argparse

from gpuledger_workloads.common.program import at_least, program
from gpuledger_workloads.mixture.choices import CHOICES, EXPONENT, ROUTINGS

DESCRIPTION = """\
A mixture-of-experts layer on one device: router, softmax, top-k, dispatch, experts, combine.

  loop          expert after expert, and the host waits for the device before each
  batched_gemm  tokens padded to the fullest expert's number, one batched product
  grouped       tokens sorted by expert, one grouped product, no host wait

Prints per mode: the time of a pass (median, p10, p90, p99), launches, synchronisations and copies in it, the share of
rows that are padding, and what was reached in TFLOP/s and GB/s. The same for all: how uneven the experts' load is, and
the FLOP and bytes that no mode can do without. Results, of many tokens those of 64, are checked against
every expert by itself, in double precision.

examples:
  gpuledger bench moe --mode=all --routing=power-law
  gpuledger bench moe --mode=loop --num-experts=256 --experts-per-token=1 --batch-size=256 --hidden-dim=256
  gpuledger bench moe --mode=grouped --num-experts=256 --experts-per-token=8 --hidden-dim=7168 --batch-size=4096
  gpuledger capture nsys -- gpuledger bench moe --mode=loop --cuda-profiler
"""
SIZES = {
    "batch_size": (1024, 32, "tokens"),
    "hidden_dim": (2048, 64, "numbers of a token"),
    "num_experts": (64, 8, "experts"),
    "experts_per_token": (8, 2, "experts that a token goes to"),
}
"""Each with its default on a GPU and on a CPU."""


def parser() -> argparse.ArgumentParser:
    """The command line of `bench moe`."""
    made = program("moe", DESCRIPTION, iters=20, warmup=5)
    layer_options(made)
    return made


def layer_options(made: argparse.ArgumentParser, least_tokens: int = 1) -> None:
    """Sizes, mode and routing: the same for one device and for many."""
    for name, (large, small, meaning) in SIZES.items():
        least = least_tokens if name == "batch_size" else 1
        told = f"{meaning}; default {large}, on a CPU {small}"
        made.add_argument(f"--{name.replace('_', '-')}", type=at_least(least), metavar="N", help=told)
    made.add_argument(
        "--ffn-dim", type=at_least(1), metavar="N", help="width inside an expert; default 2/7 of --hidden-dim"
    )
    made.add_argument("--mode", choices=list(CHOICES), default="all", help="both: the first two; default all")
    made.add_argument("--routing", choices=ROUTINGS, default="random", help="default random: the router's own")
    told = f"of --routing=power-law: how fast popularity falls; default {EXPONENT}"
    made.add_argument("--exponent", type=float, default=EXPONENT, metavar="X", help=told)

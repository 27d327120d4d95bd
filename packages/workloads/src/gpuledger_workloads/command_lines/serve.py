"""The options of `gpuledger bench serve`."""

from __future__ import annotations

import argparse

from gpuledger_workloads.common.program import at_least, program
from gpuledger_workloads.common.rank_options import rank_options, streams_option
from gpuledger_workloads.common.targets import target_options
from gpuledger_workloads.decoder.size import checkpoint_option, size_options
from gpuledger_workloads.mixture.choices import DISPATCH_NAMES
from gpuledger_workloads.serving.operating_point import LAUNCH, SMALL, room_options

PREFILL_ON_CPU = 128
FLAGS = {"batch": "decode_batch_size", "context": "decode_ctx_len", "output": "output_len"}
DESCRIPTION = """\
Prefill and decode of a node at a fixed operating point, in lockstep over ranks, with random weights or those of --ckpt.
With --experts, or --dispatch alone, experts are spread over the ranks, and every layer sends tokens to them and back.
Prints tokens per second of the node, time to the first token, time between tokens, and what each rank worked and
waited. The launch point is 256 sequences, 2000 tokens of text, 100 of output; --point=any allows others, whose figures
do not compare with it. What cannot fit is refused before anything is allocated. --iters is how often all of it is done
and measured, --warmup how many decode steps come before. The exit code is 3 where a --target was missed.

examples:
  gpuledger bench serve --world-size=8                    the launch point on eight GPUs
  gpuledger bench serve --num-pages=8448                  the same on one: it has all 256 sequences
  gpuledger bench serve --mode=decode --point=any --output-len=32 --graph
  gpuledger bench serve --target='decode_tokens_per_s>=22000' --target='ttft_p99_ms<=2000'
  torchrun --nproc_per_node=8 -m gpuledger_workloads.serve --targets=targets.json
  gpuledger bench serve --device=cpu --world-size=2       a tiny model at a small point
  gpuledger bench serve --attention=mla --dispatch=low-latency --world-size=8 --ranks-as=streams --graph
                                                          experts over eight ranks, all of them on one GPU
  torchrun --nproc_per_node=8 -m gpuledger_workloads.serve --attention=sparse --dispatch=normal
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    found = program("serve", DESCRIPTION, iters=1, warmup=3)
    found.add_argument(
        "--mode", choices=["all", "prefill", "decode"], default="all", help="what is measured; default all"
    )
    found.add_argument(
        "--point", choices=["launch", "any"], help="launch: no other point; default launch, on a CPU any"
    )
    whole = at_least(1)
    for name, what in (("batch", "sequences of the node"), ("context", "tokens of text"), ("output", "tokens to make")):
        told = f"{what}; default {getattr(LAUNCH, name)}, on a CPU {getattr(SMALL, name)}"
        found.add_argument(f"--{FLAGS[name].replace('_', '-')}", type=whole, metavar="N", help=told)
    room_options(found, max_seq_len=32768, max_batch_size=256, prefill_on_cpu=PREFILL_ON_CPU)
    found.add_argument(
        "--disable-chunked-prefill", action="store_true", help="refuse prompts longer than --max-prefill-tokens"
    )
    found.add_argument("--graph", action="store_true", help="the decode step as a CUDA graph")
    found.add_argument(
        "--dispatch",
        choices=DISPATCH_NAMES,
        help="how decode sends tokens to experts; normal: the host reads how many, and as many are sent; low-latency: "
        "always the same number, and no host waits; default normal where there are --experts",
    )
    checkpoint_option(found)
    target_options(found)
    rank_options(found)
    streams_option(found)
    size_options(found, "batch", "prompt")
    return found

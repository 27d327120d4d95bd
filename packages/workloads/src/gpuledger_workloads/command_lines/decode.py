"""The options of `gpuledger bench decode`."""

from __future__ import annotations

import argparse

from gpuledger_workloads.common.program import at_least, program
from gpuledger_workloads.decoder.size import checkpoint_option, size_options

DESCRIPTION = """\
Decode with a Llama-like model, dense or a mixture in which all experts see all tokens, with random weights or those of
--ckpt: read a prompt, decode --warmup tokens, then read it again and decode --steps tokens, measured. Prints the time
to the first token (ttft), per further token (tpot), and between tokens as a reader sees it (itl), with percentiles, and
tokens per second. The last logits are checked against one pass over the whole text.

examples:
  gpuledger bench decode                                 eager: how much of a step is launching?
  gpuledger bench decode --graph                         the same step as one CUDA graph
  gpuledger bench decode --experts=8 --ffn=4096          a mixture of experts
  gpuledger bench decode --config=config.json --layers=4 sizes of a published model, fewer layers
  gpuledger capture nsys -- gpuledger bench decode --cuda-profiler
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    found = program("decode", DESCRIPTION, iters=20, warmup=5)
    found.add_argument(
        "--steps", dest="iters", type=at_least(1), default=argparse.SUPPRESS, metavar="N", help="the same as --iters"
    )
    found.add_argument("--graph", action="store_true", help="the decode step as a CUDA graph")
    found.add_argument("--compile", action="store_true", help="the decode step through torch.compile, without ranges")
    found.add_argument("--read-tokens", action="store_true", help="read every token on the host")
    checkpoint_option(found)
    size_options(found)
    return found

"""The options of `gpuledger bench longctx`."""

from __future__ import annotations

import argparse

from gpuledger_workloads.common.program import at_least, program
from gpuledger_workloads.common.rank_options import rank_options, streams_option
from gpuledger_workloads.decoder.size import checkpoint_option, size_options
from gpuledger_workloads.serving.operating_point import room_options

PREFILL_ON_CPU = 512
LENGTHS = {"prompt_len": (128000, 600), "output_len": (16, 4), "chunk_size": (2048, 64)}
"""Defaults, and those on a CPU."""

DESCRIPTION = """\
Read a long prompt in chunks and decode a few tokens after it, with random weights or those of --ckpt: does it hold,
does it stall, does it slow down? Prints tokens per second by position, the slowdown from the first chunk to the last,
the cache's bytes and peak memory. Too few KV pages are refused before anything is allocated; logits that are not
finite, chunks that disagree with the prompt read at once, and a chunk that does not end within --stall-timeout seconds
end it with exit code 1. Ranks share the keys and values of the text; each has the whole model, its experts too. --iters
is how often the prompt is read, --warmup how many chunks are read before.

examples:
  gpuledger bench longctx                                       128,000 tokens, 16 more
  gpuledger bench longctx --prompt-len=163824 --chunk-size=8192 up to --max-seq-len
  gpuledger bench longctx --config=config.json --layers=2 --stall-timeout=30
  gpuledger bench longctx --device=cpu                          600 tokens, a tiny model
  gpuledger bench longctx --world-size=8 --ranks-as=streams --attention=mla
                                                                the text's keys and values over eight ranks
  torchrun --nproc_per_node=8 -m gpuledger_workloads.longctx --ckpt=DIR --attention=mla
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    found = program("longctx", DESCRIPTION, iters=1, warmup=1)
    meanings = {"prompt_len": "tokens of the prompt", "output_len": "tokens to make", "chunk_size": "tokens of a chunk"}
    for name, (large, small) in LENGTHS.items():
        told = f"{meanings[name]}; default {large}, on a CPU {small}"
        found.add_argument(f"--{name.replace('_', '-')}", type=at_least(1), metavar="N", help=told)
    room_options(found, max_seq_len=163840, max_batch_size=1, prefill_on_cpu=PREFILL_ON_CPU)
    told = "seconds for a chunk, or to read the experts of a layer from --ckpt; default 120"
    found.add_argument("--stall-timeout", type=at_least(1), default=120, metavar="S", help=told)
    rank_options(found)
    streams_option(found)
    checkpoint_option(found)
    size_options(found, "batch", "prompt")
    return found

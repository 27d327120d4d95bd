"""A server's throughput at a fixed point: `gpuledger bench serve [--world-size=N] [--target='NAME>=N']`.

In: a point (sequences of the node, tokens of text, tokens to make), the limits of the server, sizes of a model with
random weights or a checkpoint. Out: prefill and decode tokens per second of the node, percentiles of the time to the
first token (ttft) and between tokens (itl), what each rank worked and waited, and how that stands to the targets.

The sequences are spread over the ranks. Of a model without experts every rank has all. With experts (--experts, or
--dispatch alone), these are spread over the ranks, all else every rank has, and in each layer tokens go to the ranks of
their experts and come back (`mixture.spread` says how, in the two ways of --dispatch; prefill always in the normal
one). Ranks are processes, started here or by torchrun; or, with --ranks-as=streams, streams of one process on one
device, which one profile of one GPU then holds.
All prompts are there at the start and have the same length. They are read in steps of at most --max-prefill-tokens
tokens of a rank; then output - 1 tokens of each are decoded. After each step the ranks meet, so a step takes as long as
its slowest rank. KV pages are counted, exactly, and too few are refused before anything is allocated; the cache itself
is one contiguous piece, so what paging costs a kernel is not measured.

What is timed, by the devices' clocks: a step from its begin to where all ranks have met; ttft from the start of
prefill, so it has the wait for prompts that are read before; itl is a decode step, and does not have the wait between
prefill and the first of them. prefill_step and decode_step are the work in a step of the rank that had most. Figures of
the node take each step from the rank where it was longest. At the end each rank compares logits with those that another
way gives: a pass over the whole text of some sequences or, where nothing was decoded, the last token read again over
the cache. That way no token is moved between ranks: the weights of experts are made again where they are needed. And
in each layer what came back is compared, token by token, with what the same experts give so.

NVTX: "bench:measure", in it one "bench:prefill" or "bench:decode" per step, in that "layerN" with its parts: see
`serving.rank_decoders`; "warmup" and "check" before and after.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from gpuledger.workloads.common.program import (
    Result,
    asked,
    at_least,
    bench,
    program,
    refuse,
    say,
    settle,
    spread_ms,
    wrong,
)
from gpuledger.workloads.common.ranks import count_of, over_ranks, rank_options
from gpuledger.workloads.common.targets import Target, judged, target_options, targets_of
from gpuledger.workloads.decoder.size import DecoderSize, not_followed, size_options
from gpuledger.workloads.mixture.rank_group import expect_one_process, streams_option
from gpuledger.workloads.mixture.spread import DISPATCHES
from gpuledger.workloads.serving.checkpoint import Checkpoint
from gpuledger.workloads.serving.lockstep import serve_on, serve_streams
from gpuledger.workloads.serving.model_size import served_size
from gpuledger.workloads.serving.operating_point import (
    LAUNCH,
    SMALL,
    OperatingPoint,
    expect_fit,
    room_of,
    room_options,
    shares,
)

PREFILL_ON_CPU = 128
FLAGS = {"batch": "decode_batch_size", "context": "decode_ctx_len", "output": "output_len"}
SPREADS = {"prefill": ("ttft", "prefill_step"), "decode": ("itl", "decode_step")}

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
  torchrun --nproc_per_node=8 -m gpuledger.workloads.serve --targets=targets.json
  gpuledger bench serve --device=cpu --world-size=2       a tiny model at a small point
  gpuledger bench serve --attention=mla --dispatch=low-latency --world-size=8 --ranks-as=streams --graph
                                                          experts over eight ranks, all of them on one GPU
  torchrun --nproc_per_node=8 -m gpuledger.workloads.serve --attention=sparse --dispatch=normal
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
        choices=list(DISPATCHES),
        help="how decode sends tokens to experts; normal: the host reads how many, and as many are sent; low-latency: "
        "always the same number, and no host waits; default normal where there are --experts",
    )
    found.add_argument(
        "--ckpt",
        metavar="DIR",
        help="weights: a folder with config.json and *.safetensors, by Llama's, Mixtral's or DeepSeek's names; "
        "default: random weights",
    )
    target_options(found)
    rank_options(found)
    streams_option(found)
    size_options(found, "batch", "prompt")
    return found


def settled_point(options: argparse.Namespace) -> OperatingPoint:
    """The point that is asked for, written back into the options; the program ends where it is not the launch point."""
    options.point = options.point or ("launch" if options.device == "cuda" else "any")
    usual = LAUNCH if options.point == "launch" or options.device == "cuda" else SMALL
    for name, flag in FLAGS.items():
        value, launch = getattr(options, flag), getattr(LAUNCH, name)
        if options.point == "launch" and value not in (None, launch):
            wrong(
                f"--{flag.replace('_', '-')}={value} is another point than the launch point, where it is {launch}",
                hint="--point=any measures it; its figures do not compare with those of the launch point",
            )
        setattr(options, flag, value or getattr(usual, name))
    return OperatingPoint(*(getattr(options, flag) for flag in FLAGS.values()))


def figures(mode: str) -> tuple[str, ...]:
    """The names that a target can have."""
    kinds = [kind for kind in SPREADS if mode in ("all", kind)]
    rates = [f"{kind}_tokens_per_s" for kind in kinds]
    return (*rates, *(key for kind in kinds for name in SPREADS[kind] for key in spread_ms([0.0], name)))


def run(options: argparse.Namespace) -> Result | None:
    """Refuse what cannot run; then start the ranks, and put together what they saw."""
    settle(options)
    point = settled_point(options)
    room = room_of(options, prefill_on_cpu=PREFILL_ON_CPU)
    ranks = count_of(options)
    pages = expect_fit(point, room, ranks)
    if point.output < 2 and options.mode != "prefill":
        wrong("--output-len=1 leaves nothing to decode: prefill makes the first token", hint="--mode=prefill")
    if point.context > room.max_prefill_tokens and options.disable_chunked_prefill:
        wrong(f"a prompt of {point.context:,} tokens is longer than --max-prefill-tokens={room.max_prefill_tokens}")
    targets = targets_of(options, figures(options.mode))
    size = served_size(options, batch=max(shares(point.batch, ranks)), prompt=point.context)
    settle_ranks(options, size, ranks)
    ignored = not_followed(options)
    if options.ckpt:
        Checkpoint(options.ckpt).expect(size)
    answers = serve_streams(options) if options.ranks_as == "streams" else over_ranks(serve_on, options)
    if answers is None:
        return None
    errors = [answer["error"] for answer in answers if answer["error"] is not None]
    if not errors:
        refuse("no rank checked what it computed")
    say(f"logits off by {max(errors):.2g} of their norm at most")
    expert_errors = [answer["expert_error"] for answer in answers if answer["expert_error"] is not None]
    return {
        "workload": "serve",
        "settings": asked(options, "target", "targets", *asdict(size)) | size.settings("batch", "prompt"),
        "parameters": size.parameters,
        **ignored,
        "kv_pages_needed": pages,
        "kv_pages_there": room.num_pages,
        **answers[0]["checkpoint"],
        **found(options, point, targets, answers),
        "logits_error_share": float(f"{max(errors):.3g}"),
        **({"expert_error_share": float(f"{max(expert_errors):.3g}")} if expert_errors else {}),
        "checked": True,
    }


def settle_ranks(options: argparse.Namespace, size: DecoderSize, ranks: int) -> None:
    """Fill in how ranks talk; the program ends where they cannot so."""
    expect_one_process(options)
    if not size.experts:
        if options.dispatch:
            wrong(f"--dispatch={options.dispatch} sends tokens to experts, and there are none", hint="--experts=N")
    elif ranks > size.experts:
        wrong(f"{ranks} ranks cannot share {size.experts} experts: each needs one")
    options.dispatch = options.dispatch or ("normal" if size.experts else None)
    if not options.graph:
        return
    if options.device != "cuda":
        wrong("--graph needs a CUDA device")
    if size.experts and options.dispatch == "normal":
        wrong("--graph cannot hold --dispatch=normal: the host reads how much to send", hint="--dispatch=low-latency")
    if size.experts and options.backend == "gloo":
        wrong("--graph cannot hold what gloo sends: it moves host memory", hint="--backend=nccl or --ranks-as=streams")


def found(
    options: argparse.Namespace, point: OperatingPoint, targets: Sequence[Target], answers: Sequence[Result]
) -> dict[str, Any]:
    """What the ranks saw, as figures of the node, and how those stand to the targets."""
    kinds = [kind for kind in SPREADS if options.mode in ("all", kind)]
    tokens = {"prefill": point.batch * point.context, "decode": point.batch * (point.output - 1)}
    times: dict[str, Any] = {}
    for kind in kinds:
        times |= _phase(kind, tokens[kind] * options.iters, answers)
    rows = [_row(rank, answer) for rank, answer in enumerate(answers)]
    return {
        "kv_bytes": max(answer["kv_bytes"] for answer in answers),
        **peak_of([answer["peak_bytes"] for answer in answers]),
        **times,
        "slowest_rank": max(range(len(rows)), key=lambda rank: rows[rank]["work_ms"]),
        "ranks": rows,
        **judged(targets, times),
    }


def peak_of(peaks: Sequence[int | None]) -> dict[str, Any]:
    """For a result: the most memory that any rank had allocated on its GPU while it was measured."""
    known = [peak for peak in peaks if peak is not None]
    if known:
        return {"peak_memory_bytes": max(known)}
    return {"peak_memory_bytes": None, "peak_memory_bytes_reason": "only a GPU's memory is counted"}


def _phase(kind: str, tokens: int, answers: Sequence[Result]) -> dict[str, Any]:
    """Tokens per second of the node and the times of steps, each step as long as on its slowest rank."""
    steps_ms = np.array([answer[kind].step_ms for answer in answers]).max(axis=0)
    work_ms = np.array([answer[kind].work_ms for answer in answers]).max(axis=0)
    seen, step = SPREADS[kind]
    seen_ms = [each for answer in answers for each in answer["ttft_ms"]] if kind == "prefill" else steps_ms.tolist()
    return {
        f"{kind}_tokens": tokens,
        f"{kind}_tokens_per_s": round(tokens / (float(steps_ms.sum()) / 1e3), 1),
        **spread_ms(seen_ms, seen),
        **spread_ms(work_ms.tolist(), step),
    }


def _row(rank: int, answer: Result) -> dict[str, Any]:
    """What a rank had, did, and waited for others; its prefill and decode together."""
    phases = (answer["prefill"], answer["decode"])
    work_ms = sum(sum(phase.work_ms) for phase in phases)
    wait_ms = sum(sum(phase.wait_ms) for phase in phases)
    return {
        "rank": rank,
        "sequences": answer["sequences"],
        "kv_pages": answer["kv_pages"],
        "work_ms": round(work_ms, 4),
        "wait_ms": round(wait_ms, 4),
        "wait_share": round(wait_ms / ((work_ms + wait_ms) or 1.0), 4),
    }


if __name__ == "__main__":
    bench("serve")

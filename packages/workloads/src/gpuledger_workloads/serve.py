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

from gpuledger_workloads.command_lines import SERVE_FLAGS, SERVE_PREFILL_ON_CPU
from gpuledger_workloads.decoder.checkpoint import Checkpoint
from gpuledger_workloads.decoder.size import DecoderSize, not_followed
from gpuledger_workloads.device import settle
from gpuledger_workloads.mixture.exchange import over_group
from gpuledger_workloads.program import (
    Result,
    asked,
    bench,
    count_of,
    expect_one_process,
    refuse,
    say,
    spread_ms,
    wrong,
)
from gpuledger_workloads.serving.lockstep import served
from gpuledger_workloads.serving.operating_point import (
    LAUNCH,
    SMALL,
    OperatingPoint,
    expect_fit,
    room_of,
    served_size,
    shares,
)
from gpuledger_workloads.targets import Target, judged, targets_of

SPREADS = {"prefill": ("ttft", "prefill_step"), "decode": ("itl", "decode_step")}


def settled_point(options: argparse.Namespace) -> OperatingPoint:
    """The point that is asked for, written back into the options; the program ends where it is not the launch point."""
    options.point = options.point or ("launch" if options.device == "cuda" else "any")
    usual = LAUNCH if options.point == "launch" or options.device == "cuda" else SMALL
    for name, flag in SERVE_FLAGS.items():
        value, launch = getattr(options, flag), getattr(LAUNCH, name)
        if options.point == "launch" and value not in (None, launch):
            wrong(
                f"--{flag.replace('_', '-')}={value} is another point than the launch point, where it is {launch}",
                hint="--point=any measures it; its figures do not compare with those of the launch point",
            )
        setattr(options, flag, value or getattr(usual, name))
    return OperatingPoint(*(getattr(options, flag) for flag in SERVE_FLAGS.values()))


def figures(mode: str) -> tuple[str, ...]:
    """The names that a target can have."""
    kinds = [kind for kind in SPREADS if mode in ("all", kind)]
    rates = [f"{kind}_tokens_per_s" for kind in kinds]
    return (*rates, *(key for kind in kinds for name in SPREADS[kind] for key in spread_ms([0.0], name)))


def run(options: argparse.Namespace) -> Result | None:
    """Refuse what cannot run; then start the ranks, and put together what they saw."""
    settle(options)
    point = settled_point(options)
    room = room_of(options, prefill_on_cpu=SERVE_PREFILL_ON_CPU)
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
    answers = over_group(served, options)
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
        **node_figures(options, point, targets, answers),
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


def node_figures(
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
    seen_ms = [ms for answer in answers for ms in answer["ttft_ms"]] if kind == "prefill" else steps_ms.tolist()
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

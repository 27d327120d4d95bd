"""A decoder-only language model to profile: `gpuledger bench decode [--graph] [--experts=8] [--config=FILE]`.

In: sizes, or a checkpoint; without any, a slice of a Llama-like model with random weights (a tiny one on a CPU). Out:
the time to the first token, the time per token and tokens per second. Tokens stay on the device, as where the host
prepares the next step meanwhile; `--read-tokens` reads each one, as a server does that streams its answer.

What is timed: the first token (ttft) by the host's clock, to the end of a synchronise; each further one (tpot) by the
device's clock, from the end of one step to the end of the next; between tokens as a reader sees it (itl) by the host's
clock where it reads each token, else as tpot.

NVTX: "bench:measure", in it "bench:prefill" and one "bench:decode" per step, in those "layerN" with "attention" and
"mlp"; "warmup" and "check" before and after. Needs torch 2.5 or later.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from itertools import pairwise
from typing import Any, NamedTuple

import torch  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from gpuledger_workloads.decoder.checkpoint import Checkpoint
from gpuledger_workloads.decoder.model import Decoder, Mark, agreed, build, whole_pass
from gpuledger_workloads.decoder.size import DecoderSize, not_followed, size_of
from gpuledger_workloads.device import CAPTURE_STEPS, DeviceClock, captured, refused_where_full, settle
from gpuledger_workloads.program import Progress, Result, asked, bench, say, spread_ms, wrong

Step = Callable[[], Tensor]  # decodes one token of each sequence and gives the logits of the next


def prefilled_ms(model: Decoder, prompt: Tensor, clock: DeviceClock) -> float:
    """Read the prompt; how long until its first token was there."""
    clock.synchronize()
    start = time.perf_counter()
    with window("bench:prefill"):
        model.prefill(prompt)
        clock.synchronize()
    return 1e3 * (time.perf_counter() - start)


class Decoded(NamedTuple):
    """What the measured steps gave."""

    logits: Tensor  # the last
    step_ms: list[float]
    read_ms: list[float]  # between two tokens on the host; empty where it reads none
    seconds: float


def decoded(model: Decoder, step: Step, options: argparse.Namespace) -> Decoded:
    """Decode the measured steps, each from the end of the one before."""
    clock, read, progress = DeviceClock(options.device), [], Progress("decode steps", options.iters)
    start = time.perf_counter()
    read.append(start)
    clock.mark()
    for done in range(options.iters):
        with window("bench:decode"):
            logits = step()
            if options.read_tokens:
                model.tokens.tolist()
                read.append(time.perf_counter())
        clock.mark()
        progress(done + 1)
    clock.synchronize()
    seconds = time.perf_counter() - start
    return Decoded(logits, clock.between_ms(), [1e3 * (after - before) for before, after in pairwise(read)], seconds)


def run(options: argparse.Namespace) -> Result:
    """Refuse what cannot run; then build, warm up, measure, check."""
    settle(options)
    size = size_of(options)
    if options.graph and options.device != "cuda":
        wrong("--graph needs a CUDA device")
    settings = {"steps": options.iters} | asked(options, "iters", *asdict(size)) | size.settings()
    ignored = not_followed(options)
    if options.ckpt:
        Checkpoint(options.ckpt).expect(size)
    say(f"{size.parameters / 1e6:,.1f} million parameters, {options.dtype} on {options.device}")
    with refused_where_full():
        figures = measured(size, options)
    return {
        "workload": "decode",
        "settings": settings,
        "parameters": size.parameters,
        **ignored,
        **figures,
        "checked": True,
    }


def measured(size: DecoderSize, options: argparse.Namespace) -> dict[str, Any]:
    """All that is found once the size is known."""
    spare = max(options.iters, options.warmup + CAPTURE_STEPS)
    mark: Mark = nullcontext if options.compile else window  # type: ignore[assignment]  # ranges would part a graph
    model = build(size, spare, options.device, options.dtype, options.seed, mark)
    checkpoint = Checkpoint(options.ckpt) if options.ckpt else None
    if checkpoint:
        checkpoint.fill(model, size)
    clock = DeviceClock(options.device)
    prompt = torch.randint(size.vocab, (size.batch, size.prompt), device=options.device)
    step: Step = torch.compile(model.step) if options.compile else model.step
    with window("warmup"):
        cold_ms = prefilled_ms(model, prompt, clock)
        for _ in range(options.warmup):
            step()
        if options.graph:
            step = captured(step)
    say(f"first token after {cold_ms:,.1f} ms, warmed up")
    with window("bench:measure", profiler=options.cuda_profiler):
        first_ms = prefilled_ms(model, prompt, clock)
        text = decoded(model, step, options)
    with window("check"):
        error = agreed(text.logits, whole_pass(model, size.prompt + options.iters), size, "the last logits")
    say(f"{options.iters} steps in {1e3 * text.seconds:,.1f} ms, the last logits off by {error:.2g} of their norm")
    tokens = size.batch * options.iters
    return {
        **(checkpoint.unused_parts(size) if checkpoint else {}),
        "ttft_ms": round(first_ms, 4),
        "ttft_cold_ms": round(cold_ms, 4),
        **spread_ms(text.step_ms, "tpot"),
        **spread_ms(text.read_ms or text.step_ms, "itl"),
        "tokens": tokens,
        "tokens_per_s": round(tokens / text.seconds, 1),
    }


if __name__ == "__main__":
    bench("decode")

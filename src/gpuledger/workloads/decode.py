"""A decoder-only language model to profile: `python -m gpuledger.workloads.decode [--graph] [--experts=8]`.

In: sizes; without any, a slice of a Llama-like model with random weights (a tiny one on a CPU). Out: one JSON line with
the time to the first token, the time per token and tokens per second; what goes on goes to stderr. The prompt is read,
some tokens are decoded to warm up, and then both are done again and measured. Tokens stay on the device, as where the
host prepares the next step meanwhile; `--read-tokens` reads each one, as a server does that streams its answer.

What is timed: the first token by the host's clock, to the end of a synchronise; each further one by the device's clock,
from the end of one step to the end of the next. At the end the last logits are compared with those of one pass over the
whole text, which does not use the cache.

NVTX: "bench:measure" around all that is measured, in it "bench:prefill" and one "bench:decode" per step, in those
"layerN" with "attention" and "mlp"; "warmup" and "check" before and after. With `--cuda-profiler`, "bench:measure" is
what `nsys profile --capture-range=cudaProfilerApi --capture-range-end=stop` records. Needs torch 2.5 or later.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from gpuledger.workloads.decoder import DTYPES, Decoder, Mark, Size, build

Step = Callable[[], Tensor]  # decodes one token of each sequence and gives the logits of the next
TOLERANCE = {"dense": 0.05, "experts": 0.3}  # of the logits' norm; rounding may send a token to another expert
CAPTURE_STEPS = 3  # before a graph is captured

LARGE = Size(layers=8, width=4096, heads=32, kv_heads=8, ffn=14336, vocab=32000, batch=4, prompt=128)
TINY = Size(layers=2, width=64, heads=4, kv_heads=2, ffn=96, vocab=256, batch=2, prompt=16)  # for a CPU


def captured(step: Step) -> Step:
    """The step as a CUDA graph: one launch, whatever is in it."""
    cuda: Any = torch.cuda  # its classes are untyped
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        for _ in range(CAPTURE_STEPS):
            step()
    cuda.current_stream().wait_stream(side)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        logits = step()

    def replay() -> Tensor:
        graph.replay()
        return logits

    return replay


class Clock:
    """Marks on the device's own time line, or on the host's where it computes itself."""

    def __init__(self, device: str) -> None:
        self.cuda: Any = torch.cuda if device == "cuda" else None
        self.marks: list[Any] = []

    def mark(self) -> None:
        if self.cuda is None:
            self.marks.append(time.perf_counter())
        else:
            self.marks.append(self.cuda.Event(enable_timing=True))
            self.marks[-1].record()

    def synchronize(self) -> None:
        if self.cuda is not None:
            self.cuda.synchronize()

    def between_ms(self) -> list[float]:
        """The time from each mark to the next."""
        if self.cuda is None:
            return [1e3 * (after - before) for before, after in pairwise(self.marks)]
        return [before.elapsed_time(after) for before, after in pairwise(self.marks)]


def prefilled_ms(model: Decoder, prompt: Tensor, clock: Clock) -> float:
    """Read the prompt; how long until its first token was there."""
    clock.synchronize()
    start = time.perf_counter()
    with window("bench:prefill"):
        model.prefill(prompt)
        clock.synchronize()
    return 1e3 * (time.perf_counter() - start)


def error_of(model: Decoder, logits: Tensor, length: int) -> float:
    """How far logits are from those of one pass over the whole text, relative to their norm."""
    expected = model(model.text[:, :length], model.everywhere[:length], None).float()
    return float((logits.float() - expected).norm() / expected.norm())


def run(size: Size, options: argparse.Namespace) -> dict[str, object]:
    """Build, warm up, measure, check."""
    spare = max(options.steps, options.warmup + CAPTURE_STEPS)
    mark: Mark = nullcontext if options.compile else window  # type: ignore[assignment]  # ranges would part a graph
    model = build(size, spare, options.device, options.dtype, options.seed, mark)
    parameters = sum(each.numel() for each in model.parameters())
    say(f"{parameters / 1e6:,.1f} million parameters, {options.dtype} on {options.device}")
    clock = Clock(options.device)
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
        start = time.perf_counter()
        clock.mark()
        for _ in range(options.steps):
            with window("bench:decode"):
                logits = step()
                if options.read_tokens:
                    model.tokens.tolist()
            clock.mark()
        clock.synchronize()
        seconds = time.perf_counter() - start
    with window("check"):
        error = error_of(model, logits, size.prompt + options.steps)
    if not error < TOLERANCE["experts" if size.experts else "dense"]:  # also when it is NaN
        raise SystemExit(f"error: the last logits are off by {error:.3g} of their norm")
    say(f"{options.steps} steps in {1e3 * seconds:,.1f} ms, the last logits off by {error:.2g} of their norm")
    median, p10, p90, p99 = np.percentile(clock.between_ms(), [50, 10, 90, 99]).round(4).tolist()
    what = {name: getattr(options, name) for name in ("device", "dtype", "graph", "compile", "read_tokens", "steps")}
    times = {"ttft_ms": round(first_ms, 4), "ttft_cold_ms": round(cold_ms, 4), "tpot_ms_median": median}
    times |= {"tpot_ms_p10": p10, "tpot_ms_p90": p90, "itl_ms_p99": p99}
    rate = {"tokens_per_s": round(size.batch * options.steps / seconds, 1), "checked": True}
    return {"workload": "decode", **what, **asdict(size), "parameters": parameters, **times, **rate}


def say(line: str) -> None:
    """Progress, for whoever watches."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def main() -> None:
    """The command line: exit code 2 for a wrong one, 1 for wrong numbers or no device."""
    parser = argparse.ArgumentParser(prog="gpuledger.workloads.decode", description="Decode with a model to profile.")
    meanings = {"kv_heads": "heads of keys and values", "ffn": "width inside an MLP", "prompt": "tokens of a prompt"}
    meanings |= {"experts": "MLPs to route between; 0: one for all", "top_k": "experts per token"}
    for name, large in asdict(LARGE).items():
        tiny = getattr(TINY, name)
        told = f"{meanings.get(name, name)}; default {large}" + ("" if tiny == large else f", on a CPU {tiny}")
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, metavar="N", help=told)
    parser.add_argument("--steps", type=int, default=20, help="measured decode steps; default 20")
    parser.add_argument("--warmup", type=int, default=5, help="decode steps before them; default 5")
    parser.add_argument("--dtype", choices=list(DTYPES), help="default bf16, on a CPU fp32")
    parser.add_argument("--device", choices=["auto", "cuda", "cpu"], default="auto")
    parser.add_argument("--graph", action="store_true", help="the decode step as a CUDA graph")
    parser.add_argument("--compile", action="store_true", help="the decode step through torch.compile, without ranges")
    parser.add_argument("--read-tokens", action="store_true", help="read every token on the host")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--cuda-profiler", action="store_true", help="cudaProfilerStart and Stop around what is measured"
    )
    options = parser.parse_args()
    available = torch.cuda.is_available()
    if options.device == "auto":
        options.device = "cuda" if available else "cpu"
    on_gpu = options.device == "cuda"
    given = {name: value for name in asdict(LARGE) if (value := getattr(options, name)) is not None}
    size = Size(**asdict(LARGE if on_gpu else TINY) | given)
    options.dtype = options.dtype or ("bf16" if on_gpu else "fp32")
    fault = size.fault()
    if options.steps < 1 or options.warmup < 0:
        fault = "give at least one step, and no negative warm-up"
    if fault or (options.graph and not on_gpu):
        parser.error(fault or "--graph needs a CUDA device")
    if on_gpu and not available:
        raise SystemExit("error: torch sees no CUDA device\n\nhint: --device=cpu runs a tiny model")
    print(json.dumps(run(size, options)))  # noqa: T201


if __name__ == "__main__":
    main()

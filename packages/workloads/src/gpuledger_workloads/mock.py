"""One part of the decoder alone, as a mock of it: `gpuledger bench mock --part=attention`.

In: the sizes of `bench decode`, and which part. Out: a `Result` with the time of one forward. The part gets what it
gets inside of the model: a model of one layer reads a prompt and decodes a token, and the part's input at that token is
kept. Then the part alone runs on it again and again, and must give what it gave inside.

NVTX: "bench:measure" around all that is measured, in it one range per forward, named as the part is in the model, so
that `gpuledger align MOCK MODEL --range=attention` finds both. Sizes and --steps should be those of the model: the
length of the cache follows from them, and with it what attention does.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from gpuledger_workloads.decoder.model import DecoderLayer, build
from gpuledger_workloads.decoder.size import DecoderSize, not_followed, size_of
from gpuledger_workloads.device import DeviceClock, error_of, settle
from gpuledger_workloads.program import Progress, Result, asked, bench, refuse, spread_ms

TOLERANCE = 0.01  # of the output's norm: input and weights are the same, so only the order of sums may differ


def run(options: argparse.Namespace) -> Result:
    """Build, take the input from the model, measure, check."""
    settle(options)
    size = size_of(options, layers=1)
    forward, expected = mocked(size, options)
    clock = DeviceClock(options.device)
    progress = Progress("forwards", options.iters)
    with window("warmup"):
        for _ in range(options.warmup):
            forward()
    clock.synchronize()
    with window("bench:measure", profiler=options.cuda_profiler):
        clock.mark()
        for done in range(options.iters):
            with window(options.part):
                output = forward()
            clock.mark()
            progress(done + 1)
        clock.synchronize()
    error = error_of(output, expected)
    if not error < TOLERANCE:  # also when it is NaN
        refuse(f"the {options.part} alone is off by {error:.3g} of the norm of what it gives in the model")
    times = spread_ms(clock.between_ms())
    settings = asked(options, *asdict(size)) | size.settings()
    return {
        "workload": "mock",
        "settings": settings,
        **times,
        "error_share": error,
        **not_followed(options),
        "checked": True,
    }


def mocked(size: DecoderSize, options: argparse.Namespace) -> tuple[Callable[[], Tensor], Tensor]:
    """The part with its input from the model, to be called; and what it gave there."""
    model: Any = build(size, options.steps, options.device, options.dtype, options.seed)
    prompt = torch.randint(size.vocab, (size.batch, size.prompt), device=options.device)
    layer: Any = model.layers[0]
    seen: dict[str, Any] = {}
    hooks = [
        layer.register_forward_pre_hook(lambda _, given: seen.update(hidden=given[0].clone(), place=_kept(given[1]))),
        layer.register_forward_hook(lambda _, __, gave: seen.update(layer=gave.clone())),
        layer.mlp_norm.register_forward_pre_hook(lambda _, given: seen.update(attended=given[0].clone())),
    ]
    model.prefill(prompt)
    model.step()
    for hook in hooks:
        hook.remove()
    hidden, place = seen["hidden"], seen["place"]
    if options.part == "attention":
        return lambda: _attention(layer, hidden, place), seen["attended"]
    if options.part == "mlp":
        return lambda: _mlp(layer, seen["attended"]), seen["layer"]
    return lambda: _mlp(layer, _attention(layer, hidden, place)), seen["layer"]


def _attention(layer: DecoderLayer, hidden: Tensor, place: Any) -> Tensor:
    mixed: Tensor = hidden + layer.attention(layer.attention_norm(hidden), place)
    return mixed


def _mlp(layer: DecoderLayer, hidden: Tensor) -> Tensor:
    fed: Tensor = hidden + layer.mlp(layer.mlp_norm(hidden))
    return fed


def _kept(place: Any) -> Any:
    """A place as it is now: the model moves its own on."""
    return type(place)(*(value.clone() if isinstance(value, Tensor) else value for value in place))


if __name__ == "__main__":
    bench("mock")

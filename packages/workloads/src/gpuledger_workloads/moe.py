"""An MoE layer to profile: sizes and a way to compute in, times, launches, padding and imbalance out.

Router, softmax, the k likeliest experts; then the experts, each a SwiGLU MLP, in one of the ways of `mixture`; then the
weighted sum. All ways have the same weights, tokens and routes. `Oracle` checks the last measured pass.

What is timed: from the end of one forward pass to the end of the next, on the device's clock. `flop` counts what the
router and the experts must multiply, padding left out; `least_bytes` what must be read and written at least: the
weights of the experts that have tokens, the router's, the tokens once each way. tflop_per_s and gb_per_s are these by
the median time, so that either can be held against the device's roof.

NVTX: "bench:measure" around all that is measured, in it one "mode_NAME" per way, in that one "iteration" per pass, with
"route", "dispatch_single", "compute_NAME" and "combine_single"; "warmup", "check" and "count" outside.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from gpuledger_workloads.command_lines import CHOICES, MOE_SIZES, moe_parser
from gpuledger_workloads.device import DTYPES, Calls, DeviceClock, counted, gigabytes, needs, refused_where_full, settle
from gpuledger_workloads.mixture import routing
from gpuledger_workloads.mixture.experts import ExpertWeights, MixtureShape, Oracle, bank, mixed
from gpuledger_workloads.program import Progress, Result, asked, bench, say, settle_sizes, spread_ms


@dataclass(frozen=True, slots=True)
class MoeLayer:
    """All that a pass needs."""

    shape: MixtureShape
    router: routing.Router
    held: ExpertWeights
    hidden: Tensor

    def __call__(self, mode: str) -> Tensor:
        with window("route"):
            routed = self.router(self.hidden)
        return mixed(mode, self.held, self.hidden, routed)


@dataclass(frozen=True, slots=True)
class ExpertLoad:
    """What the routes ask of the experts."""

    counts: list[int]  # tokens of each expert
    flop: int
    weight_bytes: int
    least_bytes: int

    @property
    def assignments(self) -> int:
        return sum(self.counts)

    def rows(self, mode: str) -> int:
        """Rows that a mode multiplies, padding and all."""
        return len(self.counts) * max(self.counts) if mode == "batched_gemm" else self.assignments

    def way_bytes(self, mode: str, layer: MoeLayer) -> int:
        """Memory for rows on their way: in, gate and up, their product, out; and those that tokens fetch."""
        shape = layer.shape
        numbers = self.rows(mode) * (2 * shape.hidden + 3 * shape.ffn) + 2 * self.assignments * shape.hidden
        return numbers * int(layer.hidden.element_size())


def complete(options: argparse.Namespace) -> str | None:
    """Fill in what was not given, and say what cannot be."""
    settle(options)
    settle_sizes(options, MOE_SIZES)
    if options.ffn_dim is None:
        options.ffn_dim = max(8, round(options.hidden_dim * 2 / 7 / 8) * 8)  # 2048 of 7168; rows of 16 bytes
    if options.experts_per_token > options.num_experts:
        return f"--experts-per-token={options.experts_per_token} is more than --num-experts={options.num_experts}"
    if not 0 <= options.exponent <= 100:  # also when it is NaN
        return f"--exponent={options.exponent} is not between 0 and 100"
    return None


def shape_of(options: argparse.Namespace) -> MixtureShape:
    """The experts that were asked for."""
    return MixtureShape(options.num_experts, options.hidden_dim, options.ffn_dim)


def run(options: argparse.Namespace) -> Result:
    """Build, warm up, measure, check, count."""
    wrong = complete(options)
    if wrong:
        moe_parser().error(wrong)
    with refused_where_full(), torch.inference_mode():
        layer = build(options)
        load = loaded(layer)
        modes = CHOICES[options.mode]
        for mode in modes:
            needs(mode, load.way_bytes(mode, layer), options.device)
        measured = _measured(layer, modes, options)
        oracle = Oracle(layer.shape, layer.router, layer.hidden, options.seed, options.dtype)
        with window("check"):
            errors = {mode: oracle.checked(output, mode) for mode, (_, output) in measured.items()}
        with window("count"):
            calls = {mode: counted(partial(layer, mode), options.device) for mode in modes}
    rows = [_row(mode, measured[mode][0], load, len(layer.hidden), calls[mode], errors[mode]) for mode in modes]
    return _result(options, layer, load, rows, calls[modes[0]].reason)


def build(options: argparse.Namespace) -> MoeLayer:
    """The layer and its tokens, made from the seed."""
    shape, dtype = shape_of(options), DTYPES[options.dtype]
    sizes = options.batch_size, options.num_experts, options.experts_per_token
    size = shape.experts * shape.weights * torch.empty((), dtype=dtype).element_size()
    say(f"{shape.experts} experts, {gigabytes(size)} of weights, {options.dtype} on {options.device}")
    needs("the weights of all experts", size, options.device)
    plan = routing.planned(options.routing, *sizes, exponent=options.exponent, seed=options.seed)
    plan = None if plan is None else plan.to(options.device)
    how: dict[str, Any] = {"device": options.device, "dtype": dtype, "seed": options.seed}
    router = routing.router(shape.experts, options.experts_per_token, shape.hidden, plan, **how)
    hidden = routing.tokens(options.batch_size, shape.hidden, **how)
    return MoeLayer(shape, router, bank(shape, range(shape.experts), **how), hidden)


def loaded(layer: MoeLayer) -> ExpertLoad:
    """Count what the routes ask for. The host waits."""
    counts = routing.tokens_per_expert(layer.router(layer.hidden), layer.shape.experts)
    number = layer.hidden.element_size()
    weights = sum(map(bool, counts)) * layer.shape.weights * number
    router = layer.router.weight.numel()
    return ExpertLoad(
        counts,
        flop=layer.shape.flop(sum(counts)) + 2 * len(layer.hidden) * router,
        weight_bytes=weights,
        least_bytes=weights + (router + 2 * layer.hidden.numel()) * number,
    )


def _measured(
    layer: MoeLayer, modes: tuple[str, ...], options: argparse.Namespace
) -> dict[str, tuple[list[float], Tensor]]:
    """Times and output of each; all are warm before the first is measured, so that a window holds nothing else."""
    with window("warmup"):
        for mode in modes:
            for _ in range(options.warmup):
                layer(mode)
    DeviceClock(options.device).synchronize()
    runs = {}
    with window("bench:measure", profiler=options.cuda_profiler):
        for mode in modes:
            clock, progress = DeviceClock(options.device), Progress(mode, options.iters)
            with window(f"mode_{mode}"):
                clock.mark()
                for done in range(options.iters):
                    with window("iteration"):
                        output = layer(mode)
                    clock.mark()
                    progress(done + 1)
                clock.synchronize()
            runs[mode] = clock.between_ms(), output
    return runs


def _row(mode: str, times_ms: list[float], load: ExpertLoad, tokens: int, calls: Calls, error: float) -> Result:
    spread = spread_ms(times_ms)
    median_s = spread["median_ms"] / 1e3 or 1e-9
    return {
        "mode": mode,
        **spread,
        "tokens_per_s": round(1e3 * tokens * len(times_ms) / sum(times_ms), 1),
        "tflop_per_s": figures(load.flop / median_s / 1e12),
        "gb_per_s": figures(load.least_bytes / median_s / 1e9),
        "launches": calls.launches,
        "syncs": calls.syncs,
        "copies": calls.copies,
        "padding_share": round(1 - load.assignments / load.rows(mode), 6),
        "error_share": figures(error),
    }


def figures(value: float) -> float:
    """As many figures as are worth telling."""
    return float(f"{value:.4g}")


def settings_of(options: argparse.Namespace) -> dict[str, Any]:
    """What was asked for; an exponent only where it is used."""
    return asked(options, *(() if options.routing == "power-law" else ("exponent",)))


def _result(options: argparse.Namespace, layer: MoeLayer, load: ExpertLoad, rows: list[Result], reason: str) -> Result:
    result: Result = {"workload": "moe", "settings": settings_of(options)}
    alone = len(rows) == 1
    result |= {key: value for key, value in rows[0].items() if key != "mode"} if alone else {"modes": rows}
    if reason:
        result |= {f"{key}_reason": reason for key in (("launches", "syncs", "copies") if alone else ("launches",))}
    if "grouped" in CHOICES[options.mode]:
        result["grouped_by"] = layer.held.grouped_by
    return result | {
        "experts_used": sum(map(bool, load.counts)),
        "imbalance": routing.imbalance(load.counts),
        "flop": load.flop,
        "weight_bytes": load.weight_bytes,
        "least_bytes": load.least_bytes,
        "checked": True,
    }


if __name__ == "__main__":
    bench("moe")

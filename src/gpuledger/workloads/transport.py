"""Dispatch and combine of an expert-parallel layer, without a model: `gpuledger bench transport`.

In: a decode point (global batch, hidden size, experts, topk) and ranks. Out: the time of each phase by the slowest rank
of each iteration, and the bytes that moved. Phases, each an NVTX range in "bench:measure":

- layout: which token goes to which rank, how many to each, and with what weight they count; no host sync;
- dispatch: counts are exchanged, the host waits for them once, then each token goes once to each rank that owns one of
  its experts; experts do nothing here, so that the expert numbers and weights (12 bytes per choice) stay at home;
- combine: rows come back, and are summed at home with the weights of the experts of the rank that they were at.

Ranks meet before each iteration, which is not timed: whoever came early would count its waiting as transport. Bytes are
exact: rows x hidden x bytes of a number; remote ones leave the rank, local ones go to its own experts. Bandwidth is the
remote bytes of the rank that sends most over the median dispatch, all of it, waiting included. Afterwards the sum is
compared, token by token, with x times the sum of its weights, which needs no ranks; and once more with ranks that
multiply by numbers of their own, so that a row which went to the wrong rank shows.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]
import torch.distributed as dist  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from gpuledger.workloads.common.program import (
    DTYPES,
    DeviceClock,
    Progress,
    Result,
    asked,
    at_least,
    bench,
    program,
    refuse,
    settle,
    spread_ms,
    wrong,
)
from gpuledger.workloads.common.ranks import Rank, over_ranks, rank_options, slowest
from gpuledger.workloads.mixture.exchange import Counts, Layout, agreed, exchange, exchanged_counts, layout, owners

PHASES = ("layout", "dispatch", "combine")
TOLERANCE = {"bf16": 0.02, "fp16": 0.004, "fp32": 1e-5}  # of a token's norm
SIZES = {  # name: (default on a GPU, on a CPU, meaning)
    "decode_batch_size": (256, 64, "tokens of all ranks together"),
    "hidden_size": (7168, 256, "numbers per token"),
    "num_experts": (256, 32, "experts of all ranks together"),
    "topk": (8, 4, "experts per token"),
}

_ABOUT = """\
Time what moves tokens between the ranks of an expert-parallel MoE layer at a decode point, without the model: layout
(which token goes to which rank), dispatch (counts and tokens, a token once per rank) and combine (back, and summed).

Prints median, p10, p90 and p99 of each phase over the slowest rank of each iteration, remote and local bytes, the
bandwidth of dispatch, ranks per token, and a table of ranks. Sums are checked against x times the sum of the weights.

Routing: random draws the experts of a token anew for each token; uniform gives all experts the same work, and each
token to as many ranks as it can.

examples:
  gpuledger bench transport --world-size=2 --backend=gloo
  gpuledger bench transport --mode=normal --decode-batch-size=256 --hidden-size=7168 --num-experts=256 --topk=8 \\
      --routing=random --warmup-iters=20 --iters=200
  torchrun --nproc_per_node=8 -m gpuledger.workloads.transport --routing=uniform
"""


@dataclass(frozen=True, slots=True)
class TransportLoad:
    """What one rank has to move: its tokens, the experts of each and their weights, and who owns which expert."""

    tokens: Tensor
    experts: Tensor
    weights: Tensor
    owner: Tensor


@dataclass(frozen=True, slots=True)
class Sent:
    """A layout whose counts are known: the token and the weight of each copy."""

    counts: Counts
    order: Tensor
    shares: Tensor


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = program("transport", _ABOUT, iters=200, warmup=20)
    made.add_argument(
        "--warmup-iters", dest="warmup", type=at_least(0), default=argparse.SUPPRESS, metavar="N", help="as --warmup"
    )
    made.add_argument("--mode", choices=["normal"], default="normal", help="rows as they are, counts exchanged before")
    for name, (large, tiny, meaning) in SIZES.items():
        made.add_argument(
            f"--{name.replace('_', '-')}",
            type=at_least(1),
            metavar="N",
            help=f"{meaning}; default {large}, on a CPU {tiny}",
        )
    made.add_argument("--routing", choices=["random", "uniform"], default="random", help="default random")
    rank_options(made)
    return made


def run(options: argparse.Namespace) -> Result | None:
    """Measure on all ranks, check, and tell."""
    settle(options)
    for name, (large, tiny, _) in SIZES.items():
        if getattr(options, name) is None:
            setattr(options, name, large if options.device == "cuda" else tiny)
    if options.topk > options.num_experts:
        wrong(f"--topk={options.topk}: there are {options.num_experts} experts", hint="a token uses an expert once")
    answers = over_ranks(work, options)
    return None if answers is None else told(options, answers)


def routed(options: argparse.Namespace) -> tuple[Tensor, Tensor]:
    """Experts and weights of the whole batch, the same on every rank. Weights do not sum up to 1, to be seen."""
    batch, count, topk = options.decode_batch_size, options.num_experts, options.topk
    chance = torch.Generator().manual_seed(options.seed)
    if options.routing == "random":
        experts = torch.rand(batch, count, generator=chance).topk(topk).indices
    else:
        experts = (torch.arange(batch)[:, None] + torch.arange(topk) * count // topk) % count
    return experts, 0.1 + torch.rand(batch, topk, generator=chance)


def point(options: argparse.Namespace, rank: Rank) -> TransportLoad:
    """A rank's part of the batch: sizes differ by one at most, and may be 0."""
    experts, weights = routed(options)
    batch = options.decode_batch_size
    mine = slice(rank.index * batch // rank.count, (rank.index + 1) * batch // rank.count)
    chance = torch.Generator().manual_seed(options.seed + 1 + rank.index)
    tokens = torch.randn(mine.stop - mine.start, options.hidden_size, generator=chance)
    return TransportLoad(
        tokens=tokens.to(rank.device, DTYPES[options.dtype]),
        experts=experts[mine].to(rank.device),
        weights=weights[mine].to(rank.device),
        owner=owners(options.num_experts, rank.count, rank.device),
    )


def laid_out(at: TransportLoad, ranks: int) -> tuple[Layout, Tensor]:
    """What goes where, and the weight of each copy: that of all experts of its token on its rank."""
    sent = layout(at.experts, at.owner, ranks)
    by_rank = at.weights.new_zeros(len(at.tokens), ranks).scatter_add_(1, at.owner[at.experts], at.weights)
    return sent, by_rank[sent.order, sent.targets]


def dispatched(at: TransportLoad, laid: Layout, shares: Tensor, rank: Rank) -> tuple[Tensor, Sent]:
    """The rows that came, and what is needed to bring them back."""
    counts = agreed(laid.counts, exchanged_counts(laid.counts, rank))
    copies = sum(counts.send)
    order = laid.order[:copies]
    return exchange(at.tokens[order], counts.send, counts.receive, rank), Sent(counts, order, shares[:copies])


def combined(at: TransportLoad, rows: Tensor, sent: Sent, rank: Rank) -> Tensor:
    """The weighted sum of what the ranks made of each token, in the numbers of the tokens."""
    back = exchange(rows, sent.counts.receive, sent.counts.send, rank)
    whole = torch.zeros(at.tokens.shape, dtype=torch.float32, device=back.device)
    return whole.index_add_(0, sent.order, back.float() * sent.shares[:, None]).to(at.tokens.dtype)


def round_trip(at: TransportLoad, rank: Rank, clock: DeviceClock, scale: float = 1.0) -> tuple[Tensor, Sent]:
    """Dispatch and combine, with a mark before and after each phase. Experts multiply by `scale`; 1 is no work."""
    clock.mark()
    with window("layout"):
        laid, shares = laid_out(at, rank.count)
    clock.mark()
    with window("dispatch"):
        rows, sent = dispatched(at, laid, shares, rank)
    clock.mark()
    with window("combine"):
        whole = combined(at, rows if scale == 1.0 else rows * scale, sent, rank)
    clock.mark()
    return whole, sent


def work(rank: Rank, options: argparse.Namespace) -> Result:
    """One rank: warm up, measure, check. The times of each iteration, and the bytes, which are the same in each."""
    at = point(options, rank)
    with window("warmup"):
        for _ in range(options.warmup):
            round_trip(at, rank, DeviceClock(options.device))
    clock, progress = DeviceClock(options.device), Progress("transport", options.iters)
    with window("bench:measure", profiler=options.cuda_profiler):
        for done in range(options.iters):
            dist.barrier()
            whole, sent = round_trip(at, rank, clock)
            if rank.index == 0:
                progress(done)
        clock.synchronize()
    with window("check"):
        checked(at, whole, rank, options.dtype, same_everywhere=True)
        checked(at, round_trip(at, rank, DeviceClock(options.device), rank.index + 1.0)[0], rank, options.dtype)
    between = clock.between_ms()  # after the last phase of an iteration comes the way to the next
    times = {f"{phase}_ms": between[number :: len(PHASES) + 1] for number, phase in enumerate(PHASES)}
    row_bytes = options.hidden_size * at.tokens.element_size()
    home, counts = rank.index, sent.counts
    return times | {
        "tokens": len(at.tokens),
        "copies": sum(counts.send),
        "local_bytes": counts.send[home] * row_bytes,
        "remote_bytes": (sum(counts.send) - counts.send[home]) * row_bytes,
        "returned_bytes": (sum(counts.receive) - counts.receive[home]) * row_bytes,
    }


def checked(at: TransportLoad, whole: Tensor, rank: Rank, dtype: str, *, same_everywhere: bool = False) -> None:
    """Refuse sums that are not each token times its weights, each times the factor of its expert's rank."""
    factors = torch.ones_like(at.weights) if same_everywhere else at.owner[at.experts] + 1.0
    expected = at.tokens.float() * (at.weights * factors).sum(1, keepdim=True)
    off = (whole.float() - expected).norm(dim=1) / expected.norm(dim=1).clamp(min=1e-30)
    error = float(off.max()) if len(off) else 0.0
    if not error < TOLERANCE[dtype]:  # also when it is NaN
        refuse(f"on rank {rank.index} a token came back wrong, off by {error:.3g} of its norm")


def chances(options: argparse.Namespace) -> list[float]:
    """How likely a token goes to each rank, where its experts are drawn at random: none of topk draws may miss it."""
    count, topk = options.num_experts, options.topk
    owned = torch.bincount(owners(count, options.world_size), minlength=options.world_size).tolist()
    return [1 - math.comb(count - mine, topk) / math.comb(count, topk) for mine in owned]


def told(options: argparse.Namespace, answers: Sequence[Result]) -> Result:
    """The result: what all ranks found together, then a table of them."""
    times = {phase: np.array([each[f"{phase}_ms"] for each in answers]) for phase in PHASES}  # rank x iteration
    times["round_trip"] = sum(times[phase] for phase in PHASES)  # type: ignore[assignment]
    found: dict[str, Any] = {}
    for phase, of_rank in times.items():
        found |= spread_ms(of_rank.max(axis=0).tolist(), phase)
    ranks = [_row(index, each, times) for index, each in enumerate(answers)]
    busiest = max(each["remote_bytes"] for each in answers)
    is_alone = len(answers) == 1
    tokens, copies = (sum(each[key] for each in answers) for key in ("tokens", "copies"))
    row_bytes = options.hidden_size * DTYPES[options.dtype].itemsize
    remote_bytes, local_bytes = (sum(each[key] for each in answers) for key in ("remote_bytes", "local_bytes"))
    found |= {
        "remote_bytes": remote_bytes,
        "local_bytes": local_bytes,
        "most_remote_bytes": busiest,
        "bandwidth_bytes_per_s": None if is_alone else _rate(busiest, found["dispatch_median_ms"]),
        "ranks_per_token": round(copies / tokens, 4),
        "remote_ranks_per_token": round(remote_bytes / row_bytes / tokens, 4),
    }
    if options.routing == "random":
        found |= _expected(options, [each["tokens"] for each in answers], row_bytes)
    found["slowest_rank"] = slowest(ranks, "round_trip_median_ms")[0]
    return {"workload": "transport", "settings": asked(options), **found, "ranks": ranks, "checked": True}


def _expected(options: argparse.Namespace, tokens: Sequence[int], row_bytes: int) -> dict[str, float]:
    """What random routing makes of the same point on average, over all seeds."""
    likely = chances(options)
    remote = sum(count * (sum(likely) - likely[rank]) for rank, count in enumerate(tokens))
    return {"expected_ranks_per_token": round(sum(likely), 4), "expected_remote_bytes": round(remote * row_bytes)}


def _row(index: int, answer: Result, times: dict[str, Any]) -> Result:
    """A rank's own: its bytes, and the median of each phase."""
    kept = {key: value for key, value in answer.items() if not key.endswith("_ms")}
    medians = {f"{phase}_median_ms": round(float(np.median(of_rank[index])), 4) for phase, of_rank in times.items()}
    return {"rank": index, **kept, **medians}


def _rate(moved_bytes: int, ms: float) -> float | None:
    return round(1e3 * moved_bytes / ms, 1) if ms else None


if __name__ == "__main__":
    bench("transport")

"""Dispatch and combine of an expert-parallel layer, without a model: `gpuledger bench transport`.

In: a decode point (global batch, hidden size, experts, topk) and ranks. Out: the time of each phase by the slowest rank
of each iteration, and the bytes that moved. Phases, each an NVTX range in "bench:measure":

- layout: which token goes to which rank, how many to each, and with what weight they count; no host sync;
- dispatch: counts are exchanged, the host waits for them once, then each token goes once to each rank that owns one of
  its experts; experts do nothing here, so that the expert numbers and weights (12 bytes per choice) stay at home;
- combine: rows come back, and are summed at home with the weights of the experts of the rank that they were at.

In mode low-latency every rank sends every rank, itself included, as many rows as a rank has tokens at most, those that
do not go there as zeros (`padding_share`): no counts, no host waits, and bytes do not depend on the routing.

Ranks meet before each iteration, which is not timed: whoever came early would count its waiting as transport. Bytes are
exact: rows x hidden x bytes of a number; remote ones leave the rank. Bandwidth is the remote bytes of the rank that
sends most over the median dispatch, all of it, waiting included. The sum is compared, token by token, with x times the
sum of its weights; and once more with ranks that multiply by numbers of their own, so that a row which went to the
wrong rank shows.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found, unused-ignore]  # noqa: N812
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from gpuledger_workloads.command_lines import TRANSPORT_SIZES
from gpuledger_workloads.device import DTYPES, DeviceClock, settle
from gpuledger_workloads.mixture.exchange import Counts, Layout, RankGroup, layout, over_group, owners
from gpuledger_workloads.program import (
    Progress,
    Result,
    asked,
    bench,
    expect_one_process,
    refuse,
    settle_sizes,
    spread_ms,
    wrong,
)
from gpuledger_workloads.ranks import Rank, slowest

PHASES = ("layout", "dispatch", "combine")
TOLERANCE = {"bf16": 0.02, "fp16": 0.004, "fp32": 1e-5}  # of a token's norm


@dataclass(frozen=True, slots=True)
class TransportLoad:
    """What one rank has to move: its tokens, the experts of each and their weights, and who owns which expert."""

    tokens: Tensor
    experts: Tensor
    weights: Tensor
    owner: Tensor
    room: int  # tokens that any rank has, at most


Loads = Sequence[TransportLoad]  # of each rank of this process


@dataclass(frozen=True, slots=True)
class Sent:
    """A layout whose counts are known: the token and the weight of each copy."""

    counts: Counts
    order: Tensor
    shares: Tensor


def run(options: argparse.Namespace) -> Result | None:
    """Measure on all ranks, check, and tell."""
    settle(options)
    settle_sizes(options, TRANSPORT_SIZES)
    if options.topk > options.num_experts:
        wrong(f"--topk={options.topk}: there are {options.num_experts} experts", hint="a token uses an expert once")
    expect_one_process(options)
    answers = over_group(measured, options)
    return None if answers is None else result_of(options, answers)


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
        room=-(-batch // rank.count),
    )


def laid_out(load: TransportLoad, ranks: int) -> tuple[Layout, Tensor]:
    """What goes where, and the weight of each copy: that of all experts of its token on its rank."""
    sent = layout(load.experts, load.owner, ranks)
    return sent, weighed(load, ranks)[sent.order, sent.targets]


def dispatched(
    group: RankGroup, loads: Loads, laid: Sequence[tuple[Layout, Tensor]]
) -> tuple[list[Tensor], list[Sent]]:
    """The rows that came to each rank, and what is needed to bring them back."""
    one_each = [[1] * group.count for _ in loads]
    heard = group.swapped([sent.counts for sent, _ in laid], one_each, one_each)
    both = group.read(group.each(lambda place: torch.stack((laid[place][0].counts, heard[place]))))
    copies = [sum(send) for send, _ in both]
    sents = [
        Sent(Counts(send, receive), of_rank.order[:copy], shares[:copy])
        for (send, receive), (of_rank, shares), copy in zip(both, laid, copies, strict=True)
    ]
    rows = group.each(lambda place: loads[place].tokens[sents[place].order])
    return group.swapped(rows, [sent.counts.send for sent in sents], [sent.counts.receive for sent in sents]), sents


def combined(group: RankGroup, loads: Loads, rows: Sequence[Tensor], sents: Sequence[Sent]) -> list[Tensor]:
    """The weighted sum of what the ranks made of each token, in the numbers of the tokens."""
    back = group.swapped(rows, [sent.counts.receive for sent in sents], [sent.counts.send for sent in sents])

    def whole(place: int) -> Tensor:
        tokens, sent = loads[place].tokens, sents[place]
        sums = torch.zeros(tokens.shape, dtype=torch.float32, device=tokens.device)
        return sums.index_add_(0, sent.order, back[place].float() * sent.shares[:, None]).to(tokens.dtype)

    return group.each(whole)


def weighed(load: TransportLoad, ranks: int) -> Tensor:
    """The weight of each token on each rank, tokens x ranks; 0: it does not go there, as no weight is 0."""
    by_rank = load.weights.new_zeros(len(load.tokens), ranks)
    return by_rank.scatter_add_(1, load.owner[load.experts], load.weights)


def dispatched_at_capacity(
    group: RankGroup, loads: Loads, laid: Sequence[Tensor]
) -> tuple[list[Tensor], Sequence[Tensor]]:
    """As many rows for each rank as any rank has tokens; zeros for those that do not go there."""
    room = loads[0].room
    even = [[room] * group.count for _ in loads]

    def addressed(place: int) -> Tensor:
        tokens, stays = loads[place].tokens, laid[place].t().unsqueeze(-1) == 0
        rows = tokens.expand(group.count, -1, -1).masked_fill(stays, 0.0)
        return F.pad(rows, (0, 0, 0, room - len(tokens))).flatten(0, 1)

    return group.swapped(group.each(addressed), even, even), laid


def combined_at_capacity(
    group: RankGroup, loads: Loads, rows: Sequence[Tensor], laid: Sequence[Tensor]
) -> list[Tensor]:
    """The same sum; a row comes back to the place that its token has."""
    room = loads[0].room
    even = [[room] * group.count for _ in loads]
    back = group.swapped(rows, even, even)

    def whole(place: int) -> Tensor:
        tokens = loads[place].tokens
        parts = back[place].view(group.count, room, tokens.shape[1])[:, : len(tokens)]
        return torch.einsum("rth,tr->th", parts.float(), laid[place]).to(tokens.dtype)

    return group.each(whole)


@dataclass(frozen=True, slots=True)
class Way:
    """A way to move tokens, in its three phases. What layout gives, dispatch takes; what dispatch gives, combine."""

    layout: Callable[[TransportLoad, int], Any]
    dispatch: Callable[[RankGroup, Loads, Sequence[Any]], tuple[list[Tensor], Sequence[Any]]]
    combine: Callable[[RankGroup, Loads, Sequence[Tensor], Sequence[Any]], list[Tensor]]


WAYS = {
    "normal": Way(lambda load, ranks: laid_out(load, ranks), dispatched, combined),
    "low-latency": Way(lambda load, ranks: weighed(load, ranks), dispatched_at_capacity, combined_at_capacity),
}


def round_trip(
    group: RankGroup, way: Way, loads: Loads, clocks: Sequence[DeviceClock], *, scaled: bool = False
) -> list[Tensor]:
    """Dispatch and combine, with a mark before and after each phase. Experts do nothing or, scaled, multiply by 1 more
    than the number of their rank."""

    def mark() -> None:
        group.each(lambda place: clocks[place].mark())

    mark()
    with window("layout"):
        laid = group.each(lambda place: way.layout(loads[place], group.count))
    mark()
    with window("dispatch"):
        rows, sent = way.dispatch(group, loads, laid)
    mark()
    if scaled:
        rows = group.each(lambda place: rows[place] * (group.indices[place] + 1.0))
    with window("combine"):
        wholes = way.combine(group, loads, rows, sent)
    mark()
    return wholes


def measured(group: RankGroup, options: argparse.Namespace) -> list[Result]:
    """Warm up, measure, check. Of each rank the times of each iteration, and the bytes, which are the same in each."""
    way = WAYS[options.mode]
    loads = [point(options, Rank(index, group.count, "", group.device)) for index in group.indices]
    DeviceClock(options.device).synchronize()  # what was made on one stream is read on others

    def clocks() -> list[DeviceClock]:
        return [DeviceClock(options.device) for _ in loads]

    with window("warmup"):
        for _ in range(options.warmup):
            round_trip(group, way, loads, clocks())
    kept, progress = clocks(), Progress("transport", options.iters)
    with window("bench:measure", profiler=options.cuda_profiler):
        for done in range(options.iters):
            group.meet()
            wholes = round_trip(group, way, loads, kept)
            if group.indices[0] == 0:
                progress(done)
        DeviceClock(options.device).synchronize()
    with window("check"):
        again = round_trip(group, way, loads, clocks(), scaled=True)
        DeviceClock(options.device).synchronize()
        for index, load, whole, scaled in zip(group.indices, loads, wholes, again, strict=True):
            checked(load, whole, index, options.dtype, same_everywhere=True)
            checked(load, scaled, index, options.dtype)
    return [
        _times(clock) | _moved(load, index, group.count, options)
        for index, load, clock in zip(group.indices, loads, kept, strict=True)
    ]


def _times(clock: DeviceClock) -> Result:
    between = clock.between_ms()  # after the last phase of an iteration comes the way to the next
    return {f"{phase}_ms": between[number :: len(PHASES) + 1] for number, phase in enumerate(PHASES)}


def _moved(load: TransportLoad, index: int, ranks: int, options: argparse.Namespace) -> Result:
    """Copies of tokens that a rank sends, and the bytes of the rows that carry them."""
    row_bytes = options.hidden_size * load.tokens.element_size()
    counts = layout(load.experts, load.owner, ranks).counts.tolist()
    rows = counts if options.mode == "normal" else [load.room] * ranks
    return {
        "tokens": len(load.tokens),
        "copies": sum(counts),
        "away_copies": sum(counts) - counts[index],
        "local_bytes": rows[index] * row_bytes,
        "remote_bytes": (sum(rows) - rows[index]) * row_bytes,
        "rows": rows,
    }


def checked(load: TransportLoad, whole: Tensor, index: int, dtype: str, *, same_everywhere: bool = False) -> None:
    """Refuse sums that are not each token times its weights, each times the factor of its expert's rank."""
    factors = torch.ones_like(load.weights) if same_everywhere else load.owner[load.experts] + 1.0
    expected = load.tokens.float() * (load.weights * factors).sum(1, keepdim=True)
    off = (whole.float() - expected).norm(dim=1) / expected.norm(dim=1).clamp(min=1e-30)
    error = float(off.max()) if len(off) else 0.0
    if not error < TOLERANCE[dtype]:  # also when it is NaN
        refuse(f"on rank {index} a token came back wrong, off by {error:.3g} of its norm")


def chances(options: argparse.Namespace) -> list[float]:
    """How likely a token goes to each rank, where its experts are drawn at random: none of topk draws may miss it."""
    count, topk = options.num_experts, options.topk
    owned = torch.bincount(owners(count, options.world_size), minlength=options.world_size).tolist()
    return [1 - math.comb(count - mine, topk) / math.comb(count, topk) for mine in owned]


def result_of(options: argparse.Namespace, answers: Sequence[Result]) -> Result:
    """The result: what all ranks found together, then a table of them."""
    times = {phase: np.array([answer[f"{phase}_ms"] for answer in answers]) for phase in PHASES}  # rank x iteration
    times["round_trip"] = sum(times[phase] for phase in PHASES)  # type: ignore[assignment]
    figures: dict[str, Any] = {}
    for phase, of_rank in times.items():
        figures |= spread_ms(of_rank.max(axis=0).tolist(), phase)
    row_bytes = options.hidden_size * DTYPES[options.dtype].itemsize
    ranks = [_row(index, answers, times, row_bytes) for index in range(len(answers))]
    busiest = max(answer["remote_bytes"] for answer in answers)
    dispatch_ms = figures["dispatch_median_ms"]
    tokens, copies, away = (sum(answer[key] for answer in answers) for key in ("tokens", "copies", "away_copies"))
    remote_bytes, local_bytes = (sum(answer[key] for answer in answers) for key in ("remote_bytes", "local_bytes"))
    figures |= {
        "remote_bytes": remote_bytes,
        "local_bytes": local_bytes,
        "most_remote_bytes": busiest,
        "bandwidth_bytes_per_s": round(1e3 * busiest / dispatch_ms, 1) if dispatch_ms and len(answers) > 1 else None,
        "ranks_per_token": round(copies / tokens, 4),
        "remote_ranks_per_token": round(away / tokens, 4),
        "layout_share": round(float(times["layout"].sum() / times["round_trip"].sum()), 4),
        "wait_share": waiting(times),
    }
    if options.mode == "low-latency":
        figures["padding_share"] = round(1 - copies * row_bytes / (remote_bytes + local_bytes), 4)
    if options.routing == "random":
        figures |= _expected(options, [answer["tokens"] for answer in answers], row_bytes)
    figures["slowest_rank"] = slowest(ranks, "round_trip_median_ms")[0]
    return {"workload": "transport", "settings": asked(options), **figures, "ranks": ranks, "checked": True}


def waiting(times: Mapping[str, Any]) -> float | None:
    """The share of dispatch and combine in which a rank waits for another: of each iteration the shortest rank's time
    is about the transfer, and what the others take beyond it is waiting. None for one rank, which waits for none."""
    moves = [times[phase] for phase in ("dispatch", "combine")]  # rank x iteration
    whole = float(sum(of_rank.sum() for of_rank in moves))
    if len(moves[0]) < 2 or not whole:
        return None
    return round(1 - float(sum(len(of_rank) * of_rank.min(axis=0).sum() for of_rank in moves)) / whole, 4)


def _expected(options: argparse.Namespace, tokens: Sequence[int], row_bytes: int) -> dict[str, float]:
    """What random routing makes of the same point on average, over all seeds."""
    likely = chances(options)
    remote = sum(count * (sum(likely) - likely[rank]) for rank, count in enumerate(tokens))
    figures: dict[str, float] = {"expected_ranks_per_token": round(sum(likely), 4)}
    return figures | ({"expected_remote_bytes": round(remote * row_bytes)} if options.mode == "normal" else {})


def _row(index: int, answers: Sequence[Result], times: dict[str, Any], row_bytes: int) -> Result:
    """A rank's own: its bytes, and the median of each phase."""
    kept = {key: answers[index][key] for key in ("tokens", "copies", "local_bytes", "remote_bytes")}
    kept["returned_bytes"] = row_bytes * sum(
        answer["rows"][index] for rank, answer in enumerate(answers) if rank != index
    )
    medians = {f"{phase}_median_ms": round(float(np.median(of_rank[index])), 4) for phase, of_rank in times.items()}
    return {"rank": index, **kept, **medians}


if __name__ == "__main__":
    bench("transport")

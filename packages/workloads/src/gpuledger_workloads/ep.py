"""An MoE layer whose experts are spread over ranks: sizes in, times, bytes and the share of communication out.

Each rank has its own tokens, maybe none, and its own experts. A pass: route; dispatch, which tells every rank how much
comes, then sends a token once to each rank that has one of its experts, with the experts' numbers and weights; compute,
in one of the ways of `mixture.experts`; combine, which sends each sum back to where its token came from. The host waits
for the device once, to know how much to send; and in the modes that need it, for compute.

What is timed: a pass of each rank, on the device's clock, all started together by a barrier that is not timed. A step
takes as long as its slowest rank. comm_ms are the collectives, with the wait for other ranks in them: by events where
nccl runs, else by the host's clock; gloo stages rows of GPUs through the host's memory, which is in comm_ms as well.
Bytes are those that leave a rank for another: dispatch_bytes are tokens, 8 bytes for each place of a token, 16 for how
much comes; combine_bytes are rows back.

NVTX: "bench:measure", in it one "mode_NAME" per way, in that one "iteration" per pass, with "route",
"dispatch_all2all", "compute_NAME" and "combine_all2all"; "warmup", "check" and "count" outside.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]
import torch.distributed as dist  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from gpuledger_workloads.command_lines import CHOICES, ep_parser
from gpuledger_workloads.device import DTYPES, DeviceClock, counted, needs, refused_where_full
from gpuledger_workloads.mixture import routing
from gpuledger_workloads.mixture.exchange import (
    exchange,
    exchanged_counts,
    noted,
    owners,
    routes_here,
    sending_plan,
    summed,
)
from gpuledger_workloads.mixture.experts import ExpertWeights, MixtureShape, Oracle, bank, computed
from gpuledger_workloads.moe import complete, figures, settings_of, shape_of
from gpuledger_workloads.program import Progress, Result, bench, count_of, spread_ms
from gpuledger_workloads.ranks import Rank, over_ranks, slowest

_COUNTS_BYTES = 16  # how many tokens come, and how many places of theirs have an expert here


@dataclass(frozen=True, slots=True)
class RankLayer:
    """All that a pass needs on one rank."""

    rank: Rank
    shape: MixtureShape
    router: routing.Router
    held: ExpertWeights
    hidden: Tensor
    owner: Tensor  # the rank of each expert


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a dispatch moved: rows to each rank and from it, and the assignments that came with them."""

    send: list[int]
    receive: list[int]
    assigned: int


class Communication:
    """Time in collectives, pass by pass."""

    def __init__(self, rank: Rank) -> None:
        self._by_events = rank.backend == "nccl"
        self._staged = not self._by_events and rank.device != "cpu"
        self._passes: list[list[tuple[Any, Any]]] = []

    def next_pass(self) -> None:
        self._passes.append([])

    @contextmanager
    def __call__(self) -> Iterator[None]:
        start = self._now()
        yield
        if self._passes:  # none is counted before the first
            self._passes[-1].append((start, self._now()))

    def times_ms(self) -> list[float]:
        """The device must have been waited for."""
        if self._by_events:
            return [sum(start.elapsed_time(end) for start, end in spans) for spans in self._passes]
        return [1e3 * sum(end - start for start, end in spans) for spans in self._passes]

    def _now(self) -> Any:
        if self._by_events:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            return event
        if self._staged:
            torch.cuda.synchronize()  # staging would wait for what was computed before, which is no communication
        return time.perf_counter()


def run(options: argparse.Namespace) -> Result | None:
    """Check what was asked for, run the ranks, and put what they found together."""
    wrong = complete(options)
    count = count_of(options)
    if count > options.num_experts:
        wrong = wrong or f"{count} ranks cannot share {options.num_experts} experts: each needs one"
    if options.tokens_per_rank and len(options.tokens_per_rank) != count:
        wrong = wrong or f"--tokens-per-rank names {len(options.tokens_per_rank)} ranks, and there are {count}"
    if wrong:
        ep_parser().error(wrong)
    if options.tokens_per_rank:
        options.batch_size = None
    else:
        options.tokens_per_rank = [options.batch_size] * count
    answers = over_ranks(work, options)
    return None if answers is None else _result(options, answers)


def work(rank: Rank, options: argparse.Namespace) -> Result:
    """One rank: build, warm up, measure, check, count."""
    modes = CHOICES[options.mode]
    with refused_where_full(), torch.inference_mode():
        place = build(rank, options)
        with window("warmup"):
            for mode in modes:
                for _ in range(options.warmup):
                    passed(place, mode, Communication(rank))
        with window("bench:measure", profiler=options.cuda_profiler):
            runs = [_measured(place, mode, options) for mode in modes]
        oracle = Oracle(place.shape, place.router, place.hidden, options.seed, options.dtype)
        with window("check"):
            for mode, (row, output) in zip(modes, runs, strict=True):
                row["error_share"] = figures(oracle.checked(output, mode))
        with window("count"):
            for mode, (row, _) in zip(modes, runs, strict=True):
                calls = counted(partial(passed, place, mode, Communication(rank)), options.device)
                row |= {"launches": calls.launches, "syncs": calls.syncs, "launches_reason": calls.reason}
    chosen = routing.tokens_per_expert(place.router(place.hidden), place.shape.experts)
    return {"rows": [row for row, _ in runs], "chosen": chosen, "grouped_by": place.held.grouped_by}


def build(rank: Rank, options: argparse.Namespace) -> RankLayer:
    """The experts and tokens of a rank, made from the seed. A plan is for the tokens of all ranks together."""
    shape, dtype, counts = shape_of(options), DTYPES[options.dtype], options.tokens_per_rank
    owner = owners(shape.experts, rank.count)
    held = (owner == rank.index).nonzero().flatten().tolist()
    size = len(held) * shape.weights * torch.empty((), dtype=dtype).element_size()
    needs(f"the weights of {len(held)} experts", size, rank.device)
    plan = routing.planned(
        options.routing,
        sum(counts),
        shape.experts,
        options.experts_per_token,
        exponent=options.exponent,
        seed=options.seed,
    )
    if plan is not None:
        plan = plan.split(counts)[rank.index].to(rank.device)
    how: dict[str, Any] = {"device": rank.device, "dtype": dtype, "seed": options.seed}
    router = routing.router(shape.experts, options.experts_per_token, shape.hidden, plan, **how)
    hidden = routing.tokens(counts[rank.index], shape.hidden, rank=rank.index, **how)
    return RankLayer(
        rank, shape, router, bank(shape, range(held[0], held[-1] + 1), **how), hidden, owner.to(rank.device)
    )


def passed(place: RankLayer, mode: str, communication: Communication) -> tuple[Tensor, Traffic]:
    """One forward pass of the layer."""
    rank, hidden = place.rank, place.hidden
    with window("route"):
        routed = place.router(hidden)
    with window("dispatch_all2all"):
        order, rows, routes, traffic = _dispatched(place, routed, communication)
    mixed = computed(mode, place.held, rows, routes)
    with window("combine_all2all"):
        with communication():
            back = exchange(mixed, traffic.receive, traffic.send, rank)
        return summed(hidden, order, back, traffic.send), traffic


def _dispatched(
    place: RankLayer, routed: routing.Routed, communication: Communication
) -> tuple[Tensor, Tensor, routing.Routed, Traffic]:
    """Tokens to the ranks of their experts: the order of those sent, what came, and where that goes here."""
    rank = place.rank
    order, telling = sending_plan(routed, place.owner, rank.count)
    with communication():
        heard = exchanged_counts(telling, rank)
    sends, receives = torch.stack((telling, heard)).tolist()  # the host must know how much to send
    assigned = sum(count for _, count in receives)
    traffic = Traffic([count for count, _ in sends], [count for count, _ in receives], assigned)
    order = order[: sum(traffic.send)]
    leaving = place.hidden.index_select(0, order), noted(routed).index_select(0, order)
    with communication():
        rows, notes = (exchange(rows, traffic.send, traffic.receive, rank) for rows in leaving)
    return order, rows, routes_here(notes, place.held, traffic.assigned), traffic


def _measured(place: RankLayer, mode: str, options: argparse.Namespace) -> tuple[Result, Tensor]:
    """All ranks begin a pass together; the wait for that is not in its time."""
    clock, communication = DeviceClock(options.device), Communication(place.rank)
    progress = Progress(mode, options.iters)
    with window(f"mode_{mode}"):
        for done in range(options.iters):
            clock.synchronize()
            dist.barrier()
            communication.next_pass()
            clock.mark()
            with window("iteration"):
                output, traffic = passed(place, mode, communication)
            clock.mark()
            if not place.rank.index:
                progress(done + 1)
        clock.synchronize()
    return _row(place, mode, traffic, clock.between_ms()[::2], communication.times_ms()), output


def _row(place: RankLayer, mode: str, traffic: Traffic, times_ms: list[float], comm_ms: list[float]) -> Result:
    here = place.rank.index
    away = sum(traffic.send) - traffic.send[here]
    token = place.hidden.shape[1] * place.hidden.element_size()
    there = away * (token + 8 * place.router.k) + _COUNTS_BYTES * (place.rank.count - 1)
    back = (sum(traffic.receive) - traffic.receive[here]) * token
    return {
        "mode": mode,
        "rank": here,
        "tokens": len(place.hidden),
        "experts": len(place.held),
        "sent_tokens": sum(traffic.send),
        "received": sum(traffic.receive),
        "assigned": traffic.assigned,
        "median_ms": round(float(np.median(times_ms)), 4),
        "comm_ms": round(float(np.median(comm_ms)), 4),
        "comm_share": round(sum(comm_ms) / sum(times_ms), 4),
        "sent_bytes": there + back,
        "dispatch_bytes": there,
        "combine_bytes": back,
        "times_ms": times_ms,
        "comm_times_ms": comm_ms,
    }


def _result(options: argparse.Namespace, answers: list[Result]) -> Result:
    by_mode = list(zip(*(answer["rows"] for answer in answers), strict=True))
    steps = [_steps(rows) for rows in by_mode]
    alone = len(steps) == 1
    result: Result = {"workload": "ep", "settings": settings_of(options)}
    result |= {key: value for key, value in steps[0].items() if key != "mode"} if alone else {"modes": steps}
    one_mode, chosen = by_mode[0], np.sum([answer["chosen"] for answer in answers], axis=0).tolist()
    tokens, copies = sum(row["tokens"] for row in one_mode), sum(row["sent_tokens"] for row in one_mode)
    result |= {
        "rank_imbalance": routing.imbalance([row["assigned"] for row in one_mode]),
        "expert_imbalance": routing.imbalance(chosen),
        "experts_used": sum(map(bool, chosen)),
        "ranks_per_token": figures(copies / tokens) if tokens else None,
        "staged_through_host": options.backend == "gloo" and options.device == "cuda",
    }
    nothing = ("rank_imbalance", "expert_imbalance", "ranks_per_token")
    result |= {} if tokens else {f"{key}_reason": "no rank has tokens" for key in nothing}
    if one_mode[0]["launches_reason"]:
        result["launches_reason"] = one_mode[0]["launches_reason"]
    if "grouped" in CHOICES[options.mode]:
        result["grouped_by"] = answers[0]["grouped_by"]
    hidden = {"times_ms", "comm_times_ms", "launches_reason"}
    ranks = [{key: value for key, value in row.items() if key not in hidden} for rows in by_mode for row in rows]
    return result | {"ranks": ranks, "checked": True}


def _steps(rows: Sequence[Result]) -> Result:
    """All ranks of a mode: a step takes as long as the slowest of them."""
    times = np.array([row["times_ms"] for row in rows])
    communication = np.array([row["comm_times_ms"] for row in rows])
    spread = spread_ms(times.max(axis=0).tolist())
    tokens = sum(row["tokens"] for row in rows)
    return {
        "mode": rows[0]["mode"],
        **spread,
        "tokens_per_s": round(1e3 * tokens * times.shape[1] / float(times.max(axis=0).sum()), 1),
        "slowest_rank": slowest(rows, "median_ms")[0],
        "comm_share": round(float(communication.sum() / times.sum()), 4),
        # at least: of the communication a part is waiting for a rank that computes
        "double_compute_saves_share": round(0.5 * (1 - float(communication.sum() / times.sum())), 4),
        "free_compute_saves_share": round(1 - float(communication.sum() / times.sum()), 4),
        "sent_bytes": sum(row["sent_bytes"] for row in rows),
        "error_share": max(row["error_share"] for row in rows),
    }


if __name__ == "__main__":
    bench("ep")

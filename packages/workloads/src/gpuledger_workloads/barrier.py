"""Barriers between the ranks of a node, two protocols, called or replayed: `gpuledger bench barrier`.

In: how many ranks, and where they run. Out: the time of a barrier for each protocol and way, and whether it kept ranks
together. A rank writes how far it is on a board that all ranks see, and looks at it until all are as far:

- phase: the host counts barriers, and hands the number over with each call;
- tag: the number lives on the board, and the barrier itself adds 1.

A CUDA graph keeps the arguments of its launches. Replayed, a phase barrier asks for a number that all ranks have passed
long ago, and waits for nobody; a tag barrier goes on counting. That is shown, not assumed: in each round of the check
one rank is late, all write that they have begun before a step and look who has after it; `missed` counts those who had
not. `safe` is whether there were none. A barrier that is called and misses somebody, or a tag barrier that does so when
it is replayed, ends the program. On a CPU, ranks are processes, and a replay is the recorded calls, made again.

A step is `--per-step` barriers in a row. Its time is that of the slowest rank, from its first mark to its last; so a
barrier's time holds its share of all launches, and of the way of the slowest rank to the start. All ranks meet before a
step, which is not timed. Where streams are the ranks, one host launches for all. NVTX: "bench:measure", in it
"phase:eager", "phase:replay", "tag:eager" and "tag:replay"; "warmup" before and "check" after.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from gpuledger_workloads.barriers import cuda, host
from gpuledger_workloads.barriers.crew import PROTOCOLS, Crew, Step
from gpuledger_workloads.barriers.cuda import OnCuda
from gpuledger_workloads.barriers.host import OnHost
from gpuledger_workloads.common.device import settle
from gpuledger_workloads.common.program import Progress, Result, asked, bench, refuse, wrong
from gpuledger_workloads.common.rank_options import count_of
from gpuledger_workloads.common.ranks import Rank, over_ranks

Way = tuple[str, str]
"""A protocol, and how it is called."""
WAYS: tuple[Way, ...] = tuple((protocol, how) for protocol in PROTOCOLS for how in ("eager", "replay"))


def run(options: argparse.Namespace) -> Result | None:
    """Measure each way, check each, and tell."""
    settle(options)
    settle_ranks(options)
    if options.ranks_as == "streams":
        return told(options, [measured(_streams(options), options)])
    answers = over_ranks(work, options)
    return None if answers is None else told(options, answers)


def settle_ranks(options: argparse.Namespace) -> None:
    """How many ranks there are and what they are; refuse what cannot be."""
    is_started = "RANK" in os.environ and "WORLD_SIZE" in os.environ
    options.world_size = count = count_of(options)
    here = int(os.environ.get("LOCAL_WORLD_SIZE", count)) if is_started else count
    if here != count:
        refuse(f"ranks must share memory, so all of one node: {here} of {count} are here", hint="start it on one node")
    if count < 2:
        wrong("a barrier needs two ranks at least", hint="--world-size=2")
    on_gpu = options.device == "cuda"
    if options.ranks_as is None:
        is_short = on_gpu and not is_started and torch.cuda.device_count() < count
        options.ranks_as = "streams" if is_short else "processes"
    if options.ranks_as == "streams":
        if not on_gpu or is_started:
            wrong("streams are ranks on a GPU, in one process", hint="--ranks-as=processes")
        if count > cuda.MOST_STREAMS:
            wrong(
                f"{count} streams may share queues of the GPU, and wait for each other",
                hint=f"take {cuda.MOST_STREAMS} at most",
            )
    options.backend = options.backend or "gloo"  # it only brings ranks together; the board is their own


def work(rank: Rank, options: argparse.Namespace) -> Result:
    """One process of several, with one rank."""
    crew: Crew
    if options.device == "cuda":
        crew = OnCuda(_kernels(), cuda.shared_board(rank), [rank.index], options.patience)
    else:
        crew = OnHost(host.shared_board(rank), rank.index, options.patience)
    return measured(crew, options, tells=rank.index == 0)


def _streams(options: argparse.Namespace) -> Crew:
    count = options.world_size
    return OnCuda(_kernels(), cuda.own_board(count), range(count), options.patience)


def _kernels() -> Any:
    try:
        return import_module("gpuledger_workloads.barriers.kernels")  # late: it needs Triton, which a CPU does not
    except ImportError as error:
        refuse(f"barriers on a GPU are Triton kernels: {error}", hint="pip install triton")


def measured(crew: Crew, options: argparse.Namespace, *, tells: bool = True) -> Result:
    """The times of each way in ms per step, and what each missed, by the ranks of this process."""
    steps = {way: _step(crew, way, options.per_step) for way in WAYS}
    with window("warmup"):
        for step in steps.values():
            for _ in range(options.warmup):
                _timed_ms(crew, step)
    progress = Progress("barrier", len(WAYS) * options.iters)
    times: dict[Way, list[float]] = {way: [] for way in WAYS}
    with window("bench:measure", profiler=options.cuda_profiler):
        for number, (way, step) in enumerate(steps.items()):
            with window(":".join(way)):
                for done in range(options.iters):
                    times[way].append(_timed_ms(crew, step))
                    if tells:
                        progress(number * options.iters + done)
    with window("check"):
        missed = {way: looked(crew, step, options.checks, options.world_size) for way, step in steps.items()}
    if crew.gave_up():
        refuse("a rank gave up at a barrier: another did not come", hint="--patience=S lets ranks wait for longer")
    crew.meet()  # the board is one rank's memory, which must not end before the others do
    return {"replay": crew.replay, "times_ms": times, "missed": missed}


def looked(crew: Crew, step: Step, checks: int, ranks: int) -> int:
    """How often a rank of this process got past a step that another had not come to. Each rank is late in turn."""
    for number in range(checks):
        crew.meet()
        crew.look(step, number % ranks)
    crew.meet()
    return crew.missed()


def _step(crew: Crew, way: Way, count: int) -> Step:
    protocol, how = way
    return crew.recorded(protocol, count) if how == "replay" else crew.eager(protocol, count)


def _timed_ms(crew: Crew, step: Step) -> float:
    crew.meet()
    return crew.timed_ms(step)


def told(options: argparse.Namespace, answers: Sequence[Result]) -> Result:
    """The result; refused, where a barrier did not keep ranks together that must."""
    rows = [_row(way, options, answers) for way in WAYS]
    for row in rows:
        if not row["safe"] and (row["protocol"], row["how"]) != ("phase", "replay"):
            refuse(
                f"the {row['protocol']} barrier ({row['how']}) let a rank pass before another came, "
                f"{row['missed']:,} times in {row['looks']:,} looks"
            )
    safe = {f"{row['protocol']}_replay_safe": row["safe"] for row in rows if row["how"] == "replay"}
    return {
        "workload": "barrier",
        "settings": asked(options, "dtype", "seed"),
        "replay": answers[0]["replay"],
        **safe,
        "barriers": rows,
        "checked": True,
    }


def _row(way: Way, options: argparse.Namespace, answers: Sequence[Result]) -> Result:
    """One way: a barrier's time on the slowest rank of each step, and what all ranks missed."""
    slowest_ms = np.max([each["times_ms"][way] for each in answers], axis=0)
    points = np.percentile(1e3 * slowest_ms / options.per_step, [50, 10, 90, 99]).round(3).tolist()
    median, p10, p90, p99 = points
    missed = sum(each["missed"][way] for each in answers)
    times = {"median_us": median, "p10_us": p10, "p90_us": p90, "p99_us": p99}
    checks = {"looks": options.checks * options.world_size, "missed": missed, "safe": missed == 0}
    return {"protocol": way[0], "how": way[1], **times, **checks}


if __name__ == "__main__":
    bench("barrier")

"""A server's throughput at a fixed point: `gpuledger bench serve [--world-size=N] [--target='NAME>=N']`.

In: a point (sequences of the node, tokens of text, tokens to make), the limits of the server, sizes of a model with
random weights or a checkpoint. Out: prefill and decode tokens per second of the node, percentiles of the time to the
first token (ttft) and between tokens (itl), what each rank worked and waited, and how that stands to the targets.

The sequences are spread over the ranks. Of a model without experts every rank has all. With experts (--experts, or
--dispatch alone), these are spread over the ranks, all else every rank has, and in each layer tokens go to the ranks of
their experts and come back (`mixture.exchange` says how, in the two ways of --dispatch; prefill always in the normal
one). Ranks are processes, started here or by torchrun; or, with --ranks-as=streams, streams of one process on one
device, which one profile of one GPU then holds.
All prompts are there at the start and have the same length. They are read in steps of at most --max-prefill-tokens
tokens of a rank; then output - 1 tokens of each are decoded. After each step the ranks meet, also those with nothing to
do, so a step takes as long as its slowest rank. A rank's work ends where it arrives, its wait where the last one has;
what experts on other ranks make it wait within a step is in its work. Processes meet in an all-reduce of one number:
with nccl on the devices, with gloo on the host, which waits for its device before. KV pages are counted, exactly, and
too few are refused before anything is allocated; the cache itself is one contiguous piece, so what paging costs a
kernel is not measured.

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
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from gpuledger_workloads.command_lines import SERVE_FLAGS, SERVE_PREFILL_ON_CPU
from gpuledger_workloads.decoder.checkpoint import Checkpoint
from gpuledger_workloads.decoder.model import EVERY, Decoder, agreed, read_again, whole_pass
from gpuledger_workloads.decoder.size import DecoderSize, not_followed
from gpuledger_workloads.device import CAPTURE_STEPS, DeviceClock, captured, refused_where_full, settle
from gpuledger_workloads.mixture.exchange import DISPATCHES, RankGroup, normal, over_group
from gpuledger_workloads.program import (
    Progress,
    Result,
    Target,
    asked,
    bench,
    count_of,
    expect_one_process,
    judged,
    refuse,
    say,
    spread_ms,
    targets_of,
    wrong,
)
from gpuledger_workloads.serving.operating_point import (
    LAUNCH,
    SMALL,
    OperatingPoint,
    PrefillStep,
    expect_fit,
    pages_for,
    readings,
    room_of,
    served_size,
    shares,
)
from gpuledger_workloads.serving.rank_decoders import built

CHECKED = 4  # sequences of a rank whose last logits are compared with a pass over their whole text

Clocks = Sequence[DeviceClock]  # one for each rank of this process


@dataclass(frozen=True, slots=True)
class Phase:
    """The steps of one kind, over all rounds: what a rank worked in each, and what it waited for the others."""

    work_ms: tuple[float, ...]
    wait_ms: tuple[float, ...]

    @classmethod
    def of(cls, rounds: Sequence[DeviceClock]) -> Phase:
        """From the marks of each round: one at its start, then two per step."""
        times_ms = [time_ms for clock in rounds for time_ms in clock.between_ms()]
        return cls(tuple(times_ms[0::2]), tuple(times_ms[1::2]))

    @property
    def step_ms(self) -> tuple[float, ...]:
        """Each step from its begin to where all have met."""
        return tuple(work + wait for work, wait in zip(self.work_ms, self.wait_ms, strict=True))


@dataclass(slots=True)
class Seat:
    """One rank of this process: its sequences, how it reads their prompts, and the last logits and whose they are."""

    index: int
    sequences: int
    plan: Sequence[PrefillStep]
    prompts: Tensor
    model: Decoder | None
    logits: Tensor | None = None
    rows: slice = field(default_factory=lambda: EVERY)

    def prompt(self, number: int) -> tuple[Tensor, int, slice] | None:
        """What it reads in a prefill step; None: nothing."""
        if number >= len(self.plan):
            return None
        reading = self.plan[number]
        return self.prompts[reading.rows, reading.begin : reading.end], reading.begin, reading.rows

    def first_tokens_ms(self, step_ms: Sequence[float], context: int) -> list[float]:
        """When each sequence had its first token: at the end of the step that read the last of its prompt."""
        ends_ms = list(accumulate(step_ms))
        return [
            ends_ms[number]
            for number, reading in enumerate(self.plan)
            if reading.end == context
            for _ in range(reading.first, reading.last)
        ]


class Worker:
    """What the ranks of a process do in each step."""

    def __init__(self, group: RankGroup, point: OperatingPoint, options: argparse.Namespace) -> None:
        batches = shares(point.batch, group.count)
        self.size: DecoderSize = served_size(options, batch=max(batches), prompt=point.context)
        self.group, self.point, self.device = group, point, options.device
        self.dispatch = DISPATCHES[options.dispatch or "normal"]
        self.prefill_steps = len(readings(max(batches), point.context, options.max_prefill_tokens))
        self.decode_steps = point.output - 1
        spare = max(self.decode_steps, options.warmup + CAPTURE_STEPS)
        self.checkpoint = Checkpoint(options.ckpt) if options.ckpt else None
        how = {"dtype": options.dtype, "seed": options.seed}
        self.decoders = built(group, self.size, batches, spare, self.checkpoint, **how)
        # all prompts from one seed, so that a sequence does not depend on how many ranks there are
        drawn = torch.Generator().manual_seed(options.seed)
        prompts = torch.randint(self.size.vocab, (point.batch, point.context), generator=drawn).split(batches)
        self.seats = [
            Seat(
                index,
                batches[index],
                readings(batches[index], point.context, options.max_prefill_tokens),
                prompts[index].to(group.device),
                model,
            )
            for index, model in zip(group.indices, self.decoders.models, strict=True)
        ]
        self.step: Callable[[], Sequence[Tensor | None]] = self._decoded
        DeviceClock(self.device).synchronize()  # what was made on one stream is read on others

    def unused(self) -> Result:
        """For a result: tensors of the checkpoint that the decoder has no use for, if any."""
        return self.checkpoint.unused_parts(self.size) if self.checkpoint else {}

    def prefill(self, steps: int) -> Clocks:
        """Read the prompts, up to so many steps."""

        def work(number: int) -> None:
            prompts = [seat.prompt(number) for seat in self.seats]
            for seat, prompt, logits in zip(self.seats, prompts, self.decoders.prefill(prompts), strict=True):
                if prompt is not None:
                    seat.logits, seat.rows = logits, prompt[2]

        return self._in_lockstep("prefill", steps, work)

    def decode(self, steps: int) -> Clocks:
        """Make a token of each sequence, so many times."""

        def work(_: int) -> None:
            for seat, logits in zip(self.seats, self.step(), strict=True):
                if logits is not None:
                    seat.logits, seat.rows = logits, EVERY

        return self._in_lockstep("decode", steps, work)

    def _decoded(self) -> list[Tensor | None]:
        return self.decoders.step(self.dispatch)

    def _in_lockstep(self, kind: str, steps: int, work: Callable[[int], None]) -> Clocks:
        clocks, progress = [DeviceClock(self.device) for _ in self.seats], Progress(f"{kind} steps", steps)

        def mark() -> None:
            self.group.each(lambda place: clocks[place].mark())

        mark()
        for number in range(steps):
            with window(f"bench:{kind}{self._batch(kind, number)}"):
                work(number)
                mark()
                self.group.meet()
            mark()
            if self.seats[0].index == 0:
                progress(number + 1)
        return clocks

    def _batch(self, kind: str, number: int) -> str:
        """What a step computes, as engines write it into the names of their steps: `gpuledger steps` reads it."""
        if kind == "decode":
            sequences = tokens = sum(seat.sequences for seat in self.seats)
        else:
            plans = [seat.plan[number] for seat in self.seats if number < len(seat.plan)]
            sequences = sum(plan.last - plan.first for plan in plans)
            tokens = sum((plan.last - plan.first) * (plan.end - plan.begin) for plan in plans)
        return f"[bs={sequences} tok={tokens}]"

    def warm_up(self, options: argparse.Namespace) -> None:
        """One prefill step and `--warmup` decode steps, as far as the mode has them, and the graph."""
        if options.warmup:
            self.prefill(1)
        if options.mode != "prefill":
            self.decode(options.warmup)
            if options.graph:
                self.step = self._replayed()

    def _replayed(self) -> Callable[[], Sequence[Tensor | None]]:
        replay = captured(lambda: self.group.alone(self._decoded))

        def step() -> Sequence[Tensor | None]:
            return self.group.alone(replay)

        return step

    def tokens(self) -> list[Tensor | None]:
        """The last token of each sequence, by rank, to go back to."""
        return self.group.each(
            lambda place: None if (model := self.seats[place].model) is None else model.tokens.clone()
        )

    def rewind(self, tokens: Sequence[Tensor | None]) -> None:
        """Go back to where the prompts had been read."""

        def back(place: int) -> None:
            model = self.seats[place].model
            if model is not None:
                model.rewind(tokens[place], self.point.context)

        self.group.each(back)

    def check(self, mode: str) -> tuple[list[float | None], float | None]:
        """How far the last logits of each rank are off, None without sequences; and how far any expert's answer is.

        The program ends where that is too far. What it is compared with needs no other rank; to find the answers of
        experts once more, all ranks must be here.
        """
        clock = DeviceClock(self.device)
        clock.synchronize()
        length = self.point.context + (self.decode_steps if mode != "prefill" else 0)
        again = [seat.model.to_read_again(length) if seat.model and seat.sequences else None for seat in self.seats]
        clock.synchronize()
        experts = self.decoders.layer_error(again, normal if mode == "prefill" else self.dispatch)
        clock.synchronize()
        return [self._logits_error(seat, mode, length) for seat in self.seats], experts

    def _logits_error(self, seat: Seat, mode: str, length: int) -> float | None:
        model = seat.model
        if model is None or seat.logits is None:
            return None
        if mode == "prefill":
            return agreed(seat.logits, read_again(model, length, seat.rows), self.size, "the logits after the prompts")
        rows = slice(max(0, seat.sequences - CHECKED), seat.sequences)
        return agreed(seat.logits[rows], whole_pass(model, length, rows), self.size, "the last logits")


def measured(worker: Worker, options: argparse.Namespace) -> tuple[list[Clocks], list[Clocks]]:
    """The marks of each round's prefill and decode. In mode `decode` the prompts are read before, unmeasured."""
    prefills, decodes = [], []
    tokens: list[Tensor | None] = []
    if options.mode == "decode":
        worker.prefill(worker.prefill_steps)
        tokens = worker.tokens()
    worker.group.meet()
    DeviceClock(options.device).synchronize()
    with window("bench:measure", profiler=options.cuda_profiler):
        for _ in range(options.iters):
            if options.mode != "decode":
                prefills.append(worker.prefill(worker.prefill_steps))
            else:
                worker.rewind(tokens)
            if options.mode != "prefill":
                decodes.append(worker.decode(worker.decode_steps))
        DeviceClock(options.device).synchronize()
    return prefills, decodes


def served(group: RankGroup, options: argparse.Namespace) -> list[Result]:
    """Build, warm up, measure, check; what each rank of this process saw."""
    point = OperatingPoint(options.decode_batch_size, options.decode_ctx_len, options.output_len)
    with refused_where_full():
        worker = Worker(group, point, options)
        with window("warmup"):
            worker.warm_up(options)
        prefills, decodes = measured(worker, options)
        peak_bytes = torch.cuda.max_memory_allocated() if options.device == "cuda" else None
        with window("check"):
            errors, expert_error = worker.check(options.mode)
    answers = []
    for place, seat in enumerate(worker.seats):
        rounds = [Phase.of([clocks[place]]) for clocks in prefills]
        caches = [layer.attention.buffers() for layer in seat.model.layers] if seat.model and seat.sequences else []
        answers.append(
            {
                "sequences": seat.sequences,
                "kv_pages": seat.sequences * pages_for(point.context + point.output, options.page_size),
                "kv_bytes": sum(buffer.nbytes for cache in caches for buffer in cache),
                "prefill": Phase.of([clocks[place] for clocks in prefills]),
                "decode": Phase.of([clocks[place] for clocks in decodes]),
                "ttft_ms": [ms for phase in rounds for ms in seat.first_tokens_ms(phase.step_ms, point.context)],
                "error": errors[place],
                "expert_error": expert_error,
                "checkpoint": worker.unused(),
                "peak_bytes": peak_bytes,
            }
        )
    return answers


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
        "slowest_rank": max(rows, key=lambda row: (row["sequences"] > 0, row["work_ms"]))["rank"],
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
    rate = tokens / (float(steps_ms.sum()) / 1e3)
    usual = spread_ms(steps_ms.tolist())
    ends = [round(rate * usual["median_ms"] / ms, 1) for ms in usual.get("median_ms_interval", ()) if ms > 0]
    return {
        f"{kind}_tokens": tokens,
        f"{kind}_tokens_per_s": round(rate, 1),
        **({f"{kind}_tokens_per_s_interval": ends, f"{kind}_tokens_per_s_samples": len(steps_ms)} if ends else {}),
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

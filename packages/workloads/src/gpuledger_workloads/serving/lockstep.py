"""The ranks of a server, which go in lockstep: their sequences in, how long each step took on each of them out.

In each prefill step a rank reads some of its prompts, in each decode step it makes a token of all of its sequences, and
after each step all ranks meet, as where ranks agree on what comes next. A rank with nothing to do meets the others all
the same. Its work ends where it arrives, its wait where the last one has. Where experts are spread, ranks also wait
for each other within a step, to dispatch and to combine: that is in their work.

Ranks that are processes meet in an all-reduce of one number: with nccl on the devices, and the host runs ahead; with
gloo on the host, which waits for its device before. Ranks that are streams of one process wait for each other's events.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import torch  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from gpuledger_workloads.decoder.checkpoint import Checkpoint
from gpuledger_workloads.decoder.model import EVERY, Decoder, agreed, read_again, whole_pass
from gpuledger_workloads.decoder.size import DecoderSize
from gpuledger_workloads.device import CAPTURE_STEPS, DeviceClock, captured, refused_where_full
from gpuledger_workloads.mixture.exchange import RankGroup
from gpuledger_workloads.mixture.spread import DISPATCHES, normal
from gpuledger_workloads.program import Progress, Result
from gpuledger_workloads.serving.operating_point import (
    OperatingPoint,
    PrefillStep,
    pages_for,
    readings,
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
            with window(f"bench:{kind}"):
                work(number)
                mark()
                self.group.meet()
            mark()
            if self.seats[0].index == 0:
                progress(number + 1)
        return clocks

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

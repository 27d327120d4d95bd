"""One rank of a server whose ranks go in lockstep: its share of the sequences in, how long each step took out.

In each prefill step a rank reads some of its prompts, in each decode step it makes a token of all of its sequences, and
after each step all ranks meet in an all-reduce of one number, as where ranks agree on what comes next. A rank with
nothing to do meets the others all the same. Its work ends where it arrives, its wait where the last one has.

With nccl they meet on the devices, and the host runs ahead; with gloo on the host, which waits for its device before.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.distributed as dist  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from gpuledger.workloads.common.device_memory import refused_where_full
from gpuledger.workloads.common.program import DeviceClock, Progress, Result
from gpuledger.workloads.common.ranks import Rank
from gpuledger.workloads.decode import CAPTURE_STEPS, Step, captured
from gpuledger.workloads.decoder.logit_checks import agreed, read_again, whole_pass
from gpuledger.workloads.decoder.model import EVERY, Decoder, build
from gpuledger.workloads.decoder.size import DecoderSize, size_of
from gpuledger.workloads.serving.operating_point import OperatingPoint, pages_for, readings, shares

CHECKED = 4
"""Sequences of a rank whose last logits are compared with a pass over their whole text."""


class Lockstep:
    """Where all ranks meet."""

    def __init__(self, rank: Rank) -> None:
        on_device = rank.backend == "nccl"
        self._waits = rank.device != "cpu" and not on_device
        self._flag = torch.ones(1, device=rank.device if on_device else "cpu")

    def __call__(self) -> None:
        if self._waits:
            torch.cuda.synchronize()
        dist.all_reduce(self._flag, op=dist.ReduceOp.MAX)


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


class Worker:
    """What a rank does in each step. Without sequences it has no model, and nothing to do."""

    def __init__(self, rank: Rank, point: OperatingPoint, options: argparse.Namespace) -> None:
        mine = shares(point.batch, rank.count)
        first, self.sequences = sum(mine[: rank.index]), mine[rank.index]
        self.size: DecoderSize = size_of(options, batch=self.sequences or 1, prompt=point.context)
        self.point, self.device, self.meet = point, options.device, Lockstep(rank)
        self.plan = readings(self.sequences, point.context, options.max_prefill_tokens)
        self.prefill_steps = len(readings(max(mine), point.context, options.max_prefill_tokens))
        self.decode_steps = point.output - 1
        self.logits: Tensor | None = None  # the last, and of which sequences
        self.rows = EVERY
        self.tells = rank.index == 0
        self.model: Decoder | None = None
        if self.sequences:
            spare = max(self.decode_steps, options.warmup + CAPTURE_STEPS)
            self.model = build(self.size, spare, rank.device, options.dtype, options.seed)
        # all prompts from one seed, so that a sequence does not depend on how many ranks there are
        drawn = torch.Generator().manual_seed(options.seed)
        prompts = torch.randint(self.size.vocab, (point.batch, point.context), generator=drawn)
        self.prompts = prompts[first : first + self.sequences].to(rank.device)
        self.step: Step | None = self.model.step if self.model else None

    def prefill(self, steps: int) -> DeviceClock:
        """Read the prompts, up to so many steps."""

        def work(number: int) -> None:
            if self.model is not None and number < len(self.plan):
                reading = self.plan[number]
                self.rows = reading.rows
                prompt = self.prompts[reading.rows, reading.begin : reading.end]
                self.logits = self.model.prefill(prompt, reading.begin, reading.rows)

        return self._in_lockstep("prefill", steps, work)

    def decode(self, steps: int) -> DeviceClock:
        """Make a token of each sequence, so many times."""

        def work(_: int) -> None:
            if self.step is not None:
                self.logits, self.rows = self.step(), EVERY

        return self._in_lockstep("decode", steps, work)

    def _in_lockstep(self, kind: str, steps: int, work: Callable[[int], None]) -> DeviceClock:
        clock, progress = DeviceClock(self.device), Progress(f"{kind} steps", steps)
        clock.mark()
        for number in range(steps):
            with window(f"bench:{kind}"):
                work(number)
                clock.mark()
                self.meet()
            clock.mark()
            if self.tells:
                progress(number + 1)
        return clock

    def warm_up(self, options: argparse.Namespace) -> None:
        """One prefill step and `--warmup` decode steps, as far as the mode has them, and the graph."""
        if options.warmup:
            self.prefill(1)
        if options.mode != "prefill":
            self.decode(options.warmup)
            if options.graph and self.step is not None:
                self.step = captured(self.step)

    def first_tokens_ms(self, step_ms: Sequence[float]) -> list[float]:
        """When each sequence had its first token: at the end of the step that read the last of its prompt."""
        ends_ms = list(accumulate(step_ms))
        return [
            ends_ms[number]
            for number, reading in enumerate(self.plan)
            if reading.end == self.point.context
            for _ in range(reading.first, reading.last)
        ]

    def check(self, mode: str) -> float | None:
        """How far the last logits are off; None without sequences. The program ends where that is too far."""
        if self.model is None or self.logits is None:
            return None
        if mode == "prefill":
            again = read_again(self.model, self.point.context, self.rows)
            return agreed(self.logits, again, self.size, "the logits after the prompts")
        rows = slice(max(0, self.sequences - CHECKED), self.sequences)
        whole = whole_pass(self.model, self.point.context + self.decode_steps, rows)
        return agreed(self.logits[rows], whole, self.size, "the last logits")


def measured(worker: Worker, options: argparse.Namespace) -> tuple[list[DeviceClock], list[DeviceClock]]:
    """The marks of each round's prefill and decode. In mode `decode` the prompts are read before, unmeasured."""
    prefills, decodes = [], []
    tokens = None
    if options.mode == "decode":
        worker.prefill(worker.prefill_steps)
        tokens = worker.model.tokens.clone() if worker.model else None
    worker.meet()
    DeviceClock(options.device).synchronize()
    with window("bench:measure", profiler=options.cuda_profiler):
        for _ in range(options.iters):
            if options.mode != "decode":
                prefills.append(worker.prefill(worker.prefill_steps))
            elif worker.model is not None:
                worker.model.rewind(tokens, worker.point.context)
            if options.mode != "prefill":
                decodes.append(worker.decode(worker.decode_steps))
        DeviceClock(options.device).synchronize()
    return prefills, decodes


def serve_on(rank: Rank, options: argparse.Namespace) -> Result:
    """Build, warm up, measure, check; what this rank saw."""
    point = OperatingPoint(options.decode_batch_size, options.decode_ctx_len, options.output_len)
    with refused_where_full():
        worker = Worker(rank, point, options)
        with window("warmup"):
            worker.warm_up(options)
        prefills, decodes = measured(worker, options)
        peak_bytes = torch.cuda.max_memory_allocated() if options.device == "cuda" else None
        with window("check"):
            error = worker.check(options.mode)
    rounds = [Phase.of([clock]) for clock in prefills]
    return {
        "sequences": worker.sequences,
        "kv_pages": worker.sequences * pages_for(point.context + point.output, options.page_size),
        "kv_bytes": 2 * sum(layer.attention.keys.nbytes for layer in worker.model.layers) if worker.model else 0,
        "prefill": Phase.of(prefills),
        "decode": Phase.of(decodes),
        "ttft_ms": [each for one in rounds for each in worker.first_tokens_ms(one.step_ms)],
        "error": error,
        "peak_bytes": peak_bytes,
    }

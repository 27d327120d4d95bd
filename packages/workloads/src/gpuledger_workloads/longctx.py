"""Does a long context hold: `gpuledger bench longctx [--prompt-len=128000] [--chunk-size=2048]`.

In: the length of a prompt, of its chunks and of the output, the limits of a server, sizes of a model or a checkpoint.
Out: tokens per second chunk by chunk, how much slower the last is than the first, the cache's bytes, peak memory. It is
a check first: the pages for all tokens must be there before anything is allocated, every chunk's logits must be finite,
and a chunk or step that does not end within --stall-timeout seconds ends the program with a sentence that names it,
also where the host waits for a device that does not answer. For that the host waits for each chunk and each step.

What is checked besides: the start of the prompt, read in three chunks, gives the logits that it gives read at once; and
the last token of the prompt, read again as a decode step reads it, those of the last chunk. A text that one prefill may
hold is also read at once, to check the last logits.

NVTX: "bench:measure", in it a "bench:prefill" per chunk and a "bench:decode" per step; "check" and "warmup" before,
"check" after. With several ranks the pages of the text are dealt out to them: see `serving.sharded_context`. Times are
those of rank 0, which waits for the others in every layer.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from gpuledger_workloads.command_lines import LONGCTX_LENGTHS, LONGCTX_PREFILL_ON_CPU
from gpuledger_workloads.decoder.checkpoint import Checkpoint
from gpuledger_workloads.decoder.model import Decoder, agreed, build, positions_for, read_again, whole_pass
from gpuledger_workloads.decoder.size import DecoderSize, not_followed, size_of
from gpuledger_workloads.device import DTYPES, DeviceClock, refused_where_full, settle
from gpuledger_workloads.mixture.exchange import ProcessRanks, RankGroup, StreamRanks
from gpuledger_workloads.program import (
    Progress,
    Result,
    asked,
    bench,
    count_of,
    expect_one_process,
    refuse,
    say,
    settle_sizes,
    spread_ms,
    wrong,
)
from gpuledger_workloads.ranks import Rank, over_ranks
from gpuledger_workloads.serving.operating_point import OperatingPoint, chunks, expect_fit, room_of
from gpuledger_workloads.serving.sharded_context import ShardedText


class Watchdog:
    """Ends a program that no longer moves: inside its block, something must `begin` every `patience_s` seconds.

    A thread watches. It needs Python's lock for a moment, so it sees a host that sleeps or waits for a device (torch
    lets go of the lock there), but not native code that keeps the lock for ever.
    """

    def __init__(self, patience_s: float, what: str) -> None:
        self._patience_s, self._what = patience_s, what
        self._begun, self._over = 0, False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._watch, name="stall", daemon=True)

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._over = True
            self._changed.notify()
        self._thread.join()

    def begin(self, what: str) -> None:
        """All before is done; `what` comes now."""
        with self._changed:
            self._what, self._begun = what, self._begun + 1
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while not self._over:
                if not self._changed.wait_for(partial(self._moved, self._begun), self._patience_s):
                    self._give_up()

    def _moved(self, since: int) -> bool:
        return self._over or self._begun != since

    def _give_up(self) -> None:
        say(
            f"error: stalled: {self._what} did not end within {self._patience_s:g} s\n\n"
            "hint: nvidia-smi shows whether the GPU is busy; a larger --stall-timeout waits longer"
        )
        sys.stdout.flush()
        # The main thread may wait in the driver for a device that never answers. No exception reaches it there, and an
        # ordinary exit would wait for it, or for the device in a destructor. So the process ends without a farewell.
        os._exit(1)


PREFIX = 512  # tokens of the prompt that are read at once and in chunks, to compare
ROWS = 20  # of the table of chunks, at most


@dataclass(frozen=True, slots=True)
class Passed:
    """One pass over the prompt: the time of each chunk and of each decode step, and their last logits."""

    chunk_ms: list[float]
    step_ms: list[float]
    prompt_logits: Tensor
    logits: Tensor
    finite: list[Tensor]  # of each chunk, then of each step: whether its logits are


def run(options: argparse.Namespace) -> Result | None:
    """Refuse what cannot run; then build, check, warm up, measure, check again."""
    settle(options)
    expect_one_process(options)
    settle_sizes(options, LONGCTX_LENGTHS)
    room = room_of(options, prefill_on_cpu=LONGCTX_PREFILL_ON_CPU)
    batch = room.max_batch_size
    if options.chunk_size * batch > room.max_prefill_tokens:
        wrong(
            f"--chunk-size={options.chunk_size} for {batch} at a time is more than "
            f"--max-prefill-tokens={room.max_prefill_tokens}"
        )
    point = OperatingPoint(batch, options.prompt_len, options.output_len)
    pages = expect_fit(point, room, 1, sharded=count_of(options))
    size = size_of(options, batch=batch, prompt=options.prompt_len)
    ignored = not_followed(options)
    if options.ckpt:
        Checkpoint(options.ckpt).expect(size)
    say(f"{pages:,} of {room.num_pages:,} KV pages, {size.parameters / 1e6:,.1f} million parameters")
    answer = over_all(options)
    if answer is None:
        return None
    return {
        "workload": "longctx",
        "settings": asked(options, "stall_timeout", *asdict(size)) | size.settings("batch", "prompt"),
        "parameters": size.parameters,
        **ignored,
        "kv_pages_needed": pages,
        "kv_pages_there": room.num_pages,
        **answer,
        "checked": True,
    }


def over_all(options: argparse.Namespace) -> Result | None:
    """What rank 0 found; None on other ranks of torchrun."""
    if options.ranks_as == "streams":
        return watched(options, StreamRanks(options.world_size, options.device))
    if count_of(options) == 1:
        return watched(options, None)
    answers = over_ranks(work, options)
    return None if answers is None else answers[0]


def work(rank: Rank, options: argparse.Namespace) -> Result:
    """A rank that is this process."""
    return watched(options, ProcessRanks(rank))


def watched(options: argparse.Namespace, group: RankGroup | None) -> Result:
    """Measure, and end the program where that stalls."""
    size = size_of(options, batch=options.max_batch_size, prompt=options.prompt_len)
    with Watchdog(options.stall_timeout, "building the model") as dog, refused_where_full():
        return measured(size, options, dog, group)


def measured(
    size: DecoderSize, options: argparse.Namespace, dog: Watchdog, group: RankGroup | None = None
) -> dict[str, Any]:
    """All that is found once the sizes are known; the text is spread over a group's ranks, if there is one."""
    how = {"dtype": options.dtype, "seed": options.seed}
    tells = group is None or group.indices[0] == 0
    checkpoint = Checkpoint(options.ckpt, dog.begin) if options.ckpt else None
    model: Decoder | ShardedText
    if group is None:
        model = build(size, options.output_len, options.device, **how)
        if checkpoint:
            checkpoint.fill(model, size)
        kv_bytes = size.kv_bytes(positions_for(size, options.output_len), DTYPES[options.dtype].itemsize)
    else:
        steps, page = options.output_len, options.page_size
        model = ShardedText(group, size, steps, page, checkpoint, device=group.device, **how)
        kv_bytes = model.kv_bytes
    prompt = torch.randint(size.vocab, (size.batch, size.prompt), device=options.device)
    with window("check"):
        dog.begin(f"the check of the first {min(size.prompt, PREFIX)} tokens")
        error = check_chunks(model, size, prompt)
    if tells:
        say(f"chunks give what the whole gives, up to {error:.2g} of the logits' norm")
    parts = chunks(size.prompt, options.chunk_size)
    with window("warmup"):
        for begin, end in parts[: options.warmup]:
            dog.begin(f"warm-up, tokens {begin:,} to {end:,}")
            model.prefill(prompt[:, begin:end], begin)
            DeviceClock(options.device).synchronize()
    with window("bench:measure", profiler=options.cuda_profiler):
        passes = [one_pass(model, prompt, parts, options, dog) for _ in range(options.iters)]
    peak_bytes = torch.cuda.max_memory_allocated() if options.device == "cuda" else None
    with window("check"):
        dog.begin("the check of the last logits")
        for reading in passes:
            expect_finite(reading, len(parts))
        error = check_pass(model, size, passes[-1], options)
    if tells:
        say(f"the last logits are off by {error:.2g} of their norm")
    reason = {} if peak_bytes is not None else {"peak_memory_bytes_reason": "only a GPU's memory is counted"}
    return {
        **(checkpoint.unused_parts(size) if checkpoint else {}),
        "kv_bytes": kv_bytes,
        "peak_memory_bytes": peak_bytes,
        **reason,
        **figures(passes, parts, size),
    }


def one_pass(
    model: Decoder | ShardedText,
    prompt: Tensor,
    parts: Sequence[tuple[int, int]],
    options: argparse.Namespace,
    dog: Watchdog,
) -> Passed:
    """Read the prompt, chunk after chunk, and decode; the host waits for each."""
    clock, finite, start = DeviceClock(options.device), [], time.perf_counter()
    progress = Progress("tokens", prompt.shape[1])
    clock.mark()
    for number, (begin, end) in enumerate(parts, 1):
        dog.begin(f"chunk {number:,} of {len(parts):,}, tokens {begin:,} to {end:,},")
        with window("bench:prefill"):
            logits = model.prefill(prompt[:, begin:end], begin)
            finite.append(logits.isfinite().all())
            clock.mark()
            clock.synchronize()
        memory = f", {torch.cuda.memory_allocated() / 1e9:,.1f} GB allocated" if options.device == "cuda" else ""
        progress(end, f"{end * len(prompt) / (time.perf_counter() - start):,.0f} tokens/s{memory}")
    prompt_logits = logits
    for number in range(1, options.output_len):
        dog.begin(f"decode step {number:,} of {options.output_len - 1:,}")
        with window("bench:decode"):
            logits = model.step()
            finite.append(logits.isfinite().all())
            clock.mark()
            clock.synchronize()
    times_ms = clock.between_ms()
    return Passed(times_ms[: len(parts)], times_ms[len(parts) :], prompt_logits, logits, finite)


def check_chunks(model: Decoder | ShardedText, size: DecoderSize, prompt: Tensor) -> float:
    """How far the logits after the prompt's start, read in three chunks, are from those of one reading."""
    start = prompt[:, :PREFIX]
    length = start.shape[1]
    whole = (model if isinstance(model, Decoder) else model.alone(length)).prefill(start)
    for begin, end in chunks(length, -(-length // 3)):
        logits = model.prefill(start[:, begin:end], begin)
    return agreed(logits, whole, size, f"the logits after {length} tokens in three chunks")


def check_pass(model: Decoder | ShardedText, size: DecoderSize, passed: Passed, options: argparse.Namespace) -> float:
    """How far logits are from those that other ways give; the program ends where they differ."""
    again = read_again(model, size.prompt) if isinstance(model, Decoder) else model.read_again(size.prompt)
    error = agreed(passed.prompt_logits, again, size, "the logits of the last chunk")
    length = size.prompt + options.output_len - 1
    if length * size.batch <= options.max_prefill_tokens:
        if isinstance(model, Decoder):
            whole = whole_pass(model, length)
        else:
            whole = model.alone(length).prefill(model.text[:, :length])
        error = max(error, agreed(passed.logits, whole, size, "the last logits"))
    return error


def expect_finite(passed: Passed, parts: int) -> None:
    """End the program where the logits of a chunk or a step are not finite."""
    good = torch.stack(passed.finite).tolist()
    if not all(good):
        first = good.index(False)
        place = f"chunk {first + 1:,}" if first < parts else f"decode step {first - parts + 1:,}"
        refuse(f"the logits of {place} are not finite")


def figures(passes: Sequence[Passed], parts: Sequence[tuple[int, int]], size: DecoderSize) -> dict[str, Any]:
    """Times and rates; each chunk counts by its median over the passes."""
    chunk_ms = np.median([reading.chunk_ms for reading in passes], axis=0)
    tokens = np.array([size.batch * (end - begin) for begin, end in parts])
    steps_ms = [step for reading in passes for step in reading.step_ms]
    full = [number for number in range(len(parts)) if tokens[number] == tokens[0]]  # the last chunk may be a short one
    return {
        "prefill_tokens": int(tokens.sum()),
        "prefill_tokens_per_s": round(1e3 * float(tokens.sum() / chunk_ms.sum()), 1),
        "ttft_ms": round(float(chunk_ms.sum()), 4),
        **spread_ms(chunk_ms.tolist(), "chunk"),
        "last_to_first_chunk": round(float(chunk_ms[full[-1]] / chunk_ms[0]), 4),
        **(spread_ms(steps_ms, "itl") if steps_ms else {}),
        "chunks": table(parts, chunk_ms.tolist(), size.batch),
    }


def table(parts: Sequence[tuple[int, int]], chunk_ms: Sequence[float], batch: int) -> list[dict[str, Any]]:
    """Tokens per second by position; neighbours share a row where there are many chunks."""
    rows = []
    for begin, end in chunks(len(parts), -(-len(parts) // ROWS)):
        total_ms, (first, last) = sum(chunk_ms[begin:end]), (parts[begin][0], parts[end - 1][1])
        rate = round(1e3 * batch * (last - first) / total_ms, 1)
        row = {"from_token": first, "to_token": last, "tokens_per_s": rate, "chunks": end - begin}
        rows.append(row | {"total_ms": round(total_ms, 4)})
    return rows


if __name__ == "__main__":
    bench("longctx")

"""MEM-OOM: an allocation did not fit.

The program ended, or went on, with `torch.cuda.OutOfMemoryError`, and the memory snapshot holds the event. The finding
says what was asked for and by whom, what was held at that moment and by which stacks, and how much was free but in
pieces that are too small.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpuledger.analyse.memory.snapshot_figures import OomKind, OutOfMemory
from gpuledger.findings.finding import Finding
from gpuledger.findings.memory.snapshot_words import SnapshotOfGpu, holder_lines, place_words, snapshot_finding
from gpuledger.findings.rule import Rule
from gpuledger.messages import Message, say
from gpuledger.units import bytes_text


def _out_of_memory(rule: Rule[SnapshotOfGpu], subject: SnapshotOfGpu) -> Sequence[Finding]:
    """The last one: those before it were survived."""
    if not subject.figures.out_of_memories:
        return ()
    failed = subject.figures.out_of_memories[-1]
    layout, known = failed.layout, {"gpu": subject.figures.gpu, "place": place_words(failed.path)}
    known |= {"request": bytes_text(failed.request_bytes), "held": bytes_text(failed.layout.allocated_bytes)}
    claim = say(
        "GPU {gpu} ran out of memory: {request} asked for by {place}, with {held} held and {free} free in pieces of "
        "at most {largest}",
        **known,
        free=bytes_text(layout.stranded_bytes),
        largest=bytes_text(layout.largest_free_bytes),
    )
    if not layout.stranded_bytes:
        claim = say(
            "GPU {gpu} ran out of memory: {request} asked for by {place}, with {held} held and nothing free", **known
        )
    evidence = [_room(failed), *holder_lines(failed.held, layout.allocated_bytes)]
    return [snapshot_finding(rule, subject, claim, evidence, _what_helps(subject, failed))]


def _room(failed: OutOfMemory) -> Message:
    if failed.device_free_bytes is None:
        return say("how much the GPU had left was not recorded")
    if failed.is_limited:
        return say(
            "the GPU had {free} left: a limit of this process was reached (set_per_process_memory_fraction)",
            free=bytes_text(failed.device_free_bytes),
        )
    return say("the GPU had {free} left", free=bytes_text(failed.device_free_bytes))


def _what_helps(subject: SnapshotOfGpu, failed: OutOfMemory) -> Message:
    """The larger of what a leak holds and what fragments lose; filling those would only put a large leak off."""
    leaked, stranded = subject.figures.leaks.size_bytes, failed.layout.stranded_bytes
    is_fragmented = failed.kind is OomKind.FRAGMENTED and not subject.snapshot.has_expandable_segments
    if subject.figures.leaks.leaks and not (is_fragmented and stranded >= leaked):
        return say("stop the leak first: {size} of what was held is never freed (MEM-LEAK)", size=bytes_text(leaked))
    if is_fragmented and stranded < failed.request_bytes:
        return say(
            "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: with the {left} that the GPU had left, {free} in "
            "pieces were more than was asked for",
            left=bytes_text(failed.device_free_bytes or 0),
            free=bytes_text(stranded),
        )
    if is_fragmented:
        return say(
            "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: {free} was free, more than was asked for",
            free=bytes_text(stranded),
        )
    short = bytes_text(failed.short_bytes or failed.request_bytes)
    if failed.is_limited:  # how much room the limit left is not recorded
        return say(
            "hold up to {short} less at that moment (free the largest of what is listed earlier, recompute it, smaller "
            "batches), or raise the limit",
            short=short,
        )
    return say(
        "hold at least {short} less at that moment: free the largest of what is listed earlier, recompute it, or use "
        "smaller batches",
        short=short,
    )


RULE: Final = Rule("MEM-OOM", _out_of_memory, None)

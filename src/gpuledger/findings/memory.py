"""Findings about memory: of a snapshot, why memory ran out, what leaks, what is fragmented, who holds the peak, churn;
of a timeline, what is allocated in every step.

Those of a snapshot save bytes, not time, so they stand in the order in which they matter to a program that needs
memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from gpuledger.analyse.memory.allocations import Holder, MemoryMoment, NoPlace
from gpuledger.analyse.memory.snapshot_figures import Leak, Leaks, OomKind, OutOfMemory, SnapshotFigures
from gpuledger.catalog.calls import CallKind
from gpuledger.findings.finding import MOST_EXAMPLES, Evidence, Finding, count_words, often, per_step
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.ledger.activity import short_function_name
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, joined, say
from gpuledger.trace.keys import Positions
from gpuledger.trace.measured import MemorySnapshot
from gpuledger.trace.spans import Span
from gpuledger.units import bytes_text, count_text, share_text, time_text

LEAST_LEAK_BYTES: Final = 1 << 20
LEAST_LEAK_SHARE: Final = 0.01
"""Of the peak: what leaks less than both is not worth looking for."""

MUCH_STRANDED_BYTES: Final = 64 << 20
MUCH_STRANDED_SHARE: Final = 0.2
"""Of what is reserved: segments of the small pool are always cut up a little."""

MANY_SEGMENTS: Final = 8
"""From so many segments on that are taken and given back once warm-up is over, the allocator churns."""

NAMED: Final = 3  # holders that are named as evidence


class SnapshotOfGpu(Struct, frozen=True):
    """What rules look at."""

    snapshot: MemorySnapshot
    figures: SnapshotFigures


def snapshot_findings(snapshot: MemorySnapshot, figures: Sequence[SnapshotFigures]) -> tuple[Finding, ...]:
    """All findings, in the order of the rules; of each code those of every GPU."""
    subjects = [SnapshotOfGpu(snapshot, of_gpu) for of_gpu in figures]
    return tuple(finding for rule in RULES for subject in subjects for finding in rule.findings(subject))


def place_words(path: Sequence[str]) -> str:
    """Where in the program: the innermost function, and who called it."""
    if not path:
        return say("no recorded stack")
    if len(path) == 1:
        return path[0]
    return say("{function}, called from {callers}", function=path[0], callers=joined(" < ", path[1:3]))


def holder_words(holder: Holder) -> str:
    """Where a holder's bytes were allocated."""
    if isinstance(holder.place, NoPlace):
        return holder.place.label
    return place_words(holder.path) if holder.path else holder.place


def _finding(
    rule: Rule[SnapshotOfGpu],
    subject: SnapshotOfGpu,
    claim: Message,
    evidence: Sequence[str],
    fix: Message | None = None,
    confidence: str = "high",
) -> Finding:
    pieces, gpu = tuple(map(Evidence, evidence)), subject.figures.gpu
    return Finding(rule.code, claim, pieces, confidence=confidence, gpu=gpu, fix=fix or rule.fix)


def _holder_lines(holders: Sequence[Holder], whole: int) -> list[Message]:
    return [
        say(
            "{size} ({share}): {place}",
            size=bytes_text(holder.size_bytes),
            share=share_text(holder.size_bytes / max(whole, 1)),
            place=holder_words(holder),
        )
        for holder in holders[:NAMED]
    ]


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
    evidence = [_room(failed), *_holder_lines(failed.held, layout.allocated_bytes)]
    return [_finding(rule, subject, claim, evidence, _what_helps(subject, failed))]


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


def _leak(rule: Rule[SnapshotOfGpu], subject: SnapshotOfGpu) -> Sequence[Finding]:
    leaks = subject.figures.leaks
    if leaks.size_bytes < max(LEAST_LEAK_BYTES, LEAST_LEAK_SHARE * subject.figures.peak_bytes):
        return ()
    first = leaks.leaks[0]
    parts = {"size": bytes_text(leaks.size_bytes), "place": place_words(first.path)}
    grows = {"step": bytes_text(leaks.bytes_per_step), "steps": count_text(leaks.steps)}
    match bool(leaks.step_name), len(leaks.leaks) > 1:
        case True, False:
            claim = say(
                "memory grows by {step} per step: {size} allocated in {steps} steps by {place} is never freed",
                **parts,
                **grows,
            )
        case True, True:
            claim = say(
                "memory grows by {step} per step: {size} allocated in {steps} steps is never freed, {most} of it by "
                "{place}",
                **parts,
                **grows,
                most=bytes_text(first.size_bytes),
            )
        case False, False:
            claim = say("{size} allocated by {place} in the second half of the history is never freed", **parts)
        case _:
            claim = say(
                "{size} allocated in the second half of the history is never freed, {most} of it by {place}",
                **parts,
                most=bytes_text(first.size_bytes),
            )
    evidence = [_leaking(leak, leaks) for leak in leaks.leaks[:NAMED]]
    return [_finding(rule, subject, claim, evidence, confidence="high" if leaks.step_name else "medium")]


def _leaking(leak: Leak, leaks: Leaks) -> Message:
    parts = {
        "size": bytes_text(leak.size_bytes),
        "count": count_text(leak.allocations),
        "steps": count_text(leak.steps),
        "whole": count_text(leaks.steps),
        "place": place_words(leak.path),
    }
    if leaks.step_name:
        return say("{size} in {count} allocations, in {steps} of {whole} steps: {place}", **parts)
    return say("{size} in {count} allocations, in {steps} of {whole} parts of the history: {place}", **parts)


def _fragmentation(rule: Rule[SnapshotOfGpu], subject: SnapshotOfGpu) -> Sequence[Finding]:
    """At the end, at the peak, or when memory ran out: wherever the most is stranded."""
    figures = subject.figures
    at_oom = [failed.layout for failed in figures.out_of_memories]
    worst = max((figures.end, figures.peak, *at_oom), key=lambda moment: moment.stranded_bytes)
    if worst.stranded_bytes < MUCH_STRANDED_BYTES or worst.stranded_share < MUCH_STRANDED_SHARE:
        return ()
    claim = say(
        "{free} of {reserved} reserved ({share}) is free but fragmented: in segments that still hold something, in "
        "pieces of at most {largest}",
        free=bytes_text(worst.stranded_bytes),
        reserved=bytes_text(worst.reserved_bytes),
        share=share_text(worst.stranded_share),
        largest=bytes_text(worst.largest_free_bytes),
    )
    evidence = [moment_words(figures, worst)] + [
        say(
            "{used} in use keeps a segment of {size}; {free} of it is free",
            size=bytes_text(segment.size_bytes),
            used=bytes_text(segment.active_bytes),
            free=bytes_text(segment.free_bytes),
        )
        for segment in worst.partly_used[:1]
    ]
    return [_finding(rule, subject, claim, evidence)]


def moment_words(figures: SnapshotFigures, moment: MemoryMoment) -> Message:
    """When in the history it is."""
    since, events = figures.since_start_ns(moment.moment), len(figures.memory.history)
    if moment.moment == figures.end.moment:
        return say("at the end of the history")
    if moment.moment < 0:
        return say("as the history began")
    if since is None:
        return say("after {count} of {whole} events", count=count_text(moment.moment + 1), whole=count_text(events))
    return say("{time} after the history began", time=time_text(since))


def _peak(rule: Rule[SnapshotOfGpu], subject: SnapshotOfGpu) -> Sequence[Finding]:
    """Who holds it. That there is one is no fault: it says where to begin where memory is short."""
    figures = subject.figures
    if not figures.peak_bytes or not figures.has_history:
        return ()
    first, peak_bytes = figures.peak_stacks[0], figures.peak_bytes
    told = figures.peak_named or first
    parts = {"peak": bytes_text(peak_bytes), "share": share_text(told.size_bytes / peak_bytes)}
    claim = say("the peak is {peak}; its largest part, {share}: {place}", **parts, place=holder_words(told))
    if told is not first:
        claim = say(
            "the peak is {peak}; the largest part of it that has a stack, {share}: {place}",
            **parts,
            place=holder_words(told),
        )
    others = [holder for holder in figures.peak_stacks if holder is not told]
    evidence = [
        moment_words(figures, figures.peak),
        *_holder_lines(others[: NAMED - 1], peak_bytes),
        *(
            say(
                "{size} of what has no stack may be gradients: of the size of what {place} allocates, and nothing else",
                size=bytes_text(holder.size_bytes),
                place=place_words(holder.path),
            )
            for holder in figures.peak_gradients[:1]
        ),
    ]
    return [_finding(rule, subject, claim, evidence)]


def _segments_churn(rule: Rule[SnapshotOfGpu], subject: SnapshotOfGpu) -> Sequence[Finding]:
    churn = subject.figures.segment_churn
    if min(churn.taken, churn.given_back) < MANY_SEGMENTS:
        return ()
    claim = say(
        "torch gives memory back to CUDA and takes it again: {count} segments of {size} together in the second half of "
        "the history",
        count=count_text(churn.taken),
        size=bytes_text(churn.taken_bytes),
    )
    evidence = [say("given back by {place}", place=place_words(churn.giving_path))]
    return [_finding(rule, subject, claim, evidence)]


RULES: Final = (
    Rule("MEM-OOM", _out_of_memory, None),
    Rule(
        "MEM-LEAK",
        _leak,
        say("find who keeps these tensors (a list, a cache, a loss with its graph) and drop, detach or `.item()` them"),
    ),
    Rule(
        "MEM-FRAGMENTED",
        _fragmentation,
        say("set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or allocate what stays before what comes and goes"),
    ),
    Rule(
        "ALLOC-CHURN",
        _segments_churn,
        say("leave out `torch.cuda.empty_cache()` in the loop; near the limit, hold less or use expandable segments"),
    ),
    Rule("MEM-PEAK", _peak, None),
)


CHURN_PER_STEP: Final = 2  # from so many allocation calls a step on, memory is churned


def _churn(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """Memory allocated and freed in every step. What that costs in idle time is another finding's: it saves nothing."""
    device = subject.device
    host = device.host
    calls = np.flatnonzero(device.steady_calls & host.are(CallKind.ALLOC))
    if len(calls) < CHURN_PER_STEP * device.step_count or device.steps is None:
        return ()
    time = int(host.calls.duration_ns[calls].sum())
    names = [short_function_name(name or "") for name in host.calls.at(calls).texts("name")]
    common = sorted(set(names), key=lambda name: (-names.count(name), name))[:3]
    claim = say(
        "{calls} allocate or free memory, {time} of the host",
        calls=count_words(device, len(calls), say("call"), say("calls")),
        time=per_step(device, time),
    )
    assumption = say("hidden by the host today, but not in a faster step")
    evidence = tuple(_calls_of(device, name, calls[[other == name for other in names]]) for name in common)
    return [rule.finding(device, claim, evidence, 0, assumption)]


def _calls_of(device: Device, name: str, calls: Positions) -> Evidence:
    """How often one function was called, the longest call as the example."""
    rows = device.host.calls.at(calls[np.argsort(-device.host.calls.duration_ns[calls], kind="stable")])
    return Evidence(
        say("{name} {often}", name=name, often=often(device, len(calls))),
        span=Span(int(rows["start_ns"][0]), int(rows["end_ns"][0])),
        pid=int(rows["pid"][0]),
        tid=int(rows["tid"][0]),
        call=name,
        correlations=tuple(rows["correlation"][:MOST_EXAMPLES].tolist()),
        count=len(calls),
    )


OF_A_RUN: Final = (
    Rule("ALLOC-CHURN", _churn, say("preallocate buffers and reuse them (`out=`, one arena sized at warm-up)")),
)

"""MEM-LEAK: memory grows from step to step.

Steps leave memory behind: allocations of one stack, made in nearly every step, are never freed. The peak lies at the
end of the history, and grows with its length, until an out-of-memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpuledger.analyse.memory.snapshot_figures import Leak, Leaks
from gpuledger.findings.finding import Finding
from gpuledger.findings.memory.snapshot_words import MAX_HOLDERS, SnapshotOfGpu, place_words, snapshot_finding
from gpuledger.findings.rule import Rule
from gpuledger.messages import Message, say
from gpuledger.units import bytes_text, count_text

MIN_LEAK_BYTES: Final = 1 << 20
MIN_LEAK_SHARE: Final = 0.01
"""Of the peak: what leaks less than both is not worth looking for."""


def _leak(rule: Rule[SnapshotOfGpu], subject: SnapshotOfGpu) -> Sequence[Finding]:
    leaks = subject.figures.leaks
    if leaks.size_bytes < max(MIN_LEAK_BYTES, MIN_LEAK_SHARE * subject.figures.peak_bytes):
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
    evidence = [_leaking(leak, leaks) for leak in leaks.leaks[:MAX_HOLDERS]]
    return [snapshot_finding(rule, subject, claim, evidence, confidence="high" if leaks.step_name else "medium")]


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


RULE: Final = Rule(
    "MEM-LEAK",
    _leak,
    say("find who keeps these tensors (a list, a cache, a loss with its graph) and drop, detach or `.item()` them"),
)

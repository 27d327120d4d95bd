"""What findings of a memory snapshot share: their subject, and words for who holds memory and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from gpuledger.analyse.memory.allocations import Holder, MemoryMoment, NoPlace
from gpuledger.analyse.memory.snapshot_figures import SnapshotFigures
from gpuledger.findings.finding import Evidence, Finding
from gpuledger.findings.rule import Rule
from gpuledger.messages import Message, joined, say
from gpuledger.trace.measured import MemorySnapshot
from gpuledger.units import bytes_text, count_text, share_text, time_text

MAX_HOLDERS: Final = 3  # holders that are named as evidence


class SnapshotOfGpu(Struct, frozen=True):
    """What rules look at."""

    snapshot: MemorySnapshot
    figures: SnapshotFigures


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


def holder_lines(holders: Sequence[Holder], whole: int) -> list[Message]:
    """The first holders, with their shares of the whole."""
    return [
        say(
            "{size} ({share}): {place}",
            size=bytes_text(holder.size_bytes),
            share=share_text(holder.size_bytes / max(whole, 1)),
            place=holder_words(holder),
        )
        for holder in holders[:MAX_HOLDERS]
    ]


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


def snapshot_finding(
    rule: Rule[SnapshotOfGpu],
    subject: SnapshotOfGpu,
    claim: Message,
    evidence: Sequence[str],
    fix: Message | None = None,
    confidence: str = "high",
) -> Finding:
    """A finding about the memory of one GPU."""
    pieces, gpu = tuple(map(Evidence, evidence)), subject.figures.gpu
    return Finding(rule.code, claim, pieces, confidence=confidence, gpu=gpu, fix=fix or rule.fix)

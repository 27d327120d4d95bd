"""MEM-PEAK: who holds the memory when the most is allocated.

No fault by itself: it says when the most was allocated, and which lines of the program hold it. Begin here where
memory is short, or a larger batch is wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpuledger.findings.finding import Finding
from gpuledger.findings.memory.snapshot_words import (
    MAX_HOLDERS,
    SnapshotOfGpu,
    holder_lines,
    holder_words,
    moment_words,
    place_words,
    snapshot_finding,
)
from gpuledger.findings.rule import Rule
from gpuledger.messages import say
from gpuledger.units import bytes_text, share_text


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
        *holder_lines(others[: MAX_HOLDERS - 1], peak_bytes),
        *(
            say(
                "{size} of what has no stack may be gradients: of the size of what {place} allocates, and nothing else",
                size=bytes_text(holder.size_bytes),
                place=place_words(holder.path),
            )
            for holder in figures.peak_gradients[:1]
        ),
    ]
    return [snapshot_finding(rule, subject, claim, evidence)]


RULE: Final = Rule("MEM-PEAK", _peak, None)

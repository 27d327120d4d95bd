"""MEM-FRAGMENTED: free memory is fragmented between blocks in use.

torch has reserved far more than is allocated, and cannot give the rest back: it is free, but in segments that still
hold something. A request that is larger than the largest hole takes new memory from CUDA, or fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpuledger.findings.finding import Finding
from gpuledger.findings.memory.snapshot_words import SnapshotOfGpu, moment_words, snapshot_finding
from gpuledger.findings.rule import Rule
from gpuledger.messages import say
from gpuledger.units import bytes_text, share_text

MIN_STRANDED_BYTES: Final = 64 << 20
MIN_STRANDED_SHARE: Final = 0.2
"""Of what is reserved: segments of the small pool are always cut up a little."""


def _fragmentation(rule: Rule[SnapshotOfGpu], subject: SnapshotOfGpu) -> Sequence[Finding]:
    """At the end, at the peak, or when memory ran out: wherever the most is stranded."""
    figures = subject.figures
    at_oom = [failed.layout for failed in figures.out_of_memories]
    worst = max((figures.end, figures.peak, *at_oom), key=lambda moment: moment.stranded_bytes)
    if worst.stranded_bytes < MIN_STRANDED_BYTES or worst.stranded_share < MIN_STRANDED_SHARE:
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
    return [snapshot_finding(rule, subject, claim, evidence)]


RULE: Final = Rule(
    "MEM-FRAGMENTED",
    _fragmentation,
    say("set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or allocate what stays before what comes and goes"),
)

"""One finding: a claim that a user can act on, with the evidence and what it would save."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, how we know, and what mending it would save. None: cannot be told."""

    code: str
    claim: str
    """One sentence without a full stop."""
    evidence: tuple[str, ...]
    saving_ns: int
    """Over the whole window, for the run as profiled; 0 where the finding is about the capture."""
    saving_ns_per_step: int | None
    saving_low_ns_per_step: int | None
    """The low end: what remains when the profiler's own cost per call is taken off."""
    assumption: str
    confidence: str
    """high, medium or low."""
    gpu: int
    next: str
    """The command to run next."""

"""One piece of evidence: a sentence for people, and what it was made from for programs, timelines and pages.

Instants are those of the trace; documents tell them from the run's zero, as `--time` takes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpuledger.trace.spans import Span

MOST_EXAMPLES: Final = 20
"""So many launches stand for all that a piece of evidence is about."""

LEAST_SHARE: Final = 0.2
"""What holds less than this share of what it is a part of proves nothing, and is not told."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was seen, where, how often, and how much of which whole it is. Empty or None: not known, or of no matter."""

    sentence: str
    """Without a full stop."""
    span: Span | None = None
    """The best example: where to look."""
    pid: int | None = None
    tid: int | None = None
    ranges: tuple[str, ...] = ()
    """The ranges around it, outermost first."""
    call: str = ""
    kernel: str = ""
    copy: str = ""
    """The direction of copies, in NVIDIA's words."""
    moved_bytes: int | None = None
    """What they moved in the steady stretch."""
    correlations: tuple[int, ...] = ()
    """Of up to MOST_EXAMPLES launches or calls, the costliest first."""
    count: int | None = None
    """How many of the thing named there are in the steady stretch."""
    share: float | None = None
    of: str = ""
    """What `share` is a share of."""

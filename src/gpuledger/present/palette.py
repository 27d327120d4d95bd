"""The colours of pages and pictures: a tone by name, on light and on dark paper.

Compute is cool, communication and copies stand apart, idle time is warm and hatched, so that the kinds can be told
apart in grey and by those who see few colours. A line of the books has the same tone wherever it is drawn.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gpuledger.ledger.books import Line
from gpuledger.ledger.causes import Cause, QueueTrigger


class Tone(NamedTuple):
    """One colour, on light and on dark paper."""

    light: str
    dark: str


PAPER: Final = {
    "paper": Tone("#ffffff", "#12161b"),
    "panel": Tone("#f5f6f8", "#1a2027"),
    "rule": Tone("#dde2e8", "#303a45"),
}
"""What lies under text."""

INK: Final = {
    "ink": Tone("#1b2128", "#e7eaee"),
    "muted": Tone("#57616d", "#a3aeba"),
    "accent": Tone("#0b5a9d", "#74b6f2"),
    "good": Tone("#17693f", "#6fcf9b"),
    "warn": Tone("#8a4b00", "#f0b45a"),
    "bad": Tone("#a81c2c", "#ff8f93"),
}
"""What text is written in."""

FAMILIES: Final = {
    "gemm": Tone("#1f5fa8", "#5b9fe3"),
    "attention": Tone("#0f7c86", "#43bcc6"),
    "moe": Tone("#5140a8", "#a294f0"),
    "norm": Tone("#2b8763", "#5bc79e"),
    "elementwise": Tone("#5f83ad", "#93b5dc"),
    "activation": Tone("#7d6ec6", "#bdb2f5"),
    "copy": Tone("#45788a", "#86bccd"),
    "softmax": Tone("#2f6f6a", "#6fb5ae"),
    "reduction": Tone("#3f4fa0", "#8c9cec"),
    "sort": Tone("#3a86c8", "#7cc0f7"),
    "gather-scatter": Tone("#4e8d8d", "#8ed0cf"),
    "rope": Tone("#6a5a9c", "#a99bd6"),
    "sampling": Tone("#4d7d57", "#8bc497"),
    "convolution": Tone("#274b8a", "#6d93d8"),
    "memset": Tone("#6d7f92", "#9fb1c4"),
    "graph": Tone("#3b5b7a", "#7d9fc2"),
    "other": Tone("#737e8c", "#8f9aa8"),
}
"""Compute by family; families of a user's own look like `other`."""

EXPOSED: Final = {"comm": Tone("#ae2f7b", "#ea82ba"), "copy": Tone("#806600", "#cdaa3f")}

HOST: Final = {
    "host-range": Tone("#c3d3e4", "#3b4f66"),
    "host-operator": Tone("#cfe0d3", "#3c5546"),
    "host-python": Tone("#dcd3e6", "#4d4460"),
}
"""What the program named of its own time."""

HEAT: Final = (
    Tone("#eceff3", "#1d242c"),
    Tone("#cfdff0", "#1d3550"),
    Tone("#a5c6e6", "#23507c"),
    Tone("#74a7d8", "#2f6ea9"),
    Tone("#4585c4", "#4690d2"),
    Tone("#2264a8", "#74b3ec"),
    Tone("#103f78", "#bfe0ff"),
)
"""From nothing to all, in even steps."""

_MOSTLY: Final = {
    QueueTrigger.BEHIND: Cause.DISPATCH,
    QueueTrigger.DRAINED: Cause.SYNC,
    QueueTrigger.COLD: Cause.CONTEXT,
    QueueTrigger.COMPILE: Cause.LOAD,
}
"""The cause that lends each trigger that is none its colour."""

TONES: Final[dict[str, Tone]] = {
    **PAPER,
    **INK,
    **{f"compute-{name}": tone for name, tone in FAMILIES.items()},
    **EXPOSED,
    **{f"idle-{cause}": Tone(cause.light, cause.dark) for cause in Cause},
    **{f"idle-{trigger}": Tone(cause.light, cause.dark) for trigger, cause in _MOSTLY.items()},
    **HOST,
    "bound-memory": Tone("#ad5f00", "#f0a24a"),
    "lost-time": Tone("#b04a3c", "#e8897c"),
    "lost-avoidable": Tone("#b07a1e", "#e6b765"),
    **{f"heat-{level}": tone for level, tone in enumerate(HEAT)},
}
"""Every tone by the name that pictures and the style sheet use."""

BOUNDS: Final = {"memory": "bound-memory", "compute": "compute-gemm", "latency": "comm", "unknown": "muted"}
"""What limits a kernel, as a tone."""


def line_tone(line: Line) -> str:
    """The tone of a line of the books."""
    if line.is_compute:
        return f"compute-{line.family}" if line.family in FAMILIES else "compute-other"
    return f"idle-{line.cause}" if line.is_idle else str(line)


def heat_level(share: float) -> int:
    """Which of the tones `HEAT` a share has: the first is nothing at all, the others are even parts of what is left."""
    if share <= 0:
        return 0
    return min(1 + int(share * (len(HEAT) - 1)), len(HEAT) - 1)

"""Overlap as a table: how long each kind of work ran, and how much of it was exposed."""

from __future__ import annotations

from typing import Final

from gpuledger.analyse.overlap import WorkOverlap
from gpuledger.messages import say
from gpuledger.present.sheet import Column, Sheet, Unit

_COLUMNS: Final = (
    Column("kind", say("Kind"), Unit.TEXT),
    Column("running_ns", say("Running"), Unit.NS, detail=1),
    Column("hidden_ns", say("Hidden"), Unit.NS),
    Column("exposed_ns", say("Exposed"), Unit.NS),
    Column("exposed_percent", say("Of the window"), Unit.SHARE_PERCENT),
)


def overlap_sheet(overlap: WorkOverlap) -> Sheet:
    """Compute, communication, copies and idle of the whole window; the exposed times sum to it."""
    kinds = (
        (say("compute"), overlap.compute),
        (say("communication"), overlap.communication),
        (say("copies"), overlap.copies),
        (say("idle"), overlap.idle),
    )
    rows = tuple(
        (name, work.running_ns, work.hidden_ns, work.exposed_ns, 100 * work.exposed_ns / overlap.window_ns)
        for name, work in kinds
    )
    window = (say("window"), None, None, overlap.window_ns, 100.0)
    return Sheet(
        f"overlap_gpu{overlap.gpu}", say("Overlap, GPU {gpu}", gpu=overlap.gpu), _COLUMNS, rows, foot=(window,)
    )

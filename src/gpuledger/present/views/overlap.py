"""Overlap as tables: how long each kind of work ran, how much of it was exposed, and what overlaps on one stream."""

from __future__ import annotations

from typing import Final

from gpuledger.analyse.overlap import StreamOverlap, WorkOverlap
from gpuledger.catalog.kernel_names import label
from gpuledger.messages import say
from gpuledger.present.sheet import Column, Sheet, Unit

_COLUMNS: Final = (
    Column("kind", say("Kind"), Unit.TEXT),
    Column("running_ns", say("Running"), Unit.NS, detail=1),
    Column("hidden_ns", say("Hidden"), Unit.NS),
    Column("exposed_ns", say("Exposed"), Unit.NS),
    Column("exposed_percent", say("Of the window"), Unit.SHARE_PERCENT),
)
_ON_STREAMS: Final = (
    Column("before", say("Kernel"), Unit.TEXT, shorten=label),
    Column("name", say("Begins before it ends"), Unit.TEXT, shorten=label),
    Column("count", say("Count"), Unit.COUNT),
    Column("per_step", say("Per step"), Unit.MEAN, detail=1),
    Column("overlap_ns", say("Overlap"), Unit.NS),
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


def stream_overlap_sheet(overlap: StreamOverlap) -> Sheet:
    """Which kernels overlap on one stream in the steady steps, the longest overlap first."""
    rows = tuple(
        (pair.before, pair.name, pair.count, pair.count / overlap.steps, pair.overlap_ns) for pair in overlap.pairs
    )
    title = say("Kernels that overlap on one stream, steady steps, GPU {gpu}", gpu=overlap.gpu)
    return Sheet(f"stream_overlap_gpu{overlap.gpu}", title, _ON_STREAMS, rows)

"""What hides under what: one GPU's window in; how long each kind of work ran, and what of it was exposed, out.

Exposed is what runs while nothing more important does: communication without compute, copies without either. The
exposed times and the idle time sum to the window. `stream_overlap`: kernels that overlap on one stream.
"""

from __future__ import annotations

from typing import Annotated, Final

import numpy as np
from msgspec import Struct

from gpuledger.catalog.kernel_names import label
from gpuledger.ledger.activity import GRAPH_FAMILY, State
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.rows import Gpu, Label, Row, Unit, share
from gpuledger.trace import sweep
from gpuledger.trace.keys import group
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import shares_in_order, total


class OverlapRow(Row, frozen=True):
    """One kind of work over the whole window; exposed times and idle time sum to the window."""

    gpu: Gpu
    kind: Annotated[str, Label(say("Kind"))]
    running_ns: Annotated[int, Label(say("Running"), Unit.NS, detail=1)]
    hidden_ns: Annotated[int, Label(say("Hidden"), Unit.NS)]
    exposed_ns: Annotated[int, Label(say("Exposed"), Unit.NS, is_summed=True)]
    share: Annotated[float | None, Label(say("Of the window"), Unit.SHARE, is_summed=True)]


COMPUTE: Final = say("compute")
COMMUNICATION: Final = say("communication")
COPIES: Final = say("copies")
IDLE: Final = say("idle")


def overlap(device: Device) -> tuple[OverlapRow, OverlapRow, OverlapRow, OverlapRow]:
    """Compute, communication, copies and idle time of one GPU."""
    work, window_ns = device.ledger.busy, device.ledger.window_ns

    def row(kind: str, hidden_ns: int, exposed_ns: int) -> OverlapRow:
        running_ns = hidden_ns + exposed_ns
        return OverlapRow(device.gpu, kind, running_ns, hidden_ns, exposed_ns, share(exposed_ns, window_ns))

    return (
        row(COMPUTE, 0, work.compute_ns),
        row(COMMUNICATION, work.hidden_comm_ns, total(work.comm)),
        row(COPIES, work.hidden_copy_ns, total(work.copy)),
        row(IDLE, 0, total(work.idle)),
    )


class StreamOverlapRow(Row, frozen=True):
    """A kernel of the steady steps that begins before what ran before it on its stream ends."""

    gpu: Gpu
    before: Annotated[str, Label(say("Kernel"), shorten=label, meaning="that began last before it")]
    name: Annotated[str, Label(say("Begins before it ends"), shorten=label)]
    count: Annotated[int, Label(say("Count"), Unit.COUNT)]
    overlap_ns: Annotated[int, Label(say("Overlap"), Unit.NS, is_summed=True)]


class StreamOverlap(Struct, frozen=True):
    """What overlaps on single streams of one GPU in its steady steps."""

    gpu: int
    steps: int
    kernels: int  # kernels that begin before all before them on their stream have ended
    in_graphs: int  # of those, how many run in CUDA graphs
    overlap_ns: int
    """How much longer they would take one after the other: durations added up, less the time that they cover."""
    pairs: tuple[StreamOverlapRow, ...]  # by what they overlap, the longest first; they sum to `overlap_ns`


def stream_overlap(trace: Trace, device: Device) -> StreamOverlap:
    """The kernels of one GPU that begin in its steady steps."""
    work = device.work.of(device.gpu)
    is_kernel = (work.state != State.COPY) & (work.family != work.families.index(GRAPH_FAMILY))
    mine = np.flatnonzero(is_kernel & device.begins_steady(work.start_ns))
    owner = group(work.pid[mine], work.gathered_at("context", mine), work.stream[mine])[1]
    order = np.lexsort((work.start_ns[mine], owner))
    mine, owner = mine[order], owner[order]
    start, end = work.start_ns[mine], work.end_ns[mine]
    # streams one after the other on a line, so that none reaches into the next
    shared = end - start
    owner *= int(end.max()) - int(start.min()) + 1 if len(mine) else 1
    start += owner
    end += owner
    own_start, own_end = shares_in_order(start, end)
    shared -= own_end - own_start  # with kernels of the stream that began before
    early = np.flatnonzero(shared > 0)
    names = work.name[mine]
    in_graphs = int((work.graph_node[mine[early]] > 0).sum())
    before, after, shared = names[early - 1], names[early], shared[early]
    first, number = group(before, after)
    columns = (
        *(trace.strings.decode(column[first]) for column in (before, after)),
        np.bincount(number, minlength=len(first)).tolist(),
        sweep.sums(number, shared, len(first)).tolist(),
    )
    pairs = [
        StreamOverlapRow(device.gpu, one or "?", other or "?", count, time)
        for one, other, count, time in zip(*columns, strict=True)
    ]
    pairs.sort(key=lambda pair: (-pair.overlap_ns, pair.before, pair.name))
    return StreamOverlap(device.gpu, device.step_count, len(early), in_graphs, int(shared.sum()), tuple(pairs))

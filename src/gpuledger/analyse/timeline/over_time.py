"""Figures over time, for curves: one GPU in, instants and values out.

Each function gives when a level changes and what it is from then on, or a value for each of a fixed number of bins.
Memory counts from the first event recorded, so allocations from before the capture that nsys lists count too. A launch
waits in the queue from its call's return until the first of its work begins; a graph launch is one launch.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.ledger.activity import Activities
from gpuledger.ledger.device import Device
from gpuledger.trace import sweep
from gpuledger.trace.keys import group, is_among
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, Span, covered, union
from gpuledger.trace.tables import Rows, Table

BINS: Final = 240
MOST_STREAMS: Final = 24  # streams told apart, those with the most work first


class StreamUse(Struct, frozen=True, eq=False):
    """One stream's busy time in each bin."""

    gpu: int
    pid: int
    stream: int
    busy_ns: Ints


class StreamsOverTime(Struct, frozen=True, eq=False):
    """The streams of a window: those with the most work, in the order of GPU, process and number."""

    edges_ns: Ints
    streams: tuple[StreamUse, ...]
    left_out: int  # how many more there are


def bin_edges(window: Span, bins: int = BINS) -> Ints:
    """Where bins begin and end: one more than there are bins, and no more bins than nanoseconds."""
    count = max(min(bins, window.end_ns - window.start_ns), 1)
    length = window.end_ns - window.start_ns
    return window.start_ns + np.arange(count + 1, dtype=np.int64) * length // count


def stream_use(activities: Activities, window: Span, bins: int = BINS) -> StreamsOverTime:
    """How busy each stream was: what overlaps on one stream counts once."""

    def within(times: Ints) -> Ints:
        """Times, cut to the window: as they are where they lie in it."""
        if not len(times) or window.start_ns <= times.min() <= times.max() <= window.end_ns:
            return times
        return np.clip(times, window.start_ns, window.end_ns)

    edges = bin_edges(window, bins)
    first, number = group(activities.gpu, activities.pid, activities.gathered("stream"))
    start, end = within(activities.start_ns), within(activities.end_ns)
    work = sweep.sums(number, end - start, len(first))
    busiest = [stream for stream in np.argsort(-work, kind="stable").tolist() if work[stream]]
    streams = []
    for position in sorted(busiest[:MOST_STREAMS]):  # groups are numbered in the order of their keys
        mine = np.flatnonzero(number == position)
        busy = covered(union(start[mine], end[mine]), edges[:-1], edges[1:])
        gpu, pid, stream = (int(activities.gathered_at(key, mine[:1])[0]) for key in ("gpu", "pid", "stream"))
        streams.append(StreamUse(gpu, pid, stream, busy))
    return StreamsOverTime(edges, tuple(streams), max(len(busiest) - MOST_STREAMS, 0))


ON_THE_DEVICE = ("Device", "Device Static", "Managed")  # kinds of memory that lie on the GPU, in NVIDIA's words


def memory_events(trace: Trace, gpu: int) -> tuple[Rows, NDArray[np.bool_], Ints]:
    """Allocations and releases of one GPU's memory in order of time; which are releases; and the bytes in use after."""
    every = trace[Table.ALLOCS]
    kinds = [trace.strings.code(kind) for kind in ON_THE_DEVICE]
    mine = every.where((every["gpu"] == gpu) & is_among(every.codes("memory_kind"), kinds))
    mine = mine.at(np.argsort(mine["start_ns"], kind="stable"))
    released = mine.codes("operation") == trace.strings.code("Deallocation")
    return mine, released, np.cumsum(np.where(released, -mine["bytes"], mine["bytes"]))


_NEVER_NS: Final = np.iinfo(np.int64).max


def queue_depth(device: Device) -> tuple[Ints, NDArray[np.int32]]:
    """How many launches had returned and had begun nothing yet: from each instant on."""
    activities, returned = device.work, device.host.calls["end_ns"]
    call = np.where(activities.gpu == device.gpu, activities.launch, -1).astype(np.int32)
    begun = sweep.fold("least", call, activities.start_ns, np.full(len(returned), _NEVER_NS))
    del call
    waited = (begun > returned) & (begun != _NEVER_NS)
    returned, begun = np.sort(returned[waited], kind="stable"), np.sort(begun[waited], kind="stable")
    del waited
    instants = np.concatenate((returned, begun))
    instants.sort(kind="stable")  # two runs in order
    instants = instants[np.append(True, instants[1:] != instants[:-1])[: len(instants)]]
    depth = np.empty(len(instants), np.int32)
    for part in sweep.parts(len(instants)):
        depth[part] = sweep.search(returned, instants[part], "right") - sweep.search(begun, instants[part], "right")
    return instants, depth


def busy_share(device: Device, bins: int) -> tuple[Ints, NDArray[np.float64]]:
    """The share of each of so many equal parts of the window in which the GPU worked: their beginnings, the shares."""
    edges = bin_edges(device.ledger.window, bins)
    idle_ns, looked_at_ns = (
        covered(spans, edges[:-1], edges[1:]) for spans in (device.ledger.busy.idle, device.ledger.busy.stretches)
    )
    return edges[:-1], (looked_at_ns - idle_ns) / np.diff(edges)

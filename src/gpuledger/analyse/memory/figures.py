"""What one GPU copies and allocates in its steady steps, and the memory in use over the whole capture.

Copies come by kind (and by the memory they came from and went to), and as flows: bytes, rate, and the rate that their
way allows. Memory in use: the peak and the sums, and the most in each of a fixed number of bins.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.analyse.idle.launch_costs import CallRow, call_rows, per_step
from gpuledger.analyse.timeline.over_time import BINS, bin_edges, memory_events
from gpuledger.catalog.calls import CallKind
from gpuledger.catalog.gpus import link_bytes_per_s, peak_bytes_per_s, peer_bytes_per_s
from gpuledger.ledger.books import LineKind
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.rows import Gpu as GpuNumber
from gpuledger.rows import Label, Row, Unit
from gpuledger.trace.keys import equal, group
from gpuledger.trace.model import Gpu, NotMeasured, Trace
from gpuledger.trace.spans import Ints, Span, covered, total, union
from gpuledger.trace.statistics import largest, summarise
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import Rows, Table


class CopyRow(Row, frozen=True):
    """Copies of one kind between two kinds of memory in the steady steps, in NVIDIA's words."""

    gpu: GpuNumber
    kind: Annotated[str | None, Label(say("Kind"))]
    source: Annotated[str | None, Label(say("From"))]
    target: Annotated[str | None, Label(say("To"))]
    copies: Annotated[int, Label(say("Copies"), Unit.COUNT)]
    per_step: Annotated[float | None, Label(say("Per step"), Unit.MEAN)]
    total_bytes: Annotated[int | None, Label(say("Size"), Unit.BYTES, meaning="null: that of some was not recorded")]
    total_ns: Annotated[int, Label(say("Time"), Unit.NS)]
    bytes_per_s: Annotated[float | None, Label(say("Rate"), Unit.BYTES_PER_S, detail=1)]

    @property
    def is_pageable(self) -> bool:
        """Whether the host's memory in it is pageable; a memset has no part of the host's, whatever its row says."""
        side = self.source if self.kind in TO_DEVICE else self.target if self.kind in TO_HOST else None
        return side == PAGEABLE


def copies_by_kind(trace: Trace, device: Device) -> tuple[CopyRow, ...]:
    """The copies and memsets of the steady steps, the most time first."""
    every = trace[Table.COPIES]
    copies = every.where(device.begins_steady(every["start_ns"]) & (every["gpu"] == device.gpu))
    keys = [copies.codes(name) for name in ("kind", "src_kind", "dst_kind")]
    first, number = group(*keys)
    names = zip(*(copies.strings.decode(key[first]) for key in keys), strict=True)
    times, sizes = summarise(copies.duration_ns, number), summarise(copies["bytes"], number)
    by_kind = []
    for (kind, source, target), time, size in zip(names, times, sizes, strict=True):
        size_bytes = None if size.least < 0 else size.total
        by_kind.append(
            CopyRow(
                gpu=device.gpu,
                kind=kind,
                source=source,
                target=target,
                copies=time.count,
                per_step=per_step(device, time.count),
                total_bytes=size_bytes,
                total_ns=time.total,
                bytes_per_s=size_bytes * 1e9 / time.total if time.total and size_bytes is not None else None,
            )
        )
    return tuple(sorted(by_kind, key=lambda copied: -copied.total_ns))


AT_RATE: Final = 0.8  # from this share of what its way allows on, a copy is as fast as it gets
BRIEF_NS: Final = 10_000  # a copy that its way could carry in less than this is mostly latency: too small
MOST_COPIES: Final = 20  # copies named, the longest first

NS_PER_S: Final = 1_000_000_000

# NVIDIA's labels, by the way that a copy takes

TO_DEVICE: Final = ("Host-to-Device", "Host-to-Array")
TO_HOST: Final = ("Device-to-Host", "Array-to-Host")
WITHIN_DEVICE: Final = ("Device-to-Device", "Array-to-Array", "Array-to-Device", "Device-to-Array")
UNIFIED: Final = ("Unified Host-to-Device", "Unified Device-to-Host")
PEER: Final = ("Peer-to-Peer", "Unified Device-to-Device")
MEMSET: Final = "Memset"

PAGEABLE: Final = "Pageable"


class CopyFlow(Struct, frozen=True):
    """Copies of one direction between the same kinds of memory. Times and counts are of the steady stretch."""

    kind: str  # NVIDIA's label of the direction, or Memset; empty where it was not recorded
    memory: str
    """The kind of the host's memory, in NVIDIA's word; empty where the host has no part in it or it is not known."""
    count: int
    total_bytes: int  # 0: not recorded
    running_ns: int  # how long any of them ran
    exposed_ns: int  # how much of the ledger's line of copies is theirs
    way_bytes_per_s: int | None  # what their way usually allows; None where that is not known
    is_own_rate: bool  # whether that is only what the largest of this run's own copies reach
    longest: Span
    pid: int
    correlations: tuple[int, ...]

    @property
    def bytes_per_s(self) -> int | None:
        """What they reach; None where the bytes were not recorded."""
        return self.total_bytes * NS_PER_S // self.running_ns if self.total_bytes and self.running_ns else None

    @property
    def is_at_rate(self) -> bool:
        """Whether they reach what their way allows, as far as that is known."""
        if self.bytes_per_s is None or self.way_bytes_per_s is None:
            return True
        return self.bytes_per_s >= AT_RATE * self.way_bytes_per_s

    @property
    def is_pageable(self) -> bool:
        return self.memory == PAGEABLE

    @property
    def are_small(self) -> bool:
        """Whether one of them is too small for its way's rate to matter."""
        if self.way_bytes_per_s is None or not self.total_bytes:
            return False
        return self.total_bytes * NS_PER_S < self.count * self.way_bytes_per_s * BRIEF_NS

    @property
    def slow_ns(self) -> int:
        """The exposed time that goes where they reach what their way allows; of pinned memory only if they are far."""
        if not self.total_bytes or self.way_bytes_per_s is None or (self.is_at_rate and not self.is_pageable):
            return 0
        least = self.total_bytes * NS_PER_S // self.way_bytes_per_s
        return max(self.running_ns - least, 0) * self.exposed_ns // max(self.running_ns, 1)


def copy_flows(trace: Trace, device: Device) -> tuple[CopyFlow, ...]:
    """By direction and memory of the host, the most exposed time first; the exposed times sum to the ledger's line."""
    every = trace[Table.COPIES].only("kind", "src_kind", "dst_kind", "bytes", "pid", "correlation", "gpu")
    lasts = every["end_ns"] > every["start_ns"]
    chosen = lasts & device.begins_steady(every["start_ns"]) & equal(every["gpu"], device.gpu)
    copies = every if chosen.all() else every.where(chosen)
    if not len(copies):
        return ()
    kinds = copies.codes("kind")
    host_sides = [copies.codes("src_kind"), copies.codes("dst_kind")]  # of copies in which the host has a part
    memory = np.select(
        [_are(copies, "kind", *TO_DEVICE), _are(copies, "kind", *TO_HOST)], host_sides, np.int32(NO_TEXT)
    )
    first, number = group(kinds, memory)
    # the ledger's line of copies, shared out among the groups by the exposed time of their copies
    alone = covered(device.ledger.busy.copy, copies["start_ns"], np.minimum(copies["end_ns"], device.steady.end_ns))
    by_group = np.bincount(number, weights=alone, minlength=len(first))
    share = device.exposed_ns(LineKind.COPY) / max(float(by_group.sum()), 1.0)
    exposed = np.diff(np.round(np.append(0.0, np.cumsum(by_group)) * share)).astype(np.int64).tolist()
    groups = [copies if len(first) == 1 else copies.at(np.flatnonzero(number == flow)) for flow in range(len(first))]
    strings, flows = trace.strings, []
    for own, row, exposed_ns in zip(groups, first.tolist(), exposed, strict=True):
        kind = strings.text(int(kinds[row])) or ""
        alike = [other for other, its_kind in zip(groups, kinds[first], strict=True) if its_kind == kinds[row]]
        way, is_own = _way(trace, device, alike, kind)
        longest = largest(own.duration_ns, MOST_COPIES)
        flows.append(
            CopyFlow(
                kind=kind,
                memory=strings.text(int(memory[row])) or "",
                count=len(own),
                total_bytes=_sum_of_bytes(own),
                running_ns=total(union(own["start_ns"], own["end_ns"])),
                exposed_ns=exposed_ns,
                way_bytes_per_s=way,
                is_own_rate=is_own,
                longest=Span(int(own["start_ns"][longest[0]]), int(own["end_ns"][longest[0]])),
                pid=int(own["pid"][longest[0]]),
                correlations=tuple(int(number) for number in own["correlation"][longest].tolist() if number > 0),
            )
        )
    return tuple(sorted(flows, key=lambda flow: (-flow.exposed_ns, -flow.running_ns, flow.kind, flow.memory)))


def _sum_of_bytes(copies: Rows) -> int:
    """0 where the size of any was not recorded: the rate of some is not the rate of all."""
    return 0 if (copies["bytes"] < 0).any() else int(copies["bytes"].sum())


def _are(copies: Rows, column: str, *labels: str) -> NDArray[np.bool_]:
    """Which copies have one of these labels; a label that nothing in the trace has is not the same as none."""
    codes = [code for label in labels if (code := copies.strings.code(label)) != NO_TEXT]
    return np.isin(copies.codes(column), codes)


def _way(trace: Trace, device: Device, alike: Sequence[Rows], kind: str) -> tuple[int | None, bool]:
    """What the way of copies of one kind, whatever their memory, allows, and whether only they themselves tell."""
    gpu = trace.origin.gpu(device.gpu) or Gpu("")
    if kind in (*TO_DEVICE, *TO_HOST, *UNIFIED):
        usual = link_bytes_per_s(gpu.name)
    elif kind in PEER:
        usual = peer_bytes_per_s(gpu.name) or 0
    elif kind in WITHIN_DEVICE or kind == MEMSET:
        known = peak_bytes_per_s(gpu)
        memory = gpu.bandwidth_bytes_per_s if isinstance(known, NotMeasured) else int(known)
        if memory:
            return memory if kind == MEMSET else memory // 2, False
        usual = 0
    else:
        return None, False
    reached = max(map(_largest_bytes_per_s, alike))
    return (reached, True) if reached > usual else (usual or None, False)


def _largest_bytes_per_s(copies: Rows) -> int:
    """What the largest of these reach together; 0 for pageable memory, slower than the way, or if nothing is known."""
    if _are(copies, "src_kind", PAGEABLE).any() or _are(copies, "dst_kind", PAGEABLE).any():
        return 0
    size = np.maximum(copies["bytes"], 0)
    large = copies.at(np.flatnonzero(2 * size >= size.max()))
    return _sum_of_bytes(large) * NS_PER_S // total(union(large["start_ns"], large["end_ns"]))


class MemoryUseRow(Row, frozen=True):
    """A GPU's memory over the whole capture."""

    gpu: GpuNumber
    peak_bytes: Annotated[int, Label(say("Peak"), Unit.BYTES)]
    end_bytes: Annotated[int, Label(say("At the end"), Unit.BYTES)]
    allocated_bytes: Annotated[int, Label(say("Allocated in total"), Unit.BYTES)]


class MemoryUse(Struct, frozen=True, eq=False):
    """The most memory that was in use in each bin."""

    edges_ns: Ints
    most_bytes: Ints


def _events(trace: Trace, gpu: int) -> tuple[Rows, NDArray[np.bool_], Ints] | NotMeasured:
    if reason := trace.missing(Table.ALLOCS):
        return reason
    events = memory_events(trace, gpu)
    return events if len(events[0]) else NotMeasured(f"no memory event of GPU {gpu} was recorded")


def memory_totals(trace: Trace, gpu: int) -> MemoryUseRow | NotMeasured:
    """Peak, end and sum, from the profile's memory events."""
    recorded = _events(trace, gpu)
    if isinstance(recorded, NotMeasured):
        return recorded
    events, released, level = recorded
    return MemoryUseRow(gpu, int(level.max()), int(level[-1]), int(events["bytes"][~released].sum()))


def memory_use(trace: Trace, gpu: int, window: Span, bins: int = BINS) -> MemoryUse | NotMeasured:
    """A GPU's memory over time, from the profile's memory events; those from before the window count."""
    recorded = _events(trace, gpu)
    if isinstance(recorded, NotMeasured):
        return recorded
    events, _, level = recorded
    edges = bin_edges(window, bins)
    place = np.searchsorted(events["start_ns"], edges, side="right").tolist()
    held = np.append(0, level)  # what is in use after so many events
    most = [int(held[first : last + 1].max()) for first, last in pairwise(place)]
    return MemoryUse(edges, np.array(most, np.int64))


class MemoryFigures(Struct, frozen=True):
    """One GPU's. Copies and calls have the most time first."""

    copies: tuple[CopyRow, ...]
    allocation_calls: tuple[CallRow, ...]
    in_use: MemoryUseRow | NotMeasured


def memory_figures(trace: Trace, device: Device) -> MemoryFigures:
    """What one GPU copies and allocates."""
    allocating = np.flatnonzero(device.host.are(CallKind.ALLOC) & device.steady_calls)
    return MemoryFigures(copies_by_kind(trace, device), call_rows(device, allocating), memory_totals(trace, device.gpu))

"""What was copied on one GPU in its steady steps: by kind, and by the memory it came from and went to."""

from __future__ import annotations

from dataclasses import dataclass

from gpuledger.ledger.device import Device
from gpuledger.trace.keys import group
from gpuledger.trace.model import Trace
from gpuledger.trace.statistics import summarise
from gpuledger.trace.tables import Table


@dataclass(frozen=True, slots=True)
class CopiesOfKind:
    """Copies of one kind between two kinds of memory, in NVIDIA's words; None where they were not recorded."""

    kind: str | None
    source: str | None
    target: str | None
    count: int
    total_bytes: int
    total_ns: int

    @property
    def bytes_per_s(self) -> float | None:
        """None where they took no time."""
        return self.total_bytes * 1e9 / self.total_ns if self.total_ns else None


def copies_by_kind(trace: Trace, device: Device) -> tuple[CopiesOfKind, ...]:
    """The copies and memsets of the steady steps, the most time first."""
    every = trace[Table.COPIES]
    copies = every.where(device.begins_steady(every["start_ns"]) & (every["gpu"] == device.gpu))
    keys = [copies.codes(name) for name in ("kind", "src_kind", "dst_kind")]
    first, number = group(*keys)
    names = zip(*(copies.strings.decode(key[first]) for key in keys), strict=True)
    times, sizes = summarise(copies.duration_ns, number), summarise(copies["bytes"], number)
    by_kind = [
        CopiesOfKind(kind, source, target, time.count, size.total, time.total)
        for (kind, source, target), time, size in zip(names, times, sizes, strict=True)
    ]
    return tuple(sorted(by_kind, key=lambda copied: -copied.total_ns))

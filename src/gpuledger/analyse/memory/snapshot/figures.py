"""All that a snapshot says of one GPU, together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.memory.snapshot.churn import SegmentChurn, ShortLived, segment_churn, short_lived
from gpuledger.analyse.memory.snapshot.gradients import likely_gradients
from gpuledger.analyse.memory.snapshot.holders import Holder, holders, holders_by_line
from gpuledger.analyse.memory.snapshot.leaks import Leaks, leaks
from gpuledger.analyse.memory.snapshot.lifetimes import MemoryLevels, lifetimes, memory_levels
from gpuledger.analyse.memory.snapshot.moment import MemoryMoment, end_moment, memory_moment
from gpuledger.analyse.memory.snapshot.oom import OutOfMemory, out_of_memories
from gpuledger.trace.memory_snapshot import GpuMemory, MemorySnapshot
from gpuledger.trace.spans import Ints


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotFigures:
    """One GPU's."""

    gpu: int
    memory: GpuMemory
    levels: MemoryLevels
    peak: MemoryMoment
    end: MemoryMoment
    peak_stacks: tuple[Holder, ...]
    peak_lines: tuple[Holder, ...]
    """The same bytes by the line alone. Both sum to the peak."""
    peak_gradients: tuple[Holder, ...]
    """Of what has no stack at the peak, the part that may be gradients of what some path allocates."""
    early_bytes: int
    """Allocated before the history began."""
    leaks: Leaks
    short_lived: tuple[ShortLived, ...]
    segment_churn: SegmentChurn
    out_of_memories: tuple[OutOfMemory, ...]
    unmatched_events: int
    """That fit to no other event."""

    @property
    def has_history(self) -> bool:
        return len(self.memory.history) > 0

    @property
    def peak_bytes(self) -> int:
        return self.peak.allocated_bytes

    @property
    def peak_named(self) -> Holder | None:
        """The path that holds the most of the peak; None where no path is known."""
        return next((holder for holder in self.peak_stacks if holder.path), None)

    @property
    def reserved_peak_bytes(self) -> int:
        return int(self.levels.reserved_bytes.max())

    def instant_ns(self, moment: int) -> int | None:
        """When an event was; None where torch noted no times, or before the first."""
        times = self.memory.history.time_ns
        return int(times[moment]) if 0 <= moment < len(times) and times[moment] >= 0 else None

    @property
    def start_ns(self) -> int | None:
        """When the history begins."""
        return self.instant_ns(0)

    def since_start_ns(self, moment: int) -> int | None:
        """How long after the history began an event was; 0 before the first."""
        instant, start = self.instant_ns(max(moment, 0)), self.start_ns
        return None if instant is None or start is None else instant - start


def snapshot_figures(snapshot: MemorySnapshot) -> tuple[SnapshotFigures, ...]:
    """Of each GPU."""
    return tuple(_of_gpu(snapshot, memory) for memory in snapshot.gpus)


def _of_gpu(snapshot: MemorySnapshot, memory: GpuMemory) -> SnapshotFigures:
    lives = lifetimes(memory)
    levels = memory_levels(memory, lives)
    at_peak = lives.living(levels.peak)
    return SnapshotFigures(
        memory.gpu,
        memory,
        levels,
        memory_moment(memory, lives, levels.peak),
        memory_moment(memory, lives, end_moment(memory)),
        holders(snapshot, lives, at_peak),
        holders_by_line(snapshot, lives, at_peak),
        likely_gradients(snapshot, lives, at_peak),
        int(lives.size_bytes[lives.is_early].sum()),
        leaks(snapshot, memory, lives),
        short_lived(snapshot, memory, lives),
        segment_churn(snapshot, memory),
        out_of_memories(snapshot, memory, lives),
        lives.unmatched,
    )


@dataclass(frozen=True, slots=True, eq=False)
class MemoryCurve:
    """The most that was allocated and reserved in each of some parts of the history."""

    allocated_bytes: Ints
    reserved_bytes: Ints


def memory_curve(figures: SnapshotFigures, start_ns: int, end_ns: int, bins: int = 400) -> MemoryCurve:
    """Parts of equal time between two instants; outside of the history, levels are those of its ends."""
    times = figures.memory.history.time_ns
    edges = np.linspace(start_ns, max(end_ns, start_ns + 1), bins + 1).astype(np.int64)
    return _curve(figures, np.searchsorted(times, edges, side="right"))


def memory_curve_by_event(figures: SnapshotFigures, bins: int = 400) -> MemoryCurve:
    """Parts with equally many events: what happens fast is as wide as what takes long."""
    events = len(figures.memory.history)
    return _curve(figures, np.linspace(0, events, min(bins, max(events, 1)) + 1).astype(np.int64))


def _curve(figures: SnapshotFigures, edges: NDArray[np.integer]) -> MemoryCurve:
    """The most between positions in the levels, each with those at its ends."""

    def most(level: Ints) -> Ints:
        spans = zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        return np.array([int(level[begin : end + 1].max()) for begin, end in spans], np.int64)

    return MemoryCurve(most(figures.levels.allocated_bytes), most(figures.levels.reserved_bytes))

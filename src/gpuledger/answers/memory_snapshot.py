"""What a memory snapshot of PyTorch says: a snapshot in, its figures of each GPU and its findings out."""

from __future__ import annotations

from msgspec import Struct

from gpuledger.analyse.memory.snapshot_figures import (
    MemoryCurve,
    SnapshotFigures,
    memory_curve,
    memory_curve_by_event,
    snapshot_figures,
)
from gpuledger.findings.finding import Finding
from gpuledger.findings.memory import snapshot_findings
from gpuledger.trace.measured import MemorySnapshot
from gpuledger.trace.spans import Span


class SnapshotAnswer(Struct, frozen=True):
    """A snapshot with all that is said of it."""

    snapshot: MemorySnapshot
    figures: tuple[SnapshotFigures, ...]
    findings: tuple[Finding, ...]

    @property
    def worst_first(self) -> list[SnapshotFigures]:
        """GPUs that ran out of memory, then those that leak, then the others."""
        leaking = {finding.gpu for finding in self.findings if finding.code == "MEM-LEAK"}
        return sorted(self.figures, key=lambda of_gpu: (not of_gpu.out_of_memories, of_gpu.gpu not in leaking))

    @property
    def start_ns(self) -> int:
        """When the history begins; 0 where no times were noted."""
        return next((of_gpu.start_ns for of_gpu in self.figures if of_gpu.start_ns is not None), 0)

    def over_time(self, window: Span | None = None) -> dict[int, MemoryCurve]:
        """Memory of each GPU over a stretch of the wall clock; by default over its history, where that has times."""
        return {
            of_gpu.gpu: memory_curve(self.snapshot, of_gpu, *span)
            for of_gpu in self.figures
            if (span := window or of_gpu.history_span) is not None
        }

    @property
    def by_event(self) -> dict[int, MemoryCurve]:
        """Memory of each GPU with a history, event by event."""
        of_gpus = [of_gpu for of_gpu in self.figures if of_gpu.has_history]
        return {of_gpu.gpu: memory_curve_by_event(self.snapshot, of_gpu) for of_gpu in of_gpus}


def snapshot_answer(snapshot: MemorySnapshot) -> SnapshotAnswer:
    """All that is said of a snapshot."""
    figures = snapshot_figures(snapshot)
    return SnapshotAnswer(snapshot, figures, snapshot_findings(snapshot, figures))

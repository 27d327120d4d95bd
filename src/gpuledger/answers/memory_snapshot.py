"""What a memory snapshot of PyTorch says: a snapshot in, its figures of each GPU and its findings out."""

from __future__ import annotations

from dataclasses import dataclass

from gpuledger.analyse.memory.snapshot_figures import SnapshotFigures, snapshot_figures
from gpuledger.findings.finding import Finding
from gpuledger.findings.memory import snapshot_findings
from gpuledger.trace.measured import MemorySnapshot


@dataclass(frozen=True, slots=True)
class SnapshotAnswer:
    """A snapshot with all that is said of it."""

    snapshot: MemorySnapshot
    figures: tuple[SnapshotFigures, ...]
    findings: tuple[Finding, ...]

    @property
    def start_ns(self) -> int:
        """When the history begins; 0 where no times were noted."""
        return next((of_gpu.start_ns for of_gpu in self.figures if of_gpu.start_ns is not None), 0)


def snapshot_answer(snapshot: MemorySnapshot) -> SnapshotAnswer:
    """All that is said of a snapshot."""
    figures = snapshot_figures(snapshot)
    return SnapshotAnswer(snapshot, figures, snapshot_findings(snapshot, figures))

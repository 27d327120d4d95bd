"""What a memory snapshot is found to have: bytes and no time, so in the order in which they matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpuledger.analyse.memory.snapshot_figures import SnapshotFigures
from gpuledger.findings.finding import Finding
from gpuledger.findings.memory import alloc_churn, mem_fragmented, mem_leak, mem_oom, mem_peak
from gpuledger.findings.memory.snapshot_words import SnapshotOfGpu
from gpuledger.trace.measured import MemorySnapshot

RULES: Final = (mem_oom.RULE, mem_leak.RULE, mem_fragmented.RULE, alloc_churn.OF_A_SNAPSHOT, mem_peak.RULE)


def snapshot_findings(snapshot: MemorySnapshot, figures: Sequence[SnapshotFigures]) -> tuple[Finding, ...]:
    """All findings, in the order of the rules; of each code those of every GPU."""
    subjects = [SnapshotOfGpu(snapshot, of_gpu) for of_gpu in figures]
    return tuple(finding for rule in RULES for subject in subjects for finding in rule.findings(subject))

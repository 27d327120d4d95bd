"""Memory snapshots of PyTorch where a verb takes them instead of a timeline, or beside one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from gpuledger.cli.output import Output
from gpuledger.limits import Limits
from gpuledger.read.snapshot.reader import is_snapshot, open_snapshot
from gpuledger.read.source import look_at
from gpuledger.stages import FINDINGS

if TYPE_CHECKING:
    from gpuledger.present.views.memory_snapshot import AnalysedSnapshot


def snapshot_of(profile: Path, limits: Limits, output: Output) -> AnalysedSnapshot | None:
    """What a snapshot says; None where the file is something else."""
    if not os.path.isfile(profile) or not is_snapshot(look_at(profile)):  # noqa: PTH113 - also of names no file can have
        return None
    return analysed_snapshot(profile, limits, output)


def analysed_snapshot(profile: Path, limits: Limits, output: Output) -> AnalysedSnapshot:
    """What the snapshot in a file says."""
    from gpuledger.analyse.memory.snapshot.figures import snapshot_figures
    from gpuledger.findings.memory_snapshot import snapshot_findings
    from gpuledger.present.views.memory_snapshot import AnalysedSnapshot

    snapshot = open_snapshot(profile, limits=limits, progress=output.progress)
    output.progress.stage(FINDINGS)
    figures = snapshot_figures(snapshot)
    return AnalysedSnapshot(snapshot, figures, snapshot_findings(snapshot, figures))


def show_snapshot(profile: Path, limits: Limits, output: Output, *, is_brief: bool = False) -> bool:
    """Show what a snapshot says; False where the file is something else."""
    made = snapshot_of(profile, limits, output)
    if made is None:
        return False
    from gpuledger.present.views.memory_snapshot import snapshot_document

    output.show(snapshot_document(made, is_brief=is_brief))
    return True

"""A memory snapshot of PyTorch: told from other files, and what it says of who holds the memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from gpuledger.answers.memory_snapshot import SnapshotAnswer, snapshot_answer
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.present.views.shown import ShownAnswer
from gpuledger.read.snapshot import is_snapshot, open_snapshot
from gpuledger.read.source import look_at
from gpuledger.stages import FINDINGS, NOBODY, Listener

if TYPE_CHECKING:
    from gpuledger.present.document import Document


def is_snapshot_file(profile: str | Path) -> bool:
    """Whether a file is such a snapshot, by its first bytes."""
    return os.path.isfile(profile) and is_snapshot(look_at(Path(profile)))  # noqa: PTH113 - also of names no file can have


def memory_snapshot(
    profile: str | Path, limits: Limits = DEFAULT_LIMITS, progress: Listener = NOBODY, *, is_brief: bool = False
) -> ShownAnswer[SnapshotAnswer]:
    """Who holds the memory, what leaks, what is fragmented, and what an out-of-memory was made of."""
    snapshot = open_snapshot(profile, limits=limits, progress=progress)
    progress.stage(FINDINGS)
    result = snapshot_answer(snapshot)

    def document() -> Document:
        from gpuledger.present.views.memory_snapshot import snapshot_document

        return snapshot_document(result, is_brief=is_brief)

    return ShownAnswer((result,), document)

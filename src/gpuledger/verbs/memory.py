"""What is copied and allocated; of a memory snapshot of PyTorch, who holds the memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.stages import FINDINGS, NOBODY, Listener
from gpuledger.verbs.definition import Profile, ProfileOptions

if TYPE_CHECKING:
    from gpuledger.present.views.memory import MemoryAnswer
    from gpuledger.present.views.memory_snapshot import MemorySnapshotAnswer


def memory(profile: Profile, **asked: Unpack[ProfileOptions]) -> MemoryAnswer | MemorySnapshotAnswer:
    """Show what PROFILE copies and allocates: kinds, bytes, rates, pageable memory, churn, peak.

    Copies are split by direction and by the memory they touch; pageable memory is slow and blocks the host.
    Allocations are counted from CUDA calls, and from nsys's memory events where they were recorded
    (--cuda-memory-usage=true).

    PROFILE may also be a memory snapshot of PyTorch (torch.cuda.memory._dump_snapshot, or `gpuledger capture torch
    --memory`): who holds the peak, by line and by stack; what leaks; what is fragmented; what an out-of-memory was made
    of. No class in the pickle is loaded.

    \b
    Examples:
      gpuledger memory run.sqlite
      gpuledger memory run.sqlite --format=json | jq '.copies[0]'
      gpuledger memory snapshot.pickle
    """
    from gpuledger.present.views.memory import memory_answer
    from gpuledger.read.snapshot import is_snapshot_file
    from gpuledger.trace.model import Trace
    from gpuledger.verbs.profiles import read_devices

    if not isinstance(profile, Trace) and is_snapshot_file(profile):
        return memory_snapshot(profile, asked.get("limits", DEFAULT_LIMITS), asked.get("progress", NOBODY))
    return memory_answer(*read_devices(profile, **asked))


def memory_snapshot(
    profile: str | Path, limits: Limits = DEFAULT_LIMITS, progress: Listener = NOBODY
) -> MemorySnapshotAnswer:
    """Who holds the memory, what leaks, what is fragmented, and what an out-of-memory was made of."""
    from gpuledger.present.views.memory_snapshot import snapshot_answer
    from gpuledger.read.snapshot import open_snapshot

    snapshot = open_snapshot(profile, limits=limits, progress=progress)
    progress.stage(FINDINGS)
    return snapshot_answer(snapshot)

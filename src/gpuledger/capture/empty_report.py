"""Why a tool wrote no report: what it said and how it ended in, one sentence with what to do about it out."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuledger.capture.manifest import full
from gpuledger.capture.nsys.command import FULL
from gpuledger.errors import GpuledgerError, MissingPackage, NothingRecorded, ToolFailed
from gpuledger.system.processes import AttendedRun

_NO_ROOM_BYTES: Final = 20_000_000
NOT_STARTED: Final = (125, 126, 127, 255)
"""Exit codes of prefixes: the folder was there already, not executable, not found, no connection."""
PERMISSION: Final = "ERR_NVGPUCTRPERM"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A recording that left nothing."""

    tool: str
    ended: AttendedRun
    folder: Path
    ranged: bool = False
    """Whether it was to begin when the program opens a profiler range."""
    delay: float | None = None
    via: Sequence[str] | None = None


def why_nothing(attempt: Attempt) -> GpuledgerError:
    """The most likely reason."""
    ended, tool = attempt.ended, attempt.tool
    if FULL.search(ended.said):
        return full(attempt.folder)
    if attempt.via is not None and ended.exit_code in NOT_STARTED:
        return _not_over_there(attempt)
    if PERMISSION in ended.said:
        return forbidden()
    if ended.interrupted:
        return NothingRecorded(f"interrupted before {tool} had recorded anything")
    if (crowded := _crowded(attempt.folder)) is not None:
        return full(crowded)
    if "no kernels were profiled" in ended.said.lower():
        return NothingRecorded(
            "no kernel was profiled: none that ran matches",
            hint="`gpuledger ncu-plan PROFILE` gives a command whose names match those of a timeline",
        )
    if "importer" in ended.said.lower():
        return ToolFailed(
            "nsys recorded, but could not write its report: this nsys lacks its importer",
            found=f"it says: {last_line(ended.said)}",
            hint="`gpuledger doctor` says which library is missing",
        )
    if attempt.ranged:
        return NothingRecorded(
            "the program never opened a profiler range, so nothing was recorded",
            found=f"it ran for {ended.seconds:.1f} s and ended with exit code {ended.exit_code}",
            hint="call cudaProfilerStart where the steady part begins, as `gpuledger.window('steady', profiler=True)` "
            "does, or record the whole run with --preset=launch",
        )
    if attempt.delay is not None and ended.seconds < attempt.delay:
        return NothingRecorded(
            f"the program ended after {ended.seconds:.1f} s, before --delay={attempt.delay:g} was over",
            hint="a shorter --delay, or a longer run",
        )
    return ToolFailed(
        f"{tool} wrote no report (exit code {ended.exit_code})",
        found=f"the last that was said: {last_line(ended.said)}" if ended.said.strip() else "",
        hint=f"{tool}'s own output is above; `gpuledger doctor` checks for what may be wrong",
    )


def forbidden() -> GpuledgerError:
    """The error where the driver keeps the GPU's counters to administrators."""
    return ToolFailed(
        f"the driver keeps the GPU's counters to administrators ({PERMISSION})",
        hint="load the driver with NVreg_RestrictProfilingToAdminUsers=0 (in /etc/modprobe.d, then reboot), run as "
        "root, or start the container with --cap-add=SYS_ADMIN",
    )


def last_line(text: str) -> str:
    """The last line that says anything."""
    lines = [line.strip() for line in text.replace("\r", "\n").splitlines() if line.strip()]
    return lines[-1] if lines else "nothing"


def _not_over_there(attempt: Attempt) -> GpuledgerError:
    said = last_line(attempt.ended.said)
    if attempt.ended.exit_code == 127:
        return MissingPackage(
            f"{attempt.tool} was not found on the other side",
            found=f"{(attempt.via or ['the prefix'])[0]} says: {said}",
            hint="it is looked for on the PATH there, and in /usr/local/cuda/bin",
        )
    return ToolFailed(
        f"the command could not be started with --via (exit code {attempt.ended.exit_code})",
        found=f"{(attempt.via or ['the prefix'])[0]} says: {said}",
    )


def _crowded(folder: Path) -> Path | None:
    """A folder that the tool writes to, and that has no room left: its own, or the one for temporary files."""
    for each in (folder, Path(tempfile.gettempdir())):
        if shutil.disk_usage(each).free < _NO_ROOM_BYTES:
            return each
    return None

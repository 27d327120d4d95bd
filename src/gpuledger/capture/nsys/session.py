"""Recording pieces of a server that runs: `nsys launch` once, then `nsys start` and `nsys stop` as often as wanted.

nsys keeps sessions by name. Which profile a running recording will become is remembered by a link, named like the
session, in the user's state folder, that points to the recording's manifest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gpuledger.capture.nsys.command import output_flags
from gpuledger.capture.nsys.presets import BASE, Flag
from gpuledger.errors import GpuledgerError
from gpuledger.system.atomic_files import placed

START_FLAGS: Final = ("sample", "cpuctxsw", "stats", "capture-range", "capture-range-end")
"""Flags that `nsys start` takes, not `nsys launch`; what is traced is settled when the server is launched."""

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


def session_name(name: str) -> str:
    """The name, if nsys takes it."""
    if not _NAME.fullmatch(name):
        raise GpuledgerError(f"{name!r} is no name for a session: a letter, then letters, digits, `_`, `.` and `-`")
    return name


def launch_command(nsys: str, name: str, flags: Sequence[Flag], command: Sequence[str]) -> tuple[str, ...]:
    """Starts the server, ready to be recorded."""
    kept = tuple(flag.argument for flag in flags if flag.name not in START_FLAGS)
    return (nsys, "launch", f"--session-new={name}", *kept, *command)


def start_command(nsys: str, name: str, output: str) -> tuple[str, ...]:
    """Begins a recording."""
    flags = (*output_flags(output), *(flag for flag in BASE if flag.name in START_FLAGS))
    return (nsys, "start", f"--session={name}", *(flag.argument for flag in flags))


def stop_command(nsys: str, name: str) -> tuple[str, ...]:
    """Ends the recording, and writes the report."""
    return (nsys, "stop", f"--session={name}")


def remember(name: str, manifest: Path) -> None:
    """Note which manifest the running recording of a session has."""
    link = _folder() / name
    link.parent.mkdir(parents=True, exist_ok=True)
    with placed(link) as beside:
        beside.symlink_to(manifest.absolute())


def remembered(name: str) -> tuple[Path, float]:
    """The manifest of the running recording of a session, and when that began, in seconds as the system counts."""
    link = _folder() / name
    if not link.is_symlink():
        raise GpuledgerError(
            f"no recording of session {name} was started here",
            hint=f"`gpuledger capture start {name} -o NAME` starts one; `nsys sessions list` lists the sessions",
        )
    return link.readlink(), link.lstat().st_mtime


def forget(name: str) -> None:
    """The recording is over."""
    (_folder() / name).unlink(missing_ok=True)


def _folder() -> Path:
    import platformdirs

    return Path(platformdirs.user_state_dir("gpuledger", appauthor=False)) / "sessions"

"""The program once without its profiler, before it is recorded: how to run it in, how long its window took out.

What it writes is kept back, as the recorded run will write it again; where it fails, the end of it is shown. Its input
is empty: that of the user is for the recorded run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gpuledger.capture.manifest import PlainRun
from gpuledger.system.interruption import Interruption
from gpuledger.system.processes import AttendedRun, attended

FIRST: Final = (
    "first once without the profiler, to know what profiling costs: this doubles the time; --no-plain leaves it out"
)
_SHOWN_LINES: Final = 10
_NOTE: Final = re.compile(r"(\d{1,9}) (\d{1,19})(?: (\d{1,19}))?")


@dataclass(frozen=True, slots=True)
class PlainProgram:
    """What is run, and where it notes its windows."""

    argv: tuple[str, ...]
    file: Path
    """A line per window that opens, `PID START`, and one when it closes, `PID START END`."""
    how: str
    unseen: str
    """What it means where nothing was noted."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What it is given so that its windows are seen."""


def run_plain(
    program: PlainProgram, given: Mapping[str, str], interruption: Interruption, tell: Callable[[str], None]
) -> tuple[PlainRun, AttendedRun]:
    """Run it to its end. That it fails is said and written down, and does not keep anybody from recording it."""
    tell(FIRST)
    program.file.unlink(missing_ok=True)
    try:
        ended = attended(
            program.argv,
            interruption,
            environment={**given, **program.environment},
            quiet=True,
            on_stage=lambda name: tell(_STAGES[name]),
        )
        notes = program.file.read_text(errors="replace") if program.file.exists() else ""
    finally:
        program.file.unlink(missing_ok=True)
    if ended.orphans:
        tell("ended processes that the program left behind")
    if ended.exit_code and not ended.interrupted:
        tell(f"without the profiler the program ended with exit code {ended.exit_code}")
        for line in ended.said.splitlines()[-_SHOWN_LINES:]:
            tell(f"  {line}")
    windows, reason = windows_noted(notes)
    if windows is None:
        reason = "interrupted" if ended.interrupted else reason or _unseen(program, ended.exit_code)
    return PlainRun(windows, reason, ended.seconds, ended.exit_code, program.how), ended


_STAGES: Final = {
    "SIGINT": "interrupted: waiting for the program to end; once more ends it",
    "SIGTERM": "telling the program to end (SIGTERM)",
    "SIGKILL": "ending the program (SIGKILL)",
}


def windows_noted(notes: str) -> tuple[tuple[int, ...] | None, str | None]:
    """How long the window of each process took, in the order in which they opened; else why that is not known."""
    opened, closed = set[int](), dict[int, tuple[int, int]]()
    for line in notes.splitlines():
        if match := _NOTE.fullmatch(line):
            pid, start_ns = int(match[1]), int(match[2])
            opened.add(pid)
            if match[3] is not None and int(match[3]) > start_ns:
                closed.setdefault(pid, (start_ns, int(match[3])))
    if closed:
        return tuple(end_ns - start_ns for start_ns, end_ns in sorted(closed.values())), None
    return None, "the program opened its window, and never closed it" if opened else None


def _unseen(program: PlainProgram, exit_code: int) -> str:
    if exit_code:
        return f"the program ended with exit code {exit_code} before it opened its window"
    return program.unseen

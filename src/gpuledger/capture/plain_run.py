"""The program once without its profiler, before it is recorded: how to run it in, how long its window took out.

What it writes is kept back, as the recorded run will write it again; where it fails, the end of it is shown. Its input
is empty: that of the user is for the recorded run.

Whether a program can be run without its profiler so that the time of what is recorded is known, and how.
"""

from __future__ import annotations

import array
import fcntl
import os
import re
import stat
import termios
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gpuledger.capture.launchers import launched, main_program
from gpuledger.capture.manifest import PlainRun, Witness
from gpuledger.capture.nsys import Flag, Wishes, value_of
from gpuledger.capture.output_files import CapturePlace
from gpuledger.capture.torch_command import Schedule, torch_command
from gpuledger.capture.window import opens_window
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


NOTES_VARIABLE: Final = "GPULEDGER_PLAIN_WINDOW"
LEFT_OUT: Final = PlainRun(reason="left out with --no-plain")
ELSEWHERE: Final = PlainRun(reason="the program runs elsewhere, with --via")
_SIZES: Final = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
"""Variables that say how many ranks there are, where we are one of them ourselves."""


def nsys_plain(
    wishes: Wishes, flags: Sequence[Flag], command: tuple[str, ...], place: CapturePlace, witness: Witness | None
) -> PlainProgram | PlainRun:
    """For a recording with nsys on this machine: its window is between cudaProfilerStart and cudaProfilerStop."""
    library = window_library()
    if value_of(flags, "capture-range") != "cudaProfilerApi":
        reason = "no window that the program opens is recorded: --preset=steady records one"
    elif value_of(flags, "capture-range-end") not in ("", "stop", "stop-shutdown"):
        reason = "more than the first window of the program is recorded"
    elif wishes.delay is not None or wishes.duration is not None:
        reason = "--delay and --duration cut the window by time, in which a plain run gets further"
    elif library is None:
        reason = "gpuledger was installed without its compiled parts, so it has no library that sees windows"
    elif re.search(r"[\s:]", str(library)):
        reason = f"no library can be loaded into a program from a path with a blank or a colon: {library}"
    else:
        reason = _not_twice(command) or ""
    if reason or library is None:
        return PlainRun(reason=reason)
    file = _notes(place)
    preloaded = ":".join(filter(None, (str(library), os.environ.get("LD_PRELOAD"))))
    return PlainProgram(
        argv=command if witness is None else witness.before(command),
        file=file,
        how="between cudaProfilerStart and cudaProfilerStop, seen by a preloaded library that waits for the device",
        unseen="cudaProfilerStart was not seen: the program does not call it, or has CUDA's runtime linked into it",
        environment={"LD_PRELOAD": preloaded, NOTES_VARIABLE: str(file)},
    )


def torch_plain(
    schedule: Schedule, command: tuple[str, ...], place: CapturePlace, witness: Witness | None
) -> PlainProgram | PlainRun:
    """For a recording with torch.profiler on this machine: the active steps, or the profiler range."""
    if not schedule.active and not opens_window(command):
        return PlainRun(reason="without --active or --cuda-profiler the whole run may be recorded, start-up included")
    if reason := _not_twice(command):
        return PlainRun(reason=reason)
    file = _notes(place)
    argv = torch_command(command, schedule, place.base.absolute(), plain=file)
    window = f"{schedule.active} active steps" if schedule.active else "the profiler range"
    return PlainProgram(
        argv=argv if witness is None else witness.before(argv),
        file=file,
        how=f"{window}, by the runner without torch.profiler, which waits for the device at both ends",
        unseen="the program made fewer steps than are waited for" if schedule.active else "it opened no profiler range",
    )


def window_library() -> Path | None:
    """The library that sees windows; None where it was not built."""
    return next(iter(sorted((Path(__file__).parent / "native").glob("_plain_window*.so"))), None)


def _notes(place: CapturePlace) -> Path:
    return place.folder.absolute() / f".{place.name}.plain"


def _not_twice(command: Sequence[str]) -> str | None:
    """Why a run before the recorded one would not be the same run."""
    if _has_input():
        return "the program has input, which can be read once"
    if _is_rank(os.environ):
        return "it is one rank of several: the others would have to run twice, too"
    launch = launched(main_program(command).words)
    if launch is not None and not launch.starts_python:
        return "its ranks may be on several machines"
    if launch is not None and _nodes(launch.head) not in ("1", "1:1"):
        return "its ranks are on several machines"
    return None


def _is_rank(variables: Mapping[str, str]) -> bool:
    return any(variables.get(name, "1").strip() not in ("", "0", "1") for name in _SIZES)


def _nodes(words: Sequence[str]) -> str:
    """What torchrun's --nnodes says; 1 where it is not given."""
    for place, word in enumerate(words):
        name, equals, value = word.replace("_", "-").partition("=")
        if name == "--nnodes":
            return value if equals else "".join(words[place + 1 : place + 2])
    return "1"


def _has_input() -> bool:
    """Whether something waits on our standard input."""
    try:
        status = os.fstat(0)
        if stat.S_ISREG(status.st_mode):
            return os.lseek(0, 0, os.SEEK_CUR) < status.st_size
        if not (stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode)):
            return False
        waiting = array.array("i", [0])
        fcntl.ioctl(0, termios.FIONREAD, waiting)
    except OSError:
        return False  # it is closed: nobody can read from it
    return waiting[0] > 0

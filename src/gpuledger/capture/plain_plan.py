"""Whether a program can be run without its profiler so that the time of what is recorded is known, and how.

What is recorded must be a window that the program opens itself: a plain run has it too. For `capture nsys` a small
library sees the calls of cudaProfilerStart and cudaProfilerStop; for `capture torch` the runner sees windows and steps.
Where a second run could not be the same, or would leave somebody waiting, there is none, and the manifest says why.
"""

from __future__ import annotations

import array
import fcntl
import os
import re
import stat
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gpuledger.capture.launchers import launched
from gpuledger.capture.main_program import main_program
from gpuledger.capture.manifest import PlainRun
from gpuledger.capture.nsys.plan import Wishes
from gpuledger.capture.nsys.presets import Flag, value_of
from gpuledger.capture.output_files import CapturePlace
from gpuledger.capture.plain_run import PlainProgram
from gpuledger.capture.torch.command import Schedule, torch_command
from gpuledger.capture.window import opens_window
from gpuledger.capture.witness import Witness

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

"""`capture torch`: a command that runs Python in, the same command with the runner in front of its script out.

The runner is a file of its own that imports nothing of gpuledger, as the Python that runs it is the user's.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from gpuledger.capture.command_text import Edit, edit_command, edits_behind, program_place, text_place
from gpuledger.capture.launchers import PYTHON, launch_of, python_beside
from gpuledger.capture.nsys import Flag
from gpuledger.errors import GpuledgerError

RUNNER: Final = Path(__file__).parent / "torch_runner.py"
OURS: Final = "gpuledger"
_WARMUP: Final = "steps that the profiler runs in, and throws away: its own start-up"
_TAKE_A_VALUE: Final = ("-X", "-W", "--check-hash-based-pycs")


class Schedule(Struct, frozen=True):
    """Which steps to record, and what of them."""

    wait: int = 0
    warmup: int = 0
    active: int = 0
    step_range: str | None = None
    record_shapes: bool = False
    with_stack: bool = False
    memory: bool = False


def torch_flags(schedule: Schedule) -> tuple[Flag, ...]:
    """The runner's options, each with its reason; a value of nothing stands for a switch."""
    steps = f"ranges named {schedule.step_range}" if schedule.step_range else "optimizer steps"
    flags = (
        (schedule.active, "wait", schedule.wait, f"{steps} that are let pass before anything: start-up"),
        (schedule.active, "warmup", schedule.warmup, _WARMUP),
        (schedule.active, "active", schedule.active, "steps that are recorded"),
        (schedule.step_range, "step-range", schedule.step_range, "a step ends with each NVTX range of this name"),
        (schedule.record_shapes, "record-shapes", "", "the shapes of every operator's inputs: needed for TFLOP/s"),
        (schedule.with_stack, "with-stack", "", "Python's call stack at every operator: slow, but names the line"),
        (schedule.memory, "memory", "", "allocations and releases of tensors, and the history of torch's allocator"),
    )
    return tuple(Flag(name, str(value), why) for is_wanted, name, value, why in flags if is_wanted)


def torch_command(
    command: Sequence[str],
    schedule: Schedule,
    output: Path | str,
    *,
    runner: str = str(RUNNER),
    is_here: bool = True,
    plain: Path | None = None,
) -> tuple[str, ...]:
    """The arguments that record this command; behind a launcher, of each of its ranks.

    The program may stand behind `env` and the like, and in the text of `bash -c`. `runner` is where the runner lies.
    With `plain` nothing is recorded: when it would be is noted in that file.
    """
    options = [f"--{flag.name}={flag.value}" if flag.value else f"--{flag.name}" for flag in torch_flags(schedule)]
    options += [] if plain is None else [f"--plain={plain}"]
    recorder = (runner, f"--out={output}", *options, "--")

    def behind_python(words: tuple[str, ...], in_text: bool) -> tuple[Edit, ...] | None:
        near = is_here and not in_text
        launch = launch_of(words, is_here=near)
        if launch is not None and launch.python:
            return launch.with_each_rank((), recorder)
        if launch is not None:
            return edits_behind(words, launch.begin, behind_python, in_text=in_text)
        if Path(words[0]).name == OURS:
            # of what is on the PATH, or else the Python that runs us
            is_ours = near and shutil.which(words[0]) is None
            python = sys.executable if is_ours else python_beside(words[0], is_here=near)
            return (Edit(0, 1, (python, *recorder, "-m", OURS)),)
        place = _script_place(words)
        return None if place is None else (Edit(place, place, recorder),)

    argv = edit_command(command, behind_python)
    if argv is None:
        raise _no_python(tuple(command))
    return argv


def _script_place(words: tuple[str, ...]) -> int | None:
    """Where the script or the module of a Python command stands; None where it runs neither, or is not Python."""
    if not PYTHON.fullmatch(Path(words[0]).name):
        return None
    place = 1
    while place < len(words) and words[place].startswith("-") and words[place] not in ("-", "-m", "-c"):
        place += 2 if words[place] in _TAKE_A_VALUE else 1
    target = words[place:]
    return None if not target or target[0] in ("-", "-c") or target == ("-m",) else place


def _no_python(command: tuple[str, ...]) -> GpuledgerError:
    hint = "write `-- python SCRIPT.py ...` or `-- python -m MODULE ...`"
    program = command[program_place(command).begin :] or command
    if PYTHON.fullmatch(Path(program[0]).name):
        return GpuledgerError("no script to record", hint=hint)
    if text_place(program) is not None:
        return GpuledgerError(
            f"the text for {program[0]} starts no Python program that is known here",
            hint="the program must stand in it, as `python SCRIPT.py ...`, `python -m MODULE ...` or behind torchrun",
        )
    return GpuledgerError(
        f"{program[0]}: `capture torch` records Python programs", hint=f"{hint}; `capture nsys` records any program"
    )

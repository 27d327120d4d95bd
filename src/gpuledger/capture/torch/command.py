"""`capture torch`: a Python command in, the same command with the runner in front of its script out.

The runner is a file of its own that imports nothing of gpuledger, as the Python that runs it is the user's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuledger.capture.launchers import PYTHON, launched
from gpuledger.capture.nsys.presets import Flag
from gpuledger.errors import GpuledgerError

RUNNER: Final = Path(__file__).parent / "runner.py"
_TAKE_A_VALUE: Final = ("-X", "-W", "--check-hash-based-pycs")


@dataclass(frozen=True, slots=True)
class Schedule:
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
    flags = []
    if schedule.active:
        flags = [
            Flag("wait", str(schedule.wait), f"{steps} that are let pass before anything: start-up"),
            Flag("warmup", str(schedule.warmup), "steps that the profiler runs in, and throws away: its own start-up"),
            Flag("active", str(schedule.active), "steps that are recorded"),
        ]
    if schedule.step_range:
        flags.append(Flag("step-range", schedule.step_range, "a step ends with each NVTX range of this name"))
    switches = (
        ("record-shapes", schedule.record_shapes, "the shapes of every operator's inputs: TFLOP/s can be told"),
        ("with-stack", schedule.with_stack, "Python's call stack at every operator: slow, but names the line"),
        ("memory", schedule.memory, "allocations and releases of tensors"),
    )
    return (*flags, *(Flag(name, "", why) for name, wanted, why in switches if wanted))


def torch_command(command: Sequence[str], schedule: Schedule, output: Path) -> tuple[str, ...]:
    """The arguments that record this command; behind a launcher, of each of its ranks."""
    options = [f"--{flag.name}={flag.value}" if flag.value else f"--{flag.name}" for flag in torch_flags(schedule)]
    runner = (str(RUNNER), f"--out={output}", *options, "--")
    launch = launched(command)
    if launch is None:
        return _wrapped(tuple(command), runner)
    ranks = _wrapped(launch.program, runner)
    return (*launch.head, *(("--no-python",) if launch.starts_python else ()), *ranks)


def _wrapped(program: tuple[str, ...], runner: tuple[str, ...]) -> tuple[str, ...]:
    if not PYTHON.fullmatch(Path(program[0]).name):
        raise GpuledgerError(
            f"{program[0]}: `capture torch` records Python programs",
            hint="write `-- python SCRIPT.py ...` or `-- python -m MODULE ...`; `capture nsys` records any program",
        )
    at = 1
    while at < len(program) and program[at].startswith("-") and program[at] not in ("-", "-m", "-c"):
        at += 2 if program[at] in _TAKE_A_VALUE else 1
    target = program[at:]
    if not target or target[0] in ("-", "-c") or target == ("-m",):
        raise GpuledgerError("no script to record", hint="write `-- python SCRIPT.py ...` or `-- python -m MODULE ...`")
    return (*program[:at], *runner, *target)

"""What `capture nsys` will do: wishes in, flags with reasons, the command and doubts out. Nothing runs here."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gpuledger.capture.launchers import launched
from gpuledger.capture.nsys.command import output_flags, profile_command
from gpuledger.capture.nsys.presets import GPU_METRICS, Flag, changed, joined, traced, value_of
from gpuledger.capture.program_place import Edit, edited
from gpuledger.capture.window import opens_window
from gpuledger.errors import GpuledgerError

LEAST_FREE_BYTES: Final = 2_000_000_000
"""A warning below this: a minute of a busy server takes about as much."""

SHORT_S: Final = 60
"""What takes longer is sampled only where that is asked for: a minute is some 20 million values."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user wants of nsys."""

    presets: tuple[str, ...] = ()
    trace: str | None = None
    delay: float | None = None
    duration: float | None = None
    settings: tuple[str, ...] = ()
    rank_variable: str | None = None
    session: str | None = None
    gpu_metrics: bool | None = False
    """None: where it can be had, and is not too much."""

    @property
    def is_short(self) -> bool:
        """Whether what is recorded ends soon: between two calls of the program, or after some seconds."""
        return "steady" in self.presets or (self.duration is not None and self.duration <= SHORT_S)


def completed(wishes: Wishes, command: Sequence[str]) -> Wishes:
    """The wishes with a preset: a program that takes --cuda-profiler says itself which part is steady."""
    if not wishes.presets:
        wishes = replace(wishes, presets=("steady",) if opens_window(command) else ("launch",))
    if "server" in wishes.presets and wishes.session is None and (wishes.delay is None or wishes.duration is None):
        raise GpuledgerError(
            "--preset=server needs --delay and --duration: a server has no end by itself",
            hint="--delay is for loading and warm-up; or give --session=NAME, then `gpuledger capture start NAME`",
        )
    if wishes.session is not None and (wishes.delay is not None or wishes.duration is not None):
        raise GpuledgerError(
            "--session starts the server and records nothing yet",
            hint="give --duration to `gpuledger capture start`, where a recording begins",
        )
    if wishes.session is not None and wishes.gpu_metrics:
        raise GpuledgerError(
            "--session with --gpu-metrics: nsys samples a GPU only where it starts the program and records at once",
            hint="leave one of them out",
        )
    return wishes


def flags_for(wishes: Wishes) -> tuple[Flag, ...]:
    """Every flag of the recording but for the output."""
    flags = joined(wishes.presets)
    if wishes.trace is not None:
        asked = Flag("trace", traced(wishes.trace), "asked for with --trace")
        flags = tuple(asked if flag.name == "trace" else flag for flag in flags)
    if wishes.delay is not None:
        flags += (Flag("delay", f"{wishes.delay:g}", "seconds from the program's start before recording begins"),)
    if wishes.duration is not None:
        flags += (
            Flag("duration", f"{wishes.duration:g}", "seconds of recording"),
            Flag("kill", "sigterm", "when they are over, the program is ended"),
        )
    if wishes.gpu_metrics is not False:
        flags += GPU_METRICS
    return changed(flags, wishes.settings)


def nsys_command(
    nsys: str,
    output: str,
    wishes: Wishes,
    command: Sequence[str],
    *,
    is_here: bool = True,
    watched: Callable[[Sequence[str]], tuple[str, ...]] = tuple,
) -> tuple[tuple[Flag, ...], tuple[str, ...]]:
    """The flags, and the whole command. With the preset multi, nsys stands behind the launcher, once per rank.

    `watched` puts what is to look at the program's environment before it.
    """
    flags = flags_for(wishes)
    if "multi" not in wishes.presets:
        flags = (*output_flags(output), *flags)
        return flags, profile_command(nsys, flags, watched(command))
    file, overwrite = output_flags(output)
    per_rank = [file]

    def behind_launcher(words: tuple[str, ...], in_text: bool) -> tuple[Edit, ...] | None:
        launch = launched(words, wishes.rank_variable, is_here=is_here and not in_text)
        if launch is None:
            return None
        per_rank[0] = replace(file, value=f"{file.value}_%q{{{launch.rank_variable}}}", why="one report per rank")
        return launch.with_each_rank(profile_command(nsys, (*per_rank, overwrite, *flags)))

    argv = edited(command, behind_launcher)
    if argv is None:
        raise GpuledgerError(
            f"--preset=multi: {command[0]} is no launcher of ranks that is known here, nor does it start one",
            found="known are torchrun, python -m torch.distributed.run, mpirun, mpiexec and srun, also behind env and "
            "in the text of bash -c",
            hint="any other preset records all processes that the command starts, into one report",
        )
    return (*per_rank, overwrite, *flags), watched(argv)


def doubts(wishes: Wishes, flags: Sequence[Flag], command: Sequence[str], folder: Path | None) -> tuple[str, ...]:
    """What is likely to go wrong, one sentence each; `folder` is where the profile will lie, if that is here."""
    found = []
    trace = value_of(flags, "trace").split(",")
    ranged = value_of(flags, "capture-range") == "cudaProfilerApi"
    if wishes.duration is not None and wishes.delay is None and not ranged:
        found.append(
            f"--duration={wishes.duration:g} counts from the start of the program, so it records loading; "
            "add --delay=SECONDS, or --preset=steady"
        )
    if "nvtx" not in trace:
        found.append(
            "nvtx is not traced: the program's ranges are lost, and with them steps and layers; add it to --trace"
        )
    if not any(each.startswith("cuda") for each in trace):
        found.append("cuda is not traced: no kernel will be recorded; add it to --trace")
    if ranged and not any("profil" in word.lower() for word in command):
        found.append(
            "recording begins only when the program calls cudaProfilerStart, and nothing in the command says so: "
            "`with gpuledger.window('steady', profiler=True):` calls it, and so does --cuda-profiler of our benches"
        )
    sampled = [name for name in ("sample", "cpuctxsw") if value_of(flags, name) not in ("", "none")]
    if sampled:
        given = " ".join(f"--{name}={value_of(flags, name)}" for name in sampled)
        found.append(
            f"{given} writes gigabytes in a minute, and tells nothing about the GPU; all processes that the "
            "command starts are traced without it"
        )
    if value_of(flags, "cuda-graph-trace").startswith("graph") and any("graph" in word.lower() for word in command):
        found.append("CUDA graphs are recorded whole: the kernels inside stay unseen; add --preset=graph")
    free = _free_bytes(folder) if folder is not None else None
    if free is not None and free < LEAST_FREE_BYTES:
        found.append(f"only {free / 1e9:.2f} GB are free in {folder}: a profile of a minute takes up to 2 GB")
    return tuple(found)


def _free_bytes(folder: Path) -> int | None:
    existing = next((each for each in (folder.absolute(), *folder.absolute().parents) if each.exists()), None)
    return None if existing is None else shutil.disk_usage(existing).free

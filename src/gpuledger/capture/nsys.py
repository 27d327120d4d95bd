"""NVIDIA's `nsys`: what the user wants recorded in; flags with their reasons, commands and doubts out.

Nothing runs here, but for `nsys export`: a report in, the path of its SQLite export out.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.capture.command_text import Edit, edit_command
from gpuledger.capture.launchers import launch_of
from gpuledger.capture.window import opens_window
from gpuledger.errors import GpuledgerError, MissingPackage, ToolFailed
from gpuledger.system.files import PARTIAL, cache_folder, make_private, put_in_place
from gpuledger.system.machine import find_nsys
from gpuledger.system.opening import copy_into, exists, is_limited, status_of
from gpuledger.system.processes import Ran, run


class Flag(Struct, frozen=True):
    """One option of the tool, and why it is given."""

    name: str
    value: str
    why: str

    @property
    def argument(self) -> str:
        return f"--{self.name}={self.value}"


BASE: Final = (
    Flag("trace", "cuda,nvtx,osrt", "kernels, copies and CUDA calls; your ranges; where the operating system blocks"),
    Flag("sample", "none", "CPU sampling writes gigabytes, and answers other questions"),
    Flag("cpuctxsw", "none", "context switches need rights that containers lack, and answer other questions"),
    Flag("cuda-graph-trace", "graph", "a CUDA graph is one record: cheap, but what runs inside stays unseen"),
    Flag("cuda-memory-usage", "false", "allocations are not recorded: that slows every one of them"),
    Flag("stats", "false", "gpuledger reads the profile; nsys need not print tables"),
)
"""What every preset begins with."""
NODES: Final = Flag("cuda-graph-trace", "node", "each kernel inside a CUDA graph is a record of its own")
MEMORY: Final = Flag("cuda-memory-usage", "true", "every allocation and release of GPU memory is a record")

GPU_METRICS: Final = (
    Flag("gpu-metrics-devices", "all", "what each kernel uses of the GPU: SMs, tensor cores, DRAM, sampled"),
    Flag("gpu-metrics-frequency", "20000", "20,000 samples a second: one every 50 us"),
)
"""What --gpu-metrics adds."""

PRESETS: Final[dict[str, tuple[Flag, ...]]] = {
    "launch": (),
    "steady": (
        Flag("capture-range", "cudaProfilerApi", "recording begins where the program calls cudaProfilerStart"),
        Flag("capture-range-end", "stop", "it ends at cudaProfilerStop, and the program runs on"),
    ),
    "decode": (
        Flag("trace", "cuda,nvtx,cublas", "CUDA, your ranges, cuBLAS calls; no OS calls, which containers forbid"),
        MEMORY,
        NODES,
    ),
    "server": (NODES,),
    "multi": (),
    "memory": (MEMORY,),
    "graph": (NODES,),
    "shapes": (
        Flag(
            "pytorch",
            "autograd-shapes-nvtx",
            "torch's operators as ranges with the sizes of their inputs, which tell light; each costs the host some "
            "microseconds. nsys 2024.5 or newer",
        ),
    ),
}
"""What every preset changes, by its name; `gpuledger capture nsys --help` says what each is for."""

TRACES: Final = (
    *("cuda", "cuda-hw", "cuda-sw", "nvtx", "osrt", "cublas", "cublas-verbose", "cudnn", "cusparse"),
    *("cusparse-verbose", "cusolver", "cusolver-verbose", "mpi", "ucx", "oshmem", "nvvideo", "gds", "opengl"),
    *("opengl-annotations", "vulkan", "vulkan-annotations", "openacc", "openmp", "opencl", "openxr"),
    *("tegra-accelerators", "syscall", "python-gil", "none"),
)
"""What nsys can trace. A newer one may know more: an unknown name is only refused if it is nearly one of these."""

OURS: Final = ("output", "force-overwrite", "session", "session-new", "export", "delay", "duration")
"""Flags that have options of their own here."""


def preset_flags(presets: Iterable[str]) -> tuple[Flag, ...]:
    """The flags of these presets together, in the order of the first mention."""
    given = [flag for name in presets for flag in PRESETS[name]]
    flags = {flag.name: flag for flag in (*BASE, *given)}
    traced = [flag for flag in given if flag.name == "trace"]
    if len(traced) > 1:
        every = ",".join(dict.fromkeys(name for flag in traced for name in flag.value.split(",")))
        flags["trace"] = Flag("trace", every, "; ".join(dict.fromkeys(flag.why for flag in traced)))
    return tuple(flags.values())


def with_settings(flags: Sequence[Flag], settings: Iterable[str]) -> tuple[Flag, ...]:
    """The flags with the user's `FLAG=VALUE` in place of, or after, those of the presets."""
    by_name = {flag.name: flag for flag in flags}
    for setting in settings:
        name, equals, value = setting.partition("=")
        name = name.removeprefix("--")
        if not equals or not re.fullmatch(r"[a-z][a-z0-9-]*", name):
            raise GpuledgerError(f"--set={setting}: expected FLAG=VALUE, e.g. --set=cuda-graph-trace=node")
        if name in OURS:
            instead = {"output": "-o", "force-overwrite": "--force", "session-new": "--session"}.get(name, f"--{name}")
            raise GpuledgerError(f"--set={setting}: gpuledger sets --{name} itself", hint=f"use {instead}")
        by_name[name] = Flag(name, value, "asked for with --set")
    return tuple(by_name.values())


def check_traces(listed: str) -> str:
    """What --trace lists, checked: nsys would say that a name is wrong only after a minute of loading."""
    names = tuple(dict.fromkeys(name.strip() for name in listed.split(",") if name.strip()))
    if not names:
        raise GpuledgerError("--trace names nothing", hint="e.g. --trace=cuda,nvtx,osrt")
    for name in names:
        if name not in TRACES and (close := difflib.get_close_matches(name, TRACES, n=1, cutoff=0.7)):
            raise GpuledgerError(f"--trace: nsys traces no {name!r}: did you mean {close[0]}?")
    return ",".join(names)


def reasons(flags: Iterable[Flag]) -> list[tuple[str, str]]:
    """Each flag as it is given, and why."""
    return [(flag.argument, flag.why) for flag in flags]


def value_of(flags: Iterable[Flag], name: str) -> str:
    """What a flag is set to; nothing if it is not given."""
    return next((flag.value for flag in flags if flag.name == name), "")


Start = Callable[[Sequence[str | Path]], Ran]  # runs a program to its end

FULL: Final = re.compile(r"no space left on device|disk (?:is )?full|disk quota exceeded|\bENOSPC\b", re.IGNORECASE)
"""How tools say that a disk is full."""
_NOT_WHOLE: Final = f"{PARTIAL}.sqlite"  # nsys wants the ending that goes with the format


def output_flags(output: str) -> tuple[Flag, ...]:
    """Where the report goes. nsys reads % as the beginning of a variable, so ours are doubled."""
    return (
        Flag("output", output.replace("%", "%%"), "the report's name; nsys adds .nsys-rep"),
        Flag("force-overwrite", "true", "gpuledger has looked before: what must stay is not touched"),
    )


def profile_command(nsys: str, flags: Sequence[Flag], command: Sequence[str] = ()) -> tuple[str, ...]:
    """The arguments of one recording."""
    return (nsys, "profile", *(flag.argument for flag in flags), *command)


def export_command(nsys: str, report: Path | str, target: Path | str) -> tuple[str, ...]:
    """The arguments that turn a report into a SQLite file."""
    options = ("--type=sqlite", "--force-overwrite=true", "--quiet=true", "--include-json=true", f"--output={target}")
    return (nsys, "export", *options, str(report))


def export_beside(nsys: Path, report: Path, start: Start) -> Path:
    """The export of a report of ours: NAME.sqlite beside NAME.nsys-rep, whole or not at all."""
    target = report.with_name(report.name.removesuffix(".nsys-rep") + ".sqlite")
    with put_in_place(target, ending=_NOT_WHOLE) as beside:
        _export(nsys, report, beside, start)
    return target


def export_cached(report: Path, *, seconds: float) -> Path:
    """The SQLite export of `report`, made now unless the cache holds one of this very state of it."""
    status = status_of(report)
    folder = cache_folder() / "exports" / hashlib.sha256(os.fsencode(report.resolve())).hexdigest()[:16]
    wanted = folder / f"{status.st_size}-{status.st_mtime_ns}.sqlite"
    if wanted.exists():
        return wanted
    nsys = find_nsys()
    if nsys is None:
        beside = report.with_suffix(".sqlite")
        export = f"`nsys export --type=sqlite {report.name}`, then open the .sqlite"
        raise MissingPackage(
            f"{report.name}: an Nsight Systems report; opening it needs nsys, which was not found",
            hint=f"{beside.name} is next to it: open that"
            if exists(beside)
            else f"export it where nsys is installed: {export}",
        )
    try:
        make_private(folder)
    except OSError as error:
        raise ToolFailed(
            f"{report.name}: no place for the export: {error.strerror}",
            found=f"the cache folder is {folder}",
            hint="set XDG_CACHE_HOME to a folder that you can write to",
        ) from None
    with put_in_place(wanted, ending=_NOT_WHOLE) as beside, tempfile.TemporaryDirectory(prefix="gpuledger-") as own:
        given = copy_into(Path(own), report) if is_limited() else report  # nsys follows whatever the path leads to
        _export(nsys, given, beside, partial(run, seconds=seconds))
        for stale in folder.glob("*[0-9].sqlite"):
            stale.unlink(missing_ok=True)
    return wanted


def _export(nsys: Path, report: Path, target: Path, start: Start) -> None:
    # Python's stacks come only as JSON; releases before 2024 write it unasked and do not know the option
    argv = export_command(str(nsys), report.resolve(), target)
    done = start(argv)
    if done.exit_code != 0 and "include-json" in done.output:
        done = start([word for word in argv if word != "--include-json=true"])
    if done.exit_code == 0 and target.exists() and target.stat().st_size:
        return
    if FULL.search(done.output):
        raise ToolFailed(
            f"{report.name}: the disk is full: there is no room for its export",
            found=f"{report} is whole, and stays",
            hint="free some space, then `gpuledger report` exports it to your cache folder",
        )
    hint = "the report may be newer than this nsys: export it with the version that made it"
    if "importer" in done.output.lower():
        hint = "this nsys lacks its importer; install the full Nsight Systems, or export on the machine that captured"
    raise ToolFailed(
        f"{report.name}: `nsys export` failed (exit code {done.exit_code})",
        found=f"{nsys} says: {done.last_line}",
        hint=hint,
    )


LEAST_FREE_BYTES: Final = 2_000_000_000  # a warning below this: a minute of a busy server takes about as much

SHORT_S: Final = 60
"""What takes longer is sampled only where that is asked for: a minute is some 20 million values."""


class Wishes(Struct, frozen=True):
    """What the user wants of nsys."""

    presets: tuple[str, ...] = ()
    trace: str | None = None
    delay: float | None = None
    duration: float | None = None
    settings: tuple[str, ...] = ()
    rank_variable: str | None = None
    session: str | None = None
    gpu_metrics: bool | None = False  # None: where it can be had, and is not too much

    @property
    def is_short(self) -> bool:
        """Whether what is recorded ends soon: between two calls of the program, or after some seconds."""
        return "steady" in self.presets or (self.duration is not None and self.duration <= SHORT_S)


def complete_wishes(wishes: Wishes, command: Sequence[str]) -> Wishes:
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
    flags = preset_flags(wishes.presets)
    if wishes.trace is not None:
        asked = Flag("trace", check_traces(wishes.trace), "asked for with --trace")
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
    return with_settings(flags, wishes.settings)


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
        launch = launch_of(words, wishes.rank_variable, is_here=is_here and not in_text)
        if launch is None:
            return None
        per_rank[0] = replace(file, value=f"{file.value}_%q{{{launch.rank_variable}}}", why="one report per rank")
        return launch.with_each_rank(profile_command(nsys, (*per_rank, overwrite, *flags)))

    argv = edit_command(command, behind_launcher)
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
    sentences = []
    trace = value_of(flags, "trace").split(",")
    ranged = value_of(flags, "capture-range") == "cudaProfilerApi"
    if wishes.duration is not None and wishes.delay is None and not ranged:
        sentences.append(
            f"--duration={wishes.duration:g} counts from the start of the program, so it records loading; "
            "add --delay=SECONDS, or --preset=steady"
        )
    if "nvtx" not in trace:
        sentences.append(
            "nvtx is not traced: the program's ranges are lost, and with them steps and layers; add it to --trace"
        )
    if not any(name.startswith("cuda") for name in trace):
        sentences.append("cuda is not traced: no kernel will be recorded; add it to --trace")
    if ranged and not any("profil" in word.lower() for word in command):
        sentences.append(
            "recording begins only when the program calls cudaProfilerStart, and nothing in the command says so: "
            "`with gpuledger.window('steady', profiler=True):` calls it, and so does --cuda-profiler of our benches"
        )
    sampled = [name for name in ("sample", "cpuctxsw") if value_of(flags, name) not in ("", "none")]
    if sampled:
        given = " ".join(f"--{name}={value_of(flags, name)}" for name in sampled)
        sentences.append(
            f"{given} writes gigabytes in a minute, and tells nothing about the GPU; all processes that the "
            "command starts are traced without it"
        )
    if value_of(flags, "cuda-graph-trace").startswith("graph") and any("graph" in word.lower() for word in command):
        sentences.append("CUDA graphs are recorded whole: the kernels inside stay unseen; add --preset=graph")
    for place in () if folder is None else (folder.absolute(), *folder.absolute().parents):
        if place.exists():
            free = shutil.disk_usage(place).free
            if free < LEAST_FREE_BYTES:
                sentences.append(
                    f"only {free / 1e9:.2f} GB are free in {folder}: a profile of a minute takes up to 2 GB"
                )
            break
    return tuple(sentences)


START_FLAGS: Final = ("sample", "cpuctxsw", "stats", "capture-range", "capture-range-end")
"""Flags that `nsys start` takes, not `nsys launch`; what is traced is settled when the server is launched."""


def session_name(name: str) -> str:
    """The name, if nsys takes it."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", name):
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


def remember(name: str, manifest: Path) -> None:
    """Note which manifest the running recording of a session has."""
    link = _folder() / name
    link.parent.mkdir(parents=True, exist_ok=True)
    with put_in_place(link) as beside:
        beside.symlink_to(manifest.absolute())


def recall(name: str) -> tuple[Path, float]:
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

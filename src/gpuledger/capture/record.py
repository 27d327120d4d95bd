"""Carrying a recording out: what is to be run in; the files that came of it, and how it ended, out.

The manifest is written first. Then the program runs under the eyes of `run_attended`, perhaps once without its tool
before (`nsys_plain` and `torch_plain` say whether, and how, the time of what is recorded can then be known); what came
back is exported; and the manifest is written again. At any moment a signal leads to the same end: the program and all
that it started are gone, what was recorded is kept, and the manifest says so.
"""

from __future__ import annotations

import array
import atexit
import fcntl
import os
import re
import shlex
import shutil
import signal
import stat
import tempfile
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from gpuledger.capture import manifest as manifests
from gpuledger.capture import python_samples
from gpuledger.capture.launchers import Remote, launch_of, main_program
from gpuledger.capture.manifest import EnvironmentWishes, Manifest, PlainRun, RecordedFile, SeenEnvironment, Witness
from gpuledger.capture.nsys import FULL, Flag, Start, Wishes, export_beside, value_of
from gpuledger.capture.output_files import EXPORT, MEMORY, REPORTS, CapturePlace, prepare_place
from gpuledger.capture.secrets import without_secrets
from gpuledger.capture.torch_command import Schedule, torch_command
from gpuledger.capture.window import opens_window
from gpuledger.errors import GpuledgerError, MissingPackage, NothingRecorded, ToolFailed
from gpuledger.system.interruption import Interruption
from gpuledger.system.machine import find_nsys, machine, version_of
from gpuledger.system.processes import AttendedRun, Ran, last_line, run_attended
from gpuledger.version import own_version

FIRST: Final = (
    "first once without the profiler, to know what profiling costs: this doubles the time; --no-plain leaves it out"
)
_SHOWN_LINES: Final = 10
_NOTE: Final = re.compile(r"(\d{1,9}) (\d{1,19})(?: (\d{1,19}))?")
_PARTED: Final = re.compile(r"[\s:]")


class PlainProgram(Struct, frozen=True):
    """What is run, and where it notes its windows."""

    argv: tuple[str, ...]
    file: Path  # a line per window that opens, `PID START`, and one when it closes, `PID START END`
    how: str
    unseen: str  # what it means where nothing was noted
    environment: Mapping[str, str] = field(default_factory=dict)
    """What it is given so that its windows are seen."""


def run_plain(
    program: PlainProgram, given: Mapping[str, str], interruption: Interruption, tell: Callable[[str], None]
) -> tuple[PlainRun, AttendedRun]:
    """Run it to its end. That it fails is said and written down, and does not keep anybody from recording it."""
    tell(FIRST)
    stages = _stages("the program", "end")
    program.file.unlink(missing_ok=True)
    try:
        ended = run_attended(
            program.argv,
            interruption,
            environment={**given, **program.environment},
            quiet=True,
            on_stage=lambda name: tell(stages[name]),
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
    windows, reason = parse_windows(notes)
    if windows is None:
        failed = f"the program ended with exit code {ended.exit_code} before it opened its window"
        reason = "interrupted" if ended.interrupted else reason or (failed if ended.exit_code else program.unseen)
    return PlainRun(windows, reason, ended.seconds, ended.exit_code, program.how), ended


def _stages(who: str, awaited: str) -> dict[str, str]:
    """What is said when a program is sent each of the signals."""
    return {
        "SIGINT": f"interrupted: waiting for {who} to {awaited}; once more ends it",
        "SIGTERM": f"telling {who} to end (SIGTERM)",
        "SIGKILL": f"ending {who} (SIGKILL)",
    }


def parse_windows(notes: str) -> tuple[tuple[int, ...] | None, str | None]:
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
    elif _PARTED.search(str(library)):  # the folder of temporary files, too
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


@cache
def window_library() -> Path | None:
    """The library that sees windows; None where it was not built.

    LD_PRELOAD parts names at blanks and colons: from such a path it is loaded through a link, until this process ends.
    """
    library = next(iter(sorted((Path(__file__).parent / "native").glob("_plain_window*.so"))), None)
    if library is None or not _PARTED.search(str(library)):
        return library
    folder = tempfile.mkdtemp(prefix="gpuledger-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    link = Path(folder) / library.name
    link.symlink_to(library)
    return link


def _notes(place: CapturePlace) -> Path:
    return place.folder.absolute() / f".{place.name}.plain"


def _not_twice(command: Sequence[str]) -> str | None:
    if _has_input():
        return "the program has input, which can be read once"
    if any(os.environ.get(name, "1").strip() not in ("", "0", "1") for name in _SIZES):
        return "it is one rank of several: the others would have to run twice, too"
    launch = launch_of(main_program(command).words)
    if launch is not None and not launch.starts_python:
        return "its ranks may be on several machines"
    if launch is not None and _nodes(launch.head) not in ("1", "1:1"):
        return "its ranks are on several machines"
    return None


def _nodes(words: Sequence[str]) -> str:
    """What torchrun's --nnodes says; 1 where it is not given."""
    for place, word in enumerate(words):
        name, equals, value = word.replace("_", "-").partition("=")
        if name == "--nnodes":
            return value if equals else "".join(words[place + 1 : place + 2])
    return "1"


def _has_input() -> bool:
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


_NO_ROOM_BYTES: Final = 20_000_000
NOT_STARTED: Final = (125, 126, 127, 255)
"""Exit codes of prefixes: the folder was there already, not executable, not found, no connection."""
PERMISSION: Final = "ERR_NVGPUCTRPERM"


INTERRUPTED_CODE: Final = 130
_EXPORT_S: Final = 3600.0
_BY_NSYS: Final = 128 + signal.SIGTERM

Tell = Callable[[str], None]  # takes a sentence for the user


class Recording(Struct, frozen=True):
    """Everything that is known before the program starts."""

    tool: str
    executable: Path | None  # None where the tool runs on another machine, or is Python
    argv: tuple[str, ...]
    command: tuple[str, ...]
    place: CapturePlace
    presets: tuple[str, ...] = ()
    remote: Remote | None = None
    ranged: bool = False
    delay: float | None = None
    duration: float | None = None
    variables: EnvironmentWishes = field(default_factory=EnvironmentWishes)
    witness: Witness | None = None  # looks at the program's environment, where that may be another than ours
    script: Path | None = None  # what the command needs on the other side
    called_as: tuple[str, ...] = ()
    session: str | None = None
    plain: PlainProgram | PlainRun | None = None
    """The program without the tool, to be run before it; or why it is not."""
    unsampled: str | None = python_samples.LEFT_OUT  # why Python's stacks are not sampled; None: they are

    @property
    def set_for_program(self) -> dict[str, str]:
        return dict(self.variables.given if self.witness is None else self.witness.wanted)

    @property
    def program(self) -> str:
        main = main_program(self.command)
        shown = without_secrets(main.words)
        return shlex.join(shown) if main.in_text is None else " ".join(shown)


class CaptureOutcome(Struct, frozen=True):
    """What came of it."""

    manifest: Manifest
    place: CapturePlace
    profiles: tuple[Path, ...]
    """What can be opened: the export where there is one, else the report. One per rank."""
    exit_code: int
    problem: GpuledgerError | None  # what went wrong besides the program's own exit code


def why_nothing(recording: Recording, ended: AttendedRun) -> GpuledgerError:
    """The most likely reason why a recording left nothing."""
    tool, said, folder = recording.tool, last_line(ended.said), recording.place.folder
    if FULL.search(ended.said):
        return manifests.full(folder)
    if recording.remote is not None and ended.exit_code in NOT_STARTED:
        return _why_not_there(tool, ended.exit_code, f"{recording.remote.prefix[0]} says: {said}")
    if PERMISSION in ended.said:
        return ToolFailed(
            f"the driver keeps the GPU's counters to administrators ({PERMISSION})",
            hint="load the driver with NVreg_RestrictProfilingToAdminUsers=0 (in /etc/modprobe.d, then reboot), run as "
            "root, or start the container with --cap-add=SYS_ADMIN",
        )
    if ended.interrupted:
        return NothingRecorded(f"interrupted before {tool} had recorded anything")
    for written_to in (folder, Path(tempfile.gettempdir())):
        if shutil.disk_usage(written_to).free < _NO_ROOM_BYTES:
            return manifests.full(written_to)
    if "no kernels were profiled" in ended.said.lower():
        return NothingRecorded(
            "no kernel was profiled: none that ran matches",
            hint="`gpuledger kernels PROFILE -- COMMAND` gives a command whose names match those of a timeline",
        )
    if "importer" in ended.said.lower():
        return ToolFailed(
            "nsys recorded, but could not write its report: this nsys lacks its importer",
            found=f"it says: {said}",
            hint="`gpuledger doctor` says which library is missing",
        )
    if recording.ranged:
        return NothingRecorded(
            "the program never opened a profiler range, so nothing was recorded",
            found=f"it ran for {ended.seconds:.1f} s and ended with exit code {ended.exit_code}",
            hint="call cudaProfilerStart where the steady part begins, as `gpuledger.window('steady', profiler=True)` "
            "does, or record the whole run with --preset=launch",
        )
    if recording.delay is not None and ended.seconds < recording.delay:
        claim = f"the program ended after {ended.seconds:.1f} s, before --delay={recording.delay:g} was over"
        return NothingRecorded(claim, hint="a shorter --delay, or a longer run")
    return ToolFailed(
        f"{tool} wrote no report (exit code {ended.exit_code})",
        found=f"the last that was said: {said}" if ended.said.strip() else "",
        hint=f"{tool}'s own output is above; `gpuledger doctor` checks for what may be wrong",
    )


def _why_not_there(tool: str, exit_code: int, found: str) -> GpuledgerError:
    if exit_code == 127:
        hint = "it is looked for on the PATH there, and in /usr/local/cuda/bin"
        return MissingPackage(f"{tool} was not found on the other side", found=found, hint=hint)
    return ToolFailed(f"the command could not be started with --via (exit code {exit_code})", found=found)


def first_manifest(recording: Recording, commands: Sequence[Sequence[str]]) -> Manifest:
    """What can be said before anything runs."""
    here = recording.remote is None
    return Manifest(
        tool=recording.tool,
        versions={
            "gpuledger": own_version(),
            recording.tool: version_of(recording.executable) if recording.executable else None,
        },
        presets=recording.presets,
        command=recording.command,
        commands=tuple(map(tuple, commands)),
        called_as=recording.called_as,
        started_utc=manifests.utc(time.time()),
        environment=manifests.environment(os.environ | recording.variables.given, recording.variables.noted)
        if here
        else {},
        carried=manifests.environment(recording.set_for_program, recording.set_for_program),
        machine=machine() if here else None,
        git=manifests.commit_of(Path.cwd()) if here else None,
        via=recording.remote.prefix if recording.remote else None,
        session=recording.session,
        plain=recording.plain if isinstance(recording.plain, PlainRun) else None,
    )


def record_program(recording: Recording, tell: Tell) -> CaptureOutcome:
    """Run the program under its tool, and bring everything to its end."""
    stages = _stages(recording.tool, "write what it has recorded")
    with Interruption() as interruption:
        prepare_place(recording.place)
        plain = (without_secrets(recording.plain.argv),) if isinstance(recording.plain, PlainProgram) else ()
        argv = _started(recording, without_secrets(recording.argv), hide=True)
        begun = first_manifest(recording, (*plain, argv))
        manifests.write_manifest(begun, recording.place.manifest)
        try:
            if isinstance(recording.plain, PlainProgram):
                plain_run, ended = run_plain(recording.plain, recording.variables.given, interruption, tell)
                begun = replace(begun, plain=plain_run)
                _seen_here(recording)  # it goes away: what the program had is asked of the recorded run
                if interruption:
                    return close_recording(recording, begun, replace(ended, interrupted=True), interruption)
                manifests.write_manifest(begun, recording.place.manifest)
                tell(f"now with {recording.tool}")
            sampler = None if recording.unsampled else python_samples.StackSampler(recording.place)
            with sampler or nullcontext():
                ended = run_attended(
                    _started(recording, recording.argv),
                    interruption,
                    environment=recording.variables.given if recording.remote is None else None,
                    signaller=recording.remote.signalled if recording.remote else None,
                    on_start=sampler.watch if sampler else lambda *_: None,
                    on_stage=lambda name: tell(stages[name]),
                )
        except ToolFailed as error:
            manifests.write_manifest(
                replace(begun, state=manifests.FAILED, reason=error.claim), recording.place.manifest
            )
            raise
        if ended.orphans:
            tell(f"ended processes that {recording.tool} left behind")
        if sampler is not None and sampler.why_nothing is not None:
            tell(sampler.why_nothing)
        return close_recording(recording, begun, ended, interruption)


def _started(recording: Recording, argv: Sequence[str], *, hide: bool = False) -> tuple[str, ...]:
    """What is run; `hide` the secrets in it before anything is quoted, for the manifest."""
    if recording.remote is None:
        return tuple(argv)
    wanted = recording.set_for_program
    return recording.remote.started(argv, manifests.environment(wanted, wanted) if hide else wanted, recording.script)


def close_recording(
    recording: Recording, begun: Manifest, ended: AttendedRun, interruption: Interruption
) -> CaptureOutcome:
    """After the program: bring the files here, export them, and say how it ended."""
    place, problem = recording.place, None
    seen = _seen_here(recording)
    if recording.remote is not None:
        seen, problem = _brought(recording, ended)
    elif seen is not None and seen.lost:
        for path in place.files():
            path.unlink()  # of a program that was not started: it would be taken for one that was
    reports = place.reports()
    lost = None  # what was set and did not arrive; where the program was not even reached, its own end says more
    if recording.witness is not None and (seen is not None or (reports and not ended.interrupted)):
        lost = recording.witness.complaint(seen, recording.program)
    if not reports and problem is None and lost is None:
        problem = why_nothing(recording, ended)
    elif reports and not ended.interrupted and recording.tool == "nsys":
        problem = problem or _export(reports, interruption)
    problem = lost or problem
    stopped = ended.interrupted or bool(interruption)
    state = manifests.INTERRUPTED if stopped else manifests.FINISHED if reports and lost is None else manifests.FAILED
    done = replace(
        begun,
        state=state,
        reason=problem.claim if problem else None,
        exit_code=ended.exit_code,
        seconds=ended.seconds,
        environment=begun.environment if seen is None else dict(seen.variables),
        environment_of=None if seen is None else recording.program,
        files=tuple(RecordedFile(path.name, path.stat().st_size) for path in place.files()),
    )
    try:
        manifests.write_manifest(done, place.manifest)
    except GpuledgerError as error:
        problem = problem or error
    # the program's own exit code, unless we were interrupted, or it ended well and we did not
    own_code = problem.exit_code if problem else 0
    if stopped:
        code = INTERRUPTED_CODE
    elif recording.duration is not None and ended.exit_code == _BY_NSYS and reports:
        code = own_code  # nsys ended the program because its time was over, as was asked for
    elif recording.remote is not None and problem is not None and ended.exit_code in NOT_STARTED:
        code = own_code  # it is the prefix's, not the program's
    else:
        code = ended.exit_code or own_code
    profiles = tuple(export if (export := _export_of(report)).exists() else report for report in reports)
    return CaptureOutcome(done, place, profiles, code, problem)


def _export_of(report: Path) -> Path:
    return report.with_name(report.name.removesuffix(REPORTS["nsys"]) + EXPORT)


def _starter(interruption: Interruption) -> Start:
    def start(argv: Sequence[str | Path]) -> Ran:
        ended = run_attended(argv, interruption, quiet=True)
        return Ran(ended.exit_code, ended.said)

    return start


def _export(reports: Sequence[Path], interruption: Interruption) -> GpuledgerError | None:
    nsys = find_nsys()
    for report in reports:
        if _export_of(report).exists():
            continue
        if nsys is None or interruption:
            break
        try:
            export_beside(nsys, report, _starter(interruption))
        except GpuledgerError as error:
            return None if interruption else error
    return None


def _export_fetched(remote: Remote, name: str, report: Path, interruption: Interruption) -> None:
    """Let the other side export, unless it can be done here: a nsys older than the report cannot."""
    nsys = find_nsys()
    if nsys is not None:
        with suppress(ToolFailed):
            export_beside(nsys, report, _starter(interruption))
            return
    target = name.removesuffix(".nsys-rep") + EXPORT
    if remote.exported(name, target, seconds=_EXPORT_S).exit_code == 0:
        remote.fetched(target, _export_of(report), interruption)


def _brought(recording: Recording, ended: AttendedRun) -> tuple[SeenEnvironment | None, GpuledgerError | None]:
    """What the program's environment was, and the reports copied here, exported over there where that cannot be here;
    then clean up over there. An error where something could not be copied."""
    remote, place, seen = recording.remote, recording.place, None
    assert remote is not None  # noqa: S101 - who calls has looked
    with Interruption() as again:  # the first Ctrl-C ended the program; what it recorded is still wanted
        try:
            text = remote.environment_seen()
            seen = recording.witness.read(text) if recording.witness is not None and text is not None else None
            for name in () if seen is not None and seen.lost else remote.names():
                if not re.fullmatch(rf"report(_\d+)?({re.escape(place.ending)}|{re.escape(MEMORY)})", name):
                    continue
                here = name.replace("report", place.name, 1)
                remote.fetched(name, place.folder / here, again)
                if place.ending == ".nsys-rep" and not ended.interrupted:
                    _export_fetched(remote, name, place.folder / here, again)
        except GpuledgerError as error:
            return seen, error  # the folder over there stays: it holds what could not be copied
        with suppress(ToolFailed):  # nothing depends on it, and what matters is here
            remote.cleaned()
    return seen, None


def _seen_here(recording: Recording) -> SeenEnvironment | None:
    """What was written down about a program on this machine, which is read once and goes away."""
    if recording.witness is None or recording.remote is not None:
        return None
    file = Path(recording.witness.file)
    if not file.exists():
        return None
    seen = recording.witness.read(file.read_text(errors="backslashreplace"))
    file.unlink()
    return seen

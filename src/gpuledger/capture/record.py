"""Carrying a recording out: what is to be run in; the files that came of it, and how it ended, out.

The manifest is written first. Then the program runs under the eyes of `attended`, perhaps once without its tool before;
what came back is exported; and the manifest is written again. At any moment a signal leads to the same end: the program
and all that it started are gone, what was recorded is kept, and the manifest says so.

Why a tool wrote no report: what it said and how it ended in, one sentence with what to do about it out.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from gpuledger.capture import manifest as manifests
from gpuledger.capture.launchers import Remote, main_program
from gpuledger.capture.manifest import (
    FAILED,
    FINISHED,
    INTERRUPTED,
    EnvironmentWishes,
    Manifest,
    PlainRun,
    RecordedFile,
    SeenEnvironment,
    Witness,
    commit_of,
    environment,
    full,
    utc,
)
from gpuledger.capture.nsys import FULL, Start, export_beside
from gpuledger.capture.output_files import EXPORT, MEMORY, CapturePlace, prepared
from gpuledger.capture.plain_run import PlainProgram, run_plain
from gpuledger.capture.secrets import without_secrets
from gpuledger.errors import GpuledgerError, MissingPackage, NothingRecorded, ToolFailed
from gpuledger.system.interruption import Interruption
from gpuledger.system.machine import find_nsys, machine, version_of
from gpuledger.system.processes import AttendedRun, Ran, attended

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


INTERRUPTED_CODE: Final = 130
_EXPORT_S: Final = 3600.0
_BY_NSYS: Final = 128 + signal.SIGTERM

Tell = Callable[[str], None]
"""Takes a sentence for the user."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Everything that is known before the program starts."""

    tool: str
    executable: Path | None
    """None where the tool runs on another machine, or is Python."""
    argv: tuple[str, ...]
    command: tuple[str, ...]
    place: CapturePlace
    presets: tuple[str, ...] = ()
    remote: Remote | None = None
    ranged: bool = False
    delay: float | None = None
    duration: float | None = None
    variables: EnvironmentWishes = field(default_factory=EnvironmentWishes)
    witness: Witness | None = None
    """Looks at the program's environment, where that may be another than ours."""
    script: Path | None = None
    """What the command needs on the other side."""
    called_as: tuple[str, ...] = ()
    session: str | None = None
    plain: PlainProgram | PlainRun | None = None
    """The program without the tool, to be run before it; or why it is not."""


@dataclass(frozen=True, slots=True)
class CaptureOutcome:
    """What came of it."""

    manifest: Manifest
    place: CapturePlace
    profiles: tuple[Path, ...]
    """What can be opened: the export where there is one, else the report. One per rank."""
    exit_code: int
    problem: GpuledgerError | None
    """What went wrong besides the program's own exit code."""


def first_manifest(recording: Recording, commands: Sequence[Sequence[str]]) -> Manifest:
    """What can be said before anything runs."""
    here = recording.remote is None
    return Manifest(
        tool=recording.tool,
        tool_version=version_of(recording.executable) if recording.executable else None,
        presets=recording.presets,
        command=recording.command,
        commands=tuple(tuple(each) for each in commands),
        called_as=recording.called_as,
        started_utc=utc(time.time()),
        environment=environment(os.environ | recording.variables.given, recording.variables.noted) if here else {},
        carried=environment(_set(recording), _set(recording)),
        machine=machine() if here else None,
        git=commit_of(Path.cwd()) if here else None,
        via=recording.remote.prefix if recording.remote else None,
        session=recording.session,
        plain=recording.plain if isinstance(recording.plain, PlainRun) else None,
    )


def recorded(recording: Recording, tell: Tell) -> CaptureOutcome:
    """Run the program under its tool, and bring everything to its end."""
    with Interruption() as interruption:
        prepared(recording.place)
        plain = (without_secrets(recording.plain.argv),) if isinstance(recording.plain, PlainProgram) else ()
        argv = _started(recording, without_secrets(recording.argv), hide=True)
        begun = first_manifest(recording, (*plain, argv))
        manifests.written(begun, recording.place.manifest)
        try:
            if isinstance(recording.plain, PlainProgram):
                plain_run, ended = run_plain(recording.plain, recording.variables.given, interruption, tell)
                begun = replace(begun, plain=plain_run)
                _seen_here(recording)  # it goes away: what the program had is asked of the recorded run
                if interruption:
                    return closed(recording, begun, replace(ended, interrupted=True), interruption)
                manifests.written(begun, recording.place.manifest)
                tell(f"now with {recording.tool}")
            ended = attended(
                _started(recording, recording.argv),
                interruption,
                environment=recording.variables.given if recording.remote is None else None,
                signaller=recording.remote.signalled if recording.remote else None,
                on_stage=lambda name: tell(_said_of(name, recording.tool)),
            )
        except ToolFailed as error:
            manifests.written(replace(begun, state=FAILED, reason=error.claim), recording.place.manifest)
            raise
        if ended.orphans:
            tell(f"ended processes that {recording.tool} left behind")
        return closed(recording, begun, ended, interruption)


def _set(recording: Recording) -> dict[str, str]:
    """What was set for the program."""
    if recording.witness is not None:
        return dict(recording.witness.wanted)
    return dict(recording.variables.given)


def _started(recording: Recording, argv: Sequence[str], *, hide: bool = False) -> tuple[str, ...]:
    """What is run; `hide` the secrets in it before anything is quoted, for the manifest."""
    if recording.remote is None:
        return tuple(argv)
    wanted = _set(recording)
    return recording.remote.started(argv, environment(wanted, wanted) if hide else wanted, recording.script)


def closed(recording: Recording, begun: Manifest, ended: AttendedRun, interruption: Interruption) -> CaptureOutcome:
    """After the program: bring the files here, export them, and say how it ended."""
    place, problem = recording.place, None
    seen = _seen_here(recording)
    if recording.remote is not None:
        seen, problem = _brought(recording, ended)
    elif seen is not None and seen.lost:
        for path in place.files():
            path.unlink()  # of a program that was not started: it would be taken for one that was
    reports = place.reports()
    lost = _lost(recording, seen, is_recorded=bool(reports) and not ended.interrupted)
    if not reports and problem is None and lost is None:
        via = recording.remote.prefix if recording.remote else None
        problem = why_nothing(Attempt(recording.tool, ended, place.folder, recording.ranged, recording.delay, via))
    elif reports and not ended.interrupted and recording.tool == "nsys":
        problem = problem or _exported(recording, reports, interruption)
    problem = lost or problem
    stopped = ended.interrupted or bool(interruption)
    state = INTERRUPTED if stopped else FINISHED if reports and lost is None else FAILED
    done = replace(
        begun,
        state=state,
        reason=problem.claim if problem else None,
        exit_code=ended.exit_code,
        seconds=ended.seconds,
        environment=begun.environment if seen is None else dict(seen.variables),
        environment_of=None if seen is None else _program(recording),
        files=tuple(RecordedFile(path.name, path.stat().st_size) for path in place.files()),
    )
    try:
        manifests.written(done, place.manifest)
    except GpuledgerError as error:
        problem = problem or error
    return CaptureOutcome(done, place, _profiles(reports), _code(recording, ended, stopped, problem), problem)


def _code(recording: Recording, ended: AttendedRun, stopped: bool, problem: GpuledgerError | None) -> int:
    """The program's own exit code, unless we were interrupted, or it ended well and we did not."""
    if stopped:
        return INTERRUPTED_CODE
    if recording.duration is not None and ended.exit_code == _BY_NSYS and recording.place.reports():
        return problem.exit_code if problem else 0  # nsys ended the program because its time was over, as was asked for
    if recording.remote is not None and problem is not None and ended.exit_code in NOT_STARTED:
        return problem.exit_code  # it is the prefix's, not the program's
    return ended.exit_code or (problem.exit_code if problem else 0)


def _exported_there(remote: Remote, name: str, report: Path, interruption: Interruption) -> None:
    """Let the other side export, unless it can be done here: a nsys older than the report cannot."""
    nsys = find_nsys()
    if nsys is not None:
        with suppress(ToolFailed):
            export_beside(nsys, report, _starter(interruption))
            return
    target = name.removesuffix(".nsys-rep") + EXPORT
    if remote.exported(name, target, seconds=_EXPORT_S).exit_code == 0:
        remote.fetched(target, report.with_name(report.name.removesuffix(".nsys-rep") + EXPORT), interruption)


def _starter(interruption: Interruption) -> Start:
    def start(argv: Sequence[str | Path]) -> Ran:
        ended = attended(argv, interruption, quiet=True)
        return Ran(ended.exit_code, ended.said)

    return start


def _exported(recording: Recording, reports: Sequence[Path], interruption: Interruption) -> GpuledgerError | None:
    nsys = find_nsys()
    for report in reports:
        if report.with_name(report.name.removesuffix(recording.place.ending) + EXPORT).exists():
            continue
        if nsys is None or interruption:
            break
        try:
            export_beside(nsys, report, _starter(interruption))
        except GpuledgerError as error:
            return None if interruption else error
    return None


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
                    _exported_there(remote, name, place.folder / here, again)
        except GpuledgerError as error:
            return seen, error  # the folder over there stays: it holds what could not be copied
        with suppress(ToolFailed):  # nothing depends on it, and what matters is here
            remote.cleaned()
    return seen, None


def _program(recording: Recording) -> str:
    """The program whose environment was looked at."""
    main = main_program(recording.command)
    shown = without_secrets(main.words)
    return shlex.join(shown) if main.in_text is None else " ".join(shown)


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


def _lost(recording: Recording, seen: SeenEnvironment | None, *, is_recorded: bool) -> GpuledgerError | None:
    """What was set and did not arrive. Where the program was not even reached, its own end says more."""
    if recording.witness is None or (seen is None and not is_recorded):
        return None
    return recording.witness.complaint(seen, _program(recording))


def _profiles(reports: Sequence[Path]) -> tuple[Path, ...]:
    exports = [report.with_name(report.name.removesuffix(".nsys-rep") + EXPORT) for report in reports]
    return tuple(
        export if export != report and export.exists() else report
        for report, export in zip(reports, exports, strict=True)
    )


def _said_of(signal_name: str, tool: str) -> str:
    return {
        "SIGINT": f"interrupted: waiting for {tool} to write what it has recorded; once more ends it",
        "SIGTERM": f"telling {tool} to end (SIGTERM)",
    }.get(signal_name, f"ending {tool} (SIGKILL)")

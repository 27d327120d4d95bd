"""`gpuledger capture start` and `stop`: pieces of a server that runs."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import click

from gpuledger.capture import manifest as manifests
from gpuledger.capture.file_endings import MANIFEST, REPORTS
from gpuledger.capture.manifest import FAILED, Manifest
from gpuledger.capture.nsys.session import forget, remember, remembered, session_name, start_command, stop_command
from gpuledger.capture.output_files import CapturePlace, place_for, prepared
from gpuledger.capture.record import CaptureOutcome, Recording, closed, first_manifest
from gpuledger.cli.capture.options import called_as, needed, tell
from gpuledger.errors import ToolFailed
from gpuledger.system.interruption import Interruption
from gpuledger.system.processes import AttendedRun, attended
from gpuledger.system.tools import find_nsys

_LOOK_EVERY_S = 0.05
_NAMED = click.argument("session", metavar="NAME")
_NO_REPORT = click.option("--no-report", is_flag=True, help="Record and check only.")


@click.command()
@_NAMED
@click.option("-o", "--output", "name", metavar="NAME", help="Name of the profile. Default: by the session.")
@click.option("--duration", type=click.FloatRange(0, 1e6, min_open=True), metavar="S", help="Stop after so long.")
@click.option("--force", is_flag=True, help="Overwrite an earlier capture of that name.")
@_NO_REPORT
def start(session: str, name: str | None, duration: float | None, force: bool, no_report: bool) -> None:
    """Begin to record a server that was started with `capture nsys --session=NAME`.

    With --duration it stops by itself, and reports; else `gpuledger capture stop NAME` does. Ctrl-C stops it early, and
    keeps what was recorded. The server runs on.

    \b
    Examples:
      gpuledger capture nsys --preset=server --session=web -- python serve.py
      gpuledger capture start web -o busy --duration=10
    """
    place = place_for(name, (session_name(session),), "nsys", force=force)
    nsys = needed("nsys", find_nsys())
    argv = start_command(str(nsys), session, str(place.base.absolute()))
    recording = _recording(session, place, nsys, argv, duration)
    with Interruption() as interruption:
        prepared(place)
        begun = first_manifest(recording, (argv, stop_command(str(nsys), session)))
        manifests.written(begun if duration else replace(begun, pid=None), place.manifest)
        done = attended(argv, interruption, quiet=True)
        if done.exit_code != 0:
            error = _not_started(session, done)
            manifests.written(replace(begun, state=FAILED, reason=error.claim), place.manifest)
            raise error
        if duration is None:
            remember(session, place.manifest)
            tell(f"recording session {session}; `gpuledger capture stop {session}` ends it")
            return
        began, until = time.time(), time.monotonic() + duration
        while time.monotonic() < until and not interruption:
            time.sleep(_LOOK_EVERY_S)
        outcome = _stopped(recording, begun, interruption, began)
    _said(outcome, duration, no_report=no_report)


@click.command()
@_NAMED
@_NO_REPORT
def stop(session: str, no_report: bool) -> None:
    """End a recording that `gpuledger capture start NAME` began, check it and report on it.

    \b
    Examples:
      gpuledger capture stop web
    """
    path, began = remembered(session_name(session))
    nsys = needed("nsys", find_nsys())
    place = CapturePlace(path.parent, path.name.removesuffix(MANIFEST), REPORTS["nsys"])
    argv = start_command(str(nsys), session, str(place.base))
    recording = _recording(session, place, nsys, argv, None)
    with Interruption() as interruption:
        commands = (argv, stop_command(str(nsys), session))
        begun = replace(first_manifest(recording, commands), started_utc=manifests.utc(began))
        outcome = _stopped(recording, begun, interruption, began)
        forget(session)
    _said(outcome, None, no_report=no_report)


def _recording(
    session: str, place: CapturePlace, nsys: Path, argv: tuple[str, ...], duration: float | None
) -> Recording:
    return Recording(
        tool="nsys",
        executable=nsys,
        argv=argv,
        command=(),
        place=place,
        presets=("server",),
        duration=duration,
        called_as=called_as(),
        session=session,
    )


def _stopped(recording: Recording, begun: Manifest, interruption: Interruption, began: float) -> CaptureOutcome:
    """Stop the recording and bring it to its end; Ctrl-C before meant: stop now."""
    early = bool(interruption)
    with Interruption() as again:
        argv = stop_command(str(recording.executable), recording.session or "")
        done = attended(argv, again, quiet=True)
    said = replace(done, interrupted=done.interrupted or early, seconds=time.time() - began)
    return closed(recording, begun, said, interruption)


def _said(outcome: CaptureOutcome, duration: float | None, *, no_report: bool) -> None:
    from gpuledger.analyse.capture_checks import CaptureWishes
    from gpuledger.cli.capture.end import ended

    asked = CaptureWishes(duration_ns=None if duration is None else int(duration * 1e9))
    ended(outcome, asked, no_report=no_report)


def _not_started(session: str, done: AttendedRun) -> ToolFailed:
    from gpuledger.capture.empty_report import last_line

    return ToolFailed(
        f"session {session}: recording could not be started (exit code {done.exit_code})",
        found=f"nsys says: {last_line(done.said)}",
        hint=f"is the server running, started with `gpuledger capture nsys --session={session} -- SERVER`? "
        "`nsys sessions list` lists what there is; TMPDIR must be the same for both",
    )

"""The end of every capture: what was recorded, whether that is what was asked for, and the report."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import click

from gpuledger.analyse.capture_checks import CaptureWishes, captured
from gpuledger.capture import manifest as manifests
from gpuledger.capture.file_endings import MEMORY, REPORTS
from gpuledger.capture.manifest import FINISHED, INTERRUPTED, Manifest, PlainRun, RecordedCheck
from gpuledger.capture.nsys.presets import Flag, value_of
from gpuledger.capture.record import CaptureOutcome
from gpuledger.cli.main import sentence
from gpuledger.cli.progress import progress
from gpuledger.errors import GpuledgerError
from gpuledger.limits import DEFAULT_LIMITS
from gpuledger.present.views.capture import checks_text, files_text
from gpuledger.read import open_trace
from gpuledger.units import time_text


def asked_of(flags: Sequence[Flag], duration: float | None) -> CaptureWishes:
    """What the flags of nsys ask for, in the words of the checks."""
    return CaptureWishes(
        traces=tuple(value_of(flags, "trace").split(",")),
        nodes=value_of(flags, "cuda-graph-trace").startswith("node"),
        memory=value_of(flags, "cuda-memory-usage") == "true",
        ranged=value_of(flags, "capture-range") == "cudaProfilerApi",
        duration_ns=None if duration is None else int(duration * 1e9),
    )


def ended(outcome: CaptureOutcome, asked: CaptureWishes | None, *, no_report: bool) -> NoReturn:
    """Say what came of it, and end with the exit code. Without `asked` the profile is one of kernels, of ncu."""
    written = [(each.name, each.bytes) for each in outcome.manifest.files]
    if written:
        click.echo(f"Wrote {files_text(written)}; {outcome.place.manifest.name}", err=True)
    if outcome.manifest.exit_code and outcome.manifest.state == FINISHED:
        click.echo(f"the command ended with exit code {outcome.manifest.exit_code}", err=True)
    if outcome.problem is not None:
        click.echo(sentence(outcome.problem), err=True)
    elif outcome.manifest.state == INTERRUPTED:
        click.echo(f"interrupted; what was recorded is kept: `gpuledger report {outcome.profiles[0]}`", err=True)
    elif asked is None:
        _said_of_kernels(outcome.profiles[0], no_report=no_report)
    else:
        _said_of_timeline(outcome, asked, no_report=no_report)
    sys.exit(outcome.exit_code)


def _said_of_timeline(outcome: CaptureOutcome, asked: CaptureWishes, *, no_report: bool) -> None:
    checks: list[RecordedCheck] = []
    try:
        for profile in outcome.profiles:
            with progress(quiet=False) as tell_progress:
                found = captured(open_trace(profile, progress=tell_progress), asked)
            prefix = f"{profile.name}: " if len(outcome.profiles) > 1 else ""
            checks += [RecordedCheck(f"{prefix}{each.name}", each.verdict, each.found, each.advice) for each in found]
            for line in checks_text([replace(each, name=f"{prefix}{each.name}") for each in found]):
                click.echo(line, err=True)
        _said_of_plain(outcome.manifest.plain)
        _noted(outcome.manifest, checks, outcome.place.manifest)
        if not no_report:
            _reported(outcome.profiles)
    except GpuledgerError as error:
        # the program ran and the profile is there: its exit code stays, and the sentence says what cannot be told
        click.echo(sentence(error), err=True)


def _said_of_plain(plain: PlainRun | None) -> None:
    if plain is None or plain.seconds is None:
        return
    if plain.window_ns is None:
        click.echo(f"how long the window takes without the profiler is unknown: {plain.reason}", err=True)
        return
    several = f", the mean of {len(plain.window_ns)} processes" if len(plain.window_ns) > 1 else ""
    window_ns = round(sum(plain.window_ns) / len(plain.window_ns))
    click.echo(f"without the profiler the window took {time_text(window_ns)}{several}", err=True)


def _noted(manifest: Manifest, checks: Sequence[RecordedCheck], path: Path) -> None:
    manifests.written(replace(manifest, checks=tuple(checks)), path)


def _reported(profiles: Sequence[Path]) -> None:
    from gpuledger.cli.verbs.report import report

    sys.stdout.flush()
    snapshot = profiles[0].with_name(profiles[0].name.removesuffix(REPORTS["torch"]) + MEMORY)
    beside = snapshot if snapshot != profiles[0] and snapshot.is_file() else None
    click.get_current_context().invoke(report, profile=profiles[0], memory=beside, limits=DEFAULT_LIMITS)
    if len(profiles) > 1:
        folder = profiles[0].parent
        click.echo(f"this was {profiles[0].name}; all ranks: `gpuledger fleet {folder}`", err=True)


def _said_of_kernels(profile: Path, *, no_report: bool) -> None:
    if no_report:
        return
    from gpuledger.cli.verbs.kernels import kernels

    try:
        click.get_current_context().invoke(kernels, files=(profile,), limits=DEFAULT_LIMITS)
    except GpuledgerError as error:
        click.echo(sentence(error), err=True)  # as above

"""What all captures share: their options, what is printed instead of running, and how a run is brought to its end.

`finish` says what was recorded and whether that is what was asked for, and goes on with the report.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, NoReturn, TypedDict

import click
from msgspec import Struct
from msgspec.structs import replace

from gpuledger.capture import manifest as manifests
from gpuledger.capture import python_samples
from gpuledger.capture.completeness import CaptureWishes, check_capture
from gpuledger.capture.launchers import Remote, is_direct
from gpuledger.capture.manifest import (
    FINISHED,
    INTERRUPTED,
    CaptureCheck,
    EnvironmentWishes,
    PlainRun,
    Witness,
    environment,
    environment_wishes,
)
from gpuledger.capture.output_files import MEMORY, REPORTS, CapturePlace
from gpuledger.capture.record import CaptureOutcome, PlainProgram
from gpuledger.capture.secrets import without_secrets
from gpuledger.cli.main import sentence
from gpuledger.cli.terminal import columns, progress
from gpuledger.errors import GpuledgerError, MissingPackage
from gpuledger.limits import DEFAULT_LIMITS
from gpuledger.present.views.runs.doctor import checks_text, files_text
from gpuledger.read import open_trace
from gpuledger.units import time_text
from gpuledger.verbs.definition import Option, VerbArgument

COMMAND_FIRST: Final = {"allow_interspersed_args": False}
"""Options end where COMMAND begins, also without `--` before it."""


class CaptureOptions(TypedDict, total=False):
    """COMMAND, and the options that every capture has."""

    command: Annotated[tuple[str, ...], VerbArgument("-- COMMAND...")]
    name: Annotated[str | None, Option("Name of the profile. Default: from COMMAND.", "-o --output", "NAME")]
    force: Annotated[bool, Option("Overwrite an earlier capture of that name.")]
    dry_run: Annotated[bool, Option("Print what would run, and run nothing.")]
    explain: Annotated[bool, Option("Print each flag with its reason, and run nothing.")]
    no_report: Annotated[bool, Option("Record and check only.")]
    env: Annotated[
        tuple[str, ...],
        Option(
            "NAME=VALUE sets it for COMMAND; NAME forwards it through --via. Both are recorded.",
            metavar="NAME[=VALUE]",
        ),
    ]


class CaptureManner(Struct, frozen=True):
    """What to record, and how, whatever records it."""

    command: tuple[str, ...]
    name: str | None
    force: bool
    dry_run: bool
    explain: bool
    no_report: bool
    variables: EnvironmentWishes

    @property
    def only_prints(self) -> bool:
        return self.dry_run or self.explain


def manner_of(asked: CaptureOptions) -> CaptureManner:
    """The manner that options ask for."""
    return CaptureManner(
        _a_program(asked["command"]),
        asked["name"],
        asked["force"],
        asked["dry_run"],
        asked["explain"],
        asked["no_report"],
        environment_wishes(asked["env"]),
    )


def _a_program(command: tuple[str, ...]) -> tuple[str, ...]:
    """COMMAND, which must be a program."""
    if not command or not command[0]:
        raise click.UsageError("no COMMAND to record. Write it behind `--`.", click.get_current_context(silent=True))
    if command[0].startswith("-"):
        raise click.UsageError(f"no such option: {command[0]}. COMMAND comes last, behind `--`.")
    return command


Via = Annotated[
    str | None,
    Option("Run elsewhere: 'ssh HOST' or 'kubectl exec POD --'; results are copied back.", metavar="PREFIX"),
]
NoPlain = Annotated[bool, Option("Skip the unprofiled run of COMMAND that times its window first.")]
NoLines = Annotated[bool, Option("Do not sample the Python stacks of COMMAND, which name lines of code.")]


def why_unsampled(there: Remote | None, *, no_lines: bool) -> str | None:
    """Why Python's stacks are not sampled; None where they are."""
    if no_lines or there is not None:
        return python_samples.LEFT_OUT if no_lines else python_samples.ELSEWHERE
    return python_samples.why_not_sampled()


def sampling_notes(unsampled: str | None) -> list[str]:
    """What a printed command does not show: that its Python is sampled from outside."""
    return [
        unsampled or f"its Python's stacks are sampled {python_samples.HZ} times a second; --no-lines leaves that out"
    ]


def witness_for(
    manner: CaptureManner, command: tuple[str, ...], place: CapturePlace, there: Remote | None
) -> Witness | None:
    """Who looks at the program's environment: elsewhere always, here where something may change what --env names."""
    wishes = manner.variables
    wanted = wishes.carried(os.environ)
    if there is None and (not wanted or is_direct(command)):
        return None
    if there is None:
        return Witness(str(place.folder.absolute() / f".{place.name}.environment"), wishes.noted, wanted)
    for name in wishes.withheld(os.environ):
        secret = f"{name} looks like a secret, and is not carried over: others could read it on the command line"
        warn([f"{secret}; set it over there, or write --env={name}=VALUE"])
    return Witness(there.environment_file, wishes.noted, wanted)


def environment_notes(witness: Witness | None) -> list[str]:
    """What is done about the program's environment besides what a printed command shows, for people."""
    if witness is None:
        return []
    settings = [f"{name}={value}" for name, value in environment(witness.wanted, witness.wanted).items()]
    must = f", and must hold {shlex.join(settings)}" if settings else ""
    return [f"right before the program starts, its environment is looked at{must}"]


def plain_run_notes(plain: PlainProgram | PlainRun) -> list[str]:
    """What is run before a printed command, for people."""
    note = "before that, the program runs once without the profiler; --no-plain leaves that out"
    return [note] if isinstance(plain, PlainProgram) else []


def shown_command(
    manner: CaptureManner,
    argv: Sequence[str],
    there: Remote | None = None,
    witness: Witness | None = None,
    script: Path | None = None,
) -> list[str]:
    """A command for people, without secrets: here one that sets what --env gives, elsewhere what it carries."""
    hushed = without_secrets(argv)
    if there is not None:
        carried = environment(witness.wanted, witness.wanted) if witness else {}
        return without_secrets(there.started(hushed, carried, script))
    given = environment(manner.variables.given, manner.variables.given)
    return ["env", *(f"{name}={value}" for name, value in given.items()), *hushed] if given else hushed


def check_program(program: str) -> None:
    """Refuse what cannot be started, before a tool turns that into many lines."""
    if shutil.which(program) is not None:
        return
    if Path(program).is_file():
        raise GpuledgerError(f"{program}: cannot be executed", hint=f"is it a script? e.g. `-- python {program}`")
    raise GpuledgerError(f"{program}: no such program")


def word_for(name: str, found: Path | None) -> str:
    """How to call a tool in a command for people: by its name where that works, else by its path."""
    return name if found is None or shutil.which(name) else str(found)


def require_tool(name: str, found: Path | None) -> Path:
    """The tool, or one sentence about where it can be had."""
    if found is None:
        if name == "rocprofv3":
            hint = "it comes with ROCm, as the package rocprofiler-sdk; --dry-run prints the command"
            raise MissingPackage(f"{name} was not found, on the PATH or in /opt/rocm", hint=hint)
        product = {"nsys": "Nsight Systems", "ncu": "Nsight Compute"}[name]
        hint = f"install {product} (it comes with the CUDA toolkit), or record elsewhere with --via='ssh HOST'"
        raise MissingPackage(f"{name} was not found, on the PATH or where NVIDIA installs it", hint=hint)
    return found


def warn(sentences: Sequence[str]) -> None:
    """What may go wrong, before it does."""
    from gpuledger.present.safe_text import visible

    for doubt in sentences:
        click.echo(f"warning: {visible(doubt)}", err=True)


def tell(sentence: str) -> None:
    """What happens, while it does."""
    click.echo(sentence, err=True)


def called_as() -> tuple[str, ...]:
    """Our own command line."""
    return ("gpuledger", *sys.argv[1:])


def print_plan(
    manner: CaptureManner,
    reasons: Sequence[tuple[str, str]],
    commands: Sequence[Sequence[str]],
    notes: Sequence[str] = (),
) -> None:
    """What would be run, for --dry-run, and why, for --explain."""
    from gpuledger.present.safe_text import shell_lines, visible
    from gpuledger.present.views.runs.doctor import reasons_text

    width = columns(sys.stdout)
    if manner.explain:
        click.echo(reasons_text(reasons, width), nl=False)
    if manner.dry_run:
        for argv in commands:
            click.echo("\n".join(shell_lines(list(argv), width)))
        for note in notes:
            click.echo(f"# {visible(note)}")


def finish(outcome: CaptureOutcome, asked: CaptureWishes | None, *, no_report: bool) -> NoReturn:
    """Say what came of it, and end with the exit code. Without `asked` the profile is one of kernels, of ncu."""
    written = [(file.name, file.bytes) for file in outcome.manifest.files]
    if written:
        tell(f"Wrote {files_text(written)}; {outcome.place.manifest.name}")
    if outcome.manifest.exit_code and outcome.manifest.state == FINISHED:
        tell(f"the command ended with exit code {outcome.manifest.exit_code}")
    try:
        if outcome.problem is not None:
            tell(sentence(outcome.problem))
        elif outcome.manifest.state == INTERRUPTED:
            tell(f"interrupted; what was recorded is kept: `gpuledger report {outcome.profiles[0]}`")
        elif asked is not None:
            _report_timeline(outcome, asked, no_report=no_report)
        elif not no_report:
            from gpuledger.cli.main import verb_named

            kernels = verb_named("kernels")
            click.get_current_context().invoke(kernels, profile=outcome.profiles[0], limits=DEFAULT_LIMITS)
    except GpuledgerError as error:
        # the program ran and the profile is there: its exit code stays, and the sentence says what cannot be told
        tell(sentence(error))
    sys.exit(outcome.exit_code)


def _report_timeline(outcome: CaptureOutcome, asked: CaptureWishes, *, no_report: bool) -> None:
    checks: list[CaptureCheck] = []
    for profile in outcome.profiles:
        with progress(quiet=False) as tell_progress:
            found = check_capture(open_trace(profile, progress=tell_progress), asked)
        if len(outcome.profiles) > 1:
            found = tuple(replace(check, check=f"{profile.name}: {check.check}") for check in found)
        checks += found
        for line in checks_text(found):
            tell(line)
    plain = outcome.manifest.plain
    if plain is not None and plain.seconds is not None:
        if plain.window_ns is None:
            tell(f"how long the window takes without the profiler is unknown: {plain.reason}")
        else:
            count = len(plain.window_ns)
            several = f", the mean of {count} processes" if count > 1 else ""
            tell(f"without the profiler the window took {time_text(round(sum(plain.window_ns) / count))}{several}")
    manifests.write_manifest(replace(outcome.manifest, checks=tuple(checks)), outcome.place.manifest)
    if not no_report:
        _report(outcome.profiles)


def _report(profiles: Sequence[Path]) -> None:
    from gpuledger.cli.main import verb_named

    sys.stdout.flush()
    snapshot = profiles[0].with_name(profiles[0].name.removesuffix(REPORTS["torch"]) + MEMORY)
    beside = snapshot if snapshot != profiles[0] and snapshot.is_file() else None
    click.get_current_context().invoke(verb_named("report"), profile=profiles[0], memory=beside, limits=DEFAULT_LIMITS)
    if len(profiles) > 1:
        from gpuledger.present.safe_text import shell_word

        tell(f"this was {profiles[0].name}; all ranks: `gpuledger fleet {shell_word(str(profiles[0].parent))}`")

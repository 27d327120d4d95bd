"""What all captures share: their options, what is printed instead of running, and how a run is brought to its end."""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from gpuledger.capture.environment import EnvironmentWishes, environment, environment_wishes
from gpuledger.capture.main_program import is_direct
from gpuledger.capture.manifest import PlainRun
from gpuledger.capture.output_files import CapturePlace
from gpuledger.capture.plain_run import PlainProgram
from gpuledger.capture.remote import Remote
from gpuledger.capture.withheld import without_secrets
from gpuledger.capture.witness import Witness
from gpuledger.cli.terminal import columns
from gpuledger.errors import GpuledgerError, MissingPackage

COMMAND_FIRST = {"allow_interspersed_args": False}
"""Options end where COMMAND begins, also without `--` before it."""


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """How to capture, whatever is captured."""

    name: str | None
    force: bool
    dry_run: bool
    explain: bool
    no_report: bool
    variables: EnvironmentWishes

    @property
    def only_prints(self) -> bool:
        return self.dry_run or self.explain


def capture_options(verb: Callable[..., None]) -> Callable[..., None]:
    """COMMAND, and the options that every capture has, handed to the verb as `command` and `manner`."""

    @functools.wraps(verb)
    def with_manner(
        *arguments: object,
        name: str | None,
        force: bool,
        dry_run: bool,
        explain: bool,
        no_report: bool,
        variables: tuple[str, ...],
        command: tuple[str, ...],
        **options: object,
    ) -> None:
        manner = CaptureOptions(name, force, dry_run, explain, no_report, environment_wishes(variables))
        verb(*arguments, manner=manner, command=a_program(command), **options)

    options = (
        click.argument("command", metavar="-- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED),
        click.option("-o", "--output", "name", metavar="NAME", help="Name of the profile. Default: from COMMAND."),
        click.option("--force", is_flag=True, help="Overwrite an earlier capture of that name."),
        click.option("--dry-run", is_flag=True, help="Print what would run, and run nothing."),
        click.option("--explain", is_flag=True, help="Print each flag with its reason, and run nothing."),
        click.option("--no-report", is_flag=True, help="Record and check only."),
        click.option(
            "--env",
            "variables",
            multiple=True,
            metavar="NAME[=VALUE]",
            help="NAME=VALUE sets it for COMMAND; NAME forwards it through --via. Both are recorded.",
        ),
    )
    for option in reversed(options):
        with_manner = option(with_manner)
    return with_manner


def a_program(command: tuple[str, ...]) -> tuple[str, ...]:
    """COMMAND, which must be a program."""
    if not command or not command[0]:
        raise click.UsageError("no COMMAND to record. Write it behind `--`.", click.get_current_context(silent=True))
    if command[0].startswith("-"):
        raise click.UsageError(f"no such option: {command[0]}. COMMAND comes last, behind `--`.")
    return command


VIA_OPTION = click.option(
    "--via", metavar="PREFIX", help="Run elsewhere: 'ssh HOST' or 'kubectl exec POD --'; results are copied back."
)
PLAIN_OPTION = click.option(
    "--no-plain", is_flag=True, help="Skip the unprofiled run of COMMAND that times its window first."
)


def witness_for(
    manner: CaptureOptions, command: tuple[str, ...], place: CapturePlace, there: Remote | None
) -> Witness | None:
    """Who looks at the program's environment: elsewhere always, here where something may change what --env names."""
    wishes = manner.variables
    if there is not None:
        warn(
            [
                f"{name} looks like a secret, and is not carried over: others could read it on the command line; "
                f"set it over there, or write --env={name}=VALUE"
                for name in wishes.withheld(os.environ)
            ]
        )
        return Witness(there.environment_file, wishes.noted, wishes.carried(os.environ))
    wanted = wishes.carried(os.environ)
    if not wanted or is_direct(command):
        return None
    return Witness(str(place.folder.absolute() / f".{place.name}.environment"), wishes.noted, wanted)


def looked_at(witness: Witness | None) -> list[str]:
    """What is done about the program's environment besides what a printed command shows, for people."""
    if witness is None:
        return []
    settings = [f"{name}={value}" for name, value in environment(witness.wanted, witness.wanted).items()]
    must = f", and must hold {shlex.join(settings)}" if settings else ""
    return [f"right before the program starts, its environment is looked at{must}"]


def run_before(plain: PlainProgram | PlainRun) -> list[str]:
    """What is run before a printed command, for people."""
    return (
        ["before that, the program runs once without the profiler; --no-plain leaves that out"]
        if isinstance(plain, PlainProgram)
        else []
    )


def shown(
    manner: CaptureOptions,
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


def needed(name: str, found: Path | None) -> Path:
    """The tool, or one sentence about where it can be had."""
    if found is None:
        product = {"nsys": "Nsight Systems", "ncu": "Nsight Compute"}[name]
        hint = f"install {product} (it comes with the CUDA toolkit), or record elsewhere with --via='ssh HOST'"
        raise MissingPackage(f"{name} was not found, on the PATH or where NVIDIA installs it", hint=hint)
    return found


def warn(sentences: Sequence[str]) -> None:
    """What may go wrong, before it does."""
    from gpuledger.present.safe_text import visible

    for sentence in sentences:
        click.echo(f"warning: {visible(sentence)}", err=True)


def tell(sentence: str) -> None:
    """What happens, while it does."""
    click.echo(sentence, err=True)


def called_as() -> tuple[str, ...]:
    """Our own command line."""
    return ("gpuledger", *sys.argv[1:])


def printed(
    manner: CaptureOptions,
    reasons: Sequence[tuple[str, str]],
    commands: Sequence[Sequence[str]],
    notes: Sequence[str] = (),
) -> None:
    """What would be run, for --dry-run, and why, for --explain."""
    from gpuledger.present.safe_text import visible
    from gpuledger.present.shell import shell_lines
    from gpuledger.present.views.capture import reasons_text

    width = columns(sys.stdout)
    if manner.explain:
        click.echo(reasons_text(reasons, width), nl=False)
    if manner.dry_run:
        for argv in commands:
            click.echo("\n".join(shell_lines(list(argv), width)))
        for note in notes:
            click.echo(f"# {visible(note)}")

"""Where results go: the options that every verb shares, and the writing.

Results go to stdout or a file, everything else to stderr.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import click

from gpuledger.errors import OutputRefused

FORMATS = ("text", "md", "csv", "json")
_BY_EXTENSION = {".txt": "text", ".md": "md", ".csv": "csv", ".json": "json"}


@dataclass(frozen=True, slots=True)
class Output:
    """How and where to write a result."""

    format: str
    path: Path | None
    force: bool
    quiet: bool

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None where there is none, so that what is piped or stored is whole."""
        if self.path is None and (sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()):
            return shutil.get_terminal_size().columns
        return None

    def write(self, text: str, remarks: Iterable[str] = ()) -> None:
        """Write the result, whole or not at all, and what is to be said beside it."""
        if self.path is None:
            sys.stdout.write(text)
            sys.stdout.flush()
        else:
            _replace(self.path, text, force=self.force)
            remarks = (*remarks, f"Wrote {self.path}")
        for line in () if self.quiet else remarks:
            click.echo(line, err=True)


def output_options(verb: Callable[..., None]) -> Callable[..., None]:
    """--format, --output, --force and --quiet, handed to the verb as one `output`."""

    @functools.wraps(verb)
    def with_output(
        *arguments: object, format_: str | None, path: Path | None, force: bool, quiet: bool, **options: object
    ) -> None:
        if path is not None and path.exists() and not force:
            raise _exists(path)
        chosen = format_ or _BY_EXTENSION.get(path.suffix.lower() if path else "", "text")
        verb(*arguments, output=Output(chosen, path, force, quiet), **options)

    file = click.Path(path_type=Path, dir_okay=False)
    options = (
        click.option(
            "--format",
            "format_",
            type=click.Choice(FORMATS),
            help="How to print. Default: by the ending of --output, else text.",
        ),
        click.option("-o", "--output", "path", type=file, help="Write to this file instead of stdout."),
        click.option("--force", is_flag=True, help="Overwrite the output file if it is there."),
        click.option("-q", "--quiet", is_flag=True, help="No progress, no notes; only the result and errors."),
    )
    for option in reversed(options):
        with_output = option(with_output)
    return with_output


def language_option(verb: Callable[..., None]) -> Callable[..., None]:
    """--lang, handed to the verb as `language`."""
    from gpuledger.messages import LANGUAGES

    said = "The language of text and Markdown: English or Chinese. JSON and CSV are the same in both."
    return click.option("--lang", "language", type=click.Choice(LANGUAGES), default="en", help=said)(verb)


def profile_argument(verb: Callable[..., None]) -> Callable[..., None]:
    """PROFILE: whatever `open_trace` takes."""
    return click.argument("profile", type=click.Path(path_type=Path))(verb)


def step_options(verb: Callable[..., None]) -> Callable[..., None]:
    """What to look at and how to cut it into steps, handed to the verb as one `wanted`."""

    @functools.wraps(verb)
    def with_steps(
        *arguments: object,
        step_range: str | None,
        step_kernel: str | None,
        families: Path | None,
        device: int | None,
        time: tuple[int | None, int | None] | None,
        scope: str | None,
        **options: object,
    ) -> None:
        from gpuledger.analyse.steps import Wanted
        from gpuledger.config import user_families

        for option, pattern in (("--step-range", step_range), ("--step-kernel", step_kernel), ("--range", scope)):
            try:
                re.compile(pattern or "")
            except re.error as error:
                raise click.BadParameter(f"{pattern!r} is no regular expression: {error}", param_hint=option) from None
        wanted = Wanted(step_range, step_kernel, user_families(families), device, time, scope)
        verb(*arguments, wanted=wanted, **options)

    file = click.Path(path_type=Path, dir_okay=False)
    options = (
        click.option("--step-range", metavar="REGEX", help="Steps are the NVTX ranges that match. Default: found."),
        click.option("--step-kernel", metavar="REGEX", help="A step ends with each kernel whose name matches."),
        click.option(
            "--time", metavar="A:B", callback=_stretch, help="Only from A to B, e.g. 0.5s:1.5s, from the start."
        ),
        click.option("--range", "scope", metavar="REGEX", help="Only what lies around the work of matching ranges."),
        click.option("--device", type=int, metavar="N", help="Only GPU N."),
        click.option("--families", type=file, help="TOML with kernel families of your own; default ./pyproject.toml."),
    )
    for option in reversed(options):
        with_steps = option(with_steps)
    return with_steps


def _stretch(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int | None, int | None] | None:
    """A:B in nanoseconds; either side may be left out."""
    if value is None:
        return None
    from gpuledger.units import parse_time

    first, colon, last = value.partition(":")
    try:
        if not colon:
            raise ValueError("expected A:B, e.g. 0.5s:1.5s")
        return (parse_time(first) if first else None, parse_time(last) if last else None)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _exists(path: Path) -> OutputRefused:
    return OutputRefused(f"{path}: exists already", hint="--force overwrites it")


def _replace(path: Path, text: str, *, force: bool) -> None:
    """Write beside, then rename: a reader sees the old file or the new one, never half of one."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        beside = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
                file.write(text)
            beside.chmod(0o666 & ~_umask())
            if force:
                beside.replace(path)
            else:
                os.link(beside, path)  # fails if somebody made the file in the meantime
        finally:
            with contextlib.suppress(FileNotFoundError):
                beside.unlink()
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise OutputRefused(f"{path}: cannot be written: {(error.strerror or str(error)).lower()}") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

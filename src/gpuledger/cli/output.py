"""Where results go: the options that every verb shares, and the writing.

Results go to stdout or a file, everything else to stderr. Some verbs also write a page, one HTML file.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from msgspec import Struct, field

from gpuledger.cli.kept_answers import asked_question
from gpuledger.cli.terminal import SILENT, ProgressLine, columns, has_colours, progress
from gpuledger.messages import LANGUAGES
from gpuledger.present import FORMATS, PAGE
from gpuledger.system.files import refuse_existing, replacing

if TYPE_CHECKING:
    from gpuledger.present.document import Document


_NOT_WRITTEN = (".pdf", ".docx", ".odt", ".rtf", ".ps", ".tex", ".xlsx", ".pptx")
_BY_EXTENSION = {".txt": "text", ".md": "md", ".csv": "csv", ".json": "json", ".html": PAGE, ".htm": PAGE}


class Output(Struct, frozen=True):
    """How and where to write a result."""

    format: str
    path: Path | None
    force: bool
    quiet: bool
    language: str = "en"  # of text, Markdown and pages; JSON and CSV are the same in all
    raw: bool = False  # whether text and Markdown show whole nanoseconds, as JSON and CSV do
    progress: ProgressLine = SILENT  # tells people who wait; gone before anything is printed
    shown: list[tuple[str, list[str]]] = field(default_factory=list)
    """The answers that were shown, each with the remarks beside it."""

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None where there is none, so that what is piped or stored is whole."""
        return columns(sys.stdout) if self.path is None else None

    @property
    def form(self) -> tuple[object, ...]:
        """All that tells how an answer is written."""
        return self.format, self.language, self.raw, self.width, self._has_colours

    @property
    def _has_colours(self) -> bool:
        return self.path is None and has_colours(sys.stdout)

    def beside(self, ending: str) -> Path:
        """A file in the output's folder with its name and another ending: report.md, -ledger.png: report-ledger.png."""
        if self.path is None:
            raise ValueError("there is no output file to write beside")
        target = self.path.with_name(f"{self.path.stem}{ending}")
        if target.exists() and not self.force:
            raise refuse_existing(target)
        return target

    def write_bytes(self, path: Path, content: bytes) -> None:
        """Write a file beside the output that is no text, whole or not at all."""
        self.progress.clear()
        _replace(path, content, force=self.force)
        if not self.quiet:
            click.echo(f"Wrote {path}", err=True)

    def show(self, document: Document, *, remarks: Iterable[str] = ()) -> None:
        """Write a document in the format that was asked for: the one place where results leave."""
        from gpuledger.present.writers import write

        self.progress.stage("drawing the page" if self.format == PAGE else "writing the answer")
        beside = document.remarks if self.format == "csv" else ()
        command = asked() if self.format == PAGE else ""
        text = write(
            document,
            self.format,
            width=self.width,
            has_colours=self._has_colours,
            language=self.language,
            command=command,
            raw=self.raw,
        )
        self.shown.append((text, [*remarks, *beside]))
        self.write(*self.shown[-1])

    def write(self, text: str, remarks: Iterable[str] = ()) -> None:
        """Write the result, whole or not at all, and what is to be said beside it."""
        from gpuledger.visible_text import visible

        self.progress.clear()
        if self.path is None:
            sys.stdout.write(text)
            sys.stdout.flush()
        else:
            _replace(self.path, text, force=self.force)
            remarks = (*remarks, f"Wrote {self.path}")
        for line in () if self.quiet else remarks:
            click.echo(visible(line), err=True)


def output_options(
    verb: Callable[..., None], formats: tuple[str, ...] = FORMATS, languages: tuple[str, ...] = LANGUAGES
) -> Callable[..., None]:
    """--format, --lang, --output, --force and --quiet, handed to the verb as one `output`."""

    @functools.wraps(verb)
    def with_output(
        *arguments: object,
        format_: str | None,
        path: Path | None,
        force: bool,
        quiet: bool,
        language: str = "en",
        raw: bool = False,
        **options: object,
    ) -> None:
        if path is not None and path.exists() and not force:
            raise refuse_existing(path)
        if path is not None and path.suffix.lower() in _NOT_WRITTEN:
            raise click.UsageError(
                f"no {path.suffix.lower()[1:]} is written; write a page (-o {path.stem}.html) and print it."
            )
        chosen = format_ or _BY_EXTENSION.get(path.suffix.lower() if path else "", "text")
        if chosen == PAGE and PAGE not in formats:
            raise click.UsageError(f"this verb writes no page; it writes {', '.join(formats)}.")
        with progress(quiet=quiet) as line:
            line.begin(options.get("profile"))
            output = Output(chosen, path, force, quiet, language, raw, line)
            asked_now = functools.partial(asked_question, click.get_current_context(), output.form)
            question = asked_now()
            answer = None if question is None else question.kept()
            if answer is not None:
                output.write(*answer)
                return
            began = time.monotonic()
            verb(*arguments, output=output, **options)
            if question is not None and len(output.shown) == 1 and question.is_worth_keeping(time.monotonic() - began):
                question.keep(*output.shown[0], asked_now())

    file = click.Path(path_type=Path, dir_okay=False)
    options = (
        click.option(
            "--format",
            "format_",
            type=click.Choice(formats),
            help="Output format. Default: from the extension of --output, else text.",
        ),
        *((language_option,) if len(languages) > 1 else ()),
        click.option("--raw", is_flag=True, help="Print exact numbers (ns, bytes) and ids, as CSV and JSON do."),
        click.option("-o", "--output", "path", type=file, help="Write to this file instead of stdout."),
        click.option("--force", is_flag=True, help="Overwrite the output file if it exists."),
        click.option("-q", "--quiet", is_flag=True, help="No progress or notes, only the result and errors."),
    )
    for option in reversed(options):
        with_output = option(with_output)
    return with_output


def page_options(verb: Callable[..., None]) -> Callable[..., None]:
    """The same for a verb that can also write a page."""
    return output_options(verb, (*FORMATS, PAGE))


def english_options(verb: Callable[..., None]) -> Callable[..., None]:
    """The same for a verb whose words are others', or names of this machine: it has no other language."""
    return output_options(verb, languages=("en",))


_NOT_ASKED: Final = ("force", "quiet", "no_cache", "limits", "exporter")
"""Parameters that change no answer."""


def asked() -> str:
    """The command that is running, to be run again: options as they were given, folders left out of names of files."""
    from gpuledger.present.safe_text import shell_lines

    context = click.get_current_context()
    argv = ["gpuledger", context.command.name or ""]
    options = list[str]()
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "")
        if given is None or given.name != "COMMANDLINE" or parameter.name in _NOT_ASKED:
            continue
        value = context.params[parameter.name or ""]
        for each in value if isinstance(value, tuple) and (parameter.multiple or parameter.nargs == -1) else (value,):
            if isinstance(parameter, click.Argument):
                argv.append(_bare(each))
            else:
                flag = max(parameter.opts, key=len)
                options.append(flag if each is True else f"{flag}={_bare(each)}")
    return shell_lines([*argv, *options])[0]


def _bare(value: object) -> str:
    """A value as it was typed, without the folders of a file: a page is shared, and they are nobody's business."""
    if isinstance(value, tuple) and all(isinstance(part, str) for part in value):  # a name and a pattern
        return "=".join(value)
    if isinstance(value, tuple):  # a stretch of time
        return ":".join("" if each is None else f"{each}ns" for each in value)
    text = str(value)
    return Path(text).name or text if isinstance(value, Path) or Path(text).is_file() or Path(text).is_dir() else text


def language_option(verb: Callable[..., None]) -> Callable[..., None]:
    """--lang, handed to the verb as `language`."""
    said = "Language of text, Markdown and pages: English or Chinese. JSON and CSV are the same in both."
    return click.option("--lang", "language", type=click.Choice(LANGUAGES), default="en", help=said)(verb)


def _replace(path: Path, content: str | bytes, *, force: bool) -> None:
    with replacing(path, force=force) as file:
        file.write(content if isinstance(content, bytes) else content.encode(errors="backslashreplace"))

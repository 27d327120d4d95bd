"""Where results go: the options that every verb shares, and the writing.

Results go to stdout or a file, everything else to stderr. Some verbs also write a page, one HTML file.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec import Struct, field

from gpuledger.cli.inputs import RareOption
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


WORDS: Final = f"{__name__}.words"
"""Where a context keeps the words that a value was made from, by the parameter."""


def answer_into(context: click.Context, asked: dict[str, Any], answer: Callable[..., None], *, has_page: bool) -> None:
    """Answer into the output that was asked for: what was kept of the same question, else what `answer` shows."""
    path, force, quiet = (asked.pop(name) for name in ("path", "force", "quiet"))
    if path is not None and path.exists() and not force:
        raise refuse_existing(path)
    if path is not None and path.suffix.lower() in _NOT_WRITTEN:
        raise click.UsageError(
            f"no {path.suffix.lower()[1:]} is written; write a page (-o {path.stem}.html) and print it."
        )
    form = asked.pop("format_") or _BY_EXTENSION.get(path.suffix.lower() if path else "", "text")
    if form == PAGE and not has_page:
        raise click.UsageError(f"this verb writes no page; it writes {', '.join(FORMATS)}.")
    with progress(quiet=quiet) as line:
        line.begin(asked.get("profile"))
        output = Output(form, path, force, quiet, asked.pop("language", "en"), asked.pop("raw"), line)
        question = asked_question(context, output.form)
        kept = None if question is None else question.kept()
        if kept is not None:
            output.write(*kept)
            return
        began = time.monotonic()
        answer(output=output, **asked)
        if question is not None and len(output.shown) == 1 and question.is_worth_keeping(time.monotonic() - began):
            question.keep(*output.shown[0], asked_question(context, output.form))


def output_parameters(*, has_page: bool = True, is_english: bool = False) -> list[click.Parameter]:
    """--format, --lang, --output, --force and --quiet: where an answer goes, and how it is written."""
    return [
        click.Option(
            ["--format", "format_"],
            type=click.Choice((*FORMATS, PAGE) if has_page else FORMATS),
            help="Output format. Default: from the extension of --output, else text.",
        ),
        click.Option(
            ["-o", "--output", "path"],
            type=click.Path(path_type=Path, dir_okay=False),
            help="Write to this file instead of stdout.",
        ),
        *([] if is_english else [language_parameter()]),
        RareOption(["--raw"], is_flag=True, help="Print exact numbers (ns, bytes) and ids, as CSV and JSON do."),
        RareOption(["--force"], is_flag=True, help="Overwrite the output file if it exists."),
        RareOption(["-q", "--quiet"], is_flag=True, help="No progress or notes, only the result and errors."),
    ]


def language_parameter() -> click.Option:
    """--lang, handed to the verb as `language`."""
    said = "Language of text, Markdown and pages: English or Chinese. JSON and CSV are the same in both."
    return RareOption(["--lang", "language"], type=click.Choice(LANGUAGES), default="en", help=said)


_NOT_ASKED: Final = ("force", "quiet", "no_cache", "limits", "exporter")
"""Parameters that change no answer."""


def asked() -> str:
    """The command that is running, to be run again: options as they were given, folders left out of names of files."""
    from gpuledger.present.safe_text import shell_lines

    context = click.get_current_context()
    argv, options = ["gpuledger", context.command.name or ""], list[str]()
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "")
        if given is None or given.name != "COMMANDLINE" or parameter.name in _NOT_ASKED:
            continue
        value = context.meta.get(f"{WORDS}.{parameter.name}", context.params[parameter.name or ""])
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(parameter, click.Argument):
                argv.append(_bare(each))
            else:
                flag = max(parameter.opts, key=len)
                options.append(flag if each is True else f"{flag}={_bare(each)}")
    return shell_lines([*argv, *options])[0]


def _bare(value: object) -> str:
    """A value as it was typed, without the folders of a file: a page is shared, and they are nobody's business."""
    text = str(value)
    return Path(text).name or text if isinstance(value, Path) or Path(text).is_file() or Path(text).is_dir() else text


def _replace(path: Path, content: str | bytes, *, force: bool) -> None:
    with replacing(path, force=force) as file:
        file.write(content if isinstance(content, bytes) else content.encode(errors="backslashreplace"))

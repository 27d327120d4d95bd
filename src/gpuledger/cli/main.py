"""The `gpuledger` command. Verbs are imported when they are called, so that `--help` is there at once."""

from __future__ import annotations

import codecs
import gc
import importlib
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final, NoReturn, TextIO

import click
from click.shell_completion import CompletionItem

from gpuledger.cli.terminal import has_colours, help_width, progress
from gpuledger.errors import GpuledgerError, OutputRefused
from gpuledger.system.interruption import noted_interrupts
from gpuledger.system.resources import keep_freed_memory, patient_writer
from gpuledger.verbs import GROUPS, RENAMED, VERBS


@contextmanager
def _one_thread_of_numpy() -> Iterator[None]:
    """Keep numpy from starting a thread on each core for products of matrices, which we make none of.

    They spin before they sleep: on 16 cores for longer than a report takes. What we start later is not to inherit it.
    """
    if "OPENBLAS_NUM_THREADS" in os.environ:
        yield
        return
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        del os.environ["OPENBLAS_NUM_THREADS"]


def verb_named(name: str) -> click.Command:
    """A verb's command: made from the function that answers it, or from that of `cli.verbs`, which acts or shows."""
    answer = answering(name) if VERBS[name].answers else None
    place = f"gpuledger.cli.verbs.{name}"
    own = getattr(load(place), name) if find_spec(place) else None
    if isinstance(own, click.Command):
        return own
    return load("gpuledger.cli.commands").command_of(  # type: ignore[no-any-return]
        answer or own,
        show=own if answer else None,
        has_page=VERBS[name].has_page,
        is_english=VERBS[name].is_english,
    )


def answering(name: str) -> Callable[..., Any]:
    """The function that answers a verb's question, loaded when it is asked: not for help, nor for what was kept."""
    answer: Callable[..., Any] = getattr(load(f"gpuledger.verbs.{name}"), name)
    return answer


def load(module: str, *more: str) -> ModuleType:
    """A module and all that it imports, in a process that does little besides."""
    gc.disable()
    with _one_thread_of_numpy():
        loaded, *_ = map(importlib.import_module, (module, *more))
    gc.freeze()  # what was imported stays: no cycles are looked for in it
    gc.enable()
    return loaded


class Verbs(click.Group):
    """A group that knows its verbs by name and loads each when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "help":
            return load("gpuledger.cli.help").help_  # type: ignore[no-any-return]
        return verb_named(cmd_name) if cmd_name in VERBS else None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Verbs by name, none of them loaded; then options."""
        verbs = [CompletionItem(name, help=verb.help) for name, verb in VERBS.items() if name.startswith(incomplete)]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for question, verbs in GROUPS.items():
            with formatter.section(question):
                formatter.write_dl([(name, verb.help) for name, verb in verbs.items()], col_max=11)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in (*VERBS, "help") and not args[0].startswith("-"):
            # a file alone: what most want to know of it; or what looks like one, which a report says is not there
            if os.access(args[0].partition("::")[0], os.F_OK) or "." in args[0] or os.sep in args[0]:
                return super().resolve_command(ctx, ["report", *args])
            if args[0] in RENAMED:
                raise click.UsageError(f"`{args[0]}` is a part of `gpuledger {RENAMED[args[0]]}` now.", ctx)
            meant = load("gpuledger.cli.help").meant_by(args[0])
            raise click.UsageError(f"no verb {args[0]!r}. {meant}", ctx)
        if not sys.stderr.isatty():
            return super().resolve_command(ctx, args)
        with progress(quiet=any(asked in args for asked in ("-q", "--quiet"))) as line:
            line.stage("starting")  # on a busy machine the imports of a verb take a while
            return super().resolve_command(ctx, args)


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from gpuledger.version import own_version

        click.echo(f"gpuledger {own_version()}")
        ctx.exit()


@click.command(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with `gpuledger report run.sqlite`. More: `gpuledger VERB --help`; `gpuledger help WORDS` finds the "
    "command for a question. A PROFILE may be `-`, standard input.",
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
def cli() -> None:
    """Show where a GPU's time went, and what to do about it.

    Reads reports of Nsight Systems (.nsys-rep, .qdrep) and their exports (SQLite, parquetdir, arrowdir) without an
    nsys installation, what torch.profiler writes (.json, .json.gz), databases, JSON and CSV of AMD's rocprofv3,
    rocprof and rocmProfileData, profiles of JAX and TensorFlow (.xplane.pb), and reports of Nsight Compute
    (.ncu-rep, CSV). `gpuledger FILE` is `gpuledger report FILE`. Results go to stdout, everything else to stderr.
    """


def main() -> NoReturn:
    """Run the command and end the process: 0 done, 1 could not, 2 usage, 130 interrupted."""
    keep_freed_memory()
    _prepare_streams()
    with noted_interrupts() as interrupts:
        code = _run(interrupts)
    try:
        sys.stdout.flush()  # whatever it still holds: at exit it would be too late for a sentence
    except (OutputRefused, ReaderGone) as error:
        _discard(sys.stdout)
        # a failure that was met while writing has been told already, and comes back here with what is still held
        if isinstance(error, OutputRefused) and code == 0:
            _tell(_colour(sentence(error)))
            code = error.exit_code
    gc.freeze()  # nor at the end, in what the system drops as a whole
    sys.exit(code)


class ReaderGone(Exception):
    """Whoever read our output has closed it. (Click would take a BrokenPipeError for a failure.)"""


class Stdout(io.TextIOWrapper):
    """Where results go. That they cannot be written is one sentence; that their reader has gone is no failure."""

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError as error:
            raise _refusal(error) from error

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise _refusal(error) from error


def _refusal(error: OSError) -> Exception:
    if isinstance(error, BrokenPipeError):
        return ReaderGone()
    return OutputRefused(f"stdout cannot be written: {(error.strerror or str(error)).lower()}")


def _prepare_streams() -> None:
    """Our own stdout; every byte is written, and no text that a stream's encoding does not know; and stand-ins for
    streams that are closed.

    A stand-in keeps its number from the next file that is opened. Writing a result to one fails, as it must.
    """
    for name, flags in (("stdin", os.O_RDONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode, encoding="utf-8", closefd=False))
    sys.stdout = _written_whole(sys.stdout, Stdout)
    sys.stderr = _written_whole(sys.stderr, io.TextIOWrapper)


_DRAWN: Final = str.maketrans("█▉▊▋▌▐▍▎▏▓▒░─│┼·…–→✓✗µ×▁▂▃▄▅▆▇", "######---#+.-|+-~->vxux_.-=+*%")
"""What our own tables, bars and sentences are made of, where an encoding has no more than ASCII: each one letter."""
_IN_ASCII: Final = "gpuledger.in-ascii"


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end].translate(_DRAWN)
    return letters.encode("ascii", "backslashreplace").decode(), error.end


codecs.register_error(_IN_ASCII, _in_ascii)


def _written_whole(before: TextIO, kind: type[io.TextIOWrapper]) -> io.TextIOWrapper:
    """A stream of this kind in the place of one that Python made, on the same open file."""
    return kind(
        patient_writer(before.fileno()),
        encoding=before.encoding,
        errors=_IN_ASCII,
        newline="\n",
        line_buffering=before is sys.stderr or before.isatty(),
    )


def _discard(stream: TextIO) -> None:
    """Let go of what a stream holds and cannot write: Python would try again at exit, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _run(interrupts: Sequence[int] = ()) -> int:
    """Run the command; what fails after one of the `interrupts` failed because of it."""
    try:
        cli.main(prog_name="gpuledger", standalone_mode=False, terminal_width=help_width(sys.stdout))
    except click.ClickException as error:
        words = io.StringIO()
        error.show(words)
        from gpuledger.present.safe_text import visible_lines

        _tell(visible_lines(words.getvalue().rstrip("\n")))
        return error.exit_code
    except GpuledgerError as error:
        if os.environ.get("GPULEDGER_DEBUG") == "1":
            raise
        _tell(_colour(sentence(error)))
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        _tell("interrupted")
        return 130
    except ReaderGone:
        return 0
    except Exception as error:
        if os.environ.get("GPULEDGER_DEBUG") == "1":
            raise
        if interrupts:
            _tell("interrupted")
            return 130
        _tell(_colour(sentence(_internal_error(error))))
        return 1
    return 0


def _tell(text: str) -> None:
    """Say it on stderr; where that cannot be written either, the exit code is all there is."""
    try:
        click.echo(text, err=True, color=has_colours(sys.stderr))
    except OSError:
        _discard(sys.stderr)


def _colour(told: str) -> str:
    if not has_colours(sys.stderr):
        return told
    marks = {"error:": click.style("error:", fg="red", bold=True), "hint:": click.style("hint:", fg="cyan")}
    lines = told.split("\n")
    return "\n".join(f"{marks.get(head, head)}{space}{rest}" for head, space, rest in (x.partition(" ") for x in lines))


def _internal_error(error: Exception) -> GpuledgerError:
    what = "not enough memory" if isinstance(error, MemoryError) else f"{type(error).__name__}: {error}"
    hint = "this is a bug in gpuledger; GPULEDGER_DEBUG=1 shows where"
    return GpuledgerError(f"internal error: {what}", hint="" if isinstance(error, MemoryError) else hint)


_LONGEST_LINE: Final = 1_000
"""Of an error: what a file calls its tables and columns may be as long as the file."""


def sentence(error: GpuledgerError) -> str:
    """An error for stderr: the claim, what was found set under it, and the hint after an empty line."""
    from gpuledger.present.safe_text import visible

    def told(text: str) -> str:
        return visible(
            text if len(text) <= _LONGEST_LINE else f"{text[: _LONGEST_LINE // 2]}…{text[-_LONGEST_LINE // 2 :]}"
        )

    lines = [f"error: {told(error.claim)}"]
    lines += [f"       {told(line)}" for line in error.found.splitlines()]
    if error.hint:
        lines += ["", f"hint: {told(error.hint)}"]
    return "\n".join(lines)

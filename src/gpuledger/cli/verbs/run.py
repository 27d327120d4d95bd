"""`gpuledger run`: a whole matrix of benchmarks, captures and comparisons with one command."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import click

from gpuledger.capture.secrets import without_secrets
from gpuledger.cli.output import Output
from gpuledger.errors import GpuledgerError, OutputRefused
from gpuledger.present.safe_text import visible
from gpuledger.present.views.runs.runbook import (
    RunbookAnswer,
    commands_text,
    folder_line,
    listed_runbooks,
    runbook_answer,
)
from gpuledger.present.writers import write
from gpuledger.runbook.definition import MatrixCell, Runbook, cells_of
from gpuledger.runbook.engine import (
    FINISHED,
    Engine,
    all_needs,
    is_free,
    lock_folder,
    make_folder,
    runbook_text,
    shipped_runbooks,
    shipped_text,
    state_of,
    write_whole,
)
from gpuledger.runbook.forms import suggestion
from gpuledger.runbook.plan import (
    Choices,
    cell_needs,
    comparisons_of,
    environment_of,
    jobs_of,
    prelude_of,
    shown_jobs,
    shown_settings,
)
from gpuledger.runbook.read import missing, runbook_of
from gpuledger.system.interruption import Interruption
from gpuledger.verbs.definition import Option, VerbArgument
from gpuledger.version import own_version

INTERRUPTED = 130


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise ValueError(f"{text!r}: expected NAME=VALUE")
    return name, value


def run(
    runbook: Annotated[str | None, VerbArgument(completes=shipped_runbooks)] = None,
    *,
    list_: Annotated[
        bool, Option("List the runbooks that come with gpuledger, and their questions.", "--list")
    ] = False,
    size: Annotated[
        str | None,
        Option("One of the runbook's sizes. Default: real where a GPU is, else small.", metavar="SIZE"),
    ] = None,
    set_: Annotated[tuple[tuple[str, str], ...], Option("Set a variable.", "--set", "NAME=VALUE", _pair)] = (),
    picked: Annotated[
        tuple[tuple[str, str], ...], Option("Only cells with this value.", "--cell", "AXIS=VALUE", _pair)
    ] = (),
    via: Annotated[
        str | None,
        Option(
            "Run its programs elsewhere, e.g. --via='ssh HOST' or --via='kubectl exec POD --'; figures and profiles "
            "are copied back.",
            metavar="PREFIX",
        ),
    ] = None,
    dry_run: Annotated[bool, Option("Print every command of every cell; run nothing.")] = False,
    keep_going: Annotated[bool, Option("Where a cell fails, go on with the next.")] = False,
    again: Annotated[bool, Option("Run finished cells again too.")] = False,
    format_: Annotated[
        Literal["text", "md", "csv", "json"], Option("Output format. Default: text.", "--format")
    ] = "text",
    folder: Annotated[
        Path | None, Option("The folder to work in. Default: runs/NAME.", "-o --output", completes="files")
    ] = None,
    quiet: Annotated[bool, Option("No progress or notes, only the result and errors.", "-q --quiet")] = False,
) -> None:
    """Run RUNBOOK: benchmarks and captures over a matrix of settings, with a table over its cells.

    RUNBOOK is a YAML file, or the name of one that comes with gpuledger. For every cell of its matrix it runs the
    steps in order, each with its log in the cell's folder, then compares cells, holds predicted savings against
    measured ones, and checks targets. What cannot run here, for lack of a GPU or nsys, is skipped and reported.

    Finished cells are kept: the same command goes on after an interruption, and runs again only what changed.

    \b
    Examples:
      gpuledger run --list
      gpuledger run moe-launches --dry-run
      gpuledger run moe-launches --size=small --set iters=5
      gpuledger run matrix.yaml --cell mode=grouped --again -o runs/tuesday
      gpuledger run serve-experts --via='ssh gpu-1' --set ranks_as=processes

    Exit codes: 0 done, 1 a step failed, 3 a target was missed, 130 interrupted.
    """
    output = Output(format_, None, force=False, quiet=quiet)
    if runbook is None or list_:
        books = [runbook_of(shipped_text(name), f"{name}.yaml") for name in shipped_runbooks()]
        output.show(listed_runbooks(books).document())
        return
    book, here = _find_runbook(runbook, via)
    lacking = missing(all_needs(book) if book.sizes == {} or book.via else ("gpu", *all_needs(book)))
    choices = Choices(
        chosen := _size(book, size, lacking),
        _variables(book, chosen, set_),
        (folder or Path("runs") / book.name).absolute(),
        here.absolute(),
        sys.executable,
    )
    every = cells_of(book)
    cells = _cells(book, every, picked)
    if dry_run:
        sys.stdout.write(_commands(book, cells, choices, chosen_all=len(cells) == len(every)))
        return
    if not is_free(choices.folder):
        raise OutputRefused(f"{choices.folder}: is there already, and no run's", hint="choose another with --output")

    def tell(line: str) -> None:
        if not quiet:
            click.echo(visible(line), err=True)

    if size is None and book.sizes:
        tell(f"size {chosen}" + (f", as {lacking['gpu']}" if "gpu" in lacking and chosen == "small" else ""))
    make_folder(choices.folder)
    with lock_folder(choices.folder), Interruption() as interruption:
        state = state_of(choices.folder, book.name)
        ran = Engine(book, choices, lacking, own_version(), tell).run(
            cells, state, interruption, every=every, again=again, keep_going=keep_going
        )
        answer, failures = runbook_answer(book, choices, every, ran, lacking)
        document = answer.document()
        write_whole(choices.folder / "summary.md", write(document, "md"))
        write_whole(choices.folder / "summary.json", write(document, "json"))
        typed = shlex.join(["gpuledger", "run", runbook, *([f"--size={chosen}"] if chosen else []), *_given(set_, via)])
        write_whole(choices.folder / "summary.html", write(document, "html", command=typed))
    _end(answer, failures, choices, output)


def _end(answer: RunbookAnswer, failures: Sequence[GpuledgerError], choices: Choices, output: Output) -> None:
    if answer.verdict == "interrupted":
        kept = sum(row.state == FINISHED for row in answer.cells)
        click.echo(f"interrupted; {kept} of {len(answer.cells)} cells are kept: the same command goes on", err=True)
        sys.exit(INTERRUPTED)
    missed = (f"missed: {miss}" for miss in answer.misses)
    output.show(answer.document(), remarks=[folder_line(choices), *missed])
    if failures:
        raise failures[0]
    if answer.exit_code:
        sys.exit(answer.exit_code)


def _given(set_: Sequence[tuple[str, str]], via: str | None) -> list[str]:
    """What a run was given, to be typed again; what looks like a secret is not shown."""
    place = [] if via is None else [f"--via={shlex.join(without_secrets(shlex.split(via)))}"]
    return [*(f"--set={name}={value}" for name, value in shown_settings(dict(set_)).items()), *place]


def _find_runbook(runbook: str, via: str | None) -> tuple[Runbook, Path]:
    path = Path(runbook)
    if runbook in shipped_runbooks() and not path.is_file():
        return runbook_of(shipped_text(runbook), f"{runbook}.yaml", via), Path.cwd()
    if path.suffix in (".yaml", ".yml") or path.is_file():
        return runbook_of(runbook_text(path), str(path), via), path.parent
    hint = "give the path of a .yaml file, or one of the names of `gpuledger run --list`"
    raise GpuledgerError(f"no runbook '{runbook}'; {suggestion(runbook, shipped_runbooks())}", hint=hint)


def _size(book: Runbook, asked: str | None, lacking: dict[str, str]) -> str:
    if asked is not None and asked not in book.sizes:
        raise click.BadParameter(f"'{asked}': {suggestion(asked, list(book.sizes))}", param_hint="--size")
    if asked is not None or not book.sizes:
        return asked or ""
    usual = "small" if "gpu" in lacking else "real"
    return usual if usual in book.sizes else next(iter(book.sizes))


def _variables(book: Runbook, size: str, given: Sequence[tuple[str, str]]) -> dict[str, str]:
    for name, _ in given:
        if name not in book.variables:
            raise click.BadParameter(f"'{name}': {suggestion(name, list(book.variables))}", param_hint="--set")
    return dict(book.variables) | dict(book.sizes.get(size, {})) | dict(given)


def _cells(book: Runbook, every: Sequence[MatrixCell], picked: Sequence[tuple[str, str]]) -> list[MatrixCell]:
    axes = {name: axis.values for name, axis in book.axes.items()}
    pick: dict[str, tuple[str, ...]] = {}
    for name, value in picked:
        if name not in axes:
            raise click.BadParameter(f"'{name}': {suggestion(name, list(axes))}", param_hint="--cell")
        if value not in axes[name]:
            raise click.BadParameter(f"'{name}={value}': {suggestion(value, axes[name])}", param_hint="--cell")
        pick[name] = (*pick.get(name, ()), value)
    cells = [cell for cell in every if cell.is_in(pick)]
    if not cells:
        raise click.BadParameter("the runbook excludes all of these cells", param_hint="--cell")
    return cells


def _commands(book: Runbook, cells: Sequence[MatrixCell], choices: Choices, *, chosen_all: bool) -> str:
    given = {**choices.variables, **book.environment}
    planned = []
    for cell in cells:
        variables = environment_of(book, cell, choices)
        jobs = shown_jobs(jobs_of(book, cell, choices), given | variables)
        planned.append((cell, cell_needs(book, cell), shown_settings(variables), jobs))
    compared = [comparing.job for comparing in comparisons_of(book, cells, choices)] if chosen_all else []
    return commands_text(book, shown_jobs(prelude_of(book, choices), given), planned, shown_jobs(compared, given))

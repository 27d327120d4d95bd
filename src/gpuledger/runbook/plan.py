"""What a run will do: a runbook and the choices of a run in, the commands of each cell out. Nothing is started here.

`shown_settings` and its like say what of a run people may see: the same without secrets.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from gpuledger.capture.launchers import Remote, prefix_words
from gpuledger.capture.secrets import looks_secret, may_not_be_shown, shown_value, without_secrets
from gpuledger.runbook.definition import (
    AlignCells,
    BenchStep,
    CaptureStep,
    CommandStep,
    DiffCells,
    MatrixCell,
    ReadingStep,
    Runbook,
    SavingCheck,
    Step,
    fill,
    fill_all,
    names_in,
    pairs,
)

OURS: Final = "gpuledger"  # the first word of a command of ours; it is started with the Python that runs us


class Choices(Struct, frozen=True):
    """What a run was asked for besides its runbook."""

    size: str  # '' where the runbook has none
    variables: Mapping[str, str]
    folder: Path
    here: Path
    python: str
    there: str = field(default_factory=lambda: f"/tmp/gpuledger-{secrets.token_hex(6)}")  # noqa: S108 - made anew
    """How the folders begin that steps have elsewhere, each one of its own."""

    def cell_folder(self, cell: MatrixCell) -> Path:
        return self.folder / "cells" / cell.folder


class CellJob(Struct, frozen=True):
    """A step of a cell, ready to run."""

    title: str
    commands: tuple[tuple[str, ...], ...]
    log: str  # a file in the folder of the cell
    needs: tuple[str, ...]
    inputs: tuple[Path, ...]
    optional: bool
    timeout_s: int | None
    gated: bool  # whether exit code 3 says that a target was missed, and not that the program failed
    remote: Remote | None = None  # where it runs, if not here, with the folder that it has there
    left: tuple[str, ...] = ()  # the files that it leaves in that folder, to be copied into the cell's

    def typed(self, environment: Mapping[str, str]) -> list[tuple[str, ...]]:
        """Its commands as one would type them; elsewhere the environment goes with each."""
        if self.remote is None:
            return list(self.commands)
        setting = ("env", *(f"{name}={value}" for name, value in environment.items())) if environment else ()
        return [self.remote.argv((*setting, *command)) for command in self.commands]


class _CellPlace(Struct, frozen=True):
    """Where the steps of a cell, or of the prelude, are planned: its folder, and what stands for what."""

    book: Runbook
    choices: Choices
    folder: Path
    values: Mapping[str, str]
    environment: Mapping[str, str]
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def jobs_of(book: Runbook, cell: MatrixCell, choices: Choices) -> tuple[CellJob, ...]:
    """The steps of a cell, in order."""
    folder = choices.cell_folder(cell)
    values = _values(choices) | dict(cell.values) | {"cell": cell.title, "folder": str(folder)}
    lists = {
        f"{name}.flags": tuple(fill(word, values) for word in book.axes[name].flags.get(value, ()))
        for name, value in cell.values
        if book.axes[name].flags
    }
    place = _CellPlace(book, choices, folder, values, environment_of(book, cell, choices), lists)
    profiles: dict[str, Path] = {}
    jobs = []
    for number, step in enumerate(cell.steps(book, choices.size), 1):
        jobs.append(_job(step, number, place, profiles))
        profiles |= {name: folder / file for name, file in step.profiles.items()}
    return tuple(jobs)


def prelude_of(book: Runbook, choices: Choices) -> tuple[CellJob, ...]:
    """What must succeed before the first cell."""
    folder = choices.folder / "prelude"
    values = _values(choices) | {"cell": "prelude", "folder": str(folder)}
    place = _CellPlace(book, choices, folder, values, environment_of(book, None, choices))
    return tuple(_job(step, number, place, {}) for number, step in enumerate(book.prelude, 1))


def environment_of(book: Runbook, cell: MatrixCell | None, choices: Choices) -> dict[str, str]:
    """What is set in the environment of a cell's commands, besides our own."""
    own = {} if cell is None else dict(cell.values)
    folder = choices.folder if cell is None else choices.cell_folder(cell)
    values = _values(choices) | own | {"cell": "prelude" if cell is None else cell.title, "folder": str(folder)}
    # outside of the matrix, what names an axis cannot be filled in
    known = {
        name: text
        for name, text in book.environment.items()
        if cell is not None or all(used in values for used in names_in(text))
    }
    of_axes = {axis.environment: own[name] for name, axis in book.axes.items() if axis.environment and name in own}
    return {name: fill(text, values) for name, text in known.items()} | of_axes


def cell_needs(book: Runbook, cell: MatrixCell) -> tuple[str, ...]:
    """What the values of a cell cannot do without, where it runs on this machine."""
    if book.via is not None:
        return ()
    return tuple(dict.fromkeys(need for name, value in cell.values for need in book.axes[name].needs.get(value, ())))


def fingerprint(book: Runbook, cell: MatrixCell, choices: Choices, missing: Sequence[str], version: str) -> str:
    """The same for two runs of a cell that do the same, wherever the folder lies."""
    anywhere = replace(choices, folder=Path("RUN"), here=Path("HERE"), python="PYTHON", there="THERE")
    jobs = jobs_of(book, cell, anywhere)
    does = [
        [job.commands, job.needs, job.optional, job.timeout_s, job.remote and job.remote.prefix, job.left]
        for job in jobs
    ]
    environment = environment_of(book, cell, anywhere)
    needed = sorted({*cell_needs(book, cell), *(need for job in jobs for need in job.needs)} & {*missing})
    identity = json.dumps([version, does, environment, needed, cell_needs(book, cell)], sort_keys=True)
    return hashlib.sha256(identity.encode()).hexdigest()


class PlannedComparison(Struct, frozen=True):
    """A comparison of two cells, ready to run."""

    compare: DiffCells | AlignCells
    cells: tuple[MatrixCell, MatrixCell]
    job: CellJob
    result: Path


def comparisons_of(book: Runbook, cells: Sequence[MatrixCell], choices: Choices) -> tuple[PlannedComparison, ...]:
    """Every diff and every alignment, for each pair of cells that it means."""
    folder = choices.folder / "compare"
    planned: list[PlannedComparison] = []
    for compare in book.compares:
        if isinstance(compare, SavingCheck):
            continue
        gate = ["--gate"] if isinstance(compare, AlignCells) and compare.gate == "true" else []
        flags = fill_all(compare.flags, _values(choices), {})
        for two in pairs(cells, compare.before, compare.after):
            inputs = [_profile(book, cell, name, choices) for cell, name in zip(two, compare.profiles, strict=True)]
            stem = f"{len(planned) + 1:02d}-{compare.KEY}"
            base = [OURS, compare.KEY, *map(str, inputs), *flags]
            # the gate is asked once, so that what it stops is told once
            commands = (
                (*base, f"--output={folder / f'{stem}.txt'}", "--force"),
                (*base, *gate, f"--output={folder / f'{stem}.json'}", "--force"),
            )
            title = f"{compare.KEY} {two[0].title} -> {two[1].title}"
            job = CellJob(title, commands, f"{stem}.log", (), tuple(inputs), optional=True, timeout_s=None, gated=True)
            planned.append(PlannedComparison(compare, two, job, folder / f"{stem}.json"))
    return tuple(planned)


def _profile(book: Runbook, cell: MatrixCell, name: str, choices: Choices) -> Path:
    """The file of a cell's profile; where no step of the cell leaves one, a file that is not there."""
    files = [step.profiles[name] for step in cell.steps(book, choices.size) if name in step.profiles]
    return choices.cell_folder(cell) / (files[0] if files else name)


def _values(choices: Choices) -> dict[str, str]:
    ours = {"run": str(choices.folder), "here": str(choices.here), "size": choices.size, "python": choices.python}
    return dict(choices.variables) | ours


def _job(step: Step, number: int, place: _CellPlace, profiles: Mapping[str, Path]) -> CellJob:
    prefix, values, folder = step.via_of(place.book), place.values, str(place.folder)
    via = None if prefix is None else fill(prefix, values)
    remote, left, inputs = None, tuple[str, ...](), tuple[Path, ...]()
    if via is not None:
        there = f"{place.choices.there}-{place.folder.name}-{number}"
        values = {**values, "folder": there, "python": "python3"}
        if not isinstance(step, CaptureStep):  # which goes there by itself
            folder, remote = there, Remote(prefix_words(via), there)
            left = (*([f"{step.name}.json"] if step.name else []), *step.profiles.values())

    def words(given: tuple[str, ...]) -> list[str]:
        return fill_all(given, values, place.lists)

    match step:
        case BenchStep():
            name, *rest = words(step.bench)
            title = f"bench {name}"
            commands = [[OURS, "bench", name, *rest, f"--output={folder}/{step.name}.json", "--force"]]
        case CaptureStep():
            title = f"capture {step.tool}"
            options = [*words(step.flags), *_carrying(step, via, list(place.environment))]
            us = [] if step.bench is None else [*([place.choices.python, "-m"] if via is None else []), OURS, "bench"]
            kept = [f"--output={folder}/{step.name}", "--force", "--no-report"]
            commands = [[OURS, "capture", step.tool, *options, *kept, "--", *us, *words(step.program)]]
        case ReadingStep():
            title = f"{step.KEY} {step.profile}"
            joined = [] if step.ncu is None else [profiles[step.ncu]]
            inputs = (profiles[step.profile], *joined)
            base = [OURS, step.KEY, str(inputs[0]), *(f"--ncu={path}" for path in joined), *words(step.flags)]
            commands = [[*base, f"--output={folder}/{step.name}.{ending}", "--force"] for ending in step.formats]
        case CommandStep():
            commands = [words(step.command)]
            title = f"command {Path(commands[0][0]).name}"
    log = f"{number:02d}-{title.replace(' ', '-').replace('/', '_')[:60]}.log"
    timeout_s = None if step.timeout_s is None else int(step.timeout_s)
    needs, runs = step.needs_of(place.book), tuple(map(tuple, commands))
    gated = runs[0][0] == OURS and not isinstance(step, CaptureStep)
    return CellJob(title, runs, log, needs, inputs, step.is_optional, timeout_s, gated, remote, left)


def _carrying(step: CaptureStep, via: str | None, variables: Sequence[str]) -> list[str]:
    """What tells `capture` where to go, unless the step's own flags do, and which variables to take or to note."""
    has_own = any(flag == "--via" or flag.startswith("--via=") for flag in step.own_flags)
    leads = [] if via is None or has_own else [f"--via={via}"]
    return [*leads, *(f"--env={name}" for name in variables if via is not None or not looks_secret(name))]


def shown_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Variables by name."""
    return {name: shown_value(name, text) for name, text in settings.items()}


def shown_command(command: Sequence[str], settings: Mapping[str, str]) -> list[str]:
    """A command in which these settings may stand."""
    return without_secrets(command, known=[text for name, text in settings.items() if may_not_be_shown(name, text)])


def shown_jobs(jobs: Sequence[CellJob], settings: Mapping[str, str]) -> list[CellJob]:
    """Steps with commands that are for people to read."""
    return [
        replace(job, commands=tuple(tuple(shown_command(command, settings)) for command in job.commands))
        for job in jobs
    ]

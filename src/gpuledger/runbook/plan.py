"""What a run will do: a runbook and the choices of a run in, the commands of each cell out. Nothing is started here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gpuledger.capture.environment import looks_secret
from gpuledger.runbook.book import Align, Bench, Capture, Command, Diff, Report, Runbook, Step
from gpuledger.runbook.fill import all_filled, filled
from gpuledger.runbook.matrix import Cell, pairs, profiles_of

OURS: Final = "gpuledger"
"""The first word of a command of ours; it is started with the Python that runs us."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What a run was asked for besides its runbook."""

    size: str
    """'' where the runbook has none."""
    variables: Mapping[str, str]
    folder: Path
    here: Path
    """Where the runbook lies."""
    python: str

    def cell_folder(self, cell: Cell) -> Path:
        return self.folder / "cells" / cell.folder


@dataclass(frozen=True, slots=True)
class Job:
    """A step of a cell, ready to run."""

    title: str
    commands: tuple[tuple[str, ...], ...]
    log: str
    """A file in the folder of the cell."""
    needs: tuple[str, ...]
    inputs: tuple[Path, ...]
    """Profiles that must be there."""
    optional: bool
    timeout_s: int | None
    gated: bool
    """Whether exit code 3 says that a target was missed, and not that the program failed."""


def jobs_of(book: Runbook, cell: Cell, choices: Choices) -> tuple[Job, ...]:
    """The steps of a cell, in order."""
    axes = {axis.name: axis for axis in book.axes}
    folder = choices.cell_folder(cell)
    values = _values(choices) | dict(cell.values) | {"cell": cell.title, "folder": str(folder)}
    lists = {
        f"{name}.flags": tuple(filled(word, values) for word in axes[name].flags[value])
        for name, value in cell.values
        if axes[name].flags
    }
    profiles: dict[str, Path] = {}
    variables = list(environment_of(book, cell, choices))
    jobs = []
    for at, step in enumerate(cell.steps(book, choices.size), 1):
        jobs.append(_job(step, at, folder, values, lists, profiles, variables, choices))
        profiles |= {name: folder / file for name, file in profiles_of(step).items()}
    return tuple(jobs)


def prelude_of(book: Runbook, choices: Choices) -> tuple[Job, ...]:
    """What must succeed before the first cell."""
    folder = choices.folder / "prelude"
    values = _values(choices) | {"cell": "prelude", "folder": str(folder)}
    return tuple(_job(step, at, folder, values, {}, {}, (), choices) for at, step in enumerate(book.prelude, 1))


def environment_of(book: Runbook, cell: Cell | None, choices: Choices) -> dict[str, str]:
    """What is set in the environment of a cell's commands, besides our own."""
    own = {} if cell is None else dict(cell.values)
    folder = choices.folder if cell is None else choices.cell_folder(cell)
    values = _values(choices) | own | {"cell": "prelude" if cell is None else cell.title, "folder": str(folder)}
    known = {name: text for name, text in book.environment.items() if cell is not None or _is_known(text, values)}
    made = {name: filled(text, values) for name, text in known.items()}
    return made | {axis.variable: own[axis.name] for axis in book.axes if axis.variable and axis.name in own}


def cell_needs(book: Runbook, cell: Cell) -> tuple[str, ...]:
    """What the values of a cell cannot do without."""
    axes = {axis.name: axis for axis in book.axes}
    return tuple(dict.fromkeys(need for name, value in cell.values for need in axes[name].needs.get(value, ())))


def fingerprint(book: Runbook, cell: Cell, choices: Choices, missing: Sequence[str], version: str) -> str:
    """The same for two runs of a cell that do the same, wherever the folder lies."""
    anywhere = replace(choices, folder=Path("RUN"), here=Path("HERE"), python="PYTHON")
    jobs = jobs_of(book, cell, anywhere)
    does = [[job.commands, job.needs, job.optional, job.timeout_s] for job in jobs]
    environment = environment_of(book, cell, anywhere)
    needed = sorted({*cell_needs(book, cell), *(need for job in jobs for need in job.needs)} & {*missing})
    said = json.dumps([version, does, environment, needed, cell_needs(book, cell)], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Comparing:
    """A comparison of two cells, ready to run."""

    compare: Diff | Align
    cells: tuple[Cell, Cell]
    job: Job
    result: Path
    """The JSON that it leaves."""


def comparisons_of(book: Runbook, cells: Sequence[Cell], choices: Choices) -> tuple[Comparing, ...]:
    """Every diff and every alignment, for each pair of cells that it means."""
    made: list[Comparing] = []
    for compare in book.compares:
        if isinstance(compare, Diff | Align):
            picks = (compare.before, compare.after) if isinstance(compare, Diff) else (compare.mock, compare.e2e)
            for two in pairs(cells, *picks):
                made.append(_comparing(book, compare, two, len(made) + 1, choices))
    return tuple(made)


def _comparing(
    book: Runbook, compare: Diff | Align, two: tuple[Cell, Cell], number: int, choices: Choices
) -> Comparing:
    verb = "diff" if isinstance(compare, Diff) else "align"
    profiles = (
        (compare.profile, compare.profile) if isinstance(compare, Diff) else (compare.mock_profile, compare.e2e_profile)
    )
    inputs = [_profile(book, cell, name, choices) for cell, name in zip(two, profiles, strict=True)]
    folder = choices.folder / "compare"
    stem = f"{number:02d}-{verb}"
    flags = all_filled(compare.flags, _values(choices), {})
    gate = ["--gate"] if isinstance(compare, Align) and compare.gate else []
    base = [OURS, verb, *map(str, inputs), *flags]
    # the gate is asked once, so that what it stops is told once
    commands = (
        (*base, f"--output={folder / f'{stem}.txt'}", "--force"),
        (*base, *gate, f"--output={folder / f'{stem}.json'}", "--force"),
    )
    title = f"{verb} {two[0].title} -> {two[1].title}"
    job = Job(title, commands, f"{stem}.log", (), tuple(inputs), optional=True, timeout_s=None, gated=True)
    return Comparing(compare, two, job, folder / f"{stem}.json")


def _profile(book: Runbook, cell: Cell, name: str, choices: Choices) -> Path:
    """The file of a cell's profile; where no step of the cell leaves one, a file that is not there."""
    found = [files[name] for step in cell.steps(book, choices.size) if name in (files := profiles_of(step))]
    return choices.cell_folder(cell) / (found[0] if found else name)


def _values(choices: Choices) -> dict[str, str]:
    ours = {"run": str(choices.folder), "here": str(choices.here), "size": choices.size, "python": choices.python}
    return dict(choices.variables) | ours


def _is_known(text: str, values: Mapping[str, str]) -> bool:
    """Whether a word can be filled in outside of the matrix."""
    try:
        filled(text, values)
    except KeyError:
        return False
    return True


def _job(
    step: Step,
    number: int,
    folder: Path,
    values: Mapping[str, str],
    lists: Mapping[str, tuple[str, ...]],
    profiles: Mapping[str, Path],
    variables: Sequence[str],
    choices: Choices,
) -> Job:
    def words(given: tuple[str, ...]) -> list[str]:
        return all_filled(given, values, lists)

    inputs: tuple[Path, ...] = ()
    gated = True
    match step.does:
        case Bench(given):
            name, *rest = words(given)
            title = f"bench {name}"
            target = folder / f"{step.name}.json"
            commands = [[OURS, "bench", name, *rest, f"--output={target}", "--force"]]
        case Capture(tool, flags, given, is_bench):
            title = f"capture {tool}"
            program = [choices.python, "-m", OURS, "bench", *words(given)] if is_bench else words(given)
            target = folder / step.name
            told = [f"--env={name}" for name in variables if not looks_secret(name)]
            ours = [OURS, "capture", tool, *words(flags), *told, f"--output={target}", "--force", "--no-report"]
            commands = [[*ours, "--", *program]]
            gated = False
        case Report(profile, flags, formats, ncu):
            title = f"report {profile}"
            inputs = (profiles[profile], *(() if ncu is None else (profiles[ncu],)))
            joined = [] if ncu is None else [f"--ncu={profiles[ncu]}"]
            base = [OURS, "report", str(profiles[profile]), *joined, *words(flags)]
            commands = [[*base, f"--output={folder / f'{step.name}.{ending}'}", "--force"] for ending in formats]
        case Command(given, _):
            commands = [words(given)]
            title = f"command {Path(commands[0][0]).name}"
            gated = commands[0][0] == OURS
    log = f"{number:02d}-{title.replace(' ', '-').replace('/', '_')[:60]}.log"
    made = tuple(tuple(command) for command in commands)
    return Job(title, made, log, step.needs, inputs, step.optional, step.timeout_s, gated)

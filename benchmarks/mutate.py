"""How well the tests guard definitions: each of `mutations.yaml` is changed in the source, and the tests must fail.

    python benchmarks/mutate.py                  every mutation with its own tests
    python benchmarks/mutate.py --only ID,ID     some of them
    python benchmarks/mutate.py --tests A,B      with other tests than its own, to be sure of a survivor
    python benchmarks/mutate.py --list           what there is, and where in the source it is

A mutation is found by its text alone, wherever that stands in src/gpuledger. The source is restored after each one,
whatever happens in between.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, NoReturn

import click
import msgspec
import yaml

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = ROOT / "src" / "gpuledger"
MUTATIONS: Final = ROOT / "benchmarks" / "mutations.yaml"

LONGEST_S: Final = 300
"""Tests that take longer are caught in an endless loop, or in what would be one."""

_PASSED: Final = 0
_NOT_RUN: Final = (4, 5)
"""What pytest returns when it is called wrongly, and when there is no test."""
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


class Outcome(StrEnum):
    """What became of a mutation."""

    CAUGHT = "caught"
    SURVIVED = "SURVIVED"
    NOT_FOUND = "not found"
    """Its text is not in the source, or not exactly once."""
    NOT_RUN = "not run"
    """Pytest found no tests."""


class Mutation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One definition, changed."""

    id: str
    room: str
    what: str
    """In plain English: which definition is changed."""
    file: str
    """Where it was when this was written: a hint for people."""
    old: str
    new: str
    tests: list[str]
    """Folders and files that should notice, the quickest first: they are run one after the other."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one mutation, and how."""

    id: str
    room: str
    outcome: Outcome
    file: str
    by: str
    """The test that failed first; how it ended where none did."""
    seconds: float


def mutations(path: Path = MUTATIONS) -> list[Mutation]:
    """All there are; no two have one id."""
    found = msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), list[Mutation])
    twice = [each for each, count in Counter(mutation.id for mutation in found).items() if count > 1]
    if twice:
        raise click.ClickException(f"ids that are there twice: {', '.join(twice)}")
    return found


def place(mutation: Mutation) -> Path | None:
    """The file that holds the old text, where it is there exactly once."""
    counts = {path: path.read_text(encoding="utf-8").count(mutation.old) for path in sorted(SOURCE.rglob("*.py"))}
    holding = [path for path, count in counts.items() if count]
    return holding[0] if sum(counts.values()) == 1 else None


@contextmanager
def mutated(path: Path, mutation: Mutation) -> Iterator[None]:
    """The source with the mutation, restored at the end."""
    before = path.read_bytes()
    changed = before.decode().replace(mutation.old, mutation.new)
    compile(changed, path, "exec")  # what is no Python would be caught by any test
    try:
        path.write_bytes(changed.encode())
        yield
    finally:
        path.write_bytes(before)


def tried(mutation: Mutation, tests: Sequence[str]) -> Result:
    """Mutate, run the tests, restore."""
    path = place(mutation)
    if path is None:
        return Result(mutation.id, mutation.room, Outcome.NOT_FOUND, "", "", 0.0)
    began = time.monotonic()
    with mutated(path, mutation):
        outcome, by = _tested(tests)
    seconds = round(time.monotonic() - began, 1)
    return Result(mutation.id, mutation.room, outcome, str(path.relative_to(ROOT)), by, seconds)


def _tested(tests: Sequence[str]) -> tuple[Outcome, str]:
    """What the tests say of the source as it is now: one folder or file after the other, until one fails."""
    ends_s = time.monotonic() + LONGEST_S
    for each in tests:
        outcome, by = _tested_by(each, ends_s - time.monotonic())
        if outcome is not Outcome.SURVIVED:
            return outcome, by
    return Outcome.SURVIVED, ""


def _tested_by(tests: str, longest_s: float) -> tuple[Outcome, str]:
    paths = os.pathsep.join(str(ROOT / folder) for folder in ("src", "tests"))
    environment = os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", tests]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=longest_s, check=False
        )
    except subprocess.TimeoutExpired:
        return Outcome.CAUGHT, f"after {LONGEST_S} s"
    if done.returncode == _PASSED:
        return Outcome.SURVIVED, ""
    if done.returncode in _NOT_RUN:
        return Outcome.NOT_RUN, done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""
    failed = _FAILED.search(done.stdout)
    return Outcome.CAUGHT, failed[1] if failed else f"pytest returned {done.returncode}"


def _refuse_changes() -> None:
    """What is changed in the source would be taken for the definition, and could be lost."""
    command = ["git", "status", "--porcelain", "--", "src"]
    changes = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    if changes:
        raise click.ClickException(f"there are changes under src; commit or stash them first:\n{changes.rstrip()}")


def _end(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def _chosen(known: list[Mutation], only: str) -> list[Mutation]:
    wanted = [each.strip() for each in only.split(",") if each.strip()]
    unknown = set(wanted) - {mutation.id for mutation in known}
    if unknown:
        raise click.ClickException(f"no such mutation: {', '.join(sorted(unknown))}")
    return [mutation for mutation in known if not wanted or mutation.id in wanted]


def _summary(results: Sequence[Result]) -> Iterator[str]:
    """How many of each outcome, by room and in all."""
    for room in (*dict.fromkeys(result.room for result in results), "all"):
        outcomes = Counter(result.outcome for result in results if room in (result.room, "all"))
        yield f"{room:9} " + ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in Outcome if outcomes[outcome])


@click.command(help=__doc__)
@click.option("--only", default="", help="Ids of the mutations to try, with commas between them.")
@click.option("--tests", default="", help="Folders and files to run instead of each mutation's own.")
@click.option("--list", "list_only", is_flag=True, help="Say what there is; try nothing.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the results into this file.")
def main(only: str, tests: str, list_only: bool, json_path: Path | None) -> None:
    """Try the mutations and say which of them no test notices."""
    chosen = _chosen(mutations(), only)
    if list_only:
        for mutation in chosen:
            path = place(mutation)
            where = Outcome.NOT_FOUND if path is None else path.relative_to(SOURCE)
            click.echo(f"{mutation.id:28} {mutation.room:9} {where}: {mutation.what}")
        return
    _refuse_changes()
    signal.signal(signal.SIGTERM, _end)  # as Ctrl-C does, so that the source is restored
    results: list[Result] = []
    for mutation in chosen:
        results.append(result := tried(mutation, tests.split(",") if tests else mutation.tests))
        click.echo(f"{result.outcome:9} {result.id:28} {result.seconds:6.1f} s  {result.by}")
        if json_path is not None:  # after each: what was measured is not lost with what comes later
            json_path.write_bytes(msgspec.json.format(msgspec.json.encode(results)))
    for line in _summary(results):
        click.echo(line)
    sys.exit(any(result.outcome is not Outcome.CAUGHT for result in results))


if __name__ == "__main__":
    main()

"""How well the tests guard the source: it is changed in one place, and the tests of that room must fail.

    python benchmarks/mutate.py --count=20 --seed=1     places drawn at random
    python benchmarks/mutate.py --rooms=ledger,replay   in these rooms
    python benchmarks/mutate.py --written               the definitions of mutations.yaml instead, with their own tests
    python benchmarks/mutate.py --only=ID,ID            some of those
    python benchmarks/mutate.py --tests=A,B             with these tests, to be sure of a survivor
    python benchmarks/mutate.py --list                  what would be changed; no test runs

The tests of a place are those in the nearest folder under tests (Python, and cases in Markdown), or where there is
none, those that import from the room; answers about captures come first, then those that mention the changed module.
All runs in worktrees of the last commit, which go at the end. A survivor is a gap in the tests, or a change that means
nothing; of `<` for `<=` and the like that is often so, and they are counted apart.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from functools import cache
from pathlib import Path
from queue import Queue
from typing import Final, NoReturn

import click
import msgspec
import yaml
from harness.mutations import drawn

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = Path("src", "gpuledger")
MUTATIONS: Final = ROOT / "benchmarks" / "mutations.yaml"
ROOMS: Final = "ledger,findings,analyse,attribution,replay,trace"

WORKERS: Final = 2
"""So many are tried at a time, each in a worktree of its own."""

LONGEST_S: Final = 300
"""Tests that take longer are caught in an endless loop, or in what would be one."""

_PASSED: Final = 0
_NOT_RUN: Final = (4, 5)
"""What pytest returns when it is called wrongly, and when there is no test."""
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (.+)$", re.MULTILINE)
"""As tests/conftest.py says at once."""


class Outcome(StrEnum):
    """What became of a mutation."""

    CAUGHT = "caught"
    SURVIVED = "SURVIVED"
    BOUNDARY = "boundary survived"
    """It may mean nothing: the two sides may never be equal."""
    NOT_FOUND = "not found"
    """Its text is not in the source, or not exactly once."""
    NOT_RUN = "not run"
    """Pytest found no tests, or those that fail do so without the mutation."""


class Written(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One definition of mutations.yaml, changed; it is found by its text alone, wherever that stands in the source."""

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


class Mutation(msgspec.Struct, frozen=True):
    """A file as it is to be, and the tests that should notice: groups of folders and files, one after the other."""

    id: str
    room: str
    path: Path | None
    """Relative to the root; None where the text of a written mutation is not in the source."""
    text: str
    diff: str
    tests: list[list[str]]
    is_boundary: bool = False


class Result(msgspec.Struct, frozen=True):
    """What became of one mutation, and how."""

    id: str
    room: str
    outcome: Outcome
    diff: str
    by: str
    """The test that failed first; how it ended where none did."""
    seconds: float


def written(only: Sequence[str]) -> list[Mutation]:
    """The mutations of mutations.yaml, or some of them; no two have one id."""
    known = msgspec.convert(yaml.safe_load(MUTATIONS.read_text(encoding="utf-8")), list[Written])
    twice = [each for each, count in Counter(mutation.id for mutation in known).items() if count > 1]
    if wrong := twice or sorted({*only} - {mutation.id for mutation in known}):
        raise click.ClickException(f"ids that are there twice, or not at all: {', '.join(wrong)}")
    sources = {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in (ROOT / SOURCE).rglob("*.py")}
    found = []
    for mutation in known if not only else [mutation for mutation in known if mutation.id in only]:
        holding = [path for path, text in sources.items() for _ in range(text.count(mutation.old))]
        path = holding[0] if len(holding) == 1 else None
        text = sources[path].replace(mutation.old, mutation.new) if path else ""
        diff = f"- {mutation.old}\n+ {mutation.new}"
        found.append(Mutation(mutation.id, mutation.room, path, text, diff, [[each] for each in mutation.tests]))
    return found


def at_random(rooms: Sequence[str], count: int, seed: int) -> list[Mutation]:
    """Mutations drawn from the source of these rooms."""
    files = [path for room in rooms for path in (ROOT / SOURCE / room).rglob("*.py")]
    found = []
    for change in drawn(files, count, seed):
        path = change.path.relative_to(ROOT)
        room = path.relative_to(SOURCE).parts[0]
        diff = f"- {change.before.strip()}\n+ {change.after.strip()}"
        name = f"{path.relative_to(SOURCE)}:{change.line}"
        tests = tests_of(".".join(path.relative_to("src").with_suffix("").parts), room)
        found.append(Mutation(f"{name} {change.kind}", room, path, change.text, diff, tests, change.is_boundary))
    random.Random(seed).shuffle(found)  # noqa: S311 - a run that is cut off has tried a sample
    return found


@cache
def tests_of(module: str, room: str) -> list[list[str]]:
    """The files of tests nearest to a module: those that mention it, cases in Markdown, then the others."""
    tests = ROOT / "tests"
    places = [tests / parent for parent in Path(*module.split(".")[1:]).parents]
    folder = next(place for place in places if place == tests or any(place.rglob("test_*.py")))
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(tests.rglob("test_*.py"))}
    near = [path for path in texts if path.is_relative_to(folder)]
    if folder == tests:
        near = [path for path, text in texts.items() if f"gpuledger.{room}" in text and "project" not in path.parts]
    naming = [path for path in near if module in texts[path]]
    kept = [path for path in near if path.name.startswith("test_kept_")]
    cases = [] if folder == tests else sorted(folder.rglob("cases/*.md"))
    groups = (kept, naming, cases, [path for path in near if path not in (*kept, *naming)])
    return [[str(path.relative_to(ROOT)) for path in group] for group in groups if group]


@contextmanager
def worktree() -> Iterator[Path]:
    """The last commit in a folder of its own, with the compiled parts that are here."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "tree")
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", folder], cwd=ROOT, check=True)
        try:
            for compiled in (ROOT / SOURCE).rglob("*.so"):
                shutil.copy(compiled, folder / compiled.relative_to(ROOT))
            yield folder
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", folder], cwd=ROOT, check=True)


def tried(mutation: Mutation, tests: Sequence[Sequence[str]], tree: Path) -> Result:
    """Mutate, run the tests, restore; a test that fails without the mutation, too, says nothing."""
    began, by = time.monotonic(), ""
    if mutation.path is None:
        outcome = Outcome.NOT_FOUND
    else:
        before = (tree / mutation.path).read_bytes()
        (tree / mutation.path).write_text(mutation.text, encoding="utf-8")
        try:
            outcome, by = _tested(tests, tree)
        finally:
            (tree / mutation.path).write_bytes(before)
        if outcome is Outcome.SURVIVED and mutation.is_boundary:
            outcome = Outcome.BOUNDARY
        if outcome is Outcome.CAUGHT and "::" in by and not _passes(by, tree):
            outcome = Outcome.NOT_RUN
    return Result(mutation.id, mutation.room, outcome, mutation.diff, by, round(time.monotonic() - began, 1))


@cache
def _passes(test: str, tree: Path) -> bool:
    return _tested([[test]], tree)[0] is Outcome.SURVIVED


def _tested(tests: Sequence[Sequence[str]], tree: Path) -> tuple[Outcome, str]:
    """What the tests say of the source as it is now: one group after the other, until one fails."""
    ends_s = time.monotonic() + LONGEST_S
    for group in tests:
        outcome, by = _tested_by(group, tree, ends_s - time.monotonic())
        if outcome is not Outcome.SURVIVED:
            return outcome, by
    return Outcome.SURVIVED, ""


def _tested_by(tests: Sequence[str], tree: Path, longest_s: float) -> tuple[Outcome, str]:
    paths = os.pathsep.join(str(tree / folder) for folder in ("src", "tests"))
    environment = os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider", *tests]
    ran = subprocess.Popen(
        command, cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        said = ran.communicate(timeout=longest_s)[0].decode(errors="replace")
    except subprocess.TimeoutExpired:
        return Outcome.CAUGHT, f"after {LONGEST_S} s"
    finally:
        if ran.poll() is None:  # with its workers
            os.killpg(ran.pid, signal.SIGKILL)
            ran.wait()
    if ran.returncode == _PASSED:
        return Outcome.SURVIVED, ""
    if ran.returncode in _NOT_RUN:
        return Outcome.NOT_RUN, (said.strip().splitlines() or [""])[-1]
    failed = _FAILED.search(said)
    return Outcome.CAUGHT, failed[1] if failed else f"pytest returned {ran.returncode}"


def _refuse_changes() -> None:
    """They would not be in the worktree."""
    command = ["git", "status", "--porcelain", "--", "src", "tests"]
    changes = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    if changes:
        raise click.ClickException(f"there are changes under src or tests; commit them first:\n{changes.rstrip()}")


def _end(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def _summary(results: Sequence[Result]) -> Iterator[str]:
    """How many of each outcome, by room and in all, and the share that was caught; then each survivor."""
    for room in (*dict.fromkeys(result.room for result in results), "all"):
        outcomes = Counter(result.outcome for result in results if room in (result.room, "all"))
        ran = sum(outcomes[each] for each in (Outcome.CAUGHT, Outcome.SURVIVED, Outcome.BOUNDARY))
        share = f"{outcomes[Outcome.CAUGHT] / ran:.0%} caught: " if ran else ""
        counts = ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in Outcome if outcomes[outcome])
        yield f"{room:11} {share}{counts}"
    for result in results:
        if result.outcome in (Outcome.SURVIVED, Outcome.BOUNDARY):
            yield f"\n{result.outcome}: {result.id}\n{result.diff}"


def _words(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


@click.command(help=__doc__)
@click.option("--count", default=20, help="How many places to draw.")
@click.option("--seed", default=1, help="The same seed draws the same places of the same source.")
@click.option("--rooms", default=ROOMS, show_default=True, help="Folders of src/gpuledger to draw from.")
@click.option("--written", "is_written", is_flag=True, help="Try the mutations of mutations.yaml.")
@click.option("--only", default="", help="Ids of written mutations to try, with commas between them.")
@click.option("--tests", default="", help="Folders and files to run instead of each mutation's own.")
@click.option("--list", "list_only", is_flag=True, help="Say what would be changed; run nothing.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the results into this file.")
def main(
    count: int,
    seed: int,
    rooms: str,
    is_written: bool,
    only: str,
    tests: str,
    list_only: bool,
    json_path: Path | None,
) -> None:
    """Try the mutations and say which of them no test notices."""
    chosen = written(_words(only)) if is_written or only else at_random(_words(rooms), count, seed)
    if list_only:
        for mutation in chosen:
            click.echo(f"{mutation.id}: {mutation.path or Outcome.NOT_FOUND}\n{mutation.diff}")
        return
    signal.signal(signal.SIGTERM, _end)  # as Ctrl-C does, so that the worktree goes
    _refuse_changes()
    results: list[Result] = []
    with ExitStack() as stack, ThreadPoolExecutor(WORKERS) as pool:
        free = Queue[Path]()
        for _ in range(WORKERS):
            free.put(stack.enter_context(worktree()))

        def in_free_tree(mutation: Mutation) -> Result:
            tree = free.get()
            try:
                return tried(mutation, [_words(tests)] if tests else mutation.tests, tree)
            finally:
                free.put(tree)

        for result in pool.map(in_free_tree, chosen):
            results.append(result)
            click.echo(f"{result.outcome:17} {result.id:40} {result.seconds:6.1f} s  {result.by}")
            if json_path is not None:  # after each: what was measured is not lost with what comes later
                json_path.write_bytes(msgspec.json.format(msgspec.json.encode(results)))
    for line in _summary(results):
        click.echo(line)
    sys.exit(any(result.outcome is not Outcome.CAUGHT for result in results))


if __name__ == "__main__":
    main()

"""Runs a runbook: cells one after another, each step a program of its own, finished cells kept.

In: the runbook and the choices of the run. Out: what became of every cell and every comparison. Progress is told line
by line. What was done is on disk after every step, each file whole or not there at all: a run can be killed at any
moment, and go on later; an interruption ends the running program and all that it started. Command lines stand in these
files, and what programs print: folders and files are for their owner alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import math
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import IO, Annotated, Any, Final

from msgspec import Meta, Struct, convert, field, to_builtins
from msgspec.structs import replace

from gpuledger.capture.secrets import without_secrets
from gpuledger.errors import GpuledgerError, OutputRefused, ToolFailed
from gpuledger.runbook import plan
from gpuledger.runbook.definition import MatrixCell, Runbook
from gpuledger.runbook.elsewhere import run_elsewhere
from gpuledger.runbook.plan import OURS, CellJob, Choices, PlannedComparison, environment_of, shown_command
from gpuledger.system.files import reason_of, replacing
from gpuledger.system.interruption import Interruption
from gpuledger.system.processes import LoggedRun, Patience, run_logged
from gpuledger.units import time_text

STATE: Final = "state.json"
_LOCK: Final = ".lock"
_LARGEST: Final = 256 * 1024 * 1024
_TAIL: Final = 64 * 1024


def shipped_runbooks() -> tuple[str, ...]:
    """The names of the runbooks that come with the package."""
    entries = files("gpuledger").joinpath("runbooks").iterdir()
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml")))


def shipped_text(name: str) -> bytes:
    """The text of one of them."""
    return files("gpuledger").joinpath("runbooks", f"{name}.yaml").read_bytes()


def runbook_text(path: Path) -> bytes:
    """The text of a runbook of the user's."""
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST)
    except OSError as error:
        raise GpuledgerError(f"{path}: cannot be read: {reason_of(error)}") from None


def make_folder(folder: Path) -> None:
    """Make a folder that may be there already."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OutputRefused(f"{folder}: cannot be made: {reason_of(error)}") from None


def empty_folder(folder: Path) -> None:
    """A folder of a cell, without what an earlier run left in it."""
    try:
        if folder.exists():
            shutil.rmtree(folder)
    except OSError as error:
        raise OutputRefused(f"{folder}: cannot be emptied: {reason_of(error)}") from None
    make_folder(folder)


def is_free(folder: Path) -> bool:
    """Whether a run may begin in a folder: it is not there, or empty, or another run's."""
    try:
        return (
            not folder.exists() or (folder / STATE).exists() or all(entry.name == _LOCK for entry in folder.iterdir())
        )
    except OSError as error:
        raise OutputRefused(f"{folder}: cannot be used: {reason_of(error)}") from None


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Refuse a second run in the same folder. The system gives the lock back whatever becomes of us."""
    try:
        handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise OutputRefused(f"{folder}: cannot be written to: {reason_of(error)}") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            hint = "wait until it has ended, or choose another folder with --output"
            raise OutputRefused(f"{folder}: another run is in progress here", hint=hint) from None
        yield
    finally:
        os.close(handle)


def write_whole(path: Path, text: str) -> None:
    """Write beside, then rename; what survives us should survive the machine too."""
    with replacing(path, force=True, private=True) as file:
        file.write(text.encode(errors="backslashreplace"))
        file.flush()
        os.fsync(file.fileno())


def json_at(path: Path) -> dict[str, Any] | None:
    """A JSON document; None where there is none that can be read, and for a number in it that is none."""
    try:
        with path.open("rb") as file:
            document = json.loads(
                file.read(_LARGEST), parse_float=_finite, parse_int=_finite, parse_constant=lambda _: None
            )
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _finite(digits: str) -> int | float | None:
    number = float(digits)
    return None if math.isinf(number) else int(digits) if digits.lstrip("-").isdecimal() else number


def last_line(path: Path) -> str:
    """The last line of a log that says something; one that begins with `error:` says more than a hint after it."""
    try:
        with path.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - _TAIL, 0))
            text = file.read(_TAIL).decode(errors="replace")
    except OSError:
        return "it has no log"
    lines = [line.strip() for line in text.replace("\r", "\n").splitlines() if line.strip()]
    if not lines:
        return "it said nothing"
    said = next((line for line in reversed(lines) if line.lower().startswith("error:")), lines[-1])
    return without_secrets([said])[0]  # it goes into the summary


@contextlib.contextmanager
def log_at(path: Path, heading: str) -> Iterator[IO[bytes]]:
    """A log to add to, beginning with what is run."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "ab", buffering=0) as file:
            file.write(f"$ {heading}\n".encode(errors="backslashreplace"))
            yield file
    except OSError as error:
        raise OutputRefused(f"{path}: cannot be written: {reason_of(error)}") from None


SCHEMA: Final = "gpuledger.runbook-state/1"

DONE: Final = "done"
MISSED: Final = "missed"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"
INTERRUPTED: Final = "interrupted"
FINISHED: Final = "finished"
RUNNING: Final = "running"
NOT_RUN: Final = "not run"
"""A step is done, missed (a target), failed or skipped; a cell finished, failed, skipped, interrupted or running."""


class StepRecord(Struct, frozen=True):
    """What became of a step."""

    step: str
    state: str
    reason: str = ""
    exit_code: int | None = None
    seconds: Annotated[float, Meta(ge=0, le=1e9)] = 0.0
    log: str = ""
    """Under the folder of the run."""


class CellRecord(Struct, frozen=True):
    """What became of a cell. A fingerprint of another runbook, version or machine makes it stale."""

    fingerprint: str
    state: str
    reason: str = ""
    steps: tuple[StepRecord, ...] = ()

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)


class RunState(Struct):
    """The cells of a folder that were begun, by the name of their folder, and the comparisons, by their file's name."""

    path: Path
    runbook: str
    cells: dict[str, CellRecord] = field(default_factory=dict)
    comparisons: dict[str, CellRecord] = field(default_factory=dict)

    def put(self, name: str, record: CellRecord, *, is_comparison: bool = False) -> None:
        """Note what became of a cell or a comparison, on disk at once."""
        (self.comparisons if is_comparison else self.cells)[name] = record
        document: dict[str, Any] = {"schema": SCHEMA, "runbook": self.runbook}
        for kind, records in (("cells", self.cells), ("comparisons", self.comparisons)):
            document[kind] = to_builtins(records)
        write_whole(self.path, json.dumps(document, indent=1) + "\n")


def state_of(folder: Path, runbook: str) -> RunState:
    """What was done in a folder before. A cell whose record cannot be read is run again."""
    state = RunState(folder / STATE, runbook)
    if not state.path.exists():
        return state
    document = json_at(state.path)
    if document is None or document.get("schema") != SCHEMA or not isinstance(document.get("cells"), dict):
        hint = "remove the folder, or choose another with --output"
        raise GpuledgerError(f"{state.path}: is not the state of a run", hint=hint)
    if document.get("runbook") != runbook:
        claim = f"{folder}: holds a run of the runbook '{document.get('runbook')}', not of '{runbook}'"
        raise GpuledgerError(claim, hint="choose another folder with --output")
    for records, listed in ((state.cells, document["cells"]), (state.comparisons, document.get("comparisons"))):
        for name, entry in listed.items() if isinstance(listed, dict) else ():
            with suppress(ValueError):
                records[name] = convert(entry, CellRecord)
    return state


def is_kept(record: CellRecord | None, fingerprint: str) -> bool:
    """Whether a cell need not be run again."""
    return record is not None and record.state in (FINISHED, SKIPPED) and record.fingerprint == fingerprint


TARGET_MISSED = 3
PATIENCE = Patience(asked=330.0, told=30.0, made=10.0)
"""More than `gpuledger capture` has for the profiler under it."""

Tell = Callable[[str], None]


class ComparisonOutcome(Struct, frozen=True):
    """A comparison, and what became of it: a step's record, skipped where a profile is not there."""

    comparing: PlannedComparison
    record: StepRecord


class RunOutcome(Struct, frozen=True):
    """What became of a run."""

    records: Mapping[str, CellRecord]  # by the name of the cell's folder, also of cells that were kept
    kept: frozenset[str]
    comparisons: tuple[ComparisonOutcome, ...]
    interrupted: bool
    failures: tuple[GpuledgerError, ...]


class Engine:
    """One run. `missing` says what is not here, and why; `version` is part of what makes a result stale."""

    def __init__(
        self,
        book: Runbook,
        choices: Choices,
        missing: Mapping[str, str],
        version: str,
        tell: Tell,
        patience: Patience = PATIENCE,
    ) -> None:
        self._book, self._choices, self._missing, self._version = book, choices, missing, version
        self._tell, self._patience = tell, patience

    def run(
        self,
        cells: Sequence[MatrixCell],
        state: RunState,
        interruption: Interruption,
        *,
        every: Sequence[MatrixCell],
        again: bool,
        keep_going: bool,
    ) -> RunOutcome:
        """Run the cells that need it, then compare what there is of all."""
        prints = {
            cell: plan.fingerprint(self._book, cell, self._choices, list(self._missing), self._version)
            for cell in cells
        }
        kept = {cell for cell in cells if not again and is_kept(state.cells.get(cell.folder), prints[cell])}
        due = [cell for cell in cells if cell not in kept]
        self._tell_about(cells, kept, state, again=again)
        failures = self._prelude(interruption) if due else []
        for cell in due if not failures else ():
            if interruption:
                break
            failure = self._cell(cell, cells, state, prints[cell], interruption)
            failures += [failure] if failure is not None else []
            if failures and not keep_going:
                break
        stopped = bool(interruption) or (bool(failures) and not keep_going)
        compared = () if stopped else self._compare(every, state, interruption)
        failures += [self._failed(done.record, done.record.step) for done in compared if done.record.state == FAILED]
        names = frozenset(cell.folder for cell in kept)
        return RunOutcome(dict(state.cells), names, compared, bool(interruption), tuple(failures))

    def _tell_about(self, cells: Sequence[MatrixCell], kept: set[MatrixCell], state: RunState, *, again: bool) -> None:
        if kept:
            self._tell(f"{len(kept)} of {len(cells)} cells are finished and kept; --again runs them too")
        for cell in cells:
            record = state.cells.get(cell.folder)
            if record is None or cell in kept or again:
                continue
            if record.state in (FINISHED, SKIPPED):
                self._tell(f"{cell.title}: its commands, gpuledger or what is installed here changed; it is run again")
            elif record.state != FAILED:
                self._tell(f"{cell.title}: was interrupted; it is run again")

    def _prelude(self, interruption: Interruption) -> list[GpuledgerError]:
        folder = self._choices.folder / "prelude"
        empty_folder(folder)
        for job in plan.prelude_of(self._book, self._choices):
            self._tell(f"prelude: {job.title}")
            record = self._step(job, folder, environment_of(self._book, None, self._choices), interruption)
            if interruption:
                return []
            if record.state in (FAILED, MISSED) and not job.optional:
                return [self._failed(record, f"prelude: {job.title}")]
            if record.state != DONE:
                self._tell(f"prelude: {job.title}: {record.state}: {record.reason}")
        return []

    def _cell(
        self, cell: MatrixCell, cells: Sequence[MatrixCell], state: RunState, print_: str, interruption: Interruption
    ) -> GpuledgerError | None:
        folder = self._choices.cell_folder(cell)
        empty_folder(folder)
        title = f"cell {cells.index(cell) + 1} of {len(cells)}: {cell.title}"
        absent = [self._missing[need] for need in plan.cell_needs(self._book, cell) if need in self._missing]
        if absent:
            self._tell(f"{title} · skipped: {absent[0]}")
            state.put(cell.folder, CellRecord(print_, SKIPPED, absent[0]))
            return None
        record = CellRecord(print_, RUNNING)
        state.put(cell.folder, record)
        environment = environment_of(self._book, cell, self._choices)
        for number, job in enumerate(plan.jobs_of(self._book, cell, self._choices), 1):
            self._tell(f"{title} · {job.title}")
            step = self._step(job, folder, environment, interruption)
            record = replace(record, steps=(*record.steps, step))
            if step.state == INTERRUPTED:
                state.put(cell.folder, replace(record, state=INTERRUPTED))
                return None
            if step.state == FAILED and not job.optional:
                state.put(cell.folder, replace(record, state=FAILED, reason=f"{job.title}: {step.reason}"))
                return self._failed(step, f"cell {cell.title}: step {number} ({job.title})")
            if step.state != DONE:
                self._tell(f"{title} · {job.title}: {step.state}: {step.reason}")
            state.put(cell.folder, record)
        state.put(cell.folder, replace(record, state=FINISHED))
        self._tell(f"{title} · finished in {time_text(round(record.seconds * 1e9))}")
        return None

    def _step(
        self, job: CellJob, folder: Path, environment: Mapping[str, str], interruption: Interruption
    ) -> StepRecord:
        log = folder / job.log
        if absent := [self._missing[need] for need in job.needs if need in self._missing]:
            return StepRecord(job.title, SKIPPED, absent[0])
        if lost := [path.name for path in job.inputs if not path.exists()]:
            reason = f"there is no {lost[0]}, as the step that makes it was skipped or failed"
            if not Path(lost[0]).suffix:
                reason = f"no step makes a profile '{lost[0]}' at this size"
            return StepRecord(job.title, SKIPPED, reason)
        done = StepRecord(job.title, DONE, "", 0, 0.0, str(log.relative_to(self._choices.folder)))
        for command in job.commands:
            if interruption:
                return replace(done, state=INTERRUPTED, reason="", exit_code=None)
            try:
                ended = self._ended(job, command, folder, environment, interruption)
            except ToolFailed as error:
                return replace(done, state=FAILED, reason=error.claim, exit_code=None)
            code, seconds = ended.exit_code, done.seconds + ended.seconds
            if ended.interrupted:
                return replace(done, state=INTERRUPTED, reason="", exit_code=code, seconds=seconds)
            if ended.out_of_time:
                reason = f"it took more than {job.timeout_s} s and was ended"
                return replace(done, state=FAILED, reason=reason, exit_code=code, seconds=seconds)
            done = replace(done, seconds=seconds)
            if code == TARGET_MISSED and job.gated:
                done = replace(done, state=MISSED, exit_code=TARGET_MISSED)
            elif code != 0:
                return replace(done, state=FAILED, reason=f"exit code {code}: {last_line(log)}", exit_code=code)
        return replace(done, reason=f"a target was missed: {last_line(log)}") if done.state == MISSED else done

    def _ended(
        self,
        job: CellJob,
        command: tuple[str, ...],
        folder: Path,
        environment: Mapping[str, str],
        interruption: Interruption,
    ) -> LoggedRun:
        """Run one command of a step to its end, here or elsewhere."""
        shown = shown_command(command, {**self._choices.variables, **environment})
        by = without_secrets(job.remote.prefix) if job.remote else []
        with log_at(folder / job.log, shlex.join([*by, *shown])) as file:
            how: dict[str, Any] = {"log": file, "environment": environment, "patience": self._patience}
            if job.remote is not None:
                return run_elsewhere(job, command, folder, interruption, **how)
            started = started_command(command, self._choices.python)
            return run_logged(started, interruption, seconds=job.timeout_s, **how)

    def _compare(
        self, every: Sequence[MatrixCell], state: RunState, interruption: Interruption
    ) -> tuple[ComparisonOutcome, ...]:
        """Compare what there is, but for what was compared before and has not changed since."""
        folder = self._choices.folder / "compare"
        make_folder(folder)
        done = []
        for comparing in plan.comparisons_of(self._book, every, self._choices):
            if interruption:
                break
            job, name = comparing.job, comparing.result.stem
            looks = [path.stat() for path in job.inputs if path.exists()]  # as far as times and sizes tell
            identity = (job.commands, self._version, [(look.st_mtime_ns, look.st_size) for look in looks])
            print_ = hashlib.sha256(repr(identity).encode()).hexdigest()
            before = state.comparisons.get(name)
            if before is not None and before.fingerprint == print_ and before.steps and comparing.result.exists():
                done.append(ComparisonOutcome(comparing, before.steps[0]))
                continue
            records = [(cell, state.cells.get(cell.folder)) for cell in comparing.cells]
            unfinished = [(cell, found) for cell, found in records if found is None or found.state != FINISHED]
            if unfinished:
                cell, found = unfinished[0]
                reason = (
                    "has not been run"
                    if found is None
                    else f"{'has' if found.state == FAILED else 'was'} {found.state}"
                )
                because = f": {found.reason}" if found is not None and found.reason else ""
                record = StepRecord(job.title, SKIPPED, f"{cell.title} {reason}{because}")
                done.append(ComparisonOutcome(comparing, record))
                continue
            if all(path.exists() for path in job.inputs):
                self._tell(f"compare: {job.title}")
            for left in (folder / job.log, comparing.result):
                left.unlink(missing_ok=True)
            record = self._step(job, folder, {}, interruption)
            done.append(ComparisonOutcome(comparing, record))
            if record.state in (DONE, MISSED):
                state.put(name, CellRecord(print_, FINISHED, "", (record,)), is_comparison=True)
        return tuple(done)

    def _failed(self, record: StepRecord, what: str) -> GpuledgerError:
        log = self._choices.folder / record.log
        hint = "finished cells are kept: run the same command again to go on; --keep-going runs the others first"
        return GpuledgerError(f"{what} failed: {record.reason}", found=f"its log is {log}", hint=hint)


def started_command(command: Sequence[str], python: str = sys.executable) -> list[str]:
    """A command as it is started: ours with the Python that runs us."""
    return [python, "-m", OURS, *command[1:]] if command[0] == OURS else list(command)


def all_needs(book: Runbook) -> tuple[str, ...]:
    """Everything that some step or some value needs of this machine."""
    steps = [need for step in (*book.prelude, *book.steps) for need in step.needs_of(book)]
    axes = [need for axis in book.axes.values() for needs in axis.needs.values() for need in needs if not book.via]
    return tuple(dict.fromkeys([*steps, *axes]))

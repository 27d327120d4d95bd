"""Runs a runbook: cells one after another, each step a program of its own, finished cells kept.

In: the runbook and the choices of the run. Out: what became of every cell and every comparison. Progress is told
line by line. State is on disk after every step; an interruption ends the running program and all that it started.

What was done in a run's folder, on disk after every step: a run can be killed at any moment, and go on later.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from gpuledger.errors import GpuledgerError, ToolFailed
from gpuledger.runbook.definition import MatrixCell, Runbook
from gpuledger.runbook.files import STATE, emptied, json_at, last_line, log_at, make_folder, written
from gpuledger.runbook.plan import (
    OURS,
    CellJob,
    Choices,
    PlannedComparison,
    cell_needs,
    comparisons_of,
    environment_of,
    fingerprint,
    jobs_of,
    prelude_of,
    shown_command,
)
from gpuledger.system.interruption import Interruption
from gpuledger.system.processes import Patience, logged
from gpuledger.units import time_text

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


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What became of a step."""

    step: str
    state: str
    reason: str = ""
    exit_code: int | None = None
    seconds: float = 0.0
    log: str = ""


@dataclass(frozen=True, slots=True)
class CellRecord:
    """What became of a cell. A fingerprint of another runbook, version or machine makes it stale."""

    fingerprint: str
    state: str
    reason: str = ""
    steps: tuple[StepRecord, ...] = ()

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)


@dataclass(slots=True)
class RunState:
    """The cells of a folder that were begun, by the name of their folder, and the comparisons, by their file's name."""

    path: Path
    runbook: str
    cells: dict[str, CellRecord] = field(default_factory=dict)
    comparisons: dict[str, CellRecord] = field(default_factory=dict)

    def put(self, folder: str, record: CellRecord) -> None:
        """Note what became of a cell, on disk at once."""
        self.cells[folder] = record
        self._write()

    def put_comparison(self, name: str, record: CellRecord) -> None:
        """Note what became of a comparison."""
        self.comparisons[name] = record
        self._write()

    def _write(self) -> None:
        head = {"schema": SCHEMA, "runbook": self.runbook}
        kinds = {"cells": self.cells, "comparisons": self.comparisons}
        noted = {kind: {name: asdict(record) for name, record in held.items()} for kind, held in kinds.items()}
        written(self.path, json.dumps({**head, **noted}, indent=1) + "\n")


def state_of(folder: Path, runbook: str) -> RunState:
    """What was done in a folder before."""
    path = folder / STATE
    if not path.exists():
        return RunState(path, runbook)
    document = json_at(path)
    if document is None or document.get("schema") != SCHEMA or not isinstance(document.get("cells"), dict):
        raise GpuledgerError(
            f"{path}: is not the state of a run", hint="remove the folder, or choose another with --output"
        )
    if document.get("runbook") != runbook:
        claim = f"{folder}: holds a run of the runbook '{document.get('runbook')}', not of '{runbook}'"
        raise GpuledgerError(claim, hint="choose another folder with --output")
    return RunState(path, runbook, _records(document["cells"]), _records(document.get("comparisons")))


def _records(listed: Any) -> dict[str, CellRecord]:
    entries = listed.items() if isinstance(listed, dict) else ()
    return {name: record for name, entry in entries if (record := _record(entry)) is not None}


def _record(entry: Any) -> CellRecord | None:
    """None for what is no record: such a cell is run again."""
    try:
        steps = tuple(StepRecord(**step) for step in entry["steps"])
        return CellRecord(str(entry["fingerprint"]), str(entry["state"]), str(entry["reason"]), steps)
    except (TypeError, KeyError):
        return None


def is_kept(record: CellRecord | None, fingerprint: str) -> bool:
    """Whether a cell need not be run again."""
    return record is not None and record.state in (FINISHED, SKIPPED) and record.fingerprint == fingerprint


TARGET_MISSED = 3
PATIENCE = Patience(asked=330.0, told=30.0, made=10.0)
"""More than `gpuledger capture` has for the profiler under it."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ComparisonOutcome:
    """A comparison, and what became of it: a step's record, skipped where a profile is not there."""

    comparing: PlannedComparison
    record: StepRecord


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What became of a run."""

    records: Mapping[str, CellRecord]
    """By the name of the cell's folder, also of cells that were kept."""
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
            cell: fingerprint(self._book, cell, self._choices, list(self._missing), self._version) for cell in cells
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
        failures += [_failed(done.record, done.record.step) for done in compared if done.record.state == FAILED]
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
        emptied(folder)
        for job in prelude_of(self._book, self._choices):
            self._tell(f"prelude: {job.title}")
            record = self._step(job, folder, environment_of(self._book, None, self._choices), interruption)
            if interruption:
                return []
            if record.state in (FAILED, MISSED) and not job.optional:
                return [_failed(record, f"prelude: {job.title}")]
            if record.state != DONE:
                self._tell(f"prelude: {job.title}: {record.state}: {record.reason}")
        return []

    def _cell(
        self, cell: MatrixCell, cells: Sequence[MatrixCell], state: RunState, print_: str, interruption: Interruption
    ) -> GpuledgerError | None:
        folder = self._choices.cell_folder(cell)
        emptied(folder)
        title = f"cell {cells.index(cell) + 1} of {len(cells)}: {cell.title}"
        absent = [self._missing[need] for need in cell_needs(self._book, cell) if need in self._missing]
        if absent:
            self._tell(f"{title} · skipped: {absent[0]}")
            state.put(cell.folder, CellRecord(print_, SKIPPED, absent[0]))
            return None
        record = CellRecord(print_, RUNNING)
        state.put(cell.folder, record)
        environment = environment_of(self._book, cell, self._choices)
        for number, job in enumerate(jobs_of(self._book, cell, self._choices), 1):
            self._tell(f"{title} · {job.title}")
            step = self._step(job, folder, environment, interruption)
            record = replace(record, steps=(*record.steps, step))
            if step.state == INTERRUPTED:
                state.put(cell.folder, replace(record, state=INTERRUPTED))
                return None
            if step.state == FAILED and not job.optional:
                state.put(cell.folder, replace(record, state=FAILED, reason=f"{job.title}: {step.reason}"))
                return _failed(step, f"cell {cell.title}: step {number} ({job.title})")
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
        absent = next((self._missing[need] for need in job.needs if need in self._missing), "")
        lost = next((path for path in job.inputs if not path.exists()), None)
        if absent or lost is not None:
            return StepRecord(job.title, SKIPPED, absent or _why_lost(lost))
        seconds, missed = 0.0, False
        for command in job.commands:
            if interruption:
                return StepRecord(job.title, INTERRUPTED, seconds=seconds, log=str(log))
            try:
                with log_at(
                    log, shlex.join(shown_command(command, {**self._choices.variables, **environment}))
                ) as file:
                    ended = logged(
                        resolved(command, self._choices.python),
                        interruption,
                        log=file,
                        environment=environment,
                        seconds=job.timeout_s,
                        patience=self._patience,
                    )
            except ToolFailed as error:
                return StepRecord(job.title, FAILED, error.claim, None, seconds, str(log))
            seconds += ended.seconds
            code = ended.exit_code
            if ended.interrupted:
                return StepRecord(job.title, INTERRUPTED, "", code, seconds, str(log))
            if ended.out_of_time:
                reason = f"it took more than {job.timeout_s} s and was ended"
                return StepRecord(job.title, FAILED, reason, code, seconds, str(log))
            if code == TARGET_MISSED and job.gated:
                missed = True
            elif code != 0:
                return StepRecord(job.title, FAILED, _ending(code, log), code, seconds, str(log))
        if missed:
            reason = f"a target was missed: {last_line(log)}"
            return StepRecord(job.title, MISSED, reason, TARGET_MISSED, seconds, str(log))
        return StepRecord(job.title, DONE, "", 0, seconds, str(log))

    def _compare(
        self, every: Sequence[MatrixCell], state: RunState, interruption: Interruption
    ) -> tuple[ComparisonOutcome, ...]:
        """Compare what there is, but for what was compared before and has not changed since."""
        folder = self._choices.folder / "compare"
        make_folder(folder)
        done = []
        for comparing in comparisons_of(self._book, every, self._choices):
            if interruption:
                break
            job, name = comparing.job, comparing.result.stem
            fingerprint_now = self._print_of(job)
            before = state.comparisons.get(name)
            if (
                before is not None
                and before.fingerprint == fingerprint_now
                and before.steps
                and comparing.result.exists()
            ):
                done.append(ComparisonOutcome(comparing, before.steps[0]))
                continue
            open_ = [cell for cell in comparing.cells if not _is_finished(state.cells.get(cell.folder))]
            if open_:
                reason = _why_open(open_[0], state.cells.get(open_[0].folder))
                done.append(ComparisonOutcome(comparing, StepRecord(job.title, SKIPPED, reason)))
                continue
            if all(path.exists() for path in job.inputs):
                self._tell(f"compare: {job.title}")
            for left in (folder / job.log, comparing.result):
                left.unlink(missing_ok=True)
            record = self._step(job, folder, {}, interruption)
            done.append(ComparisonOutcome(comparing, record))
            if record.state in (DONE, MISSED):
                state.put_comparison(name, CellRecord(fingerprint_now, FINISHED, "", (record,)))
        return tuple(done)

    def _print_of(self, job: CellJob) -> str:
        """The same for two comparisons of the same files, as far as their times and sizes tell."""
        looks = [path.stat() for path in job.inputs if path.exists()]
        identity = (job.commands, self._version, [(look.st_mtime_ns, look.st_size) for look in looks])
        return hashlib.sha256(repr(identity).encode()).hexdigest()


def resolved(command: Sequence[str], python: str = sys.executable) -> list[str]:
    """A command as it is started: ours with the Python that runs us."""
    return [python, "-m", OURS, *command[1:]] if command[0] == OURS else list(command)


def _is_finished(record: CellRecord | None) -> bool:
    return record is not None and record.state == FINISHED


def _why_open(cell: MatrixCell, record: CellRecord | None) -> str:
    if record is None:
        return f"{cell.title} has not been run"
    return f"{cell.title} {'was' if record.state != FAILED else 'has'} {record.state}" + (
        f": {record.reason}" if record.reason else ""
    )


def _why_lost(path: Path | None) -> str:
    if path is not None and not path.suffix:
        return f"no step makes a profile '{path.name}' at this size"
    return f"there is no {path.name if path else ''}, as the step that makes it was skipped or failed"


def _ending(code: int, log: Path) -> str:
    return f"exit code {code}: {last_line(log)}"


def _failed(record: StepRecord, what: str) -> GpuledgerError:
    hint = "finished cells are kept: run the same command again to go on; --keep-going runs the others first"
    return GpuledgerError(f"{what} failed: {record.reason}", found=f"its log is {record.log}", hint=hint)


def all_needs(book: Runbook) -> tuple[str, ...]:
    """Everything that some step or some value needs."""
    steps = [need for step in (*book.prelude, *book.steps) for need in step.needs]
    axes = [need for axis in book.axes.values() for needs in axis.needs.values() for need in needs]
    return tuple(dict.fromkeys([*steps, *axes]))

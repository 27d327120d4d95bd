"""Runs a runbook: cells one after another, each step a program of its own, finished cells kept.

In: the runbook and the choices of the run. Out: what became of every cell and every comparison. Progress is told
line by line. What was done is on disk after every step: a run can be killed at any moment, and go on later; an
interruption ends the running program and all that it started.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from gpuledger.errors import GpuledgerError, ToolFailed
from gpuledger.runbook import plan
from gpuledger.runbook.definition import MatrixCell, Runbook
from gpuledger.runbook.files import STATE, empty_folder, json_at, last_line, log_at, make_folder, write_whole
from gpuledger.runbook.plan import OURS, CellJob, Choices, PlannedComparison, environment_of, shown_command
from gpuledger.system.interruption import Interruption
from gpuledger.system.processes import Patience, run_logged
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

    def put(self, name: str, record: CellRecord, *, is_comparison: bool = False) -> None:
        """Note what became of a cell or a comparison, on disk at once."""
        (self.comparisons if is_comparison else self.cells)[name] = record
        document: dict[str, Any] = {"schema": SCHEMA, "runbook": self.runbook}
        for kind, records in (("cells", self.cells), ("comparisons", self.comparisons)):
            document[kind] = {name: asdict(record) for name, record in records.items()}
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
            with suppress(TypeError, KeyError):
                steps = tuple(StepRecord(**step) for step in entry["steps"])
                texts = [str(entry[key]) for key in ("fingerprint", "state", "reason")]
                records[name] = CellRecord(texts[0], texts[1], texts[2], steps)
    return state


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
        empty_folder(folder)
        for job in plan.prelude_of(self._book, self._choices):
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
        if absent := [self._missing[need] for need in job.needs if need in self._missing]:
            return StepRecord(job.title, SKIPPED, absent[0])
        if lost := [path.name for path in job.inputs if not path.exists()]:
            reason = f"there is no {lost[0]}, as the step that makes it was skipped or failed"
            if not Path(lost[0]).suffix:
                reason = f"no step makes a profile '{lost[0]}' at this size"
            return StepRecord(job.title, SKIPPED, reason)
        done = StepRecord(job.title, DONE, "", 0, 0.0, str(log))
        for command in job.commands:
            if interruption:
                return replace(done, state=INTERRUPTED, reason="", exit_code=None)
            heading = shlex.join(shown_command(command, {**self._choices.variables, **environment}))
            try:
                with log_at(log, heading) as file:
                    ended = run_logged(
                        started_command(command, self._choices.python),
                        interruption,
                        log=file,
                        environment=environment,
                        seconds=job.timeout_s,
                        patience=self._patience,
                    )
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


def started_command(command: Sequence[str], python: str = sys.executable) -> list[str]:
    """A command as it is started: ours with the Python that runs us."""
    return [python, "-m", OURS, *command[1:]] if command[0] == OURS else list(command)


def _failed(record: StepRecord, what: str) -> GpuledgerError:
    hint = "finished cells are kept: run the same command again to go on; --keep-going runs the others first"
    return GpuledgerError(f"{what} failed: {record.reason}", found=f"its log is {record.log}", hint=hint)


def all_needs(book: Runbook) -> tuple[str, ...]:
    """Everything that some step or some value needs."""
    steps = [need for step in (*book.prelude, *book.steps) for need in step.needs]
    axes = [need for axis in book.axes.values() for needs in axis.needs.values() for need in needs]
    return tuple(dict.fromkeys([*steps, *axes]))

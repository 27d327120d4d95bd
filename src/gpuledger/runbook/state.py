"""What was done in a run's folder, on disk after every step: a run can be killed at any moment, and go on later."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from gpuledger.errors import GpuledgerError
from gpuledger.runbook.files import STATE, json_at, written

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
class State:
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
        said = {"schema": SCHEMA, "runbook": self.runbook}
        kinds = {"cells": self.cells, "comparisons": self.comparisons}
        noted = {kind: {name: asdict(each) for name, each in held.items()} for kind, held in kinds.items()}
        written(self.path, json.dumps({**said, **noted}, indent=1) + "\n")


def state_of(folder: Path, runbook: str) -> State:
    """What was done in a folder before."""
    path = folder / STATE
    if not path.exists():
        return State(path, runbook)
    found = json_at(path)
    if found is None or found.get("schema") != SCHEMA or not isinstance(found.get("cells"), dict):
        raise GpuledgerError(
            f"{path}: is not the state of a run", hint="remove the folder, or choose another with --output"
        )
    if found.get("runbook") != runbook:
        claim = f"{folder}: holds a run of the runbook '{found.get('runbook')}', not of '{runbook}'"
        raise GpuledgerError(claim, hint="choose another folder with --output")
    return State(path, runbook, _records(found["cells"]), _records(found.get("comparisons")))


def _records(found: Any) -> dict[str, CellRecord]:
    listed = found.items() if isinstance(found, dict) else ()
    return {name: record for name, each in listed if (record := _record(each)) is not None}


def _record(found: Any) -> CellRecord | None:
    """None for what is no record: such a cell is run again."""
    try:
        steps = tuple(StepRecord(**step) for step in found["steps"])
        return CellRecord(str(found["fingerprint"]), str(found["state"]), str(found["reason"]), steps)
    except (TypeError, KeyError):
        return None


def is_kept(record: CellRecord | None, fingerprint: str) -> bool:
    """Whether a cell need not be run again."""
    return record is not None and record.state in (FINISHED, SKIPPED) and record.fingerprint == fingerprint

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

"""The figures of a cell, from the documents that its steps left: a key in, a value out, or why there is none.

A key is looked for in the results of the cell's benches, in their order. `NAME.key` looks in the result called NAME
only; NAME may be a report's too, and further dots lead further in: `report.steps.median_ns`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gpuledger.runbook.definition import CaptureStep, ReportStep, Runbook
from gpuledger.runbook.files import json_at
from gpuledger.runbook.matrix import MatrixCell
from gpuledger.runbook.plan import Choices
from gpuledger.runbook.suggestion import suggestion

Value = int | float | str | bool | None
_ABSENT: Final = object()
_NS: Final = {"_ns": 1, "_us": 1_000, "_ms": 1_000_000, "_s": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class Figure:
    """A value; None with the reason where there is none. `wrong` where the key itself must be wrong."""

    value: Value
    reason: str = ""
    wrong: bool = False


@dataclass(frozen=True, slots=True)
class ReportedFinding:
    """What a report says of a step."""

    step_ns: int | None
    code: str = ""
    saving_ns: int | None = None
    saving_low_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Documents:
    """What the steps of a cell left, by name."""

    results: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    reports: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def figure(self, key: str) -> Figure:
        """The value of a key."""
        name, dot, rest = key.partition(".")
        every = {**self.reports, **self.results}
        if dot and name in every:
            return _valued(_inside(every[name], rest), key, list(every[name]))
        for result in self.results.values():
            if (value := _inside(result, key)) is not _ABSENT:
                return _valued(value, key, (), _inside(result, f"{key}_reason"))
        if not self.results:
            return Figure(None, "the cell left no result")
        return _valued(_ABSENT, key, [name for result in self.results.values() for name in result])

    def finding(self, report: str, code: str | None) -> ReportedFinding | None:
        """The step of a report, and the finding with this code, else the one that promises most."""
        document = self.reports.get(report)
        if document is None:
            return None
        steps = document.get("steps")
        step_ns = steps.get("median_ns") if isinstance(steps, dict) else None
        findings = [finding for finding in document.get("findings", ()) if isinstance(finding, dict)]
        wanted = [finding for finding in findings if code in (None, finding.get("code"))]
        if not wanted:
            return ReportedFinding(step_ns)
        best = max(wanted, key=lambda finding: finding.get("saving_ns_per_step") or 0)
        return ReportedFinding(
            step_ns, str(best.get("code")), best.get("saving_ns_per_step"), best.get("saving_low_ns_per_step")
        )


def documents_of(book: Runbook, cell: MatrixCell, choices: Choices) -> Documents:
    """Read what a cell left."""
    folder = choices.cell_folder(cell)
    results: dict[str, Mapping[str, Any]] = {}
    reports: dict[str, Mapping[str, Any]] = {}
    for step in cell.steps(book, choices.size):
        kind = reports if isinstance(step, ReportStep) else results
        if step.name and not isinstance(step, CaptureStep):
            document = json_at(folder / f"{step.name}.json")
            if document is not None:
                kind[step.name] = document
    return Documents(results, reports)


def nanoseconds(key: str, value: Value) -> int | None:
    """A time, by the unit that its key ends in."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    ending = next((unit for unit in _NS if key.endswith(unit)), None)
    return None if ending is None else round(value * _NS[ending])


def first_report(book: Runbook, cell: MatrixCell, choices: Choices) -> Path | None:
    """The text of a cell's first report, for people to open."""
    for step in cell.steps(book, choices.size):
        if isinstance(step, ReportStep):
            return choices.cell_folder(cell) / f"{step.name}.{step.formats[0]}"
    return None


def _inside(document: Mapping[str, Any], key: str) -> Any:
    if key in document:
        return document[key]
    name, dot, rest = key.partition(".")
    inner = document.get(name)
    return _inside(inner, rest) if dot and isinstance(inner, dict) else _ABSENT


def _valued(value: Any, key: str, known: Sequence[str], reason: object = None) -> Figure:
    if value is _ABSENT:
        plain = [name for name in dict.fromkeys(known) if name not in ("schema", "settings")]
        return Figure(None, f"no figure is called '{key}'; {suggestion(key, plain)}", wrong=True)
    if value is None:
        return Figure(None, reason if isinstance(reason, str) else "not measured")
    if not isinstance(value, int | float | str):
        return Figure(None, f"'{key}' is no single value", wrong=True)
    return Figure(value)

"""A run of a runbook as the document gpuledger.runbook/1. Times end in their unit; what is not known is null."""

from __future__ import annotations

from typing import Any, Final

from gpuledger.runbook.definition import MatrixCell
from gpuledger.runbook.engine import MISSED
from gpuledger.runbook.figures import SavingRow
from gpuledger.runbook.summary import ComparisonRow, RunSummary, TargetRow

_VERDICTS: Final = {0: "done", 1: "failed", 3: "missed", 130: "interrupted"}


def summary_data(summary: RunSummary) -> dict[str, Any]:
    """The document gpuledger.runbook/1."""
    return {
        "schema": "gpuledger.runbook/1",
        "runbook": summary.book.name,
        "question": summary.book.question,
        "verdict": _VERDICTS[summary.exit_code],
        "size": summary.choices.size or None,
        "variables": summary.variables,
        "environment": summary.environment,
        "missing": dict(summary.missing),
        "cells": [_cell_json(summary, at) for at in range(len(summary.cells))],
        "comparisons": [_comparison_json(row) for row in summary.comparisons],
        "savings": [_saving_json(row) for row in summary.savings],
        "slowed": list(summary.slowed_cells),
        "targets": [_target_json(row) for row in summary.targets],
        "misses": summary.misses,
        "failures": [error.claim for error in summary.failures],
    }


def _cell_json(summary: RunSummary, at: int) -> dict[str, Any]:
    row, found = summary.cells[at], summary.cells[at].finding
    return {
        "cell": dict(row.cell.values),
        "folder": row.cell.folder,
        "state": row.record.state,
        "reason": row.record.reason,
        "kept": row.kept,
        "seconds": round(row.record.seconds, 3),
        "figures": {key: each.value for key, each in row.figures.items()},
        "not_measured": {key: each.reason for key, each in row.figures.items() if each.value is None},
        "step_ns": None if found is None else found.step_ns,
        "finding": (found.code or None) if found else None,
        "saving_ns_per_step": None if found is None else found.saving_ns,
        "steps": [
            {
                "step": step.step,
                "state": step.state,
                "reason": step.reason,
                "exit_code": step.exit_code,
                "seconds": round(step.seconds, 3),
            }
            for step in row.record.steps
        ],
    }


def _comparison_json(row: ComparisonRow) -> dict[str, Any]:
    return {
        "kind": row.kind,
        **_from_to(row.cells),
        "verdict": row.verdict,
        "reason": row.reason,
        "gate": "missed" if row.state == MISSED else None,
        "before_ns": row.before_ns,
        "after_ns": row.after_ns,
        "delta_ns": row.delta_ns,
        "interval_ns": None if row.interval_ns is None else list(row.interval_ns),
        "conclusion": row.conclusion,
    }


def _saving_json(row: SavingRow) -> dict[str, Any]:
    return {
        **_from_to(row.cells),
        "finding": row.code or None,
        "predicted_ns": row.predicted_ns,
        "low_ns": row.low_ns,
        "profiled_ns": row.profiled_ns,
        "corrected_ns": row.corrected_ns,
        "plain_ns": row.plain_ns,
        "ratio": row.ratio,
        "within_share": row.within_share,
        "verdict": row.verdict,
        "reason": row.reason,
    }


def _target_json(row: TargetRow) -> dict[str, Any]:
    return {
        "key": row.target.key,
        "cell": None if row.cell is None else dict(row.cell.values),
        "wanted": row.wanted,
        "limit": row.limit,
        "found": row.figure.value,
        "verdict": row.verdict,
        "reason": row.figure.reason,
    }


def _from_to(cells: tuple[MatrixCell, MatrixCell]) -> dict[str, Any]:
    return {"from": dict(cells[0].values), "to": dict(cells[1].values)}

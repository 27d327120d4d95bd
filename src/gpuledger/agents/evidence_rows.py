"""The rows of a trace behind a finding's evidence: calls and GPU work by correlation, the costliest first."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpuledger.findings.finding import Finding
from gpuledger.findings.profiled_run import ProfiledRun
from gpuledger.trace.model import os_pid
from gpuledger.trace.tables import Kind, Rows, Table

_TABLES: Final = {
    Table.CALLS: ("name", "pid", "tid"),
    Table.KERNELS: ("name", "gpu", "stream"),
    Table.COPIES: ("kind", "gpu", "stream", "bytes"),
}
"""Where correlations lead, and what is told of a row besides its times."""

_MOST_OF_ONE: Final = 3
"""Rows of one table with one correlation: a launch of a graph may have thousands."""


def evidence_rows(run: ProfiledRun, found: Finding, most: int) -> list[dict[str, Any]]:
    """Of the first piece of evidence that names launches or calls: what each is in the tables, `most` of them.

    Instants are told from the run's zero, as everywhere.
    """
    piece = next((piece for piece in found.evidence if piece.correlations), None)
    if piece is None:
        return []
    return [
        row
        for correlation in piece.correlations[:most]
        for table in _TABLES
        for row in _rows(run, table, piece.pid, correlation)
    ]


def _rows(run: ProfiledRun, table: Table, pid: int | None, correlation: int) -> list[dict[str, Any]]:
    rows = run.trace[table]
    here = rows["correlation"] == correlation
    if pid is not None:
        here &= rows["pid"] == pid
    return [
        {
            "table": table.value,
            "correlation": correlation,
            "start_ns": int(rows["start_ns"][position]) - run.zero_ns,
            "end_ns": int(rows["end_ns"][position]) - run.zero_ns,
            **{name: _value(rows, name, position) for name in _TABLES[table]},
        }
        for position in np.flatnonzero(here)[:_MOST_OF_ONE].tolist()
    ]


def _value(rows: Rows, name: str, position: int) -> int | str | None:
    value = int(rows[name][position])
    if name == "pid":
        return os_pid(value)
    return rows.strings.text(value) if rows.schema[name].kind is Kind.TEXT else value

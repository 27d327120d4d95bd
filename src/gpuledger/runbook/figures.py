"""The figures of a cell, from the documents that its steps left: a key in, a value out, or why there is none.

A key is looked for in the results of the cell's benches, in their order. `NAME.key` looks in the result called NAME
only; NAME may be a report's too, and further dots lead further in: `report.steps.median_ns`. Of ranges, fleet and
whatif, which are tables, `NAME.ROW.COLUMN` is a row by its first text, and `NAME.COLUMN` the largest value of the first
table that has it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from gpuledger.runbook.definition import (
    CaptureStep,
    MatrixCell,
    ReadingStep,
    ReportStep,
    Runbook,
    SavingCheck,
    cell_title,
)
from gpuledger.runbook.engine import json_at
from gpuledger.runbook.forms import suggestion
from gpuledger.runbook.plan import Choices
from gpuledger.units import three_figures, time_text
from gpuledger.verdicts import FAIL, PASS

Value = int | float | str | bool | None
_ABSENT: Final = object()
_KINDS: Final = {"compute": "compute", "idle": "idle", "comm": "communication", "copy": "copies"}
_NS: Final = {"_ns": 1, "_us": 1_000, "_ms": 1_000_000, "_s": 1_000_000_000}


class Figure(Struct, frozen=True):
    """A value; None with the reason where there is none. `wrong` where the key itself must be wrong."""

    value: Value
    reason: str = ""
    wrong: bool = False
    ends: tuple[float, float] | None = None
    """The interval that it lies in, where its document has one beside it."""
    samples: int = 1


class ReportedFinding(Struct, frozen=True):
    """What a report says of a step."""

    step_ns: int | None
    code: str = ""
    saving_ns: int | None = None
    saving_low_ns: int | None = None


class Documents(Struct, frozen=True):
    """What the steps of a cell left, by name."""

    results: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    reports: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    undone: frozenset[str] = frozenset()  # steps of the runbook that left nothing in this cell

    def figure(self, key: str) -> Figure:
        name, dot, rest = key.partition(".")
        every = {**self.reports, **self.results}
        if dot and name in self.undone:
            return Figure(None, f"no step of this cell makes {name}")
        if dot and name in self.tables:
            return _in_tables(self.tables[name], rest, key)
        if dot and name in every:
            return _valued(_inside(every[name], rest), key, list(every[name]), doubt=_doubt(every[name], rest))
        for result in self.results.values():
            if (value := _inside(result, key)) is not _ABSENT:
                return _valued(value, key, (), _inside(result, f"{key}_reason"), _doubt(result, key))
        if not self.results:
            return Figure(None, "the cell left no result")
        return _valued(_ABSENT, key, [name for result in self.results.values() for name in result])

    def step_parts(self) -> dict[str, float]:
        """What takes a step, in nanoseconds: its phases where a step of the runbook tells them, else kinds of time."""
        parts = Counter[str]()
        for document in self.tables.values():
            for row in document.get("phases", ()):
                parts[str(row["phase"])] += row.get("per_step_ns") or row["time_ns"]
            if parts:
                return dict(parts)
        for document in self.reports.values():
            devices, steps = document.get("devices") or (), document.get("steps") or {}
            step_ns = steps.get("median_ns") or 0
            for line in devices[0].get("ledger", ()) if devices else ():
                kind = _KINDS.get(str(line["line"]).partition(".")[0], "other work")
                parts[kind] += line["share"] * step_ns
            if parts := +parts:
                break
        return dict(parts)

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
    tables: dict[str, Mapping[str, Any]] = {}
    for step in cell.steps(book, choices.size):
        kind = reports if isinstance(step, ReportStep) else tables if isinstance(step, ReadingStep) else results
        if step.name and not isinstance(step, CaptureStep):
            document = json_at(folder / f"{step.name}.json")
            if document is not None:
                kind[step.name] = document
    known = {step.name for step in book.steps if step.name and not isinstance(step, CaptureStep)}
    return Documents(results, reports, tables, frozenset(known - {*results, *reports, *tables}))


def nanoseconds(key: str, value: Value) -> int | None:
    """A time, by the unit that its key ends in."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    ending = next((unit for unit in _NS if key.endswith(unit)), None)
    return None if ending is None else round(value * _NS[ending])


def _inside(document: Mapping[str, Any], key: str) -> Any:
    if key in document:
        return document[key]
    name, dot, rest = key.partition(".")
    inner = document.get(name)
    return _inside(inner, rest) if dot and isinstance(inner, dict) else _ABSENT


_Doubt = tuple[tuple[float, float], int]


def _doubt(document: Mapping[str, Any], key: str) -> _Doubt | None:
    """The interval of a figure, and of how many samples: `KEY_interval` and `KEY_samples` beside it, or `interval_ns`
    and `samples` beside `median_ns`, as `time` writes it."""
    is_timing, before = key.endswith("median_ns"), key.removesuffix("median_ns")
    names = (f"{before}interval_ns", f"{before}samples") if is_timing else (f"{key}_interval", f"{key}_samples")
    interval, samples = (_inside(document, name) for name in names)
    match interval:
        case [int() | float() as low, int() | float() as high]:
            return (min(low, high), max(low, high)), samples if isinstance(samples, int) else 1
    return None


def _in_tables(document: Mapping[str, Any], key: str, whole_key: str) -> Figure:
    """A figure of the tables that a verb of ours wrote; see above for what a key may be."""
    every = [table["rows"] for table in document.get("tables", ())]
    every += [rows for rows in document.values() if isinstance(rows, list) and rows and isinstance(rows[0], dict)]
    wanted, _, column = key.rpartition(".")
    named = [
        (_plain(text), row)
        for rows in every
        for row in rows
        if (text := next((cell for cell in row.values() if isinstance(cell, str)), None)) is not None
    ]
    if wanted:
        rows = [row for name, row in named if name == _plain(wanted) and column in row]
        known = [f"{name}.{column}" for name, row in named if column in row]
    else:
        rows = next((rows for rows in every if rows and column in rows[0]), [])
        known = [name for rows in every for name in (rows[0] if rows else ())]
    if not rows:
        return Figure(None, f"no figure is called '{whole_key}'; {suggestion(key, known)}", wrong=True)
    values = [row[column] for row in (rows[:1] if wanted else rows)]
    numbers = [value for value in values if isinstance(value, int | float)]
    return _valued(max(numbers) if numbers else values[0], whole_key, ())


def _plain(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_").lower()


def _valued(
    value: Any,
    key: str,
    known: Sequence[str],
    reason: object = None,
    doubt: _Doubt | None = None,
) -> Figure:
    if value is _ABSENT:
        plain = [name for name in dict.fromkeys(known) if name not in ("schema", "settings")]
        return Figure(None, f"no figure is called '{key}'; {suggestion(key, plain)}", wrong=True)
    if value is None:
        return Figure(None, reason if isinstance(reason, str) else "not measured")
    if not isinstance(value, int | float | str):
        return Figure(None, f"'{key}' is no single value", wrong=True)
    return Figure(value) if doubt is None else Figure(value, ends=doubt[0], samples=doubt[1])


OPEN: Final = "not judged"

SLOWED: Final = 1.5  # a profiled step that takes longer than a plain one by more than this is told


class SavingRow(Struct, frozen=True, rename={"from_": "from"}):
    """A predicted saving per step, by the report of `from`, against what `to` saved: with the profiler and without."""

    from_: dict[str, str]
    to: dict[str, str]
    verdict: Literal["PASS", "FAIL", "not judged"]
    reason: str
    finding: str | None = None
    predicted_ns: int | None = None
    low_ns: int | None = None
    """The prediction's low end, as tracing slows the host."""
    profiled_ns: int | None = None
    """The step of `from` less that of `to`, both profiled."""
    plain_ns: int | None = None
    """The same by the benches' own figures, without a profiler."""
    within_share: float | None = None
    corrected_ns: int | None = None
    """As profiled, had the host been as fast after as before; null where nothing tells that it was not."""
    ratio: float | None = None
    """Predicted over measured: corrected where known, else profiled, else plain."""

    def __post_init__(self) -> None:
        known = self.measured_ns and self.predicted_ns is not None
        force_setattr(self, "ratio", (self.predicted_ns or 0) / (self.measured_ns or 1) if known else None)

    @property
    def measured_ns(self) -> int | None:
        """What the prediction is held against: it was made for the run as profiled, on a host of that speed."""
        known = (self.corrected_ns, self.profiled_ns, self.plain_ns)
        return next((saved_ns for saved_ns in known if saved_ns is not None), None)


class _Unknown(Exception):
    """Why there is no prediction."""


def saving_of(
    compare: SavingCheck,
    two: tuple[MatrixCell, MatrixCell],
    documents: Mapping[MatrixCell, Documents],
    corrected_ns: int | None = None,
) -> SavingRow:
    """Hold the prediction of the first cell's report against the second cell."""
    cells = dict(two[0].values), dict(two[1].values)
    lost = next((cell for cell in two if cell not in documents), None)
    if lost is not None:
        return SavingRow(*cells, OPEN, f"{lost.title} is not finished")
    before, after = (documents[cell] for cell in two)
    key = compare.key or ""
    plain_before, plain_after = (nanoseconds(key, left.figure(key).value) for left in (before, after))
    plain = None if plain_before is None or plain_after is None else plain_before - plain_after
    try:
        predicted = _predicted(compare, before, after, two[0].title)
    except _Unknown as unknown:
        return SavingRow(*cells, OPEN, str(unknown), plain_ns=plain)
    fixed = after.finding(compare.report, None)
    profiled = None
    if predicted.step_ns is not None and fixed is not None and fixed.step_ns is not None:
        profiled = predicted.step_ns - fixed.step_ns
    saving = SavingRow(
        *cells,
        OPEN,
        "",
        finding=predicted.code or None,
        predicted_ns=predicted.saving_ns,
        low_ns=predicted.saving_low_ns,
        profiled_ns=profiled,
        plain_ns=plain,
        within_share=compare.within_share,
        corrected_ns=corrected_ns,
    )
    return judge(saving)


def slowed_cells(compare: SavingCheck, cells: Mapping[MatrixCell, Documents]) -> list[str]:
    """The cells that the profiler slows so much that their findings are of another run, in sentences."""
    sentences = []
    for cell, documents in cells.items():
        plain = None if compare.key is None else nanoseconds(compare.key, documents.figure(compare.key).value)
        reported = documents.finding(compare.report, None)
        if plain and reported and reported.step_ns is not None and reported.step_ns > SLOWED * plain:
            sentences.append(
                f"{cell.title}: a step takes {time_text(plain)} unprofiled and {time_text(reported.step_ns)} profiled, "
                f"{three_figures(reported.step_ns / plain)} x: what its report would save is in part the profiler's own"
            )
    return sentences


def judge(row: SavingRow) -> SavingRow:
    """The row with its verdict, where there is a limit and something to judge by."""
    measured, within = row.measured_ns, row.within_share
    if measured is None:
        return replace(row, reason=f"nothing says what {cell_title(row.to)} saved")
    if within is None:
        return row
    if measured <= 0:
        return replace(row, verdict=FAIL, reason="nothing was saved")
    apart = abs((row.predicted_ns or 0) - measured) / measured
    reason = f"prediction and saving lie {100 * apart:.1f} % apart, {100 * within:g} % are allowed"
    return replace(row, verdict=PASS if apart <= within else FAIL, reason=reason)


def judge_by_the_middle(rows: Sequence[SavingRow], axis: str) -> list[SavingRow]:
    """Of rows that differ in `axis` alone, which are one measurement, repeated, the middle one keeps its verdict.

    A machine with other guests may change its pace between two captures. That spoils some of the turns, seldom most.
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    for index, row in enumerate(rows):
        others = tuple(tuple(pair for pair in cell.items() if pair[0] != axis) for cell in (row.from_, row.to))
        groups.setdefault(others, []).append(index)
    judged_rows = list(rows)
    for group in groups.values():
        known = sorted((ratio, index) for index in group if (ratio := rows[index].ratio) is not None)
        if not known:
            continue
        _, middle = known[(len(known) - 1) // 2]
        value = rows[middle].from_[axis]
        for index in group:
            judged_rows[index] = replace(
                rows[index], verdict=OPEN, reason=f"{axis}={value} is the middle one, and judged"
            )
        reason = f"{rows[middle].reason}; the middle one of {len(known)}"
        judged_rows[middle] = replace(rows[middle], reason=reason)
    return judged_rows


def _predicted(compare: SavingCheck, before: Documents, after: Documents, title: str) -> ReportedFinding:
    """The finding that promises most, or the sum of those named, each by the part of it that goes away.

    Findings may be summed as long as they are about different losses, as HOST-SYNC, LAUNCH-BOUND and HOST-CODE are: of
    the time after waits LAUNCH-BOUND has only what HOST-SYNC leaves.
    """
    reported = {code: before.finding(compare.report, code) for code in compare.findings or (None,)}
    if None in reported.values():
        raise _Unknown(f"there is no report of {title}")
    known = {code: finding for code, finding in reported.items() if finding and finding.saving_ns is not None}
    if not known:
        wanted = " or ".join(compare.findings or ("finding with a saving per step",))
        raise _Unknown(f"the report of {title} has no {wanted}")
    findings = tuple(known.values())
    parts = [_gone((compare.findings or {}).get(code or "", ()), before, after) for code in known]
    savings = [part * (finding.saving_ns or 0) for part, finding in zip(parts, findings, strict=True)]
    lows = [
        part * low for part, finding in zip(parts, findings, strict=True) if (low := finding.saving_low_ns) is not None
    ]
    low_ns = round(sum(lows)) if len(lows) == len(findings) else None
    return ReportedFinding(
        findings[0].step_ns, " + ".join(found.code for found in findings), round(sum(savings)), low_ns
    )


def _gone(keys: tuple[str, ...], before: Documents, after: Documents) -> float:
    """The part of a finding that the change takes away: by how much the sum of some counts falls, or all of it."""
    if not keys:
        return 1.0
    counts = [sum(_number(key, documents) for key in keys) for documents in (before, after)]
    if counts[0] <= 0:
        listed = " + ".join(f"'{key}'" for key in keys)
        raise _Unknown(f"{listed} is {counts[0]:g} before the change: nothing can be in proportion to it")
    return 1 - counts[1] / counts[0]


def _number(key: str, documents: Documents) -> float:
    figure = documents.figure(key)
    if isinstance(figure.value, bool | str | None):
        raise _Unknown(figure.reason or f"'{key}' is no number")
    return figure.value

"""What a run found: cells with their figures, comparisons, savings against predictions, targets; and the verdict."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.capture.secrets import shareable_command, shareable_value
from gpuledger.errors import GpuledgerError
from gpuledger.runbook import engine as states
from gpuledger.runbook.definition import FigureTarget, MatrixCell, Runbook, SavingCheck, fill, pairs
from gpuledger.runbook.engine import CellRecord, ComparisonOutcome, RunOutcome, json_at
from gpuledger.runbook.figures import (
    OPEN,
    Documents,
    Figure,
    ReportedFinding,
    SavingRow,
    documents_of,
    judge_by_the_middle,
    saving_of,
    slowed_cells,
)
from gpuledger.runbook.plan import Choices
from gpuledger.verdicts import FAIL, UNDECIDED, DoubtfulFigure


class CellRow(Struct, frozen=True):
    """A cell of the matrix, and what its steps left."""

    cell: MatrixCell
    record: CellRecord
    kept: bool
    figures: Mapping[str, Figure]
    finding: ReportedFinding | None
    parts: tuple[tuple[str, float], ...] = ()
    """What takes a step, with its nanoseconds."""


class ComparisonRow(Struct, frozen=True):
    """A diff or an alignment. `reason` says why there is no verdict."""

    kind: str
    cells: tuple[MatrixCell, MatrixCell]
    verdict: str
    reason: str
    state: str
    before_ns: int | None = None
    after_ns: int | None = None
    interval_ns: tuple[int, int] | None = None
    conclusion: str = ""
    corrected_delta_ns: int | None = None
    """The difference at the host's speed before, where ranges that did not change show that it was another after."""

    @property
    def delta_ns(self) -> int | None:
        return None if self.before_ns is None or self.after_ns is None else self.after_ns - self.before_ns


class TargetRow(Struct, frozen=True):
    """A target in one cell; None: in no cell of this run."""

    target: FigureTarget
    cell: MatrixCell | None
    limit: float | None
    figure: Figure
    verdict: str

    @property
    def is_missed(self) -> bool:
        return self.verdict == FAIL or (self.verdict == UNDECIDED and self.target.undecided == "fail")

    @property
    def wanted(self) -> str:
        return "at most" if self.target.at_most is not None else "at least"


class RunSummary(Struct, frozen=True):
    """All of it. The exit code is 1 where something failed, 3 where a target was missed, else 0."""

    book: Runbook
    choices: Choices
    cells: tuple[CellRow, ...]
    comparisons: tuple[ComparisonRow, ...]
    savings: tuple[SavingRow, ...]
    slowed_cells: tuple[str, ...]  # cells that take much longer under the profiler, a sentence each
    targets: tuple[TargetRow, ...]
    missing: Mapping[str, str]
    interrupted: bool
    failures: tuple[GpuledgerError, ...]

    @property
    def environment(self) -> dict[str, str]:
        """What the runbook sets for all cells, as others may see it."""
        return {name: shareable_value(name, text) for name, text in self.book.environment.items()}

    @property
    def variables(self) -> dict[str, str]:
        """What the runbook, its size and --set give, in the same way."""
        return {name: shareable_value(name, text) for name, text in self.choices.variables.items()}

    @property
    def via(self) -> str | None:
        """Where its programs ran, if not here."""
        via = self.book.via
        return None if via is None else shlex.join(shareable_command(shlex.split(via)))

    @property
    def misses(self) -> list[str]:
        steps = [
            f"{row.cell.title}: {step.step}: {step.reason}"
            for row in self.cells
            for step in row.record.steps
            if step.state == states.MISSED
        ]
        gates = [
            f"{row.kind} {_two(row.cells)}: {row.reason}" for row in self.comparisons if row.state == states.MISSED
        ]
        savings = [f"saving {_two(row.cells)}: {row.reason}" for row in self.savings if row.verdict == FAIL]
        targets = [
            f"{row.target.key} is {row.figure.value} in {row.cell.title}, wanted: {row.wanted} {row.limit:g}"
            + (f"; {row.figure.reason}" if row.figure.reason else "")
            for row in self.targets
            if row.is_missed and row.cell is not None
        ]
        return [*steps, *gates, *savings, *targets]

    @property
    def exit_code(self) -> int:
        if self.interrupted:
            return 130
        return 1 if self.failures else 3 if self.misses else 0


def summarise(
    book: Runbook, choices: Choices, cells: Sequence[MatrixCell], ran: RunOutcome, missing: Mapping[str, str]
) -> RunSummary:
    """Read what the cells left, and judge it."""
    records = {cell: ran.records.get(cell.folder, CellRecord("", states.NOT_RUN)) for cell in cells}
    documents = {cell: documents_of(book, cell, choices) for cell in cells if records[cell].state == states.FINISHED}
    rows = []
    for cell in cells:
        left = documents.get(cell, Documents())
        finding = next((left.finding(report, None) for report in left.reports), None)
        figures = {key: left.figure(key) for key in book.show}
        rows.append(CellRow(cell, records[cell], cell.folder in ran.kept, figures, finding, left.step_parts()))
    comparisons = tuple(_comparison(compared) for compared in ran.comparisons)
    corrected = {row.cells: -row.corrected_delta_ns for row in comparisons if row.corrected_delta_ns is not None}
    savings, slow = list[SavingRow](), list[str]()
    for compare in book.compares:
        if isinstance(compare, SavingCheck):
            two_by_two = pairs(cells, compare.before, compare.after)
            saved = [saving_of(compare, two, documents, corrected.get(two)) for two in two_by_two]
            savings += saved if compare.over is None else judge_by_the_middle(saved, compare.over)
            slow += slowed_cells(compare, documents)
    targets = tuple(row for target in book.targets for row in _targets(target, cells, documents, choices))
    wrong = [
        GpuledgerError(f"{book.file}:{row.target.line}: {row.figure.reason}", found=f"in {row.cell.title}")
        for row in targets
        if row.figure.wrong and row.cell is not None
    ]
    return RunSummary(
        book,
        choices,
        tuple(rows),
        comparisons,
        tuple(savings),
        tuple(dict.fromkeys(slow)),
        targets,
        missing,
        ran.interrupted,
        (*ran.failures, *wrong),
    )


def _two(cells: tuple[MatrixCell, MatrixCell]) -> str:
    return f"{cells[0].title} -> {cells[1].title}"


def _comparison(compared: ComparisonOutcome) -> ComparisonRow:
    comparing, record = compared.comparing, compared.record
    kind = comparing.compare.KEY
    document = json_at(comparing.result) if record.state in (states.DONE, states.MISSED) else None
    if document is None:
        return ComparisonRow(kind, comparing.cells, "not done", record.reason, record.state)
    before, after, ends = (document.get(key) or {} for key in ("before", "after", "interval_ns"))
    return ComparisonRow(
        kind,
        comparing.cells,
        str(document.get("verdict")),
        record.reason,
        record.state,
        before.get("median_ns"),
        after.get("median_ns"),
        (ends[0], ends[1]) if isinstance(ends, list) and len(ends) == 2 else None,
        document["sentences"][0] if kind == "align" else "",
        document.get("corrected_step_delta_ns"),
    )


def _targets(
    target: FigureTarget, cells: Sequence[MatrixCell], documents: Mapping[MatrixCell, Documents], choices: Choices
) -> list[TargetRow]:
    if not any(cell.is_in(target.where, choices.size) for cell in cells):
        figure = Figure(None, "not for this size" if "size" in target.where else "no cell is meant")
        return [TargetRow(target, None, None, figure, OPEN)]
    return [_target(target, cell, documents, choices) for cell in cells if cell.is_in(target.where, choices.size)]


def _target(
    target: FigureTarget, cell: MatrixCell, documents: Mapping[MatrixCell, Documents], choices: Choices
) -> TargetRow:
    values = dict(choices.variables) | dict(cell.values) | {"size": choices.size}
    text = fill(target.at_most if target.at_most is not None else target.at_least or "", values)
    try:
        limit = float(text)
    except ValueError:
        return TargetRow(target, cell, None, Figure(None, f"'{text}' is no number", wrong=True), OPEN)
    if cell not in documents:
        return TargetRow(target, cell, limit, Figure(None, "the cell is not finished"), OPEN)
    figure = documents[cell].figure(target.key)
    if isinstance(figure.value, str | None):
        reason = figure.reason or f"'{figure.value}' is no number"
        return TargetRow(target, cell, limit, Figure(None, reason, figure.wrong), OPEN)
    known = DoubtfulFigure(figure.value, *(figure.ends or (figure.value, figure.value)), figure.samples)
    verdict = known.at_most(limit) if target.at_most is not None else known.at_least(limit)
    if verdict == UNDECIDED:
        needed = known.deciding_samples(limit) if known.samples > 1 else None
        would = f"about {needed:,} samples would decide, not {known.samples:,}" if needed else "measure for longer"
        figure = replace(figure, reason=f"it lies between {known.low:g} and {known.high:g}: {would}")
    return TargetRow(target, cell, limit, figure, verdict)

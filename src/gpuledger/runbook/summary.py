"""What a run found, row by row: cells with their figures, comparisons, savings against predictions, targets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.runbook.definition import FigureTarget, MatrixCell, Runbook, SavingCheck, cell_title, fill, pairs
from gpuledger.runbook.engine import DONE, MISSED, CellRecord, ComparisonOutcome, StepRecord, json_at
from gpuledger.runbook.figures import (
    OPEN,
    Documents,
    Figure,
    SavingRow,
    Value,
    judge_by_the_middle,
    saving_of,
    slowed_cells,
)
from gpuledger.runbook.plan import Choices
from gpuledger.verdicts import FAIL, UNDECIDED, DoubtfulFigure


class CellRow(Struct, frozen=True):
    """A cell of the matrix, and what its steps left."""

    cell: dict[str, str]
    """The value of every axis."""
    folder: str
    """Under `cells` in the folder of the run."""
    state: str
    """finished, failed, skipped, interrupted, running or not run."""
    reason: str
    kept: bool
    """Whether an earlier run finished it."""
    seconds: float
    figures: dict[str, Value]
    not_measured: dict[str, str]
    """Why a figure is null."""
    step_ns: int | None
    """The usual step in the first report of the cell."""
    finding: str | None
    """The finding of that report that promises most."""
    saving_ns_per_step: int | None
    parts_ns: dict[str, float]
    """What takes a step."""
    steps: tuple[StepRecord, ...]


class ComparisonRow(Struct, frozen=True, rename={"from_": "from"}):
    """A diff or an alignment."""

    kind: str
    """diff or align."""
    from_: dict[str, str]
    to: dict[str, str]
    verdict: str
    """The verdict of gpuledger.diff/1 or gpuledger.align/1, or: not done."""
    reason: str
    """Why there is no verdict."""
    state: str
    """done, failed, skipped, interrupted, or missed: a gate tripped."""
    before_ns: int | None = None
    after_ns: int | None = None
    delta_ns: int | None = None
    interval_ns: tuple[int, int] | None = None
    conclusion: str = ""
    corrected_delta_ns: int | None = None
    """The difference at the host's speed before, where ranges that did not change show that it was another after."""


class TargetRow(Struct, frozen=True):
    """A target in one cell."""

    key: str
    cell: dict[str, str] | None
    """null: in no cell of this run."""
    wanted: Literal["at most", "at least"]
    limit: float | None
    found: Value
    verdict: Literal["PASS", "FAIL", "UNDECIDED", "not judged"]
    reason: str
    is_wrong: bool = False
    """Whether the target itself is: no figure has this name, or its limit is no number."""
    is_missed: bool = False


def cell_row(cell: MatrixCell, record: CellRecord, left: Documents, show: Sequence[str], *, kept: bool) -> CellRow:
    """A cell with the figures to show of what its steps left."""
    finding = next((left.finding(report, None) for report in left.reports), None)
    figures = {key: left.figure(key) for key in show}
    return CellRow(
        cell=dict(cell.values),
        folder=cell.folder,
        state=record.state,
        reason=record.reason,
        kept=kept,
        seconds=round(record.seconds, 3),
        figures={key: figure.value for key, figure in figures.items()},
        not_measured={key: figure.reason for key, figure in figures.items() if figure.value is None},
        step_ns=None if finding is None else finding.step_ns,
        finding=(finding.code or None) if finding else None,
        saving_ns_per_step=None if finding is None else finding.saving_ns,
        parts_ns=left.step_parts(),
        steps=record.steps,
    )


def saving_rows(
    book: Runbook,
    cells: Sequence[MatrixCell],
    documents: Mapping[MatrixCell, Documents],
    compared: Sequence[tuple[ComparisonOutcome, ComparisonRow]],
) -> tuple[tuple[SavingRow, ...], tuple[str, ...]]:
    """Predicted savings against measured ones, and the cells that the profiler slows."""
    corrected = {
        outcome.comparing.cells: -row.corrected_delta_ns
        for outcome, row in compared
        if row.corrected_delta_ns is not None
    }
    savings, slow = list[SavingRow](), list[str]()
    for compare in book.compares:
        if isinstance(compare, SavingCheck):
            two_by_two = pairs(cells, compare.before, compare.after)
            saved = [saving_of(compare, two, documents, corrected.get(two)) for two in two_by_two]
            savings += saved if compare.over is None else judge_by_the_middle(saved, compare.over)
            slow += slowed_cells(compare, documents)
    return tuple(savings), tuple(dict.fromkeys(slow))


def missed_goals(
    cells: Sequence[CellRow],
    comparisons: Sequence[ComparisonRow],
    savings: Sequence[SavingRow],
    targets: Sequence[TargetRow],
) -> Iterator[str]:
    """What was missed: by steps, gates, predictions and targets."""
    for row in cells:
        for step in row.steps:
            if step.state == MISSED:
                yield f"{cell_title(row.cell)}: {step.step}: {step.reason}"
    for compared in comparisons:
        if compared.state == MISSED:
            yield f"{compared.kind} {two_cells(compared)}: {compared.reason}"
    yield from (f"saving {two_cells(saving)}: {saving.reason}" for saving in savings if saving.verdict == FAIL)
    for target in targets:
        if target.is_missed and target.cell is not None:
            wanted = f"{target.key} is {target.found} in {cell_title(target.cell)}, wanted: {target.wanted}"
            yield f"{wanted} {target.limit:g}{f'; {target.reason}' if target.reason else ''}"


def two_cells(row: ComparisonRow | SavingRow) -> str:
    """What is compared with what."""
    return f"{cell_title(row.from_)} -> {cell_title(row.to)}"


def comparison_row(compared: ComparisonOutcome) -> ComparisonRow:
    """What a comparison said."""
    comparing, record = compared.comparing, compared.record
    before, after = (dict(cell.values) for cell in comparing.cells)
    row = ComparisonRow(comparing.compare.KEY, before, after, "not done", record.reason, record.state)
    document = json_at(comparing.result) if record.state in (DONE, MISSED) else None
    if document is None:
        return row
    left, right, ends = (document.get(key) or {} for key in ("before", "after", "interval_ns"))
    before_ns, after_ns = left.get("median_ns"), right.get("median_ns")
    return replace(
        row,
        verdict=str(document.get("verdict")),
        before_ns=before_ns,
        after_ns=after_ns,
        delta_ns=None if before_ns is None or after_ns is None else after_ns - before_ns,
        interval_ns=(ends[0], ends[1]) if isinstance(ends, list) and len(ends) == 2 else None,
        conclusion=document["sentences"][0] if row.kind == "align" else "",
        corrected_delta_ns=document.get("corrected_step_delta_ns"),
    )


def target_rows(
    target: FigureTarget, cells: Sequence[MatrixCell], documents: Mapping[MatrixCell, Documents], choices: Choices
) -> list[TargetRow]:
    """A target in each cell that it is about."""
    wanted: Literal["at most", "at least"] = "at most" if target.at_most is not None else "at least"
    meant = [cell for cell in cells if cell.is_in(target.where, choices.size)]
    if not meant:
        reason = "not for this size" if "size" in target.where else "no cell is meant"
        return [TargetRow(target.key, None, wanted, None, None, OPEN, reason)]
    rows = []
    for cell in meant:
        limit, figure, verdict = _judged(target, cell, documents, choices)
        is_missed = verdict == FAIL or (verdict == UNDECIDED and target.undecided == "fail")
        values = dict(cell.values)
        rows.append(
            TargetRow(target.key, values, wanted, limit, figure.value, verdict, figure.reason, figure.wrong, is_missed)
        )
    return rows


def _judged(
    target: FigureTarget, cell: MatrixCell, documents: Mapping[MatrixCell, Documents], choices: Choices
) -> tuple[float | None, Figure, Literal["PASS", "FAIL", "UNDECIDED", "not judged"]]:
    """The limit of a target in a cell, the figure that it is about, and the verdict."""
    values = dict(choices.variables) | dict(cell.values) | {"size": choices.size}
    text = fill(target.at_most if target.at_most is not None else target.at_least or "", values)
    try:
        limit = float(text)
    except ValueError:
        return None, Figure(None, f"'{text}' is no number", wrong=True), OPEN
    if cell not in documents:
        return limit, Figure(None, "the cell is not finished"), OPEN
    figure = documents[cell].figure(target.key)
    if isinstance(figure.value, str | None):
        return limit, Figure(None, figure.reason or f"'{figure.value}' is no number", figure.wrong), OPEN
    known = DoubtfulFigure(figure.value, *(figure.ends or (figure.value, figure.value)), figure.samples)
    verdict = known.at_most(limit) if target.at_most is not None else known.at_least(limit)
    if verdict == UNDECIDED:
        needed = known.deciding_samples(limit) if known.samples > 1 else None
        would = f"about {needed:,} samples would decide, not {known.samples:,}" if needed else "measure for longer"
        figure = replace(figure, reason=f"it lies between {known.low:g} and {known.high:g}: {would}")
    return limit, figure, verdict

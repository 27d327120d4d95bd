"""Runs of runbooks, and the runbooks there are, for programs: gpuledger.runbook/1 and gpuledger.runbooks/1."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, convert, field

from gpuledger.json_types import Json
from gpuledger.present.json.types import fill, rows_json
from gpuledger.present.sheet import Sheet
from gpuledger.runbook.engine import MISSED
from gpuledger.runbook.figures import SavingRow
from gpuledger.runbook.summary import CellRow, ComparisonRow, RunSummary, TargetRow

_Seconds: TypeAlias = Annotated[float, Meta(ge=0)]
_Verdict: TypeAlias = Literal["PASS", "FAIL", "UNDECIDED", "not judged"]
_AxisValues: TypeAlias = Annotated[dict[str, str], Meta(description="The value of every axis.")]

_VERDICTS: Final[dict[int, Literal["done", "failed", "missed", "interrupted"]]] = {
    0: "done",
    1: "failed",
    3: "missed",
    130: "interrupted",
}
"""By the exit code."""


class CellStepJson(Json):
    step: str
    state: Literal["done", "missed", "failed", "skipped", "interrupted"]
    reason: str
    exit_code: int | None
    seconds: _Seconds


class MatrixCellJson(Json):
    cell: _AxisValues
    folder: Annotated[str, Meta(description="Under `cells` in the folder of the run.")]
    state: Literal["finished", "failed", "skipped", "interrupted", "running", "not run"]
    reason: str
    kept: Annotated[bool, Meta(description="Whether an earlier run finished it.")]
    seconds: _Seconds
    figures: dict[str, float | str | bool | None]
    not_measured: Annotated[dict[str, str], Meta(description="Why a figure is null.")]
    step_ns: Annotated[int | None, Meta(description="The usual step in the first report of the cell.")]
    finding: Annotated[str | None, Meta(description="The finding of that report that promises most.")]
    saving_ns_per_step: int | None
    steps: list[CellStepJson]


class CellComparisonJson(Json):
    kind: Literal["diff", "align"]
    from_: _AxisValues = field(name="from")
    to: _AxisValues
    verdict: Annotated[str, Meta(description="The verdict of gpuledger.diff/1 or gpuledger.align/1, or: not done.")]
    reason: str
    gate: Literal["missed"] | None
    before_ns: int | None
    after_ns: int | None
    delta_ns: int | None
    interval_ns: Annotated[list[int], Meta(min_length=2, max_length=2)] | None
    conclusion: str


class PredictedSavingJson(Json):
    from_: _AxisValues = field(name="from")
    to: _AxisValues
    finding: str | None
    predicted_ns: Annotated[int | None, Meta(description="Per step, by the report of `from`.")]
    low_ns: Annotated[int | None, Meta(description="The prediction's low end, as tracing slows the host.")]
    profiled_ns: Annotated[int | None, Meta(description="The step of `from` less that of `to`, both profiled.")]
    corrected_ns: int | None
    """As profiled, had the host been as fast as before, by ranges that did not change; null where no diff tells that it
    was not."""
    plain_ns: Annotated[int | None, Meta(description="The same by the benches' own figures, without a profiler.")]
    ratio: float | None
    """Predicted over measured: corrected where known, else profiled, else plain."""
    within_share: Annotated[float, Meta(ge=0)] | None
    verdict: _Verdict
    reason: str


class FigureTargetJson(Json):
    key: str
    cell: _AxisValues | None
    wanted: Literal["at most", "at least"]
    limit: float | None
    found: float | bool | None
    verdict: _Verdict
    reason: str


class RunbookJson(Json):
    """What a run of a runbook found: its cells, comparisons between them, predicted savings and measured ones, targets.

    Times end in their unit, shares are 0 to 1; null is what was not measured.
    """

    schema: Literal["gpuledger.runbook/1"]
    runbook: str
    question: str
    verdict: Literal["done", "failed", "missed", "interrupted"]
    """failed: a step failed; missed: a target, a gate or a prediction was missed."""
    size: str | None
    via: Annotated[str | None, Meta(description="What led to where its programs ran; null: they ran here.")]
    variables: dict[str, str]
    environment: dict[str, str]
    """What the runbook sets for every command; what is not known to be harmless is withheld."""
    missing: Annotated[dict[str, str], Meta(description="What steps need and this machine has not, with the reason.")]
    cells: list[MatrixCellJson]
    comparisons: list[CellComparisonJson]
    savings: list[PredictedSavingJson]
    slowed: list[str]
    """Cells whose steps take much longer under the profiler, a sentence each."""
    targets: list[FigureTargetJson]
    misses: list[str]
    failures: list[str]


def runbook_json(summary: RunSummary) -> RunbookJson:
    """What a run found."""
    return fill(
        RunbookJson,
        summary,
        schema="gpuledger.runbook/1",
        runbook=summary.book.name,
        question=summary.book.question,
        verdict=_VERDICTS[summary.exit_code],
        size=summary.choices.size or None,
        cells=[_cell(row) for row in summary.cells],
        comparisons=[_comparison(row) for row in summary.comparisons],
        savings=[_saving(row) for row in summary.savings],
        slowed=list(summary.slowed_cells),
        targets=[_target(row) for row in summary.targets],
        failures=[error.claim for error in summary.failures],
    )


def _cell(row: CellRow) -> MatrixCellJson:
    finding = row.finding
    return fill(
        MatrixCellJson,
        row.record,
        cell=dict(row.cell.values),
        folder=row.cell.folder,
        kept=row.kept,
        seconds=round(row.record.seconds, 3),
        figures={key: measured.value for key, measured in row.figures.items()},
        not_measured={key: measured.reason for key, measured in row.figures.items() if measured.value is None},
        step_ns=None if finding is None else finding.step_ns,
        finding=(finding.code or None) if finding else None,
        saving_ns_per_step=None if finding is None else finding.saving_ns,
        steps=[fill(CellStepJson, step, seconds=round(step.seconds, 3)) for step in row.record.steps],
    )


def _comparison(row: ComparisonRow) -> CellComparisonJson:
    before, after = (dict(cell.values) for cell in row.cells)
    gate = "missed" if row.state == MISSED else None
    return fill(CellComparisonJson, row, from_=before, to=after, gate=gate)


def _saving(row: SavingRow) -> PredictedSavingJson:
    before, after = (dict(cell.values) for cell in row.cells)
    return fill(PredictedSavingJson, row, from_=before, to=after, finding=row.code or None)


def _target(row: TargetRow) -> FigureTargetJson:
    return fill(
        FigureTargetJson,
        row,
        key=row.target.key,
        cell=None if row.cell is None else dict(row.cell.values),
        found=row.figure.value,
        reason=row.figure.reason,
    )


class ListedRunbookJson(Json):
    runbook: str
    cells: Annotated[str, Meta(description="The axes of its matrix.")]
    question: str


class RunbooksJson(Json):
    """The runbooks that come with gpuledger."""

    schema: Literal["gpuledger.runbooks/1"]
    runbooks: list[ListedRunbookJson]


def runbooks_json(sheet: Sheet) -> RunbooksJson:
    """The table of runbooks, a runbook a row."""
    return RunbooksJson("gpuledger.runbooks/1", [convert(row, ListedRunbookJson) for row in rows_json(sheet)])

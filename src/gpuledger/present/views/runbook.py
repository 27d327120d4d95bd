"""A run of a runbook, for people: the matrix, comparisons, savings, targets; and its commands before they are run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from gpuledger.present.document import (
    Block,
    Document,
    Group,
    Heading,
    Medium,
    Only,
    Paragraph,
    Points,
    SheetBlock,
    SheetTitle,
)
from gpuledger.present.safe_text import shell_lines, shell_word, visible
from gpuledger.present.sheet import Cell as Content
from gpuledger.present.sheet import Column, Sheet, Unit
from gpuledger.present.views.bench import figure, heading
from gpuledger.present.views.runbook_json import summary_data
from gpuledger.present.writers.json import sheet_json
from gpuledger.runbook.definition import MatrixCell, Runbook
from gpuledger.runbook.engine import DONE, FAILED, FINISHED, MISSED, NOT_RUN
from gpuledger.runbook.figures import SavingRow
from gpuledger.runbook.plan import CellJob, Choices
from gpuledger.runbook.summary import ComparisonRow, RunSummary, TargetRow
from gpuledger.units import share_text, three_figures, time_text

_SIDES: Final = (
    Column("from", "From", Unit.TEXT),
    Column("to", "To", Unit.TEXT),
    Column("both", "Both", Unit.TEXT, detail=3),
)


def summary_document(summary: RunSummary) -> Document:
    """A run; JSON is the document gpuledger.runbook/1."""
    return Document(
        blocks=lambda: (Group(tuple(_blocks(summary))),),
        data=lambda: summary_data(summary),
        sheets=lambda: (_matrix_values(summary),),
    )


def _matrix_values(summary: RunSummary) -> Sheet:
    """The matrix, a row per cell, with plain values."""
    book = summary.book
    columns = [Column(axis, axis, Unit.TEXT) for axis in book.axes]
    names = ("state", "reason", "seconds", *book.show, "step_ns", "finding", "saving_ns_per_step")
    columns += [Column(name, name, Unit.TEXT) for name in names]
    rows = []
    for row in summary.cells:
        found = row.finding
        rows.append(
            (
                *(value for _, value in row.cell.values),
                row.record.state,
                row.record.reason,
                str(round(row.record.seconds, 3)),
                *(_bare(row.figures[key].value) for key in book.show),
                *((None, "", None) if found is None else (_bare(found.step_ns), found.code, _bare(found.saving_ns))),
            )
        )
    return Sheet("runbook", book.name, tuple(columns), tuple(rows))


def commands_text(
    book: Runbook,
    prelude: Sequence[CellJob],
    cells: Iterable[tuple[MatrixCell, Sequence[str], Mapping[str, str], Sequence[CellJob]]],
    comparisons: Sequence[CellJob],
) -> str:
    """Every command of a run, for a POSIX shell, as it is handed in; what some need is said beside them."""
    lines = [f"# {book.name}: {book.question}"]
    if prelude:
        lines += ["", "# prelude", *_shell(prelude, {})]
    for cell, needs, environment, jobs in cells:
        needed = f", where there is: {', '.join(needs)}" if needs else ""
        lines += ["", f"# {cell.title}{needed}", *_shell(jobs, environment)]
    if comparisons:
        lines += ["", "# compare", *_shell(comparisons, {})]
    return "\n".join(visible(line) if line.startswith("#") else line for line in lines) + "\n"


def listing_document(books: Sequence[Runbook]) -> Document:
    """The runbooks that ship, with their questions; in a terminal those need more room than a column has."""
    columns = (
        Column("runbook", "Runbook", Unit.TEXT),
        Column("cells", "Matrix", Unit.TEXT),
        Column("question", "Question", Unit.TEXT),
    )
    rows = tuple((book.name, " x ".join(book.axes) or "one cell", book.question) for book in books)
    sheet = Sheet("runbooks", "Runbooks", columns, rows)
    last = Paragraph("Run one with `gpuledger run NAME`; `--dry-run` prints its commands.")
    return Document(
        blocks=lambda: (
            Only(Medium.TEXT, (*(Points(book.name, (book.question,)) for book in books), last)),
            Only(Medium.MARKDOWN, (SheetBlock(sheet, SheetTitle.NAMED),)),
        ),
        data=lambda: {"schema": "gpuledger.runbooks/1", "runbooks": sheet_json(sheet.name, sheet)["rows"]},
        sheets=lambda: (sheet,),
    )


def _shell(jobs: Sequence[CellJob], environment: Mapping[str, str]) -> list[str]:
    set_ = "".join(f"{name}={shell_word(text)} " for name, text in environment.items())
    lines = []
    for job in jobs:
        if job.needs:
            lines.append(f"# {job.title}, where there is: {', '.join(job.needs)}")
        lines += [set_ + shell_lines(command)[0] for command in job.commands]
    return lines


def _blocks(summary: RunSummary) -> list[Block]:
    blocks: list[Block] = [
        Heading(f"Runbook {summary.book.name}", 1),
        Paragraph(summary.book.question),
        Paragraph(_about(summary)),
        SheetBlock(_matrix(summary)),
    ]
    if summary.comparisons:
        blocks += [Heading("Comparisons"), SheetBlock(_filled(_comparisons(summary.comparisons)))]
    if summary.savings:
        blocks += [
            Heading("Savings per step: predicted, measured with the profiler, measured without it"),
            SheetBlock(_filled(_savings(summary.savings))),
        ]
    if summary.slowed_cells:
        blocks.append(Points("Slowed by the profiler", summary.slowed_cells))
    if summary.targets:
        blocks += [Heading("Targets"), SheetBlock(_targets(summary.targets))]
    if summary.misses:
        blocks.append(Points("Missed", tuple(summary.misses)))
    if summary.failures:
        blocks.append(Points("Failed", tuple(error.claim for error in summary.failures)))
    if left := _not_done(summary):
        blocks.append(Points("Not done", left))
    return blocks


def _about(summary: RunSummary) -> str:
    finished = sum(row.record.state == FINISHED for row in summary.cells)
    parts = [f"{finished} of {len(summary.cells)} cells finished"]
    if summary.choices.size:
        parts.append(f"size {summary.choices.size}")
    parts += [f"{name} {value}" for name, value in summary.variables.items()]
    return " · ".join(parts)


def _matrix(summary: RunSummary) -> Sheet:
    book = summary.book
    reported = any(row.finding is not None for row in summary.cells)
    columns = [Column(axis, axis, Unit.TEXT) for axis in book.axes]
    states = ["kept" if row.kept and row.record.state == FINISHED else row.record.state for row in summary.cells]
    is_told = set(states) != {FINISHED}  # else the line above the table says it of all
    if is_told:
        columns.append(Column("state", "State", Unit.TEXT))
    columns += [Column(key, _headed(key), Unit.FIGURE, detail=at) for at, key in enumerate(book.show)]
    if reported:
        columns += [
            Column("step_ns", "Profiled", Unit.FIGURE),
            Column("finding", "Top finding", Unit.TEXT),
            Column("saving_ns_per_step", "Would save", Unit.FIGURE),
        ]
    rows = []
    for row, state in zip(summary.cells, states, strict=True):
        cells: list[Content] = [value for _, value in row.cell.values]
        if is_told:
            cells.append(state)
        cells += [_shown(key, row.figures[key].value) for key in book.show]
        if reported:
            found = row.finding
            cells += ["-", "", "-"] if found is None else [_time(found.step_ns), found.code, _time(found.saving_ns)]
        rows.append(tuple(cells))
    return Sheet("runbook", book.name, tuple(columns), tuple(rows))


def _headed(key: str) -> str:
    return heading(key.rpartition(".")[2])


def _shown(key: str, value: object) -> str:
    return "-" if value is None else figure(key, value)


def _time(ns: int | None) -> str:
    return "-" if ns is None else time_text(ns)


def _comparisons(rows: Sequence[ComparisonRow]) -> Sheet:
    columns = (
        Column("kind", "Comparison", Unit.TEXT),
        *_SIDES,
        Column("verdict", "Verdict", Unit.TEXT),
        Column("before_ns", "Step before", Unit.FIGURE, detail=1),
        Column("after_ns", "After", Unit.FIGURE, detail=1),
        Column("delta_ns", "Change", Unit.FIGURE),
    )
    made = tuple(
        (
            row.kind,
            *_sides(row.cells),
            row.verdict,
            _time(row.before_ns),
            _time(row.after_ns),
            "-" if row.delta_ns is None else _changed(row.delta_ns, row.before_ns),
        )
        for row in rows
    )
    return Sheet("comparisons", "Comparisons", columns, made)


def _sides(cells: tuple[MatrixCell, MatrixCell]) -> tuple[str, str, str]:
    """What one cell has and the other has not, and what both have."""
    both = [each for each in cells[0].values if each in cells[1].values]
    one, other = (", ".join(f"{a}={v}" for a, v in cell.values if (a, v) not in both) for cell in cells)
    return one, other, ", ".join(f"{axis}={value}" for axis, value in both)


def _filled(sheet: Sheet) -> Sheet:
    """The sheet without columns in which no row has anything: an alignment has no steps, few savings a correction."""
    shown = [at for at in range(len(sheet.columns)) if any(row[at] not in ("", "-") for row in sheet.rows)]
    rows = tuple(tuple(row[at] for at in shown) for row in sheet.rows)
    return replace(sheet, columns=tuple(sheet.columns[at] for at in shown), rows=rows)


def _changed(delta_ns: int, before_ns: int | None) -> str:
    sign = "+" if delta_ns > 0 else ""
    share = f" ({sign}{share_text(delta_ns / before_ns)})" if before_ns else ""
    return f"{sign}{time_text(delta_ns)}{share}"


def _savings(rows: Sequence[SavingRow]) -> Sheet:
    columns = (
        *_SIDES,
        Column("finding", "Finding", Unit.TEXT),
        Column("predicted_ns", "Predicted", Unit.FIGURE),
        Column("low_ns", "Low end", Unit.FIGURE, detail=2),
        Column("profiled_ns", "Profiled", Unit.FIGURE),
        Column("corrected_ns", "Corrected", Unit.FIGURE),
        Column("plain_ns", "Plain", Unit.FIGURE, detail=1),
        Column("ratio", "Ratio", Unit.FIGURE),
        Column("verdict", "Verdict", Unit.TEXT),
    )
    made = tuple(
        (
            *_sides(row.cells),
            row.code,
            *(_time(ns) for ns in (row.predicted_ns, row.low_ns, row.profiled_ns, row.corrected_ns, row.plain_ns)),
            "-" if row.ratio is None else f"{three_figures(row.ratio)} x",
            row.verdict,
        )
        for row in rows
    )
    return Sheet("savings", "Savings", columns, made)


def _targets(rows: Sequence[TargetRow]) -> Sheet:
    columns = (
        Column("key", "Figure", Unit.TEXT),
        Column("cell", "Cell", Unit.TEXT),
        Column("wanted", "Wanted", Unit.FIGURE),
        Column("found", "Found", Unit.FIGURE),
        Column("verdict", "Verdict", Unit.TEXT),
    )
    made = tuple(
        (
            _headed(row.target.key),
            row.cell.title if row.cell else "-",
            f"{row.wanted} {figure(row.target.key, row.limit)}" if row.limit is not None else "-",
            _shown(row.target.key, row.figure.value),
            row.verdict,
        )
        for row in rows
    )
    return Sheet("targets", "Targets", columns, made)


def _not_done(summary: RunSummary) -> tuple[str, ...]:
    """What was skipped and why, like reasons together."""
    where: dict[tuple[str, str], list[str]] = {}
    for row in summary.cells:
        if row.record.state not in (FINISHED, NOT_RUN, FAILED) and row.record.reason:
            where.setdefault((row.record.state, row.record.reason), []).append(row.cell.title)
        for step in row.record.steps:
            if step.state not in (DONE, MISSED) and step.reason and not row.record.reason:
                where.setdefault((f"{step.step} {step.state}", step.reason), []).append(row.cell.title)
    lines = [f"{what}: {reason} ({'; '.join(cells)})" for (what, reason), cells in where.items()]
    lines += [
        f"{each.kind} {each.cells[0].title} -> {each.cells[1].title}: {each.reason}"
        for each in summary.comparisons
        if each.verdict == "not done" and each.state != MISSED
    ]
    lines += [
        f"saving {each.cells[0].title} -> {each.cells[1].title}: {each.reason}"
        for each in summary.savings
        if each.measured_ns is None or each.predicted_ns is None
    ]
    for target in summary.targets:
        if target.figure.value is None and not target.figure.wrong:
            cell = f" in {target.cell.title}" if target.cell else ""
            lines.append(f"target {target.target.key}{cell}: {target.figure.reason}")
    return tuple(lines)


def _bare(value: object) -> str | None:
    """A value as CSV has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


def folder_line(choices: Choices) -> str:
    """Where everything lies."""
    return f"Wrote {choices.folder}/summary.md and summary.json; logs and profiles are next to them"

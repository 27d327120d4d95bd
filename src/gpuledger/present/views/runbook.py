"""A run of a runbook: the matrix, comparisons, savings, targets; and its commands before they are run.

JSON is the document gpuledger.runbook/1: times end in their unit, and what is not known is null.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from gpuledger.present import document as doc
from gpuledger.present.safe_text import shell_lines, shell_word, visible
from gpuledger.present.sheet import Column, Sheet, Term, Unit
from gpuledger.present.views.bench import figure, heading
from gpuledger.runbook.definition import MatrixCell, Runbook
from gpuledger.runbook.engine import DONE, FAILED, FINISHED, MISSED, NOT_RUN
from gpuledger.runbook.figures import SavingRow
from gpuledger.runbook.plan import CellJob, Choices
from gpuledger.runbook.summary import CellRow, ComparisonRow, RunSummary, TargetRow
from gpuledger.units import share_text, three_figures, time_text
from gpuledger.verdicts import FAIL, PASS, UNDECIDED


def summary_document(summary: RunSummary) -> doc.Document:
    """A run; JSON is the document gpuledger.runbook/1."""
    return doc.Document(
        blocks=lambda: (doc.Group(tuple(_blocks(summary))),),
        data=doc.json_by("runbook.runbook_json", summary),
        sheets=lambda: (_matrix_values(summary),),
        page=lambda: _page(summary),
    )


def _page(summary: RunSummary) -> doc.Page:
    from gpuledger.present.views.runbook_page import runbook_page

    tables = _blocks(summary)[3:]  # the page has its own first lines
    return runbook_page(summary, {key: _headed(key) for key in summary.book.show}, _about(summary), tables)


def _axis_columns(book: Runbook) -> list[Column]:
    def column(place: int, axis: str) -> Column:
        return Column(axis, axis, Unit.TEXT, lambda row: row.cell.values[place][1])

    return [column(place, axis) for place, axis in enumerate(book.axes)]


def _matrix_values(summary: RunSummary) -> Sheet:
    """The matrix, a row per cell, with plain values."""
    book = summary.book

    def value_column(key: str) -> Column:
        return Column(key, key, Unit.TEXT, lambda row: _bare(row.figures[key].value))

    def finding_column(key: str, field: str) -> Column:
        return Column(key, key, Unit.TEXT, lambda row: row.finding and _bare(getattr(row.finding, field)))

    columns = (
        *_axis_columns(book),
        Column("state", "state", Unit.TEXT, "record.state"),
        Column("reason", "reason", Unit.TEXT, "record.reason"),
        Column("seconds", "seconds", Unit.TEXT, lambda row: str(round(row.record.seconds, 3))),
        *map(value_column, book.show),
        finding_column("step_ns", "step_ns"),
        Column("finding", "finding", Unit.TEXT, lambda row: row.finding.code if row.finding else ""),
        finding_column("saving_ns_per_step", "saving_ns"),
    )
    return Sheet.of("runbook", book.name, columns, summary.cells)


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


def listing_document(books: Sequence[Runbook]) -> doc.Document:
    """The runbooks that ship, with their questions; in a terminal those need more room than a column has."""
    columns = (
        Column("runbook", "Runbook", Unit.TEXT, "name"),
        Column("cells", "Matrix", Unit.TEXT, lambda book: " x ".join(book.axes) or "one cell"),
        Column("question", "Question", Unit.TEXT),
    )
    sheet = Sheet.of("runbooks", "Runbooks", columns, books)
    last = doc.Paragraph("Run one with `gpuledger run NAME`; `--dry-run` prints its commands.")
    return doc.Document(
        blocks=lambda: (
            doc.Only(doc.Medium.TEXT, (*(doc.Points(book.name, (book.question,)) for book in books), last)),
            doc.Only(doc.Medium.MARKDOWN, (doc.SheetBlock(sheet, doc.SheetTitle.NAMED),)),
        ),
        data=doc.json_by("runbook.runbooks_json", sheet),
        sheets=lambda: (sheet,),
    )


def _shell(jobs: Sequence[CellJob], environment: Mapping[str, str]) -> list[str]:
    set_ = "".join(f"{name}={shell_word(text)} " for name, text in environment.items())
    lines = []
    for job in jobs:
        if job.needs:
            lines.append(f"# {job.title}, where there is: {', '.join(job.needs)}")
        if job.left:
            lines.append(f"# {job.title}: {', '.join(job.left)} comes back from {job.remote and job.remote.folder}")
        before = set_ if job.remote is None else ""
        lines += [before + shell_lines(command)[0] for command in job.typed(environment)]
    return lines


def _blocks(summary: RunSummary) -> list[doc.Block]:
    blocks: list[doc.Block] = [
        doc.Heading(f"Runbook {summary.book.name}", 1),
        doc.Paragraph(summary.book.question),
        doc.Paragraph(_about(summary)),
        doc.SheetBlock(_filled(_matrix(summary))),
    ]
    if summary.comparisons:
        blocks += [doc.Heading("Comparisons"), doc.SheetBlock(_filled(_comparisons(summary.comparisons)))]
    if summary.savings:
        blocks += [
            doc.Heading(
                "Savings per step: predicted, measured with the profiler, measured without it", short="Savings"
            ),
            doc.SheetBlock(_filled(_savings(summary.savings))),
        ]
    if summary.slowed_cells:
        blocks.append(doc.Points("Slowed by the profiler", summary.slowed_cells))
    if summary.targets:
        blocks += [doc.Heading("Targets"), doc.SheetBlock(_targets(summary.targets))]
    if undecided := tuple(
        f"{_headed(row.target.key)} in {row.cell.title if row.cell else '-'}: {row.figure.reason}"
        for row in summary.targets
        if row.verdict == UNDECIDED
    ):
        blocks.append(doc.Points("Undecided", undecided))
    if summary.misses:
        blocks.append(doc.Points("Missed", tuple(summary.misses)))
    if summary.failures:
        blocks.append(doc.Points("Failed", tuple(error.claim for error in summary.failures)))
    if left := _not_done(summary):
        blocks.append(doc.Points("Not done", left))
    return blocks


def _about(summary: RunSummary) -> str:
    finished = sum(row.record.state == FINISHED for row in summary.cells)
    parts = [f"{finished} of {len(summary.cells)} cells finished"]
    if summary.choices.size:
        parts.append(f"size {summary.choices.size}")
    if summary.book.via is not None:
        parts.append(f"by {summary.via}")
    parts += [f"{name} {value}" for name, value in summary.variables.items()]
    return " · ".join(parts)


def _matrix(summary: RunSummary) -> Sheet:
    """The matrix for people; states only where they differ, as the line above the table tells of those that do not."""
    book = summary.book

    def state(row: CellRow) -> str:
        return "kept" if row.kept and row.record.state == FINISHED else row.record.state

    def value_column(place: int, key: str) -> Column:
        return Column(key, _headed(key), Unit.FIGURE, lambda row: _shown(key, row.figures[key].value), place)

    columns = _axis_columns(book)
    if {state(row) for row in summary.cells} != {FINISHED}:
        columns.append(Column("state", "State", Unit.TEXT, state))
    columns += [value_column(place, key) for place, key in enumerate(book.show)]
    if any(row.finding is not None for row in summary.cells):
        columns += [
            Column("step_ns", "Profiled", Unit.FIGURE, lambda row: _time(row.finding and row.finding.step_ns)),
            Column("finding", "Top finding", Unit.TEXT, lambda row: row.finding.code if row.finding else ""),
            Column(
                "saving_ns_per_step",
                "Would save",
                Unit.FIGURE,
                lambda row: _time(row.finding and row.finding.saving_ns),
            ),
        ]
    return Sheet.of("runbook", book.name, columns, summary.cells)


def _headed(key: str) -> str:
    """`phases.dispatch.per_visit_ns`: 'Dispatch per visit'."""
    *_, row, column = ("", *key.split("."))
    return heading(f"{row}_{column}" if key.count(".") > 1 else column)


def _shown(key: str, value: object) -> str:
    return "-" if value is None else figure(key, value)


def _time(ns: int | None) -> str:
    return "-" if ns is None else time_text(ns)


def _side_columns() -> tuple[Column, Column, Column]:
    """What one cell has and the other has not, and what both have."""

    def only(row: ComparisonRow | SavingRow, side: int) -> str:
        values, others = row.cells[side].values, row.cells[1 - side].values
        return ", ".join(f"{axis}={value}" for axis, value in values if (axis, value) not in others)

    def both(row: ComparisonRow | SavingRow) -> str:
        first, second = (cell.values for cell in row.cells)
        return ", ".join(f"{axis}={value}" for axis, value in first if (axis, value) in second)

    return (
        Column("from", "From", Unit.TEXT, lambda row: only(row, 0)),
        Column("to", "To", Unit.TEXT, lambda row: only(row, 1)),
        Column("both", "Both", Unit.TEXT, both, detail=3),
    )


def _comparisons(rows: Sequence[ComparisonRow]) -> Sheet:
    def change(row: ComparisonRow) -> str:
        if row.delta_ns is None:
            return "-"
        sign = "+" if row.delta_ns > 0 else ""
        share = f" ({sign}{share_text(row.delta_ns / row.before_ns)})" if row.before_ns else ""
        return f"{sign}{time_text(row.delta_ns)}{share}"

    columns = (
        Column("kind", "Comparison", Unit.TEXT),
        *_side_columns(),
        Column("verdict", "Verdict", Unit.TEXT),
        Column("before_ns", "Step before", Unit.FIGURE, lambda row: _time(row.before_ns), detail=1),
        Column("after_ns", "After", Unit.FIGURE, lambda row: _time(row.after_ns), detail=1),
        Column("delta_ns", "Change", Unit.FIGURE, change),
    )
    return Sheet.of("comparisons", "Comparisons", columns, rows)


def _filled(sheet: Sheet) -> Sheet:
    """The sheet without columns in which no row has anything: an alignment has no steps, few savings a correction."""
    shown = [at for at in range(len(sheet.columns)) if any(row[at] not in ("", "-") for row in sheet.rows)]
    rows = tuple(tuple(row[at] for at in shown) for row in sheet.rows)
    return replace(sheet, columns=tuple(sheet.columns[at] for at in shown), rows=rows)


def _savings(rows: Sequence[SavingRow]) -> Sheet:
    def ratio(row: SavingRow) -> str:
        return "-" if row.ratio is None else f"{three_figures(row.ratio)} x"

    columns = (
        *_side_columns(),
        Column("finding", "Finding", Unit.TEXT, "code"),
        Column("predicted_ns", "Predicted", Unit.FIGURE, lambda row: _time(row.predicted_ns)),
        Column("low_ns", "Low end", Unit.FIGURE, lambda row: _time(row.low_ns), detail=2),
        Column("profiled_ns", "Profiled", Unit.FIGURE, lambda row: _time(row.profiled_ns)),
        Column("corrected_ns", "Corrected", Unit.FIGURE, lambda row: _time(row.corrected_ns)),
        Column("plain_ns", "Plain", Unit.FIGURE, lambda row: _time(row.plain_ns), detail=1),
        Column("ratio", "Ratio", Unit.FIGURE, ratio),
        Column("verdict", "Verdict", Unit.TEXT, lambda row: _judged(row.verdict)),
    )
    return Sheet.of("savings", "Savings", columns, rows)


def _targets(rows: Sequence[TargetRow]) -> Sheet:
    def wanted(row: TargetRow) -> str:
        return "-" if row.limit is None else f"{row.wanted} {figure(row.target.key, row.limit)}"

    columns = (
        Column("key", "Figure", Unit.TEXT, lambda row: _headed(row.target.key)),
        Column("cell", "Cell", Unit.TEXT, lambda row: row.cell.title if row.cell else "-"),
        Column("wanted", "Wanted", Unit.FIGURE, wanted),
        Column("found", "Found", Unit.FIGURE, lambda row: _shown(row.target.key, row.figure.value)),
        Column("verdict", "Verdict", Unit.TEXT, lambda row: _judged(row.verdict)),
    )
    return Sheet.of("targets", "Targets", columns, rows)


def _judged(verdict: str) -> Term | str:
    badge = {PASS: "good", FAIL: "bad", UNDECIDED: "warn"}.get(verdict)
    return verdict if badge is None else Term(verdict, verdict, badge=badge)


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
    aimed_at = {target.target.key for target in summary.targets}
    for key in summary.book.show:
        figures = [row.figures[key] for row in summary.cells if row.record.state == FINISHED]
        if figures and key not in aimed_at and all(each.value is None for each in figures):
            lines.append(f"figure {key}: {figures[0].reason}")
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
    return f"Wrote {choices.folder}/summary.html, summary.md and summary.json; logs and profiles are next to them"

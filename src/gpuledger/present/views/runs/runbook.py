"""A run of a runbook: the matrix, comparisons, savings, targets; and its commands before they are run.

JSON is the document gpuledger.runbook/1: times end in their unit, and what is not known is null.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Annotated, Final, Literal

from msgspec.structs import replace

from gpuledger.capture.secrets import shareable_command, shareable_value
from gpuledger.errors import GpuledgerError
from gpuledger.present import document as doc
from gpuledger.present.charts.amounts import Bar, ChartColumn, Part, columns, stacked_bars
from gpuledger.present.charts.svg import Picture
from gpuledger.present.safe_text import shell_lines, shell_word, visible
from gpuledger.present.sheet import Column, Sheet, Term
from gpuledger.present.views.answer import VerbAnswer
from gpuledger.present.views.runs.bench import figure, heading, names_a_rank
from gpuledger.rows import Label, Row, Unit
from gpuledger.runbook.definition import MatrixCell, Runbook, cell_title
from gpuledger.runbook.engine import DONE, FAILED, FINISHED, MISSED, NOT_RUN, CellRecord, RunOutcome
from gpuledger.runbook.figures import OPEN, Documents, SavingRow, documents_of
from gpuledger.runbook.plan import CellJob, Choices
from gpuledger.runbook.summary import (
    CellRow,
    ComparisonRow,
    TargetRow,
    cell_row,
    comparison_row,
    missed_goals,
    saving_rows,
    target_rows,
    two_cells,
)
from gpuledger.units import share_text, time_text
from gpuledger.verdicts import FAIL, PASS, UNDECIDED


class RunbookAnswer(VerbAnswer, frozen=True, kw_only=True, tag="gpuledger.runbook/1"):
    """What a run of a runbook found. Times end in their unit, shares are 0 to 1; null is what was not measured."""

    runbook: str
    question: str
    verdict: Literal["done", "failed", "missed", "interrupted"]
    """failed: a step failed; missed: a target, a gate or a prediction was missed."""
    size: str | None
    via: str | None
    """What led to where its programs ran; null: they ran here."""
    variables: dict[str, str]
    environment: dict[str, str]
    """What the runbook sets for every command; what is not known to be harmless is withheld."""
    missing: dict[str, str]
    """What steps need and this machine has not, with the reason."""
    cells: tuple[CellRow, ...]
    comparisons: tuple[ComparisonRow, ...]
    savings: tuple[SavingRow, ...]
    slowed: tuple[str, ...]
    """Cells whose steps take much longer under the profiler, a sentence each."""
    targets: tuple[TargetRow, ...]
    misses: tuple[str, ...]
    failures: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        return {"done": 0, "failed": 1, "missed": 3, "interrupted": 130}[self.verdict]

    @property
    def show(self) -> tuple[str, ...]:
        """The figures, in the order of the runbook."""
        return tuple(self.cells[0].figures)

    @property
    def subject(self) -> str:
        return f"Runbook {self.runbook}"

    def blocks(self) -> Iterator[doc.Block]:
        yield doc.Opening(self.subject, _about(self))
        yield doc.Remarks((self.question,))
        yield doc.Only(doc.Medium.PAGE, lambda: _page_blocks(self))
        yield doc.Group(tuple(_tables(self)))

    def document(self) -> doc.Document:
        return replace(super().document(), sheets=lambda: (_matrix(self, is_exact=True),))


def runbook_answer(
    book: Runbook, choices: Choices, cells: Sequence[MatrixCell], ran: RunOutcome, missing: Mapping[str, str]
) -> tuple[RunbookAnswer, tuple[GpuledgerError, ...]]:
    """What the cells left, judged; and what failed."""

    records = {cell: ran.records.get(cell.folder, CellRecord("", NOT_RUN)) for cell in cells}
    documents = {cell: documents_of(book, cell, choices) for cell in cells if records[cell].state == FINISHED}
    rows = tuple(
        cell_row(cell, records[cell], documents.get(cell, Documents()), book.show, kept=cell.folder in ran.kept)
        for cell in cells
    )
    comparisons = tuple(map(comparison_row, ran.comparisons))
    savings, slowed = saving_rows(book, cells, documents, tuple(zip(ran.comparisons, comparisons, strict=True)))
    aimed = [(target, row) for target in book.targets for row in target_rows(target, cells, documents, choices)]
    targets = tuple(row for _, row in aimed)
    failures = (
        *ran.failures,
        *(
            GpuledgerError(f"{book.file}:{target.line}: {row.reason}", found=f"in {cell_title(row.cell)}")
            for target, row in aimed
            if row.is_wrong and row.cell is not None
        ),
    )
    misses = tuple(missed_goals(rows, comparisons, savings, targets))
    answer = RunbookAnswer(
        runbook=book.name,
        question=book.question,
        verdict="interrupted" if ran.interrupted else "failed" if failures else "missed" if misses else "done",
        size=choices.size or None,
        via=None if book.via is None else shlex.join(shareable_command(shlex.split(book.via))),
        variables={name: shareable_value(name, text) for name, text in choices.variables.items()},
        environment={name: shareable_value(name, text) for name, text in book.environment.items()},
        missing=dict(missing),
        cells=rows,
        comparisons=comparisons,
        savings=savings,
        slowed=slowed,
        targets=targets,
        misses=misses,
        failures=tuple(error.claim for error in failures),
    )
    return replace(answer, sentences=(_verdict(answer),)), failures


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


class ListedRunbook(Row, frozen=True):
    """A runbook that comes with gpuledger."""

    runbook: Annotated[str, Label("Runbook")]
    cells: Annotated[str, Label("Matrix", meaning="its axes")]
    question: Annotated[str, Label("Question", is_prose=True)]


class RunbooksAnswer(VerbAnswer, frozen=True, kw_only=True, tag="gpuledger.runbooks/1"):
    """The runbooks that come with gpuledger."""

    runbooks: Annotated[tuple[ListedRunbook, ...], Label("Runbooks")]


def listed_runbooks(books: Sequence[Runbook]) -> RunbooksAnswer:
    """Runbooks with their questions."""
    return RunbooksAnswer(
        sentences=("Run one with `gpuledger run NAME`; `--dry-run` prints its commands.",),
        runbooks=tuple(ListedRunbook(book.name, " x ".join(book.axes) or "one cell", book.question) for book in books),
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


def _tables(answer: RunbookAnswer) -> Iterator[doc.Block]:
    yield doc.SheetBlock(_filled(_matrix(answer)))
    if answer.comparisons:
        yield doc.Heading("Comparisons")
        yield doc.SheetBlock(_filled(_comparisons(answer.comparisons)))
    if answer.savings:
        title = "Savings per step: predicted, measured with the profiler, measured without it"
        yield doc.Heading(title, short="Savings")
        yield doc.SheetBlock(_filled(_savings(answer.savings)))
    if answer.slowed:
        yield doc.Points("Slowed by the profiler", answer.slowed)
    if answer.targets:
        yield doc.Heading("Targets")
        yield doc.SheetBlock(_targets(answer.targets))
    undecided = tuple(
        f"{_headed(row.key)} in {_cell_text(row)}: {row.reason}" for row in answer.targets if row.verdict == UNDECIDED
    )
    lists = (
        ("Undecided", undecided),
        ("Missed", answer.misses),
        ("Failed", answer.failures),
        ("Not done", tuple(_not_done(answer))),
    )
    yield from (doc.Points(title, items) for title, items in lists if items)


def _cell_text(row: TargetRow) -> str:
    return "-" if row.cell is None else cell_title(row.cell)


def _about(answer: RunbookAnswer) -> str:
    finished = sum(row.state == FINISHED for row in answer.cells)
    parts = [f"{finished} of {len(answer.cells)} cells finished"]
    if answer.size:
        parts.append(f"size {answer.size}")
    if answer.via is not None:
        parts.append(f"by {answer.via}")
    parts += [f"{name} {value}" for name, value in answer.variables.items()]
    return " · ".join(parts)


def _matrix(answer: RunbookAnswer, *, is_exact: bool = False) -> Sheet:
    """A row for each cell; people see states only where they differ, as the first line tells of those that do not."""

    def axis_column(axis: str) -> Column:
        return Column(axis, axis, Unit.TEXT, lambda row: row.cell[axis])

    def value_column(place: int, key: str) -> Column:
        if is_exact:
            return Column(key, key, Unit.TEXT, lambda row: _bare(row.figures[key]))
        return Column(key, _headed(key), Unit.FIGURE, lambda row: _shown(key, row.figures[key]), place)

    def state(row: CellRow) -> str:
        return "kept" if row.kept and row.state == FINISHED else row.state

    axes = map(axis_column, answer.cells[0].cell)
    values = [value_column(place, key) for place, key in enumerate(answer.show)]
    if is_exact:
        exact = (
            *(*axes, Column("state", "state", Unit.TEXT), Column("reason", "reason", Unit.TEXT)),
            Column("seconds", "seconds", Unit.TEXT, lambda row: str(row.seconds)),
            *values,
            Column("step_ns", "step_ns", Unit.NS),
            Column("finding", "finding", Unit.TEXT),
            Column("saving_ns_per_step", "saving_ns_per_step", Unit.NS),
        )
        return Sheet.of("runbook", answer.runbook, exact, answer.cells)
    differ = {state(row) for row in answer.cells} != {FINISHED}
    shown = (
        *(*axes, *([Column("state", "State", Unit.TEXT, state)] if differ else []), *values),
        Column("step_ns", "Profiled", Unit.NS),
        Column("finding", "Top finding", Unit.TEXT),
        Column("saving_ns_per_step", "Would save", Unit.NS),
    )
    return Sheet.of("runbook", "All cells", shown, answer.cells)


def _headed(key: str) -> str:
    """`phases.dispatch.per_visit_ns`: 'Dispatch per visit'."""
    *_, row, column = ("", *key.split("."))
    return heading(f"{row}_{column}" if key.count(".") > 1 else column)


def _shown(key: str, value: object) -> str | None:
    return None if value is None else figure(key, value)


def _side_columns() -> tuple[Column, Column, Column]:
    """What one cell has and the other has not, and what both have."""

    def only(values: Mapping[str, str], others: Mapping[str, str]) -> str:
        return ", ".join(f"{axis}={value}" for axis, value in values.items() if others.get(axis) != value)

    def both(row: ComparisonRow | SavingRow) -> str:
        return ", ".join(f"{axis}={value}" for axis, value in row.from_.items() if row.to.get(axis) == value)

    return (
        Column("from", "From", Unit.TEXT, lambda row: only(row.from_, row.to)),
        Column("to", "To", Unit.TEXT, lambda row: only(row.to, row.from_)),
        Column("both", "Both", Unit.TEXT, both, detail=3),
    )


def _comparisons(rows: Sequence[ComparisonRow]) -> Sheet:
    def change_share(row: ComparisonRow) -> float | None:
        return row.delta_ns / row.before_ns if row.before_ns and row.delta_ns is not None else None

    columns = (
        Column("kind", "Comparison", Unit.TEXT),
        *_side_columns(),
        Column("verdict", "Verdict", Unit.TEXT),
        Column("before_ns", "Step before", Unit.NS, detail=1),
        Column("after_ns", "After", Unit.NS, detail=1),
        Column("delta_ns", "Change", Unit.CHANGE_NS),
        Column("change_share", "Share", Unit.CHANGE, change_share),
    )
    return Sheet.of("comparisons", "Comparisons", columns, rows)


def _filled(sheet: Sheet) -> Sheet:
    """The sheet without columns in which no row has anything: an alignment has no steps, few savings a correction."""
    shown = [at for at in range(len(sheet.columns)) if any(row[at] not in (None, "") for row in sheet.rows)]
    rows = tuple(tuple(row[at] for at in shown) for row in sheet.rows)
    return replace(sheet, columns=tuple(sheet.columns[at] for at in shown), rows=rows)


def _savings(rows: Sequence[SavingRow]) -> Sheet:
    columns = (
        *_side_columns(),
        Column("finding", "Finding", Unit.TEXT),
        Column("predicted_ns", "Predicted", Unit.NS),
        Column("low_ns", "Low end", Unit.NS, detail=2),
        Column("profiled_ns", "Profiled", Unit.NS),
        Column("corrected_ns", "Corrected", Unit.NS),
        Column("plain_ns", "Plain", Unit.NS, detail=1),
        Column("ratio", "Ratio", Unit.RATIO),
        Column("verdict", "Verdict", Unit.TEXT, lambda row: _judged(row.verdict)),
    )
    return Sheet.of("savings", "Savings", columns, rows)


def _targets(rows: Sequence[TargetRow]) -> Sheet:
    def wanted(row: TargetRow) -> str | None:
        return None if row.limit is None else f"{row.wanted} {figure(row.key, row.limit)}"

    columns = (
        Column("key", "Figure", Unit.TEXT, lambda row: _headed(row.key)),
        Column("cell", "Cell", Unit.TEXT, _cell_text),
        Column("wanted", "Wanted", Unit.FIGURE, wanted),
        Column("found", "Found", Unit.FIGURE, lambda row: _shown(row.key, row.found)),
        Column("verdict", "Verdict", Unit.TEXT, lambda row: _judged(row.verdict)),
    )
    return Sheet.of("targets", "Targets", columns, rows)


def _judged(verdict: str) -> Term | str:
    badge = {PASS: "good", FAIL: "bad", UNDECIDED: "warn"}.get(verdict)
    return verdict if badge is None else Term(verdict, verdict, badge=badge)


def _skipped(cells: Sequence[CellRow]) -> Iterator[str]:
    """Cells and steps that were not run and why, like reasons together."""
    where: dict[tuple[str, str], list[str]] = {}
    for row in cells:
        if row.state not in (FINISHED, NOT_RUN, FAILED) and row.reason:
            where.setdefault((row.state, row.reason), []).append(cell_title(row.cell))
        for step in row.steps:
            if step.state not in (DONE, MISSED) and step.reason and not row.reason:
                where.setdefault((f"{step.step} {step.state}", step.reason), []).append(cell_title(row.cell))
    return (f"{what}: {reason} ({'; '.join(cells)})" for (what, reason), cells in where.items())


def _not_done(answer: RunbookAnswer) -> Iterator[str]:
    yield from _skipped(answer.cells)
    for compared in answer.comparisons:
        if compared.verdict == "not done" and compared.state != MISSED:
            yield f"{compared.kind} {two_cells(compared)}: {compared.reason}"
    for saving in answer.savings:
        if saving.measured_ns is None or saving.predicted_ns is None:
            yield f"saving {two_cells(saving)}: {saving.reason}"
    finished = [row for row in answer.cells if row.state == FINISHED]
    for key in answer.show:
        is_aimed_at = any(target.key == key for target in answer.targets)
        if finished and not is_aimed_at and all(row.figures[key] is None for row in finished):
            yield f"figure {key}: {finished[0].not_measured[key]}"
    for target in answer.targets:
        if target.found is None and not target.is_wrong:
            yield f"target {target.key}{f' in {cell_title(target.cell)}' if target.cell else ''}: {target.reason}"


def _bare(value: object) -> str | None:
    """A value as CSV has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


def folder_line(choices: Choices) -> str:
    """Where everything lies."""
    return f"Wrote {choices.folder}/answer.html, answer.md and answer.json; logs and profiles are next to them"


_SERIES: Final = ("compute-gemm", "compute-attention", "compute-activation", "compute-norm", "comm", "bound-memory")
_MOST_COLUMNS: Final = 24
_MOST_PICTURES: Final = 8
_TILES: Final = 3
_THIN: Final = 0.01
_ALIKE: Final = 1.02  # of figures that are no further apart than this none is best, and they need no picture
_TALL: Final = 96
_PART_TONES: Final = {
    "attention": "compute-attention",
    "router": "compute-sort",
    "dispatch": "comm",
    "combine": "compute-activation",
    "communication": "comm",
    "norm": "compute-norm",
    "mlp": "compute-elementwise",
    "lm_head": "compute-convolution",
    "copies": "copy",
    "sampling": "compute-sampling",
    "other work": "compute-other",
    "idle": "idle-sync",
}
"""Phases, and what a report without phases tells apart; what is not listed is multiplication."""


def _page_blocks(answer: RunbookAnswer) -> Iterator[doc.Block]:
    """The verdict, figures at a glance, and charts of the figures."""
    yield doc.Conclusion(answer.sentences[0])
    finished = sum(row.state == FINISHED for row in answer.cells)
    tiles = [doc.Tile("Result", answer.verdict), doc.Tile("Cells finished", f"{finished} of {len(answer.cells)}")]
    judged = [row for row in answer.targets if row.verdict != OPEN]
    if judged:
        tiles.append(doc.Tile("Targets met", f"{sum(row.verdict == PASS for row in judged)} of {len(judged)}"))
    best = _best_cells(answer)[:_TILES]
    tiles += [doc.Tile(_headed(key), _on_page(key, first), _brief(first)) for key, first, _ in best]
    yield doc.Tiles(tuple(tiles))
    pictures = [chart for key, rows in _compared_figures(answer) if (chart := _figure_chart(answer, key, rows))]
    if charts := [*pictures[:_MOST_PICTURES], *_steps_chart(answer)]:
        drawn = (block for name, chart in charts for block in (doc.Heading(name, 3), chart))
        yield doc.Section("figures", "Figures, cell by cell", tuple(drawn), "Figures")


def _compared_figures(answer: RunbookAnswer) -> list[tuple[str, list[CellRow]]]:
    """Figures that several cells have as an amount."""
    return [(key, rows) for key in answer.show if len(rows := _measured(answer, key)) > 1]


def _best_cells(answer: RunbookAnswer) -> list[tuple[str, CellRow, CellRow]]:
    """Figures with their best and their worst cell."""
    return [(key, *extremes) for key, rows in _compared_figures(answer) if (extremes := _extremes(key, rows))]


def _verdict(answer: RunbookAnswer) -> str:
    """What came of it, and which cell is best by the first figures that have a better end."""
    counts = {word: sum(row.verdict == word for row in answer.targets) for word in (PASS, FAIL, UNDECIDED)}
    sentences = []
    if answer.failures:
        sentences.append(f"Not done: {answer.failures[0]}.")
    elif counts[FAIL] or counts[UNDECIDED]:
        said = {FAIL: "missed", UNDECIDED: "undecided"}
        others = ", ".join(f"{counts[word]} {text}" for word, text in said.items() if counts[word])
        sentences.append(f"{counts[PASS]} of {sum(counts.values())} targets are met, {others}.")
    elif counts[PASS]:
        sentences.append(f"All {counts[PASS]} targets are met." if counts[PASS] > 1 else "The target is met.")
    for key, first, last in _best_cells(answer)[:2]:
        worst = f"{_on_page(key, last)} with {_brief(last)}"
        sentences.append(f"{_headed(key)} is best with {_brief(first)}: {_on_page(key, first)}, and {worst}.")
    if not sentences:
        sentences.append("Every step is done." if answer.verdict == "done" else "Not every step is done.")
    return " ".join(sentences)


def _measured(answer: RunbookAnswer, key: str) -> list[CellRow]:
    """Cells that have this figure as an amount."""
    if names_a_rank(key):
        return []
    return [row for row in answer.cells if type(row.figures[key]) in (int, float)]


def _on_page(key: str, row: CellRow) -> str:
    return figure(key, row.figures[key])


def _brief(row: CellRow) -> str:
    return " · ".join(row.cell.values()) or cell_title(row.cell)


def _extremes(key: str, rows: Sequence[CellRow]) -> tuple[CellRow, CellRow] | None:
    """The best and the worst cell, where more is better or less is, rates and times, and they are not alike."""
    is_rate = key.endswith("_per_s")
    if not is_rate and not key.endswith(("_ns", "_us", "_ms", "_s")):
        return None
    amounts = [float(row.figures[key] or 0) for row in rows]
    if max(amounts) <= min(amounts) * _ALIKE:
        return None
    ordered = [row for _, row in sorted(zip(amounts, rows, strict=True), key=itemgetter(0), reverse=is_rate)]
    return ordered[0], ordered[-1]


def _figure_chart(answer: RunbookAnswer, key: str, rows: Sequence[CellRow]) -> tuple[str, doc.Chart] | None:
    """A column for each cell; cells that differ in the last axis alone stand together, where there is another."""
    name, amounts = _headed(key), {row.folder: float(row.figures[key] or 0) for row in rows}
    low, high = min(amounts.values()), max(amounts.values())
    if len(rows) > _MOST_COLUMNS or low < 0 or high <= low * _ALIKE:
        return None
    unit = "tokens/s" if key.endswith("tokens_per_s") else ""
    axes = tuple(answer.cells[0].cell)
    last = list(dict.fromkeys(row.cell[axes[-1]] for row in answer.cells)) if axes else []
    series = last if len(axes) > 1 and len(last) <= len(_SERIES) else [""]
    groups: dict[str, dict[str, CellRow]] = {}
    for row in rows:
        values = list(row.cell.values())
        split = (values[:-1], values[-1]) if series != [""] else (values, "")
        groups.setdefault(" · ".join(split[0]), {})[split[1]] = row
    given = [
        ChartColumn(
            group,
            tuple(amounts[cells[each].folder] if each in cells else 0.0 for each in series),
            tuple(_on_page(key, cells[each]).removesuffix(unit).strip() if each in cells else "" for each in series),
        )
        for group, cells in groups.items()
    ]
    drawn = list(zip(_SERIES, series, strict=False))
    draw = partial(columns, name, f"{name} of each cell", drawn, given, tall=_TALL)
    return f"{name}, {unit}" if unit else name, doc.Chart(draw)


def _steps_chart(answer: RunbookAnswer) -> list[tuple[str, doc.Chart]]:
    """Where the step of each cell goes, each bar a whole step."""
    told = [row for row in answer.cells if sum(row.parts_ns.values()) > 0]
    if not told or len(told) > _MOST_COLUMNS:
        return []
    bars, legend = [], dict[str, str]()
    for row in told:
        whole = sum(row.parts_ns.values())
        parts = tuple(
            Part(_PART_TONES.get(name, "compute-gemm"), ns / whole, name, time_text(round(ns)), share_text(ns / whole))
            for name, ns in sorted(row.parts_ns.items(), key=lambda part: (part[0] == "idle", -part[1]))
            if ns / whole > _THIN
        )
        legend = {part.tone: part.name for part in parts} | legend
        bars.append(Bar(f"{_brief(row)}: {time_text(round(whole))}", parts))
    name = "Where a step goes, each bar a whole step"
    return [(name, doc.Chart(partial(_bars_with_legend, name, bars, tuple(legend.items()))))]


def _bars_with_legend(name: str, bars: Sequence[Bar], legend: tuple[tuple[str, str], ...]) -> Picture:
    return replace(stacked_bars(name, "What takes the step of each cell", bars), legend=legend)

"""A run of a runbook on one page, to be sent to a team: what came of it, its figures as pictures, where each step goes.

The tables are those of the text; a picture of a figure has a column for each cell, by the last axis of the matrix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Final

from msgspec.structs import replace

from gpuledger.present.charts.amounts import Bar, ChartColumn, Part, columns, stacked_bars
from gpuledger.present.charts.svg import Picture
from gpuledger.present.document import AGAIN, Block, Chart, Heading, Page, Paragraph, Section, Tile, chapters
from gpuledger.present.views.bench import figure, names_a_rank
from gpuledger.present.views.runbook import RunbookAnswer
from gpuledger.runbook.definition import cell_title
from gpuledger.runbook.engine import FINISHED
from gpuledger.runbook.figures import OPEN
from gpuledger.runbook.summary import CellRow
from gpuledger.units import share_text, time_text
from gpuledger.verdicts import FAIL, PASS, UNDECIDED

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


def runbook_page(answer: RunbookAnswer, headings: Mapping[str, str], about: str, blocks: Sequence[Block]) -> Page:
    """The page; `headings` are the names of its figures, `blocks` the tables of the text."""
    measured = _compared_figures(answer)
    pictures = [chart for key, rows in measured if (chart := _figure_chart(answer, key, headings[key], rows))]
    charts = [*pictures[:_MOST_PICTURES], *_steps_chart(answer)]
    drawn = tuple(block for chart in charts for block in (Heading(chart.caption, 3), replace(chart, caption="")))
    best = _best_cells(answer)
    finished = sum(row.state == FINISHED for row in answer.cells)
    tiles = [Tile("Result", answer.verdict), Tile("Cells finished", f"{finished} of {len(answer.cells)}")]
    judged = [row for row in answer.targets if row.verdict != OPEN]
    if judged:
        tiles.append(Tile("Targets met", f"{sum(row.verdict == PASS for row in judged)} of {len(judged)}"))
    tiles += [Tile(headings[key], _shown(key, first), _brief(first)) for key, first, _ in best[:_TILES]]
    figures = Section("figures", "Figures, cell by cell", drawn, "Figures")
    return Page(
        f"Runbook {answer.runbook}",
        answer.sentences[0],
        sections=(*([figures] if drawn else []), *chapters(blocks, "All cells"), AGAIN),
        headline=about,
        tiles=tuple(tiles),
        opening=(Paragraph(answer.question, "lead"),),
    )


_Best = tuple[str, CellRow, CellRow]


def _compared_figures(answer: RunbookAnswer) -> list[tuple[str, list[CellRow]]]:
    """Figures that several cells have as an amount."""
    return [(key, rows) for key in answer.show if len(rows := _measured(answer, key)) > 1]


def _best_cells(answer: RunbookAnswer) -> list[_Best]:
    return [(key, *extremes) for key, rows in _compared_figures(answer) if (extremes := _extremes(key, rows))]


def runbook_verdict(answer: RunbookAnswer, headings: Mapping[str, str]) -> str:
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
        worst = f"{_shown(key, last)} with {_brief(last)}"
        sentences.append(f"{headings[key]} is best with {_brief(first)}: {_shown(key, first)}, and {worst}.")
    if not sentences:
        sentences.append("Every step is done." if answer.verdict == "done" else "Not every step is done.")
    return " ".join(sentences)


def _measured(answer: RunbookAnswer, key: str) -> list[CellRow]:
    """Cells that have this figure as an amount."""
    if names_a_rank(key):
        return []
    return [row for row in answer.cells if type(row.figures[key]) in (int, float)]


def _shown(key: str, row: CellRow) -> str:
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


def _figure_chart(answer: RunbookAnswer, key: str, name: str, rows: Sequence[CellRow]) -> Chart | None:
    """A column for each cell; cells that differ in the last axis alone stand together, where there is another."""
    amounts = {row.folder: float(row.figures[key] or 0) for row in rows}
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
            tuple(_shown(key, cells[each]).removesuffix(unit).strip() if each in cells else "" for each in series),
        )
        for group, cells in groups.items()
    ]
    drawn = list(zip(_SERIES, series, strict=False))
    draw = partial(columns, name, f"{name} of each cell", drawn, given, tall=_TALL)
    return Chart(draw, caption=f"{name}, {unit}" if unit else name)


def _steps_chart(answer: RunbookAnswer) -> list[Chart]:
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
    return [Chart(partial(_bars_with_legend, name, bars, tuple(legend.items())), caption=name)]


def _bars_with_legend(name: str, bars: Sequence[Bar], legend: tuple[tuple[str, str], ...]) -> Picture:
    return replace(stacked_bars(name, "What takes the step of each cell", bars), legend=legend)

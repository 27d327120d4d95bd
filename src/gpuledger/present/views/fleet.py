"""A job of many ranks: the verdict, what to do, who is late as a map of shades, tables, and what is not known.

Hundreds of ranks do not fit a screen: neighbours share a row of the map, where the latest of them shows, and tables
keep their worst rows. CSV and JSON have all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from gpuledger.findings.finding import Finding
from gpuledger.messages import capitalised, joined, say, uncapitalised
from gpuledger.present import document as doc
from gpuledger.present.charts.over_time import Row, heat_map
from gpuledger.present.finding_words import saving_range_words, shown_finding
from gpuledger.present.safe_text import visible
from gpuledger.present.sheet import Cell, Sheet
from gpuledger.present.terms import notes_block
from gpuledger.present.views.report_json import finding_dict
from gpuledger.present.writers.json import health_json, tables_json
from gpuledger.trace.model import Note
from gpuledger.trace.spans import Ints
from gpuledger.units import count_text, time_text

LATE: Final = say("Who is late, and when")

_NONE: Final = doc.Paragraph(say("None."), "note")
_MOST_CHART_ROWS: Final = 64
_MOST_CHART_COLUMNS: Final = 240
"""Ranks and steps of a page's map."""

_MOST_NOTES: Final = 12
_MOST_SHOWN: Final = 20
"""Rows of a table, for people."""

_WORST_BY: Final = {"job_ranks": ("caused_ns", "compute_ns"), "job_steps": ("longest_ns",)}
"""Which rows to keep of tables that are not in the order of what matters."""


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """Numbers to be shown as shades: a row per rank, a column per step."""

    what: str
    ranks: Sequence[str]
    steps: Sequence[int]
    ns: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """All that there is to show of a job."""

    name: str
    headline: str
    profiles: int
    failed: tuple[tuple[str, str], ...]
    """Profiles that could not be analysed, each with what was wrong."""
    ranks: int
    world_size: int | None
    tables: tuple[Sheet, ...]
    map: Map | None
    findings: tuple[Finding, ...]
    compared: bool
    """Whether any collective was found on all its ranks, so that waiting can be told."""
    notes: tuple[Note, ...]


def fleet_document(merged: Merged, late: Sheet | None) -> doc.Document:
    """The job; `late` is who was late, rank by rank and step by step. JSON is the document gpuledger.fleet/1."""
    late_map = merged.map
    tables = [for_people(sheet) for sheet in merged.tables if sheet.rows]
    closing = tuple(_closing(merged))
    return doc.Document(
        blocks=lambda: (
            doc.Opening(merged.name, visible(merged.headline)),
            doc.Conclusion(verdict(merged)),
            *([doc.Findings(tuple(map(_shown, merged.findings)))] if merged.findings else []),
            *(
                ()
                if late_map is None
                else (doc.Shades(LATE, late_map.what, late_map.ranks, late_map.steps, late_map.ns),)
            ),
            *(doc.SheetBlock(sheet, doc.SheetTitle.NAMED, tells_hidden=True) for sheet in tables),
            *((doc.Remarks(closing),) if closing else ()),
        ),
        data=lambda: {
            "schema": "gpuledger.fleet/1",
            "job": merged.name,
            "profiles": merged.profiles,
            "failed": [{"profile": name, "sentence": sentence} for name, sentence in merged.failed],
            "ranks": merged.ranks,
            "world_size": merged.world_size,
            "tables": tables_json(merged.tables),
            "late": late_map
            and {
                "what": late_map.what,
                "ranks": list(late_map.ranks),
                "steps": list(late_map.steps),
                "late_ns": late_map.ns.tolist(),
            },
            "findings": [finding_dict(finding, None) for finding in merged.findings],
            "health": health_json(merged.notes),
        },
        sheets=lambda: (*merged.tables, *([late] if late else [])),
        remarks=tuple(f"{name}: {why}" for name, why in merged.failed),
        page=lambda: _page(merged),
    )


def _shown(finding: Finding) -> doc.ShownFinding:
    return doc.ShownFinding(finding, saving_range_words(finding))


def verdict(merged: Merged) -> str:
    """One sentence."""
    if merged.findings:
        return say("{claim}.", claim=capitalised(merged.findings[0].claim))
    if merged.ranks < 2:
        return say("One rank cannot show waiting for others; give the profiles of all ranks.")
    if not merged.compared:
        return say("No collective was found on all its ranks: who waits for whom is unknown.")
    return say("No rank holds up the others for long.")


def for_people(sheet: Sheet) -> Sheet:
    """The sheet with its worst rows, in their order, and a title that says so."""
    if len(sheet.rows) <= _MOST_SHOWN:
        return sheet
    kept: Iterable[int] = range(_MOST_SHOWN)
    which = say("first")
    if sheet.name in _WORST_BY:
        keys = [column.key for column in sheet.columns]
        by = [keys.index(key) for key in _WORST_BY[sheet.name]]
        order = sorted(range(len(sheet.rows)), key=lambda row: [-_number(sheet.rows[row][column]) for column in by])
        kept = sorted(order[:_MOST_SHOWN])
        which = say("worst by {column}", column=uncapitalised(sheet.columns[by[0]].name))
    title = say(
        "{title}: the {shown} {which}, of {count}",
        title=sheet.title,
        shown=_MOST_SHOWN,
        which=which,
        count=count_text(len(sheet.rows)),
    )
    return replace(sheet, title=title, rows=tuple(sheet.rows[row] for row in kept))


def _number(cell: Cell) -> float:
    return cell if isinstance(cell, int | float) else -1


def _closing(merged: Merged) -> list[str]:
    """What failed, what is not known, and the next command."""
    lines: list[str] = [
        say("Failed: {profile}: {sentence}.", profile=visible(name), sentence=visible(sentence))
        for name, sentence in merged.failed[:_MOST_NOTES]
    ]
    if len(merged.failed) > _MOST_NOTES:
        more = count_text(len(merged.failed) - _MOST_NOTES)
        lines.append(say("Failed: {count} more; --format=json names them all.", count=more))
    lines += [say("Note: {sentence}.", sentence=visible(note.sentence)) for note in merged.notes[:_MOST_NOTES]]
    if len(merged.notes) > _MOST_NOTES:
        more = count_text(len(merged.notes) - _MOST_NOTES)
        lines.append(say("Note: {count} more; --format=json has them all.", count=more))
    if merged.findings:
        lines.append(say("next: {command}", command=merged.findings[0].next))
    return lines


def _page(merged: Merged) -> doc.Page:
    """The verdict, what to do, who is late as a map, and the tables of text."""
    cards = doc.Findings(tuple(map(shown_finding, merged.findings)))
    tables = ((sheet, for_people(sheet)) for sheet in merged.tables)
    return doc.Page(
        merged.name,
        verdict(merged),
        headline=merged.headline,
        tiles=_tiles(merged),
        sections=(
            *([doc.Section("findings", say("What to do"), (cards,))] if cards.entries else []),
            doc.Section("late", LATE, _late_blocks(merged.map)),
            *(
                doc.Section(
                    f"section-{sheet.name}",
                    shown.title,
                    (doc.SheetBlock(shown, anchor=sheet.name, is_quiet=True),) if sheet.rows else (_NONE,),
                    sheet.title,
                )
                for sheet, shown in tables
            ),
            doc.Section("health", say("Health and provenance"), _health_blocks(merged), say("Health")),
        ),
    )


def _tiles(merged: Merged) -> tuple[doc.Tile, ...]:
    world = "" if merged.world_size is None else say("of {count}", count=count_text(merged.world_size))
    failed = say("{count} failed", count=count_text(len(merged.failed)))
    tiles = [
        doc.Tile(say("Ranks"), count_text(merged.ranks), world),
        doc.Tile(say("Profiles"), count_text(merged.profiles), failed),
    ]
    if merged.findings and merged.findings[0].saving_ns:
        top = merged.findings[0]
        saving_ns = top.saving_ns if top.saving_ns_per_step is None else top.saving_ns_per_step
        tiles.append(doc.Tile(say("Fix first"), time_text(saving_ns), joined(" · ", (say("per step"), top.code))))
    return tuple(tiles)


def _late_blocks(late: Map | None) -> tuple[doc.Block, ...]:
    """Ranks by steps; of very many, neighbours share a cell, where the latest shows."""
    if late is None:
        missing = say("Not measured: neither collectives nor steps were matched across ranks.")
        return (doc.Paragraph(missing, "unknown"),)
    largest = max(int(late.ns.max()), 1)
    said = say(
        "One row per rank, one column per step: {what}; full color is {most}.",
        what=late.what,
        most=time_text(largest),
    )
    columns = np.array_split(np.arange(len(late.steps)), min(len(late.steps), _MOST_CHART_COLUMNS))
    rows = []
    for ranks in np.array_split(np.arange(len(late.ranks)), min(len(late.ranks), _MOST_CHART_ROWS)):
        latest = np.array([int(late.ns[np.ix_(ranks, column)].max()) for column in columns], np.int64)
        first, last = late.ranks[int(ranks[0])], late.ranks[int(ranks[-1])]
        name = first if len(ranks) == 1 else f"{first} - {last}"
        rows.append(Row(name, latest, time_text(int(latest.max()))))
    worst = sorted(rows, key=lambda row: -int(row.values.max()))[:4]
    described = joined(say("; "), [say("{rank}: up to {time}", rank=row.name, time=row.said) for row in worst])
    ends = (say("step {step}", step=late.steps[0]), say("step {step}", step=late.steps[-1]))
    scale = say("of {time}", time=time_text(largest))
    draw = partial(heat_map, LATE, described, rows, largest, ends, scale)
    return doc.Paragraph(said, "lead"), doc.Chart(draw, name="rank-map")


def _health_blocks(merged: Merged) -> tuple[doc.Block, ...]:
    failed = doc.Points(
        say("Failed: {count}", count=count_text(len(merged.failed))),
        tuple(f"{name}: {why}" for name, why in merged.failed),
    )
    return (
        *([failed] if merged.failed else []),
        *([notes_block(merged.notes)] if merged.notes else []),
        doc.Reproduce(),
    )

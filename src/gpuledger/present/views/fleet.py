"""A job of many ranks: the verdict, what to do, who is late as a map of shades, tables, and what is not known.

Hundreds of ranks do not fit a screen: neighbours share a row of the map, where the latest of them shows, and tables
keep their worst rows. CSV and JSON have all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from gpuledger.findings.finding import Finding
from gpuledger.messages import capitalised, say, uncapitalised
from gpuledger.present.document import Conclusion, Document, Drawn, Opening, Remarks, SheetBlock, SheetTitle, Tell
from gpuledger.present.safe_text import cut_in_the_middle, visible, wrapped
from gpuledger.present.sheet import Cell, Sheet
from gpuledger.present.terminal import Terminal
from gpuledger.present.views.finding_head import finding_head
from gpuledger.present.views.report_json import finding_dict
from gpuledger.present.writers.json import health_json, tables_json
from gpuledger.present.writers.markdown import escaped
from gpuledger.trace.model import Note
from gpuledger.trace.spans import Ints
from gpuledger.units import count_text, time_text

if TYPE_CHECKING:
    from gpuledger.present.writers.html.parts import Page, Reader

LATE: Final = say("Who is late, and when")

_SHADES: Final = "·░▒▓█"
_MOST_ROWS: Final = 32
_MOST_COLUMNS: Final = 120
_WIDEST_CELL: Final = 4
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


def fleet_document(merged: Merged, late: Sheet | None) -> Document:
    """The job; `late` is who was late, rank by rank and step by step. JSON is the document gpuledger.fleet/1."""
    shades = merged.map
    tables = [for_people(sheet) for sheet in merged.tables if sheet.rows]
    closing = tuple(_closing(merged))
    return Document(
        blocks=lambda: (
            Opening(merged.name, visible(merged.headline)),
            Conclusion(verdict(merged)),
            Drawn(
                lambda terminal, tell: "\n".join(_finding_lines(merged.findings, terminal, tell)),
                lambda tell: _findings_markdown(merged.findings, tell),
            ),
            *(() if shades is None else (_map_block(shades),)),
            *(SheetBlock(sheet, SheetTitle.NAMED, tells_hidden=True) for sheet in tables),
            *((Remarks(closing),) if closing else ()),
        ),
        data=lambda: {
            "schema": "gpuledger.fleet/1",
            "job": merged.name,
            "profiles": merged.profiles,
            "failed": [{"profile": name, "sentence": sentence} for name, sentence in merged.failed],
            "ranks": merged.ranks,
            "world_size": merged.world_size,
            "tables": tables_json(merged.tables),
            "late": shades
            and {
                "what": shades.what,
                "ranks": list(shades.ranks),
                "steps": list(shades.steps),
                "late_ns": shades.ns.tolist(),
            },
            "findings": [finding_dict(found, None) for found in merged.findings],
            "health": health_json(merged.notes),
        },
        sheets=lambda: (*merged.tables, *([late] if late else [])),
        remarks=tuple(f"{name}: {why}" for name, why in merged.failed),
        page=lambda reader: _page(merged, reader),
    )


def _page(merged: Merged, reader: Reader) -> Page:
    from gpuledger.present.views.page.fleet_page import fleet_page

    return fleet_page(merged, reader)


def _map_block(shades: Map) -> Drawn:
    def text(terminal: Terminal, tell: Tell) -> str:
        title = wrapped(tell(say("{title}: {what}", title=LATE, what=shades.what)), terminal.width, 2)
        return "\n".join([terminal.painted(title, "bold"), "", *map_lines(shades, terminal.width, tell)])

    def markdown(tell: Tell) -> str:
        drawn = "\n".join(line.replace("`", "'") for line in map_lines(shades, 100, tell))
        return f"## {tell(LATE)}\n\n{escaped(tell(shades.what))}:\n\n```text\n{drawn}\n```"

    return Drawn(text, markdown)


def _findings_markdown(findings: Sequence[Finding], tell: Tell) -> str:
    lines = [f"## {tell(say('What to do'))}", ""] if findings else []
    for number, found in enumerate(findings, 1):
        said = say("{claim}. {saving}.", claim=found.claim, saving=capitalised(_saving(found)))
        lines.append(f"{number}. {tell(say('**{code}**: {what}', code=found.code, what=escaped(tell(said))))}")
        lines += [f"   - {escaped(tell(evidence))}" for evidence in found.sentences]
    return "\n".join(lines)


def verdict(merged: Merged) -> str:
    """One sentence."""
    if merged.findings:
        return say("{claim}.", claim=capitalised(merged.findings[0].claim))
    if merged.ranks < 2:
        return say("One rank cannot show waiting for others; give the profiles of all ranks.")
    if not merged.compared:
        return say("No collective was found on all its ranks: who waits for whom is unknown.")
    return say("No rank holds up the others for long.")


def map_lines(shades: Map, width: int | None, tell: Tell) -> list[str]:
    """The map with its scale under it. Neighbours that look the same share a row."""
    steps, largest = shades.steps, max(int(shades.ns.max()), 1)
    longest = max(len(_joined(visible(each), visible(shades.ranks[-1]))) for each in shades.ranks)
    room = min(longest, (width or _MOST_COLUMNS) // 3)
    space = _MOST_COLUMNS if width is None else max(min(_MOST_COLUMNS, width - room - 4), 1)
    columns = np.array_split(np.arange(len(steps)), min(len(steps), space))
    wide = min(space // len(columns), _WIDEST_CELL)
    latest = np.stack([shades.ns[:, column].max(axis=1) for column in columns], axis=1)
    # the first shade is for less than an eighth of the largest, the others reach a quarter further each
    levels = np.where(8 * latest < largest, 0, -(-4 * latest // largest))
    lines = []
    for first, last, row in _runs(levels):
        name = _joined(visible(shades.ranks[first]), visible(shades.ranks[last]))
        drawn = "".join(_SHADES[level] * wide for level in row)
        lines.append(f"  {cut_in_the_middle(name, room):<{room}}  {drawn}")
    shown = (
        say("step {first} to {last}", first=steps[0], last=steps[-1])
        if len(steps) > 1
        else say("step {step}", step=steps[0])
    )
    lines.append(f"  {'':<{room}}  {tell(shown)}")
    bounds = [f"< {time_text(largest // 8)}", *(time_text(largest * level // 4) for level in range(1, len(_SHADES)))]
    scale = "  ".join(f"{shade} {bound}" for shade, bound in zip(_SHADES, bounds, strict=True))
    lines.append(wrapped(f"  {scale}", width, 2))
    return lines


def _runs(levels: Ints) -> list[tuple[int, int, list[int]]]:
    """Rows of equal shades as one: first, last, shades. Too many: neighbours are put together, the latest shows."""
    found: list[tuple[int, int, list[int]]] = []
    for at, row in enumerate(levels.tolist()):
        if found and found[-1][2] == row:
            found[-1] = (found[-1][0], at, row)
        else:
            found.append((at, at, row))
    if len(found) <= _MOST_ROWS:
        return found
    parts = np.array_split(np.arange(len(levels)), _MOST_ROWS)
    return [(int(part[0]), int(part[-1]), levels[part].max(axis=0).tolist()) for part in parts]


def _joined(first: str, last: str) -> str:
    """rank 0, rank 15 -> rank 0-15."""
    if first == last:
        return first
    head, _, number = last.rpartition(" ")
    is_numbered = number.isdecimal() and first.startswith(f"{head} ")
    return f"{first}-{number}" if is_numbered else f"{first} - {last}"


def for_people(sheet: Sheet) -> Sheet:
    """The sheet with its worst rows, in their order, and a title that says so."""
    if len(sheet.rows) <= _MOST_SHOWN:
        return sheet
    kept: Iterable[int] = range(_MOST_SHOWN)
    which = say("first")
    if sheet.name in _WORST_BY:
        at = [[column.key for column in sheet.columns].index(key) for key in _WORST_BY[sheet.name]]
        order = sorted(range(len(sheet.rows)), key=lambda row: [-_number(sheet.rows[row][each]) for each in at])
        kept = sorted(order[:_MOST_SHOWN])
        which = say("worst by {column}", column=uncapitalised(sheet.columns[at[0]].name))
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


def _finding_lines(findings: Sequence[Finding], terminal: Terminal, tell: Tell) -> list[str]:
    width = terminal.prose_width
    lines = [terminal.painted(tell(say("What to do")), "bold")] if findings else []
    for number, found in enumerate(findings, 1):
        lines += finding_head(number, found.code, tell(_saving(found)), terminal)
        lines.append(wrapped(f"     {visible(tell(found.claim))}", width, 5))
        lines += [wrapped(f"     {visible(tell(sentence))}", width, 7) for sentence in found.sentences]
    return lines


def _saving(found: Finding) -> str:
    if not found.saving_ns:
        return say("saves nothing")
    if found.saving_ns_per_step is None:
        time = time_text(found.saving_ns)
        return say("saves at most {time}", time=time) if found.is_bound else say("saves {time}", time=time)
    if found.is_bound:
        return say("saves at most {time} per step", time=time_text(found.saving_ns_per_step))
    low = found.saving_low_ns_per_step
    most, least = time_text(found.saving_ns_per_step), "" if low is None else time_text(low)
    if least in ("", most):
        return say("saves {time} per step", time=most)
    return say("saves {least} to {most} per step", least=least, most=most)


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

"""A job of many ranks as a page: the verdict, what to do, who is late as a map, and the tables of text."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpuledger.messages import joined, say
from gpuledger.present.charts.over_time import Row, heat_map
from gpuledger.present.charts.svg import Picture
from gpuledger.present.sheet import Column, Sheet, Unit
from gpuledger.present.terms import severity_term
from gpuledger.present.views.fleet import LATE, Map, Merged, for_people, verdict
from gpuledger.present.views.page.what_to_do import cards, section
from gpuledger.present.writers.html.parts import Chart, Command, Listing, Page, Part, Reader, Section, Tell, Text, Tile
from gpuledger.present.writers.html.tables import cut, table
from gpuledger.units import count_text, time_text

MOST_ROWS: Final = 64
MOST_COLUMNS: Final = 240
"""Ranks and steps of the map; of more, neighbours share a cell, where the latest shows."""

_NOTES: Final = (Column("severity", say("Severity"), Unit.TEXT), Column("sentence", say("What was seen"), Unit.TEXT))


def fleet_page(merged: Merged, reader: Reader) -> Page:
    """The page."""
    letters, tell = reader.room.letters, reader.tell
    return Page(
        title=f"{cut(merged.name, letters, tell)} · gpuledger",
        name=cut(merged.name, letters, tell),
        headline=cut(tell(merged.headline), letters, tell),
        verdict=cut(tell(verdict(merged)), letters, tell),
        tiles=_tiles(merged),
        sections=_sections(merged, reader),
    )


def _tiles(merged: Merged) -> tuple[Tile, ...]:
    world = "" if merged.world_size is None else say("of {count}", count=count_text(merged.world_size))
    tiles = [Tile(say("Ranks"), count_text(merged.ranks), world)]
    tiles.append(
        Tile(say("Profiles"), count_text(merged.profiles), say("{count} failed", count=count_text(len(merged.failed))))
    )
    top = merged.findings[0] if merged.findings else None
    if top is not None and top.saving_ns:
        each = top.saving_ns if top.saving_ns_per_step is None else top.saving_ns_per_step
        tiles.append(Tile(say("Fix first"), time_text(each), joined(" · ", (say("per step"), top.code))))
    return tuple(tiles)


def _sections(merged: Merged, reader: Reader) -> tuple[Section, ...]:
    found = cards(merged.findings, reader, lambda _: None, several=False)
    made = [section(found, reader.tell)] if found.cards else []
    made.append(Section("late", LATE, _map_parts(merged, reader)))
    for sheet in merged.tables:
        shown = for_people(sheet)
        parts: tuple[Part, ...] = (Text(say("None."), "note"),)
        if sheet.rows:
            parts = (
                table(shown, reader.tell, reader.room, caption=reader.tell(shown.title), name=sheet.name, quiet=True),
            )
        made.append(Section(f"section-{sheet.name}", shown.title, parts, sheet.title))
    made.append(Section("health", say("Health and provenance"), _closing(merged, reader), say("Health")))
    return tuple(made)


def _map_parts(merged: Merged, reader: Reader) -> tuple[Part, ...]:
    if merged.map is None:
        return (Text(say("Not measured: neither collectives nor steps were matched across ranks."), "unknown"),)
    most = time_text(max(int(merged.map.ns.max()), 1))
    said = say("One row per rank, one column per step: {what}; full color is {most}.", what=merged.map.what, most=most)
    return Text(said, "lead"), Chart(map_picture(merged.map, reader.tell), name="rank-map")


def map_picture(shades: Map, tell: Tell) -> Picture:
    """Ranks by steps."""
    rows = np.array_split(np.arange(len(shades.ranks)), min(len(shades.ranks), MOST_ROWS))
    columns = np.array_split(np.arange(len(shades.steps)), min(len(shades.steps), MOST_COLUMNS))
    largest = max(int(shades.ns.max()), 1)
    drawn = []
    for some in rows:
        latest = np.array([int(shades.ns[np.ix_(some, column)].max()) for column in columns], np.int64)
        first, last = shades.ranks[int(some[0])], shades.ranks[int(some[-1])]
        name = first if len(some) == 1 else f"{first} - {last}"
        drawn.append(Row(name, latest, time_text(int(latest.max()))))
    late = sorted(drawn, key=lambda row: -int(row.values.max()))[:4]
    said = joined(say("; "), [say("{rank}: up to {time}", rank=row.name, time=row.said) for row in late])
    first, last = (tell(say("step {step}", step=shades.steps[position])) for position in (0, -1))
    scale = tell(say("of {time}", time=time_text(largest)))
    return heat_map(tell(LATE), tell(said), drawn, largest, (first, last), scale)


def _closing(merged: Merged, reader: Reader) -> tuple[Part, ...]:
    parts: list[Part] = []
    if merged.failed:
        items = tuple(
            cut(f"{name}: {why}", reader.room.letters, reader.tell) for name, why in merged.failed[: reader.room.rows]
        )
        parts.append(Listing(say("Failed: {count}", count=count_text(len(merged.failed))), items))
    notes = tuple((severity_term(note.severity), note.sentence) for note in merged.notes)
    if notes:
        parts.append(
            table(
                Sheet("notes", say("Health"), _NOTES, notes),
                reader.tell,
                reader.room,
                caption=reader.tell(say("Health")),
                name="health-notes",
            )
        )
    parts.append(Command(reader.command))
    return tuple(parts)

"""Documents that are lists of blocks, as parts of a page: the same headings, sentences and tables as in text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpuledger.present.document import Block, Grid, Heading, Paragraph, Points
from gpuledger.present.html import parts as page
from gpuledger.present.html.parts import Part, Room, Section, Tell
from gpuledger.present.html.tables import cut, table

_SECTIONS = ("Compared", "Notes")
"""Lists that stand by themselves."""

_DRAWN = ("bar",)
"""Columns that draw with letters, for terminals; a page draws better."""


def block_parts(blocks: Iterable[Block], tell: Tell, room: Room) -> list[Part]:
    """One part per block, headings inside a section; a table takes its caption from the heading before it."""
    made: list[Part] = []
    for block in blocks:
        match block:
            case Heading(text):
                made.append(page.Heading(cut(tell(text), room.letters, tell)))
            case Paragraph(text):
                made.append(page.Text(cut(tell(text), 4 * room.letters, tell)))
            case Points(title, items):
                lines = tuple(cut(tell(item), room.letters, tell) for item in items)
                made.append(page.Listing(cut(tell(title), room.letters, tell), lines))
            case Grid(sheet):
                above = made[-1].text if made and isinstance(made[-1], page.Heading) else ""
                quiet = bool(above)
                made.append(table(sheet, tell, room, caption=above, quiet=quiet, without=_DRAWN))
    return made


def block_sections(blocks: Iterable[Block], tell: Tell, room: Room, first: str) -> list[Section]:
    """A section per heading of the document; what comes before one is under `first`."""
    groups: list[tuple[str, list[Block]]] = [(first, [])]
    for block in blocks:
        if isinstance(block, Heading):
            groups.append((tell(block.text), []))
        elif isinstance(block, Points) and block.title in _SECTIONS:
            groups.append((tell(block.title), [Points("", block.items)]))
        else:
            groups[-1][1].append(block)
    made = []
    for at, (title, held) in enumerate(groups):
        if held:
            inside = block_parts([Heading(title), *held], tell, room)[1:]
            inside = [
                replace(part, caption=title, quiet=True) if isinstance(part, page.Table) else part for part in inside
            ]
            made.append(Section(f"part-{at}", cut(title, room.letters, tell), tuple(inside)))
    return made

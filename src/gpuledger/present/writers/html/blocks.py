"""Blocks of a document as parts of a page: the same headings, sentences and tables as in text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from gpuledger.messages import say
from gpuledger.present.document import Block, Heading, Medium, Only, Paragraph, Picture, Points, SheetBlock
from gpuledger.present.writers.html import parts as page
from gpuledger.present.writers.html.parts import Part, Reader, Section
from gpuledger.present.writers.html.tables import cut, table

_DRAWN = ("bar",)
"""Columns that draw with letters, for terminals; a page draws better."""


def block_parts(blocks: Iterable[Block], reader: Reader) -> list[Part]:
    """One part per block, headings inside a section; a table takes its caption from the heading before it."""
    made: list[Part] = []
    tell, letters = reader.tell, reader.room.letters
    for block in blocks:
        match block:
            case Heading(text):
                made.append(page.Heading(cut(tell(text), letters, tell)))
            case Paragraph(text):
                made.append(page.Text(cut(tell(text), 4 * letters, tell)))
            case Points(title, items):
                lines = tuple(cut(tell(item), letters, tell) for item in items)
                made.append(page.Listing(cut(tell(title), letters, tell), lines))
            case SheetBlock(sheet) if not sheet.all_rows:
                made.append(page.Unknown(tell(say("{reason}.", reason=sheet.why_no_rows))))
            case SheetBlock(sheet):
                above = made[-1].text if made and isinstance(made[-1], page.Heading) else ""
                quiet = bool(above)
                made.append(table(sheet, tell, reader.room, caption=above, quiet=quiet, without=_DRAWN))
            case Picture(name, draw):
                made.append(page.Chart(draw(tell), name=name))
            case _:
                raise TypeError(f"a page has no place for {type(block).__name__}")
    return made


@dataclass(slots=True)
class _Chapter:
    """What will be a section: its title, and what it holds."""

    title: str
    short: str = ""
    blocks: list[Block] = field(default_factory=list)


def block_sections(blocks: Iterable[Block], reader: Reader, first: str) -> list[Section]:
    """A section per heading of the document, whose own title is left out; what comes before one is under `first`."""
    chapters = [_Chapter(first)]
    for block in blocks:
        match block:
            case Heading(text, level, short):
                if level > 1:
                    chapters.append(_Chapter(reader.tell(text), short))
            case Points(title, items, is_section=True):
                chapters.append(_Chapter(reader.tell(title), "", [Points("", items)]))
            case Only(medium, held):
                chapters[-1].blocks += held if medium is Medium.PAGE else ()
            case _:
                chapters[-1].blocks.append(block)
    made = []
    for number, chapter in enumerate(chapters):
        if chapter.blocks:
            inside = [
                replace(part, caption=chapter.title, quiet=True) if isinstance(part, page.Table) else part
                for part in block_parts(chapter.blocks, reader)
            ]
            title = cut(chapter.title, reader.room.letters, reader.tell)
            made.append(Section(f"part-{number}", title, tuple(inside), chapter.short))
    return made

"""A document as a list of blocks, written as text for a terminal or as Markdown, in any language of `messages`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from gpuledger.messages import joined, say, translated
from gpuledger.present.safe_text import visible, wrapped
from gpuledger.present.sheet import Sheet
from gpuledger.present.writers.markdown import escaped, table_markdown
from gpuledger.present.writers.terminal import sheet_lines


@dataclass(frozen=True, slots=True)
class Heading:
    """The title of what follows; level 1 is the document's."""

    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A few sentences."""

    text: str


@dataclass(frozen=True, slots=True)
class Points:
    """Short lines under a title of their own."""

    title: str
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table."""

    sheet: Sheet


Block = Heading | Paragraph | Points | Grid


LONGEST_NAME: Final = 100
"""Where text goes into a file, tables are as wide as they need, but for names of kernels: some have a thousand letters.
CSV, JSON and Markdown have them whole."""


def blocks_text(blocks: Iterable[Block], width: int | None, language: str) -> str:
    """For a terminal."""
    parts, left_out = [], dict[str, None]()
    for block in blocks:
        match block:
            case Heading(text) | Paragraph(text):
                parts.append(wrapped(visible(translated(text, language)), width))
            case Points(title, items):
                lines = [wrapped(visible(translated(title, language)), width, 2)]
                lines += [wrapped(f"  - {visible(translated(item, language))}", width, 4) for item in items]
                parts.append("\n".join(lines))
            case Grid(sheet):
                lines, hidden = sheet_lines(_translated(sheet, language), width, LONGEST_NAME)
                parts.append("\n".join(lines))
                left_out |= dict.fromkeys(hidden)
    if left_out:
        more = say("(no room for {columns}: widen, or use another --format)", columns=joined(say(", "), left_out))
        parts.append(wrapped(translated(more, language), width, 1))
    return "\n\n".join(parts) + "\n"


def blocks_markdown(blocks: Iterable[Block], language: str) -> str:
    """For a document."""
    parts = []
    for block in blocks:
        match block:
            case Heading(text, level):
                parts.append(f"{'#' * level} {escaped(translated(text, language))}")
            case Paragraph(text):
                parts.append(escaped(translated(text, language)))
            case Points(title, items):
                lines = [f"**{escaped(translated(title, language))}**", ""]
                parts.append("\n".join([*lines, *(f"- {escaped(translated(item, language))}" for item in items)]))
            case Grid(sheet):
                parts.append(table_markdown(_translated(sheet, language)).rstrip("\n"))
    return "\n\n".join(parts) + "\n"


def _translated(sheet: Sheet, language: str) -> Sheet:
    columns = tuple(replace(column, name=translated(column.name, language)) for column in sheet.columns)
    rows = tuple(
        tuple(translated(cell, language) if isinstance(cell, str) else cell for cell in row) for row in sheet.rows
    )
    return replace(sheet, columns=columns, rows=rows)

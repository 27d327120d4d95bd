"""Documents as text for a terminal, or for a file where there is no width to keep."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gpuledger.messages import joined, say, translated
from gpuledger.present.document import (
    Block,
    Conclusion,
    Definitions,
    Document,
    Drawn,
    Group,
    Heading,
    Medium,
    Only,
    Opening,
    Paragraph,
    Picture,
    Points,
    Remarks,
    SheetBlock,
    SheetTitle,
    ShellCommands,
    Tell,
)
from gpuledger.present.safe_text import display_width, padded, visible, wrapped
from gpuledger.present.sheet import translated_sheet
from gpuledger.present.shell import shell_lines
from gpuledger.present.terminal import Terminal
from gpuledger.present.writers.text_table import sheet_lines

LONGEST_NAME: Final = 100
"""Where text goes into a file, tables are as wide as they need, but for names of kernels: some have a thousand letters.
CSV, JSON and Markdown have them whole."""


def document_text(document: Document, terminal: Terminal, language: str, *, raw: bool = False) -> str:
    """The whole document, an empty line between blocks; `raw`: numbers as CSV has them."""
    writer = TextWriter(terminal, language, raw=raw)
    return "\n\n".join(text for block in document.blocks() if (text := writer.block(block))) + "\n"


class TextWriter:
    """Writes blocks for one terminal and one language."""

    def __init__(self, terminal: Terminal, language: str, *, raw: bool = False) -> None:
        self._terminal: Final = terminal
        self._width: Final = terminal.prose_width
        self._raw: Final = raw
        self._language: Final = language
        self._tell: Final[Tell] = lambda text: visible(translated(text, language))

    def block(self, block: Block) -> str:  # noqa: C901, PLR0911, PLR0912 - a case per block
        """One block; empty where it shows nothing here."""
        match block:
            case Opening(name, headline, facts):
                lines = self._lines((f"{visible(name)}  {self._tell(headline)}", *map(self._tell, facts)), 2)
                return self._terminal.painted(lines, "dim")
            case Conclusion(text):
                return self._title(self._tell(text), 0)
            case Heading(text):
                return self._title(visible(self._tell(text)), 0)
            case Paragraph(text):
                return wrapped(visible(self._tell(text)), self._width)
            case Points(title, items):
                points = [wrapped(f"  - {visible(self._tell(item))}", self._width, 4) for item in items]
                return "\n".join([self._title(visible(self._tell(title))), *points])
            case Remarks(items, margin):
                return self._lines((visible(self._tell(item)) for item in items), margin)
            case Definitions(title, entries):
                return self._definitions(title, entries)
            case SheetBlock():
                return self.blocks((block,))
            case ShellCommands(commands):
                return "\n\n".join("\n".join(shell_lines(command, self._terminal.width)) for command in commands)
            case Drawn(text, _):
                return text(self._terminal, self._tell)
            case Only(medium, blocks):
                return self.blocks(blocks) if medium is Medium.TEXT else ""
            case Group(blocks):
                return self.blocks(blocks)
            case Picture():
                return ""

    def blocks(self, blocks: Iterable[Block]) -> str:
        """Several blocks; what their tables have no room for is said at the end."""
        parts, hidden, needed = list[str](), dict[str, None](), 0
        for block in blocks:
            if isinstance(block, SheetBlock):
                text, left_out, width_of_all = self._sheet(block)
                parts.append(text)
                hidden |= dict.fromkeys(left_out)
                needed = max(needed, width_of_all)
            elif text := self.block(block):
                parts.append(text)
        if hidden:
            parts.append(self._no_room(hidden, needed))
        return "\n\n".join(parts)

    def _sheet(self, block: SheetBlock) -> tuple[str, list[str], int]:
        """The table, the headings it had no room for and does not tell itself, and how wide it is with them."""
        sheet = translated_sheet(block.sheet, self._language)
        named = block.title is SheetTitle.NAMED
        title = visible(f"{sheet.title} ({sheet.name})" if named else sheet.title)
        if named and not sheet.all_rows:
            nothing = say("{table}: {reason}", table=title, reason=sheet.why_no_rows)
            return wrapped(visible(self._tell(nothing)), self._width, 2), [], 0
        longest_name = None if block.tells_hidden else LONGEST_NAME
        lines, hidden, width_of_all = sheet_lines(sheet, self._terminal, longest_name, raw=self._raw)
        if block.title is not SheetTitle.NONE:
            lines = [self._title(title), *([""] if named else []), *lines]
        if hidden and block.tells_hidden:
            return "\n".join([*lines, self._no_room(hidden, width_of_all)]), [], 0
        return "\n".join(lines), hidden, width_of_all

    def _definitions(self, title: str, entries: tuple[tuple[str, str], ...]) -> str:
        """A term and a sentence a line, the sentences aligned and wrapped."""
        if not entries:
            return ""
        told = [(self._tell(term), visible(self._tell(sentence))) for term, sentence in entries]
        indent = max(display_width(term) for term, _ in told) + 4
        lines = [f"  {padded(term, indent - 4)}  {sentence}" for term, sentence in told]
        return "\n".join([self._title(self._tell(title)), *(wrapped(line, self._width, indent) for line in lines)])

    def _title(self, text: str, margin: int = 2) -> str:
        return self._terminal.painted(wrapped(text, self._width, margin), "bold")

    def _no_room(self, hidden: Iterable[str], needed: int) -> str:
        """Which columns a narrow terminal does not show, and what does."""
        more = say(
            "(not shown: {columns}; needs {width} columns, or a pipe such as `| less -S`)",
            columns=joined(say(", "), hidden),
            width=needed,
        )
        return self._terminal.painted(wrapped(self._tell(more), self._width, 1), "dim")

    def _lines(self, lines: Iterable[str], margin: int) -> str:
        return "\n".join(wrapped(line, self._width, margin) for line in lines)

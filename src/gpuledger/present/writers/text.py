"""Documents as text for a terminal, or for a file where there is no width to keep."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from gpuledger.messages import joined, say, translated
from gpuledger.present.document import (
    Block,
    Conclusion,
    Definitions,
    Document,
    Drawn,
    Findings,
    FindingsForm,
    Group,
    Heading,
    LedgerBlock,
    Medium,
    Only,
    Opening,
    Paragraph,
    Points,
    Remarks,
    Shades,
    SheetBlock,
    SheetTitle,
    ShellCommands,
    Tell,
)
from gpuledger.present.safe_text import cut_in_the_middle, display_width, padded, visible, wrapped
from gpuledger.present.sheet import translated_sheet
from gpuledger.present.shell import shell_lines
from gpuledger.present.terminal import Style, Terminal, bar, saving_style, tone_style
from gpuledger.present.writers.text_table import sheet_lines
from gpuledger.units import count_text, share_text, time_text

if TYPE_CHECKING:
    from gpuledger.trace.spans import Ints

LONGEST_NAME: Final = 100
"""Where text goes into a file, tables are as wide as they need, but for names of kernels: some have a thousand letters.
CSV, JSON and Markdown have them whole."""

_CODES: Final = 16
"""Columns of a finding's code, with the gap after it."""

_WIDEST_BAR: Final = 24
_NAMES: Final = 28
_NUMBERS: Final = 21
"""Columns of a ledger line: its bar, the name before it, and the numbers after it, gaps included."""

_SHADES: Final = "·░▒▓█"
_MOST_ROWS: Final = 32
_MOST_COLUMNS: Final = 120
_WIDEST_CELL: Final = 4
"""Of a map of shades."""


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
            case Findings():
                return self._findings(block)
            case LedgerBlock():
                return self._ledger(block)
            case Shades(title, what):
                said = self._tell(say("{title}: {what}", title=title, what=what))
                head = self._terminal.painted(wrapped(said, self._terminal.width, 2), "bold")
                return "\n".join([head, "", *shade_lines(block, self._terminal.width, self._tell)])
            case _:  # what only a page can show
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

    def _findings(self, block: Findings) -> str:
        """What to do, numbered: the first ones with what they save, the claim, the fix and the evidence."""
        from gpuledger.present.finding_words import finding_points, fix_words, then_words, unsure_words

        if block.form is FindingsForm.POINTS:
            return self.blocks(map(finding_points, block.entries))
        if not block.entries or block.form is FindingsForm.TOP:
            return ""
        lines = [self._terminal.painted(self._tell(say("What to do")), "bold")]
        for number, shown in enumerate(block.entries[: block.most], 1):
            finding, saves = shown.finding, shown.saving
            if saves is not None and shown.share is not None:
                saves = say("{saving} ({share})", saving=saves, share=share_text(shown.share))
            style = () if shown.share is None else (saving_style(shown.share),)
            lines += self._finding_head(number, finding.code, "" if saves is None else self._tell(saves), *style)
            lines.append(self._indented(finding.claim))
            if shown.fix is not None:
                lines.append(self._terminal.painted(self._indented(fix_words(shown.fix), 10), "green"))
            more: list[str | None] = [unsure_words(finding)]
            if not block.is_brief:
                more += [then_words(finding), *(said for said in finding.sentences if said != shown.fix)]
            lines += [self._indented(said, 7) for said in more if said is not None]
        if block.most is not None and (rest := block.entries[block.most :]):
            codes = joined(say(", "), (shown.finding.code for shown in rest))
            told = self._tell(say("and {count} more: {codes}", count=count_text(len(rest)), codes=codes))
            lines.append(wrapped(f"  {told}", self._width, 4))
        return "\n".join(lines)

    def _finding_head(self, number: int, code: str, saves: str, *styles: Style) -> list[str]:
        """Number and code, with what is saved beside them, or below where the terminal is narrow."""
        head = f"  {number}  {self._terminal.painted(code, 'bold')}"
        if not saves:
            return [head]
        saving, width = self._terminal.painted(saves, *styles), self._terminal.width
        is_narrow = width is not None and 5 + _CODES + display_width(saves) > width
        return [head, f"     {saving}"] if is_narrow else [f"{head}{' ' * (_CODES - len(code))}{saving}"]

    def _indented(self, text: str, margin: int = 5) -> str:
        return wrapped(f"     {self._tell(text)}", self._width, margin)

    def _ledger(self, block: LedgerBlock) -> str:
        """A line of the books a line: name, bar, share, time."""
        width = self._terminal.width
        names = _NAMES if width is None else max(min(_NAMES, width - 2 - _NUMBERS), 1)
        room = _WIDEST_BAR if width is None else max(min(_WIDEST_BAR, width - 4 - _NAMES - _NUMBERS), 0)
        lines = [self._title(self._tell(block.title))]
        for row in block.rows:
            drawn = bar(row.share, room) if row.tone else ""
            painted = self._terminal.painted(drawn, tone_style(row.tone)) + " " * (room - len(drawn))
            name = padded(cut_in_the_middle(self._tell(row.name), names), names)
            lines.append(f"  {name}{painted}  {share_text(row.share):>8}  {row.time:>9}")
        return "\n".join(lines)

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


def shade_lines(block: Shades, width: int | None, tell: Tell) -> list[str]:
    """The map with its scale under it. Neighbours that look the same share a row."""
    import numpy as np

    ranks, steps, largest = [visible(rank) for rank in block.ranks], block.steps, max(int(block.ns.max()), 1)
    longest = max(len(_rank_range(rank, ranks[-1])) for rank in ranks)
    room = min(longest, (width or _MOST_COLUMNS) // 3)
    space = _MOST_COLUMNS if width is None else max(min(_MOST_COLUMNS, width - room - 4), 1)
    columns = np.array_split(np.arange(len(steps)), min(len(steps), space))
    wide = min(space // len(columns), _WIDEST_CELL)
    latest = np.stack([block.ns[:, column].max(axis=1) for column in columns], axis=1)
    # the first shade is for less than an eighth of the largest, the others reach a quarter further each
    levels = np.where(8 * latest < largest, 0, -(-4 * latest // largest))
    lines = []
    for first, last, row in _equal_rows(levels):
        drawn = "".join(_SHADES[level] * wide for level in row)
        lines.append(f"  {cut_in_the_middle(_rank_range(ranks[first], ranks[last]), room):<{room}}  {drawn}")
    shown = (
        say("step {first} to {last}", first=steps[0], last=steps[-1])
        if len(steps) > 1
        else say("step {step}", step=steps[0])
    )
    lines.append(f"  {'':<{room}}  {tell(shown)}")
    bounds = [f"< {time_text(largest // 8)}", *(time_text(largest * level // 4) for level in range(1, len(_SHADES)))]
    scale = "  ".join(f"{shade} {bound}" for shade, bound in zip(_SHADES, bounds, strict=True))
    return [*lines, wrapped(f"  {scale}", width, 2)]


def _equal_rows(levels: Ints) -> list[tuple[int, int, list[int]]]:
    """Rows of equal shades as one: first, last, shades. Too many: neighbours are put together, the latest shows."""
    runs: list[tuple[int, int, list[int]]] = []
    for position, row in enumerate(levels.tolist()):
        if runs and runs[-1][2] == row:
            runs[-1] = (runs[-1][0], position, row)
        else:
            runs.append((position, position, row))
    if len(runs) <= _MOST_ROWS:
        return runs
    import numpy as np

    parts = np.array_split(np.arange(len(levels)), _MOST_ROWS)
    return [(int(part[0]), int(part[-1]), levels[part].max(axis=0).tolist()) for part in parts]


def _rank_range(first: str, last: str) -> str:
    """rank 0, rank 15 -> rank 0-15."""
    if first == last:
        return first
    head, _, number = last.rpartition(" ")
    is_numbered = number.isdecimal() and first.startswith(f"{head} ")
    return f"{first}-{number}" if is_numbered else f"{first} - {last}"

"""Documents as text for a terminal, or for a file where there is no width to keep.

At a given width, details of a table go first, then names are cut in the middle, and sentences wrapped. Where the
terminal has colours, the first column of shares has a bar beside it, if there is room to spare.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from gpuledger.messages import joined, say, translated
from gpuledger.present import document as doc
from gpuledger.present.digits import shown_text
from gpuledger.present.safe_text import (
    cut_apart,
    cut_in_the_middle,
    display_width,
    padded,
    shell_lines,
    visible,
    wrapped,
)
from gpuledger.present.sheet import Column, Digits, Sheet, Term, Unit, translated_sheet
from gpuledger.present.terminal import BADGES, Style, Terminal, bar, saving_style, tone_style
from gpuledger.units import count_text, share_text, time_text

if TYPE_CHECKING:
    from gpuledger.trace.spans import Ints

_GAP: Final = "  "
_NAME_WIDTH: Final = 26
"""How much room names should have before details are shown."""

_NARROWEST: Final = 8
"""No column of names is cut further."""

_BAR: Final = 12
"""Columns of a bar: what is whole."""

_BAR_COLUMN: Final = Column("bar", "", Unit.TEXT)


class _TextColumn(NamedTuple):
    """One column with its cells as text."""

    column: Column
    heading: str
    cells: Sequence[str]
    styles: Sequence[tuple[Style, ...]]

    @property
    def is_text(self) -> bool:
        return self.column.digits is Digits.TEXT

    @property
    def width(self) -> int:
        """What its heading and its cells need."""
        return max(map(display_width, (self.heading, *self.cells)))


class TableLines(NamedTuple):
    """A table as lines, the columns that there was no room for, and how wide a terminal shows them all."""

    lines: list[str]
    hidden: list[str]
    width_of_all: int


def sheet_lines(sheet: Sheet, terminal: Terminal, *, raw: bool = False) -> TableLines:
    """The table itself."""
    exact = raw or not sheet.rounded
    every = [_text_column(sheet, index, column, exact=exact) for index, column in enumerate(sheet.columns)]
    shown = every if terminal.width is None else _that_fit(every, terminal.width)
    hidden = [entry.heading.removesuffix(" (ns)") for entry in every if entry not in shown]
    if terminal.has_colours and not exact and not hidden:
        shown = _with_bars(sheet, shown, terminal.width)
    return TableLines(_lines(shown, terminal), hidden, _least_width(every))


def _text_column(sheet: Sheet, index: int, column: Column, *, exact: bool) -> _TextColumn:
    values = [row[index] for row in sheet.all_rows]
    cells = [visible(shown_text(value, column, exact=exact)) for value in values]
    styles: list[tuple[Style, ...]] = [
        (BADGES[value.badge],) if isinstance(value, Term) and value.badge else () for value in values
    ]
    return _TextColumn(column, column.title(exact=exact), cells, styles)


def _with_bars(sheet: Sheet, columns: Sequence[_TextColumn], width: int | None) -> list[_TextColumn]:
    """The same with a bar beside the first shares, where they can be compared and a line has room for it."""
    shares = [index for index, entry in enumerate(columns) if entry.column.unit is Unit.SHARE_PERCENT]
    needed = sum(entry.width for entry in columns) + len(_GAP) * len(columns) + _BAR
    if not shares or len(sheet.rows) < 2 or (width is not None and needed > width):
        return list(columns)
    values = [row[shares[0]] for row in sheet.rows]
    bars = [bar(value / 100, _BAR) if isinstance(value, int | float) else "" for value in values]
    tones = [next((cell.tone for cell in row if isinstance(cell, Term) and cell.tone), "") for row in sheet.rows]
    styles: list[tuple[Style, ...]] = [(tone_style(tone),) for tone in tones]
    blank = len(sheet.foot)
    drawn = _TextColumn(_BAR_COLUMN, "", [*bars, *[""] * blank], [*styles, *[()] * blank])
    return [*columns[: shares[0] + 1], drawn, *columns[shares[0] + 1 :]]


def _that_fit(columns: Sequence[_TextColumn], width: int) -> list[_TextColumn]:
    """The columns that leave the names enough room: details go first, the least important one before the others.

    Where the rest is still too wide with its names cut short, columns go from the right, but the first of all and the
    first name stay: they say what a row is.
    """
    shown = list(columns)
    while _least_width(shown) > width:
        details = [entry for entry in shown if entry.column.detail]
        if not details:
            break
        shown.remove(max(reversed(details), key=lambda entry: entry.column.detail))  # `of` goes before what it is of
    name = next((entry for entry in shown if entry.is_text), None)
    while _least_width(shown, _NARROWEST) > width:
        others = [entry for entry in shown[1:] if entry is not name]
        if len(others) < 2:
            break
        shown.remove(others[-1])
    return shown


def _least_width(shown: Sequence[_TextColumn], name_width: int = _NAME_WIDTH) -> int:
    needed = (min(entry.width, name_width) if entry.is_text else entry.width for entry in shown)
    return len(_GAP) * (len(shown) - 1) + sum(needed)


def _lines(columns: Sequence[_TextColumn], terminal: Terminal) -> list[str]:
    """The rows under their headings, numbers to the right, text to the left."""
    widths = [
        min(entry.width, max(LONGEST_NAME, display_width(entry.heading))) if entry.column.shorten else entry.width
        for entry in columns
    ]
    if terminal.width is not None:
        _share_out(columns, widths, terminal.width)
    cells = zip(*(_blocks(entry, room, terminal) for entry, room in zip(columns, widths, strict=True)), strict=True)
    lines = []
    for row in cells:  # as many lines as its longest cell has
        padded_cells = [
            [*cell, *[" " * room] * (max(map(len, row)) - len(cell))] for cell, room in zip(row, widths, strict=True)
        ]
        lines += [_GAP.join(line).rstrip() for line in zip(*padded_cells, strict=True)]
    return lines


def _blocks(entry: _TextColumn, room: int, terminal: Terminal) -> list[list[str]]:
    """The lines of each cell: one, but for sentences; the heading and the rule under it first."""
    if entry.column.is_prose:
        cells = [wrapped(cell, room).splitlines() or [""] for cell in entry.cells]
    else:
        cells = [[cell] for cell in cut_apart(entry.cells, room, entry.column.shorten)]
    rule = "-" * (room if entry.column is not _BAR_COLUMN else 0)
    styles: list[tuple[Style, ...]] = [("bold",), ("dim",), *entry.styles]

    def aligned(line: str, style: tuple[Style, ...]) -> str:
        space, painted = " " * (room - display_width(line)), terminal.painted(line, *style)
        return painted + space if entry.is_text else space + painted

    return [
        [aligned(line, style) for line in lines]
        for lines, style in zip([[cut_in_the_middle(entry.heading, room)], [rule], *cells], styles, strict=True)
    ]


def _share_out(columns: Sequence[_TextColumn], widths: list[int], width: int) -> None:
    """Cut the text columns, the widest first, until a line fits."""
    names = [index for index, entry in enumerate(columns) if entry.is_text]
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while excess > 0 and names:
        widest = max(names, key=lambda index: widths[index])
        if widths[widest] <= _NARROWEST:
            return
        widths[widest] -= 1
        excess -= 1


LONGEST_NAME: Final = 100
"""Where text goes into a file, tables are as wide as they need, but for names of kernels: some have a thousand letters.
CSV, JSON and Markdown have them whole."""

_CODES: Final = 16
"""Columns of a finding's code, with the gap after it."""

_WIDEST_BAR: Final = 23
_NAMES: Final = (29, 42)
_NUMBERS: Final = 21
"""Columns of a ledger line: its bar, the name before it, at least and at most, and the numbers, gaps included."""

_SHADES: Final = "·░▒▓█"
_MOST_ROWS: Final = 32
_MOST_COLUMNS: Final = 120
_WIDEST_CELL: Final = 4
"""Of a map of shades."""


def document_text(document: doc.Document, terminal: Terminal, language: str, *, raw: bool = False) -> str:
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
        self._tell: Final[doc.Tell] = lambda text: visible(translated(text, language))

    def block(self, block: doc.Block) -> str:  # noqa: C901, PLR0911, PLR0912 - a case per block
        """One block; empty where it shows nothing here."""
        match block:
            case doc.Opening(name, headline, facts):
                lines = self._lines((f"{visible(name)}  {self._tell(headline)}", *map(self._tell, facts)), 2)
                return self._terminal.painted(lines, "dim")
            case doc.Conclusion(text):
                return self._title(self._tell(text), 0)
            case doc.Heading(text):
                return self._title(self._tell(text), 0)
            case doc.Paragraph(text):
                return wrapped(self._tell(text), self._width)
            case doc.Points(title, items):
                points = [wrapped(f"  - {self._tell(item)}", self._width, 4) for item in items]
                return "\n".join([self._title(self._tell(title)), *points])
            case doc.Remarks(items, margin):
                return self._lines(map(self._tell, items), margin)
            case doc.Definitions(title, entries):
                return self._definitions(title, entries)
            case doc.SheetBlock():
                return self.blocks((block,))
            case doc.ShellCommands(commands):
                return "\n\n".join("\n".join(shell_lines(command, self._terminal.width)) for command in commands)
            case doc.Drawn(text, _):
                return text(self._terminal, self._tell)
            case doc.Only():
                return self.blocks(block.shown_in(doc.Medium.TEXT))
            case doc.Group(blocks):
                return self.blocks(blocks)
            case doc.Findings():
                return self._findings(block)
            case doc.LedgerBlock():
                return self._ledger(block)
            case doc.Shades(title, what):
                said = self._tell(say("{title}: {what}", title=title, what=what))
                head = self._terminal.painted(wrapped(said, self._terminal.width, 2), "bold")
                return "\n".join([head, "", *shade_lines(block, self._terminal.width, self._tell)])
            case _:  # what only a page can show
                return ""

    def blocks(self, blocks: Iterable[doc.Block]) -> str:
        """Several blocks; what their tables have no room for is said at the end."""
        parts, hidden, needed = list[str](), dict[str, None](), 0
        for block in blocks:
            if isinstance(block, doc.SheetBlock):
                text, left_out, width_of_all = self._sheet(block)
                parts.append(text)
                hidden |= dict.fromkeys(left_out)
                needed = max(needed, width_of_all)
            elif text := self.block(block):
                parts.append(text)
        if hidden:
            parts.append(self._no_room(hidden, needed))
        return "\n\n".join(parts)

    def _sheet(self, block: doc.SheetBlock) -> tuple[str, list[str], int]:
        """The table, the headings it had no room for and does not tell itself, and how wide it is with them."""
        sheet = translated_sheet(block.sheet, self._language)
        named = block.title is doc.SheetTitle.NAMED
        title = visible(f"{sheet.title} ({sheet.name})" if named else sheet.title)
        if named and not sheet.all_rows:
            nothing = say("{table}: {reason}", table=title, reason=sheet.why_no_rows)
            return wrapped(self._tell(nothing), self._width, 2), [], 0
        lines, hidden, width_of_all = sheet_lines(sheet, self._terminal, raw=self._raw)
        if block.title is not doc.SheetTitle.NONE:
            lines = [self._title(title), *([""] if named else []), *lines]
        if hidden and block.tells_hidden:
            return "\n".join([*lines, self._no_room(hidden, width_of_all)]), [], 0
        return "\n".join(lines), hidden, width_of_all

    def _definitions(self, title: str, entries: tuple[tuple[str, str], ...]) -> str:
        """A term and a sentence a line, the sentences aligned and wrapped."""
        if not entries:
            return ""
        pairs = [(self._tell(term), self._tell(sentence)) for term, sentence in entries]
        indent = max(display_width(term) for term, _ in pairs) + 4
        lines = [f"  {padded(term, indent - 4)}  {sentence}" for term, sentence in pairs]
        return "\n".join([self._title(self._tell(title)), *(wrapped(line, self._width, indent) for line in lines)])

    def _findings(self, block: doc.Findings) -> str:
        """What to do, numbered: the first ones with what they save, the claim, the fix and the evidence."""
        from gpuledger.present.finding_words import finding_points, fix_words, then_words, unsure_words

        if block.form is doc.FindingsForm.POINTS:
            return self.blocks(map(finding_points, block.entries))
        if not block.entries or block.form is doc.FindingsForm.TOP:
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
            more_codes = self._tell(say("and {count} more: {codes}", count=count_text(len(rest)), codes=codes))
            lines.append(wrapped(f"  {more_codes}", self._width, 4))
        return "\n".join(lines)

    def _finding_head(self, number: int, code: str, saves: str, *styles: Style) -> list[str]:
        """Number and code, with what is saved beside them, or below where the terminal is narrow."""
        head = f"  {number}  {self._terminal.painted(code, 'bold')}"
        if not saves:
            return [head]
        saving, width = self._terminal.painted(saves, *styles), self._terminal.width
        is_narrow = width is not None and 5 + _CODES + display_width(saves) > width
        return [head, f"     {saving}"] if is_narrow else [f"{head}{' ' * max(_CODES - len(code), 2)}{saving}"]

    def _indented(self, text: str, margin: int = 5) -> str:
        return wrapped(f"     {self._tell(text)}", self._width, margin)

    def _ledger(self, block: doc.LedgerBlock) -> str:
        """A line of the books a line: name, bar, share, time."""
        width = self._terminal.width
        longest = max((display_width(self._tell(row.name)) for row in block.rows), default=0)
        wanted = min(max(longest + 1, _NAMES[0]), _NAMES[1])
        names = wanted if width is None else max(min(wanted, width - 2 - _NUMBERS), 1)
        room = _WIDEST_BAR if width is None else max(min(_WIDEST_BAR, width - 4 - wanted - _NUMBERS), 0)
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


def shade_lines(block: doc.Shades, width: int | None, tell: doc.Tell) -> list[str]:
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

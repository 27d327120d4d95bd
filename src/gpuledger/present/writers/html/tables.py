"""Sheets as tables of a page: every number with its unit, the exact value beside it, long names cut.

What is shown is rounded for people, as in text; the exact value is kept for sorting and for whoever reads the page by
program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.messages import say
from gpuledger.present.charts.svg import is_hatched
from gpuledger.present.digits import number_text
from gpuledger.present.document import SheetBlock, Tell, TimelinePlace
from gpuledger.present.safe_text import cut_apart, visible
from gpuledger.present.sheet import Cell, Column, Sheet, Term, Unit
from gpuledger.present.writers.html.markup import Html, MarkupWriter, joined_html
from gpuledger.units import count_text

LONGEST_TEXT: Final = 72
"""Letters of a text before the rest of it is folded away."""

_LONGEST_NAME: Final = 34
"""Letters of a kernel's name before the same."""

_ENOUGH: Final = 1_000
"""Letters of a name that are looked at for what tells it apart from others."""

_DEEPEST: Final = 9
"""So many depths of a tree are set in differently, by classes of the style sheet."""

_SHORT: Final = 26
"""Letters of a cell that is not broken into lines."""

_TALL: Final = 28
"""Rows from which on a table scrolls in a box of its own,"""
_MANY: Final = 8
"""can be searched,"""
_SOME: Final = 3
"""and can be copied as CSV."""

_PRINTS_AS_ZERO: Final = 0.0005


class Room(Struct, frozen=True):
    """How much a page may hold of what a profile has without limit."""

    rows: int
    """Of the longest table."""
    letters: int
    """Of one name."""


class TableCell(Struct, frozen=True):
    """One cell. `value` is the exact number, to sort by and to compare with the JSON."""

    text: str
    value: str = ""
    whole: str = ""
    """The whole of a name that is shortened in `text`."""
    share: float | None = None
    """Drawn as a bar under the text."""
    tone: str = ""
    """A swatch before the text."""
    badge: str = ""
    """good, warn or bad: a verdict."""
    depth: int = 0
    """How far it is set in, in a tree."""
    place: TimelinePlace | None = None


class TableWriter(MarkupWriter):
    """Writes tables in one language, with so much room."""

    def __init__(self, language: str, room: Room) -> None:
        super().__init__(language)
        self.room: Final = room

    def short(self, text: str, times: int = 1) -> str:
        """A text in the reader's language, in at most so many times the letters of a name."""
        return cut(self.tell(text), times * self.room.letters, self.tell)

    def table(self, block: SheetBlock) -> Html:
        """The table with as many rows as there is room for, the others in one where they can be put together.

        Sums stay at the bottom however it is sorted.
        """
        sheet, most = _without(block.sheet, block.without), self.room.rows
        title, shown, foot = self.tell(sheet.title), sheet.rows[:most], sheet.foot
        if len(sheet.rows) > most and block.rest is not None:
            foot = (*foot, block.rest(sheet.rows[most:]))
        elif len(sheet.rows) > most:
            figures = {"title": title, "shown": most, "count": len(sheet.rows)}
            title = self.tell(say("{title} (first {shown} of {count} rows)", **figures))
        cells = self._cells(sheet.columns, (*shown, *foot))
        rows, sums = cells[: len(shown)], cells[len(shown) :]
        rows[: len(block.places)] = [
            [replace(row[0], place=place), *row[1:]] for row, place in zip(rows, block.places, strict=False)
        ]
        keys = [column.key for column in sheet.columns]
        families = [row[keys.index(block.families_in)].text for row in rows] if block.families_in else []
        is_zero = _zero_rows(rows)
        body = []
        for place, (row, zero) in enumerate(zip(rows, is_zero, strict=True)):
            family = self.put_if(families, ' data-family="{}"', *families[place : place + 1])
            written = self._row(sheet.columns, row)
            body.append(self.put("<tr{}{}>{}</tr>\n", Html(' class="zero"' * zero), family, written))
        closing = joined_html(self.put("<tr>{}</tr>\n", self._row(sheet.columns, row)) for row in sums)
        heads = (
            self.put('<th scope="col"{}>{}</th>\n', _number_class(column), column.title(exact=False) or "·")
            for column in sheet.columns
        )
        exact = all(column.unit is not Unit.FIGURE for column in sheet.columns)
        sorts = exact and len(sheet.rows) > 2 and not block.is_tree
        return self.put(
            '<div class="table">\n{}<div class="scroll{}" role="region" tabindex="0" aria-label="{}">\n'
            "<table{}{}>\n<caption{}>{}</caption>\n<thead><tr>\n{}</tr></thead>\n<tbody>\n{}</tbody>\n{}"
            "</table>\n</div>\n</div>",
            self._tools(len(rows), list(dict.fromkeys(families)), sum(is_zero)) if len(rows) >= _SOME else Html(),
            " tall" if len(rows) > _TALL else "",
            title,
            self.put_if(block.anchor, ' id="{}"', block.anchor),
            Html(' class="sorts"' * sorts),
            Html(' class="quiet"' * block.is_quiet),
            self.coded(title),
            joined_html(heads),
            joined_html(body),
            self.put_if(closing, "<tfoot>\n{}</tfoot>\n", closing),
        )

    def _tools(self, rows: int, families: Sequence[str], folded: int) -> Html:
        """Search, choice by family, zero rows and copying, for scripts to show."""
        search = '<label>{} <input type="search" autocomplete="off" spellcheck="false"></label>\n'
        choice = '<label>{} <select><option value="">{}</option>{}</select></label>\n'
        unfold = '<button type="button" class="unfold" aria-expanded="false">{} ({})</button>\n'
        options = joined_html(self.put("<option>{}</option>", name) for name in families)
        return self.put(
            '<div class="tools" hidden>\n{}{}{}<button type="button" class="csv" data-done="{}">{}</button>\n'
            "<output></output></div>\n",
            self.put_if(families or rows > _MANY, search, say("Filter")),
            self.put_if(len(families) > 1, choice, say("Family"), say("all families"), options),
            self.put_if(folded, unfold, say("Rows of 0.0 %"), folded),
            say("Copied"),
            say("Copy as CSV"),
        )

    def _cells(self, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> list[list[TableCell]]:
        """Row by row; made column by column, as names that look alike when cut are cut where they differ."""
        by_column = []
        for position, column in enumerate(columns):
            values = [row[position] for row in rows]
            names = {} if column.shorten is None else self._names(values, column.shorten)
            by_column.append(
                [names.get(row) or cell(value, column, self.tell, self.room) for row, value in enumerate(values)]
            )
        return [[column[row] for column in by_column] for row in range(len(rows))]

    def _names(self, values: Sequence[Cell], shorten: Callable[[str], str]) -> dict[int, TableCell]:
        """By row: names of kernels, short, each with the whole of it where something was left out."""
        whole = {row: name for row, name in enumerate(values) if isinstance(name, str)}
        labels = [visible(middle(shorten(name), _ENOUGH)) for name in whole.values()]
        short = [text.replace("……", "…") for text in cut_apart(labels, _LONGEST_NAME)]
        return {
            row: TableCell(text, whole="" if text == name else cut(name, self.room.letters, self.tell))
            for text, (row, name) in zip(short, whole.items(), strict=True)
        }

    def _row(self, columns: Sequence[Column], row: Sequence[TableCell]) -> Html:
        written = []
        for place, (cell, column) in enumerate(zip(row, columns, strict=True)):
            kind = _number_class(column)
            if not kind and (column.shorten is not None or cell.tone or len(cell.text) <= _SHORT):
                kind = Html(' class="k"')  # not broken into lines
            tag = "td" if place else "th"
            head = tag if place else 'th scope="row"'
            value = self.put_if(cell.value, ' data-value="{}"', cell.value)
            written.append(f"<{head}{kind}{value}>{self._inside(cell)}</{tag}>")
        return Html("".join(written))

    def _inside(self, cell: TableCell) -> Html:
        before = Html()
        if cell.share is not None:
            bar = '<svg class="bar" aria-hidden="true"><rect height="100%" width="{}%" class="f-accent"/></svg>'
            before = self.put(bar, f"{100 * cell.share:.1f}")
        if cell.depth:
            before = self.put('{}<span class="d{}"></span>', before, min(cell.depth, _DEEPEST))
        if cell.tone:
            before = joined_html((before, self.swatch(cell.tone)))
        if cell.badge:
            return self.put('{}<span class="badge {}">{}</span>', before, cell.badge, cell.text)
        if cell.whole:
            folded = '{}<details class="name"><summary>{}</summary><code>{}</code></details>'
            return self.put(folded, before, cell.text, cell.whole)
        if cell.place is not None:
            return self.put("{}{}", before, self.linked(Html(self.shown(cell.text)), cell.place, cell.text))
        return self.put("{}{}" if cell.share is None else '{}<span class="p">{}</span>', before, cell.text)

    def swatch(self, tone: str) -> Html:
        """A little box in a tone."""
        lines = Html('<rect width="12" height="12" fill="url(#hatch)"/>' if is_hatched(tone) else "")
        colour = self.put('<rect width="12" height="12" class="f-{}"/>{}', tone, lines)
        return self.put('<svg class="swatch" width="12" height="12" aria-hidden="true">{}</svg>', colour)

    def linked(self, said: Html, place: TimelinePlace | None, what: str) -> Html:
        """A link to a place on the timeline, with what is to be marked there."""
        if place is None:
            return said
        marks = (("triggers", place.triggers), ("correlations", place.correlations))
        return self.put(
            '<a href="#timeline" data-stretch="{}" data-start="{}" data-end="{}" data-what="{}"{}{}>{}</a>',
            *(place.stretch, place.start_ns, place.end_ns, what),
            joined_html(
                self.put_if(numbers, f' data-{name}="{{}}"', " ".join(map(str, numbers))) for name, numbers in marks
            ),
            self.put_if(place.tone, ' data-tone="{}"', place.tone),
            said,
        )


def _number_class(column: Column) -> Html:
    return Html("" if column.unit is Unit.TEXT else ' class="n"')


def _zero_rows(rows: Sequence[Sequence[TableCell]]) -> list[bool]:
    """Which rows are folded away: their shares are there and all print as 0.0 %. One alone stays."""
    shares = [[cell.share for cell in row if cell.share is not None] for row in rows]
    folded = [bool(of_row) and max(of_row) < _PRINTS_AS_ZERO for of_row in shares]
    return folded if 1 < sum(folded) < len(folded) else [False] * len(folded)


def cell(value: Cell, column: Column, tell: Tell, room: Room) -> TableCell:
    """One cell with its unit."""
    match value:
        case None:
            return TableCell("")
        case tuple():
            return TableCell(" x ".join(map(str, value)))
        case str() if column.unit is Unit.FIGURE:
            return TableCell(middle(tell(value), LONGEST_TEXT))
        case str() | Term():
            term = value if isinstance(value, Term) else Term("", value)
            said = tell(term.words)
            short = visible(middle(said, LONGEST_TEXT))
            whole = "" if short == said else cut(said, room.letters, tell)
            return TableCell(short, whole=whole, tone=term.tone, badge=term.badge, depth=term.depth)
        case _:
            share = min(max(value / 100, 0.0), 1.0) if column.unit is Unit.SHARE_PERCENT else None
            return TableCell(number_text(value, column.unit), repr(value), share=share)


def cut(text: str, letters: int, tell: Tell) -> str:
    """A text of at most so many letters, with a mark where the rest was."""
    # cut before anything else is done with it, as a name may have any length
    shown = visible(text[: letters + 1])
    if len(text) <= letters and len(shown) <= letters:
        return shown
    mark = say("… (truncated: {count} characters in total)", count=count_text(len(text)))
    return shown[:letters] + tell(mark)


def middle(text: str, letters: int) -> str:
    """The beginning and the end of a text, in at most so many letters."""
    if len(text) <= letters:
        return text
    tail = (letters - 1) // 2
    return f"{text[: letters - 1 - tail]}…{text[len(text) - tail :]}"


def _without(sheet: Sheet, keys: Sequence[str]) -> Sheet:
    kept = [position for position, column in enumerate(sheet.columns) if column.key not in keys]
    rows, foot = (tuple(tuple(row[position] for position in kept) for row in part) for part in (sheet.rows, sheet.foot))
    return replace(sheet, columns=tuple(sheet.columns[position] for position in kept), rows=rows, foot=foot)

"""One table of `nsys stats` as it stands in a text: lines in, rows of values out. Its header says how it is written.

In columns, as a terminal shows it; as CSV, or separated by tabs; between upright bars. The lines of a table need not
stand as nsys wrote them: blanks may be lost, the rule under the header too, and rows may be left out or cut off.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from typing import Final

from gpuledger.read.stats_text.headings import TEXTS, ColumnHeading, heading, headings_of, is_header

Values = dict[str, int | float | str | None]

# what a line is made of, and what must stand in it somewhere: in one pattern, a long line would be tried at every place
_RULE: Final = (re.compile(r"[\s|+:=─┼│-]+"), re.compile(r"[-─=]{3}"))
_DASHES: Final = re.compile(r"-+")
_LEFT_OUT: Final = (re.compile(r"[\s.…⋮|]+"), re.compile(r"\.\.\.|…|⋮"))
_QUOTED: Final = re.compile(r'"((?:[^"]|"")*)"')
_ESCAPED: Final = re.compile(r"\\([!-/:-@\[-`{-~])")
_BARE: Final = re.compile(r"-?\d[\d,.'_]*(?:e[-+]?\d+)?%?", re.IGNORECASE)
_NAMES: Final = re.compile(r"\b(?:name|operation|range|kernel)\b", re.IGNORECASE)
_LONGEST_NAME_LINES: Final = 100
_LONGEST_NAME: Final = 1 << 20
LONGEST_HEADER: Final = 2000
"""In characters: longer lines are of something else."""


@dataclass(slots=True)
class TextTable:
    """A table whose header was read, and what `take` found under it."""

    headings: list[ColumnHeading]
    separator: str = ""
    """Between cells; empty where they stand in columns."""
    rows: list[Values] = field(default_factory=list)
    damaged: int = 0
    """Rows that are there, but cannot be read."""
    left_out: bool = False
    """Dots stand for rows."""
    _spans: list[tuple[int, int]] = field(default_factory=list)
    _begun: list[str] = field(default_factory=list)

    def take(self, line: str) -> bool:
        """Read one line, without its end; False if the table was over before it."""
        if self._begun and self._goes_on(line):
            return True
        if not line.strip():
            return not self.rows and not self.damaged  # a blank line, or several, may stand above the rows
        if _is(_RULE, line):
            spans = [match.span() for match in _DASHES.finditer(line)]
            if not self.separator and len(spans) == len(self.headings):
                self._spans = spans
            return True
        if _is(_LEFT_OUT, line):
            self.left_out = True
            return True
        values = self._row(line)
        if values is not None:
            self.rows.append(values)
        elif self.separator == "," and line.count('"') % 2:
            self._begun = [line]
        elif self._like_a_row(line):
            self.damaged += 1
        else:
            return False
        return True

    def close(self) -> None:
        """No more lines come."""
        self.damaged += bool(self._begun)
        self._begun = []

    def _goes_on(self, line: str) -> bool:
        """Whether the line ends a name that a line break parts, or belongs into its middle."""
        whole = "\n".join((*self._begun, line))
        values = self._row(whole)
        if values is not None:
            self.rows.append(values)
            self._begun = []
            return True
        is_other = not line.strip() or self._like_a_row(line) or grid_under(line) is not None
        if not is_other and len(self._begun) < _LONGEST_NAME_LINES and len(whole) < _LONGEST_NAME:
            self._begun.append(line)
            return True
        self.close()
        return False

    def _row(self, line: str) -> Values | None:
        """The values of one row; None where they are not all there."""
        if self.separator:
            cells = separated(line, self.separator)
            if len(cells) != len(self.headings) and self.separator == ",":
                cells = self._split(line, ",")  # NVIDIA does not double a quote within a quoted name
            return self._values(cells)
        return self._values(self._by_place(line)) or self._values(self._split(line.strip(), None))

    def _split(self, line: str, separator: str | None) -> list[str]:
        """Cells of which only the name may hold separators; it stands first or last."""
        most = len(self.headings) - 1
        cells = line.rsplit(separator, most) if self.headings[0].key == "name" else line.split(separator, most)
        return [_unquoted(cell) for cell in cells] if separator else cells

    def _by_place(self, line: str) -> list[str]:
        """Cells by the rule under the header; none where the line does not keep to it, as numbers end where it does."""
        cells = []
        before = 0
        for index, (start, end) in enumerate(self._spans):
            is_last = index == len(self._spans) - 1
            cell = line[start:] if is_last else line[start:end]
            is_shifted = self.headings[index].key not in TEXTS and cell.strip() and len(cell.rstrip()) != end - start
            if line[before:start].strip() or is_shifted:
                return []
            cells.append(cell)
            before = end
        return cells

    def _values(self, cells: list[str]) -> Values | None:
        if len(cells) != len(self.headings):
            return None
        values: Values = {}
        try:
            for column, cell in zip(self.headings, cells, strict=True):
                if column.key in TEXTS:
                    values.setdefault(column.key, cell.strip())
                elif column.key:
                    values.setdefault(column.key, column.value(cell))
        except ValueError:
            return None
        return values if values.get("name") and values.get("count") is not None else None

    def _like_a_row(self, line: str) -> bool:
        """Whether this was meant to be a row: numbers where numbers belong, and not the text below a table."""
        words = separated(line, self.separator) if self.separator else line.split()
        numbers = [bool(_BARE.fullmatch(word.strip())) for word in words]
        if self.headings[0].key == "name":
            return sum(numbers) >= 2
        return all(numbers) or all(numbers[:2])


def _is(kind: tuple[re.Pattern[str], re.Pattern[str]], line: str) -> bool:
    letters, mark = kind
    return letters.fullmatch(line) is not None and mark.search(line) is not None


def grid_under(line: str) -> TextTable | None:
    """The table that begins here, where the line is its header."""
    if len(line) > LONGEST_HEADER or not _NAMES.search(line):
        return None
    for separator in (",", "\t", "|"):
        if separator in line:
            headings = [heading(cell) for cell in separated(line, separator)]
            if is_header(headings):
                return TextTable(headings, separator)
    headings = headings_of(line)
    return TextTable(headings) if is_header(headings) else None


def separated(line: str, separator: str) -> list[str]:
    """The cells of a line. A quoted one may hold separators; a quote within is doubled."""
    if separator == "|":
        cells = re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))
        return [html.unescape(_ESCAPED.sub(r"\1", cell.strip())) for cell in cells]
    cells, start = [], 0
    while True:
        quoted = _QUOTED.match(line, start)
        if quoted and line[quoted.end() : quoted.end() + 1] in ("", separator):
            cells.append(quoted[1].replace('""', '"'))
            end = quoted.end()
        else:
            end = line.find(separator, start)
            end = len(line) if end < 0 else end
            cells.append(_unquoted(line[start:end]))
        if end >= len(line):
            return cells
        start = end + 1


def _unquoted(cell: str) -> str:
    """A cell without the quotes around it. One that opens a quote and does not close it is no cell, so it is empty."""
    if not cell.startswith('"'):
        return cell
    if len(cell) > 1 and cell.endswith('"'):
        return cell[1:-1]
    return "" if cell.count('"') % 2 or "," in cell or "\n" in cell else cell  # a name may begin with a quoted word

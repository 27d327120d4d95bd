"""What `ncu --csv` printed, as rows: a file in, the cells of each row out, from the first header on.

The CSV stands among lines that ncu (`==PROF== …`) and the profiled program print, before it and between its rows. So
lines are told apart before they are taken for CSV, and a quote that a stray line opens swallows nothing.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TextIO

from gpuledger.errors import UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.read.source import Source, opened
from gpuledger.trace.deadline import check
from gpuledger.units import bytes_text

_IN_EVERY_HEADER: Final = "Kernel Name"
UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
"""How text begins that PowerShell wrote."""
_LAUNCH: Final = {True: re.compile(r'"\d+",'), False: re.compile(r"\d+,")}
_COMPLAINT: Final = re.compile(r"==(?:ERROR|WARNING)==\s*(?P<text>.*\S)")


@dataclass(frozen=True, slots=True)
class CsvRow:
    """The cells of one row."""

    cells: list[str]
    is_last: bool
    """The file ends within this row's line, so that more of it may be missing."""


class _Pending:
    """The lines of a row so far. A cell may have many, so none is looked at twice."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.letters, self.is_quoting = 0, False

    def add(self, line: str) -> None:
        self.lines.append(line)
        self.letters += len(line)
        self.is_quoting ^= bool(line.count('"') % 2)


class CsvRows:
    """The rows of one file. Afterwards: what was wrong with it."""

    def __init__(self, source: Source, limits: Limits) -> None:
        self._source, self._limits = source, limits
        self.complaint = ""
        """What ncu said last of its own troubles."""
        self.torn = 0
        """Rows that another row interrupts."""
        self.cut = False
        """The file ends within a quoted cell."""

    def __iter__(self) -> Iterator[CsvRow]:
        encoding = "utf-16" if self._source.head.startswith(UTF16) else "utf-8-sig"
        usual = csv.field_size_limit(max(csv.field_size_limit(), self._limits.text_bytes))
        try:
            with opened(self._source) as file, io.TextIOWrapper(file, encoding, "replace") as text:
                yield from self._rows(text)
        except csv.Error as error:
            raise UnreadableProfile(
                f"{self._source.name}: cannot be read as CSV: {error}",
                hint=f"if a cell of it is so long: --limit=text-bytes={8 * self._limits.text_bytes}",
            ) from None
        finally:
            csv.field_size_limit(usual)

    def _rows(self, text: TextIO) -> Iterator[CsvRow]:
        quoted: bool | None = None  # whether cells stand in quotes, as those of ncu do; None before the header
        pending = _Pending()
        for line in self._lines(text):
            if pending.lines and _LAUNCH[bool(quoted)].match(line):
                self.torn += 1
                pending = _Pending()
            if not pending.lines:
                if self._is_of_ncu(line):
                    continue
                if _IN_EVERY_HEADER in line:
                    quoted = line.startswith('"')
                elif quoted is None or (quoted and not line.startswith('"')):
                    continue
            pending.add(line)
            if pending.letters > self._limits.event_bytes:
                raise self._too_long()
            if not pending.is_quoting:
                yield CsvRow(next(csv.reader(["".join(pending.lines)])), not line.endswith("\n"))
                pending = _Pending()
        self.cut = bool(pending.lines)

    def _lines(self, text: TextIO) -> Iterator[str]:
        """Lines that hold something."""
        most = self._limits.event_bytes
        while line := text.readline(most + 1):
            check()
            if len(line) > most:
                raise self._too_long()
            if not line.isspace():
                yield line

    def _is_of_ncu(self, line: str) -> bool:
        """Whether ncu tells the user something here; its complaints are remembered."""
        if complaint := _COMPLAINT.match(line):
            self.complaint = complaint["text"]
        return line.startswith("==")

    def _too_long(self) -> UnreadableProfile:
        most = self._limits.event_bytes
        return UnreadableProfile(
            f"{self._source.name}: a line is longer than {bytes_text(most)}, which no CSV of ncu is",
            hint=f"if it is one: --limit=event-bytes={bytes_text(8 * most).replace(' ', '')}",
        )

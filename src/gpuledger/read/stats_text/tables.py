"""What `nsys stats` printed, kept as text: files in, the tables of one run out.

A file is the CSV of one report or of several, or a text in which tables stand among other lines, such as a log or a
Markdown document. A run is a set of reports about one profile: where a report comes again, or nsys says that it reads
another profile, another run begins. `FILE::2` names the second run of a file. A table's header says how it is written.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from gpuledger.errors import GpuledgerError, NothingRecorded, UnreadableProfile
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.read.ncu.csv import UTF16
from gpuledger.read.registry import reader_of
from gpuledger.read.source import Source, foreign, in_time, look_at, opened
from gpuledger.read.stats_text.headings import (
    FORMER_NAMES,
    FORMER_TITLES,
    KNOWN,
    TEXTS,
    ColumnHeading,
    heading,
    headings_of,
    is_header,
    is_report,
    lacking,
    report_in,
    report_of,
)
from gpuledger.system.files import SEPARATOR
from gpuledger.system.opening import exists, is_file, status_of
from gpuledger.trace.deadline import check
from gpuledger.trace.measured import CUT, PrintedTable, PrintedTables, SizeRow, SummaryRow
from gpuledger.trace.model import Note, Severity
from gpuledger.units import bytes_text, count_text

Values = dict[str, int | float | str | None]

# what a line is made of, and what must stand in it somewhere: in one pattern, a long line would be tried at every place
_RULE: Final = (re.compile(r"[\s|+:=─┼│-]+"), re.compile(r"[-─=]{3}"))
_LEFT_OUT: Final = (re.compile(r"[\s.…⋮|]+"), re.compile(r"\.\.\.|…|⋮"))
_QUOTED: Final = re.compile(r'"((?:[^"]|"")*)"')
_ESCAPED: Final = re.compile(r"\\([!-/:-@\[-`{-~])")
_BARE: Final = re.compile(r"-?\d[\d,.'_]*(?:e[-+]?\d+)?%?", re.IGNORECASE)
_NAMES: Final = re.compile(r"\b(?:name|operation|range|kernel)\b", re.IGNORECASE)
LONGEST_HEADER: Final = 2000
"""In characters: longer lines are of something else."""


class TextTable(Struct):
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
            spans = [match.span() for match in re.finditer("-+", line)]
            if not self.separator and len(spans) == len(self.headings):
                self._spans = spans
            return True
        if _is(_LEFT_OUT, line):
            self.left_out = True
            return True
        if (values := self._row(line)) is not None:
            self.rows.append(values)
        elif self.separator == "," and line.count('"') % 2:
            self._begun = [line]
        elif self._like_a_row(line):
            self.damaged += 1
        else:
            return False
        return True

    def close(self) -> None:
        self.damaged += bool(self._begun)
        self._begun = []

    def _goes_on(self, line: str) -> bool:
        """Whether the line ends a name that a line break parts, or belongs into its middle."""
        whole = "\n".join((*self._begun, line))
        if (values := self._row(whole)) is not None:
            self.rows.append(values)
            self._begun = []
            return True
        is_other = not line.strip() or self._like_a_row(line) or grid_under(line) is not None
        if not is_other and len(self._begun) < 100 and len(whole) < 1 << 20:  # no name is longer
            self._begun.append(line)
            return True
        self.close()
        return False

    def _row(self, line: str) -> Values | None:
        """The values of one row; None where they are not all there."""
        if self.separator:
            cells = separated(line, self.separator)
            if len(cells) != len(self.headings) and self.separator == ",":
                cells = self._split_cells(line, ",")  # NVIDIA does not double a quote within a quoted name
            return self._values(cells)
        return self._values(self._by_place(line)) or self._values(self._split_cells(line.strip(), None))

    def _split_cells(self, line: str, separator: str | None) -> list[str]:
        """Cells of which only the name may hold separators; it stands first or last."""
        most = len(self.headings) - 1
        cells = line.rsplit(separator, most) if self.headings[0].key == "name" else line.split(separator, most)
        return [_unquote(cell) for cell in cells] if separator else cells

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
            cells.append(_unquote(line[start:end]))
        if end >= len(line):
            return cells
        start = end + 1


def _unquote(cell: str) -> str:
    """A cell without the quotes around it. One that opens a quote and does not close it is no cell, so it is empty."""
    if not cell.startswith('"'):
        return cell
    if len(cell) > 1 and cell.endswith('"'):
        return cell[1:-1]
    return "" if cell.count('"') % 2 or "," in cell or "\n" in cell else cell  # a name may begin with a quoted word


_MARGIN: Final = re.compile(r"\s*(?:(?:#|//|>)\s?)+")
"""How a text is set apart in a mail, a comment or Markdown."""
_TITLE: Final = re.compile(r"\W*[A-Z][\w /&-]{3,60} \((?P<report>[a-z][a-z0-9_]*)(?::[\w:-]*)?\)\W*")
_FORMER_TITLE: Final = re.compile(r"\W*(?P<title>[A-Z].{3,60} Statistics(?: \(by time\))?):?\s*")
_BY_SIZE: Final = re.compile(r"\W*CUDA Memory Operation Statistics \(by size.*\)\W*")
_PROCESSING: Final = re.compile(r"\W*Processing \[(?P<profile>[^\]]*)\] with \[(?:.*[/\\])?(?P<report>\w+)\.py.*\].*")
_NO_TITLE: Final = "a table without a title"
_MOST: Final = 2**56
"""Two years in nanoseconds: some tables of that together still have room in 64 bits."""


def is_printed_tables(path: str | Path, *, limits: Limits = DEFAULT_LIMITS) -> bool:
    """Whether this is text that `nsys stats` printed, or a folder of such, and not a profile; `FILE::2` is a run of it.

    A text without such a table counts too where its name ends as a text's does: its refusal says what is missing.
    """
    bare, _ = _split_run_number(path)
    if not exists(bare):
        return False
    source = look_at(bare)
    if reader_of(source) is not None:
        return False
    if not source.head:
        reports = [name for name in source.files if _is_report_file(name)]
        profiles = (".sqlite", ".nsys-rep", ".json", ".json.gz")
        return bool(reports) and not any(name.endswith(profiles) for name in source.files)
    if source.path.suffix.lower() in (".csv", ".tsv", ".txt", ".md", ".log"):
        return foreign(source) is None
    try:
        document = _tables_in(source, limits, "")
    except UnreadableProfile:
        return False
    return bool(document.tables or document.hint)


def no_timeline(path: str | Path, *, limits: Limits = DEFAULT_LIMITS) -> GpuledgerError | None:
    """The refusal of printed tables where a timeline is needed; None for what holds no such table."""
    if not is_printed_tables(path, limits=limits):
        return None
    try:
        runs = runs_in(path, limits=limits)
    except GpuledgerError as error:
        return error if _split_run_number(path)[1] is not None else None
    reports = dict.fromkeys(report for run in runs for report in run.tables)
    return UnreadableProfile(
        f"{Path(path).name}: holds tables of `nsys stats`, not a timeline",
        found=f"in it: {', '.join(reports)}",
        hint="sums tell no gaps, steps or causes; `gpuledger diff`, `align`, `ranges` and `whatif` read tables",
    )


def _is_report_file(name: str) -> bool:
    path = Path(name)
    return path.suffix.lower() in (".csv", ".tsv", ".txt") and bool(report_in(path.stem)[0])


def open_summaries(paths: str | Path | Sequence[str | Path], *, limits: Limits = DEFAULT_LIMITS) -> PrintedTables:
    """The tables of one run: from a file, from several, or from a folder of CSV files."""
    runs = []
    for path in [paths] if isinstance(paths, str | Path) else paths:
        in_file = runs_in(path, limits=limits)
        if len(in_file) > 1:
            raise UnreadableProfile(
                f"{Path(path).name}: holds the tables of {len(in_file)} runs",
                found=_run_list(in_file),
                hint=f"choose one: {path}{SEPARATOR}1 to {path}{SEPARATOR}{len(in_file)}",
            )
        runs += in_file
    if len(runs) == 1:
        return runs[0]
    tables: dict[str, PrintedTable] = {}
    origin: dict[str, str] = {}
    for run in runs:
        for report, table in run.tables.items():
            if report in tables:
                raise UnreadableProfile(
                    f"{origin[report]} and {run.name} both hold {report}",
                    hint="give the files of one run; each run is opened by itself",
                )
            tables[report], origin[report] = table, run.name
    notes = tuple(note for run in runs for note in run.health)
    return PrintedTables(", ".join(run.name for run in runs), tables, notes, next((run.profile for run in runs), ""))


def runs_in(path: str | Path, *, limits: Limits = DEFAULT_LIMITS) -> list[PrintedTables]:
    """Every run in a file or a folder; of `FILE::2`, the second alone."""
    bare, number = _split_run_number(path)
    source = look_at(bare)
    runs = _runs_of_folder(source, limits) if not source.head else _runs_of(_tables_in(source, limits))
    if not any(run.tables for run in runs):
        raise _nothing_in(source, runs)
    grids = [table.grid for run in runs for table in run.tables.values()]
    if any(grid.damaged for grid in grids) and not any(grid.rows for grid in grids):
        raise UnreadableProfile(f"{source.name}: not one row of its tables can be read", hint="copy or print it again")
    name, printed = source.name, []
    for position, run in enumerate(runs, 1):
        for table in run.tables.values():
            _refuse_endless(name, table)
        tables = {report: _summary(report, table.grid.rows) for report, table in run.tables.items()}
        called = f"{name}{SEPARATOR}{position}" if len(runs) > 1 or number is not None else name
        printed.append(PrintedTables(called, tables, tuple(_notes(run, tables)), run.profile))
    if number is None:
        return printed
    if not 1 <= number <= len(printed):
        count = "one run" if len(printed) == 1 else f"{len(printed)} runs"
        raise UnreadableProfile(f"{name}: holds {count}, so there is no {number}", found=_run_list(printed))
    return [printed[number - 1]]


def _refuse_endless(name: str, table: _TitledTable) -> None:
    """Refuse what sums to more than 64 bits hold, and some times as much: every total would be wrong."""
    for column in table.grid.headings:
        if column.key in ("", "name", "pid", "tid", "device"):  # no amounts
            continue
        amounts = (row.get(column.key) for row in table.grid.rows)
        whole = sum(abs(amount) for amount in amounts if isinstance(amount, int | float))
        if whole >= _MOST:
            raise UnreadableProfile(
                f"{name}: {column.words} of {table.report or _NO_TITLE} sum to {whole:.3g}, which cannot be",
                hint="copy or print it again",
            )


def _run_list(runs: Sequence[PrintedTables]) -> str:
    lines = [
        f"{number}: {', '.join(run.tables)}{f' of {run.profile}' if run.profile else ''}"
        for number, run in enumerate(runs[:6], 1)
    ]
    return "\n".join([*lines, "..."] if len(runs) > 6 else lines)


def _split_run_number(path: str | Path) -> tuple[Path, int | None]:
    """A path without the number of a run behind it, and that number."""
    bare, separator, number = str(path).rpartition(SEPARATOR)
    if separator and re.fullmatch("[0-9]{1,6}", number) and not exists(Path(path)):
        return Path(bare), int(number)
    return Path(path), None


class _TitledTable(Struct):
    """A table with what was said of it above: '' where that is nothing."""

    report: str
    grid: TextTable
    profile: str = ""


class _Run(Struct):
    """Tables of one profile, and how many of what could not be used."""

    tables: dict[str, _TitledTable] = field(default_factory=dict)
    profile: str = ""
    unknown: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


class _Document:
    def __init__(self, hint: str, longest: int) -> None:
        self.tables: list[_TitledTable] = []
        self.incomplete: list[str] = []
        """What headers lack that stand under the title of a report."""
        self.hint = hint
        """The report that the next table is of, as far as anything says so."""
        self._of_file, self._profile = hint, ""
        self._grid: TextTable | None = None
        self._age, self._longest = 0, longest

    def take(self, line: str) -> None:
        if len(line) > self._longest:  # no name is kept that long
            if self._grid is not None:
                self._grid.damaged += 1
            return
        if margin := _MARGIN.match(line):
            line = line[margin.end() :]
        if self._grid is not None:
            if self._grid.take(line):
                return
            self.close()
        if len(line) > LONGEST_HEADER or not line.strip():
            return
        self._age += 1
        if self._age > 6:  # so many lines may stand between a title and its table, blank ones not counted
            self.hint = self._of_file
        if match := _PROCESSING.fullmatch(line):
            self._announce(match["report"])
            self._profile = match["profile"]
        elif (match := _TITLE.fullmatch(line)) and is_report(match["report"]):
            self._announce(match["report"])
        elif _BY_SIZE.fullmatch(line):
            self._announce("cuda_gpu_mem_size_sum")
        elif (match := _FORMER_TITLE.fullmatch(line)) and match["title"] in FORMER_TITLES:
            self._announce(FORMER_TITLES[match["title"]])
        elif grid := grid_under(line):
            self.tables.append(_TitledTable(self.hint, grid, self._profile))
            self._grid, self.hint, self._profile = grid, self._of_file, ""
        elif self.hint in KNOWN and sum(heading.key not in ("", "name") for heading in headings_of(line)) >= 3:
            self.incomplete.append(f"{self.hint} lacks its names or counts")
            self.hint = self._of_file

    def _announce(self, name: str) -> None:
        """A title: the next table is of this report. One that is not read may look like anything, so it counts here."""
        self.hint, self._age = FORMER_NAMES.get(name, name), 0
        if self.hint not in KNOWN:
            self.tables.append(_TitledTable(self.hint, TextTable([])))

    def close(self) -> None:
        if self._grid is not None:
            self._grid.close()
        self._grid = None


def _tables_in(source: Source, limits: Limits, hint: str | None = None) -> _Document:
    """The tables of one file. Text of PowerShell is UTF-16; anything else is taken for UTF-8."""
    is_wide = source.head.startswith(UTF16)
    document = _Document(report_in(source.path.stem)[0] if hint is None else hint, limits.text_bytes)
    if document.hint and document.hint not in KNOWN:
        document.tables.append(_TitledTable(document.hint, TextTable([])))
    if not is_wide and b"\0" in source.head:
        return document
    encoding = "utf-16" if is_wide else "utf-8-sig"
    with in_time(source.name, limits), opened(source) as file, io.TextIOWrapper(file, encoding, "replace") as text:
        while line := text.readline(limits.event_bytes + 1):
            check()
            if len(line) > limits.event_bytes:
                most = bytes_text(limits.event_bytes)
                raise UnreadableProfile(f"{source.name}: a line is longer than {most}, which none of `nsys stats` is")
            document.take(line.rstrip("\n"))
    document.close()
    return document


def _runs_of(document: _Document) -> list[_Run]:
    runs = [_Run()]
    for table in document.tables:
        names = [str(row["name"]) for row in table.grid.rows]
        report = report_of(table.grid.headings, names, table.report)
        run = runs[-1]
        if not (names or table.grid.damaged or table.grid.separator) and report in KNOWN:
            continue  # nsys prints no header without rows: somebody drew the table by hand
        if report not in KNOWN:
            run.unknown.append(report or _NO_TITLE)
            continue
        if missing := lacking(report, table.grid.headings):
            run.lacking.append(f"{report} lacks {' and '.join(missing)}")
            continue
        if report in run.tables or (run.profile and table.profile and run.profile != table.profile):
            run = _Run()
            runs.append(run)
        run.tables[report] = table
        run.profile = run.profile or table.profile
    runs[-1].lacking += document.incomplete
    return runs


def _runs_of_folder(source: Source, limits: Limits) -> list[_Run]:
    """The runs of a folder: files whose names differ only in the report belong together."""
    groups: dict[str, _Document] = {}
    empty = 0
    for file in source.files:
        if not _is_report_file(file):
            continue
        report, prefix = report_in(Path(file).stem)
        path = source.path / file
        whole = groups.setdefault(prefix, _Document("", limits.text_bytes))
        if is_file(path) and status_of(path).st_size == 0:  # so nsys leaves the file of a report without rows
            empty += 1
            continue
        part = _tables_in(look_at(path), limits, report)
        whole.tables += part.tables
        whole.incomplete += part.incomplete
    runs = []
    for prefix in sorted(groups):
        for run in _runs_of(groups[prefix]):
            run.profile = run.profile or prefix  # which nsys gave no profile's name is called after its files
            runs.append(run)
    if empty and runs:
        runs[0].notes.append(Note(Severity.INFO, "empty-tables", f"{count_text(empty)} files hold no table", empty))
    return runs


def _nothing_in(source: Source, runs: Iterable[_Run]) -> GpuledgerError:
    if lacks := [sentence for run in runs for sentence in run.lacking]:
        return UnreadableProfile(f"{source.name}: {lacks[0]}", hint="keep all columns that nsys prints")
    if unknown := list(dict.fromkeys(report for run in runs for report in run.unknown)):
        return NothingRecorded(
            f"{source.name}: holds no report of `nsys stats` that gpuledger reads",
            found=f"in it: {', '.join(unknown[:5])}",
            hint=f"it reads {', '.join(KNOWN)}",
        )
    if known := foreign(source):
        return known
    what = "no table of `nsys stats` in it" if source.head else "a folder without CSV files of `nsys stats`"
    return UnreadableProfile(
        f"{source.name}: {what}",
        hint="keep what `nsys stats PROFILE` prints, or what `nsys stats --format=csv --output=NAME PROFILE` writes",
    )


def _summary(report: str, rows: Sequence[Values]) -> PrintedTable:
    if report == "cuda_gpu_mem_size_sum":
        return PrintedTable(report, sizes=tuple(SizeRow(**_statistics(row, "bytes")) for row in rows))
    names = [str(row["name"]) for row in rows]
    # nsys before 2024 writes the ranges of the default domain without a colon; then a colon may be part of the text
    has_domains = report.startswith("nvtx_") and all(":" in name for name in names)
    return PrintedTable(
        report,
        tuple(
            SummaryRow(
                **_statistics(row, "ns"),
                style=str(row.get("style", "")),
                domain=name.partition(":")[0] if has_domains else None,
                beside={key: value for key, value in row.items() if key not in _OWN},
            )
            for name, row in zip(names, rows, strict=True)
        ),
    )


_STATISTICS: Final = ("total", "average", "median", "least", "most", "deviation")
_OWN: Final = frozenset((*_STATISTICS, "name", "count", "style"))


def _statistics(row: Values, unit: str) -> dict[str, Any]:
    return {"name": row["name"], "count": row["count"]} | {f"{key}_{unit}": row.get(key) for key in _STATISTICS}


def _notes(run: _Run, tables: Mapping[str, PrintedTable]) -> Iterator[Note]:
    yield from run.notes
    grids = {report: table.grid for report, table in run.tables.items()}
    if damaged := {report: grid.damaged for report, grid in grids.items() if grid.damaged}:
        count = sum(damaged.values())
        rows = "1 row is" if count == 1 else f"{count_text(count)} rows are"
        sentence = f"{rows} truncated or damaged and left out ({', '.join(damaged)})"
        yield Note(Severity.LOSS, "damaged-rows", sentence, count)
    for sentence in run.lacking:
        yield Note(Severity.LOSS, "missing-columns", f"the table {sentence}, and is left out")
    if abridged := [report for report, grid in grids.items() if grid.left_out]:
        sentence = f"whoever kept {', '.join(abridged)} left rows out (dots stand for them)"
        yield Note(Severity.WARNING, "abridged", sentence, len(abridged))
    if unknown := list(dict.fromkeys(run.unknown)):
        sentence = f"not read: {', '.join(unknown[:6])}{' and others' if len(unknown) > 6 else ''}"
        yield Note(Severity.INFO, "unknown-reports", sentence, len(unknown))
    if cut := sum(row.is_cut for table in tables.values() for row in table.rows):
        names = "1 name is" if cut == 1 else f"{count_text(cut)} names are"
        sentence = f"{names} truncated with {CUT}, so different ones may look alike; CSV has them in full"
        yield Note(Severity.INFO, "cut-names", sentence, cut)

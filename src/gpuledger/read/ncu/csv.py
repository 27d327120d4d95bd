"""What `ncu --csv` prints: a file in, its launches out. Three shapes, told apart by their header.

`--page raw` has a row per launch, a column per metric, and the units in a row of their own under the header.
`--page details` has a row per launch and metric, the metric under a label of its section (see `launch`), and rows for
what NVIDIA's rules said. `--metrics a,b,c` is the same with NVIDIA's names of metrics instead of labels.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from typing import Final, TextIO

from msgspec import Struct, field
from msgspec.structs import replace

from gpuledger.catalog.ncu_metrics import is_used
from gpuledger.errors import GpuledgerError, NothingRecorded, UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.messages import say
from gpuledger.read.ncu.launch import (
    OVER_ELAPSED,
    TELLS_ELAPSED,
    NcuLaunches,
    UnknownUnit,
    completed,
    is_wanted,
    metric_of,
    plain,
    scale,
    scaled,
    shown,
    unit_notes,
    unit_refused,
)
from gpuledger.read.request import Progress, counted, more_event_bytes
from gpuledger.read.source import Source, opened
from gpuledger.trace.deadline import check
from gpuledger.trace.measured import Advice, Dim3, Profiled
from gpuledger.trace.model import Note, Severity
from gpuledger.units import bytes_text, count_text

UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
"""How text begins that PowerShell wrote."""
_LAUNCH: Final = {True: re.compile(r'"\d+",'), False: re.compile(r"\d+,")}
_COMPLAINT: Final = re.compile(r"==(?:ERROR|WARNING)==\s*(?P<text>.*\S)")


class CsvRow(Struct, frozen=True):
    """The cells of one row."""

    cells: list[str]
    is_last: bool
    """The file ends within this row's line, so that more of it may be missing."""


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
        begun, letters, is_quoting = list[str](), 0, False  # a cell may have many lines, so none is looked at twice
        for line in self._lines(text):
            if begun and _LAUNCH[bool(quoted)].match(line):
                self.torn += 1
                begun, letters, is_quoting = [], 0, False
            if not begun:
                if complaint := _COMPLAINT.match(line):
                    self.complaint = complaint["text"]
                if line.startswith("=="):  # ncu tells the user something
                    continue
                if "Kernel Name" in line:  # as in every header
                    quoted = line.startswith('"')
                elif quoted is None or (quoted and not line.startswith('"')):
                    continue
            begun.append(line)
            letters += len(line)
            is_quoting ^= bool(line.count('"') % 2)
            if letters > self._limits.event_bytes:
                raise self._too_long()
            if not is_quoting:
                yield CsvRow(next(csv.reader(["".join(begun)])), not line.endswith("\n"))
                begun, letters = [], 0
        self.cut = bool(begun)

    def _lines(self, text: TextIO) -> Iterator[str]:
        most = self._limits.event_bytes
        while line := text.readline(most + 1):
            check()
            if len(line) > most:
                raise self._too_long()
            if not line.isspace():
                yield line

    def _too_long(self) -> UnreadableProfile:
        longest = bytes_text(self._limits.event_bytes)
        return UnreadableProfile(
            f"{self._source.name}: a line is longer than {longest}, which no CSV of ncu is",
            hint=f"if it is one: {more_event_bytes(self._limits)}",
        )


_POINT: Final = re.compile(r"[-+]?(?:[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d?(?:,\d{2})+,\d{3}|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_COMMA: Final = re.compile(r"[-+]?(?:[1-9]\d{0,2}(?:\.\d{3})+|\d+)(?:,\d+)?(?:[eE][-+]?\d+)?")
_INSTANCES: Final = re.compile(r"\s*\([^()]*\)$")
_GROUPING: Final = re.compile("(?<=\\d)[ \u00a0\u202f'\u2019](?=\\d{3})")
_NOTHING: Final = frozenset(
    ("", "n/a", "(!) n/a", "(!)", "-", "no data", "nan", "-nan", "+nan", "nan(ind)", "-nan(ind)", "none", "null")
) | {f"{sign}{word}" for sign in ("", "-", "+") for word in ("inf", "infinity")}


LARGEST: Final = 1e30
"""No counter of a GPU comes near: what is larger was not measured, and products of two stay finite."""


class NumberStyle(Struct, frozen=True):
    """How the numbers of one file are written."""

    comma: bool = False
    """The decimal mark is a comma."""
    doubtful: bool = False
    """Nothing in the file decided, and some numbers would be another thousand times as large the other way."""

    def read(self, text: str) -> float | str | None:
        """A number; None where ncu measured none; the text itself where it is no number at all."""
        bare = _bare(text)
        if bare.lower() in _NOTHING:
            return None
        if self.comma and _COMMA.fullmatch(bare):
            return float(bare.replace(".", "").replace(",", "."))
        if not self.comma and _POINT.fullmatch(bare):
            return float(bare.replace(",", ""))
        return text.strip()


def style_of(texts: Iterable[str]) -> NumberStyle:
    """How these numbers are written. Looks no further than it must."""
    points = commas = doubtful = 0
    for text in texts:
        bare = _bare(text)
        as_point, as_comma = _POINT.fullmatch(bare), _COMMA.fullmatch(bare)
        points += bool(as_point and not as_comma)
        commas += bool(as_comma and not as_point)
        doubtful += bool(as_point and as_comma and "." in bare)
        if points + commas >= 1000:
            break
    return NumberStyle(commas > points, doubtful=bool(doubtful and points == commas))


def _bare(text: str) -> str:
    """Without the values of single instances, which some releases print after the number, and thin spaces."""
    return _GROUPING.sub("", _INSTANCES.sub("", text.strip()))


_SIZE: Final = re.compile(r"\(?\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\)?")
_CAPABILITY: Final = re.compile(r"(\d+)[.,](\d+)")

Columns = dict[str, int]


def read_csv(source: Source, every_metric: bool, limits: Limits, progress: Progress) -> NcuLaunches:
    """Read a file that is CSV of ncu somewhere in it."""
    with closing(_values(CsvRows(source, limits))) as values:
        numbers = style_of(values)
    rows = CsvRows(source, limits)
    launches = _Launches(source.name, numbers, every_metric, limits.text_bytes)
    table: _Raw | _Long | None = None
    runs = 0
    for row in rows:
        if columns := _header(row.cells):
            runs += 1
            table = _table(source, columns, runs)
        elif table is not None and table.take(row, launches):
            progress(f"the launches of {source.name}", len(launches.by_key))
    if table is None:
        raise not_of_ncu(source, rows.complaint)
    if not launches.by_key:
        raise _nothing_in(source, rows.complaint, rows.cut or launches.cut)
    launches.cut |= rows.cut
    launches.damaged += rows.torn
    return NcuLaunches(launches.finished(), tuple(launches.notes()))


def not_of_ncu(source: Source, complaint: str = "") -> GpuledgerError:
    """The refusal of a file in which nothing looks like ncu's."""
    return UnreadableProfile(
        f"{source.name}: not a report of Nsight Compute",
        found=f"ncu says in it: {shown(complaint)}" if complaint else "",
        hint="gpuledger reads .ncu-rep, and what `ncu --csv` prints with --page raw, --page details or --metrics",
    )


def _nothing_in(source: Source, complaint: str, is_cut: bool) -> GpuledgerError:
    if is_cut:
        return UnreadableProfile(f"{source.name}: the file is truncated before its first launch")
    return NothingRecorded(
        f"{source.name}: the CSV of ncu holds no launches",
        found=f"ncu says in it: {shown(complaint)}" if complaint else "",
        hint="ncu profiled nothing; check its --kernel-name filter",
    )


def _header(cells: list[str]) -> Columns | None:
    """The place of each column, where this row is a header."""
    columns: Columns = {}
    for place, cell in enumerate(cells):
        columns.setdefault(cell.strip(), place)
    return columns if "Kernel Name" in columns and ("ID" in columns or "Metric Name" in columns) else None


def _table(source: Source, columns: Columns, run: int) -> _Raw | _Long:
    if "Metric Name" not in columns:
        return _Raw(source.name, columns, run)
    if "ID" in columns and "Metric Value" in columns:
        return _Long(columns, run)
    raise UnreadableProfile(
        f"{source.name}: a summary of ncu over several launches, not the launches themselves",
        hint="leave out `--print-summary`",
    )


def _values(rows: CsvRows) -> Generator[str, None, None]:
    """All texts of a file that may be numbers, to see how it writes them."""
    places: list[int] = []
    for row in rows:
        if columns := _header(row.cells):
            places = [place for name, place in columns.items() if name == "Metric Value" or _is_metric(name)]
        else:
            yield from (row.cells[place] for place in places if place < len(row.cells))


class _Launch(Struct):
    """A launch, and what its rows have said of it so far."""

    known: Profiled
    run: int
    metrics: dict[str, float] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    advice: list[Advice] = field(default_factory=list)


class _Launches(Struct):
    """The launches of one file, and what was wrong with their values."""

    file: str
    numbers: NumberStyle
    every_metric: bool
    text_bytes: int
    by_key: dict[tuple[int, str, str], _Launch] = field(default_factory=dict)
    over_elapsed: set[int] = field(default_factory=set)
    """Runs of ncu whose release relates two labels to all cycles."""
    unknown_units: Counter[str] = field(default_factory=Counter)
    unknown_labels: Counter[str] = field(default_factory=Counter)
    repeated: int = 0
    unreadable: int = 0
    implausible: int = 0
    damaged: int = 0
    cut: bool = False

    def launch(self, run: int, cells: list[str], columns: Columns) -> _Launch:
        """The launch that a row is about. Several runs of ncu in one file each count from 0."""
        key = (run, _cell(cells, columns, "Process ID"), cells[columns["ID"]])
        if key not in self.by_key:
            order = len(self.by_key)
            self.by_key[key] = _Launch(_identity(self.file, order, cells, columns, self.text_bytes), run)
        return self.by_key[key]

    def put(self, launch: _Launch, metric: str, text: str, unit: str) -> None:
        """Keep one value, in base units."""
        value = self.numbers.read(text)
        if value is None:
            return
        if isinstance(value, str):
            if unit:
                self.unreadable += 1
            else:
                launch.texts.setdefault(metric, value[: self.text_bytes])
            return
        try:
            exponent, _ = scale(unit)
        except UnknownUnit:
            if is_used(metric):
                raise unit_refused(self.file, metric, unit) from None
            self.unknown_units[unit] += 1
            return
        base = scaled(value, exponent)
        if not abs(base) < LARGEST:
            self.implausible += 1
            return
        if launch.metrics.setdefault(metric, base) != base:
            self.repeated += 1

    def finished(self) -> tuple[Profiled, ...]:
        launches = []
        for launch in self.by_key.values():
            renamed = OVER_ELAPSED if launch.run in self.over_elapsed else {}
            metrics = {renamed.get(name, name): value for name, value in launch.metrics.items()}
            measured = replace(launch.known, metrics=metrics, texts=launch.texts, advice=tuple(launch.advice))
            launches.append(completed(measured))
        return tuple(launches)

    def notes(self) -> Iterator[Note]:
        if self.cut:
            sentence = say("{file}: the file ends in the middle of a row; the rest is lost", file=self.file)
            yield Note(Severity.LOSS, "csv-cut-off", sentence)
        yield from counted("rows-damaged", self.damaged, file=self.file)
        yield from counted("values-repeated", self.repeated, file=self.file)
        yield from counted("values-unreadable", self.unreadable, file=self.file)
        yield from counted("values-implausible", self.implausible, file=self.file)
        if self.numbers.doubtful:
            sentence = say(
                "{file}: 1.234 could mean a little over one or over a thousand; taken as one", file=self.file
            )
            yield Note(Severity.WARNING, "numbers-doubtful", sentence)
        if self.unknown_labels:
            count, label = self.unknown_labels.total(), shown(self.unknown_labels.most_common(1)[0][0])
            sentence = say(
                "{file}: {count} values under unknown labels, such as '{label}', were left out",
                file=self.file,
                count=count_text(count),
                label=label,
            )
            yield Note(Severity.INFO, "labels-unknown", sentence, count)
        yield from unit_notes(self.file, self.unknown_units)


class _Long:
    """A row per launch and metric. `take` is False for a row that is none of the table's."""

    def __init__(self, columns: Columns, run: int) -> None:
        self._columns, self._run = columns, run
        self._lengths: set[int] = set()

    def take(self, row: CsvRow, launches: _Launches) -> bool:
        cells, columns = row.cells, self._columns
        if not _is_launch(cells, columns):
            return False
        is_short = len(cells) <= max(columns["Metric Name"], columns["Metric Value"])
        if is_short or (row.is_last and self._lengths and len(cells) not in self._lengths):
            launches.cut |= row.is_last
            launches.damaged += not row.is_last
            return False
        self._lengths.add(len(cells))
        launch = launches.launch(self._run, cells, columns)
        label = cells[columns["Metric Name"]].strip()
        if label:
            self._metric(launch, label, cells, launches)
        elif rule := _cell(cells, columns, "Rule Name"):
            self._advice(launch, rule, cells, launches)
        return True

    def _metric(self, launch: _Launch, label: str, cells: list[str], launches: _Launches) -> None:
        unit, section = _cell(cells, self._columns, "Metric Unit"), _cell(cells, self._columns, "Section Name")
        name: str | None = label
        if "__" not in label and section != "Command line profiler metrics":
            name = metric_of(section, label, _base(unit), launch.known.compute_capability)
        if name is None:
            launches.unknown_labels[label] += 1
            return
        if name == TELLS_ELAPSED and name != label:
            launches.over_elapsed.add(self._run)
        if is_wanted(name, launches.every_metric):
            launches.put(launch, name, cells[self._columns["Metric Value"]], unit)

    def _advice(self, launch: _Launch, rule: str, cells: list[str], launches: _Launches) -> None:
        message = plain(_cell(cells, self._columns, "Rule Description"))
        speedup = launches.numbers.read(_cell(cells, self._columns, "Estimated Speedup"))
        share = speedup / 100 if isinstance(speedup, float) and abs(speedup) < LARGEST else None
        if message:
            scope = _cell(cells, self._columns, "Estimated Speedup Type")
            launch.advice.append(Advice(rule, "", message[: launches.text_bytes], share, scope))


class _Raw:
    def __init__(self, file: str, columns: Columns, run: int) -> None:
        self._file, self._columns, self._run = file, columns, run
        self._width = max(columns.values()) + 1
        self._units: list[str] | None = None
        self._plan: list[tuple[int, str, str]] = []

    def take(self, row: CsvRow, launches: _Launches) -> bool:
        cells = row.cells
        if self._units is None and len(cells) >= self._width and not cells[self._columns["ID"]].strip():
            self._units = [cell.strip() for cell in cells]
            self._plan = [
                (place, name, self._units[place])
                for name, place in self._columns.items()
                if _is_metric(name) and is_wanted(name, launches.every_metric)
            ]
            return False
        if not _is_launch(cells, self._columns):
            return False
        if self._units is None:
            raise UnreadableProfile(
                f"{self._file}: the row of units that follows the header of a raw page is missing",
                hint="print the page again with `ncu --import FILE --csv --page raw`, and leave it as it is",
            )
        if len(cells) < self._width:
            launches.cut |= row.is_last
            launches.damaged += not row.is_last
            return False
        launch = launches.launch(self._run, cells, self._columns)
        for place, name, unit in self._plan:
            launches.put(launch, name, cells[place], unit)
        return True


def _cell(cells: list[str], columns: Columns, name: str) -> str:
    """A cell of a row; empty where the row or the file has no such column."""
    place = columns.get(name, len(cells))
    return cells[place].strip() if place < len(cells) else ""


def _is_metric(column: str) -> bool:
    """Whether a column of a raw page is a metric: those about the launch have spaces, or are one word."""
    return "_" in column and re.fullmatch(r"\w[\w.:]*", column) is not None


def _is_launch(cells: list[str], columns: Columns) -> bool:
    return _cell(cells, columns, "ID").isdecimal()


def _base(unit: str) -> str:
    try:
        return scale(unit)[1]
    except UnknownUnit:
        return unit


def _identity(file: str, order: int, cells: list[str], columns: Columns, text_bytes: int) -> Profiled:
    capability = _CAPABILITY.fullmatch(_cell(cells, columns, "CC"))
    return Profiled(
        order=order,
        file=file,
        metrics={},
        nvtx=tuple(_open_ranges(cells, columns, text_bytes)),
        name=_cell(cells, columns, "Kernel Name")[:text_bytes],
        grid=_size(_cell(cells, columns, "Grid Size")),
        block=_size(_cell(cells, columns, "Block Size")),
        context=_whole(_cell(cells, columns, "Context")),
        stream=_whole(_cell(cells, columns, "Stream")),
        device=_whole(_cell(cells, columns, "Device")),
        process=_whole(_cell(cells, columns, "Process ID")),
        compute_capability=(int(capability[1]), int(capability[2])) if capability else None,
    )


def _open_ranges(cells: list[str], columns: Columns, text_bytes: int) -> Iterator[str]:
    """The names of the push/pop ranges around a launch, outermost first, from a column that --nvtx adds.

    In it, each range is quoted: its domain, its name, and six more fields, with colons between them.
    """
    column = next((name for name in columns if "Push/Pop_Range" in name), "")
    for quoted in re.findall(r'"([^"]*)"', _cell(cells, columns, column)[:text_bytes]):
        _, colon, rest = quoted.partition(":")
        if colon and rest.count(":") >= 6:
            yield rest.rsplit(":", 6)[0]


def _whole(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 20 else None


def _size(text: str) -> Dim3 | None:
    match = _SIZE.fullmatch(text)
    return (int(match[1]), int(match[2]), int(match[3])) if match and len(text) < 64 else None

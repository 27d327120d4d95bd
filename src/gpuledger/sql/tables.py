"""The tables that can be asked in SQL, with every column's type, unit and meaning: `TABLES`, a tuple that one can read.

Those that the profile holds are the trace's own (`trace.tables`), the same for every format; the others are the books.
DuckDB is handed columns as they were read: nothing is copied, and nothing worked out but lengths.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Annotated, Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.catalog.gpu_metrics import OF_KERNELS
from gpuledger.errors import QueryRefused
from gpuledger.ledger.activity import short_names
from gpuledger.messages import say
from gpuledger.rows import Label, Row
from gpuledger.trace.keys import distinct
from gpuledger.trace.model import Trace
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import NOT_RECORDED, TIMES, Kind, Rows, Table

_TYPES: Final = {Kind.INT64: "BIGINT", Kind.INT32: "INTEGER", Kind.TEXT: "VARCHAR", Kind.FLAG: "BOOLEAN"}
_UNITS: Final = {"ns": "ns", "bytes": "bytes", "percent": "%"}
AXES: Final = ("x", "y", "z")
_FRAMES: Final = ("frame", "frames")


class QueryColumn(Row, frozen=True):
    """One column. NULL stands for what was not recorded, or does not apply."""

    name: Annotated[str, Label(say("column"))]
    type: Annotated[str, Label(say("type"), meaning="DuckDB's")]
    unit: Annotated[str, Label(say("unit"), meaning="empty for names and plain numbers")]
    meaning: Annotated[str, Label(say("meaning"), is_prose=True)]
    is_booked: bool = False
    """Whether it is worked out with the books; else the profile holds it."""

    @classmethod
    def of(cls, name: str, type_: str, meaning: str, *, is_booked: bool = False) -> QueryColumn:
        """The unit is the end of the name."""
        return cls(name, type_, _UNITS.get(name.rpartition("_")[2], ""), meaning, is_booked)


class QueryTable(Row, frozen=True):
    """One table: what a row stands for, and its columns."""

    name: Annotated[str, Label(say("table"))]
    row: Annotated[str, Label(say("a row is"), is_prose=True)]
    columns: tuple[QueryColumn, ...]
    recorded: Table | None = None
    """The trace's table that it is; null for a table of the books."""

    @classmethod
    def of_trace(cls, table: Table) -> QueryTable:
        """One of the trace's own: its columns (a launch shape is three), its lengths, and what the books add."""
        own: list[QueryColumn] = []
        for column in table.schema.columns:
            if column.kind is Kind.TRIPLE:
                what = column.meaning.removesuffix(" in x, y, z")
                own += (QueryColumn.of(f"{column.name}_{axis}", "INTEGER", f"{what} in {axis}") for axis in AXES)
            else:
                own.append(QueryColumn.of(column.name, _TYPES[column.kind], column.meaning))
        duration = QueryColumn.of("duration_ns", "BIGINT", "end_ns minus start_ns")
        return cls(table.value, table.schema.row, (*own[:2], duration, *own[2:], *_ADDED.get(table, ())), table)

    def __getitem__(self, name: str) -> QueryColumn:
        return next(column for column in self.columns if column.name == name)

    def __contains__(self, name: str) -> bool:
        return any(column.name == name for column in self.columns)


def _booked_columns(*columns: tuple[str, str, str]) -> tuple[QueryColumn, ...]:
    return tuple(QueryColumn.of(*column, is_booked=True) for column in columns)


_OF_STEP: Final = ("step", "BIGINT", "the step that it begins in, from 0; NULL outside of steps")
_BEGINS_STEADY: Final = ("is_steady", "BOOLEAN", "whether it begins in the steady steps, which reports are about")
_RANGES: Final = (
    ("range", "VARCHAR", "innermost NVTX range or annotation around the call"),
    ("range_path", "VARCHAR", "all ranges around the call, outermost first, with ' > ' between"),
)
_LAUNCHED: Final = _booked_columns(
    _OF_STEP,
    _BEGINS_STEADY,
    ("launch_call", "VARCHAR", "the CUDA call that launched it, by its name in calls"),
    ("launch_start_ns", "BIGINT", "when that call began"),
    ("launch_end_ns", "BIGINT", "when that call returned"),
    ("launch_tid", "BIGINT", "the thread that made that call"),
    *_RANGES,
)

# What the trace's tables have here beside their own columns.
_ADDED: Final[dict[Table, tuple[QueryColumn, ...]]] = {
    Table.KERNELS: (
        *_booked_columns(("family", "VARCHAR", "kernel family: gemm, attention, communication, ...")),
        *_LAUNCHED,
    ),
    Table.SAMPLES: (
        QueryColumn.of("frame", "VARCHAR", "the innermost function, and where it was: function (file.py:12)"),
        QueryColumn.of("frames", "VARCHAR", "all functions of the stack, outermost first, with ' > ' between"),
    ),
    Table.COPIES: _LAUNCHED,
    Table.GRAPHS: _LAUNCHED,
    Table.CALLS: (
        QueryColumn.of("short_name", "VARCHAR", "function, without its version"),
        *_booked_columns(
            ("call_kind", "VARCHAR", "of CUDA calls: sync, launch, alloc, copy_call, load, context or call"), *_RANGES
        ),
    ),
}


def _book_table(name: str, row: str, *columns: tuple[str, str, str]) -> QueryTable:
    return QueryTable(name, row, _booked_columns(*columns))


_GPU: Final = ("gpu", "INTEGER", "physical GPU")
_START: Final = ("start_ns", "BIGINT", "when it began")
_END: Final = ("end_ns", "BIGINT", "when it ended")

TABLES: Final[tuple[QueryTable, ...]] = (
    *map(QueryTable.of_trace, Table),
    _book_table(
        "gpus",
        say("one GPU that ran anything: its window, busy and idle time"),
        _GPU,
        ("name", "VARCHAR", "what the GPU is called"),
        ("zero_ns", "BIGINT", "the instant that `--time` and the other verbs count from, on the profile's clock"),
        ("window_start_ns", "BIGINT", "where the books begin"),
        ("window_end_ns", "BIGINT", "where they end"),
        ("window_ns", "BIGINT", "how much time they hold"),
        ("busy_ns", "BIGINT", "time in which anything ran: compute, communication or copies"),
        ("idle_ns", "BIGINT", "the rest of the window; the gaps sum to it"),
        ("steady_start_ns", "BIGINT", "where the steady steps begin: those without warm-up, else the window"),
        ("steady_end_ns", "BIGINT", "where they end"),
        ("steady_ns", "BIGINT", "how much time they hold"),
        ("steady_steps", "BIGINT", "how many steady steps there are; NULL where no steps were found"),
        ("step_source", "VARCHAR", "what steps were found by"),
    ),
    _book_table(
        "lines",
        say(
            "the time of one line of the time breakdown in one step, or beside the steps; the lines of a step sum to it"
        ),
        _GPU,
        _OF_STEP,
        ("is_steady", "BOOLEAN", "whether it lies in the steady steps, which reports are about"),
        _START,
        _END,
        ("line", "VARCHAR", "compute.FAMILY, comm, copy or idle.CAUSE"),
        ("kind", "VARCHAR", "compute, comm, copy or idle"),
        ("detail", "VARCHAR", "the family of compute, the cause of idle time; NULL for the others"),
        ("line_ns", "BIGINT", "time that is attributed to the line between start_ns and end_ns"),
    ),
    _book_table(
        "gaps",
        say("one time in which nothing ran on a GPU"),
        ("gap", "BIGINT", "its number, to join with gap_causes"),
        _GPU,
        _START,
        _END,
        ("duration_ns", "BIGINT", "how long it took"),
        ("trigger", "VARCHAR", "what set it off: what to fix"),
        ("drained_by", "VARCHAR", "the call that let the queue run dry; NULL where none did"),
        ("cause", "VARCHAR", "the cause with the most of its time"),
        ("cause_ns", "BIGINT", "the time of that cause; gap_causes has them all"),
        ("before", "VARCHAR", "the kernel or copy that ended last before it"),
        ("after", "VARCHAR", "the kernel or copy that ended it"),
        ("launch_call", "VARCHAR", "the CUDA call that launched the latter, by its name in calls"),
        ("launch_tid", "BIGINT", "the thread that made that call"),
        _OF_STEP,
        ("is_steady", "BOOLEAN", "whether it lies in the steady steps, if only in part"),
        ("steady_ns", "BIGINT", "how much of it lies there, which reports are about"),
    ),
    _book_table(
        "gap_causes",
        say("the time of one gap that is attributed to one cause; the causes of a gap sum to it"),
        ("gap", "BIGINT", "the gap's number"),
        _GPU,
        ("cause", "VARCHAR", "why the GPU was idle"),
        ("cause_ns", "BIGINT", "the time of that cause"),
    ),
    _book_table(
        "steps",
        say("one step of a GPU, warm-up included"),
        _GPU,
        ("step", "BIGINT", "its number, from 0"),
        _START,
        _END,
        ("duration_ns", "BIGINT", "busy and idle time together"),
        ("busy_ns", "BIGINT", "time in which anything ran on the GPU"),
        ("idle_ns", "BIGINT", "time in which nothing did"),
        ("kernels", "BIGINT", "kernels that begin in it; NULL where graphs were traced whole"),
        ("largest_line", "VARCHAR", "the line with the most of its time"),
        ("phase", "VARCHAR", "prefill or decode, where that is known"),
        ("note", "VARCHAR", "warm-up or unusual; NULL for the others"),
    ),
    _book_table(
        "findings",
        say("one finding of the report"),
        ("rank", "BIGINT", "its place in the report, from 1"),
        ("code", "VARCHAR", "what `gpuledger explain` takes"),
        ("claim", "VARCHAR", "what is wrong"),
        ("saving_ns", "BIGINT", "what fixing it would save in the steady steps, as profiled"),
        ("saving_per_step_ns", "BIGINT", "the same for one step; NULL without steps"),
        ("low_per_step_ns", "BIGINT", "the low end of that: of the run without the profiler"),
        (
            "then_ns",
            "BIGINT",
            "what it would save once those before it are fixed; NULL where that cannot be determined",
        ),
        ("plain_low_ns", "BIGINT", "what it would save without the profiler, at least"),
        ("plain_high_ns", "BIGINT", "the same, at most"),
        ("lost_ns", "BIGINT", "time that is lost to it and to nothing else"),
        ("is_bound", "BOOLEAN", "whether the saving is the most that can be had, and less is usual"),
        ("confidence", "VARCHAR", "high, medium or low"),
        ("gpu", "INTEGER", "the GPU that it is about; NULL where it is about none alone"),
        ("assumption", "VARCHAR", "what is changed to work out the saving"),
        ("fix", "VARCHAR", "what to change, where that depends on more than the code"),
    ),
    _book_table(
        "use",
        say("how well one kernel uses the GPU in the steady steps, from samples of the GPU's counters"),
        _GPU,
        ("name", "VARCHAR", "the kernel, shortened"),
        ("full_name", "VARCHAR", "its name in kernels"),
        *(
            (f"{shape}_{axis}", "INTEGER", f"{what} in {axis}")
            for shape, what in (("grid", "blocks"), ("block", "threads of a block"))
            for axis in AXES
        ),
        ("launches", "BIGINT", "how often it was launched with this shape"),
        ("total_ns", "BIGINT", "how long those took together"),
        ("use_class", "VARCHAR", "compute_roof, memory_roof, under_filled, stalled or unknown"),
        *(
            (f"{metric}{end}_percent", "DOUBLE", f"{what}{bound}")
            for metric, what in zip(
                OF_KERNELS,
                (
                    "multiprocessors that have a warp",
                    "issue slots that are used",
                    "cycles of the tensor cores",
                    "resident warps, of those there is room for",
                    "read bandwidth of DRAM",
                    "write bandwidth of DRAM",
                ),
                strict=True,
            )
            for end, bound in (("", ""), ("_low", ": low end of the 90 % interval"), ("_high", ": high end"))
        ),
    ),
    _book_table(
        "light",
        say("the kernels of one name that one operator launched in the steady steps, and what they need at the roofs"),
        _GPU,
        ("kernel", "VARCHAR", "its name in kernels"),
        ("operator", "VARCHAR", "the innermost operator around their launches; NULL where none was recorded"),
        ("launches", "BIGINT", "how many there are"),
        ("ns", "BIGINT", "how long they took together"),
        ("light_ns", "BIGINT", "what they need at the GPU's peaks; NULL where that is not known, as the next two"),
        ("low_ns", "BIGINT", "what that may be at least"),
        ("high_ns", "BIGINT", "what that may be at most"),
        ("source", "VARCHAR", "what that is known from: shapes, samples, launch or unknown"),
        ("roof", "VARCHAR", "what they would be limited by: compute, memory or unknown"),
    ),
)

BY_NAME: Final = {table.name: table for table in TABLES}


class QuerySchema(Struct, frozen=True, tag_field="schema", tag="gpuledger.queryschema/1"):
    """The tables that can be asked in SQL."""

    tables: tuple[QueryTable, ...]


Texts = Strings | Sequence[str]


class ColumnValues(Struct, frozen=True, eq=False):
    """Numbers, or codes of texts; the array is never copied."""

    array: NDArray[Any]
    texts: Texts | None = None  # what a code stands for; None: the numbers are themselves
    missing: int | None = NOT_RECORDED
    """The number that stands for no value; None: there is always one. NaN is never one."""


TableValues = dict[str, ColumnValues | str]
"""A table's columns by name; a text is an expression of the others, which DuckDB works out as it goes along."""


def instants(array: NDArray[Any]) -> ColumnValues:
    """Times and lengths: any number is a value, -1 too."""
    return ColumnValues(array, missing=None)


def words(values: Sequence[str | None]) -> ColumnValues:
    """A few texts, some of them not there; the empty text is none of ours."""
    position: dict[str, int] = {}
    codes = [position.setdefault(str(text), len(position)) if text else NOT_RECORDED for text in values]
    return ColumnValues(np.array(codes, np.int32), tuple(position))


_UNKNOWN: Final = np.iinfo(np.int64).min


def row_values(table: QueryTable, rows: Iterable[tuple[Any, ...]]) -> TableValues:
    """A few rows, their values in the order of the table's columns."""
    columns = list(zip(*rows, strict=True)) or [()] * len(table.columns)
    return {column.name: _values(column.type, held) for column, held in zip(table.columns, columns, strict=True)}


def _values(type_: str, held: Sequence[Any]) -> ColumnValues:
    match type_:
        case "VARCHAR":
            return words(held)
        case "BOOLEAN":
            return ColumnValues(np.array(held, np.bool_), missing=None)
        case "DOUBLE":
            return ColumnValues(np.array([np.nan if value is None else value for value in held], np.float64))
    return ColumnValues(
        np.array([_UNKNOWN if value is None else value for value in held], np.int64), missing=int(_UNKNOWN)
    )


def _sources(table: Table) -> dict[str, tuple[str, int | None]]:
    """The trace's column that each column of a query is read from, and which part of a launch shape it is."""
    derived: dict[Table, dict[str, tuple[str, int | None]]] = {
        Table.CALLS: {"short_name": ("name", None)},
        Table.SAMPLES: dict.fromkeys(_FRAMES, ("stack", None)),
    }
    sources: dict[str, tuple[str, int | None]] = {}
    for column in table.schema.columns:
        if column.kind is Kind.TRIPLE:
            sources |= {f"{column.name}_{axis}": (column.name, part) for part, axis in enumerate(AXES)}
        else:
            sources[column.name] = column.name, None
    return sources | derived.get(table, {})


def columns_to_read(table: Table, asked: Collection[str]) -> set[str]:
    """The trace's columns that these columns of the query come from."""
    sources = _sources(table)
    return {sources[name][0] for name in asked if name in sources}


def recorded_values(trace: Trace, table: Table, asked: Collection[str]) -> TableValues:
    """These columns of one of the trace's tables, and its times, so that every table has a column."""
    rows, sources = _rows(trace, table, columns_to_read(table, asked)), _sources(table)
    values: TableValues = {name: instants(rows[name]) for name in TIMES}
    for name in (name for name in asked if name not in TIMES):
        if name == "duration_ns":
            values[name] = "end_ns - start_ns"
        elif name == "short_name" and table is Table.CALLS:
            texts, codes = short_names(rows)
            values[name] = ColumnValues(codes, texts)
        elif name in _FRAMES and table is Table.SAMPLES:
            values[name] = _frames(trace, rows, name)
        elif name in sources:
            values[name] = _recorded_column(rows, *sources[name])
    return values


def _recorded_column(rows: Rows, name: str, part: int | None) -> ColumnValues:
    column = rows.schema[name]
    if part is not None:
        return ColumnValues(rows[name][:, part])
    if column.kind is Kind.TEXT:
        return ColumnValues(rows.codes(name), rows.strings)
    return ColumnValues(rows[name], missing=column.missing)


def _frames(trace: Trace, rows: Rows, name: str) -> ColumnValues:
    """A column of samples that their stacks are written in, each distinct one once."""
    stacks = distinct(rows["stack"])
    texts = [trace.stacks.texts(stack, trace.strings) for stack in stacks.tolist()]
    told = words([" > ".join(frames[::-1] if name == "frames" else frames[:1]) for frames in texts])
    return ColumnValues(told.array[np.searchsorted(stacks, rows["stack"])], told.texts)


def _rows(trace: Trace, table: Table, needed: Collection[str]) -> Rows:
    if table not in trace.tables and table not in trace.absent:
        lacking = [table.value]
    else:
        lacking = [f"{table.value}.{name}" for name in sorted(needed) if name not in trace[table]]
    if lacking:
        raise QueryRefused(
            f"{lacking[0]} was not read with this trace",
            hint="hand over the profile's path instead, or open it whole: open_trace(path, only=tuple(Table))",
        )
    return trace[table]

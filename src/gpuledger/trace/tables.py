"""The tables of a trace, column by column: what each holds, in which type, and what it means.

Times are int64 nanoseconds on one clock. Text columns hold codes into the trace's `Strings`. Where a profile did not
record a value, an integer column holds `NOT_RECORDED` and a text column `NO_TEXT`; both are -1.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.errors import needing
from gpuledger.messages import say
from gpuledger.trace.keys import take
from gpuledger.trace.notebook_table import FIRST_ROWS, html_table, rows_text
from gpuledger.trace.strings import Codes, Strings

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

NOT_RECORDED: Final = -1
"""Stands in an integer column for a value that the profile does not hold."""

TIMES: Final = ("start_ns", "end_ns")
"""What every row has: it is none without, and a clock may be below 0."""

SELDOM_ASKED: Final = frozenset(
    ("grid", "block", "registers", "smem_static_bytes", "smem_dynamic_bytes", "stream", "correlation", "tid", "end_tid")
)
"""Columns that are looked at once, if at all: they may be kept in fewer bytes than whoever asks gets."""


class Kind(Enum):
    """How a column is stored."""

    INT64 = "int64"
    INT32 = "int32"
    TEXT = "text"
    FLAG = "bool"
    TRIPLE = "int32 x 3"

    @property
    def dtype(self) -> np.dtype[Any]:
        return _DTYPES[self]


_DTYPES: Final = {kind: np.dtype({"int64": np.int64, "bool": np.bool_}.get(kind.value, np.int32)) for kind in Kind}


class ColumnSchema(Struct, frozen=True):
    """One column: its name, how it is stored, and what a value means."""

    name: str
    kind: Kind
    meaning: str

    @property
    def missing(self) -> int | None:
        """The number that stands for a value that was not recorded; None: there is always one, and any number is."""
        return None if self.kind is Kind.FLAG or self.name in TIMES else NOT_RECORDED


class Schema(Struct, frozen=True):
    """One table: what a row stands for, and its columns."""

    row: str
    columns: tuple[ColumnSchema, ...]

    def __getitem__(self, name: str) -> ColumnSchema:
        return next(column for column in self.columns if column.name == name)


class Table(Enum):
    """The tables that a trace may hold."""

    KERNELS = "kernels"
    COPIES = "copies"
    GRAPHS = "graphs"
    CALLS = "calls"
    RANGES = "ranges"
    SYNCS = "syncs"
    ALLOCS = "allocs"
    OVERHEADS = "overheads"
    SAMPLES = "samples"
    COLLECTIVES = "collectives"
    METRICS = "metrics"

    @property
    def schema(self) -> Schema:
        return SCHEMAS[self]


EVENTS: Final = tuple(table for table in Table if table is not Table.METRICS)
"""What is read where nobody names tables: not the samples of GPUs, of which a second has 400,000 rows."""


def _schema(row: str, *columns: ColumnSchema) -> Schema:
    start = ColumnSchema("start_ns", Kind.INT64, "when it began")
    end = ColumnSchema("end_ns", Kind.INT64, "when it ended")
    return Schema(row, (start, end, *columns))


_PID = ColumnSchema(
    "pid",
    Kind.INT64,
    "process: the operating system's id in the low 24 bits, the host's index (0 for the first) above them",
)
_TID = ColumnSchema("tid", Kind.INT64, "thread: the operating system's id; unique together with pid")
_CORRELATION = ColumnSchema("correlation", Kind.INT64, "joins GPU work to the call that launched it, within one pid")
_GPU = ColumnSchema("gpu", Kind.INT32, "physical GPU: index into origin.gpus")
_DEVICE = ColumnSchema("device", Kind.INT32, "CUDA ordinal, as the process saw the GPU")
_CONTEXT = ColumnSchema("context", Kind.INT64, "CUDA context")
_STREAM = ColumnSchema("stream", Kind.INT64, "CUDA stream, within the context")
_WHERE = (_GPU, _DEVICE, _CONTEXT, _STREAM, _PID, _CORRELATION)
_STACK = ColumnSchema("stack", Kind.INT64, "the recorded call stack: position in the trace's stacks")
_GRAPH_NODE = ColumnSchema("graph_node", Kind.INT64, "CUDA graph node that it is an execution of")

SCHEMAS: Final[Mapping[Table, Schema]] = {
    Table.KERNELS: _schema(
        say("one kernel execution"),
        *_WHERE,
        ColumnSchema("name", Kind.TEXT, "demangled name, whole"),
        ColumnSchema("short_name", Kind.TEXT, "the function's bare name"),
        ColumnSchema("mangled_name", Kind.TEXT, "the symbol in the binary"),
        ColumnSchema("grid", Kind.TRIPLE, "blocks in x, y, z"),
        ColumnSchema("block", Kind.TRIPLE, "threads of a block in x, y, z"),
        ColumnSchema("registers", Kind.INT32, "registers per thread"),
        ColumnSchema("smem_static_bytes", Kind.INT64, "shared memory per block, fixed when compiled"),
        ColumnSchema("smem_dynamic_bytes", Kind.INT64, "shared memory per block, asked for at the launch"),
        ColumnSchema("graph", Kind.INT64, "CUDA graph that it ran in"),
        _GRAPH_NODE,
    ),
    Table.COPIES: _schema(
        say("one memory copy or memset on the GPU"),
        *_WHERE,
        ColumnSchema("kind", Kind.TEXT, "NVIDIA's label of the copy's direction, or 'Memset'"),
        ColumnSchema("bytes", Kind.INT64, "bytes moved or set"),
        ColumnSchema("src_kind", Kind.TEXT, "memory that was read: Pageable, Pinned, Device, ..."),
        ColumnSchema("dst_kind", Kind.TEXT, "memory that was written"),
        _GRAPH_NODE,
    ),
    Table.GRAPHS: _schema(
        say("one execution of a whole CUDA graph whose nodes were not traced"),
        *_WHERE,
        ColumnSchema("graph", Kind.INT64, "CUDA graph"),
        ColumnSchema("graph_exec", Kind.INT64, "instantiated CUDA graph"),
    ),
    Table.CALLS: _schema(
        say("one call on the host: CUDA runtime, CUDA driver, a CUDA library, or the operating system"),
        _PID,
        _TID,
        _CORRELATION,
        ColumnSchema("name", Kind.TEXT, "function, with the version suffix that the profiler gave it"),
        ColumnSchema("layer", Kind.TEXT, "runtime, driver, os, cublas or cudnn"),
        ColumnSchema("result", Kind.INT64, "the call's return value; 0 is success in CUDA"),
        _STACK,
        ColumnSchema("kernel", Kind.TEXT, "the kernel that it launches, where the call says so, as ROCm's do"),
        ColumnSchema("blocks", Kind.INT64, "how many blocks of it, likewise"),
    ),
    Table.RANGES: _schema(
        say("one annotation on the host's timeline"),
        _PID,
        _TID,
        ColumnSchema("domain", Kind.TEXT, "NVTX domain; empty for the default one"),
        ColumnSchema("name", Kind.TEXT, "the annotation's text, without the domain"),
        ColumnSchema("kind", Kind.TEXT, "push_pop, start_end or mark; from torch also op (an operator) and python"),
        ColumnSchema("open", Kind.FLAG, "the end was not recorded; end_ns is the last time seen in any annotation"),
        ColumnSchema("end_tid", Kind.INT64, "thread that ended it, where the profiler says that it was another"),
        ColumnSchema(
            "depth", Kind.INT32, "how many ranges of its kind on the thread enclose it; marks and start_end: 0"
        ),
        ColumnSchema("parent", Kind.INT64, "row of the range of its kind that directly encloses it"),
        ColumnSchema(
            "inputs", Kind.TEXT, "an operator's or annotation's inputs, as recorded: shapes, then types, as JSON"
        ),
    ),
    Table.SYNCS: _schema(
        say("one synchronization, as CUPTI reports it; incomplete by nature, so count calls instead"),
        *_WHERE,
        ColumnSchema("kind", Kind.TEXT, "NVIDIA's label: Stream sync, Event sync, ..."),
    ),
    Table.ALLOCS: _schema(
        say("one allocation or release of memory (memory_kind: which); start_ns equals end_ns"),
        *_WHERE,
        ColumnSchema("operation", Kind.TEXT, "Allocation or Deallocation"),
        ColumnSchema("bytes", Kind.INT64, "size of the allocation"),
        ColumnSchema("address", Kind.INT64, "address on the device"),
        ColumnSchema("memory_kind", Kind.TEXT, "Device, Pinned, Managed, ..."),
    ),
    Table.OVERHEADS: _schema(
        say("a span in which the profiler itself held a thread"),
        _PID,
        _TID,
        ColumnSchema("name", Kind.TEXT, "what the profiler was doing"),
    ),
    Table.SAMPLES: _schema(
        say("one sample of what a thread was running"),
        _PID,
        _TID,
        _STACK,
        ColumnSchema("source", Kind.TEXT, "cpu or python"),
    ),
    Table.COLLECTIVES: _schema(
        say("one collective as the framework or NCCL described it: on its kernel, or on what launched the kernel"),
        _PID,
        ColumnSchema("tid", Kind.INT64, "thread of the operator; -1 where a kernel carries the description"),
        _CORRELATION,
        ColumnSchema("name", Kind.TEXT, "the framework's name: allreduce, all_to_allv, ..."),
        ColumnSchema("group", Kind.TEXT, "the process group's name"),
        ColumnSchema("ranks", Kind.TEXT, "the ranks in it, as recorded"),
        ColumnSchema("group_size", Kind.INT64, "how many ranks are in it"),
        ColumnSchema("in_elements", Kind.INT64, "elements that each rank gives"),
        ColumnSchema("out_elements", Kind.INT64, "elements that each rank gets"),
        ColumnSchema("dtype", Kind.TEXT, "type of the elements"),
        ColumnSchema("bytes", Kind.INT64, "bytes that each rank gives, where those are recorded, not elements"),
        ColumnSchema("rank", Kind.INT64, "which of the group's ranks this is"),
        ColumnSchema("peer", Kind.INT64, "the rank that it sends to or receives from"),
    ),
    Table.METRICS: _schema(
        say("one value of one counter of a GPU, sampled; start_ns and end_ns are its timestamp"),
        _GPU,
        ColumnSchema("name", Kind.TEXT, "the profiler's name of the counter, with its unit in brackets"),
        ColumnSchema("value", Kind.INT64, "the mean over one period: percent, hertz or a count, by the unit"),
    ),
}


class Rows:
    """The rows of one table as columns. Immutable; `rows["start_ns"]` is a read-only numpy array.

    Holds all columns of its schema, or those that somebody asked for; start and end are always there.
    """

    __slots__ = ("_columns", "_length", "schema", "strings")

    def __init__(self, schema: Schema, columns: Mapping[str, NDArray[Any]], strings: Strings) -> None:
        known = [column.name for column in schema.columns]
        if not {"start_ns", "end_ns"} <= columns.keys() <= set(known):
            raise ValueError(f"expected start_ns, end_ns and other columns of {known}, got {sorted(columns)}")
        lengths = {len(values) for values in columns.values()}
        if len(lengths) != 1:
            raise ValueError(f"columns of different lengths: {sorted(lengths)}")
        self.schema: Final = schema
        self.strings: Final = strings
        self._length: Final = lengths.pop()
        self._columns: Final = {
            column.name: _frozen(column, columns[column.name]) for column in schema.columns if column.name in columns
        }

    def __len__(self) -> int:
        return self._length

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def __getitem__(self, name: str) -> NDArray[Any]:
        values = self.stored(name)
        return values.astype(self.schema[name].kind.dtype, copy=False) if name in SELDOM_ASKED else values

    def stored(self, name: str) -> NDArray[Any]:
        """A column as it is held: what is seldom asked for may be in fewer bytes than its schema says."""
        try:
            return self._columns[name]
        except KeyError:
            raise KeyError(f"column {name} was not read; it holds {', '.join(self._columns)}") from None

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Rows)
            and self.schema == other.schema
            and self.strings == other.strings
            and self._columns.keys() == other._columns.keys()
            and all(np.array_equal(values, other[name]) for name, values in self._columns.items())
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{rows_text(len(self))}, each {self.schema.row}: {', '.join(self._columns)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the first rows, names spelled out."""
        first = self.between(slice(FIRST_ROWS))
        columns = [first._cells(name) for name in first._columns]
        rest = f", the first {FIRST_ROWS} shown" if len(self) > FIRST_ROWS else ""
        said = f"{rows_text(len(self))}, each {self.schema.row}{rest}"
        return html_table(list(self._columns), zip(*columns, strict=True), said)

    def _cells(self, name: str) -> list[object]:
        """A column's values for people: texts for codes, nothing for what was not recorded."""
        column, values = self.schema[name], self[name].tolist()
        if column.kind is Kind.TEXT:
            return list(self.texts(name))
        if column.kind is Kind.TRIPLE:
            return [None if NOT_RECORDED in triple else " x ".join(map(str, triple)) for triple in values]
        return [None if value == column.missing else value for value in values]

    @property
    def duration_ns(self) -> NDArray[np.int64]:
        """End minus start of each row; negative where the profile says so."""
        length: NDArray[np.int64] = self["end_ns"] - self["start_ns"]
        return length

    def codes(self, name: str) -> Codes:
        codes: Codes = self[name]
        return codes

    def texts(self, name: str) -> list[str | None]:
        return self.strings.decode(self.codes(name))

    def only(self, *names: str) -> Rows:
        """The same rows with these columns, and the times: cheaper to select from."""
        kept = {"start_ns", "end_ns", *names}
        return Rows(self.schema, {name: self.stored(name) for name in kept}, self.strings)

    def where(self, mask: NDArray[np.bool_]) -> Rows:
        """The rows for which `mask` is true, in order."""
        return self if mask.all() else self.at(mask)

    def at(self, positions: NDArray[Any]) -> Rows:
        """The rows at these positions, repeated where a position is; or under a mask."""
        columns = {name: take(values, positions) for name, values in self._columns.items()}
        return Rows(self.schema, columns, self.strings)

    def between(self, part: slice) -> Rows:
        """Neighbouring rows, without copying them."""
        return Rows(self.schema, {name: values[part] for name, values in self._columns.items()}, self.strings)

    def replaced(self, name: str, values: NDArray[Any]) -> Rows:
        """The same rows with other values in one column."""
        return Rows(self.schema, self._columns | {name: values}, self.strings)

    def to_arrow(self) -> pyarrow.Table:
        """This table for pyarrow: text in dictionary columns, triples as lists of three, null where not recorded."""
        with needing("pyarrow", "to_arrow()", "'gpuledger[arrow]'"):
            import pyarrow as pa

        def to_array(column: ColumnSchema, values: NDArray[Any]) -> pyarrow.Array:
            if column.missing is None:
                return pa.array(values)
            flat = values.reshape(-1)
            known = pa.array(flat, mask=flat < 0 if column.kind is Kind.TEXT else flat == column.missing)
            if column.kind is Kind.TRIPLE:
                return pa.FixedSizeListArray.from_arrays(known, 3)
            if column.kind is Kind.TEXT:
                return pa.DictionaryArray.from_arrays(known, pa.array(self.strings.as_unicode(), pa.string()))
            return known

        return pa.table({name: to_array(self.schema[name], self[name]) for name in self._columns})

    def to_parquet(self, path: Path) -> None:
        """Write this table to a Parquet file."""
        table = self.to_arrow()
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, path, compression="zstd")

    def to_pandas(self) -> pandas.DataFrame:
        """This table for pandas: whole numbers stay whole where some were not recorded, which are NA."""
        table = self.to_arrow()
        with needing("pandas", "to_pandas()", "pandas"):
            import pandas
        import pyarrow as pa

        whole = {pa.int64(): pandas.Int64Dtype(), pa.int32(): pandas.Int32Dtype()}
        return table.to_pandas(types_mapper=whole.get)

    def to_polars(self) -> polars.DataFrame:
        """This table for polars."""
        table = self.to_arrow()
        with needing("polars", "to_polars()", "polars"):
            import polars

        frame = polars.from_arrow(table)
        if not isinstance(frame, polars.DataFrame):
            raise TypeError(f"polars made a {type(frame).__name__} of a table")
        return frame


def _frozen(column: ColumnSchema, values: NDArray[Any]) -> NDArray[Any]:
    shape = (len(values), 3) if column.kind is Kind.TRIPLE else (len(values),)
    fits = values.dtype == column.kind.dtype
    fits |= column.name in SELDOM_ASKED and np.can_cast(values.dtype, column.kind.dtype)
    if values.shape != shape or not fits:
        raise ValueError(
            f"column {column.name}: expected {column.kind.dtype} {shape}, got {values.dtype} {values.shape}"
        )
    view = values.view()
    view.flags.writeable = False
    return view


def empty(table: Table, strings: Strings) -> Rows:
    """A table without rows."""
    columns = {
        column.name: np.empty((0, 3) if column.kind is Kind.TRIPLE else 0, column.kind.dtype)
        for column in table.schema.columns
    }
    return Rows(table.schema, columns, strings)


class _TableAttribute:
    def __init__(self, table: Table) -> None:
        self.table = table

    def __get__(self, trace: TablesByName | None, owner: type) -> Rows:
        if trace is None:
            return self  # type: ignore[return-value]
        try:
            return trace[self.table]
        except KeyError as error:
            raise AttributeError(error.args[0]) from None


class TablesByName:
    """An attribute for each table, for people who type: `trace.kernels` is `trace[Table.KERNELS]`.

    AttributeError where the table was not read.
    """

    __slots__ = ()

    @abstractmethod
    def __getitem__(self, table: Table | str) -> Rows: ...

    kernels = _TableAttribute(Table.KERNELS)
    copies = _TableAttribute(Table.COPIES)
    graphs = _TableAttribute(Table.GRAPHS)
    calls = _TableAttribute(Table.CALLS)
    ranges = _TableAttribute(Table.RANGES)
    syncs = _TableAttribute(Table.SYNCS)
    allocs = _TableAttribute(Table.ALLOCS)
    overheads = _TableAttribute(Table.OVERHEADS)
    samples = _TableAttribute(Table.SAMPLES)
    collectives = _TableAttribute(Table.COLLECTIVES)
    metrics = _TableAttribute(Table.METRICS)

"""nsys's other export formats, parquetdir and arrowdir: a folder with one file per table, giving the same Trace.

Needs pyarrow, an optional package, and says so where it is missing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from gpuledger.errors import MissingPackage, UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.read.nsys.container import NULL, IntegerColumns, TextColumn
from gpuledger.read.nsys.reader import read_export
from gpuledger.read.request import Progress, WantedColumns, too_many_rows
from gpuledger.read.source import Source, in_time
from gpuledger.trace.deadline import check
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints
from gpuledger.units import count_text

if TYPE_CHECKING:
    import pyarrow

_CONTAINERS: Final = {".parquet": "parquetdir", ".arrow": "arrowdir"}


class ArrowExport:
    """The tables of a folder, each in a file of its own."""

    decoding = None
    views: Mapping[str, frozenset[str]] = {}

    def __init__(self, folder: Path, suffix: str, limits: Limits, progress: Progress) -> None:
        self.container = _CONTAINERS[suffix]
        self._folder = folder
        self._suffix = suffix
        self._limits = limits
        self._progress = progress
        names = sorted(path.stem for path in folder.iterdir() if path.suffix == suffix)
        self.tables: Final[Mapping[str, frozenset[str]]] = {name: self._different_columns(name) for name in names}

    def _different_columns(self, table: str) -> frozenset[str]:
        names = self._columns(table)
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise UnreadableProfile(
                f"{self._folder.name}: a damaged export",
                found=f"{table} has two columns {twice[0]}",
                hint="copy or export it again",
            )
        return frozenset(names)

    def count(self, table: str) -> int:
        """From a Parquet file's own index, or batch by batch: no column is held for it."""
        import pyarrow as pa
        import pyarrow.parquet

        path = self._folder / (table + self._suffix)
        if self._suffix == ".parquet":
            rows: int = pyarrow.parquet.read_metadata(path).num_rows
            return rows
        with pa.OSFile(str(path)) as file:
            return sum(self._counted(batch) for batch in pa.ipc.open_stream(file))

    @staticmethod
    def _counted(batch: pyarrow.RecordBatch) -> int:
        check()
        rows: int = batch.num_rows
        return rows

    def integers(self, table: str, columns: Sequence[str]) -> IntegerColumns:
        read = self._read(table, columns)
        values = {name: _integers(read.column(name)) for name in columns}
        self._progress(table, read.num_rows)
        bad = {name: len(read.column(name)) - read.column(name).null_count for name in columns if values[name] is None}
        nothing = np.full(read.num_rows, NULL, np.int64)
        return IntegerColumns({name: nothing if found is None else found for name, found in values.items()}, bad)

    def texts(self, table: str, column: str) -> TextColumn:
        return TextColumn.of(self._texts(table, column))

    def _texts(self, table: str, column: str) -> list[bytes | None]:
        import pyarrow as pa

        values = self._read(table, (column,)).column(column)
        if not (pa.types.is_large_string(values.type) or pa.types.is_string(values.type)):
            values.validate(full=True)
            return [None if value is None else str(value).encode() for value in values.to_pylist()]
        stored = values.cast(pa.large_binary())
        stored.validate(full=True)  # as bytes: nsys's names need not be UTF-8
        as_bytes: list[bytes | None] = stored.to_pylist()
        return as_bytes

    def texts_by_id(self, table: str, id_column: str, column: str, ids: Collection[int]) -> dict[int, bytes]:
        wanted = set(ids)
        keys = self.integers(table, (id_column,)).columns[id_column].tolist()
        found: dict[int, bytes] = {}
        for key, text in zip(keys, self._texts(table, column), strict=True):
            if key in wanted:
                found.setdefault(key, text or b"")
        return found

    def _columns(self, table: str) -> list[str]:
        import pyarrow as pa
        import pyarrow.parquet

        path = self._folder / (table + self._suffix)
        if self._suffix == ".parquet":
            return list(pyarrow.parquet.read_schema(path).names)
        with pa.OSFile(str(path)) as file:  # not mapped: a file that shrinks meanwhile would end the process
            return list(pa.ipc.open_stream(file).schema.names)

    def _read(self, table: str, columns: Sequence[str]) -> pyarrow.Table:
        import pyarrow.parquet

        check()
        path = self._folder / (table + self._suffix)
        if self.count(table) > self._limits.rows_per_table:  # before anything is held: a run of one value is short
            raise too_many_rows(self._folder.name, table, self._limits.rows_per_table)
        if self._suffix == ".parquet":
            read = pyarrow.parquet.read_table(path, columns=list(dict.fromkeys(columns)), partitioning=None)
            rows = pyarrow.parquet.read_metadata(path).num_rows
            if columns and read.num_rows != rows:  # a column that is read alone may be as long as it likes
                raise UnreadableProfile(
                    f"{self._folder.name}: a damaged export",
                    found=f"{table} has {count_text(rows)} rows and {count_text(read.num_rows)} values of {columns[0]}",
                    hint="copy or export it again",
                )
            return read
        return self._read_stream(path, columns)

    def _read_stream(self, path: Path, columns: Sequence[str]) -> pyarrow.Table:
        import pyarrow as pa

        with pa.OSFile(str(path)) as file:  # not mapped: a file that shrinks meanwhile would end the process
            whole = pa.ipc.open_stream(file).read_all()
            chosen = whole.select(list(dict.fromkeys(columns))) if columns else whole
            chosen.validate()  # Arrow takes buffers as they come: a short one would be read beyond its end
            return chosen


def _integers(column: pyarrow.ChunkedArray) -> Ints | None:
    """A column as int64, `NULL` for no value; None if it does not hold integers at all."""
    import pyarrow as pa

    if not (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
        return None
    present = np.asarray(column.is_valid()).astype(np.bool_)
    # ids are unsigned here and signed in SQLite: the same 64 bits
    filled = column.cast(pa.int64(), safe=False).fill_null(0)
    return np.where(present, np.asarray(filled).astype(np.int64), NULL)


@contextlib.contextmanager
def _arrow_errors(source: Source) -> Iterator[None]:
    """What pyarrow says of a broken file, as one sentence."""
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError as error:
        raise MissingPackage(
            f"{source.name}: reading this format needs pyarrow, which is not installed",
            hint="`pip install 'gpuledger[arrow]'`, or export as SQLite: `nsys export --type=sqlite`",
        ) from error
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # the last of a column's name
        first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UnreadableProfile(
            f"{source.name}: a damaged export", found=f"Arrow says: {first_line}", hint="copy or export it again"
        ) from error


def _suffix(source: Source) -> str | None:
    """How the tables in a folder end; None if it holds no export."""
    return next((suffix for suffix in _CONTAINERS if f"StringIds{suffix}" in source.files), None)


class ArrowReader:
    """Nsight Systems parquetdir or arrowdir -> Trace."""

    name = "nsys parquetdir and arrowdir"

    def recognises(self, source: Source) -> bool:
        return _suffix(source) is not None

    def read(self, source: Source, wanted: WantedColumns, limits: Limits, progress: Progress) -> Trace:
        suffix = _suffix(source)
        if suffix is None:
            raise ValueError(f"{source.path} is no export")
        with in_time(source.name, limits), _arrow_errors(source):
            return read_export(ArrowExport(source.path, suffix, limits, progress), source.name, wanted, limits)

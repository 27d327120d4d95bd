"""nsys's other formats -> the same Trace. parquetdir and arrowdir are folders with one file per table.

They need pyarrow, an optional package; where it is missing, that is said.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np

from gpuledger.errors import MissingPackage, UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.read.columns import NULL, IntegerColumns, TextColumn
from gpuledger.read.nsys.reader import read_export
from gpuledger.read.request import Format, Progress, WantedColumns, too_many_rows
from gpuledger.read.source import Source, changed, in_time
from gpuledger.system.opening import entries_of, identity, open_file
from gpuledger.trace.deadline import check
from gpuledger.trace.keys import one_after_another, same
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints
from gpuledger.units import count_text

if TYPE_CHECKING:
    import pyarrow

_ROWS_AT_ONCE: Final = 1 << 18
_CONTAINERS: Final = {".parquet": "parquetdir", ".arrow": "arrowdir"}


class ArrowExport:
    """The tables of a folder, each in a file of its own."""

    decoding = None
    views: Mapping[str, frozenset[str]] = {}

    def __init__(self, folder: Path, suffix: str, limits: Limits, progress: Progress) -> None:
        self.container = _CONTAINERS[suffix]
        self._folder, self._suffix, self._limits, self._progress = folder, suffix, limits, progress
        self._identities: dict[str, tuple[int, int]] = {}
        tables = sorted(path.stem for path in map(Path, entries_of(folder)) if path.suffix == suffix)
        self.tables: Final[Mapping[str, frozenset[str]]] = {table: self._columns(table) for table in tables}

    def count(self, table: str) -> int:
        """From a Parquet file's own index, or the head of each batch: no column is held for it."""
        import pyarrow as pa
        import pyarrow.parquet

        with self._opened(table) as file:
            if self._suffix == ".parquet":
                rows: int = pyarrow.parquet.read_metadata(file).num_rows
                return rows
            return sum(_rows_of_batches(pa.ipc.MessageReader.open_stream(file)))

    def integers(self, table: str, columns: Sequence[str]) -> IntegerColumns:
        """Some rows at a time: equal ones take a few bits of a file, and so they do here."""
        parts: dict[str, list[Ints]] = {name: [np.empty(0, np.int64)] for name in columns}
        bad: dict[str, int] = {}
        done = 0
        for batch in self._batches(table, columns):
            done += batch.num_rows
            for name in parts:
                column = batch.column(name)
                values = _integers(column)
                if values is None:
                    bad[name] = bad.get(name, 0) + len(column) - column.null_count
                    values = same(NULL, len(column))
                elif len(values) and (values == values[0]).all():
                    values = same(int(values[0]), len(values))
                parts[name].append(values)
            self._progress(table, done)
        return IntegerColumns({name: one_after_another(chunks) for name, chunks in parts.items()}, bad)

    def texts(self, table: str, column: str) -> TextColumn:
        return TextColumn.of(self._texts(table, column))

    def _texts(self, table: str, column: str) -> list[bytes | None]:
        return [text for batch in self._batches(table, (column,)) for text in _stored_texts(batch.column(column))]

    def texts_by_id(self, table: str, id_column: str, column: str, ids: Collection[int]) -> dict[int, bytes]:
        wanted = set(ids)
        keys = self.integers(table, (id_column,)).columns[id_column].tolist()
        texts: dict[int, bytes] = {}
        for key, text in zip(keys, self._texts(table, column), strict=True):
            if key in wanted:
                texts.setdefault(key, text or b"")
        return texts

    def _columns(self, table: str) -> frozenset[str]:
        import pyarrow as pa
        import pyarrow.parquet

        with self._opened(table) as file:
            is_parquet = self._suffix == ".parquet"
            schema = pyarrow.parquet.read_schema(file) if is_parquet else pa.ipc.open_stream(file).schema
        if twice := sorted({name for name in schema.names if schema.names.count(name) > 1}):
            raise self._damage(f"{table} has two columns {twice[0]}")
        return frozenset(schema.names)

    def _opened(self, table: str) -> BinaryIO:
        """The file of a table, the same one each time. Not mapped: one that shrinks meanwhile would end the process."""
        file = open_file(self._folder / (table + self._suffix))
        if self._identities.setdefault(table, identity(file)) != identity(file):
            file.close()
            raise changed(self._folder.name)
        return file

    def _damage(self, found: str) -> UnreadableProfile:
        return UnreadableProfile(f"{self._folder.name}: a damaged export", found=found, hint="copy or export it again")

    def _batches(self, table: str, columns: Sequence[str]) -> Iterator[pyarrow.RecordBatch]:
        rows = self.count(table)
        if rows > self._limits.rows_per_table:  # before anything is held: a run of one value is short
            raise too_many_rows(self._folder.name, table, self._limits.rows_per_table)
        wanted = list(dict.fromkeys(columns))
        done = 0
        with self._opened(table) as file:
            for batch in (_of_parquet if self._suffix == ".parquet" else _of_stream)(file, wanted):
                check()
                done += batch.num_rows
                yield batch
        if done != rows:  # a column that is read alone may be as long as it likes
            raise self._damage(f"{table} has {count_text(rows)} rows and {count_text(done)} values of {columns[0]}")


def _of_parquet(file: BinaryIO, columns: list[str]) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow.parquet

    yield from pyarrow.parquet.ParquetFile(file).iter_batches(_ROWS_AT_ONCE, columns=columns)


def _of_stream(file: BinaryIO, columns: list[str]) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow as pa

    for batch in pa.ipc.open_stream(file):
        chosen = batch.select(columns)
        chosen.validate()  # Arrow takes buffers as they come: a short one would be read beyond its end
        yield chosen


def _rows_of_batches(messages: Iterable[pyarrow.Message]) -> Iterator[int]:
    """How many rows each batch of a stream says it has; as it may be packed, its columns could be larger than memory.

    The head of a message is a flatbuffer: a table begins with how far before it its list of fields lies, which says
    where in the table each is. Of a message, 1 is the kind of its header and 2 the header; of a batch, 0 is its length.
    """
    for message in messages:
        check()
        head = message.metadata.to_pybytes()
        try:
            (root,) = struct.unpack_from("<I", head)
            kind_at, header_at = _field_at(head, root, 1), _field_at(head, root, 2)
            if not kind_at or head[kind_at] != 3:  # MessageHeader.RecordBatch
                continue
            length_at = _field_at(head, header_at + struct.unpack_from("<I", head, header_at)[0], 0)
            yield struct.unpack_from("<q", head, length_at)[0] if length_at else 0
        except (struct.error, IndexError) as error:
            raise OSError(f"a message without a head: {error}") from None


def _field_at(head: bytes, table: int, number: int) -> int:
    """Where a field of a flatbuffer's table lies; 0 where it has its default."""
    fields = table - struct.unpack_from("<i", head, table)[0]
    size, at = struct.unpack_from("<H", head, fields)[0], 4 + 2 * number
    place = struct.unpack_from("<H", head, fields + at)[0] if at < size else 0
    return table + place if place else 0


def _stored_texts(values: pyarrow.Array) -> list[bytes | None]:
    import pyarrow as pa

    if not (pa.types.is_large_string(values.type) or pa.types.is_string(values.type)):
        values.validate(full=True)
        return [None if value is None else str(value).encode() for value in values.to_pylist()]
    stored = values.cast(pa.large_binary())
    stored.validate(full=True)  # as bytes: nsys's names need not be UTF-8
    as_bytes: list[bytes | None] = stored.to_pylist()
    return as_bytes


def _integers(column: pyarrow.Array) -> Ints | None:
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
    formats = (
        Format(
            "parquetdir, arrowdir",
            "`nsys export --type=parquetdir` (or arrowdir)",
            "as SQLite; needs `pip install 'gpuledger[arrow]'`",
            "nothing",
        ),
    )

    def recognises(self, source: Source) -> bool:
        return _suffix(source) is not None

    def read(self, source: Source, wanted: WantedColumns, limits: Limits, progress: Progress) -> Trace:
        suffix = _suffix(source)
        if suffix is None:
            raise ValueError(f"{source.path} is no export")
        with in_time(source.name, limits), _arrow_errors(source):
            return read_export(
                ArrowExport(source.path, suffix, limits, progress), source.name, wanted, limits, progress
            )

"""Files in, `Trace` out. One reader per format; the content decides which, not the extension."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.read.cache import may_be_cached
from gpuledger.read.nsys.container import Progress, Wanted
from gpuledger.read.nsys.reader import read_export
from gpuledger.read.nsys.sqlite import MAGIC, open_sqlite
from gpuledger.read.source import SEPARATOR, Source, look_at, unrecognised
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import Table


class Reader(Protocol):
    """One format."""

    name: str

    def recognises(self, source: Source) -> bool:
        """Whether this looks like the format, from its first bytes or its file names."""

    def read(self, source: Source, wanted: Wanted, limits: Limits, progress: Progress) -> Trace:
        """Read the columns in `wanted`."""


class SqliteReader:
    """Nsight Systems SQLite export -> Trace."""

    name = "nsys sqlite"

    def recognises(self, source: Source) -> bool:
        return source.head.startswith(MAGIC)

    def read(self, source: Source, wanted: Wanted, limits: Limits, progress: Progress) -> Trace:
        with open_sqlite(source, limits, progress) as export:
            return read_export(export, source.name, wanted, limits)


def _readers() -> Iterator[Reader]:
    """All formats, each imported when those before it did not know a file: most files are of the first."""
    yield SqliteReader()
    from gpuledger.read.nsys.arrow import ArrowReader

    yield ArrowReader()
    from gpuledger.read.nsys.rep_file import ReportReader

    yield ReportReader()
    from gpuledger.read.archive import ArchiveReader

    yield ArchiveReader()
    from gpuledger.read.torch.reader import TorchReader

    yield TorchReader()


def reader_of(source: Source) -> Reader | None:
    """Who reads this file or folder; None for what is no profile."""
    return next((each for each in _readers() if each.recognises(source)), None)


def no_progress(table: str, rows: int) -> None:
    """Says nothing."""


def open_trace(
    path: str | Path,
    *,
    only: Collection[Table] | Mapping[Table, Collection[str]] = tuple(Table),
    limits: Limits = DEFAULT_LIMITS,
    progress: Progress = no_progress,
    cache: bool = True,
) -> Trace:
    """Read the profile at `path`, or just what `only` names: some tables, or some columns of each.

    `ARCHIVE::MEMBER` names one of the traces in an archive. A profile that takes long to read is kept in the user's
    cache folder, and found there the next time; not with `cache=False`.
    """
    outer, separator, member = str(path).partition(SEPARATOR)
    wanted = _wanted(only)
    if separator and not Path(path).exists():
        from gpuledger.read.archive import read_member

        found = look_at(Path(outer))
        read = partial(read_member, found, member, wanted, limits, progress)
    else:
        found, member = look_at(Path(path)), ""
        reader = reader_of(found)
        if reader is None:
            raise unrecognised(found)
        read = partial(reader.read, found, wanted, limits, progress)
    if not (cache and may_be_cached(found)):
        return read()
    from gpuledger.read.cache.cached_open import cached_open

    return cached_open(found, member, wanted, limits, read)


def profiles_in(path: str | Path, limits: Limits = DEFAULT_LIMITS) -> list[str]:
    """What `open_trace` can open at `path`: the file itself, or the traces in an archive."""
    from gpuledger.read.archive import traces_in
    from gpuledger.read.stream import is_archive

    found = look_at(Path(path))
    if found.head and is_archive(found, limits):
        return [f"{path}{SEPARATOR}{member}" for member in traces_in(found, limits)]
    return [str(path)]


def _wanted(only: Collection[Table] | Mapping[Table, Collection[str]]) -> Wanted:
    """Which columns of which tables; times always, and a column's name must be one of the table's."""
    chosen = only if isinstance(only, Mapping) else {table: (c.name for c in table.schema.columns) for table in only}
    wanted = {table: frozenset(names) | {"start_ns", "end_ns"} for table, names in chosen.items()}
    for table, names in wanted.items():
        if unknown := names - {column.name for column in table.schema.columns}:
            raise ValueError(f"{table.value} has no column {min(unknown)}")
    return wanted

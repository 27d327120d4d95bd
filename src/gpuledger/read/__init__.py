"""Files in, `Trace` out. One reader per format; the content decides which, not the extension."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.model.tables import Table
from gpuledger.model.trace import Trace
from gpuledger.read.arrow import ArrowReader
from gpuledger.read.export import Progress
from gpuledger.read.nsys import read_export
from gpuledger.read.report import ReportReader
from gpuledger.read.source import Source, look_at, unrecognised
from gpuledger.read.sqlite import MAGIC, open_sqlite


class Reader(Protocol):
    """One format."""

    name: str

    def recognises(self, source: Source) -> bool:
        """Whether this looks like the format, from its first bytes or its file names."""

    def read(self, source: Source, only: Collection[Table], limits: Limits, progress: Progress) -> Trace:
        """Read the tables in `only`."""


class SqliteReader:
    """Nsight Systems SQLite export -> Trace."""

    name = "nsys sqlite"

    def recognises(self, source: Source) -> bool:
        return source.head.startswith(MAGIC)

    def read(self, source: Source, only: Collection[Table], limits: Limits, progress: Progress) -> Trace:
        with open_sqlite(source, limits, progress) as export:
            return read_export(export, source.name, only, limits)


READERS: tuple[Reader, ...] = (SqliteReader(), ArrowReader(), ReportReader())


def no_progress(table: str, rows: int) -> None:
    """Says nothing."""


def open_trace(
    path: str | Path,
    *,
    only: Collection[Table] = tuple(Table),
    limits: Limits = DEFAULT_LIMITS,
    progress: Progress = no_progress,
) -> Trace:
    """Read the profile at `path`, or just the tables in `only`."""
    found = look_at(Path(path))
    for reader in READERS:
        if reader.recognises(found):
            return reader.read(found, only, limits, progress)
    raise unrecognised(found)

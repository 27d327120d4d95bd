"""Nsight Systems SQLite export -> Trace."""

from __future__ import annotations

from gpuledger.limits import Limits
from gpuledger.read.nsys.reader import read_export
from gpuledger.read.nsys.sqlite import MAGIC, open_sqlite
from gpuledger.read.request import Progress, WantedColumns
from gpuledger.read.source import Source, in_time
from gpuledger.trace.model import Trace


class SqliteReader:
    """What `nsys export --type=sqlite` writes."""

    name = "nsys sqlite"

    def recognises(self, source: Source) -> bool:
        return source.head.startswith(MAGIC)

    def read(self, source: Source, wanted: WantedColumns, limits: Limits, progress: Progress) -> Trace:
        with in_time(source.name, limits), open_sqlite(source, limits, progress) as export:
            return read_export(export, source.name, wanted, limits, progress)

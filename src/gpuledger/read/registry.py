"""The formats that are read, in the order in which they are asked: a file in, the reader that knows it out.

A reader is a class without state. It is imported when those before it did not know a file: most files are of the first.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final, Protocol, cast

from gpuledger.limits import Limits
from gpuledger.read.request import Progress, WantedColumns
from gpuledger.read.source import Source
from gpuledger.trace.model import Trace


class Reader(Protocol):
    """One format."""

    name: str

    def recognises(self, source: Source) -> bool:
        """Whether this looks like the format, from its first bytes or its file names."""

    def read(self, source: Source, wanted: WantedColumns, limits: Limits, progress: Progress) -> Trace:
        """Read the columns in `wanted`."""


READERS: Final = (
    "nsys.sqlite.SqliteReader",
    "nsys.other_exports.ArrowReader",
    "nsys.report.NsysRepReader",
    "archive.ArchiveReader",
    "torch.reader.TorchReader",
    "rocm.text_files.RocprofCsvReader",
    "xplane.reader.XplaneReader",
)
"""Where each reader's class is, within `gpuledger.read`. A new format is a module, or a folder, and a line here."""


def load_reader(place: str) -> Reader:
    """The reader at one of the places in `READERS`."""
    module, _, class_name = place.rpartition(".")
    return cast("Reader", getattr(import_module(f"gpuledger.read.{module}"), class_name)())


def reader_of(source: Source) -> Reader | None:
    """Who reads this file or folder; None for what is no profile."""
    return next((reader for reader in map(load_reader, READERS) if reader.recognises(source)), None)

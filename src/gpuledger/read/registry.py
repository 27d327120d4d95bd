"""The formats that are read, in the order in which they are asked: a file in, the reader that knows it out.

A reader is a class without state. It is imported when those before it did not know a file: most files are of the first.
"""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class RegisteredReader:
    """Where a reader's class is."""

    module: str
    class_name: str

    def load(self) -> Reader:
        return cast("Reader", getattr(import_module(f"gpuledger.read.{self.module}"), self.class_name)())


READERS: Final = (
    RegisteredReader("nsys.sqlite", "SqliteReader"),
    RegisteredReader("nsys.other_exports", "ArrowReader"),
    RegisteredReader("nsys.other_exports", "NsysRepReader"),
    RegisteredReader("archive", "ArchiveReader"),
    RegisteredReader("torch.reader", "TorchReader"),
)


def reader_of(source: Source) -> Reader | None:
    """Who reads this file or folder; None for what is no profile."""
    readers = (registered.load() for registered in READERS)
    return next((reader for reader in readers if reader.recognises(source)), None)

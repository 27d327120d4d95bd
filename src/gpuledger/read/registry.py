"""The formats that are read, in the order in which they are asked: a file in, the reader that knows it out.

A reader is a class without state. It is imported when those before it did not know a file: most files are of the first.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final, Protocol, cast

from gpuledger.limits import Limits
from gpuledger.read.request import Format, Progress, WantedColumns
from gpuledger.read.source import Source, is_text_of_binary
from gpuledger.trace.model import Trace


class Reader(Protocol):
    """One format."""

    name: str

    @property
    def formats(self) -> tuple[Format, ...]:
        """The files that it reads."""

    def recognises(self, source: Source) -> bool:
        """Whether this looks like the format, from its first bytes or its file names."""

    def read(self, source: Source, wanted: WantedColumns, limits: Limits, progress: Progress) -> Trace:
        """Read the columns in `wanted`."""


READERS: Final = (
    "sqlite.SqliteReader",
    "nsys.other_exports.ArrowReader",
    "nsys.report.NsysRepReader",
    "archive.ArchiveReader",
    "torch.reader.TorchReader",
    "rocm.text_files.RocprofCsvReader",
    "perfetto.reader.PerfettoReader",
    "xplane.reader.XplaneReader",
)
"""Where each reader's class is, within `gpuledger.read`. All else that lists readers or formats derives from this."""


def load_reader(place: str) -> Reader:
    """The reader at one of the places in `READERS`."""
    module, _, class_name = place.rpartition(".")
    return cast("Reader", getattr(import_module(f"gpuledger.read.{module}"), class_name)())


_OTHERS_FIRST: Final = ((b"{", READERS[4:]), (b"[", READERS[4:]), (b"\x1f\x8b", READERS[3:]))
"""Who is asked first about what begins so: a trace in JSON, also packed, is none of nsys's, whose readers take time."""


def reader_of(source: Source) -> Reader | None:
    """Who reads this file or folder; None for what is no profile."""
    if is_text_of_binary(source.head):
        return None
    first = next((places for begin, places in _OTHERS_FIRST if source.head.lstrip().startswith(begin)), ())
    readers = map(load_reader, dict.fromkeys((*first, *READERS)))
    return next((reader for reader in readers if reader.recognises(source)), None)


def formats_table() -> str:
    """The table of formats in Markdown, as `gpuledger info --formats` and docs/reference/formats.md have it."""
    lines = [("format", "made by", "versions seen", "lacks", "reader"), ("---",) * 5]
    lines += [(*entry, reader.name) for reader in map(load_reader, READERS) for entry in reader.formats]
    return "\n".join(f"| {' | '.join(cell or '–' for cell in cells)} |" for cells in lines)

"""Which format a file's name asks for: the ending in, how to write it out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from gpuledger.errors import OutputRefused
from gpuledger.export.timeline import TimelineSection


class Writer(Protocol):
    """Sections in, bytes out."""

    def write(self, sections: Iterable[TimelineSection]) -> Iterator[bytes]:
        """The whole file, a chunk at a time."""


@dataclass(frozen=True, slots=True)
class TimelineFormat:
    """How a timeline is written."""

    chrome: bool
    """In Chrome's format, else in Perfetto's."""
    packed: bool
    """Through gzip."""

    def writer(self, base_ns: int) -> Writer:
        """Something that encodes it; `base_ns` is the time that becomes 0."""
        if self.chrome:
            from gpuledger.export.chrome import ChromeWriter

            return ChromeWriter(base_ns)
        from gpuledger.export.perfetto import PerfettoWriter

        return PerfettoWriter(base_ns)


ENDINGS: Final = {
    ".pftrace": TimelineFormat(chrome=False, packed=False),
    ".perfetto-trace": TimelineFormat(chrome=False, packed=False),
    ".pftrace.gz": TimelineFormat(chrome=False, packed=True),
    ".perfetto-trace.gz": TimelineFormat(chrome=False, packed=True),
    ".json": TimelineFormat(chrome=True, packed=False),
    ".json.gz": TimelineFormat(chrome=True, packed=True),
}
TABLES: Final = ".parquet"


def form_of(name: str) -> TimelineFormat | None:
    """How to write a file of this name; None: as tables, into a folder of this name."""
    lower = name.lower()
    if lower.endswith((TABLES, "/")):
        return None
    for ending, form in ENDINGS.items():
        if lower.endswith(ending):
            return form
    raise OutputRefused(
        f"{name}: the ending says nothing about the format; timelines end in {', '.join(ENDINGS)}, "
        f"and tables are written into a folder that ends in {TABLES} or /"
    )


def packed(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same through gzip; the same bytes give the same bytes."""
    from zlib_ng import zlib_ng

    press = zlib_ng.compressobj(5, zlib_ng.DEFLATED, 31)  # 31: with a gzip header, which holds no time
    for chunk in chunks:
        yield press.compress(chunk)
    yield press.flush()

"""Which format a file's name asks for: the ending in, how to write it out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from gpuledger.errors import OutputRefused
from gpuledger.export.timeline import Section


class Writer(Protocol):
    """Sections in, bytes out."""

    def write(self, sections: Iterable[Section]) -> Iterator[bytes]:
        """The whole file, a chunk at a time."""


@dataclass(frozen=True, slots=True)
class Form:
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
    ".pftrace": Form(chrome=False, packed=False),
    ".perfetto-trace": Form(chrome=False, packed=False),
    ".pftrace.gz": Form(chrome=False, packed=True),
    ".perfetto-trace.gz": Form(chrome=False, packed=True),
    ".json": Form(chrome=True, packed=False),
    ".json.gz": Form(chrome=True, packed=True),
}
TABLES: Final = ".parquet"


def form_of(name: str) -> Form | None:
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

"""A large trace read on several cores: cut between events into parts, each read by a process of its own.

Each part is made whole with a few bytes before and after it, so that it is read like any trace. A gzipped text cannot
be entered in its middle: every process unpacks it up to the end of its own part, which takes a tenth of the time that
parsing takes. Processes are forked, which is safe only where no other thread runs; elsewhere, and for anything unusual,
the trace is read in one piece.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Final

from gpuledger.errors import GpuledgerError
from gpuledger.limits import Limits
from gpuledger.read.request import Progress, WantedColumns
from gpuledger.read.source import Source, opened
from gpuledger.read.stream import GZIP, ByteStream, Gunzipped, PlainFile, RejoinedStream, read_ahead, unpacked_size
from gpuledger.read.torch.events import BETWEEN
from gpuledger.read.torch.gather import GatheredEvents, gather
from gpuledger.read.torch.merge import LocalPart, RemotePart, TracePart, merged, send
from gpuledger.trace.tables import Table

WORTH_IT: Final = 48 << 20
"""A shorter text is read before a process has started."""

_MOST: Final = 8
_MOST_PACKED: Final = 4
"""More processes would only unpack the same."""

_WINDOW: Final = 1 << 20
_BEFORE: Final = b'{"traceEvents": ['
_AFTER: Final = b"]}"

_Span = tuple[int, int | None]
"""Where a part begins and ends: at the first end of an event from there on. None is the text's end."""


def gather_in_parts(source: Source, wanted: WantedColumns, limits: Limits, progress: Progress) -> GatheredEvents | None:
    """The whole file; None where it has to be read in one piece."""
    is_packed = source.head.startswith(GZIP)
    if not _may_fork():
        return None
    size = unpacked_size(source) if is_packed else source.size
    count = min(os.cpu_count() or 1, size // (WORTH_IT // 2), _MOST_PACKED if is_packed else _MOST)
    if size < WORTH_IT or count < 2:
        return None
    edges = [size * part // count for part in range(count)]
    spans = list(zip(edges, [*edges[1:], None], strict=True))
    context = multiprocessing.get_context("fork")
    children = []
    # Ctrl-C is the parent's to answer: children never see it, and it ends them
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        for span in spans[1:]:
            receiving, sending = context.Pipe(duplex=False)
            child = context.Process(target=_send, args=(sending, source, span, wanted, limits), daemon=True)
            with warnings.catch_warnings():
                # Python 3.12 counts the idle threads of numpy's linear algebra, which no part uses
                warnings.simplefilter("ignore", DeprecationWarning)
                child.start()
            sending.close()
            children.append((child, receiving))
        signal.pthread_sigmask(signal.SIG_SETMASK, usual)
        first = _part(source, spans[0], wanted, limits, progress)
        return None if first is None else _whole(first, [receiving for _, receiving in children], limits)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, usual)
        for child, receiving in children:
            receiving.close()
            child.terminate()
            child.join()


def _whole(first: GatheredEvents, others: list[Connection], limits: Limits) -> GatheredEvents | None:
    """All parts together; None if one of them is missing, or odd: then it is looked at in one piece."""
    parts: list[TracePart] = [LocalPart(first)]
    try:
        for receiving in others:
            arriving = RemotePart(receiving)
            if not arriving.is_whole:
                return None
            parts.append(arriving)
        if any(part.rest.has_named_threads for part in parts) or any(part.rest.notes for part in parts[:-1]):
            return None
        if any(note.code != "trace-cut-off" for note in parts[-1].rest.notes):
            return None
        found = merged(parts)
    except (EOFError, OSError):  # a child died
        return None
    rows = Counter[Table]()
    for (table, _), columns in found.feeds.items():
        rows[table] += len(columns["start_ns"])
    return found if max(rows.values(), default=0) <= limits.rows_per_table else None


def _may_fork() -> bool:
    """Whether this process can be copied: it runs no other thread, and may have children."""
    alone = threading.active_count() == 1 and not multiprocessing.current_process().daemon
    return alone and "fork" in multiprocessing.get_all_start_methods()


class _Part:
    """A part of a text, with a few bytes before and after it so that it is a trace by itself.

    The neighbours of a part look at the same bytes from the same place for where it begins and ends.
    """

    def __init__(self, stream: ByteStream, start: int, end: int | None) -> None:
        self._stream, self._before, self._is_ended = stream, b"", False
        self._left = None if end is None else end - start
        if start:
            window, cut = _next_cut(stream)
            begins = window.index(b",", cut) + 1  # the comma before the first event
            self._before, self._stream = _BEFORE, RejoinedStream(window[begins:], stream)
            if self._left is not None:
                self._left -= begins
                if self._left < 0:
                    raise ValueError("an event is longer than the part that it ends in")

    @property
    def cut(self) -> str:
        return self._stream.cut

    def read(self, size: int = -1, /) -> bytes:
        if self._before:
            found, self._before = self._before, b""
            return found
        if self._left is None:
            return self._stream.read(size)
        if self._left:
            found = self._stream.read(min(size, self._left))
            if not found:
                raise ValueError("the text ends before its part does")
            self._left -= len(found)
            return found
        if self._is_ended:
            return b""
        self._is_ended = True
        window, cut = _next_cut(self._stream)
        return window[:cut] + _AFTER


def _next_cut(stream: ByteStream) -> tuple[bytes, int]:
    """The next bytes of a text, and where in them an event ends for the first time."""
    window = b""
    while len(window) < _WINDOW and (more := stream.read(_WINDOW - len(window))):
        window += more
    match = BETWEEN.search(window)
    if match is None:
        raise ValueError("no event ends near")
    return window, match.start() + 1


@contextmanager
def _text_from(source: Source, start: int, limits: Limits) -> Iterator[ByteStream]:
    """What a file holds, from a place on."""
    with opened(source) as file:
        if not source.head.startswith(GZIP):
            file.seek(start)
            yield PlainFile(file)
            return
        text = Gunzipped(PlainFile(file), source.name, limits)
        while start and (passed := len(text.read(min(start, _WINDOW)))):
            start -= passed
        with read_ahead(text) as stream:
            yield stream


def _part(
    source: Source, span: _Span, wanted: WantedColumns, limits: Limits, progress: Progress
) -> GatheredEvents | None:
    """One part; None if it cannot be read by itself."""
    try:
        with _text_from(source, span[0], limits) as text:
            return gather(_Part(text, *span), source.name, wanted, limits, progress)
    except (GpuledgerError, ValueError):
        return None


def _send(sending: Connection, source: Source, span: _Span, wanted: WantedColumns, limits: Limits) -> None:
    send(sending, _part(source, span, wanted, limits, lambda _table, _rows: None))
    sending.close()

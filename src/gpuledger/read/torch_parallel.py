"""A large file read on several cores: cut between events into parts, each read by a process of its own.

Each part is made whole with a few bytes before and after it, so that it is read like any trace. Processes are forked,
which is safe only where no other thread runs; elsewhere, and for anything unusual, the file is read in one piece.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import warnings
from itertools import pairwise
from multiprocessing.connection import Connection
from typing import BinaryIO, Final

from gpuledger.errors import GpuledgerError
from gpuledger.limits import Limits
from gpuledger.read.events import BETWEEN
from gpuledger.read.export import Progress, Wanted
from gpuledger.read.source import Source, opened
from gpuledger.read.stream import Bytes
from gpuledger.read.torch_gather import Gathered, gather, merged

WORTH_IT: Final = 48 << 20
"""Smaller files are read before a process has started."""

_WINDOW: Final = 1 << 20
_BEFORE: Final = b'{"traceEvents": ['
_AFTER: Final = b"]}"


def gather_in_parts(source: Source, wanted: Wanted, limits: Limits, progress: Progress) -> Gathered | None:
    """The whole file; None where it has to be read in one piece."""
    count = min(os.cpu_count() or 1, source.size // (WORTH_IT // 2), 8)
    if source.size < WORTH_IT or count < 2 or not _may_fork():
        return None
    edges = _edges(source, count)
    if len(edges) < 3:
        return None
    spans = list(pairwise(edges))
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
        parts = [first, *(_received(receiving) for _, receiving in children)]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, usual)
        for child, receiving in children:
            receiving.close()
            child.terminate()
            child.join()
    whole = [part for part in parts if part is not None]
    if len(whole) < len(parts) or any(part.has_named_threads for part in whole):
        return None
    if any(part.notes for part in whole[:-1]) or any(note.code != "trace-cut-off" for note in whole[-1].notes):
        return None  # something is odd: look at it in one piece
    return merged(whole)


def _may_fork() -> bool:
    """Whether this process can be copied: it runs no other thread, and may have children."""
    alone = threading.active_count() == 1 and not multiprocessing.current_process().daemon
    return alone and "fork" in multiprocessing.get_all_start_methods()


def _edges(source: Source, count: int) -> list[int]:
    """Where the parts begin and end: the file's bounds, and ends of events near equal distances."""
    edges = [0]
    with opened(source) as file:
        for part in range(1, count):
            at = source.size * part // count
            file.seek(at)
            match = BETWEEN.search(file.read(_WINDOW))
            if match is not None and at + match.start() + 1 > edges[-1]:
                edges.append(at + match.start() + 1)
    return [*edges, source.size]


class _Part:
    """Some bytes of a file, with others before and after them so that they are a trace by themselves."""

    cut = ""

    def __init__(self, file: BinaryIO, start: int, end: int, size: int) -> None:
        self._file = file
        file.seek(start)
        if start:
            file.seek(start + file.read(_WINDOW).index(b",") + 1)  # the comma before the first event
        self._left = end - file.tell()
        self._before = _BEFORE if start else b""
        self._after = _AFTER if end < size else b""

    def read(self, size: int = -1, /) -> bytes:
        if self._before:
            found, self._before = self._before, b""
            return found
        if self._left:
            found = self._file.read(self._left if size < 0 else min(size, self._left))
            self._left -= len(found) or self._left
            return found
        found, self._after = self._after, b""
        return found


def _part(source: Source, span: tuple[int, int], wanted: Wanted, limits: Limits, progress: Progress) -> Gathered | None:
    """One part; None if it cannot be read by itself."""
    try:
        with opened(source) as file:
            stream: Bytes = _Part(file, *span, source.size)
            return gather(stream, source.name, wanted, limits, progress)
    except (GpuledgerError, ValueError):
        return None


def _send(sending: Connection, source: Source, span: tuple[int, int], wanted: Wanted, limits: Limits) -> None:
    sending.send(_part(source, span, wanted, limits, lambda _table, _rows: None))
    sending.close()


def _received(receiving: Connection) -> Gathered | None:
    """What a child sent; None if it died."""
    try:
        found: Gathered | None = receiving.recv()
    except (EOFError, OSError):
        return None
    return found

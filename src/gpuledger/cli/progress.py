"""What a reader is doing, on stderr, for people who wait: after a second, on a terminal only, and gone when done."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator

from gpuledger.read import no_progress
from gpuledger.read.request import Progress
from gpuledger.units import count_text

_FIRST_AFTER_S = 1.0
_EVERY_S = 0.1


class Ticker:
    """Rewrites one line."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._last = 0.0
        self._drawn = False

    def __call__(self, table: str, rows: int) -> None:
        now = time.monotonic()
        if now - self._began < _FIRST_AFTER_S or now - self._last < _EVERY_S:
            return
        self._last, self._drawn = now, True
        done = f": {count_text(rows)} rows" if rows else ""
        sys.stderr.write(f"\r\x1b[Kreading {table}{done}")
        sys.stderr.flush()

    def clear(self) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


@contextlib.contextmanager
def progress(*, quiet: bool) -> Iterator[Progress]:
    """Something to hand to `open_trace`."""
    if quiet or not sys.stderr.isatty():
        yield no_progress
        return
    ticker = Ticker()
    try:
        yield ticker
    finally:
        ticker.clear()

"""What a command is doing, on stderr, for people who wait: on a terminal only, and gone when done.

Readers tell which table they are at, verbs which stage comes next. Within a stage a thread keeps the clock on the line
going, so that no second passes without a sign of life, however long one call of numpy takes. There is no such thread
while a profile is read: readers fork, which wants no other thread, and tell often how far they are.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gpuledger.cli.terminal import columns
from gpuledger.present.safe_text import visible
from gpuledger.units import count_text

_FIRST_AFTER_S: Final = 0.2
_EVERY_S: Final = 0.1
_LARGE_BYTES: Final = 50 * 10**6


class ProgressLine:
    """One line of a terminal, drawn again and again. One that is not shown does nothing."""

    def __init__(self, *, is_shown: bool) -> None:
        self._is_shown: Final = is_shown
        self._began: Final = time.monotonic()
        self._last = 0.0
        self._text = ""
        self._is_drawn = False
        self._done = threading.Event()
        self._clock: threading.Thread | None = None

    def __call__(self, table: str, rows: int) -> None:
        """Reading: what, and how many rows of it so far."""
        self._text = f"reading {table}" + (f": {count_text(rows)} rows" if rows else "")
        self._draw()

    def begin(self, path: object) -> None:
        """A large file is named at once: the first table of it takes a while."""
        if self._is_shown and isinstance(path, Path) and path.is_file() and path.stat().st_size >= _LARGE_BYTES:
            self._write(f"reading {path.name}")

    def stage(self, name: str) -> None:
        """What comes next takes a while, and tells nothing itself."""
        if not self._is_shown:
            return
        self._text = name
        if self._clock is None:
            self._done.clear()
            self._clock = threading.Thread(target=self._keep_going, daemon=True)
            self._clock.start()

    def clear(self) -> None:
        """Nothing is waited for: the line is free for what is printed."""
        if self._clock is not None:
            self._done.set()
            self._clock.join()
            self._clock = None
        if self._is_drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._is_drawn = False

    def _keep_going(self) -> None:
        while not self._done.wait(_EVERY_S):
            self._draw()

    def _draw(self) -> None:
        now = time.monotonic()
        if not self._is_shown or now - self._began < _FIRST_AFTER_S or now - self._last < _EVERY_S / 2:
            return
        self._last = now
        self._write(f"{self._text}, {now - self._began:.1f} s")

    def _write(self, line: str) -> None:
        self._is_drawn = True
        sys.stderr.write(f"\r\x1b[K{visible(line)[: (columns(sys.stderr) or 80) - 1]}")
        sys.stderr.flush()


SILENT: Final = ProgressLine(is_shown=False)


@contextlib.contextmanager
def progress(*, quiet: bool) -> Iterator[ProgressLine]:
    """Something to hand to `open_trace`, and to tell stages to. It is gone when the block ends."""
    is_shown = not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    line = ProgressLine(is_shown=True) if is_shown else SILENT
    try:
        yield line
    finally:
        line.clear()

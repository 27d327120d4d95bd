"""The terminal that results go to: its width, whether to colour, and on stderr what a command is doing, gone when done.

Python asks `sys.__stdout__`, which `cli.main` has taken over, so the width is asked of the stream that is written.
Readers tell which table they are at, verbs which stage comes next. Within a stage a thread keeps the clock on the line
going, so that no second passes without a sign of life. There is no such thread while a profile is read: readers fork,
which wants no other thread, and tell often how far they are.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO

_WIDTH_UNKNOWN: Final = 80  # a serial line, or a terminal that never said: it reports 0 columns


def columns(stream: TextIO) -> int | None:
    """`COLUMNS` where it is set, as everywhere; else the width of the stream's terminal; None where it has none."""
    wished = os.environ.get("COLUMNS", "")
    if wished.isdecimal() and int(wished):
        return int(wished)
    if not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or _WIDTH_UNKNOWN
    except OSError:
        return _WIDTH_UNKNOWN


def help_width(stream: TextIO) -> int:
    """How wide help is: as wide as the terminal, but no wider than is easy to read."""
    return min(columns(stream) or _WIDTH_UNKNOWN, _WIDTH_UNKNOWN) - 2


def has_colours(stream: TextIO) -> bool:
    """Whether to colour what goes to a stream: `NO_COLOR` forbids it, `FORCE_COLOR` and `CLICOLOR_FORCE` ask for it."""
    if os.environ.get("NO_COLOR"):
        return False
    if any(os.environ.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb" and os.environ.get("CLICOLOR") != "0"


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
        from gpuledger.units import count_text

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
        from gpuledger.present.safe_text import visible

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

"""The terminal that results go to: its width, and whether to colour.

Python asks `sys.__stdout__`, which `cli.main` has taken over, so the width is asked of the stream that is written.
"""

from __future__ import annotations

import os
from typing import Final, TextIO

_WIDTH_UNKNOWN: Final = 80
"""A serial line, or a terminal that never said: it reports 0 columns."""


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

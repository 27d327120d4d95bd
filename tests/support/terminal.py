"""The command in a terminal: a pseudo-terminal of a given width under stdout and stderr, within this process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import struct
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

from support.command import called

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def in_terminal(*arguments: str | Path, columns: int, **environment: str) -> str:
    """What a terminal of so many columns is sent, progress and colours included."""
    with _terminal(columns) as (number, received):
        ran = called(arguments, {"TERM": "xterm-256color", **environment}, onto=number)
        assert ran.exit_code == 0, ran
    return b"".join(received).decode().replace("\r\n", "\n")


def without_colours(text: str) -> str:
    """The text without escapes; of lines that were drawn again, the last."""
    return "\n".join(_ESCAPES.sub("", line).rpartition("\r")[2] for line in text.split("\n"))


@contextlib.contextmanager
def _terminal(columns: int) -> Iterator[tuple[int, list[bytes]]]:
    """A terminal's number, and what it was sent, complete when the block ends."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    received: list[bytes] = []
    reader = threading.Thread(target=_read, args=(ours, received))
    reader.start()
    try:
        yield theirs, received
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)


def _read(number: int, received: list[bytes]) -> None:
    with contextlib.suppress(OSError):  # how the other end says that it is closed
        while part := os.read(number, 1 << 16):
            received.append(part)

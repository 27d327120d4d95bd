"""A file that is written whole, also where it would not block: the number of an open file in, a stream of bytes out.

A pipe that event loops and terminals share may be set not to block. When it is full, Python's own streams drop what
does not fit, and say so in ways that are easily lost; ours waits until the reader has made room. Without a buffer
(PYTHONUNBUFFERED) they also ignore that only a part was taken; a buffered writer goes on with the rest.
"""

from __future__ import annotations

import io
import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _PatientFile(io.FileIO):
    """Takes at least some of what it is given."""

    def write(self, content: ReadableBuffer, /) -> int:
        while True:
            taken: int | None = super().write(content)  # None: it is full, and would not block
            if taken is not None:
                return taken
            room = select.poll()
            room.register(self, select.POLLOUT)
            room.poll()


def patient_writer(number: int) -> io.BufferedWriter:
    """Writes to the open file of this number, and leaves it open at its end."""
    return io.BufferedWriter(_PatientFile(number, "w", closefd=False))

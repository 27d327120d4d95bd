"""What a command sets for its own process at the start. Light: `--help` imports it.

Memory that was freed is kept for the next array: a setting of the C library, for the life of a command.

An analysis makes and drops columns by the hundred. The C library gives each large one back to the system, which clears
its pages again for the next: on a large profile that takes as long as the work on them. A command ends soon, so it
keeps what it has. Only columns of millions of rows are given back: kept, they would lie beside new ones of another
length, and memory would grow to far more than is in use. A library must not decide this for its process: only the
command's `main` asks for it.

A file that is written whole, also where it would not block: the number of an open file in, a stream of bytes out.

A pipe that event loops and terminals share may be set not to block. When it is full, Python's own streams drop what
does not fit, and say so in ways that are easily lost; ours waits until the reader has made room. Without a buffer
(PYTHONUNBUFFERED) they also ignore that only a part was taken; a buffered writer goes on with the rest.
"""

from __future__ import annotations

import ctypes
import io
import select
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_TRIM_THRESHOLD: Final = -1  # the numbers of glibc's malloc.h
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
_NEVER: Final = 2**31 - 1
_GIVEN_BACK_BYTES: Final = 16 << 20


def keep_freed_memory() -> None:
    """Ask glibc to. Other C libraries have no such setting, and go on as they do."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_ARENA_MAX, 1)  # what one thread freed is there for the others
        set_option(_MMAP_THRESHOLD, _GIVEN_BACK_BYTES)
        set_option(_TRIM_THRESHOLD, _NEVER)


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

"""What arrives on standard input, kept in a file: profiles are read here and there, and a pipe can be read once."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from gpuledger.errors import GpuledgerError

NAME: Final = "stdin"
"""What the file is called, and so what reports call the profile."""

_PIECE: Final = 1 << 20


@contextlib.contextmanager
def spooled(stream: BinaryIO) -> Iterator[Path]:
    """All of the stream as a file, gone when the block ends."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="gpuledger-")
    except OSError as error:
        raise _no_room(error) from None
    with folder as place:
        path = Path(place) / NAME
        try:
            with path.open("wb") as file:
                shutil.copyfileobj(stream, file, _PIECE)
        except OSError as error:
            raise _no_room(error) from None
        yield path


def _no_room(error: OSError) -> GpuledgerError:
    return GpuledgerError(
        f"standard input cannot be kept in {tempfile.gettempdir()}: {(error.strerror or str(error)).lower()}",
        hint="save the profile to a file and name that, or set TMPDIR to a folder with room for it",
    )

"""Files that appear whole or not at all: written beside their place, then renamed.

A reader sees the old file or the new one, never half of one; what fails leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

from gpuledger.errors import OutputRefused


def refuse_existing(path: Path) -> OutputRefused:
    """The refusal to overwrite."""
    return OutputRefused(f"{path}: exists already", hint="--force overwrites it")


@contextlib.contextmanager
def replacing(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """A file to write to that takes the place of `path` once all went well. A device or a pipe is written to itself."""
    try:
        with _itself(path) if path.exists() and not path.is_file() else _beside(path, force) as file:
            yield file
    except FileExistsError:
        raise refuse_existing(path) from None
    except OSError as error:
        raise OutputRefused(f"{path}: cannot be written: {(error.strerror or str(error)).lower()}") from None


@contextlib.contextmanager
def replacing_in(folder: Path, names: Collection[str], *, force: bool) -> Iterator[Path]:
    """A folder to write files of these names to, which then take their places in `folder`; others there stay."""
    if folder.exists() and not folder.is_dir():
        raise OutputRefused(f"{folder}: is a file, and tables are written into a folder", hint="name another folder")
    there = [name for name in sorted(names) if (folder / name).exists()]
    if there and not force:
        raise refuse_existing(folder / there[0])
    try:
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.absolute().parent) as name:
            beside = Path(name)
            yield beside
            folder.mkdir(exist_ok=True)
            for old in there:
                (folder / old).unlink()
            for new in sorted(beside.iterdir()):
                new.replace(folder / new.name)
    except OSError as error:
        raise OutputRefused(f"{folder}: cannot be written: {(error.strerror or str(error)).lower()}") from None


@contextlib.contextmanager
def _itself(path: Path) -> Iterator[BinaryIO]:
    with os.fdopen(os.open(path, os.O_WRONLY), "wb") as file:
        yield file


@contextlib.contextmanager
def _beside(path: Path, force: bool) -> Iterator[BinaryIO]:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    beside = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        beside.chmod(0o666 & ~_umask())
        if force:
            beside.replace(path)
        else:
            os.link(beside, path)  # fails if somebody made the file in the meantime
    finally:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

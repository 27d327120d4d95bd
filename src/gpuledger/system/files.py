"""Files that appear whole or not at all: made beside their place, then renamed. The only module that does so.

`whole_file` is for what we write ourselves, `put_in_place` for what another program makes under a name that we give it;
both raise OSError. `replacing` and `replacing_in` are for what the user asked for with --output: what is in the way is
refused in a sentence. `spool_to_file` keeps standard input in a file, as a pipe can be read once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from gpuledger.errors import GpuledgerError, OutputRefused

PARTIAL: Final = ".partial"
"""How the name of a file ends that is not whole yet. Only who was killed leaves one."""

SEPARATOR: Final = "::"
"""Between an archive's path and a member's name."""

_NAME_CHARACTERS: Final = 32


class Abandoned(Exception):
    """Raised while a file is made by whoever wants it no more, and caught around: it goes, and that is no failure."""


@contextlib.contextmanager
def put_in_place(path: Path, *, overwrite: bool = True, ending: str = PARTIAL) -> Iterator[Path]:
    """A name beside `path` that nothing has: what is made there takes the place of `path` once all went well.

    Without `overwrite`, FileExistsError tells that somebody else was first.
    """
    # a name may be as long as the system allows, and ours must not be longer
    beside = path.with_name(f".{path.name[:_NAME_CHARACTERS]}.{os.urandom(4).hex()}{ending}")
    try:
        yield beside
        if overwrite:
            beside.replace(path)
        else:
            os.link(beside, path)
    finally:
        beside.unlink(missing_ok=True)


@contextlib.contextmanager
def whole_file(
    path: Path, *, overwrite: bool = True, private: bool = False, durable: bool = False
) -> Iterator[BinaryIO]:
    """A file to write to that takes the place of `path` once all went well.

    `private` is for its owner alone, whatever the user's umask allows; `durable` survives a crash of the machine.
    """
    with put_in_place(path, overwrite=overwrite) as beside:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
        with os.fdopen(handle, "wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())


def reason_of(error: OSError) -> str:
    """What the system says, in small letters, for the second half of a sentence."""
    return (error.strerror or str(error)).lower()


def refuse_existing(path: Path) -> OutputRefused:
    """The refusal to overwrite."""
    return OutputRefused(f"{path}: exists already", hint="--force overwrites it")


@contextlib.contextmanager
def replacing(path: Path, *, force: bool, private: bool = False) -> Iterator[BinaryIO]:
    """A file to write to that takes the place of `path` once all went well. A device or a pipe is written to itself."""
    try:
        is_special = path.exists() and not path.is_file()
        with (
            os.fdopen(os.open(path, os.O_WRONLY), "wb")
            if is_special
            else whole_file(path, overwrite=force, private=private)
        ) as file:
            yield file
    except FileExistsError:
        raise refuse_existing(path) from None
    except OSError as error:
        raise OutputRefused(f"{path}: cannot be written: {reason_of(error)}") from None


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
        raise OutputRefused(f"{folder}: cannot be written: {reason_of(error)}") from None


NAME: Final = "stdin"  # what the file is called, and so what reports call the profile

_PIECE: Final = 1 << 20


@contextlib.contextmanager
def spool_to_file(stream: BinaryIO) -> Iterator[Path]:
    """All of the stream as a file, gone when the block ends."""
    with contextlib.ExitStack() as stack:
        try:
            path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpuledger-"))) / NAME
            with path.open("wb") as file:
                shutil.copyfileobj(stream, file, _PIECE)
        except OSError as error:
            raise GpuledgerError(
                f"standard input cannot be kept in {tempfile.gettempdir()}: {reason_of(error)}",
                hint="save the profile to a file and name that, or set TMPDIR to a folder with room for it",
            ) from None
        yield path


def cache_folder() -> Path:
    """The folder, which need not exist. Relative where the system knows neither a home nor another place."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("gpuledger", appauthor=False))


def make_private(folder: Path) -> None:
    """Make a folder in the cache folder for its owner alone; what is kept there may be of files that nobody else reads.

    Each on the way is made so: `parents=True` would make them for all to look into.
    """
    top = cache_folder()
    below = [place for place in (folder, *folder.parents) if place.is_relative_to(top)]
    for place in reversed(below):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if place.stat().st_mode & 0o077:  # of an earlier version
            place.chmod(0o700)

"""The files of a run, in one place: what is read is small, what is written is whole or not there at all.

Command lines stand in them, and what programs print: folders and files are for their owner alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import IO, Any, Final

from gpuledger.errors import GpuledgerError, OutputRefused
from gpuledger.system.files import reason_of, replacing

STATE: Final = "state.json"
_LOCK: Final = ".lock"
_LARGEST: Final = 256 * 1024 * 1024
_TAIL: Final = 64 * 1024


def shipped_runbooks() -> tuple[str, ...]:
    """The names of the runbooks that come with the package."""
    entries = files("gpuledger").joinpath("runbooks").iterdir()
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml")))


def shipped_text(name: str) -> bytes:
    """The text of one of them."""
    return files("gpuledger").joinpath("runbooks", f"{name}.yaml").read_bytes()


def runbook_text(path: Path) -> bytes:
    """The text of a runbook of the user's."""
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST)
    except OSError as error:
        raise GpuledgerError(f"{path}: cannot be read: {reason_of(error)}") from None


def make_folder(folder: Path) -> None:
    """Make a folder that may be there already."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OutputRefused(f"{folder}: cannot be made: {reason_of(error)}") from None


def empty_folder(folder: Path) -> None:
    """A folder of a cell, without what an earlier run left in it."""
    try:
        if folder.exists():
            shutil.rmtree(folder)
    except OSError as error:
        raise OutputRefused(f"{folder}: cannot be emptied: {reason_of(error)}") from None
    make_folder(folder)


def is_free(folder: Path) -> bool:
    """Whether a run may begin in a folder: it is not there, or empty, or another run's."""
    try:
        return (
            not folder.exists() or (folder / STATE).exists() or all(entry.name == _LOCK for entry in folder.iterdir())
        )
    except OSError as error:
        raise OutputRefused(f"{folder}: cannot be used: {reason_of(error)}") from None


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Refuse a second run in the same folder. The system gives the lock back whatever becomes of us."""
    try:
        handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise OutputRefused(f"{folder}: cannot be written to: {reason_of(error)}") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            hint = "wait until it has ended, or choose another folder with --output"
            raise OutputRefused(f"{folder}: another run is in progress here", hint=hint) from None
        yield
    finally:
        os.close(handle)


def write_whole(path: Path, text: str) -> None:
    """Write beside, then rename; what survives us should survive the machine too."""
    with replacing(path, force=True, private=True) as file:
        file.write(text.encode(errors="backslashreplace"))
        file.flush()
        os.fsync(file.fileno())


def json_at(path: Path) -> dict[str, Any] | None:
    """A JSON document; None where there is none that can be read."""
    try:
        with path.open("rb") as file:
            document = json.loads(file.read(_LARGEST))
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def last_line(path: Path) -> str:
    """The last line of a log that says something; one that begins with `error:` says more than a hint after it."""
    try:
        with path.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - _TAIL, 0))
            text = file.read(_TAIL).decode(errors="replace")
    except OSError:
        return "it has no log"
    lines = [line.strip() for line in text.replace("\r", "\n").splitlines() if line.strip()]
    if not lines:
        return "it said nothing"
    return next((line for line in reversed(lines) if line.lower().startswith("error:")), lines[-1])


@contextlib.contextmanager
def log_at(path: Path, heading: str) -> Iterator[IO[bytes]]:
    """A log to add to, beginning with what is run."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "ab", buffering=0) as file:
            file.write(f"$ {heading}\n".encode(errors="backslashreplace"))
            yield file
    except OSError as error:
        raise OutputRefused(f"{path}: cannot be written: {reason_of(error)}") from None

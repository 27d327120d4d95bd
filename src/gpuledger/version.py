"""Which gpuledger this is."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path


def own_version() -> str:
    """The version that is installed; `source` where the package is run from its source tree and installed nowhere."""
    return installed_version("gpuledger")


@cache
def installed_version(package: str) -> str:
    """Stands in the name of the folder that an installer leaves; to import what reads such folders takes 20 ms."""
    for folder in sys.path:
        with suppress(OSError):
            for name in os.listdir(folder or "."):
                if name.startswith(f"{package}-") and name.endswith(".dist-info"):
                    return name.removeprefix(f"{package}-").removesuffix(".dist-info")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "source"


@cache
def code_state(*rooms: str) -> str:
    """Stands for the code of some rooms: the version, and the times of its files, for changes that have no version."""
    package = Path(__file__).parent
    files = sorted(file for room in rooms for file in _times(str(package / room), len(str(package)) + 1))
    return repr((own_version(), files))


def _times(folder: str, below: int) -> Iterator[tuple[str, int]]:
    """Each file at any depth, by the part of its name from `below` on, and when it was changed."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _times(entry.path, below)
            else:
                yield entry.path[below:], entry.stat().st_mtime_ns

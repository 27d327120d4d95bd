"""Which gpuledger this is."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path


@cache
def own_version() -> str:
    """The version that is installed; `source` where the package is run from its source tree and installed nowhere.

    It stands in the name of the folder that an installer leaves; to import what reads such folders takes 20 ms.
    """
    for folder in sys.path:
        with suppress(OSError):
            for name in os.listdir(folder or "."):
                if name.startswith("gpuledger-") and name.endswith(".dist-info"):
                    return name.removeprefix("gpuledger-").removesuffix(".dist-info")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("gpuledger")
    except PackageNotFoundError:
        return "source"


@cache
def code_state(*rooms: str) -> str:
    """Stands for the code of some rooms: the version, and the times of its files, for changes that have no version."""
    package = Path(__file__).parent
    files = (path for room in rooms for path in sorted((package / room).rglob("*.*")) if path.suffix != ".pyc")
    return repr((own_version(), [(str(path.relative_to(package)), path.stat().st_mtime_ns) for path in files]))

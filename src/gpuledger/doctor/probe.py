"""How `doctor` looks at a machine: questions in, plain answers out; a test hands over a `Probe` of its own.

`here()` is this machine. No answer takes long, none is large, and nothing is changed but for a file that is written
into a folder and removed again, to see that it can be.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from gpuledger.system.machine import Machine, find_importer, find_ncu, find_nsys, machine
from gpuledger.system.processes import Ran, run
from gpuledger.version import own_version

_MOST_BYTES: Final = 1 << 16
"""Of a file in /proc or /sys; they are all shorter."""

_MOST_NAMES: Final = 1 << 17
_DRIVER_SECONDS: Final = 90.0
"""After that the driver hangs, which happens when a GPU has failed."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What can be asked."""

    find: Callable[[str], Path | None]
    """A program by name."""
    importer: Callable[[Path], Path | None]
    """The importer that belongs to an nsys."""
    start: Callable[[Sequence[str | Path], float], Ran]
    """Run a program to its end, within so many seconds, or ToolFailed."""
    read: Callable[[str], str | None]
    """A small file of the system; None if there is none."""
    listed: Callable[[str], tuple[str, ...]]
    """The names in a folder of the system."""
    environment: Mapping[str, str]
    machine: Callable[[], Machine]
    package: Callable[[str], str | None]
    """A package of Python by the name it is imported by: its version; None if it is not installed."""
    free_bytes: Callable[[Path], int | None]
    refusal: Callable[[Path], str]
    """Why nothing can be written into a folder; empty if it can."""
    scratch: Callable[[], AbstractContextManager[Path]]
    """A folder for a while."""
    folders: Mapping[str, Path]
    """Where profiles and temporary files would go, by what that is called."""
    python: Path
    versions: Mapping[str, str]
    """Of Python and of gpuledger."""


def here() -> Probe:
    """This machine."""
    return Probe(
        find=_find,
        importer=find_importer,
        start=lambda argv, seconds: run(argv, seconds=seconds),
        read=_read,
        listed=_listed,
        environment=os.environ,
        machine=_machine_in_time,
        package=_package,
        free_bytes=_free_bytes,
        refusal=_refusal,
        scratch=_scratch,
        folders={"this folder": Path.cwd(), "the temporary folder": Path(tempfile.gettempdir())},
        python=Path(sys.executable),
        versions={"Python": platform.python_version(), "gpuledger": own_version()},
    )


def _find(name: str) -> Path | None:
    special = {"nsys": find_nsys, "ncu": find_ncu}
    if name in special:
        return special[name]()
    found = shutil.which(name)
    return Path(found) if found else None


def _read(path: str) -> str | None:
    try:
        with Path(path).open("rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace")
    except OSError:
        return None  # not there, or not ours to read: both mean that it does not say


def _listed(path: str) -> tuple[str, ...]:
    try:
        return tuple(sorted(os.listdir(path)[:_MOST_NAMES]))
    except OSError:
        return ()


def _machine_in_time() -> Machine:
    """NVML is a library and cannot be stopped; a thread that waits for it can be left behind."""
    told: list[Machine] = []
    thread = threading.Thread(target=lambda: told.append(machine()), name="gpuledger driver", daemon=True)
    thread.start()
    thread.join(_DRIVER_SECONDS)
    late = f"the driver did not answer within {_DRIVER_SECONDS:.0f} s"
    return told[0] if told else Machine(None, None, (), late)


def _package(name: str) -> str | None:
    if find_spec(name) is None:
        return None
    try:
        return version(_DISTRIBUTIONS.get(name, name))
    except PackageNotFoundError:
        return "of unknown version"  # on the path, but not installed by pip


_DISTRIBUTIONS: Final = {"pynvml": "nvidia-ml-py", "ncu_report": "ncu-report", "vl_convert": "vl-convert-python"}


def _free_bytes(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def _refusal(folder: Path) -> str:
    try:
        with tempfile.NamedTemporaryFile(prefix=".gpuledger-doctor-", dir=folder) as file:
            file.write(b"\0" * 4096)
            file.flush()
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gpuledger-doctor-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)

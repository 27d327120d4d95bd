"""The programs we are compared with: the work folder in, where each is and which version out, or that it is not there.

`install` makes a virtual environment for each of those that PyPI has. It uses the network, so nothing calls it unasked.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuledger.system.machine import find_nsys, version_of

NSYS: Final = "nsys stats"
NSYS_AI: Final = "nsys-ai"
HTA: Final = "HolisticTraceAnalysis"
ALL: Final = NSYS, NSYS_AI, HTA

WANTED: Final = {
    # Without the extension in a wheel, nsys-ai's DuckDB fetches one from the network on every start, waits where there
    # is none, and falls back to something slower; 1.5.5 is the newest that is in a wheel.
    NSYS_AI: ("nsys-ai==0.3.0", "duckdb==1.5.5", "duckdb-extension-sqlite-scanner==1.5.5"),
    # 0.5.0 stops with a TypeError under pandas 3.
    HTA: ("HolisticTraceAnalysis==0.5.0", "pandas<3"),
}
"""What is installed for each."""

_WHOLE: Final = "installed"  # a file in the environment: what is cut short is not taken for whole
_EXTENSION: Final = """
import pathlib, duckdb, duckdb_extension_sqlite_scanner as wheel
[file] = pathlib.Path(wheel.__file__).parent.rglob("*.duckdb_extension")
duckdb.execute(f"INSTALL '{file}'")
"""


@dataclass(frozen=True, slots=True)
class Peer:
    """One of them. Without a program it is not installed."""

    name: str
    program: Path | None
    version: str
    beside: tuple[str, ...] = ()
    """What was installed with it for a reason, with versions."""

    @property
    def full_name(self) -> str:
        return f"{self.name} {self.version}" if self.program else self.name


def found(work: Path, nsys: Path | None = None) -> dict[str, Peer]:
    """What there is on this machine."""
    nsys = nsys or find_nsys()
    tool = Peer(NSYS, nsys, version_of(nsys) or "of an unknown version" if nsys else "")
    return {NSYS: tool, **{name: _in_environment(name, work) for name in WANTED}}


def environment(name: str, work: Path) -> Path:
    """The virtual environment of one."""
    return work.absolute() / "peers" / name


def home(work: Path) -> Path:
    """The home folder they get, so that they neither find nor leave anything in the user's."""
    return work.absolute() / "peers" / "home"


def install(work: Path, say: Callable[[str], None], names: Collection[str] = tuple(WANTED)) -> None:
    """Make the virtual environments that are not there."""
    home(work).mkdir(parents=True, exist_ok=True)
    for name, wheels in WANTED.items():
        if name not in names or _in_environment(name, work).program:
            continue
        say(f"installing {', '.join(wheels)}")
        folder = environment(name, work)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        python = str(folder / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", *wheels], check=True)
        if name == NSYS_AI:
            subprocess.run([python, "-c", _EXTENSION], check=True, env={**os.environ, "HOME": str(home(work))})
        (folder / _WHOLE).touch()


def _in_environment(name: str, work: Path) -> Peer:
    folder = environment(name, work)
    version = _version(name, folder)
    if not version or not (folder / _WHOLE).exists():
        return Peer(name, None, "")
    others = [re.split("[=<>]", wheel)[0] for wheel in WANTED[name][1:]]
    beside = tuple(f"{other} {_version(other, folder)}" for other in others)
    return Peer(name, folder / "bin" / "python", version, beside)


def _version(package: str, folder: Path) -> str:
    """Read from a folder's name: a Python that may be broken is better not asked."""
    stem = package.lower().replace("-", "_")
    described = sorted(folder.glob(f"lib/python*/site-packages/{stem}-*.dist-info"))
    return described[0].stem.split("-")[1] if described else ""

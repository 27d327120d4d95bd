"""The machine and the versions in words, without its name: they say how to read the seconds."""

from __future__ import annotations

import compileall
import os
import platform
import re
import sqlite3
from importlib.metadata import version
from pathlib import Path

import numpy as np

import gpuledger
from gpuledger.read import btree
from harness import memory


def machine() -> str:
    """Cores, memory, system."""
    total = memory.total_bytes()
    cores = f"{len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()} cores"
    found = [f"{cores} ({_processor()})", f"{total / 2**30:.0f} GiB of memory" if total else "memory not known"]
    return ", ".join([*found, f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}"])


def versions() -> tuple[str, ...]:
    """Of what we run on; those of the peers are theirs to say."""
    decoder = "with" if btree.is_there() else "without"
    return (
        f"gpuledger {version('gpuledger')}, {decoder} the native decoder",
        f"Python {platform.python_version()}",
        f"numpy {np.__version__}",
        f"SQLite {sqlite3.sqlite_version}",
    )


def compile_package() -> None:
    """Compile our modules, as an installer does with every program here.

    In a checkout Python does it when it may, one run late; where it may not write (PYTHONDONTWRITEBYTECODE), never.
    """
    compileall.compile_dir(str(Path(gpuledger.__file__).parent), quiet=2)


def load() -> str:
    """A warning where other work would spoil the figures; nothing on an idle machine."""
    busy, cores = os.getloadavg()[0], os.cpu_count() or 1
    return f"the machine was busy: load {busy:.1f} on {cores} cores" if busy > 0.4 * cores else ""


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except FileNotFoundError:
        found = None
    return found[1].strip() if found else platform.machine()

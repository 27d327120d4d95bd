"""The inputs: a number of kernels or events in, the path of a generated file out. Made once, then found again.

The name of a file holds a digest of the generator, so that a changed generator does not meet old files.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent.parent


def export_of(kernels: int, work: Path) -> Path:
    """An Nsight Systems SQLite export."""
    return _generated("gen_nsys.py", kernels, work, "sqlite")


def trace_of(events: int, work: Path) -> Path:
    """A trace of torch.profiler."""
    return _generated("gen_kineto.py", events, work, "json")


def _generated(generator: str, count: int, work: Path, suffix: str) -> Path:
    program = HERE / generator
    digest = hashlib.sha256(program.read_bytes()).hexdigest()[:8]
    path = work / "inputs" / f"{count}-{digest}.{suffix}"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".part.{suffix}")  # what is cut short is not taken for whole
    subprocess.run([sys.executable, str(program), str(part), str(count)], check=True, stdout=subprocess.DEVNULL)
    return part.rename(path)

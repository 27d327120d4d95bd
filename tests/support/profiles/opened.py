"""Profiles that several tests look at: each is unpacked, read and analysed once by a process, as nothing changes it."""

from __future__ import annotations

import atexit
import functools
import lzma
import shutil
import tarfile
import tempfile
from pathlib import Path

from gpuledger import Trace, build_report, open_trace
from gpuledger.selection import Selection
from gpuledger.verbs.profiled_report import Report


@functools.cache
def plain(path: Path) -> Path:
    """The profile itself; where it is packed with xz, an unpacked copy, and of an archive a folder."""
    if path.name.endswith(".tar.xz"):
        folder = _folder() / path.parent.name / path.name.removesuffix(".tar.xz")
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")
        return folder
    if path.suffix != ".xz":
        return path
    copy = _folder() / path.parent.name / path.stem
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(lzma.decompress(path.read_bytes()))
    return copy


@functools.cache
def _folder() -> Path:
    folder = tempfile.mkdtemp(prefix="gpuledger-tests-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@functools.cache
def trace_of(path: Path) -> Trace:
    """A profile as users read it."""
    return open_trace(plain(path))


@functools.cache
def report_of(path: Path) -> Report:
    """What is said of it."""
    return build_report(trace_of(path), path.name, Selection())

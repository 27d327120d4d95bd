"""A small profile for each reader, by its name: what tests of all readers, and the fuzzers, begin with."""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from support.command import ROOT
from support.profiles import perfetto_files, report_files, rocm_files, xplane_files
from support.profiles.nsys_exports import call, kernel, minimal
from support.profiles.opened import plain

_TRACE: Final = ROOT / "captures" / "torch" / "decode.json.gz"


def _archive(path: Path) -> Path:
    with tarfile.open(path, "w") as packed:
        packed.add(_TRACE, "rank0.json.gz")
    return path


def _report(path: Path) -> Path:
    made = report_files
    launches = [[made.call(100 * n, 100 * n + 10, n), made.kernel(100 * n + 20, 100 * n + 90, n)] for n in range(1, 9)]
    path.write_bytes(made.report(*launches, [made.copy(950, 960, 64), made.push_pop(5, 990, b"step")]))
    return path


def _json(path: Path) -> Path:
    path.write_bytes(gzip.decompress(_TRACE.read_bytes()))
    return path


SAMPLES: Final[Mapping[str, Callable[[Path], Path]]] = {
    "sqlite": lambda path: minimal(path, KERNEL=[kernel(10, 20)], RUNTIME=[call(1, 5)]),
    "nsys parquetdir and arrowdir": lambda _: next(
        plain(ROOT / "captures" / "nsys" / "decode.arrowdir.tar.xz").iterdir()
    ),
    "nsys report": _report,
    "archive": _archive,
    "json": _json,
    "rocprof csv": rocm_files.rocprof_csv,
    "perfetto": lambda path: perfetto_files.saved(path, perfetto_files.rocprofv3()),
    "xplane": xplane_files.xplane,
}
"""Each is written to a path whose name says nothing; one is a folder that is there already."""

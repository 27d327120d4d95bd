"""A .nsys-rep in, a Trace out, by way of NVIDIA's own `nsys export`: the format is NVIDIA's and not documented."""

from __future__ import annotations

from typing import Final

from gpuledger.capture.nsys.command import exported
from gpuledger.limits import Limits
from gpuledger.read.nsys.reader import read_export
from gpuledger.read.nsys.sqlite import open_sqlite
from gpuledger.read.request import Progress, WantedColumns
from gpuledger.read.source import Source, look_at
from gpuledger.trace.model import Trace

MAGIC: Final = b"NVIDIA Tegra Profiler Report"


class NsysRepReader:
    """Nsight Systems report -> Trace, where nsys is installed."""

    name = "nsys report"

    def recognises(self, source: Source) -> bool:
        return source.head.startswith(MAGIC)

    def read(self, source: Source, wanted: WantedColumns, limits: Limits, progress: Progress) -> Trace:
        progress("the report, with nsys export", 0)
        export = look_at(exported(source.path, seconds=limits.export_seconds))
        with open_sqlite(export, limits, progress) as tables:
            return read_export(tables, source.name, wanted, limits, progress)

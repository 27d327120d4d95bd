"""What Nsight Compute measured of single kernels: files in, `KernelReport` out. The content tells what each file is.

A file is a report (.ncu-rep), or text in which somewhere stands what `ncu --csv` prints.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.read import no_progress
from gpuledger.read.ncu.csv import UTF16, not_of_ncu, read_csv
from gpuledger.read.ncu.launch import NcuLaunches
from gpuledger.read.ncu.rep_file import MAGIC, read_report
from gpuledger.read.request import Progress
from gpuledger.read.source import Source, foreign, in_time, look_at, unchanged
from gpuledger.trace.measured import KernelReport


def open_kernels(
    paths: Sequence[str | Path],
    *,
    every_metric: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    progress: Progress = no_progress,
) -> KernelReport:
    """The launches in these files, in the order of the files.

    Of each launch, the metrics that an analysis may look at, or every one that ncu collected.
    """
    found = [_read(look_at(Path(path)), every_metric, limits, progress) for path in paths]
    return KernelReport(
        launches=tuple(launch for each in found for launch in each.launches),
        health=tuple(note for each in found for note in each.health),
        tool_version=next((each.tool_version for each in found if each.tool_version), None),
    )


def _read(source: Source, every_metric: bool, limits: Limits, progress: Progress) -> NcuLaunches:
    with unchanged(source):
        return _launches(source, every_metric, limits, progress)


def _launches(source: Source, every_metric: bool, limits: Limits, progress: Progress) -> NcuLaunches:
    if source.head.startswith(MAGIC):
        return read_report(source, every_metric, limits, progress)
    if refusal := foreign(source):
        raise refusal
    if not source.head or (b"\0" in source.head and not source.head.startswith(UTF16)):
        raise not_of_ncu(source)
    with in_time(source.name, limits):
        return read_csv(source, every_metric, limits, progress)

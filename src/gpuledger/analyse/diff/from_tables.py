"""A side from tables of `nsys stats`: sums of one run, no steps.

What sums cannot answer is left open: how long a step takes, when the GPU was idle, what is noise, what ran in a range.
The whole is the kernels' time. Kernels of one name are one, as a table gives no launch shapes and no places.
"""

from __future__ import annotations

from gpuledger.analyse.diff.from_trace import without_version
from gpuledger.analyse.diff.run_side import (
    KERNEL_TIME,
    NO_SHAPE,
    Call,
    Copied,
    RunKernel,
    RunRange,
    RunSide,
    StepLaunches,
    by_name,
    kernel_key,
    pooled,
)
from gpuledger.catalog.calls import call_kind
from gpuledger.catalog.kernel_families import family
from gpuledger.catalog.kernel_names import parse, without_ids
from gpuledger.errors import NothingRecorded
from gpuledger.trace.measured import PrintedTable, PrintedTables
from gpuledger.trace.model import Severity

_KERNELS = ("cuda_gpu_kern_sum", "cuda_gpu_kern_gb_sum")
_RANGES = ("nvtx_sum", "nvtx_pushpop_sum")
_BRACKETS = {"(": ")", "<": ">", "[": "]", "{": "}"}
_TIMES, _SIZES = "cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum"
_USED = (*_KERNELS, "cuda_api_sum", *_RANGES, _TIMES, _SIZES)


def side_of_tables(printed: PrintedTables, name: str, families: tuple[tuple[str, str], ...] = ()) -> RunSide:
    """The tables of one run, in comparable form."""
    tables = printed.tables
    if not any(report in tables for report in _USED):
        raise NothingRecorded(
            f"{name}: none of its tables can be compared",
            found=f"in it: {', '.join(tables)}",
            hint=f"these can: {', '.join(_USED)}",
        )
    kernel_table, range_table = (
        next((tables[report] for report in reports if report in tables), None) for reports in (_KERNELS, _RANGES)
    )
    kernels = () if kernel_table is None else _kernels(kernel_table, families)
    calls, launches = None, None
    if "cuda_api_sum" in tables:
        named = ((without_version(row.name), row) for row in tables["cuda_api_sum"].rows)
        calls = pooled((Call(name, call_kind(name), row.count, row.total_ns or 0) for name, row in named), by_name)
        launching = tuple(call for call in calls if call.kind == "launch")
        launches = StepLaunches((sum(call.calls for call in launching),), launching)
    times = {row.name: row for row in tables[_TIMES].rows} if _TIMES in tables else {}
    sizes = {row.name: row for row in tables[_SIZES].sizes} if _SIZES in tables else {}
    return RunSide(
        name=name,
        tool="nsys",
        whole=KERNEL_TIME,
        source=None,
        run_steps=(1,),
        length_ns=(sum(kernel.time_ns for kernel in kernels),),
        kernels=kernels,
        calls=calls,
        launches=launches,
        ranges=None if range_table is None else _ranges(range_table),
        copies=tuple(
            Copied(
                kind,
                times[kind].count if kind in times else sizes[kind].count,
                sizes[kind].total_bytes if kind in sizes else None,
                times[kind].total_ns or 0 if kind in times else 0,
            )
            for kind in dict.fromkeys((*times, *sizes))
        ),
        losses=tuple(note.sentence for note in printed.health if note.severity is not Severity.INFO),
    )


def _ranges(table: PrintedTable) -> tuple[RunRange, ...]:
    """Ranges by name; the default domain's colon goes, another domain stays."""
    named = ((without_ids(row.name.removeprefix(":")) or "(no name)", row) for row in table.rows if row.count)
    return pooled((RunRange(name, row.count, row.total_ns or 0) for name, row in named), by_name)


def _kernels(table: PrintedTable, families: tuple[tuple[str, str], ...]) -> tuple[RunKernel, ...]:
    named = ((_closed(row.name) if row.is_cut else row.name, row) for row in table.rows)
    kernels = (
        RunKernel(name, parse(name).bare, NO_SHAPE, NO_SHAPE, (), family(name, families), row.count, row.total_ns or 0)
        for name, row in named
    )
    return pooled(kernels, kernel_key)


def _closed(name: str) -> str:
    """A name that was cut short, with the brackets closed that it leaves open, so that it can be taken apart."""
    wanted = []
    for letter in name:
        if letter in _BRACKETS:
            wanted.append(_BRACKETS[letter])
        elif wanted and letter == wanted[-1]:
            wanted.pop()
    return name + "".join(reversed(wanted))

"""A side from tables of `nsys stats`: sums of one run, no steps.

What sums cannot answer is left open: how long a step takes, when the GPU was idle, what is noise, what ran in a range.
The whole is the kernels' time. Kernels of one name are one, as a table gives no launch shapes and no places.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
    added_ranges,
)
from gpuledger.catalog.calls import call_kind
from gpuledger.catalog.kernel_families import family
from gpuledger.catalog.kernel_names import parse, unnumbered
from gpuledger.errors import NothingRecorded
from gpuledger.trace.measured import PrintedTable, PrintedTables, SummaryRow
from gpuledger.trace.model import Severity

_KERNELS = ("cuda_gpu_kern_sum", "cuda_gpu_kern_gb_sum")
_RANGES = ("nvtx_sum", "nvtx_pushpop_sum")
_BRACKETS = {"(": ")", "<": ">", "[": "]", "{": "}"}
_USED = (*_KERNELS, "cuda_api_sum", *_RANGES, "cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum")


def side_of_tables(printed: PrintedTables, name: str, families: tuple[tuple[str, str], ...] = ()) -> RunSide:
    """The tables of one run, in comparable form."""
    tables = printed.tables
    if not any(report in tables for report in _USED):
        raise NothingRecorded(
            f"{name}: none of its tables can be compared",
            found=f"in it: {', '.join(tables)}",
            hint=f"these can: {', '.join(_USED)}",
        )
    kernels = _kernels(_first(tables, _KERNELS), families)
    calls = _calls(tables["cuda_api_sum"]) if "cuda_api_sum" in tables else None
    ranges = _first(tables, _RANGES)
    return RunSide(
        name=name,
        tool="nsys",
        whole=KERNEL_TIME,
        source=None,
        run_steps=(1,),
        length_ns=(sum(kernel.time_ns for kernel in kernels),),
        kernels=kernels,
        calls=calls,
        launches=None if calls is None else _launches(calls),
        ranges=None if ranges is None else _ranges(ranges),
        copies=_copies(tables),
        losses=tuple(note.sentence for note in printed.health if note.severity is not Severity.INFO),
    )


def _first(tables: Mapping[str, PrintedTable], reports: Iterable[str]) -> PrintedTable | None:
    return next((tables[report] for report in reports if report in tables), None)


def _kernels(table: PrintedTable | None, families: tuple[tuple[str, str], ...]) -> tuple[RunKernel, ...]:
    sums: dict[str, RunKernel] = {}
    for row in table.rows if table is not None else ():
        name = _closed(row.name) if row.is_cut else row.name
        bare = parse(name).bare
        held = sums.get(bare)
        calls, time = (held.calls, held.time_ns) if held else (0, 0)
        kind = family(name, families)
        sums[bare] = RunKernel(name, bare, NO_SHAPE, NO_SHAPE, (), kind, calls + row.count, time + _total(row))
    return tuple(sums.values())


def _closed(name: str) -> str:
    """A name that was cut short, with the brackets closed that it leaves open, so that it can be taken apart."""
    wanted = []
    for letter in name:
        if letter in _BRACKETS:
            wanted.append(_BRACKETS[letter])
        elif wanted and letter == wanted[-1]:
            wanted.pop()
    return name + "".join(reversed(wanted))


def _total(row: SummaryRow) -> int:
    return row.total_ns or 0


def _calls(table: PrintedTable) -> tuple[Call, ...]:
    sums: dict[str, Call] = {}
    for row in table.rows:
        name = without_version(row.name)
        held = sums.get(name)
        calls, time = (held.calls, held.time_ns) if held else (0, 0)
        sums[name] = Call(name, call_kind(name), calls + row.count, time + _total(row))
    return tuple(sums.values())


def _launches(calls: Iterable[Call]) -> StepLaunches:
    launching = tuple(call for call in calls if call.kind == "launch")
    return StepLaunches((sum(call.calls for call in launching),), launching)


def _ranges(table: PrintedTable) -> tuple[RunRange, ...]:
    """Ranges by name; the default domain's colon goes, another domain stays."""
    sums: dict[str, RunRange] = {}
    for row in table.rows:
        name = unnumbered(row.name.removeprefix(":")) or "(no name)"
        run_range = RunRange(name, row.count, _total(row))
        if row.count:
            sums[name] = added_ranges(sums[name], run_range, name) if name in sums else run_range
    return tuple(sums.values())


def _copies(tables: Mapping[str, PrintedTable]) -> tuple[Copied, ...]:
    times = {row.name: row for row in tables["cuda_gpu_mem_time_sum"].rows} if "cuda_gpu_mem_time_sum" in tables else {}
    sizes = (
        {row.name: row for row in tables["cuda_gpu_mem_size_sum"].sizes} if "cuda_gpu_mem_size_sum" in tables else {}
    )
    copies = []
    for name in dict.fromkeys((*times, *sizes)):
        count = times[name].count if name in times else sizes[name].count
        size = sizes[name].total_bytes if name in sizes else None
        copies.append(Copied(name, count, size, _total(times[name]) if name in times else 0))
    return tuple(copies)

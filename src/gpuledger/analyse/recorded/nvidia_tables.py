"""NVIDIA's summary tables by NVIDIA's names: which there are, what each needs, its rows, and why one cannot be made.

Calls on the host by function (a runtime call contains the driver calls that it makes, and both count in full); copies
and memsets by kind; kernels by name and launch shape; from the launch call to the kernel's end; NVTX ranges, on the
host and projected onto the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import numpy as np
from msgspec import Struct, field

from gpuledger.analyse.idle.launch_costs import CallTimes, by_function
from gpuledger.ledger.activity import calls_in_layers, cuda_calls, launches, short_names
from gpuledger.ledger.ranges import (
    RangeName,
    calls_in_ranges,
    distinct_range_names,
    ends_known,
    holding_calls,
    spans_of_time,
    thread,
)
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.model import NotMeasured, Trace, os_pid
from gpuledger.trace.spans import Ints, depths, parents
from gpuledger.trace.statistics import Statistics, summarise
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import NOT_RECORDED, Rows, Table


def cuda_api_sum(trace: Trace) -> tuple[CallTimes, ...]:
    """Time of each CUDA runtime and driver function."""
    return _most_time_first(cuda_calls(trace))


def osrt_sum(trace: Trace) -> tuple[CallTimes, ...]:
    """Time of each operating-system function."""
    return _most_time_first(calls_in_layers(trace, "os"))


def _most_time_first(calls: Rows) -> tuple[CallTimes, ...]:
    return tuple(sorted(by_function(calls), key=lambda function: (-function.times.total, function.order)))


class CopyTimes(Struct, frozen=True):
    """The copies of one kind: their times in nanoseconds, and their bytes."""

    operation: str  # NVIDIA's display name
    times: Statistics
    sizes: Statistics


Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]


def by_kind(trace: Trace, *, with_size: bool = False) -> list[CopyTimes]:
    """One entry per kind of copy, memsets as one kind, in no order; `with_size` of those whose bytes were recorded."""
    every = trace[Table.COPIES]
    copies = every.where((every.codes("kind") != NO_TEXT) & ((every["bytes"] >= 0) | (not with_size)))
    kinds = copies.codes("kind")
    first, number = group(kinds)
    return [
        CopyTimes("[CUDA memset]" if kind == "Memset" else f"[CUDA memcpy {kind}]", times, sizes)
        for kind, times, sizes in zip(
            copies.strings.decode(kinds[first]),
            summarise(copies.duration_ns, number),
            summarise(copies["bytes"], number),
            strict=True,
        )
    ]


def cuda_gpu_mem_time_sum(trace: Trace) -> tuple[CopyTimes, ...]:
    """Time of copies and memsets."""
    return tuple(sorted(by_kind(trace), key=lambda copies: (-copies.times.total, copies.operation)))


def cuda_gpu_mem_size_sum(trace: Trace) -> tuple[CopyTimes, ...]:
    """Bytes of copies and memsets."""
    return tuple(sorted(by_kind(trace, with_size=True), key=lambda copies: (-copies.sizes.total, copies.operation)))


class KernelTimes(Struct, frozen=True):
    """The executions of one kernel, in nanoseconds."""

    name: str
    times: Statistics


class KernelShapeTimes(KernelTimes, frozen=True):
    """The same in one launch shape."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]


def by_name(trace: Trace) -> list[KernelTimes]:
    """One entry per kernel name, in no particular order."""
    kernels = trace[Table.KERNELS]
    first, number = group(kernels.codes("name"))
    names = kernels.strings.decode(kernels.codes("name")[first])
    times = summarise(kernels.duration_ns, number)
    return [KernelTimes(name or "", statistics) for name, statistics in zip(names, times, strict=True)]


def cuda_gpu_kern_sum(trace: Trace) -> tuple[KernelTimes, ...]:
    """Time of each kernel."""
    return tuple(sorted(by_name(trace), key=lambda kernel: (-kernel.times.total, kernel.times.count, kernel.name)))


def cuda_gpu_kern_gb_sum(trace: Trace) -> tuple[KernelShapeTimes, ...]:
    """Time of each kernel, told apart by launch shape."""
    kernels = trace[Table.KERNELS]
    grids, blocks = kernels["grid"], kernels["block"]
    first, number = group(kernels.codes("name"), *grids.T, *blocks.T)
    by_shape = [
        KernelShapeTimes(name or "", statistics, tuple(grid), tuple(block))
        for name, grid, block, statistics in zip(
            kernels.strings.decode(kernels.codes("name")[first]),
            grids[first].tolist(),
            blocks[first].tolist(),
            summarise(kernels.duration_ns, number),
            strict=True,
        )
    ]
    by_shape.sort(key=lambda kernel: (-kernel.times.total, kernel.times.count, kernel.name, kernel.grid, kernel.block))
    return tuple(by_shape)


class KernelLaunchTimes(Struct, frozen=True):
    """The executions of one kernel that one thread launched on one device by one function, in nanoseconds."""

    pid: int
    tid: int
    device: int
    function: str
    kernel: str
    whole: Statistics  # from the call's start to the end of the call or of the kernel, whichever is later
    in_call: Statistics
    queued: Statistics | None
    """From the call's return to the kernel's start, of those that started no earlier; None where all did."""
    executed: Statistics


def cuda_kern_exec_sum(trace: Trace) -> tuple[KernelLaunchTimes, ...]:
    """From launch call to kernel end: T the whole, A the call, Q the wait in the queue, K the kernel.

    There is a Q only where the kernel started at or after the call's return; one that started earlier did not wait.
    """
    kernels, calls = trace[Table.KERNELS], cuda_calls(trace)
    kernel, call = launches(kernels, calls)
    call_start, call_end = calls["start_ns"][call], calls["end_ns"][call]
    start, end = kernels["start_ns"][kernel], kernels["end_ns"][kernel]
    functions, function = short_names(calls)
    owner = (calls["pid"][call], calls["tid"][call], kernels["device"][kernel])
    keys = (*owner, function[call], kernels.codes("name")[kernel])
    first, number = group(*keys)
    columns = (
        *(key[first].tolist() for key in keys),
        summarise(np.maximum(call_end, end) - call_start, number),
        summarise(call_end - call_start, number),
        summarise(end - start, number),
    )
    has_waited = start >= call_end
    some, waiting = group(number[has_waited])
    waits = summarise((start - call_end)[has_waited], waiting)
    queued = dict(zip(number[has_waited][some].tolist(), waits, strict=True))
    by_launch = [
        KernelLaunchTimes(
            pid=os_pid(pid),
            tid=tid,
            device=device,
            function=functions[function_code],
            kernel=kernels.strings.text(name_code) or "",
            whole=whole,
            in_call=in_call,
            queued=queued.get(position),
            executed=executed,
        )
        for position, (pid, tid, device, function_code, name_code, whole, in_call, executed) in enumerate(
            zip(*columns, strict=True)
        )
    ]
    by_launch.sort(key=lambda row: (-row.whole.average, row.pid, row.tid, row.device, row.function, row.kernel))
    return tuple(by_launch)


class RangeTimes(Struct, frozen=True):
    """The ranges of one name, on the host, in nanoseconds."""

    name: RangeName
    instances: int
    times: Statistics | None  # None where no range's end was recorded


class RangeProjection(Struct, frozen=True):
    """The ranges of one name in which something was launched, projected onto the GPU."""

    name: RangeName
    projected: Statistics
    """From the start of the first operation launched in a range to the end of the last, in nanoseconds."""
    host: Statistics  # on the host, in nanoseconds
    operations: Statistics  # launched in a range
    mean_level: float | None  # in the thread's tree; None where none has a level
    mean_children: float


class RangeKernelTimes(Struct, frozen=True):
    """The executions of one kernel that one thread launched in the ranges of one name, in nanoseconds."""

    range: RangeName | None  # None: in no range
    pid: int | None
    tid: int | None  # None where the launch call was not recorded
    range_instances: int
    kernel_instances: int
    kernel: str
    times: Statistics


def nvtx_sum(trace: Trace) -> tuple[RangeTimes, ...]:
    """Time of each range on the host."""
    ranges = spans_of_time(trace)
    return _host_times(ranges, ends_known=ends_known(ranges))


def nvtx_pushpop_sum(trace: Trace) -> tuple[RangeTimes, ...]:
    """Time of each push/pop range on the host."""
    ranges = spans_of_time(trace)
    stacked = ranges.where(ranges.codes("kind") == ranges.strings.code("push_pop"))
    return _host_times(stacked, ends_known=ends_known(ranges))


def _host_times(ranges: Rows, *, ends_known: bool) -> tuple[RangeTimes, ...]:
    names, number = distinct_range_names(ranges)
    times = [
        RangeTimes(name, times.count, times if ends_known else None)
        for name, times in zip(names, summarise(ranges.duration_ns, number), strict=True)
    ]
    return tuple(sorted(times, key=lambda row: (-row.times.total if row.times else 0, row.name.text, row.name.style)))


def nvtx_gpu_proj_sum(trace: Trace) -> tuple[RangeProjection, ...]:
    """Ranges projected onto the GPU: from the start of the first operation launched in them to the end of the last.

    All rows that one call made are one operation, so a graph launch counts once. A range in which nothing was
    launched is left out, also from its parent's children.
    """
    ranges = holding_calls(trace)
    calls = cuda_calls(trace)
    operation_call, start, end = _operations(trace, calls)
    holder, operation = calls_in_ranges(ranges, calls.where(_chosen(operation_call, len(calls))))
    used, instance = group(holder)
    projected_start = np.full(len(used), np.iinfo(np.int64).max)
    projected_end = np.full(len(used), np.iinfo(np.int64).min)
    np.minimum.at(projected_start, instance, start[operation])
    np.maximum.at(projected_end, instance, end[operation])
    operations = np.bincount(instance, minlength=len(used))
    kept = ranges.where(_chosen(holder[used], len(ranges)))
    level, children = _tree(kept)
    names, number = distinct_range_names(kept)
    has_level = level >= 0
    with_level = np.bincount(number[has_level], minlength=len(names)).tolist()
    levels = np.bincount(number[has_level], level[has_level], minlength=len(names)).tolist()
    projections = [
        RangeProjection(name, projected, host, launched, sum_ / count if count else None, below.average)
        for name, projected, host, launched, sum_, count, below in zip(
            names,
            summarise(projected_end - projected_start, number),
            summarise(kept.duration_ns, number),
            summarise(operations, number),
            levels,
            with_level,
            summarise(children, number),
            strict=True,
        )
    ]
    return tuple(sorted(projections, key=lambda row: (-row.projected.total, row.name.text, row.name.style)))


def _chosen(positions: Positions, count: int) -> Flags:
    mask = np.zeros(count, np.bool_)
    mask[positions] = True
    return mask


def _operations(trace: Trace, calls: Rows) -> tuple[Positions, Ints, Ints]:
    """Each call that made GPU work, in order, with the start of its first row and the end of its last."""
    start = np.full(len(calls), np.iinfo(np.int64).max)
    end = np.full(len(calls), np.iinfo(np.int64).min)
    for table in (Table.KERNELS, Table.COPIES):
        work = trace[table]
        row, call = launches(work, calls)
        np.minimum.at(start, call, work["start_ns"][row])
        np.maximum.at(end, call, work["end_ns"][row])
    launching = np.flatnonzero(end != np.iinfo(np.int64).min)
    return launching, start[launching], end[launching]


def _tree(ranges: Rows) -> tuple[Ints, Ints]:
    """Level and number of direct children of each range in its thread's tree, domains and styles together.

    Ranges with the very same bounds are each other's parent for NVIDIA: they never reach a root and have no level (-1).
    """
    start, end, group_of = ranges["start_ns"], ranges["end_ns"], thread(ranges)
    first, number = group(group_of, start, end)
    earliest = np.full(len(first), len(ranges), np.intp)
    np.minimum.at(earliest, number, np.arange(len(ranges)))
    twins = np.bincount(number, minlength=len(first)) > 1
    parent = parents(start, end, group_of)
    parent = np.where(parent >= 0, earliest[number[parent]], parent)
    level = depths(parent)
    of_twins = np.flatnonzero(twins[number])
    by_family = of_twins[np.argsort(number[of_twins], kind="stable")]
    is_first = np.diff(number[by_family], prepend=-1) != 0
    eldest = by_family[is_first][np.cumsum(is_first) - 1]
    parent[by_family] = eldest
    parent[by_family[is_first]] = by_family[np.flatnonzero(is_first) + 1]
    children = np.bincount(parent[parent >= 0], minlength=len(ranges)).astype(np.int64)
    if twins.any():
        level[_below_twins(parent, twins[number])] = -1
    return level, children


def _below_twins(parent: Positions, is_twin: Flags) -> Flags:
    """The twins and everything that descends from them."""
    ancestor = np.append(parent, -1)  # -1 is its own ancestor, at the end
    lost = np.append(is_twin, False)
    for _ in range(len(parent).bit_length()):  # each round doubles how far up `ancestor` points
        lost |= lost[ancestor]
        ancestor = ancestor[ancestor]
    return lost[:-1]


def nvtx_kern_sum(trace: Trace) -> tuple[RangeKernelTimes, ...]:
    """Kernels by the range that they were launched in; blank for those launched in none.

    Nested ranges of one name count a kernel once each in the times, and once in `Kern Inst`.
    """
    ranges, kernels = holding_calls(trace), trace[Table.KERNELS]
    calls = cuda_calls(trace)
    kernel, call = launches(kernels, calls)
    pair_range, pair = calls_in_ranges(ranges, calls.at(call))
    names, number = distinct_range_names(ranges)
    outside = np.setdiff1d(np.arange(len(call)), pair)
    orphan = np.setdiff1d(np.arange(len(kernels)), kernel)
    # one entry per (range instance, call, kernel), then those in no range, then those with no call
    none = np.full(len(outside) + len(orphan), NOT_RECORDED)
    instance = np.concatenate((pair_range, none))
    name_of = np.concatenate((number[pair_range], none))
    entry_call = np.concatenate((call[pair], call[outside], np.full(len(orphan), NOT_RECORDED)))
    entry_kernel = np.concatenate((kernel[pair], kernel[outside], orphan))
    pid, tid = (np.append(calls[column], NOT_RECORDED)[entry_call] for column in ("pid", "tid"))
    first, groups = group(name_of, pid, tid, kernels.codes("name")[entry_kernel])
    rows = zip(
        first.tolist(),
        _distinct(groups, instance, len(first)).tolist(),
        _distinct(groups, entry_kernel, len(first)).tolist(),
        summarise(kernels.duration_ns[entry_kernel], groups),
        strict=True,
    )
    by_range = [
        RangeKernelTimes(
            range=names[name_of[entry]] if name_of[entry] >= 0 else None,
            pid=None if pid[entry] == NOT_RECORDED else os_pid(int(pid[entry])),
            tid=None if tid[entry] == NOT_RECORDED else int(tid[entry]),
            range_instances=instances if name_of[entry] >= 0 else 0,
            kernel_instances=executed,
            kernel=kernels.strings.text(int(kernels.codes("name")[entry_kernel[entry]])) or "",
            times=times,
        )
        for entry, instances, executed, times in rows
    ]

    def rank(row: RangeKernelTimes) -> tuple[str, int, int, int, str, str]:
        text, style = (row.range.text, row.range.style) if row.range else ("", "")
        pid, tid = (NOT_RECORDED if number is None else number for number in (row.pid, row.tid))
        return text, pid, tid, -row.times.total, style, row.kernel

    return tuple(sorted(by_range, key=rank))


def _distinct(groups: Positions, values: Ints, count: int) -> Ints:
    first, _ = group(groups, values)
    return np.bincount(groups[first], minlength=count)


class OperationTimes(Struct, frozen=True):
    """One kernel, kind of copy or function, in nanoseconds."""

    category: str  # NVIDIA's word for what it is
    operation: str
    times: Statistics


def cuda_gpu_sum(trace: Trace, calls: Sequence[OperationTimes] = ()) -> tuple[OperationTimes, ...]:
    """Time of kernels, copies and memsets."""
    operations = (
        *calls,
        *(OperationTimes("CUDA_KERNEL", kernel.name, kernel.times) for kernel in by_name(trace)),
        *(OperationTimes("MEMORY_OPER", copies.operation, copies.times) for copies in by_kind(trace)),
    )
    return tuple(sorted(operations, key=lambda operation: (-operation.times.total, operation.operation)))


def cuda_api_gpu_sum(trace: Trace) -> tuple[OperationTimes, ...]:
    """Time of CUDA calls, kernels, copies and memsets."""
    calls = cuda_calls(trace)  # `cudaMemcpy_v3020` and `cudaMemcpy_v7000` are one
    names, short = short_names(calls)
    first, number = group(short)
    times = zip(short[first].tolist(), summarise(calls.duration_ns, number), strict=True)
    return cuda_gpu_sum(trace, [OperationTimes("CUDA_API", names[code], statistics) for code, statistics in times])


R = TypeVar("R")


class NvidiaReport(Struct, Generic[R], frozen=True):
    """One of NVIDIA's tables, whose rows are of type R.

    `needs` must all be in the profile, and one of `any_of` at least. Of large tables only `columns` are read. Where
    `may_be_empty`, a profile without such events gives a table without rows: a program may well not copy anything, and
    OS calls are traced only on request.
    """

    make: Callable[[Trace], tuple[R, ...]]  # the function that has NVIDIA's name
    title: str
    needs: tuple[Table, ...] = ()
    any_of: tuple[Table, ...] = ()
    columns: Mapping[Table, tuple[str, ...]] = field(default_factory=dict)
    may_be_empty: bool = False

    @property
    def name(self) -> str:
        return self.make.__name__

    @property
    def reads(self) -> dict[Table, frozenset[str]]:
        every = {table: tuple(column.name for column in table.schema.columns) for table in self.needs + self.any_of}
        return {table: frozenset(self.columns.get(table, names)) for table, names in every.items()}

    def rows(self, trace: Trace) -> tuple[R, ...] | NotMeasured:
        """The rows in NVIDIA's order, or why this profile cannot give them. No rows are an answer too."""
        return (not self.may_be_empty and self._missing(trace)) or self.make(trace)

    def _missing(self, trace: Trace) -> NotMeasured | None:
        if absent := trace.missing(*self.needs):
            return absent
        if self.any_of and all(trace.missing(table) for table in self.any_of):
            return NotMeasured("; ".join(trace.absent[table].reason for table in self.any_of))
        if Table.CALLS in self.needs and not len(cuda_calls(trace)):
            return NotMeasured("no CUDA calls were recorded (looked for CUPTI_ACTIVITY_KIND_RUNTIME)")
        return None


_GPU: Final = (Table.KERNELS, Table.COPIES)
_BY_NAME: Final = {Table.KERNELS: ("name",), Table.CALLS: ("name", "layer")}
_LAUNCHED: Final = {
    Table.KERNELS: ("name", "device", "pid", "correlation"),
    Table.CALLS: ("name", "layer", "pid", "tid", "correlation"),
}

NVIDIA_REPORTS: Final[Mapping[str, NvidiaReport[Any]]] = {
    report.name: report
    for report in (
        NvidiaReport(cuda_gpu_kern_sum, "CUDA GPU Kernel Summary", needs=(Table.KERNELS,), columns=_BY_NAME),
        NvidiaReport(
            cuda_gpu_kern_gb_sum,
            "CUDA GPU Kernel/Grid/Block Summary",
            needs=(Table.KERNELS,),
            columns={Table.KERNELS: ("name", "grid", "block")},
        ),
        NvidiaReport(cuda_api_sum, "CUDA API Summary", needs=(Table.CALLS,), columns=_BY_NAME),
        NvidiaReport(cuda_gpu_sum, "CUDA GPU Summary (Kernels/MemOps)", any_of=_GPU, columns=_BY_NAME),
        NvidiaReport(
            cuda_api_gpu_sum, "CUDA Summary (API/Kernels/MemOps)", any_of=(*_GPU, Table.CALLS), columns=_BY_NAME
        ),
        NvidiaReport(
            cuda_gpu_mem_time_sum, "CUDA GPU MemOps Summary (by Time)", needs=(Table.COPIES,), may_be_empty=True
        ),
        NvidiaReport(
            cuda_gpu_mem_size_sum, "CUDA GPU MemOps Summary (by Size)", needs=(Table.COPIES,), may_be_empty=True
        ),
        NvidiaReport(
            cuda_kern_exec_sum,
            "CUDA Kernel Launch & Exec Time Summary",
            needs=(Table.KERNELS, Table.CALLS),
            columns=_LAUNCHED,
        ),
        NvidiaReport(nvtx_sum, "NVTX Range Summary", needs=(Table.RANGES,)),
        NvidiaReport(nvtx_pushpop_sum, "NVTX Push/Pop Range Summary", needs=(Table.RANGES,)),
        NvidiaReport(
            nvtx_gpu_proj_sum,
            "NVTX GPU Projection Summary",
            needs=(Table.RANGES, Table.CALLS),
            any_of=_GPU,
            columns=_LAUNCHED,
        ),
        NvidiaReport(
            nvtx_kern_sum,
            "NVTX Range Kernel Summary",
            needs=(Table.RANGES, Table.KERNELS, Table.CALLS),
            columns=_LAUNCHED,
        ),
        NvidiaReport(osrt_sum, "OS Runtime Summary", needs=(Table.CALLS,), columns=_BY_NAME, may_be_empty=True),
    )
}


def columns_for(reports: Iterable[NvidiaReport[Any]]) -> dict[Table, frozenset[str]]:
    """What has to be read to make these reports."""
    wanted: dict[Table, frozenset[str]] = {}
    for report in reports:
        for table, names in report.reads.items():
            wanted[table] = wanted.get(table, frozenset()) | names
    return wanted

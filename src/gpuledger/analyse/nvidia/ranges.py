"""NVTX ranges: NVIDIA's nvtx_sum, nvtx_pushpop_sum, nvtx_gpu_proj_sum and nvtx_kern_sum.

Times of a range on the host and of the GPU work launched in it are two things: work belongs to a range through its
launch call, which must lie wholly within the range on the same thread. It belongs to every range around the call,
not just the innermost, so rows of nested ranges add up to more than the whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuledger.ledger.calls import cuda_calls
from gpuledger.ledger.launches import launches
from gpuledger.ledger.ranges import RangeName, calls_in_ranges, ends_known, holding_calls, named, spans_of_time, thread
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.model import Trace, os_pid
from gpuledger.trace.spans import Ints, depths, parents
from gpuledger.trace.statistics import Statistics, summarise
from gpuledger.trace.tables import NOT_RECORDED, Rows, Table

Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class RangeTimes:
    """The ranges of one name, on the host, in nanoseconds."""

    name: RangeName
    instances: int
    times: Statistics | None
    """None where no range's end was recorded."""


@dataclass(frozen=True, slots=True)
class RangeProjection:
    """The ranges of one name in which something was launched, projected onto the GPU."""

    name: RangeName
    projected: Statistics
    """From the start of the first operation launched in a range to the end of the last, in nanoseconds."""
    host: Statistics
    """On the host, in nanoseconds."""
    operations: Statistics
    """Launched in a range."""
    mean_level: float | None
    """In the thread's tree; None where none has a level."""
    mean_children: float


@dataclass(frozen=True, slots=True)
class RangeKernelTimes:
    """The executions of one kernel that one thread launched in the ranges of one name, in nanoseconds."""

    range: RangeName | None
    """None: in no range."""
    pid: int | None
    tid: int | None
    """None where the launch call was not recorded."""
    range_instances: int
    kernel_instances: int
    kernel: str
    times: Statistics


def nvtx_sum(trace: Trace) -> tuple[RangeTimes, ...]:
    """Time of each range on the host."""
    ranges = spans_of_time(trace)
    return _host_times(ranges, ends_known(ranges))


def nvtx_pushpop_sum(trace: Trace) -> tuple[RangeTimes, ...]:
    """Time of each push/pop range on the host."""
    ranges = spans_of_time(trace)
    stacked = ranges.where(ranges.codes("kind") == ranges.strings.code("push_pop"))
    return _host_times(stacked, ends_known(ranges))


def _host_times(ranges: Rows, ends_known: bool) -> tuple[RangeTimes, ...]:
    names, number = named(ranges)
    by_name = sorted(zip(names, summarise(ranges.duration_ns, number), strict=True), key=lambda pair: _named(pair[0]))
    if not ends_known:
        return tuple(RangeTimes(name, times.count, None) for name, times in by_name)
    by_name.sort(key=lambda pair: -pair[1].total)
    return tuple(RangeTimes(name, times.count, times) for name, times in by_name)


def _named(name: RangeName) -> tuple[str, str]:
    return name.text, name.style


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
    names, number = named(kept)
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
    return tuple(sorted(projections, key=lambda entry: (-entry.projected.total, *_named(entry.name))))


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
    names, number = named(ranges)
    outside = np.setdiff1d(np.arange(len(call)), pair)
    orphan = np.setdiff1d(np.arange(len(kernels)), kernel)
    # one entry per (range instance, call, kernel), then those in no range, then those with no call
    none = np.full(len(outside) + len(orphan), NOT_RECORDED)
    instance = np.concatenate((pair_range, none))
    named_at = np.concatenate((number[pair_range], none))
    entry_call = np.concatenate((call[pair], call[outside], np.full(len(orphan), NOT_RECORDED)))
    entry_kernel = np.concatenate((kernel[pair], kernel[outside], orphan))
    pid = np.where(entry_call >= 0, np.append(calls["pid"], 0)[entry_call], NOT_RECORDED)
    tid = np.where(entry_call >= 0, np.append(calls["tid"], 0)[entry_call], NOT_RECORDED)
    first, groups = group(named_at, pid, tid, kernels.codes("name")[entry_kernel])
    rows = zip(
        first.tolist(),
        _distinct(groups, instance, len(first)).tolist(),
        _distinct(groups, entry_kernel, len(first)).tolist(),
        summarise(kernels.duration_ns[entry_kernel], groups),
        strict=True,
    )
    by_range = [
        RangeKernelTimes(
            range=names[named_at[entry]] if named_at[entry] >= 0 else None,
            pid=None if pid[entry] == NOT_RECORDED else os_pid(int(pid[entry])),
            tid=None if tid[entry] == NOT_RECORDED else int(tid[entry]),
            range_instances=instances if named_at[entry] >= 0 else 0,
            kernel_instances=executed,
            kernel=kernels.strings.text(int(kernels.codes("name")[entry_kernel[entry]])) or "",
            times=times,
        )
        for entry, instances, executed, times in rows
    ]
    return tuple(sorted(by_range, key=_rank))


def _rank(entry: RangeKernelTimes) -> tuple[str, int, int, int, str, str]:
    text, style = _named(entry.range) if entry.range else ("", "")
    pid, tid = (NOT_RECORDED if number is None else number for number in (entry.pid, entry.tid))
    return text, pid, tid, -entry.times.total, style, entry.kernel


def _distinct(groups: Positions, values: Ints, count: int) -> Ints:
    """How many different values each group holds."""
    first, _ = group(groups, values)
    return np.bincount(groups[first], minlength=count)

"""NVTX ranges: NVIDIA's nvtx_sum, nvtx_pushpop_sum, nvtx_gpu_proj_sum and nvtx_kern_sum.

Times of a range on the host and of the GPU work launched in it are two things: work belongs to a range through its
launch call, which must lie wholly within the range on the same thread. It belongs to every range around the call,
not just the innermost, so rows of nested ranges add up to more than the whole.
"""

from __future__ import annotations

import numpy as np

from gpuledger.analyse.nvidia.columns import TIME_SHARE, spread_cells, spread_columns, time_cells, time_columns
from gpuledger.catalog.kernel_names import label
from gpuledger.ledger.calls import cuda_calls
from gpuledger.ledger.launches import launches
from gpuledger.ledger.ranges import RangeName, calls_in_ranges, ends_known, holding_calls, named, spans_of_time, thread
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.model import Trace, os_pid
from gpuledger.trace.spans import Ints, depths, parents
from gpuledger.trace.statistics import shares, summarise
from gpuledger.trace.tables import NOT_RECORDED, Rows, Table

_RANGE = Column("range", "Range", Unit.TEXT)
_STYLE = Column("style", "Style", Unit.TEXT, detail=6)


def nvtx_sum(trace: Trace) -> Sheet:
    """Time of each range on the host."""
    columns = (TIME_SHARE, *time_columns("instances", "Instances"), _STYLE, _RANGE)
    ranges = spans_of_time(trace)
    rows = tuple((*cells, name.style, name.text) for name, cells in _host_times(ranges, ends_known(ranges)))
    return Sheet("nvtx_sum", "NVTX Range Summary", columns, rows)


def nvtx_pushpop_sum(trace: Trace) -> Sheet:
    """Time of each push/pop range on the host."""
    columns = (TIME_SHARE, *time_columns("instances", "Instances"), _RANGE)
    ranges = spans_of_time(trace)
    stacked = ranges.where(ranges.codes("kind") == ranges.strings.code("push_pop"))
    rows = tuple((*cells, name.text) for name, cells in _host_times(stacked, ends_known(ranges)))
    return Sheet("nvtx_pushpop_sum", "NVTX Push/Pop Range Summary", columns, rows)


def _host_times(ranges: Rows, ends_known: bool) -> list[tuple[RangeName, tuple[Cell, ...]]]:
    names, number = named(ranges)
    groups = list(zip(names, summarise(ranges.duration_ns, number), strict=True))
    if not ends_known:
        groups.sort(key=lambda each: (each[0].text, each[0].style))
        return [(name, (None, None, times.count, None, None, None, None, 0.0)) for name, times in groups]
    groups.sort(key=lambda each: (-each[1].total, each[0].text, each[0].style))
    percent = shares([times.total for _, times in groups])
    return [(name, (share, *time_cells(times))) for share, (name, times) in zip(percent, groups, strict=True)]


def nvtx_gpu_proj_sum(trace: Trace) -> Sheet:
    """Ranges projected onto the GPU: from the start of the first operation launched in them to the end of the last.

    All rows that one call made are one operation, so a graph launch counts once. A range in which nothing was
    launched is left out, also from its parent's children.
    """
    ranges = holding_calls(trace)
    calls = cuda_calls(trace)
    operation_call, start, end = _operations(trace, calls)
    at, operation = calls_in_ranges(ranges, calls.where(_chosen(operation_call, len(calls))))
    used, instance = group(at)
    ranges_used = at[used]
    projected_start = np.full(len(used), np.iinfo(np.int64).max)
    projected_end = np.full(len(used), np.iinfo(np.int64).min)
    np.minimum.at(projected_start, instance, start[operation])
    np.maximum.at(projected_end, instance, end[operation])
    operations = np.bincount(instance, minlength=len(used))
    kept = ranges.where(_chosen(ranges_used, len(ranges)))
    level, children = _tree(kept)
    names, number = named(kept)
    projection = summarise(projected_end - projected_start, number)
    host = summarise(kept.duration_ns, number)
    launched = summarise(operations, number)
    below = summarise(children, number)
    has_level = level >= 0
    with_level = np.bincount(number[has_level], minlength=len(names)).tolist()
    levels = np.bincount(number[has_level], level[has_level], minlength=len(names)).tolist()
    rows = []
    for name_at, name in enumerate(names):
        cells: tuple[Cell, ...] = (
            name.text,
            name.style,
            projection[name_at].total,
            host[name_at].total,
            projection[name_at].count,
            *spread_cells(projection[name_at]),
            launched[name_at].total,
            launched[name_at].average,
            levels[name_at] / with_level[name_at] if with_level[name_at] else None,
            below[name_at].average,
        )
        rows.append(((-projection[name_at].total, name.text, name.style), cells))
    columns = (
        _RANGE,
        _STYLE,
        Column("total_proj_ns", "Total Proj Time", Unit.NS),
        Column("total_range_ns", "Total Range Time", Unit.NS, detail=1),
        Column("instances", "Range Instances", Unit.COUNT),
        *spread_columns("Proj "),
        Column("gpu_ops", "Total GPU Ops", Unit.COUNT, detail=1),
        Column("avg_gpu_ops", "Avg GPU Ops", Unit.MEAN, detail=6),
        Column("avg_level", "Avg Range Lvl", Unit.MEAN, detail=6),
        Column("avg_children", "Avg Num Child", Unit.MEAN, detail=6),
    )
    ranked = tuple(cells for _, cells in sorted(rows, key=lambda each: each[0]))
    return Sheet("nvtx_gpu_proj_sum", "NVTX GPU Projection Summary", columns, ranked)


def _chosen(positions: Positions, count: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    mask = np.zeros(count, np.bool_)
    mask[positions] = True
    return mask


def _operations(trace: Trace, calls: Rows) -> tuple[Positions, Ints, Ints]:
    """Each call that made GPU work, in order, with the start of its first row and the end of its last."""
    start = np.full(len(calls), np.iinfo(np.int64).max)
    end = np.full(len(calls), np.iinfo(np.int64).min)
    for table in (Table.KERNELS, Table.COPIES):
        work = trace[table]
        at, call = launches(work, calls)
        np.minimum.at(start, call, work["start_ns"][at])
        np.maximum.at(end, call, work["end_ns"][at])
    made = np.flatnonzero(end != np.iinfo(np.int64).min)
    return made, start[made], end[made]


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
    for family in np.flatnonzero(twins).tolist():
        members = np.flatnonzero(number == family)
        parent[members] = members[0]
        parent[members[0]] = members[1]
    children = np.bincount(parent[parent >= 0], minlength=len(ranges)).astype(np.int64)
    if twins.any():
        level[_below_twins(parent, twins[number])] = -1
    return level, children


def _below_twins(
    parent: Positions, is_twin: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """The twins and everything that descends from them."""
    lost = is_twin.copy()
    while True:
        more = lost | ((parent >= 0) & lost[parent])
        if (more == lost).all():
            return lost
        lost = more


def nvtx_kern_sum(trace: Trace) -> Sheet:
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
    times = summarise(kernels.duration_ns[entry_kernel], groups)
    instances = _distinct(groups, instance, len(first))
    executed = _distinct(groups, entry_kernel, len(first))
    rows = []
    for at, row in enumerate(first.tolist()):
        name = names[named_at[row]] if named_at[row] >= 0 else None
        kernel_name = kernels.strings.text(int(kernels.codes("name")[entry_kernel[row]])) or ""
        owner = (os_pid(int(pid[row])), int(tid[row]))
        cells: tuple[Cell, ...] = (
            name.text if name else None,
            name.style if name else None,
            *(None if each == NOT_RECORDED else each for each in owner),
            int(instances[at]) if name else 0,
            int(executed[at]),
            times[at].total,
            *spread_cells(times[at]),
            kernel_name,
        )
        text, style = (name.text, name.style) if name else ("", "")
        rows.append(((text, *owner, -times[at].total, style, kernel_name), cells))
    columns = (
        Column("range", "NVTX Range", Unit.TEXT),
        _STYLE,
        Column("pid", "PID", Unit.ID, detail=6),
        Column("tid", "TID", Unit.ID, detail=6),
        Column("range_instances", "NVTX Inst", Unit.COUNT, detail=1),
        Column("kernel_instances", "Kern Inst", Unit.COUNT),
        Column("total_ns", "Total Time", Unit.NS),
        *spread_columns(""),
        Column("kernel_name", "Kernel Name", Unit.TEXT, shorten=label),
    )
    ranked = tuple(cells for _, cells in sorted(rows, key=lambda each: each[0]))
    return Sheet("nvtx_kern_sum", "NVTX Range Kernel Summary", columns, ranked)


def _distinct(groups: Positions, values: Ints, count: int) -> Ints:
    """How many different values each group holds."""
    first, _ = group(groups, values)
    return np.bincount(groups[first], minlength=count)

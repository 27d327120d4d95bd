"""GPU work and the calls that launched it: the join, and NVIDIA's cuda_kern_exec_sum.

A call launched a row if both are of one process and carry one correlation id: ids repeat across processes. All
kernels of a graph share their launch's id, so each of them pairs with that one call.
"""

from __future__ import annotations

import numpy as np

from gpuledger.analyse.calls import cuda_calls, short_names
from gpuledger.analyse.sheet import Cell, Column, Digits, Sheet
from gpuledger.analyse.summary import Summary, spread_cells, spread_columns, summarise
from gpuledger.model.columns import by_row
from gpuledger.model.keys import Places, Positions, group, join
from gpuledger.model.names import label
from gpuledger.model.spans import Ints
from gpuledger.model.tables import NOT_RECORDED, Rows, Table
from gpuledger.model.trace import Trace, os_pid

_NOTHING_WAITED = (None, None, None, None, 0.0)

_COLUMNS = (
    Column("pid", "PID", Digits.WHOLE, detail=6),
    Column("tid", "TID", Digits.WHOLE, detail=6),
    Column("device", "DevId", Digits.WHOLE, detail=6),
    Column("count", "Count", Digits.WHOLE),
    Column("queued_count", "QCount", Digits.WHOLE, detail=6),
    *spread_columns("T", average_detail=0),
    *spread_columns("A", average_detail=0),
    *spread_columns("Q", average_detail=0),
    *spread_columns("K", average_detail=0),
    Column("api_name", "API Name", Digits.TEXT, detail=4),
    Column("kernel_name", "Kernel Name", Digits.TEXT, shorten=label),
)


def places_of(calls: Rows) -> Places | None:
    """Where each call lies by its process and id; None where only a join can tell."""
    return Places.of(calls["pid"], calls["correlation"])


def launches(work: Rows, calls: Rows, places: Places | None = None) -> tuple[Positions, Positions]:
    """All pairs (row of `work`, row of `calls`) where the call launched the work, in the order of `work`."""
    known = np.flatnonzero((work["correlation"] != NOT_RECORDED) & (work["pid"] != NOT_RECORDED))
    keys = work["pid"][known], work["correlation"][known]
    at, call = join(*keys, calls["pid"], calls["correlation"], places)
    return known[at], call


def launching_call(pid: Ints, correlation: Ints, calls: Rows, places: Places | None = None) -> Positions:
    """The row of `calls` that launched each activity, the first in time where several carry its id; -1 for none."""
    places = places or places_of(calls)
    is_known = (correlation != NOT_RECORDED) & by_row(lambda some: some != NOT_RECORDED, pid)
    if places is not None:
        straight = places.look_up(pid, correlation)
        return straight if is_known.all() else np.where(is_known, straight, -1)
    found = np.full(len(pid), -1, np.intp)
    known = np.flatnonzero(is_known)
    at, call = join(pid[known], correlation[known], calls["pid"], calls["correlation"])
    latest_first = np.lexsort((-calls["start_ns"][call],))
    found[known[at[latest_first]]] = call[latest_first]  # the earliest, written last, stands
    return found


def cuda_kern_exec_sum(trace: Trace) -> Sheet:
    """From launch call to kernel end: T the whole, A the call, Q the wait in the queue, K the kernel.

    There is a Q only where the kernel started at or after the call's return; one that started earlier did not wait.
    """
    kernels, calls = trace[Table.KERNELS], cuda_calls(trace)
    kernel, call = launches(kernels, calls)
    call_start, call_end = calls["start_ns"][call], calls["end_ns"][call]
    start, end = kernels["start_ns"][kernel], kernels["end_ns"][kernel]
    functions, function = short_names(calls)
    keys = (
        calls["pid"][call],
        calls["tid"][call],
        kernels["device"][kernel],
        function[call],
        kernels.codes("name")[kernel],
    )
    first, number = group(*keys)
    whole = summarise(np.maximum(call_end, end) - call_start, number)
    in_call = summarise(call_end - call_start, number)
    executed = summarise(end - start, number)
    queued = _where(start >= call_end, start - call_end, number)
    rows: list[tuple[Cell, ...]] = []
    order: list[tuple[float | int | str, ...]] = []
    for at, (pid, tid, device, api, name) in enumerate(zip(*(key[first].tolist() for key in keys), strict=True)):
        label = (os_pid(pid), tid, device)
        names = (functions[api], kernels.strings.text(name) or "")
        wait = queued.get(at)
        rows.append(
            (
                *label,
                whole[at].count,
                wait.count if wait else 0,
                *spread_cells(whole[at]),
                *spread_cells(in_call[at]),
                *(spread_cells(wait) if wait else _NOTHING_WAITED),
                *spread_cells(executed[at]),
                *names,
            )
        )
        order.append((-whole[at].average, *label, *names))
    ranked = tuple(rows[at] for at in sorted(range(len(rows)), key=order.__getitem__))
    return Sheet("cuda_kern_exec_sum", "CUDA Kernel Launch & Exec Time Summary", _COLUMNS, ranked)


def _where(mask: np.ndarray[tuple[int], np.dtype[np.bool_]], values: Ints, number: Positions) -> dict[int, Summary]:
    """The statistics of the values under `mask`, for the groups that have any."""
    chosen = number[mask]
    first, renumbered = group(chosen)
    return dict(zip(chosen[first].tolist(), summarise(values[mask], renumbered), strict=True))

"""GPU work and the calls that launched it: the join, and NVIDIA's cuda_kern_exec_sum.

A call launched a row if both are of one process and carry one correlation id: ids repeat across processes. All
kernels of a graph share their launch's id, so each of them pairs with that one call.
"""

from __future__ import annotations

import numpy as np

from gpuledger.analyse.nvidia.columns import spread_cells, spread_columns
from gpuledger.catalog.kernel_names import label
from gpuledger.ledger.calls import cuda_calls, short_names
from gpuledger.ledger.launches import launches
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.model import Trace, os_pid
from gpuledger.trace.spans import Ints
from gpuledger.trace.statistics import Statistics, summarise
from gpuledger.trace.tables import Table

_NOTHING_WAITED = (None, None, None, None, 0.0)

_COLUMNS = (
    Column("pid", "PID", Unit.ID, detail=6),
    Column("tid", "TID", Unit.ID, detail=6),
    Column("device", "DevId", Unit.ID, detail=6),
    Column("count", "Count", Unit.COUNT),
    Column("queued_count", "QCount", Unit.COUNT, detail=6),
    *spread_columns("T", average_detail=0),
    *spread_columns("A", average_detail=0),
    *spread_columns("Q", average_detail=0),
    *spread_columns("K", average_detail=0),
    Column("api_name", "API Name", Unit.TEXT, detail=4),
    Column("kernel_name", "Kernel Name", Unit.TEXT, shorten=label),
)


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


def _where(mask: np.ndarray[tuple[int], np.dtype[np.bool_]], values: Ints, number: Positions) -> dict[int, Statistics]:
    """The statistics of the values under `mask`, for the groups that have any."""
    chosen = number[mask]
    first, renumbered = group(chosen)
    return dict(zip(chosen[first].tolist(), summarise(values[mask], renumbered), strict=True))

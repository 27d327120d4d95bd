"""From the launch call to the kernel's end: NVIDIA's cuda_kern_exec_sum.

A call launched a kernel if both are of one process and carry one correlation id: ids repeat across processes. All
kernels of a graph share their launch's id, so each of them pairs with that one call.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuledger.ledger.calls import cuda_calls, short_names
from gpuledger.ledger.launches import launches
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.model import Trace, os_pid
from gpuledger.trace.spans import Ints
from gpuledger.trace.statistics import Statistics, summarise
from gpuledger.trace.tables import Table


@dataclass(frozen=True, slots=True)
class KernelLaunchTimes:
    """The executions of one kernel that one thread launched on one device by one function, in nanoseconds."""

    pid: int
    tid: int
    device: int
    function: str
    kernel: str
    whole: Statistics
    """From the call's start to the end of the call or of the kernel, whichever is later."""
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
    keys = (
        calls["pid"][call],
        calls["tid"][call],
        kernels["device"][kernel],
        function[call],
        kernels.codes("name")[kernel],
    )
    first, number = group(*keys)
    columns = (
        *(key[first].tolist() for key in keys),
        summarise(np.maximum(call_end, end) - call_start, number),
        summarise(call_end - call_start, number),
        summarise(end - start, number),
    )
    queued = _where(start >= call_end, start - call_end, number)
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
    return tuple(sorted(by_launch, key=_rank))


def _rank(launched: KernelLaunchTimes) -> tuple[float, int, int, int, str, str]:
    owner = (launched.pid, launched.tid, launched.device)
    return (-launched.whole.average, *owner, launched.function, launched.kernel)


def _where(mask: np.ndarray[tuple[int], np.dtype[np.bool_]], values: Ints, number: Positions) -> dict[int, Statistics]:
    """The statistics of the values under `mask`, for the groups that have any."""
    chosen = number[mask]
    first, renumbered = group(chosen)
    return dict(zip(chosen[first].tolist(), summarise(values[mask], renumbered), strict=True))

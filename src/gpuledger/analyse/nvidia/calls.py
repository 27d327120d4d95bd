"""Calls on the host by function: NVIDIA's cuda_api_sum and osrt_sum.

Nested calls count in full: a runtime call contains the driver calls that it makes.
"""

from __future__ import annotations

from gpuledger.analyse.call_times import CallTimes, by_function
from gpuledger.ledger.calls import cuda_calls, of_layers, short_names
from gpuledger.trace.keys import group
from gpuledger.trace.model import Trace
from gpuledger.trace.statistics import summarise
from gpuledger.trace.tables import Rows


def by_short_name(trace: Trace) -> list[CallTimes]:
    """One entry per display name of a CUDA function: `cudaMemcpy_v3020` and `cudaMemcpy_v7000` are one."""
    calls = cuda_calls(trace)
    names, short = short_names(calls)
    first, number = group(short)
    times = summarise(calls.duration_ns, number)
    return [
        CallTimes(names[code], code, statistics) for code, statistics in zip(short[first].tolist(), times, strict=True)
    ]


def cuda_api_sum(trace: Trace) -> tuple[CallTimes, ...]:
    """Time of each CUDA runtime and driver function."""
    return _most_time_first(cuda_calls(trace))


def osrt_sum(trace: Trace) -> tuple[CallTimes, ...]:
    """Time of each operating-system function."""
    return _most_time_first(of_layers(trace, "os"))


def _most_time_first(calls: Rows) -> tuple[CallTimes, ...]:
    return tuple(sorted(by_function(calls), key=lambda function: (-function.times.total, function.order)))

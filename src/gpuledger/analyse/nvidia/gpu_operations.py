"""All work in one table: NVIDIA's cuda_gpu_sum (kernels, copies) and cuda_api_gpu_sum (those and the host's calls)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuledger.analyse.nvidia import calls, copies, kernels
from gpuledger.trace.model import Trace
from gpuledger.trace.statistics import Statistics


@dataclass(frozen=True, slots=True)
class OperationTimes:
    """One kernel, kind of copy or function, in nanoseconds."""

    category: str
    """NVIDIA's word for what it is."""
    operation: str
    times: Statistics


def cuda_gpu_sum(trace: Trace) -> tuple[OperationTimes, ...]:
    """Time of kernels, copies and memsets."""
    return _most_time_first(_on_gpu(trace))


def cuda_api_gpu_sum(trace: Trace) -> tuple[OperationTimes, ...]:
    """Time of CUDA calls, kernels, copies and memsets."""
    on_host = [OperationTimes("CUDA_API", function.name, function.times) for function in calls.by_short_name(trace)]
    return _most_time_first(on_host + _on_gpu(trace))


def _on_gpu(trace: Trace) -> list[OperationTimes]:
    return [
        *(OperationTimes("CUDA_KERNEL", kernel.name, kernel.times) for kernel in kernels.by_name(trace)),
        *(OperationTimes("MEMORY_OPER", copied.operation, copied.times) for copied in copies.by_kind(trace)),
    ]


def _most_time_first(operations: Iterable[OperationTimes]) -> tuple[OperationTimes, ...]:
    return tuple(sorted(operations, key=lambda entry: (-entry.times.total, entry.operation)))

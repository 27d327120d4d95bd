"""A side of an alignment from what `gpuledger time` measured: the time of a forward, and whether it ran in a graph."""

from __future__ import annotations

import numpy as np

from gpuledger.analyse.align.forwards import ForwardKernel
from gpuledger.analyse.align.operation_side import OperationSide
from gpuledger.analyse.timed_operations import CALL, TimedOperation


def side_of_timing(timed: TimedOperation, name: str) -> OperationSide:
    """One operation, its usual call standing for a forward."""
    samples = np.array(timed.samples_ns).round().astype(np.int64)
    low, high = np.percentile(samples, (10, 90)).astype(np.int64).tolist()
    usual_ns = round(timed.median_ns)
    in_graph = timed.graph if timed.device == "cuda" else None
    return OperationSide(
        profile=name,
        gpu_name=timed.device_name,
        kernels=(ForwardKernel(CALL, usual_ns, in_graph=in_graph),),
        forwards=len(samples),
        compared=len(samples),
        alike=len(samples),
        spread_ns=(low, high),
        is_timed=True,
    )

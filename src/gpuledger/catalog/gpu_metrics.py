"""Counters that Nsight Systems samples on a GPU, by what they mean. Names vary between releases and generations."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final


class GpuMetric(StrEnum):
    """What a counter tells of a GPU; all but the clocks in percent of what the GPU could do in the time."""

    SM_ACTIVE = "sm_active"
    """Multiprocessors that have a warp."""
    SM_ISSUE = "sm_issue"
    """Issue slots of the multiprocessors that are used."""
    TENSOR = "tensor"
    """Cycles of the tensor cores."""
    WARPS = "warps"
    """Warps that are resident, of those that the multiprocessors have room for."""
    DRAM_READ = "dram_read"
    DRAM_WRITE = "dram_write"
    PCIE_IN = "pcie_in"
    """To the GPU."""
    PCIE_OUT = "pcie_out"
    GPU_ACTIVE = "gpu_active"
    """The compute or graphics engine has work."""
    SM_CLOCK = "sm_clock"
    """Hertz."""


OF_KERNELS: Final = (
    GpuMetric.SM_ACTIVE,
    GpuMetric.SM_ISSUE,
    GpuMetric.TENSOR,
    GpuMetric.WARPS,
    GpuMetric.DRAM_READ,
    GpuMetric.DRAM_WRITE,
)
"""What is told of each kernel."""

_NAMED: Final = {
    "sms active": GpuMetric.SM_ACTIVE,
    "sm active": GpuMetric.SM_ACTIVE,
    "sm issue": GpuMetric.SM_ISSUE,
    "tensor active": GpuMetric.TENSOR,
    "tensor active / fp16 active": GpuMetric.TENSOR,
    "compute warps in flight": GpuMetric.WARPS,
    "dram read bandwidth": GpuMetric.DRAM_READ,
    "dram read throughput": GpuMetric.DRAM_READ,
    "dram write bandwidth": GpuMetric.DRAM_WRITE,
    "dram write throughput": GpuMetric.DRAM_WRITE,
    "pcie rx throughput": GpuMetric.PCIE_IN,
    "pcie read throughput": GpuMetric.PCIE_IN,
    "pcie tx throughput": GpuMetric.PCIE_OUT,
    "pcie write throughput": GpuMetric.PCIE_OUT,
    "gr active": GpuMetric.GPU_ACTIVE,
    "gpu active": GpuMetric.GPU_ACTIVE,
    "gpc clock frequency": GpuMetric.SM_CLOCK,
}
"""By the name without its unit: sets of Turing, GA100, GA10x, AD10x, GH100, GB10x and GB20x."""

_NAME: Final = re.compile(r"(?P<name>[^\[]+?)\s*(?:\[(?P<unit>[^\]]*)\])?\s*")
_PERCENT: Final = frozenset((None, "Throughput %", "%"))
_CLOCK: Final = frozenset((None, "MHz", "Hz"))


def gpu_metric(name: str) -> GpuMetric | None:
    """What a counter of this name tells; None if it is none of those above, or has another unit, as a second column."""
    match = _NAME.fullmatch(name)
    metric = _NAMED.get(match["name"].lower()) if match else None
    if match is None or metric is None:
        return None
    return metric if match["unit"] in (_CLOCK if metric is GpuMetric.SM_CLOCK else _PERCENT) else None


WARPS_PER_SM: Final = {
    (7, 0): 64,
    (7, 5): 32,
    (8, 0): 64,
    (8, 6): 48,
    (8, 7): 48,
    (8, 9): 48,
    (9, 0): 64,
    (10, 0): 64,
    (10, 3): 64,
    (11, 0): 48,
    (12, 0): 48,
    (12, 1): 48,
}
"""Warps that a multiprocessor has room for, by compute capability (CUDA C++ programming guide)."""

L1_FILL_BYTES_PER_CYCLE: Final = 64
"""What one multiprocessor gets from the L2 cache in a cycle at most."""

"""Counters that profilers sample on a GPU, by what they mean. Names vary between tools, releases and generations."""

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
    DRAM = "dram"
    """Read and written together, where a profiler samples only that."""
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

MEMORY: Final = (GpuMetric.DRAM_READ, GpuMetric.DRAM_WRITE, GpuMetric.DRAM)
"""What moves to and from memory: reads and writes, or both in one; never all three of one GPU."""

VAGUE: Final = 20.0
"""Points: an interval that is wider says little of a counter. A class that depends on where in such an interval the
counter is, is not known."""

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
    "tensor core active": GpuMetric.TENSOR,
    "dram bw": GpuMetric.DRAM,
    "hbm bw": GpuMetric.DRAM,
    "dram throughput": GpuMetric.DRAM,
    "dram bandwidth": GpuMetric.DRAM,
    "hbm read": GpuMetric.DRAM_READ,
    "hbm write": GpuMetric.DRAM_WRITE,
    "dram read": GpuMetric.DRAM_READ,
    "dram write": GpuMetric.DRAM_WRITE,
    "sm clock": GpuMetric.SM_CLOCK,
}
"""By the name without its unit: nsys's sets of Turing, GA100, GA10x, AD10x, GH100, GB10x and GB20x; torch's names."""

_COUNTED: Final = {
    "sm__cycles_active": GpuMetric.SM_ACTIVE,
    "sm__inst_issued": GpuMetric.SM_ISSUE,
    "sm__inst_executed": GpuMetric.SM_ISSUE,
    "sm__pipe_tensor_cycles_active": GpuMetric.TENSOR,
    "sm__inst_executed_pipe_tensor": GpuMetric.TENSOR,
    "sm__warps_active": GpuMetric.WARPS,
    "dram__bytes_read": GpuMetric.DRAM_READ,
    "dram__read_throughput": GpuMetric.DRAM_READ,
    "dram__bytes_write": GpuMetric.DRAM_WRITE,
    "dram__write_throughput": GpuMetric.DRAM_WRITE,
    "dram__throughput": GpuMetric.DRAM,
    "gpu__dram_throughput": GpuMetric.DRAM,
}
"""CUPTI's own names of what is told in percent of the peak, without `_realtime`."""

_OF_PEAK: Final = re.compile(r"(?P<counter>\w+?)(?:_realtime)?\.(?:avg|sum)\.pct_of_peak_sustained_elapsed")
_NAME: Final = re.compile(r"(?P<name>[^\[]+?)\s*(?:\[(?P<unit>[^\]]*)\])?\s*")
_PERCENT: Final = frozenset((None, "Throughput %", "%"))
_CLOCK: Final = frozenset((None, "MHz", "Hz"))


def gpu_metric(name: str) -> GpuMetric | None:
    """What a counter of this name tells; None if it is none of those above, or has another unit, as a second column."""
    if counter := _OF_PEAK.fullmatch(name):
        return _COUNTED.get(counter["counter"])
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

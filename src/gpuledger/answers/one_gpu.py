"""What the verbs that ask about one GPU have found: a trace and a device in, every result of their analyses out.

The command line and agents ask the same functions, and views arrange what these give: no view runs an analysis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuledger.analyse.ranges.range_tree import RangeTree, range_tree
from gpuledger.ledger.device import Device
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.trace.tables import Table

if TYPE_CHECKING:
    from gpuledger.analyse.utilization.stretches import SampledUse


def sampled_use(trace: Trace, device: Device) -> SampledUse | None:
    """What kernels and stretches use of the GPU; None where nothing was sampled."""
    if Table.METRICS not in trace.tables:
        return None
    from gpuledger.analyse.utilization.stretches import use_of_device  # few profiles have samples

    use = use_of_device(trace, device)
    return None if isinstance(use, NotMeasured) else use


def ranges_of_gpu(trace: Trace, device: Device) -> RangeTree:
    """Host and GPU time by range; with what the kernels of each use of the GPU, where it was sampled."""
    if Table.METRICS not in trace.tables:
        return range_tree(trace, device)
    from gpuledger.analyse.utilization.kernel_use import use_of_kernels  # few profiles have samples

    use = use_of_kernels(trace, device.gpu, device.ledger.busy.stretches)
    return range_tree(trace, device, None if isinstance(use, NotMeasured) else use)

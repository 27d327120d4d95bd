"""What the verbs that ask about one GPU have found: a trace and a device in, every result of their analyses out.

The command line and agents ask the same functions, and views arrange what these give: no view runs an analysis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from gpuledger.analyse.operators.arithmetic import Inputs, OperatorWork, parse_inputs
from gpuledger.analyse.operators.costs import OperatorCosts, operator_costs
from gpuledger.analyse.range_tree import RangeTree, range_tree
from gpuledger.ledger.device import Device
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.trace.tables import Table

if TYPE_CHECKING:
    from gpuledger.analyse.operators.operators import OpGroup
    from gpuledger.analyse.utilization.stretches import SampledUse


def sampled_use(trace: Trace, device: Device) -> SampledUse | None:
    """What kernels and stretches use of the GPU; None where nothing was sampled."""
    if Table.METRICS not in trace.tables:
        return None
    from gpuledger.analyse.utilization.stretches import use_of_device  # few profiles have samples

    use = use_of_device(trace, device)
    return None if isinstance(use, NotMeasured) else use


class OperatorShape(Struct, frozen=True):
    """The launches of an operator with like inputs, and the work that these make, where it can be counted."""

    costs: OpGroup
    inputs: Inputs
    work: OperatorWork | None


class OperatorsAnswer(Struct, frozen=True):
    """What operators cost."""

    device: Device
    costs: OperatorCosts

    def shapes(self, most: int) -> list[OperatorShape]:
        """The first operators by inputs with GPU time or counted work; none where no inputs were recorded at all."""
        groups = self.costs.operators.by_inputs
        if all(group.inputs is None for group in groups):
            return []
        counted = {(work.name, work.inputs): work for work in self.costs.work.work}
        chosen = [group for group in groups if group.device_self_ns or (group.name, group.inputs) in counted]
        return [
            OperatorShape(
                group, parse_inputs(group.inputs) or Inputs((), ()), counted.get((group.name, group.inputs or ""))
            )
            for group in chosen[:most]
        ]


def operators_answer(trace: Trace, device: Device) -> OperatorsAnswer:
    """Host and GPU time by operator."""
    return OperatorsAnswer(device, operator_costs(trace, device))


def ranges_answer(trace: Trace, device: Device) -> RangeTree:
    """Host and GPU time by range; with what the kernels of each use of the GPU, where it was sampled."""
    if Table.METRICS not in trace.tables:
        return range_tree(trace, device)
    from gpuledger.analyse.utilization.kernel_use import use_of_kernels  # few profiles have samples

    use = use_of_kernels(trace, device.gpu, device.ledger.busy.stretches)
    return range_tree(trace, device, None if isinstance(use, NotMeasured) else use)

"""One GPU's operators over its steady steps: their times, their arithmetic, the host's part, and work in graphs."""

from __future__ import annotations

from dataclasses import dataclass

from gpuledger.analyse.operators.arithmetic import WorkDone, work_done
from gpuledger.analyse.operators.graph_names import GraphNames, graph_names
from gpuledger.analyse.operators.host_costs import HostCost, host_costs
from gpuledger.analyse.operators.operators import Ops, ops
from gpuledger.ledger.device import Device
from gpuledger.trace.model import Trace


@dataclass(frozen=True, slots=True, eq=False)
class OperatorCosts:
    """What operators cost on one GPU. Without operators in the profile, those are empty."""

    gpu: int
    steps: int
    operators: Ops
    work: WorkDone
    graphs: GraphNames
    host: tuple[HostCost, ...]


def operator_costs(trace: Trace, device: Device) -> OperatorCosts:
    """Ask all of it."""
    operators = ops(trace, device)
    return OperatorCosts(
        gpu=device.gpu,
        steps=device.step_count,
        operators=operators,
        work=work_done(trace, device, operators),
        graphs=graph_names(trace, device),
        host=host_costs(trace, device, operators),
    )

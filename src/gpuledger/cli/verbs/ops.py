"""`gpuledger ops`: time by operator."""

from __future__ import annotations

from gpuledger.cli.table_verbs import question
from gpuledger.ledger.device import Device
from gpuledger.present.views.questions import operators_of
from gpuledger.present.views.tables import TableAnswer
from gpuledger.trace.model import Trace


@question
def ops(trace: Trace, device: Device) -> TableAnswer:
    """Show what each operator costs in PROFILE: host and GPU time, shapes, TFLOP/s, MFU, work in graphs.

    GPU work belongs to the innermost operator around its launch call; self time is that operator's own, the other
    includes the operators inside. Rates need input shapes (record_shapes=True) and are of dense peak; attention
    is counted in full, as the profile does not say whether it is causal. Without operators, as in profiles of Nsight
    Systems, the tables by operator are empty.

    \b
    Examples:
      gpuledger ops trace.json.gz
      gpuledger ops trace.json.gz --format=json
      gpuledger ops trace.json.gz --format=csv -o ops.csv
    """
    return operators_of(trace, device)

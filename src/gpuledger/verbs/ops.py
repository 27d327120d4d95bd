"""What operators cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from gpuledger.verbs.definition import Profile, ProfileOptions

if TYPE_CHECKING:
    from gpuledger.present.views.work.operators import OpsAnswer


def ops(profile: Profile, **asked: Unpack[ProfileOptions]) -> OpsAnswer:
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
    from gpuledger.analyse.light.operator_costs import operator_costs
    from gpuledger.present.views.work.operators import ops_answer
    from gpuledger.verbs.profiles import columns_to_name_graphs, read_devices

    name, trace, devices = read_devices(profile, columns_to_name_graphs(), **asked)
    return ops_answer(name, trace, devices, [operator_costs(trace, device) for device in devices])

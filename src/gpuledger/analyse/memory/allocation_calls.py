"""The calls that allocate and free memory, over one GPU's steady steps."""

from __future__ import annotations

from gpuledger.analyse.call_times import CallTimes, most_time_first
from gpuledger.catalog.call_kinds import CallKind
from gpuledger.ledger.device import Device


def allocation_calls(device: Device) -> tuple[CallTimes, ...]:
    """By function, the most time first."""
    host = device.host
    is_alloc = host.are(CallKind.ALLOC)
    return most_time_first(host.calls.where(is_alloc & device.steady_calls))
